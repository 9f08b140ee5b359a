"""What stands behind the gateway: the servers of an mcp.json, and what it says of their tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from toolcrib.errors import SettingsError
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_config import (
    Target,
    ToolFilter,
    fits_any,
    server_entries,
    servers_of,
)
from toolcrib.records import Sensitivity, ToolSpec
from toolcrib.records.codec import faults, is_object

__all__ = ["Overlay", "ServerConfig", "read_config"]

OURS = "toolcrib"


class Overlay(BaseModel):
    """What an entry says under `toolcrib` of its server's tools, which MCP has no words for.

    `tags` come to those that a tool has, `sensitivity` is that of all of them. `disabled` tools
    cannot be found or called, by name or glob; `always_active` ones are shown beside the search.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tags: tuple[str, ...] = ()
    sensitivity: Sensitivity = "public"
    disabled: frozenset[str] = frozenset()
    always_active: frozenset[str] = frozenset()

    def on(self, spec: ToolSpec) -> ToolSpec:
        """A tool as it is offered; what its server says of it stays what is approved."""
        return spec.model_copy(
            update={
                "tags": tuple(dict.fromkeys((*spec.tags, *self.tags))),
                "sensitivity": self.sensitivity,
                "always_active": spec.name in self.always_active,
                "enabled": not fits_any(spec.name, self.disabled),
            }
        )


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server: how to reach it, or in one line why that cannot be told.

    `tools` tells which of its tools its entry switches on.
    """

    name: str
    target: Target | None
    problem: str = ""
    tools: ToolFilter = field(default_factory=ToolFilter)
    overlay: Overlay = field(default_factory=Overlay)

    def offered(self, spec: ToolSpec) -> ToolSpec:
        """A tool as it is offered: switched off where the entry does that."""
        offered = self.overlay.on(spec)
        is_on = offered.enabled and self.tools.allows(spec.name)
        return offered.model_copy(update={"enabled": is_on})


def read_config(
    path: Path, env: Mapping[str, str], only: Collection[str] = ()
) -> tuple[ServerConfig, ...]:
    """The servers of an `mcp.json`, `only` those named where any are, with `env` filled in.

    An entry that cannot be used has its problem, and keeps no other from being used.

    Raises:
        SourceError: the file cannot be read, names no server or none that can be used, or what
            it says of tools cannot be understood; with file and field.
        SettingsError: one of `only` is not there.
    """
    source = Source.named(str(path))
    servers = servers_of(source)
    if not servers:
        raise source.error("names no MCP servers; put them under 'mcpServers' (VS Code: 'servers')")
    found = tuple(
        ServerConfig(
            each.name,
            each.target,
            each.problem,
            each.tools,
            _overlay(source, each.name, servers[each.name]),
        )
        for each in server_entries(servers, env)
    )
    known = {server.name for server in found}
    if missing := sorted(set(only) - known):
        raise SettingsError(
            f"{path} has no server {missing[0]!r} that is switched on; "
            f"there are {', '.join(sorted(known)) or 'none'}"
        )
    chosen = tuple(server for server in found if not only or server.name in only)
    if all(server.target is None for server in chosen):
        first = chosen[0] if chosen else None
        reason = first.problem if first else "every server is switched off"
        raise source.error(reason, first.name if first else "")
    return chosen


def _overlay(source: Source, name: str, raw: Any) -> Overlay:
    """What the entry says of the server's tools; a slip there could show what must not be."""
    said: Any = raw.get(OURS, {}) if is_object(raw) else {}
    if not is_object(said):
        raise source.error("must be an object", f"{name}.{OURS}")
    try:
        return Overlay.model_validate(said)
    except ValidationError as error:
        place, reason = faults(error)[0]
        raise source.error(reason, f"{name}.{OURS}.{place}") from None
