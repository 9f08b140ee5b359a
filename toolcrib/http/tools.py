"""The registry: tools in, out, listed and counted."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from toolcrib.crib import Crib
from toolcrib.errors import UnknownToolError
from toolcrib.http.endpoints import Endpoint, answer, nothing
from toolcrib.http.tool_writing import Pruning, Written, remove_tool, write_tools
from toolcrib.http.visits import Visit, visit_of
from toolcrib.http.wire.tools import (
    MAX_PAGE,
    Cursor,
    FacetsAnswer,
    IndexAnswer,
    IndexBody,
    ListBody,
    ToolsAnswer,
)
from toolcrib.indexers.readers.registry import read_sent
from toolcrib.records import Scope, ToolSpec
from toolcrib.store.filters import AnyOf, Filter, all_of, read_filter

__all__ = ["ENDPOINTS", "ToolId"]

ToolId = Annotated[
    str, Path(min_length=1, max_length=1100, description="`server/name`, slashes and all.")
]
Names = Annotated[list[str], Query(description="May be repeated: any of them.")]


async def index_tools(body: IndexBody, request: Request) -> Response:
    """Put tools in, or bring them up to date.

    What has not changed is left alone. What is wrong, or out of the key's scope, is refused in
    the report and keeps nothing else out; what the audit finds dangerous is held back.
    """
    visit = visit_of(request)
    written = await visit.write(partial(_write, visit, body))
    return answer(written.as_dict())


def _write(visit: Visit, body: IndexBody, crib: Crib) -> Written:
    entries = list(read_sent(body.tools, body.format, body.server))
    pruning = Pruning(body.server) if body.prune else None
    with visit.house.writing(visit.namespace):
        quarantine = visit.quarantine() if visit.house.settings.service.audit else None
        return write_tools(crib, entries, visit.scope(), quarantine, pruning)


async def list_tools(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[Cursor | None, Query()] = None,
    server: Names = [],  # noqa: B006 -- FastAPI copies it
    tag: Names = [],  # noqa: B006
) -> Response:
    """List the tools in reach, disabled ones too, page by page in an order of the store's own."""
    visit = visit_of(request)
    where = all_of(
        AnyOf("server", server) if server else None,
        AnyOf("tags", tag) if tag else None,
    )
    return await _page(visit, visit.scope(), where, cursor, limit)


async def list_some(body: ListBody, request: Request) -> Response:
    """List the tools in reach that a filter lets pass; the pages are those of the plain list."""
    visit = visit_of(request)
    scope = visit.scope(body.scope and body.scope.as_scope())
    where = None if body.where is None else read_filter(body.where)
    return await _page(visit, scope, where, body.cursor, body.limit)


async def _page(
    visit: Visit, scope: Scope, where: Filter | None, cursor: str | None, limit: int
) -> Response:
    def look(crib: Crib) -> list[ToolSpec]:
        return list(islice(crib.list_tools(scope=scope, where=where, after=cursor), limit + 1))

    page = await visit.read(look)
    more = page[limit - 1].id if len(page) > limit else None
    return answer({"tools": [spec.model_dump(mode="json") for spec in page[:limit]], "next": more})


async def get_tool(id: ToolId, request: Request) -> Response:
    """Give everything that is known of one tool."""
    visit = visit_of(request)
    scope = visit.scope()
    spec = await visit.read(lambda crib: crib.get_tool(id, scope=scope))
    return answer(spec.model_dump(mode="json"))


async def delete_tool(id: ToolId, request: Request) -> Response:
    """Take a tool out."""
    visit = visit_of(request)
    scope = visit.scope()
    await visit.write(lambda crib: remove_tool(crib, id, scope))
    return nothing()


async def count_facets(request: Request) -> Response:
    """Count the tools in reach, by server, tag, category and sensitivity."""
    visit = visit_of(request)
    scope = visit.scope()
    facets = await visit.read(lambda crib: crib.facets(scope=scope))
    return answer(facets.as_dict())


TAG = "tools"

ENDPOINTS = (
    Endpoint("POST", "/v1/tools", index_tools, TAG, IndexAnswer, writes=True),
    Endpoint("GET", "/v1/tools", list_tools, TAG, ToolsAnswer),
    Endpoint("POST", "/v1/tools/list", list_some, TAG, ToolsAnswer),
    Endpoint("GET", "/v1/tools/{id:path}", get_tool, TAG, ToolSpec, errors=(UnknownToolError,)),
    Endpoint(
        "DELETE",
        "/v1/tools/{id:path}",
        delete_tool,
        TAG,
        errors=(UnknownToolError,),
        writes=True,
    ),
    Endpoint("GET", "/v1/facets", count_facets, TAG, FacetsAnswer),
)
