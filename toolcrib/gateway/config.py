"""Configuration of the gateway: the servers of an mcp.json, and overlays of their tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.errors import SettingsError
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_config import (
    NO_SERVERS,
    ServerEntry,
    ToolFilter,
    find_servers,
    server_entries,
)
from toolcrib.records import ToolSpec
from toolcrib.settings import ProfileSettings

ALL_TOOLS = ToolFilter()


def profile_filter(profile: ProfileSettings) -> ToolFilter:
    """Filter of tool ids by a profile."""
    return ToolFilter((profile.include,) if profile.include else (), profile.exclude)


@dataclass(frozen=True, slots=True)
class ServerConfig(ServerEntry):
    """Server entry with the filter of the gateway's profile, by id."""

    profile: ToolFilter = ALL_TOOLS

    def as_offered(self, spec: ToolSpec) -> ToolSpec:
        """Copy of a tool as offered, disabled if the entry switches it off."""
        offered = self.overlay.on(spec)
        is_on = offered.enabled and self.tools.allows(spec.name) and self.profile.allows(spec.id)
        return offered.model_copy(update={"enabled": is_on})


@dataclass(frozen=True, slots=True)
class McpFile:
    """An `mcp.json` with `env` for its variables; `only` limits servers, `profile` filters ids."""

    path: Path
    env: Mapping[str, str] = field(repr=False)
    only: tuple[str, ...] = ()
    profile: ToolFilter = ALL_TOOLS

    def read(self, *, may_be_empty: bool = False) -> tuple[ServerConfig, ...]:
        """Read the servers of the file.

        An unusable entry gets its `problem`. With `may_be_empty` all servers may be removed or
        switched off.

        Raises:
            SourceError: the file cannot be read or, without `may_be_empty`, has no server.
            SettingsError: a server of `only` is not there.
        """
        source = Source.by_name(str(self.path))
        servers = find_servers(source)
        if servers is None or not (servers or may_be_empty):
            raise source.error(NO_SERVERS)
        configs: list[ServerConfig] = []
        for each in server_entries(servers, self.env):
            entry = each.name, each.target, each.problem, each.tools, each.warnings, each.overlay
            configs.append(ServerConfig(*entry, self.profile))
        known = {server.name for server in configs}
        missing = sorted(set(self.only) - known)
        if missing and not may_be_empty:
            raise SettingsError(
                f"{self.path} has no server {missing[0]!r} that is switched on; "
                f"there are {', '.join(sorted(known)) or 'none'}"
            )
        chosen = tuple(server for server in configs if not self.only or server.name in self.only)
        if not (chosen or may_be_empty):
            raise source.error("every server is switched off")
        return chosen


def file_stamp(path: Path) -> tuple[int, ...]:
    """Stamp of a file that changes with its content; empty if the file is missing."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
