"""Classifiers: whether something of a trajectory is worth a word, in microseconds."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pydantic import BaseModel, Field

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import SettingsError
from toolcrib.guidance.actions import ToolCall
from toolcrib.guidance.detectors import (
    CYCLE,
    REPETITIONS,
    PatternType,
    certainty,
    find_loop,
)
from toolcrib.guidance.trajectory import TrajectoryAnalysis
from toolcrib.records import Message

if TYPE_CHECKING:
    from toolcrib.language_models import LanguageModel

__all__ = [
    "AllOfClassifier",
    "AnyOfClassifier",
    "ClassificationResult",
    "ClassifierBenchmark",
    "DoomLoopClassifier",
    "ErrorStreakClassifier",
    "GuidanceClassifier",
    "GuidanceContext",
    "HighToolCountClassifier",
    "LLMClassifier",
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
        cls, confidence: float = 1.0, reason: str = "", metadata: Mapping[str, Any] = NOTHING
    ) -> Self:
        """It holds."""
        return cls(True, confidence, reason, metadata)  # noqa: FBT003

    @classmethod
    def no(cls, reason: str = "") -> Self:
        """It does not hold."""
        return cls(False, 0.0, reason)  # noqa: FBT003

    @classmethod
    def maybe(
        cls, confidence: float = 0.5, reason: str = "", metadata: Mapping[str, Any] = NOTHING
    ) -> Self:
        """It may hold: relevant, and dropped only where more confidence is asked for."""
        return cls(True, confidence, reason, metadata)  # noqa: FBT003


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


class _Counting:
    """A classifier with whole numbers as its settings: each of them must be 1 or more."""

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if isinstance(number, int) and number < 1:
                raise SettingsError(f"{name} is {number}; it must be 1 or more")


@dataclass(frozen=True)
class DoomLoopClassifier(_Counting):
    """The same calls again and again, with the same outcomes.

    One tool alone is a cycle of length 1, which a `min_cycle_length` of 2 leaves out.
    """

    min_repetitions: int = REPETITIONS
    min_cycle_length: int = CYCLE
    name = "doom_loop"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant with confidence by the repetitions; `cycle` has the tools in order."""
        loop = find_loop(context.trajectory.calls, self.min_repetitions, self.min_cycle_length)
        if loop is None:
            return NO
        told = {"cycle": list(loop.cycle), "repetitions": loop.occurrences}
        return ClassificationResult.yes(loop.confidence, loop.evidence, told)


@dataclass(frozen=True)
class ErrorStreakClassifier(_Counting):
    """Failures in a row, whatever they say."""

    threshold: int = 3
    name = "error_streak"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant with confidence by the failures; `errors` has their messages."""
        streak = context.trajectory.consecutive_errors
        failed = context.trajectory.recent_errors(streak)
        # To ask again after a wait, and to be told otherwise, is patience.
        waited = sum(
            call.is_reply or (call.paused and call.asked == last.asked and call.kind != last.kind)
            for last, call in pairwise(failed)
        )
        if streak - waited < self.threshold:
            return NO
        failed = failed[-2 * self.threshold :]
        return ClassificationResult.yes(
            certainty(streak, self.threshold),
            f"{streak} calls failed in a row",
            {"errors": [call.error or call.result for call in failed], "streak": streak},
        )


@dataclass(frozen=True)
class ProgressStallClassifier(_Counting):
    """Calls in a row without progress, or a lack of news among the recent ones."""

    threshold: int = 5
    name = "progress_stall"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant from so many calls on."""
        idle = context.trajectory.calls_without_progress
        stall = context.trajectory.pattern(PatternType.PROGRESS_STALL)
        if max(idle, stall.occurrences if stall else 0) < self.threshold:
            return NO
        reason = f"{idle} calls without progress" if stall is None else stall.evidence
        return ClassificationResult.yes(0.8, reason, {"calls": idle})


@dataclass(frozen=True)
class HighToolCountClassifier(_Counting):
    """Many calls, near the most that there should be or beyond."""

    threshold: int = 50
    warn_at: float = 0.8
    name = "high_tool_count"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Sure at the threshold, a warning of 0.6 a fifth before it."""
        count = context.trajectory.tool_call_count
        if count < self.warn_at * self.threshold:
            return NO
        confidence = 1.0 if count >= self.threshold else 0.6
        reason = f"{count} of {self.threshold} calls"
        return ClassificationResult.maybe(confidence, reason, {"count": count})


@dataclass(frozen=True)
class SingleToolRepeatedClassifier(_Counting):
    """One tool again and again, among the last calls."""

    window: int = 5
    threshold: int = 4
    name = "single_tool_repeated"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant at the threshold; `tool` is its name."""
        names = [call.name for call in context.trajectory.recent_tool_calls(self.window)]
        for name in names[: self.window - self.threshold + 1]:
            if (count := names.count(name)) >= self.threshold:
                reason = f"{count} of the last {len(names)} calls are of {name}"
                return ClassificationResult.yes(0.7, reason, {"tool": name, "count": count})
        return NO


@dataclass(frozen=True)
class SequentialWhenParallelClassifier(_Counting):
    """Calls one by one that could have been made at once: none needs what another gave.

    `independent_tools` are those that may go beside others; by default all that only look.
    """

    threshold: int = 3
    independent_tools: Collection[str] | None = None
    name = "sequential_when_parallel"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant where the last calls are looks, all of them other ones, none fed by another."""
        calls = context.trajectory.recent_tool_calls(self.threshold)
        if len(calls) < self.threshold or not all(map(self._may_go_beside, calls)):
            return NO
        if len({(call.name, call.words) for call in calls}) < len(calls):
            return NO
        if any(_feeds(one, two) for at, two in enumerate(calls) for one in calls[:at]):
            return NO
        names = [call.name for call in calls]
        reason = f"{len(names)} calls, one after another, need nothing of each other"
        return ClassificationResult.yes(0.6, reason, {"tools": names})

    def _may_go_beside(self, call: ToolCall) -> bool:
        if self.independent_tools is not None:
            return call.success and call.name in self.independent_tools
        return call.success and call.effect == "looks" and not call.waits


MIN_FED = 3


def _feeds(one: ToolCall, two: ToolCall) -> bool:
    """Whether a value that a call gave stands in another one's parameters."""
    given = one.result.lower()
    return any(len(word) >= MIN_FED and word in given for word in two.words - one.words)


@dataclass(frozen=True)
class LargeOutputClassifier(_Counting):
    """The last result, or the last response, is very long."""

    threshold: int = 10_000
    name = "large_output"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant from so many characters on."""
        last = context.trajectory.recent_tool_calls(1)
        size = max(last[0].result_chars if last else 0, len(context.last_response))
        if size < self.threshold:
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


class _Composite:
    """A classifier over others, in order; there must be at least one."""

    kind = "composite"

    def __init__(
        self, classifiers: Sequence[GuidanceClassifier], *, name: str | None = None
    ) -> None:
        if not classifiers:
            raise SettingsError(f"{type(self).__name__} needs at least one classifier")
        self.name, self._classifiers = name or self.kind, tuple(classifiers)


class AllOfClassifier(_Composite):
    """Holds where all do: their mean confidence, their reasons joined."""

    kind = "all_of"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Stop at the first that does not hold."""
        found: list[ClassificationResult] = []
        for classifier in self._classifiers:
            found.append(classifier.classify(context))
            if not found[-1].relevant:
                return ClassificationResult.no(found[-1].reason)
        merged = {key: value for each in found for key, value in each.metadata.items()}
        reasons = "; ".join(each.reason for each in found if each.reason)
        return ClassificationResult.yes(fmean(each.confidence for each in found), reasons, merged)


class AnyOfClassifier(_Composite):
    """Holds where one does: what the first says that fires."""

    kind = "any_of"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Ask in order."""
        results = (classifier.classify(context) for classifier in self._classifiers)
        return next((result for result in results if result.relevant), NO)


class NotClassifier(_Composite):
    """Holds where another does not."""

    def __init__(self, classifier: GuidanceClassifier, *, name: str | None = None) -> None:
        super().__init__([classifier], name=name or f"not_{classifier.name}")

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Turn the other's answer round."""
        result = self._classifiers[0].classify(context)
        if result.relevant:
            return ClassificationResult.no(result.reason)
        return ClassificationResult.yes(1.0, self.name)


class ThresholdClassifier(_Composite):
    """Holds where another does with at least so much confidence."""

    def __init__(
        self, classifier: GuidanceClassifier, min_confidence: float, *, name: str | None = None
    ) -> None:
        if not 0 <= min_confidence <= 1:
            raise SettingsError(f"min_confidence is {min_confidence}; it must be from 0 to 1")
        super().__init__([classifier], name=name or classifier.name)
        self._least = min_confidence

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """The other's answer, where it is sure enough."""
        result = self._classifiers[0].classify(context)
        if result.relevant and result.confidence < self._least:
            return ClassificationResult.no(result.reason)
        return result


# -- a language model -----------------------------------------------------------------------------

RETRY_S = 30.0
"""After a failure the model is not asked for so long: an agent waits for the answer."""

MAX_CACHED = 256
LAST_CALLS = 8
MAX_SHOWN_CHARS = 80

NO_VERDICT = ClassificationResult.no("the language model had no verdict")


class LLMVerdict(BaseModel):
    """Whether what was asked for holds, how sure that is from 0 to 1, and why in a few words."""

    relevant: bool
    confidence: float = Field(default=0.5, ge=0, le=1)
    reason: str = ""


class LLMClassifier:
    """Asks a model, for half a second unless the settings say else, and once for the same calls.

    `prompt_template` says what to look for; `{trajectory}` in it is the summary: names of tools,
    what failed and how often, no parameters and no results. What goes wrong is a no. It blocks
    while it asks: from an event loop, call it in a thread.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt_template: str,
        *,
        name: str = "llm",
        timeout_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if "{trajectory}" not in prompt_template:
            raise SettingsError("prompt_template lacks {trajectory}, where the summary goes")
        self.name = name
        self._model, self._template, self._timeout_s = model, prompt_template, timeout_s
        self._known: BoundedMap[str, ClassificationResult] = BoundedMap(MAX_CACHED)
        self._lock = threading.Lock()
        self._clock, self._away_until = clock or SystemClock(), -math.inf

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Ask, unless the same was asked before."""
        told = _summary(context)
        # The counts, in the first line, differ with each call.
        key = told.partition("\n")[2]
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
            if self._clock() < self._away_until:
                return NO_VERDICT
        try:
            prompt = self._template.replace("{trajectory}", told)
            said = self._model.ask_sync(
                "guidance",
                [Message(role="user", content=prompt)],
                LLMVerdict,
                timeout_s=self._timeout_s,
            )
        except Exception as error:  # noqa: BLE001
            logger.warning("the language model had no verdict: %s", type(error).__name__)
            with self._lock:
                self._away_until = self._clock() + RETRY_S
            return NO_VERDICT
        result = ClassificationResult(said.relevant, said.confidence, said.reason)
        self._known[key] = result
        return result


def _summary(context: GuidanceContext) -> str:
    """A trajectory in a few lines, without what users wrote or tools gave."""
    trajectory = context.trajectory
    lines = [f"{trajectory.tool_call_count} calls, {trajectory.error_count} failed"]
    lines += [
        f"- {call.name[:MAX_SHOWN_CHARS]}: {'ok' if call.success else 'failed'}"
        for call in trajectory.recent_tool_calls(LAST_CALLS)
    ]
    lines += [f"pattern: {each.type}" for each in trajectory.patterns()]
    lines += [
        f"about to call: {each.name[:MAX_SHOWN_CHARS]}" for each in context.pending_tool_calls[:3]
    ]
    return "\n".join(lines)


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
    """Time so many calls of a classifier, one by one; at least one."""
    samples = max(1, samples)
    took: list[int] = []
    for _ in range(samples):
        start = time.perf_counter_ns()
        classifier.classify(context)
        took.append(time.perf_counter_ns() - start)
    took.sort()
    p99 = took[min(samples - 1, -(-99 * samples // 100) - 1)]
    return ClassifierBenchmark(classifier.name, fmean(took), float(p99), float(took[-1]), samples)
