"""Classifiers of a trajectory, which decide in microseconds if a hint is due."""

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

_EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """Call that is about to be made."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: _EMPTY_MAPPING)


@dataclass(frozen=True, slots=True)
class GuidanceContext:
    """Read-only input of classifiers and providers.

    `session` are the application's facts on the conversation, `last_response` is the model's last
    text. `turn` counts turns. `delivered` are keys of the conversation's hints, which do not
    repeat without a tracker. `result` is the classification that triggered a provider.
    """

    trajectory: TrajectoryAnalysis = field(default_factory=TrajectoryAnalysis)
    pending_tool_calls: tuple[PendingToolCall, ...] = ()
    last_response: str = ""
    session: Mapping[str, Any] = field(default_factory=lambda: _EMPTY_MAPPING)
    turn: int = 0
    delivered: Mapping[str, int] = field(default_factory=lambda: _EMPTY_MAPPING)
    result: ClassificationResult | None = None


@dataclass(frozen=True, slots=True)
class ClassificationResult:
    """Decision of a classifier, its confidence (0 to 1, no probability), and the reason."""

    relevant: bool
    confidence: float = 1.0
    reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: _EMPTY_MAPPING)

    @classmethod
    def yes(
        cls, confidence: float = 1.0, reason: str = "", metadata: Mapping[str, Any] = _EMPTY_MAPPING
    ) -> Self:
        """Create a positive result."""
        return cls(True, confidence, reason, metadata)  # noqa: FBT003

    @classmethod
    def no(cls, reason: str = "") -> Self:
        """Create a negative result."""
        return cls(False, 0.0, reason)  # noqa: FBT003

    @classmethod
    def maybe(
        cls, confidence: float = 0.5, reason: str = "", metadata: Mapping[str, Any] = _EMPTY_MAPPING
    ) -> Self:
        """Create an uncertain result: relevant, unless more confidence is required."""
        return cls(True, confidence, reason, metadata)  # noqa: FBT003


NO = ClassificationResult.no()


class GuidanceClassifier(Protocol):
    """Classifier of a context; quick, and without side effects."""

    @property
    def name(self) -> str:
        """Name under which results and cooldown are kept."""
        ...

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Classify a context."""
        ...


def run_classifiers(
    classifiers: Iterable[GuidanceClassifier],
    context: GuidanceContext,
    min_confidence: float = 0.5,
) -> ClassificationResult | None:
    """First result that fires with enough confidence; a failing classifier is skipped."""
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
    """Classifier whose settings are whole numbers of at least 1."""

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if isinstance(number, int) and number < 1:
                raise SettingsError(f"{name} is {number}; it must be 1 or more")


@dataclass(frozen=True)
class DoomLoopClassifier(_Counting):
    """Repeated calls with the same outcomes.

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
    """Consecutive failures of any kind."""

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
    """Consecutive calls without progress, or too little news in recent calls."""

    threshold: int = 5
    name = "progress_stall"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant from the threshold on."""
        idle = context.trajectory.calls_without_progress
        stall = context.trajectory.pattern(PatternType.PROGRESS_STALL)
        if max(idle, stall.occurrences if stall else 0) < self.threshold:
            return NO
        reason = f"{idle} calls without progress" if stall is None else stall.evidence
        return ClassificationResult.yes(0.8, reason, {"calls": idle})


@dataclass(frozen=True)
class HighToolCountClassifier(_Counting):
    """Number of calls near or beyond a limit."""

    threshold: int = 50
    warn_at: float = 0.8
    name = "high_tool_count"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Certain at the threshold; a warning of 0.6 from four fifths on."""
        count = context.trajectory.tool_call_count
        if count < self.warn_at * self.threshold:
            return NO
        confidence = 1.0 if count >= self.threshold else 0.6
        reason = f"{count} of {self.threshold} calls"
        return ClassificationResult.maybe(confidence, reason, {"count": count})


@dataclass(frozen=True)
class SingleToolRepeatedClassifier(_Counting):
    """One tool repeated among the last calls."""

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
    """Sequential calls that could run in parallel, as none uses another's result.

    `independent_tools` may run in parallel; by default all tools that only look.
    """

    threshold: int = 3
    independent_tools: Collection[str] | None = None
    name = "sequential_when_parallel"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant if the last calls are different looks, none of them fed by another."""
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
    """True if a value of one call's result is in another call's parameters."""
    given = one.result.lower()
    return any(len(word) >= MIN_FED and word in given for word in two.words - one.words)


@dataclass(frozen=True)
class LargeOutputClassifier(_Counting):
    """Very long last result or last response."""

    threshold: int = 10_000
    name = "large_output"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Relevant from the threshold of characters on."""
        last = context.trajectory.recent_tool_calls(1)
        size = max(last[0].result_chars if last else 0, len(context.last_response))
        if size < self.threshold:
            return NO
        return ClassificationResult.yes(0.7, f"{size} characters of output", {"characters": size})


PART_CHARS, OVERLAP_CHARS = 4_000, 200
MAX_PENDING_CHARS = 40_000
"""Characters searched in a call; a longer call is reported as longer."""


class SensitiveContentClassifier:
    """Secrets or personal data in calls that are about to be made.

    `patterns` are further regular expressions by name. Keys, passwords, card, account and phone
    numbers are found without them.
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
        """Relevant with the kinds found, never with the found values."""
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
    """Text with a line for each parameter, as detectors read it."""
    lines = (f"{key}: {value}" for key, value in parameters.items())
    return "\n".join(lines)


# -- made of others ------------------------------------------------------------------------------


class _Composite:
    """Classifier over at least one other, in order."""

    kind = "composite"

    def __init__(
        self, classifiers: Sequence[GuidanceClassifier], *, name: str | None = None
    ) -> None:
        if not classifiers:
            raise SettingsError(f"{type(self).__name__} needs at least one classifier")
        self.name, self._classifiers = name or self.kind, tuple(classifiers)


class AllOfClassifier(_Composite):
    """Conjunction: mean confidence, joined reasons."""

    kind = "all_of"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Stop at the first negative result."""
        found: list[ClassificationResult] = []
        for classifier in self._classifiers:
            found.append(classifier.classify(context))
            if not found[-1].relevant:
                return ClassificationResult.no(found[-1].reason)
        merged = {key: value for each in found for key, value in each.metadata.items()}
        reasons = "; ".join(each.reason for each in found if each.reason)
        return ClassificationResult.yes(fmean(each.confidence for each in found), reasons, merged)


class AnyOfClassifier(_Composite):
    """Disjunction: the first positive result."""

    kind = "any_of"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Return the first positive result."""
        results = (classifier.classify(context) for classifier in self._classifiers)
        return next((result for result in results if result.relevant), NO)


class NotClassifier(_Composite):
    """Negation of a classifier."""

    def __init__(self, classifier: GuidanceClassifier, *, name: str | None = None) -> None:
        super().__init__([classifier], name=name or f"not_{classifier.name}")

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Negate the result."""
        result = self._classifiers[0].classify(context)
        if result.relevant:
            return ClassificationResult.no(result.reason)
        return ClassificationResult.yes(1.0, self.name)


class ThresholdClassifier(_Composite):
    """Classifier with a minimum of confidence."""

    def __init__(
        self, classifier: GuidanceClassifier, min_confidence: float, *, name: str | None = None
    ) -> None:
        if not 0 <= min_confidence <= 1:
            raise SettingsError(f"min_confidence is {min_confidence}; it must be from 0 to 1")
        super().__init__([classifier], name=name or classifier.name)
        self._least = min_confidence

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Return the result if it is certain enough."""
        result = self._classifiers[0].classify(context)
        if result.relevant and result.confidence < self._least:
            return ClassificationResult.no(result.reason)
        return result


# -- a language model -----------------------------------------------------------------------------

_MODEL_RETRY_PAUSE_S = 30.0
"""Seconds without another request after a failure, because an agent waits for the answer."""

MAX_CACHED = 256
LAST_CALLS = 8
_MAX_PROMPT_NAME_CHARS = 80

NO_VERDICT = ClassificationResult.no("the language model had no verdict")


class LLMVerdict(BaseModel):
    """Verdict of a model, its confidence from 0 to 1, and a short reason."""

    relevant: bool
    confidence: float = Field(default=0.5, ge=0, le=1)
    reason: str = ""


class LLMClassifier:
    """Classifier by a language model, within half a second by default, once for the same calls.

    `prompt_template` has the task; its `{trajectory}` is the summary: names of tools and counts
    of failures, without parameters and results. A failed request is a negative result. `classify`
    blocks: call it in a thread from an event loop.
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
        """Ask the model, unless the same calls were classified before."""
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
                self._away_until = self._clock() + _MODEL_RETRY_PAUSE_S
            return NO_VERDICT
        result = ClassificationResult(said.relevant, said.confidence, said.reason)
        self._known[key] = result
        return result


def _summary(context: GuidanceContext) -> str:
    """Summary of a trajectory, without texts of users and results of tools."""
    trajectory = context.trajectory
    lines = [f"{trajectory.tool_call_count} calls, {trajectory.error_count} failed"]
    lines += [
        f"- {call.name[:_MAX_PROMPT_NAME_CHARS]}: {'ok' if call.success else 'failed'}"
        for call in trajectory.recent_tool_calls(LAST_CALLS)
    ]
    lines += [f"pattern: {each.type}" for each in trajectory.patterns()]
    lines += [
        f"about to call: {each.name[:_MAX_PROMPT_NAME_CHARS]}"
        for each in context.pending_tool_calls[:3]
    ]
    return "\n".join(lines)


# -- speed ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassifierBenchmark:
    """Time of a classifier, in nanoseconds a call."""

    name: str
    mean_ns: float
    p99_ns: float
    max_ns: float
    samples: int


def benchmark_classifier(
    classifier: GuidanceClassifier, context: GuidanceContext, samples: int = 1_000
) -> ClassifierBenchmark:
    """Time a classifier over a number of calls, at least one."""
    samples = max(1, samples)
    took: list[int] = []
    for _ in range(samples):
        start = time.perf_counter_ns()
        classifier.classify(context)
        took.append(time.perf_counter_ns() - start)
    took.sort()
    p99 = took[min(samples - 1, -(-99 * samples // 100) - 1)]
    return ClassifierBenchmark(classifier.name, fmean(took), float(p99), float(took[-1]), samples)
