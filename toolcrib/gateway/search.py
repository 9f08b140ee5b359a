"""Search of the gateway: the tools that clients see, and the routing of their calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate
from time import monotonic
from typing import Annotated, Any

from fastmcp.exceptions import NotFoundError
from fastmcp.server.auth import AccessToken
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.transforms import GetToolNext
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import BaseModel, ConfigDict, Field

from toolcrib.caches import BoundedMap
from toolcrib.crib import Crib
from toolcrib.errors import QueryError, StoreError, did_you_mean, nearest
from toolcrib.gateway.auth import profile_of
from toolcrib.gateway.calls import CallBudgets
from toolcrib.gateway.catalog import (
    CALL_TOOLS,
    CatalogEntry,
    GatewayTool,
    call_tool_of,
    find_by_words,
    may_call,
    server_summary,
)
from toolcrib.gateway.downstream import MAX_CONVERSATIONS, conversation_key
from toolcrib.gateway.guidance import GatewayGuidance, with_text
from toolcrib.gateway.index import IS_SKILL, OPENING_MESSAGE, GatewayIndex
from toolcrib.gateway.skills import GatewaySkills
from toolcrib.gateway.upstream import Upstream, UpstreamPool
from toolcrib.integrations.fastmcp import (
    READ_ONLY,
    SearchTool,
    ToolcribSearchTransform,
    calling_tool,
    count_parameter,
    definition,
    failure,
    search_answer,
    structured_answer,
)
from toolcrib.records import FindResult, Scope, ToolHit
from toolcrib.records.codec import as_json
from toolcrib.records.definitions import DefinitionForm, OwnTool, in_short
from toolcrib.records.reports import ToolReadiness
from toolcrib.records.tools import default_id
from toolcrib.retrieval.options import SearchOptions, text_to_search
from toolcrib.settings import GatewaySettings
from toolcrib.store.base import point_id
from toolcrib.store.filters import And, HasId, Not

SEARCH_INSTRUCTIONS = (
    "Tools of several servers. Where you do not see the one that you need, call find_tools with "
    "what it must do, then {} with a name that it gave."
)
CALL_TOOL_PHRASE = "the tool that its call_by names"
LIST_INSTRUCTIONS = (
    "Tools of several servers. If a search for tools is listed among them, use it before you say "
    "that something cannot be done."
)

MAX_GREETING_INSTRUCTIONS_CHARS = 16_000
"""Length of servers' own instructions at the start of a conversation; more come with found
tools."""

MAX_COLLECTION_CHARS = 120
"""Length of a collection's description in the list of collections."""

DESCRIBE_TEXT = (
    "Give the complete schemas of tools that find_tools has named, if the description of their "
    "parameters there is not enough for a call."
)
CHECK_TEXT = (
    "Say of each tool whether it can be called now, or why not: unknown, disabled, quarantined, "
    "server_down, needs_authorisation, authorisation_expired (login: what the user is to run)."
)
LEXICAL_NOTE = (
    "The index is still opening: these tools share words with the search. Search again "
    "if none of them fits."
)
INDEXING_STATE, UNINDEXED_STATE = "is still being indexed", "could not be indexed"
"""States of a server that is up and whose current tools are not searchable."""

MAX_DESCRIBED_TOOLS = 200
MAX_DESCRIBED_CHARS = 200_000
"""Length of an answer of describe_tools; the first tool is included at any length."""


KNOWLEDGE_TEXT = "Find passages of documents that answer a question, each with where it stands."
KNOWLEDGE_PARAMETERS = {
    "query": {
        "type": "string",
        "description": "What is to be known, as a question or in a few words",
    },
    "k": count_parameter("How many passages at most"),
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


LISTING_CAPABILITY = {"toolcrib/tools-list": {"query": True, "filter": ["namePatterns"]}}
"""Experimental capability: parameters of `tools/list` (SEP-1821 and SEP-2564, both drafts)."""

MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 200
"""Length of a glob of names; the time to compile one can grow with its square."""


class ListFilter(BaseModel):
    """Filter of a list: globs, of which one must match a tool's name."""

    model_config = ConfigDict(extra="forbid")

    name_patterns: list[Annotated[str, Field(max_length=MAX_PATTERN_CHARS)]] = Field(
        alias="namePatterns", max_length=MAX_PATTERNS
    )

    def fits(self, name: str) -> bool:
        """True if a pattern matches a name."""
        return any(fnmatchcase(name, pattern) for pattern in self.name_patterns)


class ListToolsParams(PaginatedRequestParams):
    """Parameters of `tools/list`, with a query or a filter."""

    query: str | None = None
    filter: ListFilter | None = None


class GatewaySearch(ToolcribSearchTransform, Middleware):
    """Lists a few tools directly; of many, the search with pinned and always-active tools.

    As middleware it answers calls of unknown tools. `is_idle` is set while no search runs.
    """

    def __init__(
        self,
        index: GatewayIndex,
        pool: UpstreamPool,
        budgets: CallBudgets,
        guidance: GatewayGuidance,
        settings: GatewaySettings,
    ) -> None:
        self._by_risk = settings.call_tools == "by_risk"
        self._called_by = CALL_TOOL_PHRASE if self._by_risk else OwnTool.CALL_TOOL
        super().__init__(
            k=settings.k, token_budget=settings.token_budget, called_by=self._called_by
        )
        calling = [self._make_call_tool()]
        if self._by_risk:
            calling = [
                calling_tool(name, says, partial(self._call_by, name), annotations)
                for name, (says, annotations) in CALL_TOOLS.items()
            ]
        self._form: DefinitionForm = "schema" if settings.schemas else "signature"
        self._tools, self._pool, self._budgets, self._guidance = index, pool, budgets, guidance
        self._settings = settings
        self.is_idle, self._under_way = asyncio.Event(), 0
        self.is_idle.set()
        self._crib: Crib | None = None
        self._sent_instructions: BoundedMap[str, set[str]] = BoundedMap(MAX_CONVERSATIONS)
        self._with_passages = frozenset[str]()
        self._knowledge_search = SearchTool.of(
            OwnTool.FIND_KNOWLEDGE,
            KNOWLEDGE_TEXT,
            KNOWLEDGE_PARAMETERS,
            self._find_knowledge,
            READ_ONLY,
        )
        self.skills = GatewaySkills(index)
        describing = _make_names_tool(OwnTool.DESCRIBE_TOOLS, DESCRIBE_TEXT, self._describe)
        checking = _make_names_tool(OwnTool.CHECK_TOOLS, CHECK_TEXT, self._check)
        self._own = {each.name: each for each in (describing, *calling, checking)}

    def open(self, crib: Crib) -> None:
        """Also search the collections that have passages, and the skills."""
        self._crib, known = crib, crib.list_collections()
        self._with_passages = frozenset(each.name for each, count in known if count)
        self.skills.open(crib)

    def scope(self) -> Scope:
        """Scope of the current caller."""
        return self._tools.scope_of(get_access_token())

    def _settings_of(self, token: AccessToken | None) -> GatewaySettings:
        return self._settings.with_profile(profile_of(token))

    def missing_pins(self) -> list[str]:
        """Problems of pinned ids without a tool, except of servers that may still list one."""
        unavailable_servers = tuple(f"{server}/" for server in self._pool.unavailable_servers())
        catalog = self._tools.catalog
        return [
            f"there is no tool {tool_id!r} to pin"
            + did_you_mean(nearest(tool_id, (entry.spec.id for entry in catalog)))
            for tool_id in self._settings.pinned
            if catalog.get(tool_id) is None and not tool_id.startswith(unavailable_servers)
        ]

    # -- instructions ------------------------------------------------------------------------

    def instructions(self, key: str) -> str:
        """Instructions for a new conversation: the search for tools, then the servers' own.

        The gateway's tools are named only if there are so many others that they are surely listed.
        """
        offered = self._tools.catalog.within(self.scope())
        limit = self._settings_of(get_access_token()).pass_through
        searches = len(offered) > limit or not limit
        first = SEARCH_INSTRUCTIONS.format(self._called_by) if searches else LIST_INSTRUCTIONS
        parts, left = [first], MAX_GREETING_INSTRUCTIONS_CHARS
        for server in dict.fromkeys(each.spec.server for each in offered):
            text = self._tools.instructions.get(server)
            if text is not None and len(text) <= left:
                left -= len(text)
                parts.append(f"The server {server} says of its tools:\n{text}")
                self._sent_to(key).add(text)
        return "\n\n".join(parts)

    def _new_instructions(self, key: str, entries: Iterable[CatalogEntry]) -> dict[str, str]:
        """Instructions of these tools' servers that are new to the conversation."""
        servers, sent = {each.spec.server for each in entries}, self._sent_to(key)
        known = self._tools.instructions
        here = sorted(servers & known.keys())
        new = {each: known[each] for each in here if known[each] not in sent}
        sent.update(new.values())
        return new

    def _sent_to(self, key: str) -> set[str]:
        is_known = self._pool.is_of_one_client(key)
        return self._sent_instructions.get_or_make(key, set) if is_known else set()

    def leave(self, key: str) -> None:
        """Forget an ended conversation."""
        self._sent_instructions.pop(key, None)

    # -- the list of tools -------------------------------------------------------------------

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Tools that a client sees; FastMCP checks keys after this."""
        offered = [each for each in tools if isinstance(each, GatewayTool)]
        return self.listing(offered, get_access_token())

    def listing(self, tools: Sequence[GatewayTool], token: AccessToken | None) -> list[Tool]:
        """Tools that a key's holder sees."""
        scope, settings = self._tools.scope_of(token), self._settings_of(token)
        is_granted = self._tools.grants(token)
        offered = [tool for tool in tools if is_granted(tool.entry)]
        knowledge = self._knowledge_tool(scope)
        others = [*([] if knowledge is None else [knowledge]), *self.skills.tools(token)]
        is_complete = all(
            each.health.state in {"down", "unusable"} or self._tools.knows(each.name)
            for each in self._pool
        )
        # Without any tool a model could not even ask what is missing or held back.
        if offered and len(offered) <= settings.pass_through and is_complete:
            return [*offered, *others]
        by_id = {tool.entry.spec.id: tool for tool in offered}
        pinned = [by_id[tool_id] for tool_id in settings.pinned if tool_id in by_id]
        active = [tool for tool in offered if tool.entry.spec.always_active and tool not in pinned]
        behind = server_summary(each.entry.spec for each in offered)
        search = _with_note(self._make_search_tool(), "Here are tools of", behind)
        describing, *calling = self._own.values()
        described = [describing] if self._form == "signature" else []
        return [*pinned, *active, search, *described, *calling, *others]

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        """Tool by its name: one of the gateway's own, listed or not, or an offered one."""
        if name == OwnTool.FIND_KNOWLEDGE:
            return self._knowledge_tool(self.scope())
        return (
            self._own.get(name)
            or self.skills.get(name)
            or await super().get_tool(name, call_next, version=version)
        )

    async def tool_list_for(self, ctx: Context, params: ListToolsParams) -> ListToolsResult:
        """Answer `tools/list` with a query or a filter: matching tools of all in scope."""
        await self.wait(ctx)
        catalog = await self.get_tool_catalog(ctx)
        shown = {tool.entry.spec.id: tool for tool in catalog if isinstance(tool, GatewayTool)}
        if params.filter is not None:
            shown = {key: tool for key, tool in shown.items() if params.filter.fits(tool.name)}
        if params.query is None:
            return ListToolsResult(tools=[tool.to_mcp_tool() for tool in shown.values()])
        if not self._tools.is_open.is_set():
            raise MCPError(INTERNAL_ERROR, OPENING_MESSAGE)
        here = {key: tool.entry for key, tool in shown.items()}
        options = SearchOptions(self._max_results, scope=self.scope())
        try:
            result = await self._tools.work(self._find_within, here, params.query, options)
        except (QueryError, StoreError) as error:
            code = INVALID_PARAMS if isinstance(error, QueryError) else INTERNAL_ERROR
            raise MCPError(code, f"{error}.") from None
        key = conversation_key(ctx)
        self._record_search(self._budgets.begin(key, params.query).id, params.query, key)
        found = [
            shown[hit.id].to_mcp_tool(_meta={"toolcrib/score": hit.score}) for hit in result.tools
        ]
        answer = {name: getattr(result, name) for name in ("verdict", "confidence", "reason")}
        about = {**answer, "missing": self._missing_servers()}
        meta = {f"toolcrib/{name}": value for name, value in about.items() if value}
        return ListToolsResult(tools=found, _meta=meta)

    def _knowledge_tool(self, scope: Scope) -> Tool | None:
        """Search of the collections with passages within a scope; None without any."""
        if self._crib is None or not self._with_passages:
            return None
        known = self._crib.knowledge.catalogue.within(scope)
        named = (each for each in known if each.name in self._with_passages)
        about = "; ".join(
            f"{each.name} ({each.description[:MAX_COLLECTION_CHARS]})"
            if each.description
            else each.name
            for each in sorted(named, key=lambda each: each.name)
        )
        return _with_note(self._knowledge_search, "Here are", about) if about else None

    # -- searches and calls ------------------------------------------------------------------

    async def _find(self, ctx: Context, query: str | None, options: SearchOptions) -> ToolResult:
        self._under_way += 1
        self.is_idle.clear()
        try:
            return await self._answer(ctx, query, options)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.is_idle.set()

    async def _answer(self, ctx: Context, query: str | None, options: SearchOptions) -> ToolResult:
        if (options.k, options.token_budget) == (self._max_results, self._token_budget):
            own = self._settings_of(get_access_token())
            options = replace(options, k=own.k, token_budget=own.token_budget)
        asked = text_to_search(query, options)
        text = "\n".join([*([] if asked is None else [asked]), *(options.needs or ())])
        if (answer := await self._answer_while_opening(ctx, text, options)) is not None:
            return answer
        # Read missing servers before the catalog: one that connects in between counts as missing.
        missing, here = self._missing_servers(), await self._visible(ctx)
        key = conversation_key(ctx)
        called = self._budgets.called_tools(key) if self._pool.is_of_one_client(key) else ()
        in_use = None if options.task is None else called
        options = replace(options, scope=self.scope(), form=self._form, called=in_use)
        result = await self._tools.work(self._find_within, here, query, options)
        budget = self._budgets.begin(key, text)
        if not options.needs:
            # After several needs a call does not show which need it serves.
            self._record_search(budget.id, text, key)
        entries = [here[hit.id] for hit in result.tools]
        answer = search_answer(
            result,
            lambda hit: (
                self._definition(here[hit.id], self._form)
                | self._callability(hit, here)
                | ({"called": True} if hit.id in called else {})
            ),
            missing=missing,
            instructions=self._new_instructions(key, entries),
            called=[here[each].name for each in result.called if each in here],
            held=self._tools.held_names(text, get_access_token()),
        )
        names = [each.name for each in entries]
        return await self._guidance.after_search(key, text, names, answer)

    async def _answer_while_opening(
        self, ctx: Context, text: str, options: SearchOptions
    ) -> ToolResult | None:
        """Wait for index and servers; search by words if the index is slow, None once it is open.

        Tools of the last run are searchable soon. In a new store the wait comes first: the index
        opens when all listed tools are encoded, which takes minutes for thousands.
        """
        is_open = self._tools.is_open
        await self._pool.wait(None, [is_open], self._pool.intervals.opening_s)
        if not is_open.is_set():
            await self._pool.wait(ctx, [self._tools.is_recalled])
            if (answer := await self._find_by_words(ctx, text, options)) is not None:
                return answer
        await self._pool.wait(ctx, self._ready_events())
        if is_open.is_set():
            return None
        return await self._find_by_words(ctx, text, options) or failure(OPENING_MESSAGE)

    async def _find_by_words(
        self, ctx: Context, text: str, options: SearchOptions
    ) -> ToolResult | None:
        """Search listed tools by their words; None if no tool has a word of the query."""
        here = await self._visible(ctx)
        k = self._max_results if options.k == "auto" else options.k
        entries = (await asyncio.to_thread(find_by_words, list(here.values()), text))[:k]
        if not entries:
            return None
        key = conversation_key(ctx)
        self._budgets.begin(key, text)
        answer = {
            "tools": [self._definition(entry, self._form) for entry in entries],
            "verdict": "abstain",
            "note": LEXICAL_NOTE,
            "missing": self._missing_servers(),
            "instructions": self._new_instructions(key, entries),
            "held": self._tools.held_names(text, get_access_token()),
        }
        shown = structured_answer({name: value for name, value in answer.items() if value})
        return await self._guidance.after_search(key, text, [each.name for each in entries], shown)

    def _find_within(
        self, here: Mapping[str, CatalogEntry], query: str | None, options: SearchOptions
    ) -> FindResult:
        """Search among these tools, by id, so that only they decide the verdict."""

        def is_here(hit: ToolHit) -> bool:
            return hit.kind == "tool" and hit.id in here

        find = self._tools.crib.tools.find
        result = find(query, options)
        if not all(map(is_here, result.tools)):
            only = And(HasId(frozenset(map(point_id, here))), Not(IS_SKILL))
            result = find(query, replace(options, where=only))
        # The fallback tool ignores filters.
        return replace(result, tools=tuple(filter(is_here, result.tools)))

    async def _visible(self, ctx: Context) -> dict[str, CatalogEntry]:
        """Tools of servers that FastMCP shows the caller, by id."""
        shown = [t for t in await self.get_tool_catalog(ctx) if isinstance(t, GatewayTool)]
        return {tool.entry.spec.id: tool.entry for tool in shown}

    def _upstreams(self) -> list[Upstream]:
        """Servers in the caller's scope."""
        servers = self.scope().servers
        return [each for each in self._pool if servers is None or each.name in servers]

    def _ready_events(self) -> list[asyncio.Event]:
        """Events to wait for before a search: index open, tools of each server searchable."""
        arrivals = (self._tools.ready_event(each.name) for each in self._upstreams())
        return [self._tools.is_open, *arrivals]

    def _missing_servers(self) -> list[dict[str, Any]]:
        """Servers whose tools cannot be called or searched, each with a duration."""
        now, missing = monotonic(), list[dict[str, Any]]()
        for each in self._upstreams():
            state, since = each.health.in_words, each.health.since
            if state is None and (pending := self._tools.pending.get(each.name)):
                since = pending.since
                state = UNINDEXED_STATE if pending.over.is_set() else INDEXING_STATE
            if state is not None:
                about = {"server": each.name, "state": state, "for_s": round(now - since)}
                login = self._pool.login(each.name)
                missing.append(about | ({"login": login} if login else {}))
        return missing

    async def _check(self, ctx: Context, names: Sequence[str]) -> ToolResult:
        """Check for each tool if it can be called; tools out of scope are unknown."""
        await self.wait(ctx)
        visible = await self._visible(ctx)
        checked = [self._readiness(name, visible) for name in dict.fromkeys(names)]
        return structured_answer({"tools": checked})

    def _readiness(self, name: str, visible: Collection[str]) -> dict[str, Any]:
        entry = self._tools.find(name, get_access_token())
        if entry is not None and entry.spec.id in visible:
            server, unready = entry.spec.server, self._pool.unready(entry.spec.server)
        else:
            unready = self._tools.unready(name, get_access_token())
            unlisted = (each.name for each in self._upstreams() if not self._tools.knows(each.name))
            server = next((each for each in unlisted if name.startswith(f"{each}/")), "")
            if unready == "unknown" and server:
                unready = self._pool.unready(server) or "unknown"
        login = self._pool.login(server) if server else ""
        return as_json(ToolReadiness.of(name, unready)) | ({"login": login} if login else {})

    def _record_search(self, decision_id: str, query: str, key: str) -> None:
        """Record the search, so that a later successful call becomes a learned example."""
        token = get_access_token()
        # Callers without a session share one conversation a day.
        session = key if key.startswith("session ") else None
        by = None if token is None else token.client_id
        if (learner := self._tools.crib.turns.collector) is not None:
            learner.remember(decision_id, query, scope=self.scope(), session=session, by=by)

    def _definition(self, entry: CatalogEntry, form: DefinitionForm) -> dict[str, Any]:
        spec, note = entry.spec, self._pool.note(entry.spec.server)
        described = in_short(spec) | {"name": entry.name}
        if form == "schema":
            whole = {"description": spec.description, "inputSchema": spec.input_schema}
            described = definition(described | whole)
        if self._by_risk:
            described |= {"call_by": call_tool_of(spec)}
        return described | ({"unavailable": note} if note else {})

    def _callability(self, hit: ToolHit, here: Mapping[str, CatalogEntry]) -> dict[str, Any]:
        """State of a server that is not ready, as in a check, and names of copies on others."""
        copies = (here.get(default_id(server, hit.name)) for server in hit.also_on)
        known = {
            "state": self._pool.unready(hit.server),
            "also_on": [entry.name for entry in copies if entry is not None],
            "login": self._pool.login(hit.server),
        }
        return {key: value for key, value in known.items() if value}

    async def _describe(self, ctx: Context, names: Sequence[str]) -> ToolResult:
        """Return the complete schemas of tools; tools out of scope are unknown."""
        await self.wait()
        visible = await self._visible(ctx)
        named = {name: self._tools.find(name, get_access_token()) for name in names}
        here = {name: each for name, each in named.items() if each and each.spec.id in visible}
        once = {each.name: self._definition(each, "schema") for each in here.values()}
        lengths = accumulate(len(json.dumps(each)) for each in once.values())
        many = max(1, sum(length <= MAX_DESCRIBED_CHARS for length in lengths))
        answer: dict[str, Any] = {"tools": list(once.values())[:many]}
        if left := list(once)[many:]:
            answer |= {"left_out": left, "note": "Too long for one answer: ask for fewer."}
        unknown = [name for name in named if name not in here]
        return structured_answer(answer | ({"unknown": unknown} if unknown else {}))

    async def _call(self, ctx: Context, name: str, arguments: Mapping[str, Any] | None) -> Any:
        return await self._call_by(OwnTool.CALL_TOOL, ctx, name, arguments)

    async def _call_by(
        self, call_tool: OwnTool, ctx: Context, name: str, arguments: Mapping[str, Any] | None
    ) -> Any:
        """Call a tool by a call tool; one of a lower risk than the tool's is refused."""
        for is_last in (False, True):
            visible = await self._visible(ctx)
            entry = self._tools.find(name, get_access_token())
            if entry is not None and entry.spec.id in visible:
                if self._by_risk and not may_call(call_tool, entry.spec):
                    own = call_tool_of(entry.spec)
                    return failure(f"The call was not made: call {entry.name} by {own}.")
                return await ctx.fastmcp.call_tool(entry.name, dict(arguments or {}))
            if not is_last and not await self.wait():
                break
        return await self._unknown(ctx, name)

    async def wait(self, ctx: Context | None = None) -> bool:
        """Wait briefly for the index and for starting servers; False if neither is pending.

        Progress is reported for a search only: the progress of a call belongs to its tool.
        """
        settled = (each.settled for each in self._pool)
        return await self._pool.wait(ctx, [*self._ready_events(), *settled])

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Retry the call of an unknown tool once all servers are connected; then answer it."""
        with suppress(NotFoundError):
            return await call_next(context)
        if await self.wait():
            with suppress(NotFoundError):
                return await call_next(context)
        return await self._unknown(get_context(), context.message.name)

    async def _unknown(self, ctx: Context, name: str) -> ToolResult:
        """Answer a call of a tool that does not exist, not for this caller, or not yet.

        A tool's own name is unknown too, if several servers have such a tool.
        """
        here = await self._visible(ctx)
        same = [entry.name for entry in here.values() if entry.spec.name == name]
        if len(same) > 1:
            return failure(
                f"The call was not made: several servers have a tool {name!r}. Call one by its "
                f"full name: {', '.join(same)}."
            )
        missing = [each["server"] for each in self._missing_servers()]
        answer = await self.unknown_tool(name, sorted(entry.name for entry in here.values()))
        if missing:
            more = f"Not there at the moment are the tools of: {', '.join(missing)}."
            answer = with_text(answer, more)
        return await self._guidance.after_call(conversation_key(ctx), name, {}, answer)

    async def _find_knowledge(self, given: dict[str, Any], _context: Context) -> ToolResult:
        assert self._crib is not None
        find = self._crib.find_knowledge
        answer = as_json(await self._tools.work(find, **given, scope=self.scope()))
        verdict = {key: answer[key] for key in ("verdict", "confidence", "reason") if answer[key]}
        shown = ("citation", "source", "collection", "text")
        passages = [{key: each[key] for key in shown} for each in answer["passages"]]
        return structured_answer({**verdict, "passages": passages})


def _make_names_tool(
    name: str, says: str, act: Callable[[Context, Sequence[str]], Awaitable[ToolResult]]
) -> Tool:
    """Tool of the gateway that takes names or ids of other tools."""

    async def run(given: dict[str, Any], context: Context) -> ToolResult:
        ids = given["ids"]
        # The schema says so too, but its check ends early where there are very many.
        if len(ids) > MAX_DESCRIBED_TOOLS:
            raise QueryError(f"there are {len(ids):,} ids; give at most {MAX_DESCRIBED_TOOLS}")
        return await act(context, ids)

    names = {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": MAX_DESCRIBED_TOOLS,
    }
    about = "Names of tools as find_tools gave them, or ids (server/name)"
    return SearchTool.of(name, says, {"ids": {**names, "description": about}}, run, READ_ONLY)


def _with_note(tool: Tool, lead: str, about: str) -> Tool:
    """Search tool whose description lists its subjects: otherwise agents do not use it."""
    if not about:
        return tool
    return tool.model_copy(update={"description": f"{tool.description}\n\n{lead}: {about}."})
