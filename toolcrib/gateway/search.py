"""Search of the gateway: what clients see in place of a long list, and where calls of it go."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, groupby
from time import monotonic
from typing import Any

from fastmcp.exceptions import NotFoundError
from fastmcp.server.auth import AccessToken
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.transforms import GetToolNext
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.types import CallToolRequestParams, TextContent

from toolcrib.caches import BoundedMap
from toolcrib.crib import Crib
from toolcrib.errors import QueryError, StoreError
from toolcrib.gateway.auth import reach
from toolcrib.gateway.calls import CallBudgets
from toolcrib.gateway.catalog import CatalogEntry, GatewayTool
from toolcrib.gateway.downstream import MAX_CONVERSATIONS, SHARED, conversation_key
from toolcrib.gateway.guidance import GatewayGuidance
from toolcrib.gateway.index import IS_SKILL, OPENING, GatewayIndex
from toolcrib.gateway.skills import GatewaySkills
from toolcrib.gateway.upstream import WORDS, Upstream, UpstreamPool
from toolcrib.integrations.fastmcp import (
    MAX_FOUND_TOOLS,
    READS_ONLY,
    SearchTool,
    ToolcribSearchTransform,
    definition,
    failure,
    search_answer,
    structured_answer,
    unknown_tool,
)
from toolcrib.integrations.formats import RESERVED
from toolcrib.records import FindResult, Scope, ToolHit, ToolSpec
from toolcrib.records.codec import as_json
from toolcrib.records.definitions import DefinitionForm, in_short, parameters_schema
from toolcrib.records.reports import ToolReadiness, Unready
from toolcrib.retrieval.options import SearchOptions
from toolcrib.settings import GatewaySettings
from toolcrib.store.base import point_id
from toolcrib.store.filters import And, HasId, Not, from_scope
from toolcrib.text import split_identifier

__all__ = ["GatewaySearch", "UnknownTools", "server_summary"]

FIND, DESCRIBE, _, CHECK, KNOWLEDGE = RESERVED[:5]

SEARCHING = (
    "Tools of several servers. Where you do not see the one that you need, call find_tools with "
    "what it must do, then call_tool with a name that it gave."
)
LISTING = (
    "Tools of several servers. If a search for tools is listed among them, use it before you say "
    "that something cannot be done."
)

MAX_INSTRUCTIONS = 16_000
"""Characters of servers' own instructions that a conversation begins with; more come with what is
found."""

DESCRIBE_SAYS = (
    "Give the whole schemas of tools that find_tools has named, where what it says of their "
    "parameters is not enough for a call."
)
CHECK_SAYS = (
    "Say of each tool whether it can be called now, or why not: unknown, disabled, quarantined, "
    "server_down, needs_authorisation."
)
INDEXING, UNINDEXED = "is still being indexed", "could not be indexed"
"""States of a server that is up and whose tools of now cannot be found."""

MAX_NAMED = 200
MAX_DESCRIBED_CHARS = 200_000
"""Of one answer of describe_tools; its first tool is given however long it is."""

KNOWLEDGE_SAYS = "Find passages of documents that answer a question, each with where it stands."
KNOWLEDGE_TAKES = {
    "query": {
        "type": "string",
        "description": "What is to be known, as a question or in a few words",
    },
    "k": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_FOUND_TOOLS,
        "description": "How many passages at most",
    },
    "collections": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Names of the collections to look in, if not in those that fit",
    },
    "token_budget": {
        "type": "integer",
        "minimum": 1,
        "description": "How many tokens of passages at most",
    },
}


class GatewaySearch(ToolcribSearchTransform):
    """Shows everything where it is little; else the search, what is pinned, what is always active.

    `scope` is what this gateway is for; a key narrows it. `pinned` are ids of tools.
    """

    def __init__(
        self,
        index: GatewayIndex,
        pool: UpstreamPool,
        budgets: CallBudgets,
        guidance: GatewayGuidance,
        *,
        scope: Scope,
        settings: GatewaySettings,
        pinned: Sequence[str] = (),
    ) -> None:
        super().__init__(k=settings.k, token_budget=settings.token_budget)
        self._form: DefinitionForm = "schema" if settings.schemas else "signature"
        self._tools, self._pool, self._budgets = index, pool, budgets
        self._guidance = guidance
        self._scope, self._pinned = scope, pinned
        self._pass_through = settings.pass_through
        self._crib: Crib | None = None
        self._told: BoundedMap[str, set[str]] = BoundedMap(MAX_CONVERSATIONS)
        self._with_passages = frozenset[str]()
        self._knowledge_search = self._make_knowledge_search()
        self._skills = GatewaySkills(index, self._beyond_servers)
        self._describing = _of_names(DESCRIBE, DESCRIBE_SAYS, self._describe)
        self._checking = _of_names(CHECK, CHECK_SAYS, self._check)

    def open(self, crib: Crib) -> None:
        """Answer questions too from the collections that have passages."""
        self._crib, known = crib, crib.list_collections()
        self._with_passages = frozenset(each.name for each, count in known if count)
        self._skills.open(crib)

    def scope(self) -> Scope:
        """What whoever is being answered may use."""
        return reach(get_access_token(), self._scope)

    def _beyond_servers(self) -> Scope:
        """The same for what is of none of the servers behind the gateway."""
        return self._beyond_servers_of(get_access_token())

    def _beyond_servers_of(self, token: AccessToken | None) -> Scope:
        return reach(token, replace(self._scope, servers=None))

    # -- instructions ------------------------------------------------------------------------

    def instructions(self, key: str) -> str:
        """What a conversation is told to begin with: how to find tools, and what servers say.

        Tools of ours are named only where there are so many others that they are surely listed.
        """
        offered = self._tools.catalog.within(self.scope())
        searches = len(offered) > self._pass_through or not self._pass_through
        parts, left = [SEARCHING if searches else LISTING], MAX_INSTRUCTIONS
        for server in dict.fromkeys(each.spec.server for each in offered):
            text = self._tools.instructions.get(server)
            if text is not None and len(text) <= left:
                left -= len(text)
                parts.append(f"The server {server} says of its tools:\n{text}")
                self._told_to(key).add(text)
        return "\n\n".join(parts)

    def _untold(self, key: str, entries: Iterable[CatalogEntry]) -> dict[str, str]:
        """What the servers of these tools say, as far as a conversation was not told it yet."""
        servers, told = {each.spec.server for each in entries}, self._told_to(key)
        known = self._tools.instructions
        here = sorted(servers & known.keys())
        new = {each: known[each] for each in here if known[each] not in told}
        told.update(new.values())
        return new

    def _told_to(self, key: str) -> set[str]:
        # Nobody knows what those have heard who cannot be told from one another.
        is_known = key != SHARED or self._pool.is_shared
        return self._told.get_or_make(key, set) if is_known else set()

    def leave(self, key: str) -> None:
        """A conversation is over."""
        self._told.pop(key, None)

    # -- what is shown -----------------------------------------------------------------------

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """What a client is listed, out of all that there is: FastMCP looks at keys after this."""
        offered = [each for each in tools if isinstance(each, GatewayTool)]
        return self._listed(offered, get_access_token())

    def _listed(self, tools: Sequence[GatewayTool], token: AccessToken | None) -> list[Tool]:
        scope = reach(token, self._scope)
        where = from_scope(scope)
        offered = [tool for tool in tools if tool.entry.fits(where)]
        knowledge = self._knowledge_tool(scope)
        skills = self._skills.tools(self._beyond_servers_of(token))
        others = [*([] if knowledge is None else [knowledge]), *skills]
        is_complete = all(
            each.health.state == "unusable" or self._tools.knows(each.name) for each in self._pool
        )
        if len(offered) <= self._pass_through and is_complete:
            return [*offered, *others]
        by_id = {tool.entry.spec.id: tool for tool in offered}
        pinned = [by_id[tool_id] for tool_id in self._pinned if tool_id in by_id]
        active = [tool for tool in offered if tool.entry.spec.always_active and tool not in pinned]
        behind = server_summary(each.entry.spec for each in offered)
        search = _with_note(self._make_search_tool(), "Here are tools of", behind)
        describing = [self._describing] if self._form == "signature" else []
        return [*pinned, *active, search, *describing, self._make_call_tool(), *others]

    def shown(self, tools: Sequence[GatewayTool], token: AccessToken | None) -> object:
        """Something that is another thing when a key's holder is shown another list."""
        return [
            (tool.entry if isinstance(tool, GatewayTool) else tool.name, tool.description)
            for tool in self._listed(tools, token)
        ]

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        """A tool by its name: ours, listed or not, or one on offer."""
        if name == KNOWLEDGE:
            return self._knowledge_tool(self.scope())
        if name in {DESCRIBE, CHECK}:
            return self._describing if name == DESCRIBE else self._checking
        found = self._skills.named(name)
        return found or await super().get_tool(name, call_next, version=version)

    def _knowledge_tool(self, scope: Scope) -> Tool | None:
        about = self._collections_in(scope)
        return _with_note(self._knowledge_search, "Here are", about) if about else None

    def _collections_in(self, scope: Scope) -> str:
        """The collections with passages within a scope, in a line."""
        if self._crib is None or not self._with_passages:
            return ""
        known = self._crib.knowledge.catalogue.within(scope)
        named = (each for each in known if each.name in self._with_passages)
        return "; ".join(
            f"{each.name} ({each.description[:MAX_CHARS]})" if each.description else each.name
            for each in sorted(named, key=lambda each: each.name)
        )

    def _make_knowledge_search(self) -> Tool:
        async def find_knowledge(given: dict[str, Any], _context: Context) -> ToolResult:
            return await self._ask(given)

        return SearchTool.of(KNOWLEDGE, KNOWLEDGE_SAYS, KNOWLEDGE_TAKES, find_knowledge, READS_ONLY)

    # -- what they do ------------------------------------------------------------------------

    async def _find(self, ctx: Context, query: str | None, options: SearchOptions) -> ToolResult:
        await self._pool.wait(ctx, self._arrivals())
        if not self._tools.is_open.is_set():
            return failure(OPENING)
        # First: what comes meanwhile may be named as missing, never left out without a word.
        missing, here = self._missing(), await self._here(ctx)
        scope, needs = self.scope(), options.needs or ()
        asking = replace(options, scope=scope, form=self._form)
        try:
            result = await self._tools.work(self._found_within, here, query, asking)
        except QueryError as error:
            return failure(f"{error}.")
        except StoreError as error:
            return failure(f"The search does not work at the moment: {error}.")
        asked = "\n".join([*([] if query is None else [query]), *needs])
        budget = self._budgets.begin(key := conversation_key(ctx), asked)
        if not needs:
            # Of several needs nobody knows which one a call is for.
            self._remember(budget.id, asked, key)
        entries = [here[hit.id] for hit in result.tools]
        answer = search_answer(
            result,
            lambda hit: self._defined(here[hit.id], self._form),
            missing=missing,
            instructions=self._untold(key, entries),
        )
        names = [each.name for each in entries]
        return await self._guidance.after_search(key, asked, names, answer)

    def _found_within(
        self, here: Mapping[str, CatalogEntry], query: str | None, asking: SearchOptions
    ) -> FindResult:
        """The answer of the tools that are here, by id, so that its verdict is on those alone."""

        def is_here(hit: ToolHit) -> bool:
            return hit.kind == "tool" and hit.id in here

        find = self._tools.crib.tools.find
        result = find(query, asking)
        if not all(map(is_here, result.tools)):
            only = And(HasId(frozenset(map(point_id, here))), Not(IS_SKILL))
            result = find(query, replace(asking, where=only))
        # A general tool comes whatever the filter.
        return replace(result, tools=tuple(filter(is_here, result.tools)))

    async def _here(self, ctx: Context) -> dict[str, CatalogEntry]:
        """The tools that the caller may see, by id."""
        catalog, visible = self._tools.catalog, await self._visible(ctx)
        return {each.spec.id: each for each in catalog if each.name in visible}

    def _granted(self) -> list[Upstream]:
        """The servers in the caller's scope."""
        servers = self.scope().servers
        return [each for each in self._pool if servers is None or each.name in servers]

    def _arrivals(self) -> list[asyncio.Event]:
        """Events of which each is set once there is no more to wait for before a search."""
        return [self._tools.is_open, *(self._tools.arrival(each.name) for each in self._granted())]

    def _missing(self) -> list[dict[str, Any]]:
        """The servers whose tools cannot be called or found, and for how long that has been so."""
        now, told = monotonic(), list[dict[str, Any]]()
        for each in self._granted():
            state, since = WORDS.get(each.health.state), each.health.since
            if state is None and (pending := self._tools.pending.get(each.name)):
                since = pending.since
                state = UNINDEXED if pending.over.is_set() else INDEXING
            if state is not None:
                told.append({"server": each.name, "state": state, "for_s": round(now - since)})
        return told

    async def _check(self, ctx: Context, names: Sequence[str]) -> ToolResult:
        """Whether tools can be called; what is not there for this caller is unknown."""
        await self.wait(ctx)
        visible, scope = await self._visible(ctx), self.scope()
        checked = [
            ToolReadiness.of(name, self._unready(name, visible, scope))
            for name in dict.fromkeys(names)
        ]
        return structured_answer({"tools": as_json(checked)})

    def _unready(self, name: str, visible: Collection[str], scope: Scope) -> Unready | None:
        entry = self._tools.catalog.named(name)
        if entry is not None and entry.name in visible:
            return self._pool.unready(entry.spec.server)
        reason = self._tools.unready(name, from_scope(scope))
        if reason != "unknown":
            return reason
        for each in self._granted():
            if name.startswith(f"{each.name}/") and not self._tools.knows(each.name):
                return self._pool.unready(each.name) or "unknown"
        return "unknown"

    def _remember(self, decision_id: str, query: str, key: str) -> None:
        """Have the search in mind until a call for it succeeds, where use teaches."""
        token = get_access_token()
        # Without one of its own, a conversation is all that is asked on a day.
        session = key if key.startswith("session ") else None
        by = None if token is None else token.client_id
        self._tools.crib.turns.remember_request(
            decision_id, query, scope=self.scope(), session=session, by=by
        )

    async def _visible(self, ctx: Context) -> set[str]:
        """The names of what FastMCP does not hide from this caller, by whatever means."""
        return {tool.name for tool in await self.get_tool_catalog(ctx)}

    def _defined(self, entry: CatalogEntry, form: DefinitionForm) -> dict[str, Any]:
        spec, note = entry.spec, self._pool.note(entry.spec.server)
        told = in_short(spec) | {"name": entry.name}
        if form == "schema":
            whole = {"description": spec.description, "inputSchema": parameters_schema(spec)}
            told = definition(told | whole)
        return told | ({"unavailable": note} if note else {})

    async def _describe(self, ctx: Context, names: Sequence[str]) -> ToolResult:
        """The whole schemas of tools; what is not there for this caller is unknown."""
        await self.wait()
        visible = await self._visible(ctx)
        named = {name: self._tools.catalog.named(name) for name in names}
        here = {name: each for name, each in named.items() if each and each.name in visible}
        once = {each.name: self._defined(each, "schema") for each in here.values()}
        lengths = accumulate(len(json.dumps(each)) for each in once.values())
        many = max(1, sum(length <= MAX_DESCRIBED_CHARS for length in lengths))
        answer: dict[str, Any] = {"tools": list(once.values())[:many]}
        if left := list(once)[many:]:
            answer |= {"left_out": left, "note": "Too long for one answer: ask for fewer."}
        unknown = [name for name in named if name not in here]
        return structured_answer(answer | ({"unknown": unknown} if unknown else {}))

    async def _call(self, ctx: Context, name: str, arguments: Mapping[str, Any] | None) -> Any:
        for is_last in (False, True):
            names = await self._visible(ctx)
            entry = self._tools.catalog.named(name)
            if entry is not None and entry.name in names:
                return await ctx.fastmcp.call_tool(entry.name, dict(arguments or {}))
            if not is_last and not await self.wait():
                break
        return await self.unknown(ctx, name)

    async def wait(self, ctx: Context | None = None) -> bool:
        """Wait a little for the index and for servers that are starting; False if for nothing.

        Progress of it is told for a search alone: that of a call is its tool's.
        """
        settled = (each.settled for each in self._pool)
        return await self._pool.wait(ctx, [*self._arrivals(), *settled])

    async def unknown(self, ctx: Context, name: str) -> ToolResult:
        """The answer to a call of a tool that is not there, or not for this caller, or not yet."""
        names = sorted(await self._visible(ctx))
        missing = [each["server"] for each in self._missing()]
        answer = unknown_tool(name, names, FIND)
        if missing:
            more = f"Not there at the moment are the tools of: {', '.join(missing)}."
            content = [*answer.content, TextContent(type="text", text=more)]
            answer = answer.model_copy(update={"content": content})
        return await self._guidance.after_call(conversation_key(ctx), name, {}, answer)

    async def _ask(self, given: dict[str, Any]) -> ToolResult:
        try:
            assert self._crib is not None
            ask = self._crib.find_knowledge
            found = await self._tools.work(ask, **given, scope=self.scope())
        except QueryError as error:
            return failure(f"{error}.")
        except StoreError as error:
            return failure(f"The documents cannot be searched at the moment: {error}.")
        answer = as_json(found)
        kept = ("verdict", "confidence", "reason")
        shown = ("citation", "source", "collection", "text")
        passages = [{key: each[key] for key in shown} for each in answer["passages"]]
        told = {key: answer[key] for key in kept if answer[key]}
        return structured_answer({**told, "passages": passages})


def _of_names(
    name: str, says: str, act: Callable[[Context, Sequence[str]], Awaitable[ToolResult]]
) -> Tool:
    """A tool of the gateway that takes names or ids of others."""

    async def run(given: dict[str, Any], context: Context) -> ToolResult:
        return await act(context, given["ids"])

    names = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_NAMED}
    about = "Names of tools as find_tools gave them, or ids (server/name)"
    return SearchTool.of(name, says, {"ids": {**names, "description": about}}, run, READS_ONLY)


def _with_note(tool: Tool, what: str, about: str) -> Tool:
    """A search whose description says what it may find: else an agent would not use it."""
    if not about:
        return tool
    return tool.model_copy(update={"description": f"{tool.description}\n\n{what}: {about}."})


class UnknownTools(Middleware):
    """Answers a call of a tool that is not there with the names that are like it."""

    def __init__(self, search: GatewaySearch) -> None:
        self._search = search

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Look again when all servers have come; then for near names among what is in reach."""
        asked = context.fastmcp_context
        try:
            return await call_next(context)
        except NotFoundError:
            if asked is None:
                raise
        if await self._search.wait():
            with suppress(NotFoundError):
                return await call_next(context)
        return await self._search.unknown(asked, context.message.name)


# -- what is behind the search, in a few words ---------------------------------------------------

MAX_CHARS = 120
MAX_SERVERS = 15
MAX_WORDS = 6

WORD = re.compile(r"[a-z]{3,16}")
"""Single plain words: they come from servers that nobody vouches for."""

PLAIN = re.compile(r"[^\w .-]+")

_VERBS = (
    "add all and are batch call can cancel check clear close convert copy count create "
    "current data delete describe disable download edit enable end execute export fetch file "
    "find for from generate get has help import info init insert into item items list load "
    "make manage many move multiple new not open parse patch ping post put query read remove "
    "rename reset resource result results retrieve return returns run save search send set "
    "show start status stop submit sync test that the this tool tools update upload use user "
    "using validate value view with write you your"
)
TOO_COMMON = frozenset(_VERBS.split())
"""What tools do says little; what they do it to says much."""


def server_summary(tools: Iterable[ToolSpec]) -> str:
    """The servers, how many tools each has, and what they are about; the same for the same tools.

    Of what servers say of themselves only single words come in.
    """
    ordered = sorted(tools, key=lambda tool: (tool.server, tool.id))
    groups = [(name, list(group)) for name, group in groupby(ordered, lambda tool: tool.server)]
    groups.sort(key=lambda group: (-len(group[1]), group[0]))
    shown = [_server(name, group) for name, group in groups[:MAX_SERVERS]]
    if len(groups) > MAX_SERVERS:
        shown.append(f"and {len(groups) - MAX_SERVERS} more servers")
    return "; ".join(shown)


def _server(name: str, tools: list[ToolSpec]) -> str:
    own = set(_words(name))
    counted = Counter(word for tool in tools for word in set(_topics(tool)) - own)
    told = Counter(word for tool in tools for word in set(_words(tool.description)))
    # Each in one number only: "issue" or "issues".
    best: dict[str, str] = {}
    for word in sorted(counted, key=lambda word: (-counted[word], -told[word], word)):
        best.setdefault(word.removesuffix("s"), word)
    about = f": {', '.join(list(best.values())[:MAX_WORDS])}" if best else ""
    many = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
    plain = " ".join(PLAIN.sub(" ", name).split())
    return f"{plain[:40]} ({many}{about})"


def _topics(tool: ToolSpec) -> Iterator[str]:
    """The words of a tool's name and category that say what it is about."""
    return (word for word in (*_words(tool.name), *_words(tool.category)) if word not in TOO_COMMON)


def _words(text: str) -> Iterator[str]:
    lowered = (word.lower() for word in split_identifier(text))
    return (word for word in lowered if WORD.fullmatch(word))
