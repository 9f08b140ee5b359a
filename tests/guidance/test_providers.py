"""Providers say the one useful thing, with its numbers; whatever fails says nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from toolcrib.guidance import (
    AlternateToolProvider,
    ClassificationResult,
    ClassifierCooldownTracker,
    ConsultationProvider,
    DecisionPoint,
    DiagnosticSignalProvider,
    DoomLoopBreaker,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceContext,
    GuidanceInjection,
    GuidanceProviderConfig,
    ParallelToolReminder,
    SearchLoopProvider,
    SequentialWhenParallelClassifier,
    ThresholdClassifier,
    TrajectoryBuilder,
    collect_guidance,
    default_providers,
    stuck_tool,
)

ERRORS = [{"name": f"t{n}", "success": False, "error": "550 refused"} for n in range(4)]
LOOP = [{"name": "send", "parameters": {"to": "ana"}, "error": "550 refused"}] * 3
SEEN = [{"name": "list", "result": "a.txt b.txt", "parameters": {"page": n}} for n in range(7)]
CUT = [{"name": "query", "result": "Total rows: 720. Sample results (first 5 rows): a b c"}] * 3
TABLE = {"name": "list", "result": CUT[0]["result"]}
FAXES = [
    {"type": "search", "text": text, "found": ["mail/fax", "send"]}
    for text in ("send a fax", "fax sender", "fax machine")
]
FILES = [{"name": "find_file", "parameters": {"pattern": n}, "result": "[]"} for n in "abc"]
ALTERNATES = AlternateToolProvider(lambda tool, _goal: [tool, "post_letter"])
LOOKS = [{"name": "grep", "result": f"line {n}"} for n in range(3)]


def context(events, **more):
    builder = TrajectoryBuilder()
    for event in events:
        builder.on_event(event)
    return GuidanceContext(builder.build(), **more)


class Provider:
    """Provider of given hints; `fails` names the method that raises."""

    category = "test"

    def __init__(self, name, hints, fails=""):
        self._name, self._hints, self._fails = name, hints, fails

    def _check(self, method):
        if self._fails == method:
            raise OSError(method)

    @property
    def name(self):
        self._check("name")
        return self._name

    def classify(self, _context):
        self._check("classify")
        return ClassificationResult.yes(0.7)

    def provide(self, _context):
        self._check("provide")
        return {"shape": "no hint", "list": ["no hint"]}.get(self._fails, self._hints)


def hint(key, priority=100):
    return GuidanceInjection(key=key, content=f"about {key}", priority=priority)


@pytest.mark.parametrize(
    ("provider", "events", "key", "says"),
    [
        (DoomLoopBreaker(), LOOP, "doom-loop", "send failed with one error 3 times"),
        (DoomLoopBreaker(), CUT, "doom-loop", "is cut (5 of 720)"),
        (SearchLoopProvider(), [TABLE, *CUT], "search-loop", "is cut (5 of 720)"),
        (DiagnosticSignalProvider(), ERRORS, "error-streak", "4 calls failed with one error (t0"),
        (ConsultationProvider(), SEEN, "stall", "6 calls in a row failed, or returned nothing new"),
        (SearchLoopProvider(), FAXES, "search-loop", "The nearest is mail/fax, send."),
        (SearchLoopProvider(), FILES, "search-loop", "3 calls searched with find_file and found"),
        (SearchLoopProvider(), [*LOOP, *FAXES], "search-loop", "The nearest is mail/fax."),
        (ParallelToolReminder(), LOOKS, "parallel", "3 independent tools called sequentially"),
        (ALTERNATES, LOOP, "alternate-tool", "Other tools that may do the same: post_letter."),
    ],
)
def test_each_speaks_of_its_own_trouble_and_is_silent_without(provider, events, key, says):
    (made,) = collect_guidance([provider], context(events))

    assert made.key == key
    assert says in made.content
    assert "550" not in made.content  # what a server says is not the gateway's to repeat
    assert collect_guidance([provider], context([])) == ()


def test_a_hint_names_no_tool_that_failed_and_looks_for_the_goal_of_the_failed_call():
    asked = []
    events = [
        {"type": "prompt", "text": "find a room"},
        {"name": "rooms", "error": "closed"},
        {"type": "search", "text": "write to Ana"},
        *LOOP,
    ]

    def find(tool, goal):
        asked.append((tool, goal))
        return ["rooms", "send", "post"]

    (made,) = collect_guidance([AlternateToolProvider(find)], context(events))
    assert made.content.endswith("Other tools that may do the same: post.")
    assert asked == [("send", "write to Ana")]
    nothing = AlternateToolProvider(lambda *_: ["rooms", "send"])
    assert collect_guidance([nothing], context(events)) == ()


def test_the_tool_of_a_cut_answer_needs_no_other_tool():
    assert stuck_tool(context(CUT).trajectory) is None
    assert stuck_tool(context(LOOP).trajectory).error == "550 refused"
    assert stuck_tool(context(LOOP[:2]).trajectory) is None


def test_a_configuration_of_layers_speaks_by_the_first_that_is_due():
    layers = (
        GuidanceProviderConfig(
            provider=DoomLoopBreaker(),
            classifier=ThresholdClassifier(DoomLoopClassifier(min_repetitions=3), 0.8),
            max_per_turn=1,
        ),
        GuidanceProviderConfig(DiagnosticSignalProvider(), ErrorStreakClassifier(threshold=3)),
        GuidanceProviderConfig(
            provider=ParallelToolReminder(),
            classifier=SequentialWhenParallelClassifier(),
            cooldown_turns=10,
        ),
    )

    assert [each.key for each in collect_guidance(layers, context(LOOP * 4))] == ["doom-loop"]
    assert [each.key for each in collect_guidance(layers, context(LOOP))] == ["error-streak"]
    assert [each.key for each in collect_guidance(layers, context(LOOKS))] == ["parallel"]


def test_hints_come_by_priority_and_one_for_a_key():
    chosen = [
        GuidanceProviderConfig(Provider("many", [hint(f"k{n}", n) for n in range(5)])),
        Provider("twice", [hint("k0", 50), hint("urgent", 0)]),
        GuidanceProviderConfig(Provider("unsure", hint("unsure", 0)), min_confidence=0.8),
        GuidanceProviderConfig(
            Provider("elsewhere", hint("else", 0)), points=frozenset({DecisionPoint.PRE_RENDER})
        ),
        GuidanceProviderConfig(Provider("other", hint("other", 0)), ErrorStreakClassifier()),
    ]
    made = collect_guidance(chosen, GuidanceContext(turn=4, delivered={"k1": 1}))

    assert [each.key for each in made] == ["k0", "urgent", "k2"]


@given(st.lists(st.sampled_from(["", "classify", "provide", "shape", "list", "name"]), max_size=5))
def test_whatever_fails_is_no_guidance(fails):
    providers = [Provider(f"p{n}", hint(f"p{n}"), each) for n, each in enumerate(fails)]

    tracker = ClassifierCooldownTracker()
    made = collect_guidance(providers, GuidanceContext(), tracker=tracker, max_injections=9)
    assert {each.key for each in made} == {f"p{n}" for n, each in enumerate(fails) if not each}
    assert len(collect_guidance([Provider("", hint("a"), "name")], GuidanceContext())) == 1


@settings(max_examples=50)
@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 5), st.integers(0, 4))
def test_a_provider_keeps_its_cooldown_and_its_cap(steps, cooldown, most):
    config = GuidanceProviderConfig(
        Provider("p", hint("p")), cooldown_turns=cooldown, max_fires_per_session=most
    )
    tracker, turn, fired = ClassifierCooldownTracker(), 0, []
    for step in steps:
        turn += step
        if collect_guidance([config], GuidanceContext(turn=turn), tracker=tracker):
            fired.append(turn)

    assert len(fired) <= most
    assert all(two - one >= cooldown for one, two in itertools.pairwise(fired))


def test_a_provider_gives_no_more_hints_at_once_than_its_cap():
    config = GuidanceProviderConfig(Provider("p", [hint("a"), hint("b")]), max_per_turn=1)

    assert [each.key for each in collect_guidance([config], GuidanceContext())] == ["a"]


def test_one_cause_has_one_hint():
    providers = default_providers(lambda _tool, _goal: ["post_letter"])
    made = collect_guidance(providers, context(LOOP))

    assert [each.key for each in made] == ["alternate-tool"]
    assert collect_guidance(providers, context(LOOP, delivered={"alternate-tool": 1})) != made


@pytest.mark.parametrize(
    "wrong", [{"key": "Bad key"}, {"content": ""}, {"content": "x" * 501}, {"more": 1}]
)
def test_a_hint_is_short_and_has_a_plain_key(wrong):
    with pytest.raises(ValidationError):
        GuidanceInjection.model_validate({"key": "a", "content": "b", **wrong})


def test_by_default_an_agent_hears_of_failures_loops_and_searches():
    names = [each.provider.name for each in default_providers(lambda *_: [])]
    assert names == ["alternate-tool", "doom-loop-breaker", "search-loop", "diagnostic-signal"]
