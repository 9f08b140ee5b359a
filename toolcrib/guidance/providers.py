"""Guidance providers: hints for firing classifiers, and their selection."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeAlias

from toolcrib.guidance.actions import ToolCall
from toolcrib.guidance.classifiers import (
    ClassificationResult,
    GuidanceClassifier,
    GuidanceContext,
    SequentialWhenParallelClassifier,
)
from toolcrib.guidance.detectors import PatternType, SearchLoop, find_loop
from toolcrib.guidance.trajectory import TrajectoryAnalysis
from toolcrib.records import GuidanceInjection

__all__ = [
    "AlternateToolProvider",
    "ClassifierConfig",
    "ClassifierCooldownTracker",
    "ConsultationProvider",
    "DecisionPoint",
    "DiagnosticSignalProvider",
    "DoomLoopBreakerProvider",
    "FindAlternates",
    "GuidanceDelivered",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "ParallelReminderProvider",
    "SearchLoopProvider",
    "StuckTool",
    "collect_guidance",
    "default_providers",
    "stuck_tool",
]

logger = logging.getLogger(__name__)

MAX_CONTENT = 500
LAST = 8
"""Calls among which the tool without progress is sought, if there is no exact loop."""


class DecisionPoint(StrEnum):
    """Point in an agent's turn at which guidance is collected."""

    PRE_RENDER = "pre-render"
    PRE_TOOL_SELECTION = "pre-tool-selection"
    PRE_TOOL_EXECUTION = "pre-tool-execution"
    POST_TOOL_RESULT = "post-tool-result"
    PRE_RESPONSE = "pre-response"


Provided: TypeAlias = GuidanceInjection | Sequence[GuidanceInjection] | None


class GuidanceProvider(Protocol):
    """Provider of a short hint for one kind of trouble."""

    @property
    def name(self) -> str:
        """Name under which the cooldown is kept."""
        ...

    @property
    def category(self) -> str:
        """Category of the hints."""
        ...

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Decide in microseconds if a hint is due."""
        ...

    def provide(self, context: GuidanceContext, /) -> Provided:
        """Hints for `context.result`, a firing classification."""
        ...


# -- when a classifier may speak -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Lowest confidence of a classifier, and its limits; None is no limit.

    After firing it may fire again `cooldown_turns` turns later.
    """

    min_confidence: float = 0.5
    cooldown_turns: int = 0
    max_fires_per_session: int | None = None


class ClassifierCooldownTracker:
    """Tracker of cooldowns in one session."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._fires: dict[str, int] = {}
        self._hints: dict[str, tuple[int, int]] = {}

    def can_fire(self, name: str, turn: int, config: ClassifierConfig | None = None) -> bool:
        """True if a classifier may fire in a turn; turns count from any start."""
        config = config or ClassifierConfig()
        most = config.max_fires_per_session
        if most is not None and self._fires.get(name, 0) >= most:
            return False
        last = self._last.get(name)
        return last is None or turn - last >= config.cooldown_turns

    def hints(self, name: str, turn: int) -> int:
        """Number of hints in a turn, if that was its last turn."""
        last, count = self._hints.get(name, (turn, 0))
        return count if last == turn else 0

    def record_fire(self, name: str, turn: int, hints: int = 1) -> None:
        """Record a firing and its number of hints."""
        self._hints[name] = turn, self.hints(name, turn) + hints
        self._last[name] = max(turn, self._last.get(name, turn))
        self._fires[name] = self._fires.get(name, 0) + 1


EVERYWHERE = frozenset(DecisionPoint)


@dataclass(frozen=True, slots=True)
class GuidanceProviderConfig:
    """Provider with its limits.

    `classifier` replaces the provider's own. At most `max_per_turn` of its hints come in a turn,
    counted by the tracker; after a hint it is silent for `cooldown_turns` turns.
    """

    provider: GuidanceProvider
    classifier: GuidanceClassifier | None = None
    max_per_turn: int = 3
    min_confidence: float = 0.5
    cooldown_turns: int = 0
    max_fires_per_session: int | None = None
    points: frozenset[DecisionPoint] = EVERYWHERE

    @property
    def limits(self) -> ClassifierConfig:
        """Limits as the tracker counts them."""
        how_often = self.cooldown_turns, self.max_fires_per_session
        return ClassifierConfig(self.min_confidence, *how_often)


@dataclass(frozen=True, slots=True)
class GuidanceDelivered:
    """Delivery of hints at a decision point of a turn."""

    injections: tuple[GuidanceInjection, ...]
    point: DecisionPoint
    turn: int


def _warn(provider: object, error: Exception) -> None:
    # Only the type: an error's text may quote what users wrote.
    logger.warning("guidance of %s failed: %s", type(provider).__name__, type(error).__name__)


def collect_guidance(
    providers: Iterable[GuidanceProvider | GuidanceProviderConfig],
    context: GuidanceContext,
    *,
    point: DecisionPoint = DecisionPoint.POST_TOOL_RESULT,
    tracker: ClassifierCooldownTracker | None = None,
    max_injections: int = 3,
    listener: Callable[[GuidanceDelivered], object] | None = None,
) -> tuple[GuidanceInjection, ...]:
    """Collect the current hints, lowest priority first, one for each key and cause; never raise.

    An error of a provider is logged. `tracker` keeps cooldowns and caps of one conversation;
    without a tracker, hints in `context.delivered` do not repeat. `listener` is called with each
    delivery. Several providers may share a `cause`.
    """
    configs = [
        each if isinstance(each, GuidanceProviderConfig) else GuidanceProviderConfig(each)
        for each in providers
    ]
    found = [each for config in configs for each in _provided(config, context, tracker, point)]
    found.sort(key=lambda each: each.hint.priority)
    delivered = context.delivered if tracker is None else ()
    taken: set[str] = set()
    chosen: list[_Provided] = []
    for each in found:
        if taken.isdisjoint({each.hint.key, each.cause}) and each.hint.key not in delivered:
            chosen.append(each)
        taken |= {each.hint.key, each.cause}
    del chosen[max(0, max_injections) :]
    if tracker is not None:
        for name, hints in Counter(each.name for each in chosen).items():
            tracker.record_fire(name, context.turn, hints)
    injections = tuple(each.hint for each in chosen)
    if injections and listener is not None:
        try:
            listener(GuidanceDelivered(injections, point, context.turn))
        except Exception as error:  # noqa: BLE001
            _warn(listener, error)
    return injections


@dataclass(frozen=True, slots=True)
class _Provided:
    """Hint with the name of its provider and its cause."""

    hint: GuidanceInjection
    name: str
    cause: str


def _provided(
    config: GuidanceProviderConfig,
    context: GuidanceContext,
    tracker: ClassifierCooldownTracker | None,
    point: DecisionPoint,
) -> Sequence[_Provided]:
    """Hints of a provider now, within its limits."""
    provider = config.provider
    try:
        name = provider.name
        may = tracker is None or tracker.can_fire(name, context.turn, config.limits)
        if point not in config.points or not may:
            return ()
        result = (config.classifier or provider).classify(context)
        if not result.relevant or result.confidence < config.min_confidence:
            return ()
        made = provider.provide(replace(context, result=result))
        given = [made] if isinstance(made, GuidanceInjection) else made or ()
        hints = [GuidanceInjection.model_validate(each) for each in given]
        # Several hints of one provider are not of one cause.
        cause = getattr(provider, "cause", "") if len(hints) == 1 else ""
        room = config.max_per_turn - (tracker.hints(name, context.turn) if tracker else 0)
        return [_Provided(hint, name, cause or hint.key) for hint in hints[: max(0, room)]]
    except Exception as error:  # noqa: BLE001
        _warn(provider, error)
        return ()


# -- the tool that an agent is stuck with --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StuckTool:
    """Tool without progress, its number of calls, and the error, if any."""

    name: str
    calls: int
    error: str = ""


def stuck_tool(trajectory: TrajectoryAnalysis) -> StuckTool | None:
    """Tool of a loop or of a streak of errors; None without either.

    Of a loop the failing tool, else the acting tool; without an exact loop the most frequent. Of
    a streak the last failing tool that has not succeeded since.
    """
    if "doom_loop" in trajectory.alarms:
        return _looping(trajectory.calls)
    return _failing(trajectory.calls) if "error_streak" in trajectory.alarms else None


def _looping(calls: Sequence[ToolCall]) -> StuckTool | None:
    """Tool of the current loop."""
    if not calls:
        return None
    if loop := find_loop(calls, 2):
        cycle = calls[-len(loop.cycle) :]
        failing = [call for call in cycle if not call.success]
        acting = [call for call in cycle if call.effect == "acts"]
        call = (failing or acting or cycle)[-1]
        return StuckTool(call.name, loop.occurrences, call.error or "")
    last = calls[-LAST:]
    ((name, count),) = Counter(call.name for call in reversed(last)).most_common(1)
    errors = [each.error or "" for each in last if each.name == name and not each.success]
    is_failing = 2 * len(errors) > count
    return StuckTool(name, len(errors), errors[-1]) if is_failing else StuckTool(name, count)


def _failing(calls: Sequence[ToolCall]) -> StuckTool | None:
    """Last failing tool that has not succeeded since, and its failures."""
    worked, failed = set[str](), list[ToolCall]()
    for call in reversed(calls):
        if call.success:
            worked.add(call.name)
        elif call.name not in worked:
            failed.append(call)
    if not failed:
        return None
    name, error = failed[0].name, failed[0].error or ""
    return StuckTool(name, sum(each.name == name for each in failed), error)


# -- those that ship -----------------------------------------------------------------------------


def _quoted(text: str, chars: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


STUCK = "stuck"
"""Cause of hints for a loop, or for consecutive failures."""


FOUND: Mapping[str, PatternType] = {
    "stall": PatternType.PROGRESS_STALL,
    "search_loop": PatternType.SEARCH_LOOP,
}
"""Alarms that a detector overrides, since it may have a threshold or be left out."""


def _sure(alarm: str, trajectory: TrajectoryAnalysis) -> float | None:
    """Certainty of an active alarm; None if it is not active."""
    if alarm not in FOUND:
        return trajectory.alarms.get(alarm)
    found = trajectory.pattern(FOUND[alarm])
    return None if found is None else found.confidence


def _stands(alarm: str, *unless: str) -> Callable[[GuidanceContext], ClassificationResult]:
    """True if an alarm is active, and none of some other alarms."""

    def classify(context: GuidanceContext) -> ClassificationResult:
        trajectory = context.trajectory
        sure = _sure(alarm, trajectory)
        if sure is None or any(_sure(each, trajectory) is not None for each in unless):
            return ClassificationResult.no()
        return ClassificationResult.yes(sure, f"{alarm} stands", _told(alarm, trajectory))

    return classify


def _told(alarm: str, trajectory: TrajectoryAnalysis) -> Mapping[str, Any]:
    """Details of an alarm for a hint."""
    if alarm == "doom_loop" and (loop := find_loop(trajectory.calls, 2)):
        return {"cycle": list(loop.cycle), "repetitions": loop.occurrences}
    found = trajectory.pattern(PatternType.SEARCH_LOOP)
    if alarm == "search_loop" and isinstance(found, SearchLoop) and found.occurrences > 1:
        return {"searches": found.occurrences, "found": found.found}
    return {}


class _OneHint:
    """Provider of one hint for its classifier, the default one unless another is given."""

    category, cause = "recovery", ""
    key: ClassVar[str]
    priority: ClassVar[int]
    usual: ClassVar[Callable[[GuidanceContext], ClassificationResult]]

    def __init__(self, classifier: GuidanceClassifier | None = None) -> None:
        self._judge = type(self).usual if classifier is None else classifier.classify

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Result of the classifier."""
        return self._judge(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection | None:
        """Hint by the result."""
        text = self._said(context, (context.result or self.classify(context)).metadata)
        if not text:
            return None
        return GuidanceInjection(
            key=self.key,
            content=_quoted(text, MAX_CONTENT),
            priority=self.priority,
            category=self.category,
        )

    def _said(self, context: GuidanceContext, told: Mapping[str, Any], /) -> str:
        raise NotImplementedError


class DoomLoopBreakerProvider(_OneHint):
    """Hint to leave a loop of equal calls."""

    name, cause, key, priority = "doom-loop-breaker", STUCK, "doom-loop", 20
    usual = _stands("doom_loop")

    def _said(self, _context: GuidanceContext, told: Mapping[str, Any], /) -> str:
        cycle = " → ".join(dict.fromkeys(told.get("cycle", ())))
        times = told.get("repetitions", "several")
        return (
            f"{_quoted(cycle, 200) or 'What you do'} gave the same outcome {times} times. Calling "
            "it again will not help: change the arguments in substance, use another tool, or say "
            "what is missing."
        )


class DiagnosticSignalProvider(_OneHint):
    """Hint on what consecutive failures share; foreign error texts are not quoted."""

    name, cause, key, priority = "diagnostic-signal", STUCK, "error-streak", 30
    usual = _stands("error_streak")

    def _said(self, context: GuidanceContext, _told: Mapping[str, Any], /) -> str:
        trajectory = context.trajectory
        count = trajectory.consecutive_errors
        names = dict.fromkeys(call.name for call in trajectory.recent_errors(count))
        same = trajectory.has_pattern(PatternType.REPEATED_ERROR)
        what = "with the same error" if same else "one after another"
        said = f"The last {count} calls failed {what} ({_quoted(', '.join([*names][:3]))}). "
        return (
            f"{said if count > 1 else ''}Read the error for its cause before the next call: check "
            "what the arguments rest on, or use another tool."
        )


class ConsultationProvider(_OneHint):
    """Hint on a stall: act on known facts, or name the missing ones."""

    name, category, key, priority = "consultation", "consultation", "stall", 50
    usual = _stands("stall", "doom_loop", "error_streak", "search_loop")

    def _said(self, *_given: object) -> str:
        return (
            "The last calls brought nothing new. Act on what you already know, or say what is "
            "missing and ask for it."
        )


class ParallelReminderProvider(_OneHint):
    """Hint to make independent calls in parallel."""

    name, category, key, priority = "parallel-reminder", "efficiency", "parallel", 90
    usual = SequentialWhenParallelClassifier().classify

    def _said(self, _context: GuidanceContext, told: Mapping[str, Any], /) -> str:
        called = _quoted(", ".join(dict.fromkeys(told.get("tools", ()))), 200)
        text = f"{f'Calls of {called}' if called else 'The last calls'} need nothing of each other"
        return f"{text}: make such at once."


FindAlternates: TypeAlias = Callable[[str, str], Sequence[str]]
"""Function from a tool's name and the request, if known, to the names of the next best tools."""


def _stuck(context: GuidanceContext) -> ClassificationResult:
    """True if the agent is stuck with one tool."""
    stuck = stuck_tool(context.trajectory)
    if stuck is None:
        return ClassificationResult.no()
    return ClassificationResult.yes(0.8, f"stuck with {stuck.name}", {"tool": stuck.name})


class AlternateToolProvider(_OneHint):
    """Hint with the router's next best tools for a failing step."""

    name, category, cause = "alternate-tool", "alternative", STUCK
    key, priority, usual = "alternate-tool", 10, _stuck

    def __init__(self, find: FindAlternates) -> None:
        super().__init__()
        self._find = find

    def _said(self, context: GuidanceContext, _told: Mapping[str, Any], /) -> str:
        stuck = stuck_tool(context.trajectory)
        found = self._find(stuck.name, context.trajectory.last_text) if stuck else ()
        names = [name for name in found if stuck and name != stuck.name]
        if not stuck or not names:
            return ""
        how = "failed" if stuck.error else "led nowhere"
        often = f"{stuck.calls} times in the same way" if stuck.calls > 1 else "just now"
        return (
            f"{stuck.name} {how} {often}. Do not call it again like this. "
            f"Other tools that may do it: {', '.join(names[:3])}."
        )


class SearchLoopProvider(_OneHint):
    """Hint to stop searching in other words: use the nearest tool, or none."""

    name, key, priority, usual = "search-loop", "search-loop", 15, _stands("search_loop")

    def _said(self, _context: GuidanceContext, told: Mapping[str, Any], /) -> str:
        found, count = told.get("found", ()), told.get("searches", "several")
        nearest = f" The nearest is {', '.join(found)}." if found else ""
        return (
            f"Nothing new: {count} searches for the same.{nearest} Use that, or go on "
            "without such a tool and say so; other words will not find another."
        )


def default_providers(
    find_alternates: FindAlternates | None = None,
) -> tuple[GuidanceProviderConfig, ...]:
    """Default providers for a stuck agent, with alternates if they can be found."""
    alternates = [] if find_alternates is None else [AlternateToolProvider(find_alternates)]
    chosen: list[GuidanceProvider] = [
        *alternates,
        DoomLoopBreakerProvider(),
        SearchLoopProvider(),
        DiagnosticSignalProvider(),
        ConsultationProvider(),
    ]
    return tuple(GuidanceProviderConfig(each) for each in chosen)
