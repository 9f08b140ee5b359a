"""Tools over HTTP: search, write, remove, list and count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.dataclasses import dataclass as checked_dataclass
from pydantic.json_schema import JsonSchemaValue
from starlette.requests import Request
from starlette.responses import Response

from toolcrib.access.quarantine import Quarantine
from toolcrib.crib import Crib
from toolcrib.errors import CalibrationError, QueryError, SpecError, UnknownToolError
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import (
    AS_WHOLE,
    Body,
    Count,
    Endpoint,
    Identifier,
    QueryText,
    TokenBudget,
    answer,
    strict_config,
)
from toolcrib.http.uploads import Line, UploadWork, read_upload, respond, split_into_parts
from toolcrib.indexers.readers.registry import formats, read_data
from toolcrib.indexers.sync import Entry, ReadSources, refused_prune
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.integrations.formats import Definitions
from toolcrib.records import (
    Decision,
    Facets,
    FindResult,
    IndexReport,
    Message,
    Refusal,
    Scope,
    ToolHit,
    ToolLinks,
    ToolSpec,
)
from toolcrib.records.answers import LeftOut, ToolPage
from toolcrib.records.codec import as_json
from toolcrib.records.definitions import DefinitionFormat
from toolcrib.records.reports import CheckedTools, Held
from toolcrib.retrieval.options import MAX_CALLED, MAX_NEEDS, SearchOptions, text_to_search
from toolcrib.store.base import point_id
from toolcrib.store.filters import (
    AnyOf,
    Equals,
    Filter,
    FilterField,
    HasId,
    Not,
    all_of,
    from_scope,
    matches,
)
from toolcrib.store.payload import tool_payload

Shape: TypeAlias = Literal["summary", "full", DefinitionFormat]
"""Form of found tools: short or full specifications, or definitions for a provider."""

IF_SHAPED = Field(exclude_if=lambda _: False)
"""Field that only answers in a provider's shape have."""

ListOrder: TypeAlias = Literal["store", "name", "server", "use"]

MAX_PAGE_TOOLS = 500

MAX_COUNTED_CALLS = 1_000
"""Newest reported calls that count as use, and newest calls of a gateway."""

OUT_OF_SCOPE_REASON = "this key's scope does not allow to write this tool"
QUARANTINED_REASON = "quarantined until it is approved: "

ToolId = Annotated[Identifier, Field(description="`server/name`, slashes and all.")]

EXAMPLE_TOOL: dict[str, Any] = {
    "name": "send_mail",
    "server": "mail",
    "description": "Send a mail to one or more people.",
    "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}},
    "tags": ["mail"],
}

EXAMPLE_SEARCHES: list[dict[str, Any]] = [
    {"query": "write a mail", "k": 3},
    {"needs": ["Send a mail", "List the events of a calendar"]},
    {
        "query": "Now let me write the report to a file.",
        "task": "Sum up this week's tickets",
        "called": ["desk/list_tickets"],
    },
]
QUERY_OR_NEEDS = [
    {"required": ["query"], "properties": {"query": {"type": "string"}}},
    {
        "required": ["needs"],
        "properties": {"needs": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    },
    {"required": ["task"], "properties": {"task": {"type": "string"}}},
]

# -- search ----------------------------------------------------------------------------------


@checked_dataclass(
    frozen=True,
    kw_only=True,
    config=strict_config(examples=EXAMPLE_SEARCHES, any_of=QUERY_OR_NEEDS),
)
class SearchBody(SearchOptions):
    """A search: a query, or `needs`, one line for each wanted tool, or a step of a `task`.

    Each need is searched and judged by itself; a query fills the remaining places. The answer has
    `k` tools; with `auto`, as many as contain all needed tools with the probability `coverage`.
    Tools with a probability below `least` are omitted, except the first. Without `gate` the ranking
    has only a verdict. `explain` adds the score of each leg. `token_budget` replaces `k`: the best
    tools that fit, at least one; a token is three characters of a tool in its `form`, which the
    shape `signature` sets. In the `order` of ids equal tools always come in the same order.
    `history`: earlier messages, which count beside the query. `called`: ids of tools that an
    agent's run has called, in order, which the answer omits. With the `task` that the run began
    with, the query is what the agent wrote before its next call.
    """

    query: QueryText | None = None
    needs: Annotated[list[QueryText], Field(max_length=MAX_NEEDS)] | None = None
    k: Count | Literal["auto"] = 5
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    least: Annotated[float, Field(ge=0, le=1)] | None = None
    token_budget: TokenBudget | None = None
    history: list[Message] | None = None
    called: Annotated[list[Identifier], Field(max_length=MAX_CALLED)] | None = None
    task: QueryText | None = None
    shape: Shape = "summary"


@dataclass(frozen=True, slots=True)
class FoundTools(FindResult):
    """The answer to a search.

    In a provider's shape `tools` holds its definitions, `names` maps their names to ids, and
    `left_out` has skills and the tools that the provider would reject.
    """

    tools: tuple[ToolHit, ...] | tuple[dict[str, Any], ...]  # pyright: ignore[reportIncompatibleVariableOverride]
    names: Annotated[dict[str, str], IF_SHAPED] = field(default_factory=dict[str, str])
    left_out: Annotated[tuple[LeftOut, ...], IF_SHAPED] = ()


async def find_tools(context: RequestContext, body: SearchBody) -> Annotated[Response, FoundTools]:
    """Find the tools that fit a query, best first, with the gate's verdict on them."""
    given: dict[str, Any] = {each.name: getattr(body, each.name) for each in fields(SearchOptions)}
    given["scope"] = context.scope(body.scope)
    if body.shape == "signature":
        given["form"] = "signature"
    options = SearchOptions(**given)
    found = await context.read(lambda crib: crib.tools.find(body.query, options))
    asked = text_to_search(body.query, options)
    text = "\n".join(each for each in (asked, *(body.needs or ())) if each is not None)
    context.record_answer(found.took_ms, verdict=found.verdict, degraded=found.degraded, text=text)
    return shaped_response(found, body.shape)


def shaped_response(record: FindResult | Decision, shape: Shape) -> Response:
    """Answer with a record whose hits have a shape."""
    if shape in {"summary", "full"}:
        return answer(record, full=shape == "full")
    found, shown = record, as_json(record)
    place = shown
    if isinstance(found, Decision):
        place, found = shown["tools"], found.tools
    made = Definitions.of(found.tools, shape)
    place |= {"tools": made.tools, "names": made.names, "left_out": as_json(made.left_out)}
    return answer(shown)


# -- writing ---------------------------------------------------------------------------------


def _known_format(value: str) -> str:
    if value not in formats(sent=True):
        raise ValueError(f"there is no format {value!r}; known are {', '.join(formats(sent=True))}")
    return value


Format = Annotated[
    str,
    AfterValidator(_known_format),
    WithJsonSchema({"type": "string", "enum": list(formats(sent=True))}),
]
ServerName = Annotated[str, Field(min_length=1, max_length=512)]


_OBJECT: JsonSchemaValue = {"type": "object", "additionalProperties": True}


class IndexBody(Body):
    """Tools to write, in any format that the index reads.

    `tools` is a list of definitions (ours, MCP, OpenAI, Anthropic) or one document: an answer to
    `tools/list`, an OpenAPI document, an object with a list under `tools`. `server` overrides that
    of every tool. `prune` removes all other tools (of `server` only, if given).
    """

    model_config = strict_config(examples=[{"tools": [EXAMPLE_TOOL], "server": "mail"}])

    # The reader refuses entries that are no objects, and keeps the others.
    tools: list[Annotated[Any, WithJsonSchema(_OBJECT)]] | dict[str, Any]
    format: Format | None = None
    server: ServerName | None = None
    prune: bool = False


@dataclass(frozen=True, slots=True)
class ToolReport(IndexReport):
    """Report of written tools; `quarantined` tools are not served until they are approved."""

    quarantined: tuple[Held, ...] = ()


async def index_tools(context: RequestContext, body: IndexBody) -> Annotated[Response, ToolReport]:
    """Write new and changed tools.

    Unchanged tools are skipped. A tool that is invalid or out of the key's scope is refused in the
    report, and the others are written; tools that the audit finds dangerous are quarantined.
    """

    # Run it as a write, so that tenants take turns: there may be tens of thousands of tools.
    def read(_crib: Crib) -> list[Line]:
        name = "the request"
        lines: list[Line] = []
        for item in read_data(body.tools, name, format=body.format, server=body.server):
            context.checkpoint()
            tool_id = None if isinstance(item, Refusal) else item.id
            lines.append(Line.of((name, item), tool_id, Entry))
        return lines

    lines = await context.write(read)
    work, held = await context.run(lambda: _work(context, lines, body.server, prune=body.prune))
    report = await work.run(context, ignore)
    counts = {each.name: getattr(report, each.name) for each in fields(report)}
    return answer(ToolReport(**counts, quarantined=tuple(held)), full=True)


def _work(
    context: RequestContext, lines: list[Line], server: str | None, *, prune: bool
) -> tuple[UploadWork[ToolSpec], list[Held]]:
    """Work that writes tools, and a list that it fills with quarantined tools."""
    named = {line.name for line in lines if line.name is not None}
    held: list[Held] = []

    def write(crib: Crib, part: list[Entry], listener: Listener) -> IndexReport:
        with context.state.lock(context.namespace):
            quarantine = context.quarantine() if context.state.settings.audit else None
            writer = context.caller.key_id
            report, back = write_tools(crib, part, context.scope(), quarantine, listener, writer)
        held.extend(back)
        return report

    def finish(crib: Crib, report: IndexReport) -> IndexReport:
        if not prune:
            return report
        with context.state.lock(context.namespace):
            return _prune(crib, report, context.scope(), server, named)

    return UploadWork(split_into_parts(lines), write, finish), held


@dataclass(frozen=True, slots=True)
class ToolUpload:
    """Query of an upload; `prune` removes all other tools (of `server` only, if given)."""

    prune: bool = False
    server: str | None = None


async def upload_tools(context: RequestContext, query: ToolUpload, request: Request) -> Response:
    """Write tools from JSON Lines.

    A line is an array: the source of a tool, and its specification, or a refusal (`source`,
    `place`, `reason`). Lines of the answer have the `progress`; the last has the `report`, or the
    `problem`.
    """
    lines = await read_upload(context, request, Entry, attrgetter("id"), prune=query.prune)
    work, held = await context.run(lambda: _work(context, lines, query.server, prune=query.prune))

    def finish(crib: Crib, report: IndexReport) -> IndexReport:
        report = work.finish(crib, report)
        reasons = {each.tool_id: each.reason for each in held}
        sources = {each.name: each.entry[0] for each in lines if each.name in reasons}
        back = (
            Refusal(sources[key], key, QUARANTINED_REASON + why) for key, why in reasons.items()
        )
        return replace(report, refused=(*report.refused, *back))

    return await respond(context, replace(work, finish=finish))


def write_tools(
    crib: Crib,
    entries: Iterable[Entry],
    scope: Scope,
    quarantine: Quarantine | None,
    listener: Listener = ignore,
    written_by: str = "",
) -> tuple[IndexReport, list[Held]]:
    """Write the tools within the scope that pass the audit; quarantine the others.

    `Crib.index_tools` removes older versions of quarantined tools. `written_by`: id of the key that
    sends the tools. No tool out of scope is replaced.

    Raises:
        StoreError: the store failed; a part may be written.
    """
    kept, refused = _allowed_and_refused(crib, entries, scope)

    def find_served(tool_id: str) -> ToolSpec | None:
        with suppress(UnknownToolError):
            return crib.get_tool(tool_id)
        return None

    held: list[Held] = []
    if quarantine is not None:
        specs = (spec for _, spec in kept)
        held = quarantine.screen(specs, written_by=written_by, find_served=find_served)
    back = {(each.tool_id, each.digest) for each in held}
    passed: list[Entry] = [each for each in kept if (each[1].id, each[1].digest) not in back]
    report = crib.index_tools(ReadSources(kept), screen=lambda _: passed, progress=listener)
    return replace(report, refused=(*refused, *report.refused)), held


def is_allowed(allowed: Filter | None, spec: ToolSpec) -> bool:
    """True for a tool that passes the filter of a scope."""
    if allowed is None:
        return True
    try:
        return matches(allowed, point_id(spec.id), tool_payload(spec))
    except SpecError:
        # No store accepts the tool; the index refuses it with the reason.
        return True


def _allowed_and_refused(
    crib: Crib, entries: Iterable[Entry], scope: Scope
) -> tuple[list[tuple[str, ToolSpec]], list[Refusal]]:
    """Tools to write, and refusals, which do not reveal the relevant part of the scope."""
    given = list(entries)
    refused = [item for _, item in given if isinstance(item, Refusal)]
    specs = [(source, item) for source, item in given if isinstance(item, ToolSpec)]
    allowed = from_scope(scope)
    if allowed is None:
        return specs, refused
    ids = HasId(frozenset(point_id(spec.id) for _, spec in specs))
    foreign = {tool.id for tool in crib.list_tools(where=all_of(ids, Not(allowed)))}
    kept: list[tuple[str, ToolSpec]] = []
    for source, spec in specs:
        if spec.id not in foreign and is_allowed(allowed, spec):
            kept.append((source, spec))
        else:
            refused.append(Refusal(source, spec.id, OUT_OF_SCOPE_REASON))
    return kept, refused


def _prune(
    crib: Crib,
    report: IndexReport,
    scope: Scope,
    server: str | None,
    named: AbstractSet[Hashable],
) -> IndexReport:
    where = None if server is None else Equals("server", server)
    reach = crib.list_tools(scope=scope, where=where)
    gone = sorted(tool.id for tool in reach if tool.id not in named)
    if not gone:
        return report
    # As in the library, a refusal at the id of a tool that was sent stands for no other tool.
    unknown = [
        each
        for each in report.refused
        if each.place not in named or each.reason == OUT_OF_SCOPE_REASON
    ]
    if unknown:
        kept = refused_prune(len(gone), "tool", len(unknown))
        return replace(report, refused=(*report.refused, kept))
    crib.remove_tools(*gone)
    return replace(report, removed=(*report.removed, *gone))


# -- lists, counts and removal ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A page of tools; several servers or tags mean any. `cursor` is the last page's last id."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_TOOLS)] = 50
    cursor: Identifier | None = None
    server: Annotated[tuple[str, ...], Field(description="May be repeated: any of them.")] = ()
    tag: Annotated[tuple[str, ...], Field(description="May be repeated: any of them.")] = ()


class ListBody(Body):
    """A page of the tools that match a filter; `cursor` is the last page's last id.

    The order `use` begins with the tools that were called most often of late.
    """

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_TOOLS), AS_WHOLE] = 50
    cursor: Identifier | None = None
    where: FilterField | None = None
    scope: Scope | None = None
    order: ListOrder = "store"


async def list_tools(context: RequestContext, query: ListQuery) -> ToolPage:
    """List the tools in scope, with disabled ones, page by page in the store's order."""
    where = all_of(
        AnyOf("server", query.server) if query.server else None,
        AnyOf("tags", query.tag) if query.tag else None,
    )
    body = ListBody.model_construct(limit=query.limit, cursor=query.cursor, where=where)
    return await list_some(context, body)


async def list_some(context: RequestContext, body: ListBody) -> ToolPage:
    """List the tools in scope that match a filter, in the store's order or another."""
    scope = context.scope(body.scope)
    calls = Counter[str]()
    if body.order == "use":
        calls = await context.run(partial(_count_calls, context))

    def look(crib: Crib) -> list[ToolSpec]:
        if body.order == "store":
            found = crib.list_tools(scope=scope, where=body.where, after=body.cursor)
        else:
            found = _ranked_tools(crib.list_tools(scope=scope, where=body.where), body, calls)
        return list(islice(found, body.limit + 1))

    page = await context.read(look)
    shown = page[: body.limit]
    more = shown[-1].id if len(page) > body.limit else None
    return ToolPage(tuple(shown), more, {t.id: calls[t.id] for t in shown if calls[t.id]})


def _count_calls(context: RequestContext) -> Counter[str]:
    """Newest calls that the caller may see, counted by tool id."""
    reported = islice(context.log().outcomes(), MAX_COUNTED_CALLS)
    calls = Counter(str(made["tool"]) for made, of in reported if context.sees_decision(of))
    if context.sees_activity:
        calls.update(each.tool for each in context.state.activity.read(MAX_COUNTED_CALLS).calls)
    return calls


def _ranked_tools(
    tools: Iterable[ToolSpec], body: ListBody, calls: Counter[str]
) -> Iterable[ToolSpec]:
    """Tools in the order of a list, behind its cursor."""

    def place(tool: ToolSpec) -> tuple[int, str, str, str]:
        server = tool.server.casefold() if body.order == "server" else ""
        return -calls[tool.id], server, tool.name.casefold(), tool.id

    ranked = sorted(tools, key=place)
    if body.cursor is None:
        return ranked
    ids = [tool.id for tool in ranked]
    if body.cursor not in ids:
        raise QueryError(f"{body.cursor!r} is no longer in this list; start the list again")
    return ranked[ids.index(body.cursor) + 1 :]


async def get_tool(context: RequestContext, tool_id: ToolId) -> ToolSpec:
    """Get the whole specification of a tool."""
    return await context.read(lambda crib: crib.get_tool(tool_id, scope=context.scope()))


class LinksBody(Body):
    """A tool by its id; its links exclude tools outside of `scope`."""

    model_config = strict_config(examples=[{"id": "mail/send_mail"}])

    id: ToolId
    scope: Scope | None = None


async def find_links(context: RequestContext, body: LinksBody) -> ToolLinks:
    """Give the prerequisites of a tool, its consumers, and its replacement."""
    scope = context.scope(body.scope)
    return await context.read(lambda crib: crib.tool_links(body.id, scope=scope))


class CheckBody(Body):
    """Tools by their ids; `scope` narrows the key's scope."""

    model_config = strict_config(examples=[{"ids": ["mail/send_mail", "mail/no_such_tool"]}])

    ids: Annotated[list[ToolId], Field(min_length=1, max_length=MAX_PAGE_TOOLS)]
    scope: Scope | None = None


async def check_tools(context: RequestContext, body: CheckBody) -> CheckedTools:
    """Check for each tool whether it can be called, and give the reason if it cannot."""
    quarantine = context.quarantine()

    def work(crib: Crib) -> CheckedTools:
        held = (quarantine.get(tool_id) for tool_id in body.ids)
        back = [each.spec for each in held if each is not None]
        granted = context.scope()
        return CheckedTools(
            crib.tools.readiness(body.ids, scope=body.scope, granted=granted, held=back)
        )

    return await context.read(work)


async def delete_tool(context: RequestContext, tool_id: ToolId) -> None:
    """Remove a tool."""

    def work(crib: Crib) -> None:
        # A tool out of scope is unknown.
        crib.get_tool(tool_id, scope=context.scope())
        crib.remove_tools(tool_id)

    await context.write(work)


async def count_facets(context: RequestContext) -> Facets:
    """Count the tools in scope, by server, tag, category and sensitivity."""
    return await context.read(lambda crib: crib.facets(scope=context.scope()))


TOOL_PATH = "/v1/tools/{id:path}"
TOOL_ERRORS = (UnknownToolError,)

ENDPOINTS = (
    Endpoint("POST", "/v1/tools/search", find_tools, "tools", (CalibrationError,)),
    Endpoint("POST", "/v1/tools", index_tools, "tools", writes=True, upload=upload_tools),
    Endpoint("GET", "/v1/tools", list_tools, "tools"),
    Endpoint("POST", "/v1/tools/list", list_some, "tools"),
    Endpoint("POST", "/v1/tools/links", find_links, "tools", TOOL_ERRORS),
    Endpoint("POST", "/v1/tools/check", check_tools, "tools"),
    Endpoint("GET", TOOL_PATH, get_tool, "tools", TOOL_ERRORS),
    Endpoint("DELETE", TOOL_PATH, delete_tool, "tools", TOOL_ERRORS, writes=True),
    Endpoint("GET", "/v1/facets", count_facets, "tools"),
)
