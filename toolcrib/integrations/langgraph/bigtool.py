"""Big-tool agents of LangGraph: `create_agent` of langgraph-bigtool, which searches a crib."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as make_tool
from langgraph.graph import END, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Send

from toolcrib.build import MEMORY
from toolcrib.crib import Crib
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.integrations.langchain import fit_tool, with_own_names
from toolcrib.integrations.langgraph.state import append_new
from toolcrib.integrations.selection import AnyCrib, known_tools
from toolcrib.records import Scope, ToolSpec
from toolcrib.retrieval.legs import has_words
from toolcrib.store.payload import has_key

Registry: TypeAlias = Mapping[str, BaseTool | Callable[..., Any]]
Retrieve: TypeAlias = Callable[..., list[str]]
ARetrieve: TypeAlias = Callable[..., Awaitable[list[str]]]


class BigToolState(MessagesState):
    """Messages, and the ids of the tools retrieved so far."""

    selected_tool_ids: Annotated[list[str], append_new]


def create_agent(
    llm: BaseChatModel,
    tool_registry: Registry,
    *,
    limit: int = 2,
    retrieve_tools_function: Retrieve | None = None,
    retrieve_tools_coroutine: ARetrieve | None = None,
    crib: AnyCrib | None = None,
    scope: Scope | None = None,
) -> StateGraph[BigToolState, Any, Any, Any]:
    """Create an agent that starts with a tool to retrieve tools, and gets the retrieved tools.

    `tool_registry` has the tools by ids of any kind. `crib` finds them by these ids or by their
    names; without a crib all are indexed in memory. A retrieval gives `limit` tools. The given
    functions retrieve in place of the crib. The result is a graph to compile.

    Raises:
        SourceError: the registry holds no readable tool.
    """
    if retrieve_tools_function is None and retrieve_tools_coroutine is None:
        retrieve_tools_function, retrieve_tools_coroutine = retrieval_functions(
            tool_registry, limit=limit, crib=crib, scope=scope
        )
    retrieve = StructuredTool.from_function(retrieve_tools_function, retrieve_tools_coroutine)
    tools = {
        key: each if isinstance(each, BaseTool) else make_tool(each)
        for key, each in tool_registry.items()
    }
    nodes = _Nodes(llm, tools, retrieve)
    graph: Any = StateGraph(BigToolState)
    graph.add_node("agent", RunnableLambda(nodes.agent, nodes.aagent))
    graph.add_node("select_tools", RunnableLambda(nodes.select_tools, nodes.aselect_tools))
    calls = _call_by_own_names
    node = ToolNode(list(tools.values()), wrap_tool_call=calls, awrap_tool_call=calls)
    graph.add_node("tools", node)
    graph.set_entry_point("agent")
    graph.add_conditional_edges("agent", nodes.after_agent, ["select_tools", "tools", END])
    graph.add_edge("select_tools", "agent")
    graph.add_edge("tools", "agent")
    return graph


def retrieval_functions(
    tool_registry: Registry,
    *,
    limit: int = 2,
    crib: AnyCrib | None = None,
    scope: Scope | None = None,
) -> tuple[Retrieve, ARetrieve]:
    """Create the retrieval of a registry's ids by a query, as a function and as a coroutine.

    langgraph-bigtool's own `create_agent` takes both.

    Raises:
        SourceError: without a crib, the registry holds no readable tool.
    """
    index = crib if crib is not None else _index_in_memory(tool_registry)
    keys = _keys(index, tool_registry)
    where = has_key(tool_id.casefold() for tool_id in keys)

    def retrieve_tools(query: str) -> list[str]:
        """Retrieve tools to use, by what they should be able to do."""
        if where is None or not has_words(query):
            return []
        found = index.find_tools(query, limit, scope=scope, where=where)
        return [keys[hit.id] for hit in found.tools if hit.id in keys]

    async def aretrieve_tools(query: str) -> list[str]:
        """Retrieve tools to use, by what they should be able to do."""
        return await asyncio.to_thread(retrieve_tools, query)

    if isinstance(index, Crib) and index is not crib:
        # The index in memory is closed with the function that searches it.
        weakref.finalize(retrieve_tools, index.close)
    return retrieve_tools, aretrieve_tools


def _index_in_memory(tools: Registry) -> Crib:
    """Index all tools in memory, under their ids in the registry."""
    specs = [
        item.model_copy(update={"id": key}) if isinstance(item, ToolSpec) else item
        for key, tool in tools.items()
        for _, item in tool_entries(tool, None, None)
    ]
    crib = Crib.open(MEMORY)
    crib.index_tools([spec for spec in specs if isinstance(spec, ToolSpec)])
    return crib


def _keys(crib: AnyCrib, tools: Registry) -> dict[str, str]:
    """Ids of the registry by ids of the index, matched by id, else by the tool's name."""
    names = {key: getattr(tool, "name", None) or key for key, tool in tools.items()}
    known = known_tools(crib, {*tools, *names.values()})
    return {
        spec.id: key
        for key, name in names.items()
        for spec in known.get(key) or known.get(name, ())
    }


def _call_by_own_names(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
    """Make a call, also an asynchronous one, with the names of the tool's own schema."""
    return execute(with_own_names(request))


class _Nodes:
    """Nodes of the agent: the model with the tools retrieved so far, and the retrieval."""

    def __init__(
        self, model: BaseChatModel, tools: Mapping[str, BaseTool], retrieve: BaseTool
    ) -> None:
        self._model, self._tools, self._retrieve = model, tools, retrieve

    def agent(self, state: BigToolState) -> dict[str, Any]:
        return {"messages": [self._model_with_tools(state).invoke(state["messages"])]}

    async def aagent(self, state: BigToolState) -> dict[str, Any]:
        return {"messages": [await self._model_with_tools(state).ainvoke(state["messages"])]}

    def select_tools(self, calls: Sequence[ToolCall]) -> dict[str, Any]:
        return self._selection([(call, self._retrieve.invoke(call["args"])) for call in calls])

    async def aselect_tools(self, calls: Sequence[ToolCall]) -> dict[str, Any]:
        found = [(call, await self._retrieve.ainvoke(call["args"])) for call in calls]
        return self._selection(found)

    def after_agent(self, state: BigToolState) -> Any:
        last = state["messages"][-1]
        if not isinstance(last, AIMessage) or not last.tool_calls:
            return END
        return [
            Send("select_tools" if call["name"] == self._retrieve.name else "tools", [call])
            for call in last.tool_calls
        ]

    def _model_with_tools(self, state: BigToolState) -> Any:
        selected = [fit_tool(self._tools[key]) for key in state.get("selected_tool_ids", ())]
        return self._model.bind_tools([self._retrieve, *selected])

    def _selection(self, found: Sequence[tuple[ToolCall, list[str]]]) -> dict[str, Any]:
        """Answer with the names of the retrieved tools, and add their ids."""
        answers: list[ToolMessage] = []
        for call, ids in found:
            names = [self._tools[key].name for key in ids]
            answer = ToolMessage(f"Available tools: {names}", tool_call_id=call["id"] or "")
            answers.append(answer)
        selected = [each for _, ids in found for each in ids]
        return {"messages": answers, "selected_tool_ids": selected}
