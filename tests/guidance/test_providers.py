"""Providers say the one useful thing, seldom; whatever fails says nothing."""

from __future__ import annotations

import asyncio
import copy
import itertools
from dataclasses import replace

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
    DoomLoopBreakerProvider,
    DoomLoopDetector,
    ErrorStreakClassifier,
    GuidanceContext,
    GuidanceHooks,
    GuidanceInjection,
    GuidanceProviderConfig,
    GuidanceSession,
    ParallelReminderProvider,
    ProgressStallDetector,
    SearchLoopDetector,
    SearchLoopProvider,
    TrajectoryBuilder,
    TrajectoryPattern,
    collect_guidance,
    default_providers,
    events_of,
    stuck_tool,
    with_guidance,
)

ERRORS = [{"name": f"t{n}", "success": False, "error": "550 refused"} for n in range(4)]
LOOP = [{"name": "send", "parameters": {"to": "ana"}, "error": "550 refused"}] * 3
STALL = [{"name": f"get_{n}", "result": f"page {n}"} for n in (0, 1, 2, 3, 4, 1, 5, 0, 3, 1)]
SEARCHES = [
    {"type": "search", "text": text, "found": ["mail/fax"]}
    for text in (
        "send a fax",
        "fax sender",
        "transmit a fax",
        "fax machine",
        "fax a letter",
        "telefax",
    )
]
LOOKS = [{"name": f"get_{n}", "result": f"{n}"} for n in range(3)]


def context(events, **more):
    builder = TrajectoryBuilder()
    for event in events:
        builder.add(event)
    return GuidanceContext(builder.build(), **more)


class Provider:
    """Says what it is told to; `fails` names the method that raises."""

    category = "test"

    def __init__(self, name, hints, fails=""):
        self._name, self._hints, self._fails = name, hints, fails

    @property
    def name(self):
        if self._fails == "name":
            raise OSError("no")
        return self._name

    def classify(self, _context):
        if self._fails == "classify":
            raise ValueError("no")
        return ClassificationResult.yes(0.7)

    def provide(self, _context):
        if self._fails == "provide":
            raise KeyError("no")
        return {"shape": "no hint", "list": ["no hint"]}.get(self._fails, self._hints)


def hint(key, priority=100):
    return GuidanceInjection(key=key, content=f"about {key}", priority=priority)


@pytest.mark.parametrize(
    ("provider", "events", "key", "says"),
    [
        (DoomLoopBreakerProvider(), LOOP, "doom-loop", "send gave the same outcome 3 times"),
        (DiagnosticSignalProvider(), ERRORS, "error-streak", "4 calls failed with the same error"),
        (ConsultationProvider(), STALL, "stall", "brought nothing new"),
        (SearchLoopProvider(), SEARCHES, "search-loop", "The nearest is mail/fax."),
        (ParallelReminderProvider(), LOOKS, "parallel", "get_0, get_1, get_2"),
        (
            AlternateToolProvider(lambda tool, _text: [tool, "post_letter"]),
            LOOP,
            "alternate-tool",
            "Other tools that may do it: post_letter.",
        ),
    ],
)
def test_each_speaks_of_its_own_trouble_and_is_silent_without(provider, events, key, says):
    (made,) = collect_guidance([provider], context(events))

    assert made.key == key
    assert says in made.content
    assert "550" not in made.content  # what a server says is not the gateway's to repeat
    assert collect_guidance([provider], context([])) == ()


def test_hints_come_by_priority_one_for_a_key_and_are_told_of():
    told = []
    chosen = [
        GuidanceProviderConfig(Provider("many", [hint(f"k{n}", n) for n in range(5)])),
        Provider("twice", [hint("k0", 50), hint("urgent", 0)]),
        GuidanceProviderConfig(Provider("unsure", hint("unsure", 0)), min_confidence=0.8),
        GuidanceProviderConfig(
            Provider("elsewhere", hint("else", 0)), points=frozenset({DecisionPoint.PRE_RENDER})
        ),
        GuidanceProviderConfig(Provider("other", hint("other", 0)), ErrorStreakClassifier()),
    ]
    made = collect_guidance(
        chosen, GuidanceContext(turn=4, delivered={"k1": 1}), listener=told.append
    )

    assert [each.key for each in made] == ["k0", "urgent", "k2"]
    assert [(each.injections, each.point, each.turn) for each in told] == [
        (made, DecisionPoint.POST_TOOL_RESULT, 4)
    ]


@given(st.lists(st.sampled_from(["", "classify", "provide", "shape", "list", "name"]), max_size=5))
def test_whatever_fails_is_no_guidance(fails):
    providers = [Provider(f"p{n}", hint(f"p{n}"), each) for n, each in enumerate(fails)]

    def listener(_event):
        raise OSError("nobody listens")

    made = collect_guidance(providers, GuidanceContext(), max_injections=9, listener=listener)
    assert {each.key for each in made} == {f"p{n}" for n, each in enumerate(fails) if not each}


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


@pytest.mark.parametrize("most", [1, 2])
def test_a_turn_has_no_more_of_a_provider_than_its_cap(most):
    config = GuidanceProviderConfig(Provider("p", hint("p")), max_per_turn=most)
    tracker = ClassifierCooldownTracker()

    def turn(number):
        now = GuidanceContext(turn=number, delivered={"p": 1})
        made = (collect_guidance([config], now, tracker=tracker, point=p) for p in DecisionPoint)
        return sum(map(len, made))

    assert [turn(1), turn(2)] == [most, most]


def test_one_cause_has_one_hint():
    stuck = LOOP * 2
    alternates, none = (lambda *_: ["other"]), (lambda *_: [])

    def keys(find, **more):
        return [
            each.key for each in collect_guidance(default_providers(find), context(stuck, **more))
        ]

    assert keys(alternates) == ["alternate-tool"]
    assert keys(none) == ["doom-loop"]
    assert keys(alternates, delivered={"alternate-tool": 1}) == []


@pytest.mark.parametrize("alarm", ["doom_loop", "error_streak", "search_loop"])
def test_a_stall_is_told_of_where_nothing_else_is_wrong(alarm):
    stall = context(STALL).trajectory
    looping = TrajectoryPattern(alarm, 1.0, "", 0.0, 3)
    more = replace(stall, alarms={**stall.alarms, alarm: 1.0}, found=(*stall.found, looping))

    for found, keys in ((stall, ["stall"]), (more, [])):
        hints = collect_guidance([ConsultationProvider()], GuidanceContext(found))
        assert [each.key for each in hints] == keys


WORKS, FAILS = {"result": "a page"}, {"error": "550 refused"}


@pytest.mark.parametrize(
    ("alarm", "calls", "tool", "count"),
    [
        # A tool that fails once among others is not what goes round.
        ("doom_loop", [("find", WORKS), ("open", WORKS)] * 3 + [("save", FAILS)], "open", 3),
        ("doom_loop", [("send", FAILS), ("look", WORKS), ("send", WORKS)] * 2, "send", 4),
        ("doom_loop", [("send", FAILS)] * 4 + [("send", WORKS), ("look", WORKS)], "send", 4),
        # What failed before the tool worked is over.
        ("error_streak", [("send", FAILS)] * 3 + [("send", WORKS)] + [("send", FAILS)], "send", 1),
        ("error_streak", [("send", FAILS), ("open", FAILS), ("open", WORKS)], "send", 1),
        ("error_streak", [("send", FAILS), ("send", WORKS)], None, 0),
        ("doom_loop", [], None, 0),
    ],
)
def test_the_tool_that_leads_nowhere_is_named_with_how_often(alarm, calls, tool, count):
    events = [
        {"name": name, "parameters": {"for": f"part {n} of {n * n}"}, **came}
        for n, (name, came) in enumerate(calls)
    ]
    found = stuck_tool(replace(context(events).trajectory, alarms={alarm: 1.0}))

    assert (found and (found.name, found.calls)) == (tool and (tool, count))


@pytest.mark.parametrize(
    ("events", "detector", "keys"),
    [
        (STALL, ProgressStallDetector, ["stall"]),
        (STALL, DoomLoopDetector, []),
        (STALL, lambda: ProgressStallDetector(indicator=lambda _: True), []),
        (STALL[:5], ProgressStallDetector, []),
        (STALL[:5], lambda: ProgressStallDetector(4, indicator=lambda _: False), ["stall"]),
        (SEARCHES, SearchLoopDetector, ["search-loop"]),
        (SEARCHES, DoomLoopDetector, []),
        (SEARCHES, lambda: SearchLoopDetector(searches=10), []),
    ],
)
def test_hints_obey_the_detectors_that_there_are(events, detector, keys):
    builder = TrajectoryBuilder(detectors=[detector])
    for event in events:
        builder.add(event)
    hints = collect_guidance(default_providers(), GuidanceContext(builder.build()))

    assert [each.key for each in hints] == keys


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        (DoomLoopBreakerProvider(), "What you do gave the same outcome several times."),
        (DiagnosticSignalProvider(), "Read the error for its cause"),
        (ParallelReminderProvider(), "The last calls need nothing of each other"),
    ],
)
def test_a_classifier_of_ones_own_makes_no_provider_talk_of_what_is_not_there(provider, says):
    config = GuidanceProviderConfig(provider, Provider("mine", ()))
    (made,) = collect_guidance([config], GuidanceContext())

    assert made.content.startswith(says)


@pytest.mark.parametrize(
    "wrong", [{"key": "Bad key"}, {"content": ""}, {"content": "x" * 501}, {"more": 1}]
)
def test_a_hint_is_short_and_has_a_plain_key(wrong):
    with pytest.raises(ValidationError):
        GuidanceInjection.model_validate({"key": "a", "content": "b", **wrong})


def test_a_session_says_one_thing_and_is_quiet_after_it():
    session, heard = GuidanceSession(), []
    for number in range(60):
        session.trajectory.tool_invoked(name="send", success=False, error="no", at=number)
        heard += [(number, made.key)] if (made := session.hint()) else []

    assert heard[0] == (2, "doom-loop")
    assert len(heard) <= 6
    assert all(two[0] - one[0] >= 10 for one, two in itertools.pairwise(heard))


# -- messages ------------------------------------------------------------------------------------

ARGUMENTS = '{"to": "ana"}'
CHAT = [
    {"role": "user", "content": "write to Ana"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "send", "arguments": ARGUMENTS}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": '{"error": "no"}'},
]
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "write to Ana"}]},
    {"type": "function_call", "call_id": "1", "name": "send", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "1", "output": "Error: no"},
]
BLOCKS = [
    {"role": "user", "content": "write to Ana"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "1", "name": "send", "input": {"to": "ana"}}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "1",
                "is_error": True,
                "content": [{"type": "text", "text": "no"}],
            }
        ],
    },
]


@pytest.mark.parametrize("messages", [CHAT, RESPONSES, BLOCKS], ids=["chat", "responses", "blocks"])
def test_a_trajectory_is_read_from_what_clients_keep(messages):
    said, called = events_of(messages)

    assert (said.type, said.text) == ("prompt", "write to Ana")
    assert (called.name, called.parameters, called.success) == ("send", {"to": "ana"}, False)
    assert events_of([*messages[:2], {"role": "tool"}, "no message"]) == (said,)


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ("MCP error -32602: Input validation error", True),
        ("Command execution failed: Access to restricted path", True),
        ("ls: cannot access 'x': No such file or directory", True),
        ("Navigation timeout of 10000 ms exceeded", True),
        ("ValueError: no such booking", True),
        ('{"success": false}', True),
        ("12 passed, 0 failed", False),
        ("0 failed, 12 passed", False),
        ("No error was found", False),
        ("Common error messages of the shop", False),
        ('{"rows": [], "note": "no error"}', False),
        ("The report of May: what could not be sold", False),
    ],
)
def test_a_result_that_begins_with_an_error_is_a_failure(result, failed):
    *_, called = events_of([*CHAT[:2], {**CHAT[2], "content": result}])

    assert called.success is not failed


def test_a_hint_stands_at_the_end_of_what_is_sent_and_in_no_history():
    before = copy.deepcopy(CHAT)
    sent = with_guidance(CHAT, [hint("a")], role="developer")

    assert sent[:-1] == before == CHAT
    assert sent[-1] == {"role": "developer", "content": "Hint, for this turn only: about a"}
    assert with_guidance(CHAT, []) == before


def test_hooks_answer_with_context_once_each_session_for_itself():
    hooks = GuidanceHooks(lambda _tool, _text: ["post_letter"])
    failed = {"tool_name": "send", "tool_input": {"to": "ana"}, "error": "refused"}

    def happens(event, session="one", **more):
        given = {"hook_event_name": event, "session_id": session, **more}
        return asyncio.run(hooks(given, "id", {}))

    assert happens("UserPromptSubmit", prompt="write") == {}
    answers = [happens("PostToolUseFailure", **failed) for _ in range(5)]
    others = [happens("PostToolUse", "two", tool_name="t", tool_response=n) for n in range(5)]

    assert [bool(each) for each in answers] == [False, False, True, False, False]
    told = answers[2]["hookSpecificOutput"]
    assert told["hookEventName"] == "PostToolUseFailure"
    assert "post_letter" in told["additionalContext"]
    assert others == [{}] * 5
    assert (
        happens("Stop") == hooks.answer({"tool_input": 3, "hook_event_name": "PostToolUse"}) == {}
    )


def test_by_default_an_agent_hears_of_what_it_is_stuck_with():
    names = [each.provider.name for each in default_providers(lambda *_: [])]
    assert names == [
        *("alternate-tool", "doom-loop-breaker", "search-loop"),
        *("diagnostic-signal", "consultation"),
    ]
