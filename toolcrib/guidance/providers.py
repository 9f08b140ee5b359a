"""Guidance providers: short hints with the numbers that an agent needs, and their selection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Protocol, TypeAlias

from toolcrib.guidance.alarms import DoomLoop, PatternType, SearchLoop
from toolcrib.guidance.classifiers import (
    ClassificationResult,
    ClassifierConfig,
    ClassifierCooldownTracker,
    GuidanceClassifier,
    GuidanceContext,
    SequentialWhenParallelClassifier,
)
from toolcrib.guidance.trajectory import TrajectoryAnalysis
from toolcrib.records import GuidanceInjection
from toolcrib.text import shorten

__all__: list[str] = ["AlternateToolProvider", "ConsultationProvider", "DecisionPoint"]
__all__ += ["DiagnosticSignalProvider", "DoomLoopBreaker", "FindAlternates", "GuidanceProvider"]
__all__ += ["GuidanceProviderConfig", "ParallelToolReminder", "SearchLoopProvider", "StuckTool"]
__all__ += ["collect_guidance", "default_providers", "stuck_tool"]

logger = logging.getLogger(__name__)

MAX_CONTENT_CHARS = 500


class DecisionPoint(StrEnum):
    """Point in an agent's turn at which guidance is collected."""

    PRE_RENDER = "pre-render"
    PRE_TOOL_SELECTION = "pre-tool-selection"
    PRE_TOOL_EXECUTION = "pre-tool-execution"
    POST_TOOL_RESULT = "post-tool-result"
    PRE_RESPONSE = "pre-response"


ProviderResult: TypeAlias = GuidanceInjection | Sequence[GuidanceInjection] | None


class GuidanceProvider(GuidanceClassifier, Protocol):
    """Provider of a short hint for one kind of trouble, and its classifier."""

    @property
    def category(self) -> str:
        """Category of the hints."""
        ...

    def provide(self, context: GuidanceContext, /) -> ProviderResult:
        """Hints for `context.result`, a positive classification."""
        ...


ALL_POINTS = frozenset(DecisionPoint)


@dataclass(frozen=True, slots=True)
class GuidanceProviderConfig:
    """Provider with its limits; `classifier` replaces the provider's own.

    At most `max_per_turn` of its hints come at once; after a hint, none follows for
    `cooldown_turns` turns.
    """

    provider: GuidanceProvider
    classifier: GuidanceClassifier | None = None
    max_per_turn: int = 3
    min_confidence: float = 0.5
    cooldown_turns: int = 0
    max_fires_per_session: int | None = None
    points: frozenset[DecisionPoint] = ALL_POINTS


def collect_guidance(
    providers: Iterable[GuidanceProvider | GuidanceProviderConfig],
    context: GuidanceContext,
    *,
    point: DecisionPoint = DecisionPoint.POST_TOOL_RESULT,
    tracker: ClassifierCooldownTracker | None = None,
    max_injections: int = 3,
) -> tuple[GuidanceInjection, ...]:
    """Collect the current hints, lowest priority first, one for each key and cause; never raise.

    An error of a provider is logged. `tracker` holds cooldowns and caps of one conversation;
    without a tracker, hints in `context.delivered` do not repeat. Several providers may share a
    `cause`.
    """
    found: list[tuple[GuidanceInjection, GuidanceProvider, str]] = []
    for each in providers:
        config = each if isinstance(each, GuidanceProviderConfig) else GuidanceProviderConfig(each)
        hints = _hints(config, context, tracker, point)
        # Several hints of one provider have no common cause.
        cause = getattr(config.provider, "cause", "") if len(hints) == 1 else ""
        found += [(hint, config.provider, cause or hint.key) for hint in hints]
    taken = set(context.delivered if tracker is None else ())
    chosen: list[GuidanceInjection] = []
    fired: list[GuidanceProvider] = []
    for hint, provider, cause in sorted(found, key=lambda each: each[0].priority):
        if taken.isdisjoint({hint.key, cause}) and len(chosen) < max_injections:
            chosen.append(hint)
            fired += [] if any(provider is each for each in fired) else [provider]
        taken |= {hint.key, cause}
    if tracker is not None:
        for provider in fired:
            tracker.record_fire(provider, context.turn)
    return tuple(chosen)


def _hints(
    config: GuidanceProviderConfig,
    context: GuidanceContext,
    tracker: ClassifierCooldownTracker | None,
    point: DecisionPoint,
) -> list[GuidanceInjection]:
    provider = config.provider
    try:
        how_often = config.cooldown_turns, config.max_fires_per_session
        limits = ClassifierConfig(config.min_confidence, *how_often)
        may = tracker is None or tracker.can_fire(provider, context.turn, limits)
        if point not in config.points or not may:
            return []
        result = (config.classifier or provider).classify(context)
        if not result.relevant or result.confidence < config.min_confidence:
            return []
        made = provider.provide(replace(context, result=result))
        given = [made] if isinstance(made, GuidanceInjection) else made or ()
        hints = [GuidanceInjection.model_validate(each) for each in given]
        return hints[: max(0, config.max_per_turn)]
    except Exception as error:  # noqa: BLE001
        # Only the type: an error's text may quote what users wrote.
        names = type(provider).__name__, type(error).__name__
        logger.warning("guidance of %s failed: %s", *names)
        return []


# -- the tool that an agent is stuck with --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StuckTool:
    """Tool without progress, its number of calls, its last error, and the goal of that call."""

    name: str
    calls: int
    error: str = ""
    goal: str = ""


def stuck_tool(trajectory: TrajectoryAnalysis) -> StuckTool | None:
    """Tool of the last call if it repeats itself or fails; None for other trouble.

    An answer that was cut needs another call of the same tool, not another tool.
    """
    patterns = trajectory.patterns()
    loop, streak = patterns.get(PatternType.DOOM_LOOP), patterns.get(PatternType.ERROR_STREAK)
    calls = [call for call in trajectory.calls if not call.is_thought]
    if not calls or (loop is None and streak is None):
        return None
    if isinstance(loop, DoomLoop) and loop.part:
        return None
    last = calls[-1]
    failed = [call for call in calls if call.tool_name == last.tool_name and not call.success]
    count = loop.occurrences if loop is not None else len(failed)
    error = "" if last.success else last.message or "failed"
    return StuckTool(last.tool_name, count, error, last.moment.goal)


# -- those that ship -----------------------------------------------------------------------------


STUCK = "stuck"
"""Cause of hints for a loop, or for consecutive failures."""

CUT_ADVICE = (
    "The answer is cut ({part}), and asking again shows the same part: ask for the rest, for fewer "
    "columns or rows, or have the result written to a file."
)
"""Advice if the repeated answer says that it was cut."""


class _HintProvider:
    """Provider of one hint: the evidence of its alarm, or its classifier's reason, and advice.

    Tools are named; texts of servers and users are never quoted.
    """

    category, cause, alarm, advice = "recovery", "", "", ""
    key: ClassVar[str]
    priority: ClassVar[int]

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        found = context.trajectory.patterns().get(self.alarm)
        if found is None:
            return ClassificationResult.no()
        return ClassificationResult.yes(found.confidence, found.evidence)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection | None:
        text = " ".join(self._text(context).split())
        if not text:
            return None
        return GuidanceInjection(
            key=self.key,
            content=shorten(text, MAX_CONTENT_CHARS),
            priority=self.priority,
            category=self.category,
        )

    def _text(self, context: GuidanceContext) -> str:
        found = context.trajectory.patterns().get(self.alarm)
        reason = context.result.reason if context.result else None
        evidence = found.evidence if found is not None else reason
        part = found.part if isinstance(found, DoomLoop | SearchLoop) else ""
        advice = CUT_ADVICE.format(part=part) if part else self.advice
        return f"{evidence}. {advice}" if evidence else advice


class DoomLoopBreaker(_HintProvider):
    """Hint to leave a loop of equal calls."""

    name, cause, key, priority = "doom-loop-breaker", STUCK, "doom-loop", 20
    alarm = PatternType.DOOM_LOOP
    advice = (
        "Calling it again will not help: change the arguments in substance, use another tool, or "
        "say what is missing."
    )


class DiagnosticSignalProvider(_HintProvider):
    """Hint on what several failures share."""

    name, cause, key, priority = "diagnostic-signal", STUCK, "error-streak", 30
    alarm = PatternType.ERROR_STREAK
    advice = (
        "Read the error for its cause before the next call: check the source of the arguments, or "
        "use another tool."
    )


class SearchLoopProvider(_HintProvider):
    """Hint to stop rephrasing a search; names the nearest tools unless they failed."""

    name, key, priority = "search-loop", "search-loop", 15
    alarm = PatternType.SEARCH_LOOP
    advice = "Work with what you have, look in another place, or say what is missing."

    def _text(self, context: GuidanceContext) -> str:
        loop = context.trajectory.patterns().get(self.alarm)
        if not isinstance(loop, SearchLoop) or loop.tool_name:
            return super()._text(context)
        usable = [name for name in loop.found if name not in context.trajectory.failed_tools]
        nearest = f" The nearest is {', '.join(usable)}." if usable else ""
        return (
            f"{loop.evidence}.{nearest} Use what was found, or go on without such a tool and say "
            "so; other words will not find another."
        )


class ConsultationProvider(_HintProvider):
    """Hint on a stall: use known facts, or name the missing ones; off by default."""

    name, category, key, priority = "consultation", "consultation", "stall", 50
    alarm = PatternType.PROGRESS_STALL
    advice = "Act on what you already know, or say what is missing and ask for it."


class ParallelToolReminder(_HintProvider):
    """Hint to make independent calls in parallel; off by default."""

    name, category, key, priority = "parallel-reminder", "efficiency", "parallel", 90
    advice = "These calls are independent: make such calls in parallel."

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        return SequentialWhenParallelClassifier().classify(context)


FindAlternates: TypeAlias = Callable[[str, str], Sequence[str]]
"""Function from a tool's name and the goal of its call to the names of the next best tools."""


class AlternateToolProvider(_HintProvider):
    """Hint with the router's next best tools for a failing step, without tools that failed."""

    name, category, cause = "alternate-tool", "alternative", STUCK
    key, priority = "alternate-tool", 10

    def __init__(self, find: FindAlternates) -> None:
        self._find = find

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        stuck = stuck_tool(context.trajectory)
        if stuck is None:
            return ClassificationResult.no()
        return ClassificationResult.yes(0.8, f"stuck with {stuck.name}")

    def _text(self, context: GuidanceContext) -> str:
        stuck = stuck_tool(context.trajectory)
        if stuck is None:
            return ""
        failed = context.trajectory.failed_tools | {stuck.name}
        names = [name for name in self._find(stuck.name, stuck.goal) if name not in failed]
        if not names:
            return ""
        how = "failed" if stuck.error else "gave the same answer"
        often = f"{stuck.calls} times" if stuck.calls > 1 else "just now"
        return (
            f"{stuck.name} {how} {often}. Do not call it again like this. "
            f"Other tools that may do the same: {', '.join(names[:3])}."
        )


def default_providers(
    find_alternates: FindAlternates | None = None,
) -> tuple[GuidanceProviderConfig, ...]:
    """Default providers for a stuck agent; with `find_alternates` also alternates."""
    alternates = [] if find_alternates is None else [AlternateToolProvider(find_alternates)]
    others = DoomLoopBreaker(), SearchLoopProvider(), DiagnosticSignalProvider()
    return tuple(GuidanceProviderConfig(each) for each in (*alternates, *others))
