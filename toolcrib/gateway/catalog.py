"""Tool catalog: the tools of all servers, by names that are safe, stable and unambiguous."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from math import fsum, log1p
from typing import TYPE_CHECKING, Any, TypeAlias

from fastmcp.server.auth import AccessToken
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.types import Tool as McpTool
from mcp.types import ToolAnnotations
from pydantic import Field, InstanceOf, PrivateAttr, ValidationError

from toolcrib.caches import BoundedMap
from toolcrib.integrations.formats import provider_meta
from toolcrib.integrations.providers import fit_definition
from toolcrib.records import Scope, ToolSpec
from toolcrib.records.definitions import OwnTool, may_name_another, provider_name
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, from_scope, matches
from toolcrib.store.payload import tool_payload
from toolcrib.text import count_of, name_words, tokenise

if TYPE_CHECKING:
    from toolcrib.gateway.index import GatewayIndex

MAX_SCOPE_TOOLS_BYTES = 4 * 2**20
"""Maximum memory of the cache of tools within callers' scopes."""


@dataclass(frozen=True, slots=True, eq=False)
class CatalogEntry:
    """Tool on offer: `spec.name` is its name at its server, `name` at the gateway.

    An unchanged tool keeps the same entry object in the next catalog: identity shows a change.
    """

    name: str
    spec: ToolSpec
    payload: Mapping[str, Any] = field(repr=False)

    def fits(self, where: Filter | None) -> bool:
        """True if the tool passes a filter, as in a search."""
        return where is None or matches(where, point_id(self.spec.id), self.payload)


class ToolCatalog:
    """Tools on offer; immutable.

    A tool has the same name as at every provider (`provider_name`), whatever other tools exist: no
    server can take the name of another server's tool.
    """

    def __init__(
        self, specs: Iterable[ToolSpec] = (), known: Mapping[str, CatalogEntry] | None = None
    ) -> None:
        enabled = sorted((spec for spec in specs if spec.enabled), key=lambda spec: spec.id)
        self._entries: dict[str, CatalogEntry] = {}
        for spec in enabled:
            last = (known or {}).get(spec.id)
            if last is None or last.spec != spec:
                last = CatalogEntry(provider_name(spec), spec, tool_payload(spec))
            self._entries[spec.id] = last
        count = Counter(entry.name for entry in self)
        self._by_name = {entry.name: entry for entry in self if count[entry.name] == 1}
        self._of_scopes: BoundedMap[Scope, tuple[CatalogEntry, ...]] = BoundedMap(
            MAX_SCOPE_TOOLS_BYTES, lambda scope, tools: scope.bytes + 8 * len(tools)
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def get(self, tool_id: str) -> CatalogEntry | None:
        """Tool with this id."""
        return self._entries.get(tool_id)

    def find(
        self, name: str, is_granted: Callable[[CatalogEntry], bool] | None = None
    ) -> CatalogEntry | None:
        """Granted tool with this name, this id, or this own name if no other granted one has it."""
        found = self._by_name.get(name) or self._entries.get(name)
        same = [found] if found else self._by_own_name.get(name, ())
        granted = [entry for entry in same if is_granted is None or is_granted(entry)]
        return granted[0] if len(granted) == 1 else None

    @cached_property
    def _by_own_name(self) -> dict[str, list[CatalogEntry]]:
        return by_own_name(self)

    def of(self, server: str) -> list[CatalogEntry]:
        """Tools of a server."""
        return [entry for entry in self if entry.spec.server == server]

    def within(self, scope: Scope) -> tuple[CatalogEntry, ...]:
        """Tools that a caller with a scope could find, by id."""

        def find() -> tuple[CatalogEntry, ...]:
            where = from_scope(scope)
            return tuple(entry for entry in self if entry.fits(where))

        return self._of_scopes.get_or_make(scope, find)

    def without_changed(self, listings: Mapping[str, Iterable[ToolSpec]]) -> ToolCatalog:
        """Copy without tools that these servers no longer list, or list changed."""
        kept = {spec.id: spec for specs in listings.values() for spec in specs}
        here = (entry.spec for entry in self)
        return ToolCatalog(
            (spec for spec in here if spec.server not in listings or kept.get(spec.id) == spec),
            self._entries,
        )

    def with_listing(self, server: str, specs: Iterable[ToolSpec]) -> ToolCatalog:
        """Copy with new tools of a server."""
        others = [entry.spec for entry in self if entry.spec.server != server]
        return ToolCatalog([*others, *specs], self._entries)


def by_own_name(entries: Iterable[CatalogEntry]) -> dict[str, list[CatalogEntry]]:
    """Entries by their own names, without names that could be another entry's name or id."""
    # Else a server could take the calls of another's tool that is held back or gone.
    named: dict[str, list[CatalogEntry]] = defaultdict(list)
    for entry in entries:
        if not may_name_another(entry.spec.name):
            named[entry.spec.name].append(entry)
    return named


def find_by_words(entries: Sequence[CatalogEntry], text: str) -> list[CatalogEntry]:
    """Entries with words of a text in name or description, best first; rare words count more."""
    terms = [{*tokenise(f"{each.spec.name}\n{each.spec.description}")} for each in entries]
    known = Counter(chain.from_iterable(terms))
    weights = {term: log1p(len(entries) / known[term]) for term in {*tokenise(text)} & known.keys()}
    scores = [fsum(weights[term] for term in weights.keys() & each) for each in terms]
    order = sorted(range(len(entries)), key=lambda place: (-scores[place], entries[place].name))
    return [entries[place] for place in order if scores[place]]


# -- tools for FastMCP ---------------------------------------------------------------------------

Run: TypeAlias = Callable[[CatalogEntry, dict[str, Any], Context], Awaitable[ToolResult]]
"""Function that runs a tool for a request."""


class GatewayTool(Tool):
    """Tool of a server behind the gateway.

    It contains only screened content: icons and `_meta` of its server are omitted, except what
    providers read there about the search for tools. `note` precedes the description.
    """

    entry: InstanceOf[CatalogEntry] = Field(exclude=True)
    note: str = Field(exclude=True)
    _call: Run = PrivateAttr()

    @classmethod
    def of(
        cls,
        entry: CatalogEntry,
        note: str,
        grants: Callable[[AccessToken | None], Callable[[CatalogEntry], bool]],
        run: Run,
    ) -> GatewayTool:
        """Tool for callers whose key `grants` it."""
        spec, title = entry.spec, entry.spec.annotations.get("title")
        schema, about = fit_definition(spec.input_schema, spec.description)
        # For another type than `object` clients before 2026 refuse the whole list.
        has_fields = spec.output_schema.get("type") == "object"
        tool = cls(
            entry=entry,
            note=note,
            name=entry.name,
            title=title if isinstance(title, str) else None,
            description=" ".join(filter(None, (note, about))) or None,
            parameters=schema,
            output_schema=spec.output_schema if has_fields else None,
            tags=set(spec.tags),
            meta=provider_meta(spec) or None,
            auth=lambda context: grants(context.token)(entry),
        )
        # Invalid hints are omitted.
        with suppress(ValidationError):
            tool.annotations = ToolAnnotations.model_validate(spec.annotations or None)
        tool._call = run
        return tool

    def to_mcp_tool(self, **overrides: Any) -> McpTool:
        """Tool as listed to clients; FastMCP would add a missing title."""
        return super().to_mcp_tool(**{"title": self.title, **overrides})

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool at its server."""
        return await self._call(self.entry, arguments, get_context())


class CatalogProvider(Provider):
    """Provider of an index's current tools for FastMCP, within the index's scope.

    `note` gives the reason why a server's tools cannot be called at the moment.
    """

    def __init__(self, index: GatewayIndex, note: Callable[[str], str], run: Run) -> None:
        super().__init__()
        self._index, self._note, self._run = index, note, run
        self._gateway_tools: dict[str, GatewayTool] = {}

    async def _list_tools(self) -> Sequence[Tool]:
        return self.tools()

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        # Tools of servers have no versions.
        del version
        entry = self._index.find(name, get_access_token())
        return None if entry is None else self._tool(entry)

    def tools(self) -> list[GatewayTool]:
        """All tools of the catalog, by id."""
        # FastMCP may list the tools with every call: cache them.
        here = self._index.catalog.within(self._index.scope)
        self._gateway_tools = {entry.spec.id: self._tool(entry) for entry in here}
        return list(self._gateway_tools.values())

    def _tool(self, entry: CatalogEntry) -> GatewayTool:
        note = self._note(entry.spec.server)
        known = self._gateway_tools.get(entry.spec.id)
        if known is not None and known.entry is entry and known.note == note:
            return known
        return GatewayTool.of(entry, note, self._index.grants, self._run)


# -- summary for a model -----------------------------------------------------------------------

MAX_SUMMARY_SERVERS = 15
MAX_SUMMARY_WORDS = 6
MAX_SUMMARY_NAME_CHARS = 40

_WORD = re.compile(r"[a-z]{3,16}")
"""Single plain words only: the texts come from untrusted servers."""

_NOT_PLAIN = re.compile(r"[^\w .-]+")

_COMMON_WORDS = frozenset(
    (  # noqa: SIM905 -- shorter than a list of literals
        "add all and are batch call can cancel check clear close convert copy count create "
        "current data delete describe disable download edit enable end execute export fetch file "
        "find for from generate get has help import info init insert into item items list load "
        "make manage many move multiple new not open parse patch ping post put query read remove "
        "rename reset resource result results retrieve return returns run save search send set "
        "show start status stop submit sync test that the this tool tools update upload use user "
        "using validate value view with write you your"
    ).split()
)
"""Verbs and words of grammar, which say little about a tool; its objects say much."""


def server_summary(tools: Iterable[ToolSpec]) -> str:
    """Servers with the number and the topics of their tools, equal for equal tools.

    Only single words come from the servers' own texts.
    """
    ordered = sorted(tools, key=lambda tool: (tool.server, tool.id))
    groups = [(name, list(group)) for name, group in groupby(ordered, lambda tool: tool.server)]
    groups.sort(key=lambda group: (-len(group[1]), group[0]))
    shown = [_server(name, group) for name, group in groups[:MAX_SUMMARY_SERVERS]]
    if len(groups) > MAX_SUMMARY_SERVERS:
        shown.append(f"and {len(groups) - MAX_SUMMARY_SERVERS} more servers")
    return "; ".join(shown)


def _server(name: str, tools: list[ToolSpec]) -> str:
    own = _words(name)
    topics = (_words(tool.name) | _words(tool.category) for tool in tools)
    counted = Counter(word for words in topics for word in words - _COMMON_WORDS - own)
    described = Counter(word for tool in tools for word in _words(tool.description))
    # Singular or plural, not both: "issue" or "issues".
    best: dict[str, str] = {}
    for word in sorted(counted, key=lambda word: (-counted[word], -described[word], word)):
        best.setdefault(word.removesuffix("s"), word)
    about = f": {', '.join(list(best.values())[:MAX_SUMMARY_WORDS])}" if best else ""
    many = count_of(len(tools), "tool")
    plain = " ".join(_NOT_PLAIN.sub(" ", name).split())
    return f"{plain[:MAX_SUMMARY_NAME_CHARS]} ({many}{about})"


def _words(text: str) -> set[str]:
    return {word for word in name_words(text) if _WORD.fullmatch(word)}


# -- call tools by risk --------------------------------------------------------------------------

CALL_TOOLS: Mapping[OwnTool, tuple[str, ToolAnnotations]] = {
    OwnTool.CALL_TOOL_READ: (
        "Call a found tool that only reads.",
        ToolAnnotations(read_only_hint=True),
    ),
    OwnTool.CALL_TOOL_WRITE: (
        "Call a found tool that writes, and destroys nothing.",
        ToolAnnotations(read_only_hint=False, destructive_hint=False),
    ),
    OwnTool.CALL_TOOL_DESTRUCTIVE: (
        "Call a found tool that may overwrite or delete, or does not say what it does.",
        ToolAnnotations(read_only_hint=False, destructive_hint=True),
    ),
}
"""Description and annotations of the call tool of each risk, the lowest first: a host can allow
reading for good, and ask its user before destructive calls."""


def call_tool_of(spec: ToolSpec) -> OwnTool:
    """Call tool of the lowest risk that may call a tool; by MCP, no hints mean destructive.

    Tags that a model guessed do not count: they must not lower the risk.
    """
    tags = spec.safety_tags
    if "destructive" in tags or not {"writes", "read_only"} & {*tags}:
        return OwnTool.CALL_TOOL_DESTRUCTIVE
    return OwnTool.CALL_TOOL_WRITE if "writes" in tags else OwnTool.CALL_TOOL_READ


def may_call(call_tool: OwnTool, spec: ToolSpec) -> bool:
    """True if a call tool may call a tool: it has the tool's risk, or a higher one."""
    order = list(CALL_TOOLS)
    return call_tool in order and order.index(call_tool) >= order.index(call_tool_of(spec))
