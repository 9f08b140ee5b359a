"""Classifiers of a trajectory, which report trouble in microseconds; `providers` make the hints."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from pydantic import BaseModel, Field

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import SettingsError
from toolcrib.guidance.alarms import certainty, find_loop
from toolcrib.guidance.trajectory import TrajectoryAnalysis
from toolcrib.records import Message

if TYPE_CHECKING:
    from toolcrib.language_models import LanguageModel

__all__: list[str] = [
    "AllOfClassifier",
    "AnyOfClassifier",
    "ClassificationResult",
    "ClassifierBenchmark",
]
__all__ += ["ClassifierConfig", "ClassifierCooldownTracker", "DoomLoopClassifier"]
__all__ += ["ErrorStreakClassifier", "GuidanceClassifier", "GuidanceContext"]
__all__ += ["HighToolCountClassifier", "LLMClassifier", "LargeOutputClassifier", "NotClassifier"]
__all__ += ["PendingToolCall", "ProgressStallClassifier", "SensitiveContentClassifier"]
__all__ += ["SequentialWhenParallelClassifier", "SingleToolRepeatedClassifier"]
__all__ += ["ThresholdClassifier", "benchmark_classifier", "run_classifiers"]

logger = logging.getLogger(__name__)

_EMPTY_MAPPING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """Call that is about to be made."""

    tool_name: str
    params: Mapping[str, Any] = field(default_factory=lambda: _EMPTY_MAPPING)


@dataclass(frozen=True, slots=True)
class GuidanceContext:
    """Read-only input of classifiers and providers.

    `session`: the application's facts on the conversation. `turn` counts turns for cooldowns.
    `delivered`: keys of the conversation's hints, which do not repeat without a tracker. `result`:
    classification that triggered a provider.
    """

    trajectory: TrajectoryAnalysis = field(default_factory=TrajectoryAnalysis)
    pending_tool_calls: tuple[PendingToolCall, ...] = ()
    session: Any = field(default_factory=lambda: _EMPTY_MAPPING)
    turn: int = 0
    delivered: Mapping[str, int] = field(default_factory=lambda: _EMPTY_MAPPING)
    result: ClassificationResult | None = None

    @property
    def tool_call_count(self) -> int:
        """Number of calls in the trajectory."""
        return self.trajectory.tool_call_count

    @property
    def turn_count(self) -> int:
        """Number of messages in the trajectory."""
        return self.trajectory.turn_count


@dataclass(frozen=True, slots=True)
class ClassificationResult:
    """Decision of a classifier, its confidence (0 to 1, no probability), and the reason."""

    relevant: bool
    confidence: float = 1.0
    reason: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: _EMPTY_MAPPING)

    @classmethod
    def yes(
        cls,
        confidence: float = 1.0,
        reason: str | None = None,
        metadata: Mapping[str, Any] = _EMPTY_MAPPING,
    ) -> Self:
        return cls(True, confidence, reason, metadata)  # noqa: FBT003

    @classmethod
    def no(cls, reason: str | None = None) -> Self:
        return cls(False, 0.0, reason)  # noqa: FBT003

    @classmethod
    def maybe(
        cls,
        confidence: float = 0.5,
        reason: str | None = None,
        metadata: Mapping[str, Any] = _EMPTY_MAPPING,
    ) -> Self:
        """Create an uncertain result: relevant, unless more confidence is required."""
        return cls(True, confidence, reason, metadata)  # noqa: FBT003


NOT_RELEVANT = ClassificationResult.no()


class GuidanceClassifier(Protocol):
    """Classifier of a context; quick, and without side effects."""

    @property
    def name(self) -> str:
        """Key of results and cooldown."""
        ...

    def classify(self, context: GuidanceContext) -> ClassificationResult: ...


def run_classifiers(
    classifiers: Iterable[GuidanceClassifier],
    context: GuidanceContext,
    min_confidence: float = 0.5,
) -> tuple[GuidanceClassifier, ClassificationResult] | None:
    """First classifier that fires with enough confidence, and its result.

    A classifier that raises is logged and skipped.
    """
    for classifier in classifiers:
        try:
            result = classifier.classify(context)
            if result.relevant and result.confidence >= min_confidence:
                return classifier, result
        except Exception as error:  # noqa: BLE001
            failed = type(classifier).__name__, type(error).__name__
            logger.warning("classifier %s failed: %s", *failed)
    return None


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Minimum confidence of a classifier, and its limits; None for no limit.

    After firing, the classifier may fire again `cooldown_turns` turns later.
    """

    min_confidence: float = 0.5
    cooldown_turns: int = 0
    max_fires_per_session: int | None = None


@dataclass(slots=True)
class ClassifierCooldownTracker:
    """Tracker of one session: last turn and number of firings, by name."""

    fires: dict[str, int] = field(default_factory=dict[str, int])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def can_fire(
        self,
        classifier: GuidanceClassifier,
        current_turn: int,
        config: ClassifierConfig | None = None,
    ) -> bool:
        """True if a classifier may fire in a turn; turns count from any start."""
        config, name = config or ClassifierConfig(), classifier.name
        most, last = config.max_fires_per_session, self.fires.get(name)
        if most is not None and self.counts.get(name, 0) >= most:
            return False
        return last is None or current_turn - last >= config.cooldown_turns

    def record_fire(self, classifier: GuidanceClassifier, turn: int) -> None:
        name = classifier.name
        self.fires[name] = max(turn, self.fires.get(name, turn))
        self.counts[name] = self.counts.get(name, 0) + 1


# -- by patterns and counts ----------------------------------------------------------------------


class _CountClassifier:
    """Classifier whose settings are whole numbers of at least 1."""

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if isinstance(number, int) and number < 1:
                raise SettingsError(f"{name} is {number}; it must be 1 or more")


@dataclass(frozen=True)
class DoomLoopClassifier(_CountClassifier):
    """Cycle of at least `min_cycle_length` calls with equal answers.

    One tool alone is a cycle too: six equal calls are three cycles of two. `cycle` lists the tools.
    """

    min_repetitions: int = 3
    min_cycle_length: int = 2
    name = "doom_loop"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        loop = find_loop(context.trajectory.calls, 2)
        if loop is None:
            return NOT_RELEVANT
        rounds = math.ceil(self.min_cycle_length / len(loop.cycle_actions))
        cycle, repetitions = loop.cycle_actions * rounds, loop.repetitions // rounds
        if repetitions < self.min_repetitions:
            return NOT_RELEVANT
        sure = certainty(repetitions, self.min_repetitions)
        reason = f"cycle {' → '.join(cycle)} repeated {repetitions} times"
        return ClassificationResult.yes(sure, reason, {"cycle": cycle})


@dataclass(frozen=True)
class ErrorStreakClassifier(_CountClassifier):
    """Consecutive failures of any kind; `errors` lists their messages."""

    threshold: int = 3
    name = "error_streak"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        streak = context.trajectory.consecutive_errors
        if streak < self.threshold:
            return NOT_RELEVANT
        recent = context.trajectory.recent_errors(self.threshold)
        return ClassificationResult.yes(
            certainty(streak, self.threshold),
            f"{streak} consecutive errors",
            {"errors": [call.message for call in recent]},
        )


@dataclass(frozen=True)
class ProgressStallClassifier(_CountClassifier):
    """Consecutive calls that failed or returned nothing new."""

    stall_threshold: int = 5
    name = "progress_stall"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        idle = context.trajectory.calls_without_progress
        if idle < self.stall_threshold:
            return NOT_RELEVANT
        return ClassificationResult.yes(0.8, f"no progress in {idle} actions")


@dataclass(frozen=True)
class HighToolCountClassifier(_CountClassifier):
    """Number of calls above the threshold; less certain from its share `warning_ratio`."""

    threshold: int = 50
    warning_ratio: float = 0.8
    name = "high_tool_count"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        count = context.tool_call_count
        if count >= self.threshold:
            return ClassificationResult.yes(1.0, f"{count} tool calls exceed {self.threshold}")
        if count >= self.threshold * self.warning_ratio:
            return ClassificationResult.maybe(0.6, f"{count} tool calls approach {self.threshold}")
        return NOT_RELEVANT


@dataclass(frozen=True)
class SingleToolRepeatedClassifier(_CountClassifier):
    """One `tool` in all of the last `window` calls, if those are at least `threshold`."""

    window: int = 5
    threshold: int = 4
    name = "single_tool_repeated"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        names = [call.tool_name for call in context.trajectory.recent_tool_calls(self.window)]
        if len(names) < self.threshold or len(set(names)) > 1:
            return NOT_RELEVANT
        reason = f"{names[0]} called {len(names)} times consecutively"
        return ClassificationResult.yes(0.7, reason, {"tool": names[0]})


@dataclass(frozen=True)
class SequentialWhenParallelClassifier(_CountClassifier):
    """Consecutive calls of independent `tools` that could run in parallel."""

    independent_tools: frozenset[str] = frozenset({"read_file", "search", "grep"})
    threshold: int = 3
    name = "sequential_when_parallel"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        names = [call.tool_name for call in context.trajectory.recent_tool_calls(self.threshold)]
        if len(names) < self.threshold or not self.independent_tools.issuperset(names):
            return NOT_RELEVANT
        reason = f"{len(names)} independent tools called sequentially"
        return ClassificationResult.yes(0.6, reason, {"tools": names})


# -- by contents ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LargeOutputClassifier(_CountClassifier):
    """Last result of more than `size_threshold` characters."""

    size_threshold: int = 10_000
    name = "large_output"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        last = context.trajectory.recent_tool_calls(1)
        if not last or last[0].result.chars <= self.size_threshold:
            return NOT_RELEVANT
        return ClassificationResult.yes(0.7, f"{last[0].result.chars} characters of output")


@dataclass(frozen=True)
class SensitiveContentClassifier:
    """Patterns, in any case, in the parameters of pending calls.

    The reason has the pattern, never the text.
    """

    patterns: tuple[str, ...] = ("password", "secret", "api[_-]?key", "credential", "token")
    name = "sensitive_content"

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                wrong = f"the pattern {pattern!r} is no regular expression: {error}"
                raise SettingsError(wrong) from error

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        for call in context.pending_tool_calls:
            text = str(call.params)
            for pattern in self.patterns:
                if re.search(pattern, text, re.IGNORECASE):
                    reason = f"sensitive pattern detected: {pattern}"
                    return ClassificationResult.yes(0.9, reason, {"tool": call.tool_name})
        return NOT_RELEVANT


# -- made of others ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CompositeClassifier:
    """Classifier composed of at least one other."""

    classifiers: tuple[GuidanceClassifier, ...]
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not self.classifiers:
            raise SettingsError(f"{type(self).__name__} needs at least one classifier")

    @property
    def name(self) -> str:
        return f"{self.kind}({', '.join(each.name for each in self.classifiers)})"


class AllOfClassifier(_CompositeClassifier):
    """Conjunction: mean confidence, joined reasons."""

    kind = "all_of"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        found = [classifier.classify(context) for classifier in self.classifiers]
        if not all(each.relevant for each in found):
            return NOT_RELEVANT
        reasons = "; ".join(each.reason for each in found if each.reason)
        return ClassificationResult.yes(fmean(each.confidence for each in found), reasons)


class AnyOfClassifier(_CompositeClassifier):
    """Disjunction: the first positive result."""

    kind = "any_of"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        results = (classifier.classify(context) for classifier in self.classifiers)
        return next((result for result in results if result.relevant), NOT_RELEVANT)


@dataclass(frozen=True)
class NotClassifier:
    """Negation of a classifier, with 1 minus its confidence."""

    classifier: GuidanceClassifier

    @property
    def name(self) -> str:
        return f"not({self.classifier.name})"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        result = self.classifier.classify(context)
        if result.relevant:
            return NOT_RELEVANT
        return ClassificationResult.yes(1 - result.confidence, f"inverse of: {result.reason}")


@dataclass(frozen=True)
class ThresholdClassifier:
    """Classifier with a minimum confidence."""

    classifier: GuidanceClassifier
    min_confidence: float

    def __post_init__(self) -> None:
        if not 0 <= self.min_confidence <= 1:
            raise SettingsError(f"min_confidence is {self.min_confidence}; it must be from 0 to 1")

    @property
    def name(self) -> str:
        return f"threshold({self.classifier.name}, {self.min_confidence})"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        result = self.classifier.classify(context)
        return (
            result if result.relevant and result.confidence >= self.min_confidence else NOT_RELEVANT
        )


# -- a language model -----------------------------------------------------------------------------

_MODEL_RETRY_PAUSE_S = 30.0
"""Pause before another request after a failure, because an agent waits for the answer."""

MAX_CACHED_VERDICTS, MAX_SUMMARY_CALLS = 256, 5

NO_VERDICT = ClassificationResult.no("the language model had no verdict")

DEFAULT_PROMPT = (
    "An agent works with tools. Is it stuck, so that a hint would help it now?\n\n{trajectory}"
)


class LLMVerdict(BaseModel):
    """Verdict of a model, its confidence from 0 to 1, and a short reason."""

    relevant: bool
    confidence: float = Field(default=0.5, ge=0, le=1)
    reason: str = ""


class LLMClassifier:
    """Classifier by a language model, within half a second by default, once for equal calls.

    `prompt_template` is the task; `{trajectory}` becomes the summary: names of tools and counts of
    failures, without parameters and results. A failed request is a negative result. `classify`
    blocks: call it in a thread from an event loop.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt_template: str = "",
        timeout_ms: int = 500,
        *,
        clock: Clock | None = None,
    ) -> None:
        template = prompt_template or DEFAULT_PROMPT
        if "{trajectory}" not in template:
            raise SettingsError("prompt_template lacks {trajectory}, where the summary goes")
        self._model, self._template, self._timeout_s = model, template, timeout_ms / 1000
        self._known: BoundedMap[str, ClassificationResult] = BoundedMap(MAX_CACHED_VERDICTS)
        self._clock, self._away_until = clock or SystemClock(), -math.inf

    @property
    def name(self) -> str:
        return f"llm({self._model.name})"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        summary = _summary(context)
        # The first line has counts, which differ with each call.
        key = summary.partition("\n")[2]
        if (known := self._known.get(key)) is not None:
            return known
        if self._clock() < self._away_until:
            return NO_VERDICT
        try:
            verdict = self._model.ask_sync(
                "guidance",
                [Message(role="user", content=self._template.replace("{trajectory}", summary))],
                LLMVerdict,
                timeout_s=self._timeout_s,
            )
        except Exception as error:  # noqa: BLE001
            logger.warning("the language model had no verdict: %s", type(error).__name__)
            self._away_until = self._clock() + _MODEL_RETRY_PAUSE_S
            return NO_VERDICT
        result = ClassificationResult(verdict.relevant, verdict.confidence, verdict.reason)
        self._known[key] = result
        return result


def _summary(context: GuidanceContext) -> str:
    """Summary of a trajectory, without texts of users and results of tools."""
    trajectory = context.trajectory
    lines = [f"{trajectory.tool_call_count} calls, {trajectory.error_count} failed"]
    lines += [
        f"- {call.tool_name}: {'ok' if call.success else 'failed'}"
        for call in trajectory.recent_tool_calls(MAX_SUMMARY_CALLS)
    ]
    lines += [f"pattern: {name}" for name in trajectory.patterns()]
    lines += [f"about to call: {each.tool_name}" for each in context.pending_tool_calls[:3]]
    return "\n".join(lines)


# -- speed ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassifierBenchmark:
    """Time of a classifier over a number of contexts, in nanoseconds a call."""

    classifier_name: str
    mean_ns: float
    p99_ns: float
    max_ns: float


def benchmark_classifier(
    classifier: GuidanceClassifier, contexts: Sequence[GuidanceContext]
) -> ClassifierBenchmark:
    """Time a classifier, once for each context.

    Raises:
        SettingsError: there is no context.
    """
    if not contexts:
        raise SettingsError("a benchmark needs at least one context")
    times_ns: list[int] = []
    for context in contexts:
        start = time.perf_counter_ns()
        classifier.classify(context)
        times_ns.append(time.perf_counter_ns() - start)
    times_ns.sort()
    p99 = times_ns[-(-99 * len(times_ns) // 100) - 1]
    return ClassifierBenchmark(classifier.name, fmean(times_ns), float(p99), float(times_ns[-1]))
