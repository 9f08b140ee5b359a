"""What stands behind the gateway: the servers of an mcp.json, and what it says of their tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from toolcrib.errors import SettingsError, SourceError
from toolcrib.indexers.readers.base import Source, is_object
from toolcrib.indexers.readers.mcp_config import Target, server_entries, servers_of
from toolcrib.records import Sensitivity, ToolSpec

__all__ = ["Overlay", "ServerConfig", "read_config"]

OURS = "toolcrib"
DISABLED = "disabledTools"


class Overlay(BaseModel):
    """What an entry says under `toolcrib` of its server's tools, which MCP has no words for.

    `tags` come to those that a tool has, `sensitivity` is that of all of them. `disabled` tools
    cannot be found or called, `always_active` ones are shown beside the search; both by name.
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
                "enabled": spec.name not in self.disabled,
            }
        )


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server: how to reach it, or in one line why that cannot be told."""

    name: str
    target: Target | None
    problem: str = ""
    overlay: Overlay = field(default_factory=Overlay)


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
        ServerConfig(each.name, each.target, each.problem, _overlay(source, each.name, servers))
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


def _overlay(source: Source, name: str, servers: Mapping[str, Any]) -> Overlay:
    """What the entry says of the server's tools; a slip there could show what must not be."""
    raw: Any = servers[name]
    if not is_object(raw):
        return Overlay()
    said, disabled = raw.get(OURS, {}), raw.get(DISABLED, [])
    if not is_object(said):
        raise source.error("must be an object", f"{name}.{OURS}")
    try:
        overlay = Overlay.model_validate(said)
        others = Overlay.model_validate({"disabled": disabled}).disabled
    except ValidationError as error:
        raise _refused(source, name, error, said) from None
    return overlay.model_copy(update={"disabled": overlay.disabled | others})


def _refused(
    source: Source, name: str, error: ValidationError, said: Mapping[str, Any]
) -> SourceError:
    fault = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(map(str, fault["loc"]))
    is_ours = not fault["loc"] or fault["loc"][0] != "disabled" or "disabled" in said
    place = f"{name}.{OURS}.{field}" if is_ours else f"{name}.{DISABLED}"
    return source.error(fault["msg"], place)
