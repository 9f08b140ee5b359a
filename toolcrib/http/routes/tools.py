"""Tools over HTTP: found, put in, taken out, listed and counted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.dataclasses import dataclass as checked_dataclass
from starlette.requests import Request
from starlette.responses import Response

from toolcrib.access.quarantine import Quarantine
from toolcrib.crib import Crib
from toolcrib.errors import CalibrationError, SpecError, UnknownToolError
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import AS_WHOLE, Body, Count, Endpoint, QueryText, answer, documented
from toolcrib.http.uploads import Line, UploadWork, in_parts, read_upload, respond
from toolcrib.indexers.readers.registry import formats, read_data
from toolcrib.indexers.sync import Entry, ReadSources
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.integrations.formats import export, named_ids
from toolcrib.records import (
    Facets,
    FindResult,
    IndexReport,
    Refusal,
    Scope,
    ToolHit,
    ToolLinks,
    ToolPage,
    ToolSpec,
)
from toolcrib.records.audit import Held
from toolcrib.records.codec import as_json
from toolcrib.records.reports import CheckedTools
from toolcrib.retrieval.options import MAX_NEEDS, SearchOptions
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

__all__ = ["ENDPOINTS", "Shape", "ToolId", "is_allowed", "shaped", "write_tools"]

Shape = Literal[
    "summary",
    "full",
    "mcp",
    "openai",
    "openai-namespaces",
    "anthropic",
    "anthropic-deferred",
    "tool_reference",
    "signature",
    "typescript",
    "python-stub",
]
"""How found tools are written: ours in short or with the whole specification, or definitions
for a provider."""

MAX_PAGE = 500
MAX_BUDGET = 1_000_000

NOT_ALLOWED = "this key's scope does not allow to write this tool"
HELD_BACK = "held back until somebody approves it: "


Cursor = Annotated[str, Field(min_length=1, max_length=1100)]
"""The id of the last tool of the page before."""

ToolId = Annotated[
    str, Field(min_length=1, max_length=1100, description="`server/name`, slashes and all.")
]

EXAMPLE_TOOL: dict[str, Any] = {
    "name": "send_mail",
    "server": "mail",
    "description": "Send a mail to one or more people.",
    "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}},
    "tags": ["mail"],
}

SEARCHES: list[dict[str, Any]] = [
    {"query": "write a mail", "k": 3},
    {"needs": ["Send a mail", "List the events of a calendar"]},
]
QUERY_OR_NEEDS = [
    {"required": ["query"], "properties": {"query": {"type": "string"}}},
    {"required": ["needs"], "properties": {"needs": {"type": "array", "minItems": 1}}},
]

# -- finding ---------------------------------------------------------------------------------


@checked_dataclass(
    frozen=True, kw_only=True, config=documented(examples=SEARCHES, anyOf=QUERY_OR_NEEDS)
)
class SearchBody(SearchOptions):
    """What the tools must do: a query, or `needs`, one line for each tool that is wished for.

    Each need is searched and judged by itself; a query beside them fills up what they leave.
    `k` tools, or with `auto` as many as hold all that are needed with the probability
    `coverage`. Those of a probability below `least` are left out, but never the first. Without
    `gate` comes the ranking as it is. `explain` adds what each leg contributed. With a
    `token_budget` come, in place of `k`, as many of the best tools as fit, at least one: a token
    for every three characters of a tool in its `form`, which the shape `signature` has by itself.
    In the `order` of ids the same tools always stand alike.
    """

    query: QueryText | None = None
    needs: Annotated[list[QueryText], Field(max_length=MAX_NEEDS)] | None = None
    k: Count | Literal["auto"] = 5
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    least: Annotated[float, Field(ge=0, le=1)] | None = None
    token_budget: Annotated[int, Field(ge=1, le=MAX_BUDGET), AS_WHOLE] | None = None
    shape: Shape = "summary"


@dataclass(frozen=True, slots=True)
class FoundTools(FindResult):
    """The answer to a query, as the command line gives it.

    In a provider's shape `tools` holds its definitions, and `names` says which tool's id each
    of their names stands for.
    """

    tools: tuple[ToolHit, ...] | tuple[dict[str, Any], ...]  # pyright: ignore[reportIncompatibleVariableOverride]
    names: Annotated[dict[str, str], Field(exclude_if=lambda _: False)] = field(
        default_factory=dict[str, str]
    )


async def find_tools(context: RequestContext, body: SearchBody) -> Response:
    """Find the tools that fit a query, best first, with the gate's verdict on them."""
    given: dict[str, Any] = {each.name: getattr(body, each.name) for each in fields(SearchOptions)}
    given["scope"] = context.scope(body.scope)
    if body.shape == "signature":
        given["form"] = "signature"
    options = SearchOptions(**given)
    found = await context.read(lambda crib: crib.tools.find(body.query, options))
    text = "\n".join(each for each in (body.query, *(body.needs or ())) if each is not None)
    context.answered(found.took_ms, verdict=found.verdict, degraded=found.degraded, text=text)
    return shaped(found, found.tools, body.shape, "tools")


def shaped(record: object, hits: Sequence[ToolHit], shape: Shape, *way: str) -> Response:
    """A record that stands for these hits, with them in a shape, at the end of a way."""
    if shape in {"summary", "full"}:
        return answer(record, full=shape == "full")
    shown = as_json(record)
    place = shown
    for step in way[:-1]:
        place = place[step]
    tools = [hit.tool for hit in hits]
    place |= {way[-1]: export(tools, shape), "names": named_ids(tools, shape)}
    return answer(shown)


# -- tools in --------------------------------------------------------------------------------


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


class IndexBody(Body):
    """Tools to put in, in any format that is read.

    `tools` is a list of definitions (ours, MCP, OpenAI, Anthropic) or one document: an answer
    to `tools/list`, an OpenAPI document, an object with a list under `tools`. `server` overrides
    every tool's. `prune` removes what is not named (of `server` only, when given).
    """

    model_config = documented(examples=[{"tools": [EXAMPLE_TOOL], "server": "mail"}])

    tools: list[dict[str, Any]] | dict[str, Any]
    format: Format | None = None
    server: ServerName | None = None
    prune: bool = False


@dataclass(frozen=True, slots=True)
class ToolReport(IndexReport):
    """What became of tools; `quarantined` ones are held back until somebody approves them."""

    quarantined: tuple[Held, ...] = ()


async def index_tools(context: RequestContext, body: IndexBody) -> Response:
    """Put tools in, or bring them up to date.

    What has not changed is left alone. What is wrong, or out of the key's scope, is refused in
    the report and keeps nothing else out; what the audit finds dangerous is held back.
    """

    # Where writes take turns: there may be tens of thousands.
    def read(_crib: Crib) -> list[Line]:
        name = "the request"
        lines: list[Line] = []
        for item in read_data(body.tools, name, format=body.format, server=body.server):
            context.checkpoint()
            called = None if isinstance(item, Refusal) else item.id
            lines.append(Line.of((name, item), called, Entry))
        return lines

    work, held = _work(context, await context.write(read), body.server, prune=body.prune)
    report = await work.run(context, ignore)
    return answer(_tool_report(report, held), full=True)


def _work(
    context: RequestContext, lines: list[Line], server: str | None, *, prune: bool
) -> tuple[UploadWork[ToolSpec], list[Held]]:
    """What is to be done with tools, and a list of what will be held back of them.

    As embedded, nothing is pruned while anything is refused; what is held back counts as named.
    """
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
            return _pruned(crib, report, context.scope(), server, named)

    return UploadWork(in_parts(lines), write, finish), held


@dataclass(frozen=True, slots=True)
class ToolUpload:
    """Of an upload: `prune` removes what it does not name (of `server` only, when given)."""

    prune: bool = False
    server: str | None = None


async def upload_tools(context: RequestContext, query: ToolUpload, request: Request) -> Response:
    """Put tools in as JSON Lines.

    A line is an array: where a tool came from, and a specification, or what was refused
    (`source`, `place`, `reason`). Lines of the answer tell the `progress`, and at the end the
    `report`, or the `problem`.
    """
    lines = await read_upload(context, request, Entry, attrgetter("id"))
    work, held = _work(context, lines, query.server, prune=query.prune)
    sources: dict[str, str] = {}

    def write(crib: Crib, part: list[Entry], listener: Listener) -> IndexReport:
        sources.update((item.id, source) for source, item in part if isinstance(item, ToolSpec))
        return work.write(crib, part, listener)

    def finish(crib: Crib, report: IndexReport) -> IndexReport:
        report = work.finish(crib, report)
        back = (Refusal("", each.tool_id, HELD_BACK + each.reason) for each in held)
        refused = (
            replace(each, source=sources.get(each.place, each.source))
            for each in (*report.refused, *back)
        )
        return replace(report, refused=tuple(refused))

    return await respond(context, replace(work, write=write, finish=finish))


def write_tools(
    crib: Crib,
    entries: Iterable[Entry],
    scope: Scope,
    quarantine: Quarantine | None,
    listener: Listener = ignore,
    written_by: str = "",
) -> tuple[IndexReport, list[Held]]:
    """Put in the tools that the scope allows and the audit lets pass; the others are held.

    `written_by` is the id of the key that sends them. Nothing out of scope is replaced.

    Raises:
        StoreError: the store refused; part of it may be written all the same.
    """
    kept, refused = _sorted_out(crib, entries, scope)
    held: list[Held] = []
    if quarantine is not None:
        _, held = quarantine.screen([spec for _, spec in kept], written_by=written_by)
        back = {(each.tool_id, each.digest) for each in held}
        kept = [(source, spec) for source, spec in kept if (spec.id, spec.digest) not in back]
    report = crib.index_tools(ReadSources(kept), progress=listener)
    return replace(report, refused=(*refused, *report.refused)), held


def _tool_report(report: IndexReport, held: Iterable[Held]) -> ToolReport:
    made = {each.name: getattr(report, each.name) for each in fields(report)}
    return ToolReport(**made, quarantined=tuple(held))


def is_allowed(scope: Scope, spec: ToolSpec) -> bool:
    """Whether a tool is within a scope."""
    return _is_within(from_scope(scope), spec)


def _is_within(allowed: Filter | None, spec: ToolSpec) -> bool:
    if allowed is None:
        return True
    try:
        return matches(allowed, point_id(spec.id), tool_payload(spec))
    except SpecError:
        # No store keeps it, which whoever puts it in is told.
        return True


def _sorted_out(
    crib: Crib, entries: Iterable[Entry], scope: Scope
) -> tuple[list[tuple[str, ToolSpec]], list[Refusal]]:
    """What may be put in, and what is refused; the same words whatever the reason in the scope."""
    found = list(entries)
    refused = [item for _, item in found if isinstance(item, Refusal)]
    specs = [(source, item) for source, item in found if isinstance(item, ToolSpec)]
    allowed = from_scope(scope)
    if allowed is None:
        return specs, refused
    ids = HasId(frozenset(point_id(spec.id) for _, spec in specs))
    foreign = {tool.id for tool in crib.list_tools(where=all_of(ids, Not(allowed)))}
    kept: list[tuple[str, ToolSpec]] = []
    for source, spec in specs:
        if spec.id not in foreign and _is_within(allowed, spec):
            kept.append((source, spec))
        else:
            refused.append(Refusal(source, spec.id, NOT_ALLOWED))
    return kept, refused


def _pruned(
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
    if report.refused:
        reason = (
            f"{len(gone)} tools are in no source, but were kept: {len(report.refused)} entries "
            "were refused and may stand for them; mend those and prune again"
        )
        return replace(report, refused=(*report.refused, Refusal("--prune", "", reason)))
    crib.remove_tools(*gone)
    return replace(report, removed=(*report.removed, *gone))


# -- tools listed, counted and taken out -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which tools to list, from which one on; of several servers or tags, any of them."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50
    cursor: Cursor | None = None
    server: Annotated[tuple[str, ...], Field(description="May be repeated: any of them.")] = ()
    tag: Annotated[tuple[str, ...], Field(description="May be repeated: any of them.")] = ()


class ListBody(Body):
    """Which tools to list, from which one on."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE), AS_WHOLE] = 50
    cursor: Cursor | None = None
    where: FilterField | None = None
    scope: Scope | None = None


async def list_tools(context: RequestContext, query: ListQuery) -> Response:
    """List the tools in reach, disabled ones too, page by page in an order of the store's own."""
    where = all_of(
        AnyOf("server", query.server) if query.server else None,
        AnyOf("tags", query.tag) if query.tag else None,
    )
    return await _page(context, context.scope(), where, query.cursor, query.limit)


async def list_some(context: RequestContext, body: ListBody) -> Response:
    """List the tools in reach that a filter lets pass; the pages are those of the plain list."""
    scope = context.scope(body.scope)
    return await _page(context, scope, body.where, body.cursor, body.limit)


async def _page(
    context: RequestContext, scope: Scope, where: Filter | None, cursor: str | None, limit: int
) -> Response:
    def look(crib: Crib) -> list[ToolSpec]:
        return list(islice(crib.list_tools(scope=scope, where=where, after=cursor), limit + 1))

    page = await context.read(look)
    more = page[limit - 1].id if len(page) > limit else None
    return answer(ToolPage(tuple(page[:limit]), more))


async def get_tool(context: RequestContext, tool_id: ToolId) -> Response:
    """Give everything that is known of one tool."""
    scope = context.scope()
    return answer(await context.read(lambda crib: crib.get_tool(tool_id, scope=scope)))


class LinksBody(Body):
    """A tool by its id; what is beyond `scope` is in none of its links."""

    model_config = documented(examples=[{"id": "mail/send_mail"}])

    id: ToolId
    scope: Scope | None = None


async def find_links(context: RequestContext, body: LinksBody) -> Response:
    """Give the tools that one needs first, those that need it, and what replaces it."""
    scope = context.scope(body.scope)
    return answer(await context.read(lambda crib: crib.tool_links(body.id, scope=scope)))


class CheckBody(Body):
    """Tools by their ids. What `scope` leaves out of those that the key may see is out of scope."""

    model_config = documented(examples=[{"ids": ["mail/send_mail", "mail/no_such_tool"]}])

    ids: Annotated[list[ToolId], Field(min_length=1, max_length=MAX_PAGE)]
    scope: Scope | None = None


async def check_tools(context: RequestContext, body: CheckBody) -> Response:
    """Say of each tool whether it can be called, or why not, before an agent relies on it."""
    quarantine = context.quarantine()

    def work(crib: Crib) -> CheckedTools:
        held = (quarantine.get(tool_id) for tool_id in body.ids)
        back = [each.spec for each in held if each is not None]
        granted = context.scope()
        return CheckedTools(
            crib.tools.readiness(body.ids, scope=body.scope, granted=granted, held=back)
        )

    return answer(await context.read(work))


async def delete_tool(context: RequestContext, tool_id: ToolId) -> None:
    """Take a tool out."""
    scope = context.scope()

    def work(crib: Crib) -> None:
        # One out of scope is as unknown as any other.
        crib.get_tool(tool_id, scope=scope)
        crib.remove_tools(tool_id)

    await context.write(work)


async def count_facets(context: RequestContext) -> Response:
    """Count the tools in reach, by server, tag, category and sensitivity."""
    scope = context.scope()
    return answer(await context.read(lambda crib: crib.facets(scope=scope)))


ENDPOINTS = (
    Endpoint("POST", "/v1/tools/search", find_tools, "tools", FoundTools, (CalibrationError,)),
    Endpoint(
        "POST", "/v1/tools", index_tools, "tools", ToolReport, writes=True, upload=upload_tools
    ),
    Endpoint("GET", "/v1/tools", list_tools, "tools", ToolPage),
    Endpoint("POST", "/v1/tools/list", list_some, "tools", ToolPage),
    Endpoint("POST", "/v1/tools/links", find_links, "tools", ToolLinks, (UnknownToolError,)),
    Endpoint("POST", "/v1/tools/check", check_tools, "tools", CheckedTools),
    Endpoint("GET", "/v1/tools/{id:path}", get_tool, "tools", ToolSpec, (UnknownToolError,)),
    Endpoint(
        "DELETE",
        "/v1/tools/{id:path}",
        delete_tool,
        "tools",
        None,
        (UnknownToolError,),
        writes=True,
    ),
    Endpoint("GET", "/v1/facets", count_facets, "tools", Facets),
)
