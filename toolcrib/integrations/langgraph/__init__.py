"""LangGraph integration: a graph that routes each turn, recovers from failures, and cites."""

from __future__ import annotations

from toolcrib.extras import needs_extra

with needs_extra("graphs of LangGraph", "langgraph"):
    import langgraph.prebuilt  # noqa: F401  # pyright: ignore[reportUnusedImport]

from toolcrib.integrations.langgraph.bigtool import BigToolState, create_agent, retrieval_functions
from toolcrib.integrations.langgraph.routing import RoutingNodes, build_routing_graph
from toolcrib.integrations.langgraph.state import (
    RoutingOptions,
    RoutingState,
    may_repeat,
    needs_approval,
)

__all__ = [
    "BigToolState",
    "RoutingNodes",
    "RoutingOptions",
    "RoutingState",
    "build_routing_graph",
    "create_agent",
    "may_repeat",
    "needs_approval",
    "retrieval_functions",
]
