"""FastMCP integration: a search for any server by `add_transform(ToolcribSearchTransform())`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from toolcrib.errors import QueryError, StoreError, nearest
from toolcrib.extras import needs_extra

with needs_extra("the search of a FastMCP server", "gateway"):
    from fastmcp.server.context import Context
    from fastmcp.server.dependencies import get_context
    from fastmcp.server.transforms.search.base import BaseSearchTransform
    from fastmcp.tools.base import Tool, ToolResult
    from fastmcp.utilities.versions import VersionSpec
    from mcp.types import TextContent, ToolAnnotations
    from pydantic import PrivateAttr

from toolcrib.crib import Crib
from toolcrib.indexers.readers.mcp import tool_specs
from toolcrib.integrations.arguments import argument_errors, describe_parameters
from toolcrib.integrations.providers import fit_definition
from toolcrib.parsing import parse_json
from toolcrib.records import FindResult, ToolHit, ToolSpec
from toolcrib.records.codec import as_json, is_object
from toolcrib.records.definitions import OwnTool
from toolcrib.retrieval.options import NEEDS_PARAMETER, SearchOptions
from toolcrib.settings import Settings
from toolcrib.store.base import point_id
from toolcrib.store.filters import HasId

MAX_FOUND_TOOLS = 50
MAX_COUNT_DIGITS = 6
COUNT_PARAMETERS = frozenset({"k", "token_budget"})
LIST_PARAMETERS = frozenset({"needs", "ids", "collections"})

FIND_DESCRIPTION = """\
Find tools by what they do. Answers with their names and arguments, best first.

Write needs: one line for each tool that the task takes, saying what such a tool can do, as its \
own description would. Write the capability, not the task, without names, dates and other values: \
for "tell Ana when Friday's train to Bonn leaves", write ["Look up train departures", \
"Send a message to a person"]. Each need is answered by itself: "needs" has a verdict for each, \
and each tool the places of the needs that it serves.

Use it before you say that something cannot be done. Then call the tool that fits by {}."""

CALL_DESCRIPTION = "Call a tool that find_tools has named."
CALL_PARAMETERS = {
    "name": {"type": "string", "description": "The tool's name, as find_tools gave it"},
    "arguments": {
        "type": "object",
        "description": "What its parameters or its inputSchema ask for",
        "additionalProperties": True,
    },
}


def count_parameter(description: str) -> dict[str, Any]:
    """Parameter for a number of results."""
    bounds = {"minimum": 1, "maximum": MAX_FOUND_TOOLS}
    return {"type": "integer", **bounds, "description": description}


HOST_PARAMETERS: Mapping[str, Any] = {
    "history": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"role": {"type": "string"}, "content": {"type": "string"}},
        },
    },
    "task": {"type": "string"},
}
"""Parameters of a search that a host fills in: earlier messages, and the first text of the run, of
which the query is then a step."""


class ToolcribSearchTransform(BaseSearchTransform):
    """Transform that shows `find_tools` and `call_tool` in place of a server's list of tools.

    A search covers the tools that the caller may see by `auth`, visibility and middleware. The
    first search indexes them in memory; later searches encode only changed tools. A search returns
    `k` tools, or as many as fit into `token_budget`; tools in `always_visible` stay listed. The
    search tells a model to call found tools by `called_by`.
    """

    def __init__(
        self,
        *,
        k: int = 5,
        token_budget: int | None = None,
        called_by: str = OwnTool.CALL_TOOL,
        always_visible: Sequence[str] = (),
        settings: Settings | None = None,
    ) -> None:
        super().__init__(
            max_results=k,
            always_visible=list(always_visible),
            search_tool_name=OwnTool.FIND_TOOLS,
            call_tool_name=OwnTool.CALL_TOOL,
        )
        self._token_budget = token_budget
        self._index = VisibleTools(settings)
        self._search_tool = self._make_search(called_by)
        self._calling_tool = calling_tool(OwnTool.CALL_TOOL, CALL_DESCRIPTION, self._call)

    def close(self) -> None:
        """Close the index; a later search builds another."""
        self._index.close()

    # -- shown tools -----------------------------------------------------------------------

    def _make_search_tool(self) -> Tool:
        return self._search_tool

    def _make_call_tool(self) -> Tool:
        return self._calling_tool

    def _make_search(self, called_by: str) -> Tool:
        async def find_tools(given: dict[str, Any], context: Context) -> ToolResult:
            needs = given.get("needs", ())
            # By default `k` has room for the first tool of every need.
            k = given.get("k") or max(self._max_results, len(needs))
            budget = self._token_budget if given.get("k") is None else None
            budget = given.get("token_budget", budget)
            options = SearchOptions(
                min(int(k), MAX_FOUND_TOOLS),
                needs=needs,
                token_budget=None if budget is None else int(budget),
                history=given.get("history"),
                task=given.get("task"),
            )
            return await self._find(context, given.get("query"), options)

        takes = {
            "needs": NEEDS_PARAMETER,
            "query": {"type": "string", "description": "What is to be done, in a few words"},
            "k": count_parameter(f"How many tools at most, if not {self._max_results}"),
            "token_budget": {
                "type": "integer",
                "minimum": 1,
                "description": "In place of k: as many tools as fit into so many tokens",
            },
        }
        return SearchTool.of(
            OwnTool.FIND_TOOLS,
            FIND_DESCRIPTION.format(called_by),
            takes,
            find_tools,
            READ_ONLY,
            one_of=("query", "needs", "task"),
            of_hosts=HOST_PARAMETERS,
        )

    # -- search and call ------------------------------------------------------------------------

    async def _find(self, ctx: Context, query: str | None, options: SearchOptions) -> ToolResult:
        tools = await self._get_visible_tools(ctx)
        result = await asyncio.to_thread(self._index.find, tools, query, options)
        named = {tool.name: tool for tool in tools}
        return search_answer(result, lambda hit: definition(_mcp_tool(named[hit.name])))

    async def _call(self, ctx: Context, name: str, arguments: Mapping[str, Any] | None) -> Any:
        """Call a tool that the caller may see; any other is unknown."""
        names = {tool.name for tool in await self.get_tool_catalog(ctx)}
        if name not in names:
            return await self.unknown_tool(name, names)
        return await ctx.fastmcp.call_tool(name, dict(arguments or {}))

    async def unknown_tool(self, name: str, names: Collection[str]) -> ToolResult:
        """Answer a call of a name that is not among the `names` in scope."""
        if await self.get_tool(name, _no_other_tool) is not None:
            return failure(
                f"The call was not made: {name} belongs to the search. Call it directly."
            )
        return unknown_name("tool", name, names, OwnTool.FIND_TOOLS)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        named = {tool.name: tool for tool in tools}
        options = SearchOptions(min(self._max_results, MAX_FOUND_TOOLS))
        result = await asyncio.to_thread(self._index.find, tools, query, options)
        return [named[hit.name] for hit in result.tools]


async def _no_other_tool(name: str, *, version: VersionSpec | None = None) -> None:
    """Find no further tool, in place of the next transform that `get_tool` asks."""


# -- the tools of the search itself ----------------------------------------------------------------

Act: TypeAlias = Callable[[dict[str, Any], Context], Awaitable[ToolResult]]


class SearchTool(Tool):
    """Tool of the search itself; faulty calls get the same errors as other tools' calls."""

    _act: Act = PrivateAttr()
    _parse: Callable[[Mapping[str, Any]], dict[str, Any]] = PrivateAttr()
    _one_of: Sequence[str] = PrivateAttr()
    _of_hosts: Mapping[str, Any] = PrivateAttr()

    @classmethod
    def of(
        cls,
        name: str,
        says: str,
        takes: Mapping[str, Any],
        act: Act,
        annotations: ToolAnnotations | None = None,
        *,
        parse: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
        one_of: Sequence[str] = (),
        of_hosts: Mapping[str, Any] = MappingProxyType({}),
    ) -> SearchTool:
        """Create a tool that requires its first parameter, or at least `one_of` several.

        `parse` corrects the arguments of a model. Parameters `of_hosts` are accepted, but not
        shown to a model.
        """
        schema = {
            "type": "object",
            "properties": dict(takes),
            "required": [] if one_of else [next(iter(takes))],
            "additionalProperties": False,
        }
        tool = cls(name=name, description=says, parameters=schema, annotations=annotations)
        tool._act, tool._parse, tool._one_of = act, parse or _parse_arguments, one_of
        tool._of_hosts = of_hosts
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool, or answer with the faults of the call."""
        try:
            given = self._parse(arguments)
        except QueryError as error:
            return self._refuse(str(error))
        properties = {**self.parameters["properties"], **self._of_hosts}
        schema = {**self.parameters, "properties": properties}
        if self._one_of and given.keys().isdisjoint(self._one_of):
            # The shown schema lacks this rule, as some providers refuse alternatives.
            schema = {**schema, "required": self._one_of[:1]}
        if wrong := argument_errors(schema, given, "the call"):
            return self._refuse(*wrong)
        try:
            return await self._act(given, get_context())
        except QueryError as error:
            return failure(f"{error}.")
        except StoreError as error:
            return failure(f"The search does not work at the moment: {error}.")

    def _refuse(self, *faults: str) -> ToolResult:
        listed = "\n".join(f"- {line}" for line in faults)
        return failure(
            f"The call of {self.name} is wrong.\n{listed}\n"
            f"It takes: {describe_parameters(self.parameters)}."
        )


def calling_tool(
    name: str,
    says: str,
    call: Callable[[Context, str, Mapping[str, Any]], Awaitable[ToolResult]],
    annotations: ToolAnnotations | None = None,
) -> SearchTool:
    """Create a tool that calls another tool by name, with arguments."""

    async def act(given: dict[str, Any], context: Context) -> ToolResult:
        return await call(context, given["name"], given["arguments"])

    return SearchTool.of(name, says, CALL_PARAMETERS, act, annotations, parse=_parse_call)


def _parse_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Drop null arguments, and parse numbers and lists that a model wrote as text."""
    return {key: _parse_argument(key, value) for key, value in given.items() if value is not None}


def _parse_argument(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if key in LIST_PARAMETERS:
        return _parse_list(value)
    is_count = key in COUNT_PARAMETERS and value.isdecimal() and len(value) <= MAX_COUNT_DIGITS
    return int(value) if is_count else value


def _parse_list(text: str) -> Any:
    """Parse a list written as JSON, or one item a line."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    return [line for line in text.splitlines() if line.strip()]


def _parse_call(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the name and arguments, which models also write as JSON text, or beside the name."""
    beside = {key: value for key, value in given.items() if key not in CALL_PARAMETERS}
    inner: Any = given.get("arguments")
    try:
        while isinstance(inner, str):
            inner = parse_json(inner) if inner.strip() else None
    except ValueError as error:
        raise QueryError(f"arguments: must be an object, not a text that is {error}") from None
    arguments = {**beside, **inner} if is_object(inner) else inner or beside
    return _parse_arguments({"name": given.get("name"), "arguments": arguments})


def _mcp_tool(tool: Tool) -> dict[str, Any]:
    return tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True)


# -- answers to a model --------------------------------------------------------------------------

READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
"""Annotations of a tool that only reads."""

NOTHING_FITS = (
    "No tool here fits. Say in other words what the tool must do, or go on without one; "
    "do not call a tool that was not listed."
)
NOTHING_YET = (
    "No tool of the servers that are ready fits, and these are not ready: {}. Search again in a "
    "moment, or tell the user and go on without one; do not call a tool that was not listed."
)
NOT_SURE = (
    "Perhaps none of these fits: {}. Use one only if its description says that it does what is "
    "needed; else say in other words what the tool must do, or go on without one."
)
LAST_IS_GENERAL = " The last one is there as a general one."


def definition(described: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce an MCP tool to its name, description and arguments, as every provider takes them."""
    schema, about = fit_definition(described["inputSchema"], described.get("description", ""))
    shown = {"name": described["name"], "description": about, "inputSchema": schema}
    return {key: value for key, value in shown.items() if value}


def search_answer(
    result: FindResult,
    define: Callable[[ToolHit], dict[str, Any]],
    missing: Sequence[Mapping[str, Any]] = (),
    **notes: Any,
) -> ToolResult:
    """Answer to a search: definitions of its tools, best first; `notes` are further fields.

    A note warns an agent if perhaps no tool fits. Each of `missing` names a `server` whose tools
    were not searched, or cannot be called.
    """
    tools = [
        define(hit) | ({} if hit.needs is None else {"needs": list(hit.needs)})
        for hit in result.tools
    ]
    answer: dict[str, Any] = {"tools": tools, "verdict": result.verdict}
    if result.confidence is not None:
        answer["confidence"] = round(result.confidence, 3)
    if result.needs:
        answer["needs"] = [as_json(need) for need in result.needs]
    if not tools and missing:
        answer["note"] = NOTHING_YET.format(", ".join(each["server"] for each in missing))
    elif not tools:
        answer["note"] = NOTHING_FITS
    elif result.verdict != "accept":
        answer["note"] = NOT_SURE.format(result.reason)
        if result.tools[-1].rule == "fallback":
            answer["note"] += LAST_IS_GENERAL
    beside = {"missing": list(missing), **notes}
    return structured_answer(answer | {key: note for key, note in beside.items() if note})


def structured_answer(answer: dict[str, Any]) -> ToolResult:
    """Answer as structured content, and as text for models."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return ToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def failure(text: str) -> ToolResult:
    """Answer with an error."""
    return ToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def unknown_name(kind: str, name: str, names: Iterable[str], search: str) -> ToolResult:
    """Answer with an error for a tool, skill or file that is not among the `names` in scope."""
    close = nearest(name, names)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    return failure(
        f"There is no {kind} {name[:100]!r}.{hint} Call {search} to see what there is, and use a "
        "name exactly as it stands in its answer."
    )


# -- the index -----------------------------------------------------------------------------------

_described = attrgetter(
    *("description", "parameters", "output_schema"),
    *("title", "version", "tags", "annotations", "meta"),
)

MAX_UNSEEN_TOOLS = 1000
"""Tools that are kept in the index beside the last caller's, for other callers."""


class VisibleTools:
    """Index of the tools that callers see; safe for several threads.

    Callers may see different tools, and different versions of a name. The index therefore has
    tools by name and digest, and filters each search by the caller's tools.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._crib: Crib | None = None
        self._lock = threading.Lock()
        self._read: dict[str, tuple[Tool, ToolSpec]] = {}
        self._kept_ids: OrderedDict[str, None] = OrderedDict()

    def find(self, tools: Sequence[Tool], query: str | None, options: SearchOptions) -> FindResult:
        """Find tools among `tools` for a query or needs; a hit has the tool's `name`."""
        with self._lock:
            specs = [spec for tool in tools if (spec := self._spec(tool)) is not None]
            crib = self._sync(specs)
        seen = HasId(frozenset(point_id(spec.id) for spec in specs))
        where = None if len(specs) == len(self._kept_ids) else seen
        found = crib.tools.find(query, replace(options, where=where))
        if where is None and len(specs) != len(self._kept_ids):
            # Tools of another caller came meanwhile.
            found = crib.tools.find(query, replace(options, where=seen))
        return found

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            if self._crib is not None:
                self._crib.close()
            self._crib = None
            self._kept_ids.clear()
            self._read.clear()

    def _sync(self, specs: list[ToolSpec]) -> Crib:
        """Index new tools, and drop the oldest tools of other callers."""
        if self._crib is None:
            self._crib = Crib.open(":memory:", settings=self._settings)
        new = [spec for spec in specs if spec.id not in self._kept_ids]
        if new:
            self._crib.index_tools(new)
        for spec in specs:
            self._kept_ids[spec.id] = None
            self._kept_ids.move_to_end(spec.id)
        too_many = len(self._kept_ids) - 2 * len(specs) - MAX_UNSEEN_TOOLS
        if oldest := list(self._kept_ids)[: max(0, too_many)]:
            self._crib.remove_tools(*oldest)
            for tool_id in oldest:
                del self._kept_ids[tool_id]
                self._read.pop(tool_id.rpartition("@")[0], None)
        return self._crib

    def _spec(self, tool: Tool) -> ToolSpec | None:
        """Specification of a tool; None for an unreadable description."""
        last = self._read.get(tool.name)
        # A server may create new tool objects for every list.
        if last is not None and (last[0] is tool or _described(last[0]) == _described(tool)):
            return last[1]
        for spec in tool_specs("FastMCP", "tools", [_mcp_tool(tool)], ""):
            if isinstance(spec, ToolSpec):
                known = spec.model_copy(update={"id": f"{spec.name}@{spec.digest}"})
                self._read[tool.name] = (tool, known)
                return known
        return None
