"""Decision of an agent's target without a turn router around it."""

from __future__ import annotations

from toolcrib.records import AgentDecision, KnowledgeResult, Turn
from toolcrib.router.choices.agents import AgentRouter


def decide(
    agents: AgentRouter, turn: Turn, knowledge: KnowledgeResult | None = None
) -> tuple[AgentDecision, tuple[str, ...]]:
    return agents.finish(agents.begin(turn), knowledge)
