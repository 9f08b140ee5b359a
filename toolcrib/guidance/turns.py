"""Guidance for a turn: a hint, and other tools, for an agent that is stuck."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from toolcrib.errors import ToolcribError
from toolcrib.guidance.classifiers import GuidanceContext
from toolcrib.guidance.providers import collect_guidance, default_providers, stuck_tool
from toolcrib.guidance.trajectory import analyse
from toolcrib.records import Decision, Guidance, ToolHit, ToolSpec, Turn
from toolcrib.records.answers import with_ranks
from toolcrib.store.payload import named_tools, respell

logger = logging.getLogger(__name__)

MAX_EVENTS = 200
"""Newest events of a turn's trajectory that are read."""

OtherTools: TypeAlias = Callable[[str, Turn], tuple[ToolSpec, Sequence[ToolHit]] | None]
"""Function from a tool's name to the tool and its replacements; None for a name out of scope."""


@dataclass(frozen=True, slots=True)
class TurnGuidance:
    """Guidance of a turn; `others` replace the tool `stuck_with`, an id."""

    guidance: Guidance
    stuck_with: str | None = None
    others: tuple[ToolHit, ...] = ()
    degraded: tuple[str, ...] = ()

    def apply_to(self, decision: Decision, *, at_end: bool = False) -> Decision:
        """Apply to a decision: add the hint, and replace the failing tool.

        Replacements come first, or last if shown tools must keep their places. Tools added by a
        rule stay.
        """
        tools = decision.tools
        if self.others:
            tools = replace(tools, tools=self._tools(tools.tools, at_end=at_end))
        signals = (f"stuck:{self.stuck_with}",) if self.stuck_with else ()
        return replace(
            decision,
            tools=tools,
            guidance=self.guidance.injections,
            signals=(*decision.signals, *signals),
            degraded=(*decision.degraded, *self.degraded),
        )

    def _tools(self, chosen: Sequence[ToolHit], *, at_end: bool) -> tuple[ToolHit, ...]:
        marked = [replace(hit, legs={**hit.legs, "alternate": 1.0}) for hit in self.others]
        if at_end:
            known = {hit.id for hit in chosen}
            ordered = [*chosen, *(hit for hit in marked if hit.id not in known)]
        else:
            new = {hit.id for hit in marked}
            kept = [hit for hit in chosen if hit.id not in new]
            kept = [hit for hit in kept if hit.id != self.stuck_with or hit.rule in STAYING_RULES]
            by_rank = [hit for hit in kept if hit.rule is None]
            room = max(0, sum(hit.rule is None for hit in chosen) - len(marked))
            dropped = {hit.id for hit in by_rank[room:]}
            ordered = [*marked, *(hit for hit in kept if hit.id not in dropped)]
        return with_ranks(ordered)


STAYING_RULES = frozenset({"always_active", "required", "kept"})
"""Rules by which even a failing tool stays."""


def guide_turn(turn: Turn, other_tools: OtherTools, *, given: Sequence[str] = ()) -> TurnGuidance:
    """Guide a turn by its trajectory; `given`: keys of earlier hints.

    Never fails: without replacements there is only the hint.
    """
    trajectory = analyse(turn.trajectory[-MAX_EVENTS:])
    stuck = stuck_tool(trajectory)
    failed, others, names = None, (), list[str]()
    is_read = all(event.type != "other" for event in turn.trajectory)
    degraded = () if is_read else ("trajectory",)
    if stuck is not None:
        try:
            goal = turn.model_copy(update={"text": stuck.goal or turn.text})
            found = other_tools(stuck.name, goal)
        except ToolcribError:
            logger.warning("alternates could not be searched", exc_info=True)
            found, degraded = None, (*degraded, "alternates")
        if found is not None:
            failed, hits = found[0].id, found[1]
            before = named_tools(trajectory.failed_tools, lambda _: [hit.tool for hit in hits])
            known = {tool.id for tools in before.values() for tool in tools}
            others = tuple(hit for hit in hits if hit.id not in known)
            names = [respell(hit.tool, stuck.name, found[0]) for hit in others]
    hints = collect_guidance(
        default_providers(lambda _tool, _goal: names),
        GuidanceContext(trajectory, delivered=dict.fromkeys(given, 1)),
        max_injections=1,
    )
    guidance = Guidance(hints, tuple(trajectory.patterns().values()))
    return TurnGuidance(guidance, failed, others, degraded)
