"""Reading tools: found, looked up, listed, counted."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal

from toolcrib.client.answers import (
    Page,
    read_facets,
    read_found,
    read_page,
    read_readiness,
    read_tool,
)
from toolcrib.client.calls import Call, Steps, filter_as_json, given, quoted, scope_as_json
from toolcrib.errors import QueryError, UnknownToolError
from toolcrib.records import Facets, FindResult, Scope, ToolSpec
from toolcrib.retrieval.queries import check_query
from toolcrib.store.base import Identity, StoreInfo
from toolcrib.store.filters import Equals, Filter
from toolcrib.store.payload import FACETS, count_facets

__all__ = [
    "every_tool",
    "facets",
    "find_tools",
    "get_tool",
    "info",
    "look_up",
    "tool_path",
    "tools_page",
]

PAGE = 500
"""Tools a request when they are listed: the most that a service gives."""


def find_tools(
    query: str,
    k: int | Literal["auto"] = 5,
    *,
    scope: Scope | None = None,
    where: Filter | None = None,
    explain: bool = False,
    gate: bool = True,
    coverage: float = 0.95,
) -> Call[FindResult]:
    """The tools that fit a query.

    Raises:
        QueryError: an empty query, an impossible `k` or `coverage`, or an unknown field in `where`.
    """
    check_query(query, k, where)
    if k == "auto" and not 0 <= coverage <= 1:
        raise QueryError(f"coverage is {coverage}; it must be between 0 and 1")
    body = given(
        query=query,
        k=k,
        scope=scope_as_json(scope),
        where=filter_as_json(where),
        explain=explain,
        gate=gate,
        # Embedded, it is not looked at either where it does not count.
        coverage=coverage if k == "auto" else None,
        shape="full",
    )
    return Call("POST", "/v1/tools/search", read_found, body)


def look_up(tool_id: str) -> Call[ToolSpec]:
    """One tool.

    Raises:
        UnknownToolError: the id is empty, and so no tool's.
    """
    return Call("GET", tool_path(tool_id), read_tool, about=tool_id)


def get_tool(tool_id: str, scope: Scope | None = None) -> Steps[ToolSpec]:
    """One tool; what a scope does not allow is as unknown as the rest.

    Raises:
        UnknownToolError: there is none; the nearest ids are named.
    """
    if scope is None:
        return (yield look_up(tool_id))
    for tool in (yield from every_tool(scope, Equals("name_key", tool_id.casefold()))):
        if tool.id == tool_id:
            return tool
    known = [tool.id for tool in (yield from every_tool(scope, None))]
    raise UnknownToolError(tool_id, tuple(get_close_matches(tool_id, known, n=3)))


def tools_page(scope: Scope | None, where: Filter | None, after: str | None) -> Call[Page]:
    """The tools behind one, as many as come at once; `after` is its id, or a page's cursor.

    Raises:
        QueryError: an unknown field in `where`.
    """
    where_json, scope_json = filter_as_json(where), scope_as_json(scope)
    body = given(limit=PAGE, cursor=after, where=where_json, scope=scope_json)
    return Call("POST", "/v1/tools/list", read_page, body)


def every_tool(scope: Scope | None, where: Filter | None) -> Steps[list[ToolSpec]]:
    """All tools in reach."""
    found: list[ToolSpec] = []
    page = Page((), "")
    after: str | None = None
    while page.next is not None:
        page: Page = yield tools_page(scope, where, after)
        found += page.tools
        after = page.next
    return found


def facets(scope: Scope | None = None) -> Steps[Facets]:
    """What there is to narrow by; counted here where only part of it is meant."""
    if scope is None:
        return (yield Call("GET", "/v1/facets", read_facets))
    tools = yield from every_tool(scope, None)
    return count_facets({name: getattr(tool, name) for name in FACETS} for tool in tools)


def info(url: str) -> Steps[tuple[StoreInfo, Identity]]:
    """What the service stands on, and a digest of what made its index."""
    ready = yield Call("GET", "/readyz", read_readiness)
    counted: Facets = yield Call("GET", "/v1/facets", read_facets)
    store = StoreInfo(ready.engine, url, counted.tools, optimised=True)
    return store, {"dense": ready.encoder, "digest": ready.index}


def tool_path(tool_id: str) -> str:
    """The path of a tool.

    Raises:
        UnknownToolError: the id is empty, and so no tool's.
    """
    if not tool_id:
        raise UnknownToolError(tool_id)
    return f"/v1/tools/{'/'.join(map(quoted, tool_id.split('/')))}"
