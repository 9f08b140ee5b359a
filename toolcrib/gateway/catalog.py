"""Tool catalog: the tools of all servers, by names that are safe, stable and unambiguous."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.authorization import AuthContext
from fastmcp.utilities.versions import VersionSpec
from mcp.types import Tool as McpTool
from mcp.types import ToolAnnotations
from pydantic import PrivateAttr, ValidationError

from toolcrib.caches import BoundedMap
from toolcrib.gateway.auth import reach
from toolcrib.integrations.formats import provider_name
from toolcrib.records import Scope, ToolSpec
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, from_scope, matches
from toolcrib.store.payload import tool_payload

__all__ = [
    "MAX_SCOPES_BYTES",
    "CatalogEntry",
    "CatalogProvider",
    "GatewayTool",
    "ToolCatalog",
]

MAX_SCOPES_BYTES = 4 * 2**20
"""Memory that the cache of tools within callers' scopes takes at most."""


def scope_bytes(scope: Scope | None, tools: Collection[object]) -> int:
    """About how many bytes a scope, and what is listed of it, take in memory."""
    return 8 * len(tools) + (scope.bytes if scope else 0)


@dataclass(frozen=True, slots=True, eq=False)
class CatalogEntry:
    """A tool as it is offered: under its own name at its server, under `name` at the gateway.

    The next catalog has the very same entry for a tool that did not change, so that nobody
    compares specifications to tell.
    """

    name: str
    spec: ToolSpec
    payload: Mapping[str, Any] = field(repr=False)

    def fits(self, where: Filter | None) -> bool:
        """Whether it passes a filter, as it would in a search."""
        return where is None or matches(where, point_id(self.spec.id), self.payload)


class ToolCatalog:
    """The tools on offer; never changed, another one takes its place.

    A tool is called as at every provider (`provider_name`), whatever other tools there are. So no
    server can take the name of another's tool.
    """

    def __init__(
        self, specs: Iterable[ToolSpec] = (), known: Mapping[str, CatalogEntry] | None = None
    ) -> None:
        enabled = sorted((spec for spec in specs if spec.enabled), key=lambda spec: spec.id)
        self._entries = {spec.id: _entry(spec, known or {}) for spec in enabled}
        self._named = _by_unique(self, lambda entry: entry.name)
        self._of_scopes: BoundedMap[Scope | None, tuple[CatalogEntry, ...]] = BoundedMap(
            MAX_SCOPES_BYTES, scope_bytes
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def get(self, tool_id: str) -> CatalogEntry | None:
        """The tool with this id."""
        return self._entries.get(tool_id)

    def named(self, name: str) -> CatalogEntry | None:
        """The tool of this name, of this id, or whose own name it is where only one has it."""
        return self._named.get(name) or self._entries.get(name) or self._only.get(name)

    @cached_property
    def _only(self) -> dict[str, CatalogEntry]:
        return _by_unique(self, lambda entry: entry.spec.name)

    def of(self, server: str) -> list[CatalogEntry]:
        """The tools of a server."""
        return [entry for entry in self if entry.spec.server == server]

    def within(self, scope: Scope | None) -> tuple[CatalogEntry, ...]:
        """The tools that a caller with a scope could find, by id."""
        return self._of_scopes.get_or_make(scope, partial(self._within, scope))

    def _within(self, scope: Scope | None) -> tuple[CatalogEntry, ...]:
        where = from_scope(scope)
        return tuple(entry for entry in self if entry.fits(where))

    def narrowed(self, listings: Mapping[str, Iterable[ToolSpec]]) -> ToolCatalog:
        """The same catalog without what these servers do not have, or no longer as it is."""
        kept = {spec.id: spec for specs in listings.values() for spec in specs}
        here = (entry.spec for entry in self)
        return ToolCatalog(
            (spec for spec in here if spec.server not in listings or kept.get(spec.id) == spec),
            self._entries,
        )

    def replaced(self, listings: Mapping[str, Iterable[ToolSpec]]) -> ToolCatalog:
        """The same catalog with other tools of some servers."""
        others = [entry.spec for entry in self if entry.spec.server not in listings]
        new = (spec for specs in listings.values() for spec in specs)
        return ToolCatalog([*others, *new], self._entries)


def _by_unique(
    entries: Iterable[CatalogEntry], name: Callable[[CatalogEntry], str]
) -> dict[str, CatalogEntry]:
    """Entries by a name that no other entry has."""
    named = [(name(entry), entry) for entry in entries]
    count = Counter(each for each, _ in named)
    return {each: entry for each, entry in named if count[each] == 1}


def _entry(spec: ToolSpec, known: Mapping[str, CatalogEntry]) -> CatalogEntry:
    """An entry; the one that is known, where it is the same."""
    last = known.get(spec.id)
    if last is not None and last.spec == spec:
        return last
    return CatalogEntry(provider_name(spec), spec, tool_payload(spec))


# -- as FastMCP has them -------------------------------------------------------------------------

Run: TypeAlias = Callable[[CatalogEntry, dict[str, Any], Context], Awaitable[ToolResult]]
"""What runs a tool for a request."""


class GatewayTool(Tool):
    """A tool of a server behind the gateway.

    It is made of what was judged and nothing else: icons and `_meta` of its server are left out.
    """

    _entry: CatalogEntry = PrivateAttr()
    _call: Run = PrivateAttr()

    @classmethod
    def of(cls, entry: CatalogEntry, note: str, scope: Scope, run: Run) -> GatewayTool:
        """A tool within a scope; `note` stands before its description."""
        spec, title = entry.spec, entry.spec.annotations.get("title")

        def is_granted(asked: AuthContext) -> bool:
            return entry.fits(from_scope(reach(asked.token, scope)))

        tool = cls(
            name=entry.name,
            title=title if isinstance(title, str) else None,
            description=" ".join(filter(None, (note, spec.description))) or None,
            parameters={"type": "object", "properties": {}, **spec.input_schema},
            output_schema=spec.output_schema or None,
            tags=set(spec.tags),
            auth=is_granted,
        )
        # Hints that are none are left out.
        with suppress(ValidationError):
            tool.annotations = ToolAnnotations.model_validate(spec.annotations or None)
        tool._entry, tool._call = entry, run
        return tool

    def to_mcp_tool(self, **overrides: Any) -> McpTool:
        """As clients are listed it: FastMCP would make up a title for a tool that has none."""
        return super().to_mcp_tool(**{"title": self.title, **overrides})

    @property
    def entry(self) -> CatalogEntry:
        """What it is made of."""
        return self._entry

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call it at its server."""
        return await self._call(self._entry, arguments, get_context())


class CatalogProvider(Provider):
    """Gives FastMCP the catalog's tools of now, within a scope.

    `note` says what is the matter with a server whose tools cannot be called at the moment.
    """

    def __init__(
        self, catalog: Callable[[], ToolCatalog], scope: Scope, note: Callable[[str], str], run: Run
    ) -> None:
        super().__init__()
        self._catalog, self._scope, self._note, self._run = catalog, scope, note, run
        self._made: dict[str, tuple[CatalogEntry, str, GatewayTool]] = {}

    async def _list_tools(self) -> Sequence[Tool]:
        return self.tools()

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        # Servers do not tell versions apart by name, so there is but one.
        del version
        entry = self._catalog().named(name)
        if entry is None or not entry.fits(from_scope(self._scope)):
            return None
        return self._tool(entry)[2]

    def tools(self) -> list[GatewayTool]:
        """Every tool of the catalog, by id."""
        # A listing may be asked for with every call, so a tool is made once.
        self._made = {e.spec.id: self._tool(e) for e in self._catalog().within(self._scope)}
        return [tool for _, _, tool in self._made.values()]

    def _tool(self, entry: CatalogEntry) -> tuple[CatalogEntry, str, GatewayTool]:
        note = self._note(entry.spec.server)
        known = self._made.get(entry.spec.id)
        if known is not None and known[0] is entry and known[1] == note:
            return known
        return entry, note, GatewayTool.of(entry, note, self._scope, self._run)
