"""Classifiers: whether something of a trajectory is worth a word, in microseconds."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import MappingProxyType
from typing import Any, Protocol, Self

from toolcrib.errors import SettingsError
from toolcrib.guidance.actions import ToolCall
from toolcrib.guidance.detectors import CYCLE, REPETITIONS, PatternType, find_loop
from toolcrib.guidance.trajectory import STREAK, TrajectoryAnalysis

__all__ = [
    "AllOfClassifier",
    "AnyOfClassifier",
    "ClassificationResult",
    "ClassifierBenchmark",
    "ClassifierConfig",
    "ClassifierCooldownTracker",
    "DoomLoopClassifier",
    "ErrorStreakClassifier",
    "GuidanceClassifier",
    "GuidanceContext",
    "HighToolCountClassifier",
    "LargeOutputClassifier",
    "NotClassifier",
    "PendingToolCall",
    "ProgressStallClassifier",
    "SensitiveContentClassifier",
    "SequentialWhenParallelClassifier",
    "SingleToolRepeatedClassifier",
    "ThresholdClassifier",
    "benchmark_classifier",
    "run_classifiers",
]

logger = logging.getLogger(__name__)

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A call that is about to be made."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class GuidanceContext:
    """What classifiers and providers see; nothing of it can be changed.

    `session` is whatever the application says of the conversation, `last_response` what the
    model said last. `turn` counts turns, `delivered` the hints of this conversation by key, which
    come no second time where no tracker counts. `result` is what made a provider speak.
    """

    trajectory: TrajectoryAnalysis = field(default_factory=TrajectoryAnalysis)
    pending_tool_calls: tuple[PendingToolCall, ...] = ()
    last_response: str = ""
    session: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    turn: int = 0
    delivered: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    result: ClassificationResult | None = None


@dataclass(frozen=True, slots=True)
class ClassificationResult:
    """Whether something holds, how sure that is (0 to 1, no probability), and why."""

    relevant: bool
    confidence: float = 1.0
    reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @classmethod
    def yes(
        cls,
        confidence: float = 1.0,
        reason: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """It holds."""
        return cls(True, confidence, reason, metadata or NOTHING)  # noqa: FBT003

    @classmethod
    def no(cls, reason: str = "") -> Self:
        """It does not hold."""
        return cls(False, 0.0, reason)  # noqa: FBT003

    @classmethod
    def maybe(
        cls,
        confidence: float = 0.5,
        reason: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """It may hold: relevant, and dropped only where more confidence is asked for."""
        return cls(True, confidence, reason, metadata or NOTHING)  # noqa: FBT003


NO = ClassificationResult.no()


class GuidanceClassifier(Protocol):
    """Says whether something holds of a context; quick, and changes nothing."""

    @property
    def name(self) -> str:
        """What its results and its cooldown are kept under."""
        ...

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Look at a context."""
        ...


# -- when a classifier may speak -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """How sure it must be, and how often it may fire; None for as often as it likes.

    After it fired it may again `cooldown_turns` turns later.
    """

    min_confidence: float = 0.5
    cooldown_turns: int = 0
    max_fires_per_session: int | None = None


class ClassifierCooldownTracker:
    """Remembers when what fired, in one session."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._fires: dict[str, int] = {}
        self._hints: dict[str, tuple[int, int]] = {}

    def can_fire(self, name: str, turn: int, config: ClassifierConfig | None = None) -> bool:
        """Whether it may fire in a turn; turns are counted from any start."""
        config = config or ClassifierConfig()
        most = config.max_fires_per_session
        if most is not None and self._fires.get(name, 0) >= most:
            return False
        last = self._last.get(name)
        return last is None or turn - last >= config.cooldown_turns

    def hints(self, name: str, turn: int) -> int:
        """How many hints it gave in a turn, if that is its last one."""
        last, count = self._hints.get(name, (turn, 0))
        return count if last == turn else 0

    def record_fire(self, name: str, turn: int, hints: int = 1) -> None:
        """It fired, and gave so many hints."""
        self._hints[name] = turn, self.hints(name, turn) + hints
        self._last[name] = max(turn, self._last.get(name, turn))
        self._fires[name] = self._fires.get(name, 0) + 1


def run_classifiers(
    classifiers: Iterable[GuidanceClassifier],
    context: GuidanceContext,
    min_confidence: float = 0.5,
) -> ClassificationResult | None:
    """What the first says that fires with enough confidence; one that fails is passed over."""
    for classifier in classifiers:
        try:
            result = classifier.classify(context)
            if result.relevant and result.confidence >= min_confidence:
                return result
        except Exception as error:  # noqa: BLE001
            failed = type(classifier).__name__, type(error).__name__
            logger.warning("classifier %s failed: %s", *failed)
    return None


# -- those that ship -----------------------------------------------------------------------------


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number >= 1:
            raise SettingsError(f"{name} is {number}; it must be 1 or more")


class DoomLoopClassifier:
    """The same calls again and again, with the same outcomes.

    One tool alone is a cycle of length 1, which a `min_cycle_length` of 2 leaves out.
    """

    name = "doom_loop"

    def __init__(self, min_repetitions: int = REPETITIONS, min_cycle_length: int = CYCLE) -> None:
        _positive(min_repetitions=min_repetitions, min_cycle_length=min_cycle_length)
        self._repetitions, self._length = min_repetitions, min_cycle_length

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant with confidence by the repetitions; `cycle` has the tools in order."""
        calls = context.trajectory.current_calls()
        found = find_loop(calls, self._repetitions, self._length)
        if found is None:
            return NO
        length, count = found
        cycle = [call.name for call in calls[-length:]]
        return ClassificationResult.yes(
            min(1.0, count / (2 * self._repetitions)),
            f"{' → '.join(cycle)} came {count} times with the same outcome",
            {"cycle": cycle, "repetitions": count},
        )


class ErrorStreakClassifier:
    """Failures in a row, whatever they say."""

    name = "error_streak"

    def __init__(self, threshold: int = STREAK) -> None:
        _positive(threshold=threshold)
        self._threshold = threshold

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant with confidence by the failures; `errors` has their messages."""
        streak = context.trajectory.consecutive_errors
        if streak < self._threshold:
            return NO
        failed = context.trajectory.recent_errors(min(streak, 2 * self._threshold))
        return ClassificationResult.yes(
            min(1.0, streak / (2 * self._threshold)),
            f"{streak} calls failed in a row",
            {"errors": [call.error or call.result for call in failed], "streak": streak},
        )


class ProgressStallClassifier:
    """Calls in a row that failed or told nothing new, or looking around without an act."""

    name = "progress_stall"

    def __init__(self, threshold: int = 5) -> None:
        _positive(threshold=threshold)
        self._threshold = threshold

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant from so many calls on, be they idle or a pattern of looking around."""
        idle = context.trajectory.calls_without_progress
        stall = context.trajectory.pattern(PatternType.PROGRESS_STALL)
        if max(idle, stall.occurrences if stall else 0) < self._threshold:
            return NO
        reason = f"{idle} calls without progress" if stall is None else stall.evidence
        return ClassificationResult.yes(0.8, reason, {"calls": idle})


class HighToolCountClassifier:
    """Many calls, near the most that there should be or beyond."""

    name = "high_tool_count"

    def __init__(self, threshold: int = 50, warn_at: float = 0.8) -> None:
        _positive(threshold=threshold)
        self._threshold, self._warn = threshold, warn_at * threshold

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Sure at the threshold, a warning of 0.6 a fifth before it."""
        count = context.trajectory.tool_call_count
        if count < self._warn:
            return NO
        reason, metadata = f"{count} of {self._threshold} calls", {"count": count}
        if count < self._threshold:
            return ClassificationResult.maybe(0.6, reason, metadata)
        return ClassificationResult.yes(1.0, reason, metadata)


class SingleToolRepeatedClassifier:
    """One tool again and again, among the last calls."""

    name = "single_tool_repeated"

    def __init__(self, window: int = 5, threshold: int = 4) -> None:
        _positive(window=window, threshold=threshold)
        self._window, self._threshold = window, threshold

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant at the threshold; `tool` is its name."""
        names = [call.name for call in context.trajectory.recent_tool_calls(self._window)]
        for name in names[: self._window - self._threshold + 1]:
            if (count := names.count(name)) >= self._threshold:
                reason = f"{count} of the last {len(names)} calls are of {name}"
                return ClassificationResult.yes(0.7, reason, {"tool": name, "count": count})
        return NO


class SequentialWhenParallelClassifier:
    """Calls one by one that could have been made at once: none needs what another gave."""

    name = "sequential_when_parallel"

    def __init__(self, threshold: int = 3, independent_tools: Iterable[str] | None = None) -> None:
        _positive(threshold=threshold)
        self._threshold = threshold
        self._independent = None if independent_tools is None else frozenset(independent_tools)

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant where the last calls are looks, all of them other ones, none fed by another."""
        calls = context.trajectory.recent_tool_calls(self._threshold)
        if len(calls) < self._threshold or not all(map(self._may_go_beside, calls)):
            return NO
        if len({(call.name, call.words) for call in calls}) < len(calls):
            return NO
        if any(_feeds(one, two) for at, two in enumerate(calls) for one in calls[:at]):
            return NO
        names = [call.name for call in calls]
        reason = f"{len(names)} calls, one after another, need nothing of each other"
        return ClassificationResult.yes(0.6, reason, {"tools": names})

    def _may_go_beside(self, call: ToolCall) -> bool:
        if self._independent is not None:
            return call.success and call.name in self._independent
        return call.success and call.effect == "looks" and not call.waits


MIN_FED = 3


def _feeds(one: ToolCall, two: ToolCall) -> bool:
    """Whether a value that a call gave stands in another one's parameters."""
    given = one.result.lower()
    words = (word.partition(":")[2] for word in two.words if word not in one.words)
    return bool(given) and any(len(word) >= MIN_FED and word in given for word in words)


class LargeOutputClassifier:
    """The last result, or the last response, is very long."""

    name = "large_output"

    def __init__(self, threshold: int = 10_000) -> None:
        _positive(threshold=threshold)
        self._threshold = threshold

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant from so many characters on."""
        last = context.trajectory.recent_tool_calls(1)
        size = max(last[0].result_chars if last else 0, len(context.last_response))
        if size < self._threshold:
            return NO
        return ClassificationResult.yes(0.7, f"{size} characters of output", {"characters": size})


PART_CHARS, OVERLAP_CHARS = 4_000, 200
MAX_PENDING_CHARS = 40_000
"""So much of a call is looked through, in parts; of a longer one it is said that it is longer."""


class SensitiveContentClassifier:
    """Secrets or personal data in calls that are about to be made.

    `patterns` are looked for besides, by name; regular expressions, or texts of such. What turns
    are read for is found without them: keys, passwords, card and account numbers, phone numbers.
    """

    name = "sensitive_content"

    def __init__(
        self,
        patterns: Mapping[str, str | re.Pattern[str]] | Sequence[str] = (),
        *,
        region: str | None = None,
    ) -> None:
        named = patterns if isinstance(patterns, Mapping) else {each: each for each in patterns}
        try:
            self._patterns = {name: re.compile(each) for name, each in named.items()}
        except re.error as error:
            raise SettingsError(f"a pattern is no regular expression: {error}") from error
        self._region = region

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant with the kinds that were found, never with what was found itself."""
        for call in context.pending_tool_calls:
            text = _text_of(call.parameters)
            starts = range(0, max(1, min(len(text), MAX_PENDING_CHARS)), PART_CHARS - OVERLAP_CHARS)
            parts = (text[start : start + PART_CHARS] for start in starts)
            if kinds := next((found for part in parts if (found := self._kinds(part))), None):
                reason = f"the call of {call.name} holds {', '.join(kinds)}"
                return ClassificationResult.yes(0.9, reason, {"tool": call.name, "kinds": kinds})
            if len(text) > MAX_PENDING_CHARS:
                reason = f"the call of {call.name} is too long to be looked through"
                return ClassificationResult.maybe(0.5, reason, {"tool": call.name, "kinds": []})
        return NO

    def _kinds(self, text: str) -> list[str]:
        # It loads lists of formats, which no other classifier needs.
        from toolcrib.router.context.pii import personal_entities, secrets

        found = [name for name, each in self._patterns.items() if each.search(text)]
        known = (*secrets(text), *personal_entities(text, self._region))
        return list(dict.fromkeys((*found, *(entity.type for entity in known))))


def _text_of(parameters: Mapping[str, Any]) -> str:
    """Each parameter in a line of its own, as detectors read text."""
    lines = (f"{key}: {value}" for key, value in parameters.items())
    return "\n".join(lines)


# -- made of others ------------------------------------------------------------------------------


def _members(name: str, classifiers: Sequence[GuidanceClassifier]) -> None:
    if not classifiers:
        raise SettingsError(f"{name} needs at least one classifier")


class AllOfClassifier:
    """Holds where all do: their mean confidence, their reasons joined."""

    def __init__(self, classifiers: Sequence[GuidanceClassifier], *, name: str = "all_of") -> None:
        _members(name, classifiers)
        self.name, self._classifiers = name, tuple(classifiers)

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Stop at the first that does not hold."""
        found: list[ClassificationResult] = []
        for classifier in self._classifiers:
            result = classifier.classify(context)
            if not result.relevant:
                return ClassificationResult.no(result.reason)
            found.append(result)
        merged = {key: value for each in found for key, value in each.metadata.items()}
        reasons = "; ".join(each.reason for each in found if each.reason)
        return ClassificationResult.yes(fmean(each.confidence for each in found), reasons, merged)


class AnyOfClassifier:
    """Holds where one does: what the first says that fires."""

    def __init__(self, classifiers: Sequence[GuidanceClassifier], *, name: str = "any_of") -> None:
        _members(name, classifiers)
        self.name, self._classifiers = name, tuple(classifiers)

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Ask in order."""
        for classifier in self._classifiers:
            result = classifier.classify(context)
            if result.relevant:
                return result
        return NO


class NotClassifier:
    """Holds where another does not."""

    def __init__(self, classifier: GuidanceClassifier, *, name: str | None = None) -> None:
        self.name, self._classifier = name or f"not_{classifier.name}", classifier

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Turn the other's answer round."""
        result = self._classifier.classify(context)
        if result.relevant:
            return ClassificationResult.no(result.reason)
        return ClassificationResult.yes(1.0, f"not {self._classifier.name}")


class ThresholdClassifier:
    """Holds where another does with at least so much confidence."""

    def __init__(
        self, classifier: GuidanceClassifier, min_confidence: float, *, name: str | None = None
    ) -> None:
        if not 0 <= min_confidence <= 1:
            raise SettingsError(f"min_confidence is {min_confidence}; it must be from 0 to 1")
        self.name, self._classifier = name or classifier.name, classifier
        self._least = min_confidence

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """The other's answer, where it is sure enough."""
        result = self._classifier.classify(context)
        if result.relevant and result.confidence < self._least:
            return ClassificationResult.no(result.reason)
        return result


# -- speed ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassifierBenchmark:
    """What a classifier takes, in nanoseconds a call."""

    name: str
    mean_ns: float
    p99_ns: float
    max_ns: float
    samples: int


def benchmark_classifier(
    classifier: GuidanceClassifier, context: GuidanceContext, samples: int = 1_000
) -> ClassifierBenchmark:
    """Time so many calls of a classifier, one by one."""
    _positive(samples=samples)
    took: list[int] = []
    for _ in range(samples):
        start = time.perf_counter_ns()
        classifier.classify(context)
        took.append(time.perf_counter_ns() - start)
    took.sort()
    p99 = took[min(samples - 1, -(-99 * samples // 100) - 1)]
    return ClassifierBenchmark(classifier.name, fmean(took), float(p99), float(took[-1]), samples)
