"""Routing graph: its nodes and edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.graph.state import (  # pyright: ignore[reportMissingTypeStubs]
    CompiledStateGraph,
)

from toolcrib.integrations.langgraph.nodes import RoutingNodes
from toolcrib.integrations.langgraph.state import RoutingOptions, RoutingState, last_calls
from toolcrib.integrations.selection import AnyCrib


def build_routing_graph(
    crib: AnyCrib,
    model: BaseChatModel | str,
    tools: Sequence[BaseTool | Callable[..., Any]],
    options: RoutingOptions | None = None,
    *,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
) -> CompiledStateGraph[RoutingState, Any, Any, Any]:
    """Build a graph that answers turns with the few tools and passages that each needs.

    `tools` are all tools of the agent; the index chooses among them by their names. A
    conversation, and calls that a person must approve, need a `checkpointer`.

    Raises:
        SettingsError: an option names a tool that is not among `tools`.
    """
    nodes = RoutingNodes(crib, model, tools, options)
    graph: Any = StateGraph(RoutingState)
    graph.add_node("classify", nodes.classify)
    graph.add_node("select_tools", nodes.select_tools)
    graph.add_node("select_knowledge", nodes.select_knowledge)
    graph.add_node("plan", RunnableLambda(nodes.plan, nodes.aplan))
    graph.add_node("agent", RunnableLambda(nodes.agent, nodes.aagent))
    graph.add_node("tools", RunnableLambda(nodes.tools, nodes.atools))
    graph.add_node("reflect", nodes.reflect)
    graph.add_node("follow_steps", nodes.follow_steps)
    graph.add_node("answer", RunnableLambda(nodes.answer, nodes.aanswer))
    graph.add_edge(START, "classify")
    graph.add_conditional_edges("classify", after_classify, ["select_tools", "select_knowledge"])
    graph.add_edge("select_tools", "plan")
    graph.add_edge("select_knowledge", "plan")
    graph.add_edge("plan", "agent")
    graph.add_conditional_edges("agent", after_agent, ["tools", "answer"])
    graph.add_edge("tools", "reflect")
    after = sorted({*NODE_AFTER_STEP.values()})
    graph.add_conditional_edges("reflect", after_reflection, after)
    graph.add_edge("follow_steps", "agent")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=checkpointer, name="toolcrib")


def after_classify(state: RoutingState) -> list[str]:
    """Nodes after `classify`; always tools, since some tools are always included."""
    kind = state.get("decision", {})["route"]["kind"]
    return ["select_tools", *(["select_knowledge"] if kind in {"knowledge", "both"} else [])]


def after_agent(state: RoutingState) -> Literal["tools", "answer"]:
    """Node after `agent`."""
    return "tools" if last_calls(state["messages"]) else "answer"


NODE_AFTER_STEP: Mapping[str, str] = {
    "go_on": "follow_steps",
    "retry": "tools",
    "alternate": "plan",
    "replan": "plan",
    "reclassify": "classify",
    "stop": "answer",
}
"""Node after `reflect`, by its step."""


def after_reflection(state: RoutingState) -> str:
    """Node after `reflect`."""
    return NODE_AFTER_STEP[state.get("step", {})["action"]]
