"""Classifiers have the names, fields and defaults of their specification, and do what it says."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolcrib.guidance
from toolcrib import Settings
from toolcrib.build import language_model
from toolcrib.clock import ManualClock
from toolcrib.errors import SettingsError
from toolcrib.guidance import (
    AllOfClassifier,
    AnyOfClassifier,
    ClassificationResult,
    ClassifierConfig,
    ClassifierCooldownTracker,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceContext,
    HighToolCountClassifier,
    LargeOutputClassifier,
    LLMClassifier,
    NotClassifier,
    PendingToolCall,
    ProgressStallClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    ThresholdClassifier,
    TrajectoryBuilder,
    benchmark_classifier,
    run_classifiers,
)
from toolcrib.language_models.testing import ChatServer

EMPTY = GuidanceContext()


def context(*names, every_s=1.0, **how):
    """Calls of tools by name, with the same result for all."""
    builder = TrajectoryBuilder()
    for number, name in enumerate(names):
        builder.on_event({"tool_name": name, "at": number * every_s, **how})
    return GuidanceContext(builder.build())


@dataclass
class Fixed:
    """Classifier with a fixed result; without one it raises."""

    result: ClassificationResult | None
    name: str = "fixed"

    def classify(self, _context):
        if self.result is None:
            raise RuntimeError("broken")
        return self.result


YES, NO, MAYBE = ClassificationResult.yes, ClassificationResult.no, ClassificationResult.maybe


def test_fields_and_defaults_are_those_of_the_specification():
    assert (DoomLoopClassifier().min_repetitions, DoomLoopClassifier().min_cycle_length) == (3, 2)
    assert ErrorStreakClassifier().threshold == 3
    assert ProgressStallClassifier().stall_threshold == 5
    many, repeated = HighToolCountClassifier(), SingleToolRepeatedClassifier()
    parallel = SequentialWhenParallelClassifier()
    assert (many.threshold, many.warning_ratio) == (50, 0.8)
    assert (repeated.window, repeated.threshold) == (5, 4)
    assert (parallel.independent_tools, parallel.threshold) == ({"read_file", "search", "grep"}, 3)
    assert LargeOutputClassifier().size_threshold == 10_000
    assert len(SensitiveContentClassifier().patterns) == 5
    assert (YES().reason, MAYBE().confidence, NO().confidence) == (None, 0.5, 0.0)
    config = ClassifierConfig()
    assert (config.min_confidence, config.cooldown_turns) == (0.5, 0)
    assert config.max_fires_per_session is None


@pytest.mark.parametrize(
    ("classifier", "seen", "confidence", "metadata"),
    [
        (DoomLoopClassifier(), context(*"ababab"), 0.5, {"cycle": ("a", "b")}),
        (DoomLoopClassifier(2), context(*"abab"), 0.5, {"cycle": ("a", "b")}),
        (DoomLoopClassifier(), context(*"ab" * 9), 1.0, {}),
        (DoomLoopClassifier(), context(*"abab"), None, {}),
        (DoomLoopClassifier(), context(*"a" * 5), None, {}),
        (DoomLoopClassifier(), context(*"a" * 6), 0.5, {"cycle": ("a", "a")}),
        (DoomLoopClassifier(3, 1), context(*"aaa"), 0.5, {"cycle": ("a",)}),
        (ErrorStreakClassifier(), context(*"abc", error="no"), 0.5, {"errors": ["no"] * 3}),
        (ErrorStreakClassifier(), context(*"abcdef", error="no"), 1.0, {"errors": ["no"] * 3}),
        (ErrorStreakClassifier(), context(*"ab", error="no"), None, {}),
        (ErrorStreakClassifier(1), context("a", success=False), 0.5, {"errors": [""]}),
        (ErrorStreakClassifier(), context(*"abcdef", every_s=60, error="no"), 1.0, {}),
        (ProgressStallClassifier(), context(*"abcde", success=False), 0.8, {}),
        (ProgressStallClassifier(), context(*"abcd", success=False), None, {}),
        (ProgressStallClassifier(3), context(*"abc", success=False), 0.8, {}),
        (HighToolCountClassifier(10), context(*"a" * 8), 0.6, {}),
        (HighToolCountClassifier(10), context(*"a" * 10), 1.0, {}),
        (HighToolCountClassifier(), context(*"a" * 39), None, {}),
        (SingleToolRepeatedClassifier(), context(*"aaaa"), 0.7, {"tool": "a"}),
        (SingleToolRepeatedClassifier(), context(*"baaaaa"), 0.7, {"tool": "a"}),
        (SingleToolRepeatedClassifier(), context(*"baaaa"), None, {}),
        (LargeOutputClassifier(), context("a", result="x" * 10_001), 0.7, {}),
        (LargeOutputClassifier(), context("a", result="x" * 10_000), None, {}),
        (SequentialWhenParallelClassifier(), context("grep", "read_file", "grep"), 0.6, {}),
        (SequentialWhenParallelClassifier(), context("grep", "write", "grep"), None, {}),
        (SequentialWhenParallelClassifier(frozenset("ab"), 2), context(*"ab"), 0.6, {}),
    ],
)
def test_each_fires_where_it_should_and_is_as_sure_as_that(classifier, seen, confidence, metadata):
    found = classifier.classify(seen)

    assert found.relevant == (confidence is not None)
    assert found.confidence == pytest.approx(confidence or 0.0)
    assert metadata.items() <= dict(found.metadata).items()
    assert not classifier.classify(EMPTY).relevant


@given(st.integers(0, 10))
def test_a_streak_is_one_from_its_threshold_on_whatever_the_errors(count):
    names = [chr(97 + number) for number in range(count)]
    builder = TrajectoryBuilder()
    for number, name in enumerate(names):
        builder.on_event({"tool_name": name, "error": f"{name} is gone", "at": 60.0 * number})
    result = ErrorStreakClassifier(threshold=3).classify(GuidanceContext(builder.build()))

    assert result.relevant == (count >= 3)
    assert result.confidence >= 0.5 * result.relevant
    assert not result.relevant or "consecutive errors" in (result.reason or "")


def test_a_stall_and_a_loop_are_found_among_the_patterns_by_name():
    found = context(*"ab" * 4, result="x").trajectory.patterns()

    assert found["doom_loop"].cycle_actions == ("a", "b")
    assert found["doom_loop"].repetitions == 4
    assert found["progress_stall"].actions_during_stall == 7
    assert found.get("error_streak") is None


@pytest.mark.parametrize(
    ("params", "pattern"),
    [
        ({"text": "my Password is x"}, "password"),
        ({"api_key": 1}, "api[_-]?key"),
        ({"a": {"b": ["SECRET"]}}, "secret"),
        ({"a": "credentials"}, "credential"),
        ({"a": "tokens"}, "token"),
        ({"a": "plain"}, None),
    ],
)
def test_a_sensitive_pattern_in_a_pending_call_is_named_and_the_text_is_not(params, pattern):
    pending = GuidanceContext(pending_tool_calls=(PendingToolCall("mail", params),))
    found = SensitiveContentClassifier().classify(pending)

    assert (found.relevant, found.confidence) == ((True, 0.9) if pattern else (False, 0.0))
    assert found.reason == (f"sensitive pattern detected: {pattern}" if pattern else None)
    assert not SensitiveContentClassifier().classify(EMPTY).relevant


def test_composites_obey_their_logic_and_are_named_after_their_parts():
    sure, unsure, none = Fixed(YES(0.9, "a"), "a"), Fixed(MAYBE(0.5, "b"), "b"), Fixed(NO(), "c")
    both, either = AllOfClassifier((sure, unsure)), AnyOfClassifier((none, unsure, sure))
    least, inverse = ThresholdClassifier(sure, 0.8), NotClassifier(none)

    assert (both.classify(EMPTY).confidence, both.classify(EMPTY).reason) == (0.7, "a; b")
    assert not AllOfClassifier((sure, none)).classify(EMPTY).relevant
    assert either.classify(EMPTY).reason == "b"
    assert not AnyOfClassifier((none,)).classify(EMPTY).relevant
    assert (inverse.classify(EMPTY).relevant, inverse.classify(EMPTY).confidence) == (True, 1.0)
    assert NotClassifier(Fixed(ClassificationResult(False, 0.3))).classify(EMPTY).confidence == 0.7
    assert not NotClassifier(sure).classify(EMPTY).relevant
    assert least.classify(EMPTY).confidence == 0.9
    assert not ThresholdClassifier(unsure, 0.8).classify(EMPTY).relevant
    assert [each.name for each in (both, either, least, inverse)] == [
        *("all_of(a, b)", "any_of(c, b, a)", "threshold(a, 0.8)", "not(c)")
    ]


def test_the_first_that_is_sure_enough_is_run_and_whoever_raises_is_skipped():
    broken, unsure, sure = Fixed(None), Fixed(MAYBE(0.4)), Fixed(YES(0.6))

    assert run_classifiers([broken, unsure, sure], EMPTY) == (sure, sure.result)
    assert run_classifiers([unsure, sure], EMPTY, min_confidence=0.3) == (unsure, unsure.result)
    assert run_classifiers([broken, unsure], EMPTY) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: DoomLoopClassifier(0),
        lambda: ErrorStreakClassifier(-1),
        lambda: AllOfClassifier(()),
        lambda: AnyOfClassifier(()),
        lambda: ThresholdClassifier(Fixed(NO()), 1.5),
        lambda: SensitiveContentClassifier(("(",)),
        lambda: LLMClassifier(None, "no place for the summary"),
        lambda: benchmark_classifier(Fixed(NO()), []),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(make):
    with pytest.raises(SettingsError):
        make()


@given(
    st.lists(st.integers(0, 5), max_size=40),
    st.integers(0, 6),
    st.none() | st.integers(0, 5),
)
def test_cooldowns_and_caps_are_never_broken(steps, cooldown, most):
    config, tracker = ClassifierConfig(0.5, cooldown, most), ClassifierCooldownTracker()
    one, other = Fixed(NO(), "one"), Fixed(NO(), "other")
    turn, fired = 0, []
    for step in steps:
        turn += step
        if tracker.can_fire(one, turn, config):
            tracker.record_fire(one, turn)
            fired.append(turn)
        assert tracker.can_fire(other, turn, config) == (most != 0)

    assert most is None or len(fired) <= most
    assert all(later - earlier >= cooldown for earlier, later in pairwise(fired))
    assert tracker.counts.get("one", 0) == len(fired)


@pytest.mark.parametrize("samples", [1, 2, 150])
def test_a_benchmark_works_for_few_contexts_too(samples):
    found = benchmark_classifier(ErrorStreakClassifier(), [EMPTY] * samples)

    assert found.classifier_name == "error_streak"
    assert 0 < found.mean_ns <= found.max_ns
    assert found.p99_ns <= found.max_ns


def test_a_language_model_is_asked_once_for_the_same_calls_and_told_no_arguments():
    mails = {"parameters": {"to": "ana@example.org"}, "result": "a secret"}
    seen = [context(*["mail_send"] * times, **mails) for times in (10, 11, 12)]
    with ChatServer({"relevant": True, "confidence": 0.7, "reason": "lost"}) as server:
        model = language_model(Settings.model_validate({"llm": server.settings}), "guidance")
        classifier = LLMClassifier(model=model, prompt_template="", timeout_ms=20_000)
        found = [classifier.classify(each) for each in seen]
        said = [each.text for each in server.requests]

    assert {(each.relevant, each.confidence, each.reason) for each in found} == {
        (True, 0.7, "lost")
    }
    assert classifier.name == f"llm({model.name})"
    assert len(said) == 1
    assert "- mail_send: ok" in said[0]
    assert "ana@" not in said[0]
    assert "secret" not in said[0]


def test_a_language_model_that_fails_is_a_no_and_left_alone_for_a_while():
    clock = ManualClock()
    with ChatServer({}, faults=["garbage"] * 9) as server:
        model = language_model(Settings.model_validate({"llm": server.settings}), "guidance")
        classifier = LLMClassifier(model, "{trajectory}", clock=clock)
        requests: list[int] = []
        for passed in (0.0, 1.0, 60.0):
            clock.now += passed
            assert not classifier.classify(EMPTY).relevant
            requests.append(len(server.requests))

    assert requests[0] == requests[1] < requests[2]


def test_everything_is_exported():
    named = set(toolcrib.guidance.__all__)
    assert named >= {
        *("TrajectoryBuilder", "TrajectoryAnalysis", "TrajectoryEvent", "TrajectoryPattern"),
        *("PatternType", "DoomLoop", "ErrorStreak", "ProgressStall", "SearchLoop"),
        *("GuidanceClassifier", "ClassifierConfig", "ClassifierCooldownTracker"),
        *("DoomLoopClassifier", "ErrorStreakClassifier", "ProgressStallClassifier"),
        *("HighToolCountClassifier", "SingleToolRepeatedClassifier", "LargeOutputClassifier"),
        *("SequentialWhenParallelClassifier", "SensitiveContentClassifier", "LLMClassifier"),
        *("AllOfClassifier", "AnyOfClassifier", "NotClassifier", "ThresholdClassifier"),
        *("run_classifiers", "benchmark_classifier", "ClassifierBenchmark", "GuidanceContext"),
        *("GuidanceProvider", "GuidanceInjection", "GuidanceProviderConfig", "DecisionPoint"),
        *("collect_guidance", "AlternateToolProvider", "SearchLoopProvider", "DoomLoopBreaker"),
        *("DiagnosticSignalProvider", "ParallelToolReminder", "ClassificationResult"),
    }
    assert all(getattr(toolcrib.guidance, name) is not None for name in named)
