"""Guidance session: one conversation's trajectory, and the few hints that it gets."""

from __future__ import annotations

from toolcrib.guidance.classifiers import ClassifierCooldownTracker, GuidanceContext
from toolcrib.guidance.providers import (
    FindAlternates,
    GuidanceProviderConfig,
    StuckTool,
    collect_guidance,
    default_providers,
    is_due,
    stuck_tool,
)
from toolcrib.guidance.trajectory import TrajectoryBuilder
from toolcrib.records import GuidanceInjection

__all__ = ["GuidanceSession", "no_alternates"]

QUIET = 10
"""Events after a hint in which no other one comes."""

AGAIN = 30
"""Those after which the same one may come again."""

MAX_HINTS = 3
"""How often each may come in a conversation."""


def no_alternates(_tool: str, _text: str) -> tuple[str, ...]:
    """Finds no other tools."""
    return ()


class GuidanceSession:
    """Takes in what an agent does, by `trajectory`, and says at times what would help.

    Selectivity matters more than coverage: one hint at a time, none soon after another, each
    seldom. Not for several threads at once.
    """

    def __init__(self) -> None:
        self.trajectory = TrajectoryBuilder()
        self._tracker = ClassifierCooldownTracker()
        self._last: int | None = None

    def stuck(self) -> StuckTool | None:
        """The tool that the agent is stuck with, where a hint about it is due."""
        context = self._context()
        if not self._may_speak(context.turn):
            return None
        if not any(is_due(each, context, self._tracker) for each in _configs(no_alternates)):
            return None
        return stuck_tool(context.trajectory)

    def hint(self, find_alternates: FindAlternates = no_alternates) -> GuidanceInjection | None:
        """The hint for now, mostly none; to be asked once after each event."""
        context = self._context()
        if not self._may_speak(context.turn):
            return None
        configs = _configs(find_alternates)
        made = collect_guidance(configs, context, tracker=self._tracker, max_injections=1)
        if not made:
            return None
        self._last = context.turn
        return made[0]

    def _context(self) -> GuidanceContext:
        found = self.trajectory.build()
        events = found.tool_call_count + found.search_count + found.turn_count
        return GuidanceContext(found, turn=events)

    def _may_speak(self, now: int) -> bool:
        return self._last is None or now - self._last >= QUIET


def _configs(find: FindAlternates) -> tuple[GuidanceProviderConfig, ...]:
    return tuple(
        GuidanceProviderConfig(each.provider, cooldown_turns=AGAIN, max_fires_per_session=MAX_HINTS)
        for each in default_providers(find)
    )
