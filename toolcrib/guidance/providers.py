"""Guidance providers: who says what when a classifier fires, and what of it is handed on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from toolcrib.guidance.actions import ToolCall
from toolcrib.guidance.classifiers import (
    ClassificationResult,
    ClassifierConfig,
    ClassifierCooldownTracker,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceClassifier,
    GuidanceContext,
    SequentialWhenParallelClassifier,
)
from toolcrib.guidance.detectors import PatternType, SearchLoop, find_loop
from toolcrib.guidance.trajectory import TrajectoryAnalysis
from toolcrib.records import GuidanceInjection

__all__ = [
    "AlternateToolProvider",
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
    "is_due",
    "stuck_tool",
]

logger = logging.getLogger(__name__)

MAX_CONTENT = 500
STALLED_CALLS = 6
"""Calls of a stall from which on a word is worth it: one more than show the pattern, as on the
labelled trajectories nobody would have spoken before."""

QUIET_CALLS = 5
"""Calls after a loop or a streak of errors for which a stall is nothing new."""


class DecisionPoint(StrEnum):
    """When in an agent's turn guidance is asked for."""

    PRE_RENDER = "pre-render"
    PRE_TOOL_SELECTION = "pre-tool-selection"
    PRE_TOOL_EXECUTION = "pre-tool-execution"
    POST_TOOL_RESULT = "post-tool-result"
    PRE_RESPONSE = "pre-response"


Provided: TypeAlias = GuidanceInjection | Sequence[GuidanceInjection] | None


class GuidanceProvider(Protocol):
    """Has a short hint for one kind of trouble."""

    @property
    def name(self) -> str:
        """What its cooldown is kept under."""
        ...

    @property
    def category(self) -> str:
        """What kind of hint it gives."""
        ...

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether there is something to say; in microseconds."""
        ...

    def provide(self, context: GuidanceContext, /) -> Provided:
        """What to say; asked only where there is something."""
        ...


EVERYWHERE = frozenset(DecisionPoint)


@dataclass(frozen=True, slots=True)
class GuidanceProviderConfig:
    """A provider, and when it is asked.

    `classifier` decides in place of the provider's own. At most `max_per_turn` of its hints are
    taken at once; `cooldown_turns` after it spoke it may again.
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
        """How sure and how often, as its cooldown is counted."""
        most = self.max_fires_per_session
        return ClassifierConfig(self.min_confidence, self.cooldown_turns, most)


@dataclass(frozen=True, slots=True)
class GuidanceDelivered:
    """Hints were handed on, at a decision point of a turn."""

    injections: tuple[GuidanceInjection, ...]
    point: DecisionPoint
    turn: int


def is_due(
    config: GuidanceProviderConfig,
    context: GuidanceContext,
    tracker: ClassifierCooldownTracker | None = None,
    point: DecisionPoint = DecisionPoint.POST_TOOL_RESULT,
) -> bool:
    """Whether a provider has something to say now, and may; what fails has nothing to say."""
    provider = config.provider
    try:
        if point not in config.points:
            return False
        if tracker and not tracker.can_fire(provider.name, context.turn, config.limits):
            return False
        result = (config.classifier or provider).classify(context)
    except Exception:
        logger.warning("guidance failed: %s", type(provider).__name__, exc_info=True)
        return False
    return result.relevant and result.confidence >= config.min_confidence


def collect_guidance(
    providers: Iterable[GuidanceProvider | GuidanceProviderConfig],
    context: GuidanceContext,
    *,
    point: DecisionPoint = DecisionPoint.POST_TOOL_RESULT,
    tracker: ClassifierCooldownTracker | None = None,
    max_injections: int = 3,
    listener: Callable[[GuidanceDelivered], object] | None = None,
) -> tuple[GuidanceInjection, ...]:
    """The hints for now, least priority first, one for each key; never an error.

    What a provider provokes is logged and is no guidance. `tracker` keeps cooldowns and caps
    of one conversation; `listener` hears what is delivered.
    """
    configs = [
        each if isinstance(each, GuidanceProviderConfig) else GuidanceProviderConfig(each)
        for each in providers
    ]
    due = [config for config in configs if is_due(config, context, tracker, point)]
    found = [(hint, each.provider.name) for each in due for hint in _provided(each, context)]
    found.sort(key=lambda pair: pair[0].priority)
    first: dict[str, tuple[GuidanceInjection, str]] = {}
    for hint, name in found:
        if hint.key not in context.delivered:
            first.setdefault(hint.key, (hint, name))
    chosen = list(first.values())[:max_injections]
    _record(tracker, {name for _, name in chosen}, context.turn)
    delivered = tuple(hint for hint, _ in chosen)
    if delivered and listener is not None:
        try:
            listener(GuidanceDelivered(delivered, point, context.turn))
        except Exception:
            logger.warning("who listens to guidance failed", exc_info=True)
    return delivered


def _record(tracker: ClassifierCooldownTracker | None, names: Iterable[str], turn: int) -> None:
    if tracker is not None:
        for name in names:
            tracker.record_fire(name, turn)


def _provided(
    config: GuidanceProviderConfig, context: GuidanceContext
) -> Sequence[GuidanceInjection]:
    try:
        made = config.provider.provide(context)
        given = [made] if isinstance(made, GuidanceInjection) else made or ()
        hints = [GuidanceInjection.model_validate(each) for each in given]
    except Exception:
        logger.warning("guidance failed: %s", type(config.provider).__name__, exc_info=True)
        return ()
    return hints[: config.max_per_turn]


# -- the tool that an agent is stuck with --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StuckTool:
    """A tool that leads nowhere: how often it was called for it, and the error, if any."""

    name: str
    calls: int
    error: str = ""


def stuck_tool(trajectory: TrajectoryAnalysis) -> StuckTool | None:
    """The tool that a loop or a streak of errors is about; None where there is neither."""
    calls = trajectory.current_calls()
    if found := find_loop(calls):
        length, count = found
        return _worst(calls[-length:], count)
    if ErrorStreakClassifier().classify(GuidanceContext(trajectory)).relevant:
        failed = trajectory.recent_errors(trajectory.consecutive_errors)
        last = [call for call in failed if call.name == failed[-1].name]
        return StuckTool(last[-1].name, len(last), last[-1].error or "")
    return None


def _worst(cycle: Sequence[ToolCall], count: int) -> StuckTool:
    """Of a loop the call that fails, else the one that was to change something."""
    failing = [call for call in cycle if not call.success]
    acting = [call for call in cycle if call.effect == "acts"]
    call = (failing or acting or list(cycle))[-1]
    return StuckTool(call.name, count, call.error or "")


# -- those that ship -----------------------------------------------------------------------------


def _hint(key: str, content: str, priority: int, category: str) -> GuidanceInjection:
    text = " ".join(content.split())
    short = text if len(text) <= MAX_CONTENT else f"{text[: MAX_CONTENT - 1]}…"
    return GuidanceInjection(key=key, content=short, priority=priority, category=category)


def _quoted(text: str, chars: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


class DoomLoopBreakerProvider:
    """Says that the same calls come again and again."""

    name, category = "doom-loop-breaker", "recovery"

    def __init__(self, classifier: GuidanceClassifier | None = None) -> None:
        self._classifier = classifier or DoomLoopClassifier()

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether there is a loop."""
        return self._classifier.classify(context)

    def provide(self, context: GuidanceContext) -> Provided:
        """Which calls, and to do something else."""
        result = self.classify(context)
        cycle = " → ".join(dict.fromkeys(result.metadata.get("cycle", ())))
        times = result.metadata.get("repetitions", "several")
        text = (
            f"{_quoted(cycle, 200)} gave the same outcome {times} times. Calling it again will not "
            "help: change the arguments in substance, use another tool, or say what is missing."
        )
        return _hint("doom-loop", text, 20, self.category)


class DiagnosticSignalProvider:
    """Says what the failures in a row have in common."""

    name, category = "diagnostic-signal", "recovery"

    def __init__(self, classifier: GuidanceClassifier | None = None) -> None:
        self._classifier = classifier or ErrorStreakClassifier()

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether calls failed in a row."""
        return self._classifier.classify(context)

    def provide(self, context: GuidanceContext) -> Provided:
        """How many, and of what; errors are not quoted: they come from others."""
        trajectory = context.trajectory
        failed = trajectory.recent_errors(trajectory.consecutive_errors)
        names = list(dict.fromkeys(call.name for call in failed))
        same = trajectory.has_pattern(PatternType.REPEATED_ERROR)
        what = "with the same error" if same else "one after another"
        text = (
            f"The last {trajectory.consecutive_errors} calls failed {what} "
            f"({_quoted(', '.join(names[:3]))}). Read the error for its cause before the next "
            "call: check what the arguments rest on, or use another tool."
        )
        return _hint("error-streak", text, 30, self.category)


class ConsultationProvider:
    """Says that nothing has moved for a while, and to step back or ask."""

    name, category = "consultation", "consultation"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether there is a stall that no loop and no streak of errors explains."""
        trajectory = context.trajectory
        stall = trajectory.pattern(PatternType.PROGRESS_STALL)
        since = trajectory.since_trouble
        if stall is None or stall.occurrences < STALLED_CALLS:
            return ClassificationResult.no()
        if since is not None and since <= QUIET_CALLS:
            return ClassificationResult.no()
        if find_loop(trajectory.current_calls(), 2):
            # A loop is about to show, and says more.
            return ClassificationResult.no()
        return ClassificationResult.yes(stall.confidence, stall.evidence)

    def provide(self, _context: GuidanceContext, /) -> Provided:
        """To act on what is known, or to say what is missing."""
        text = (
            "The last calls brought nothing new. Act on what you already know, or say what is "
            "missing and ask for it."
        )
        return _hint("stall", text, 50, self.category)


class ParallelReminderProvider:
    """Says that calls that need nothing of each other can be made at once."""

    name, category = "parallel-reminder", "efficiency"

    def __init__(self, classifier: GuidanceClassifier | None = None) -> None:
        self._classifier = classifier or SequentialWhenParallelClassifier()

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether the last calls were such."""
        return self._classifier.classify(context)

    def provide(self, context: GuidanceContext) -> Provided:
        """Which calls."""
        names = dict.fromkeys(call.name for call in context.trajectory.recent_tool_calls(3))
        called = _quoted(", ".join(names), 200)
        text = f"Calls of {called} need nothing of each other: make such at once."
        return _hint("parallel", text, 90, self.category)


FindAlternates: TypeAlias = Callable[[str, str], Sequence[str]]
"""Gives the names of the next best tools for what a tool, by its name, was to do; the second text
is what was asked for, where that is known."""


class AlternateToolProvider:
    """Names the router's next best tools for the step that fails."""

    name, category = "alternate-tool", "alternative"

    def __init__(self, find: FindAlternates) -> None:
        self._find = find

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether the agent is stuck with one tool."""
        stuck = stuck_tool(context.trajectory)
        if stuck is None:
            return ClassificationResult.no()
        return ClassificationResult.yes(0.8, f"stuck with {stuck.name}", {"tool": stuck.name})

    def provide(self, context: GuidanceContext) -> Provided:
        """The tools, where there are any."""
        stuck = stuck_tool(context.trajectory)
        if stuck is None:
            return None
        names = [
            name
            for name in self._find(stuck.name, context.trajectory.last_text)
            if name != stuck.name
        ]
        if not names:
            return None
        how = "failed" if stuck.error else "led nowhere"
        text = (
            f"{stuck.name} {how} {stuck.calls} times in the same way. Do not call it again like "
            f"this. Other tools that may do it: {', '.join(names[:3])}."
        )
        return _hint("alternate-tool", text, 10, self.category)


class SearchLoopProvider:
    """Says that searching again in other words finds nothing new."""

    name, category = "search-loop", "recovery"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Whether the same was searched for three times and more."""
        loop = context.trajectory.pattern(PatternType.SEARCH_LOOP)
        if loop is None:
            return ClassificationResult.no()
        return ClassificationResult.yes(loop.confidence, loop.evidence)

    def provide(self, context: GuidanceContext) -> Provided:
        """What is nearest, and to use it or do without."""
        loop = context.trajectory.pattern(PatternType.SEARCH_LOOP)
        if not isinstance(loop, SearchLoop):
            return None
        nearest = f" The nearest is {', '.join(loop.found)}." if loop.found else ""
        text = (
            f"Nothing new: {loop.occurrences} searches for the same.{nearest} Use that, or go on "
            "without such a tool and say so; other words will not find another."
        )
        return _hint("search-loop", text, 15, self.category)


def default_providers(
    find_alternates: FindAlternates | None = None,
) -> tuple[GuidanceProviderConfig, ...]:
    """The providers for an agent that is stuck; with alternates where those can be looked for."""
    alternates = [] if find_alternates is None else [AlternateToolProvider(find_alternates)]
    chosen: list[GuidanceProvider] = [
        *alternates,
        DoomLoopBreakerProvider(),
        SearchLoopProvider(),
        DiagnosticSignalProvider(),
        ConsultationProvider(),
    ]
    return tuple(GuidanceProviderConfig(each) for each in chosen)
