"""A trajectory is taken in event by event; what it shows is read at any time, and costs little."""

from __future__ import annotations

import copy
import tracemalloc
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib import Turn
from toolcrib.guidance import (
    DoomLoopDetector,
    PatternType,
    PromptExecuted,
    TrajectoryBuilder,
    TrajectoryEvent,
    TrajectoryPattern,
    actions,
    analyse,
    signals,
)


def call(name="read_file", result="text", at=None, *, error=None, **parameters):
    event = {"name": name, "parameters": parameters, "result": result, "error": error}
    return TrajectoryEvent(success=error is None, at=at, **event)


def cycled(times, *calls):
    return [call(*each) for _ in range(times) for each in calls]


def test_counts_are_of_everything_and_calls_of_the_window():
    builder = TrajectoryBuilder(window=3)
    builder.prompt_executed("mend it", at=0.0)
    for number in range(5):
        builder.tool_invoked(name="a", parameters={"n": number}, result=number, at=float(number))
    for path in ("/x/one.py", "/y/z/one.py"):
        builder.tool_invoked(name="b", success=False, error=f"no {path}, line 712", at=9.0)
    found = builder.search_asked("a tool", at=10.5).build()

    assert (found.turn_count, found.tool_call_count, found.error_count) == (1, 7, 2)
    assert (found.consecutive_errors, found.unique_tools_used, found.search_count) == (2, 2, 1)
    assert found.duration == 10.5
    assert [each.name for each in found.recent_tool_calls(9)] == ["a", "b", "b"]
    assert [each.parameters for each in found.recent_tool_calls(3)[:1]] == [{"n": 4}]
    assert len(found.recent_errors(1)) == 1
    assert found.recent_tool_calls(0) == found.recent_errors(-1) == ()
    assert found.tool_frequency() == {"a": 5, "b": 2}
    assert found.error_frequency() == {"no one.py, line #": 2}
    assert found.patterns() == ()
    with pytest.raises(AttributeError):
        found.turn_count = 3


LOOPS = {
    "two calls": cycled(3, ("click", "clicked"), ("screen", "overlay visible")),
    "in other words": [
        call("query", "no rows", q=f"select a from t where c = 'Norway' {more}")
        for more in ("", "-- again", "-- once more", "-- please")
    ],
    "with another time": [
        call("http_get", '{"rate": null}', url=f"http://x/?ts=171498000{n}") for n in range(4)
    ],
    "with another request id": [
        call("charge_card", "action required", card=1, request_id=f"a{n}7") for n in range(4)
    ],
    "a failing one": [call("restart", "", error="Forbidden (trace 5f2c)") for _ in range(3)],
    "an option more": [
        call("sh", "", error="denied, line 7", cmd=f"rm {more} /srv/old")
        for more in ("", "-r", "-rf")
    ],
    "a question in other words": [
        call("kb_search", "no article", query=text)
        for text in (
            "VPN error 809 on Windows",
            "how to solve VPN error 809 in windows",
            "windows vpn: error 809 solution",
            "VPN windows error 809",
        )
    ],
    "a failure after other looks": [
        each
        for n in range(3)
        for each in (
            call("read_file", f"line {n}", line=n),
            call("edit", "", error=f"no such text at line {n}", old="  if x:"),
        )
    ],
    "a check that stays red, whatever the number": [
        each
        for n in range(4)
        for each in (
            call("arm_move", "at target", x=300 + n),
            call("gripper_close", error="no contact"),
        )
    ],
    "of what was just made": [
        each
        for number in ("m-71", "m-84", "m-90")
        for each in (
            call("mail_send", f"queued as {number}", to="ana", text="the offer"),
            call("mail_status", "bounced: mailbox full", id=number),
        )
    ],
    "to no effect, by other ways too": [
        call("click", "no change", on=on) for on in ("#ok", "#ok", "#ok2", "text=ok", "#ok", "#ok")
    ],
    "to and fro": [
        each
        for n in range(3)
        for each in (
            call("edit", "ok", file="a.py", old="xy"[n % 2], new="yx"[n % 2]),
            call("deploy", "nothing to deploy", target="staging"),
        )
    ],
}
NO_LOOPS = {
    "too few": cycled(2, ("click", "clicked"), ("screen", "overlay visible")),
    "paging": [call("list", f"rows {n}", page=n) for n in range(9)],
    "a batch": [
        each
        for name in ("ann", "bob", "cyd", "dan")
        for each in (call("customer_get", "active", id=name), call("mail_send", "sent", to=name))
    ],
    "under way": [call("job_get", "state: running", id=1) for _ in range(9)],
    "watching": [call("queue", "118", at=60.0 * n) for n in range(9)],
    "fewer failures": [
        each
        for n in range(5)
        for each in (
            call("edit", "ok", old=f"a{n}", new=f"b{n}"),
            call("pytest", "", error=f"{9 - n} failed"),
        )
    ],
    "a queue": [
        each
        for number in ("q-17", "q-18", "q-19", "q-20")
        for each in (
            call("queue_take", f"order {number}"),
            call("order_process", "1 order packed", id=number),
        )
    ],
    "a bisection": [
        each
        for n, error in enumerate(("crash", "crash", None, "crash", "crash", None))
        for each in (
            call("plugins_set", "ok", on=f"1-{n}"),
            call("start", "started", error=error),
        )
    ],
    "data entry": [
        each
        for name in ("ann", "bob", "cyd", "dan", "eve")
        for each in (
            call("open_form", "New contact"),
            call("fill", "ok", field="name", value=name),
            call("submit", "saved"),
        )
    ],
    "edits that pass": [
        each
        for n in range(6)
        for each in (
            call("edit", "ok", file="a.py", new=f"b{n}"),
            call("run_tests", "142 passed", path="."),
        )
    ],
    "another thing in the same words": [
        call("weather_get", "sunny", city=f"the town of {name}")
        for name in ("A", "B", "C", "D", "E")
    ],
    "a job for each who asks": [
        each
        for n in range(5)
        for each in (
            TrajectoryEvent(type="prompt", text="again please"),
            call("sync", "4 tills updated"),
        )
    ],
    "backing off": [
        each
        for n in range(4)
        for each in (call("upload", "", error="503 slow down"), call("wait", "done", seconds=n))
    ],
    "keys": [call("press_key", "ok", key="Tab") for _ in range(9)],
}


@pytest.mark.parametrize("events", LOOPS.values(), ids=LOOPS)
def test_the_same_calls_with_the_same_outcome_are_a_loop(events):
    found = analyse(events).pattern(PatternType.DOOM_LOOP)

    assert found is not None
    assert found.occurrences >= 3
    assert 0.5 <= found.confidence <= 1
    assert not analyse(events[: len(events) // 2]).has_pattern("doom_loop")


@pytest.mark.parametrize("events", NO_LOOPS.values(), ids=NO_LOOPS)
def test_what_gets_on_or_waits_is_no_loop(events):
    assert not analyse(events).has_pattern(PatternType.DOOM_LOOP)


FAX = ("send a fax", "fax sender", "transmit a fax", "fax machine", "fax a letter", "telefax")


def test_the_other_patterns_have_fields_of_their_own():
    failing = [call("a", error="disk full"), call("b", error="disk full")] * 2
    wandering = [
        call("get_page", f"page {n}", page=f"p{n}") for n in (0, 1, 2, 3, 1, 4, 0, 5, 2, 3)
    ]
    searches = [TrajectoryEvent(type="search", text=text, found=("mail/fax",)) for text in FAX]
    unused = [TrajectoryEvent(type="search", text="a fax", found=("fax",))]
    unused += [call("x", str(n), n=n) for n in range(4)]
    lost = [
        each
        for n in range(4)
        for each in (call("price", "9"), *(call(f"t{n}", f"{n}{m}", m=m) for m in range(5)))
    ]

    error = analyse(failing).pattern("repeated_error")
    assert (error.message, error.tools, error.occurrences) == ("disk full", ("a", "b"), 4)
    assert analyse(wandering).pattern("progress_stall").known >= 3
    loop = analyse(searches).pattern("search_loop")
    assert (loop.queries[0], loop.found) == ("send a fax", ("mail/fax",))
    assert analyse(unused).pattern("tool_avoidance").suggested == ("fax",)
    assert analyse(lost).pattern("context_degradation").forgets == 3


def test_searches_for_other_things_or_with_use_between_are_no_loop():
    asked = [TrajectoryEvent(type="search", text=f"{verb} invoice") for verb in ("a", "b", "c")]
    used = [each for search in asked for each in (search, call("invoice_create", "ok", n=1))]
    others = ("find a hotel", "change currency", "call a taxi")

    assert not analyse(used).has_pattern("search_loop")
    assert not analyse([TrajectoryEvent(type="search", text=t) for t in others]).has_pattern(
        "search_loop"
    )


LOOKED = [call("read_file", f"text {n}", path=f"file {n}") for n in (0, 1, 2, 3, 4, 1, 5, 2)]


@pytest.mark.parametrize(
    ("between", "stalls"),
    [
        ([], True),
        ([TrajectoryEvent(type="prompt", text="done?")], True),
        ([call("edit_file", "ok", path="file 3")], False),
        ([TrajectoryEvent(type="prompt", text="Now list the invoices of our suppliers")], False),
    ],
    ids=["looking around", "impatience", "an act", "a new request"],
)
def test_what_was_known_is_no_progress_until_something_changes(between, stalls):
    found = analyse([*LOOKED, *between, call("read_file", "text 3", path="file 3")])

    assert found.has_pattern("progress_stall") == stalls


@pytest.mark.parametrize(
    ("answers", "loops"),
    [
        (["No articles matched."] * 5, True),
        (
            ['{"took": 9, "items": []}', '{"items": [], "total": 0}', "[]", "0 hits", "(0 rows)"],
            True,
        ),
        (["a.html b.html", "b.html a.html"] * 3, True),
        (["a.html b.html", "c.html", "No match", "d.html", "a.html b.html"], False),
        (["No articles matched."] * 4, False),
    ],
    ids=["nothing", "nothing in many words", "the same in another order", "other", "four"],
)
def test_searches_by_any_tool_with_the_same_answer_are_a_loop(answers, loops):
    events = [
        call("kb_search", answer, query=text) for answer, text in zip(answers, FAX, strict=False)
    ]
    made = [
        each for event in events for each in (event, call("page_create", "ok", **event.parameters))
    ]

    assert analyse(events).has_pattern("search_loop") == loops
    assert not analyse(made).has_pattern("search_loop")


@pytest.mark.parametrize(
    ("check", "act", "stalls"),
    [
        (call("build", "dist/main.js 8.41 MB"), "set_config", True),
        (call("run_tests", "1 failed: total"), "edit_file", True),
        (call("run_tests", "142 passed"), "edit_file", False),
        (call("scan", "no dock"), "turn", False),
    ],
    ids=["a figure", "red", "green", "one step further each time"],
)
def test_a_check_that_no_act_moves_is_a_stall(check, act, stalls):
    acts = ({} if act == "turn" else {"what": f"option {'abcd'[n]}"} for n in range(4))
    events = [each for given in acts for each in (check, call(act, "saved", **given))]

    assert analyse([*events, check]).has_pattern("progress_stall") == stalls


READ = call("read_file", "color: red", path="a.css")
EDITS = [
    each
    for n, how in enumerate(("blue", "green", "black"))
    for each in (
        call("edit_file", "saved", path="a.css", color=how),
        call("page_open", f"a page {n} of colors", width=n),
        call("edit_undo", "done", path="a.css"),
    )
]


@pytest.mark.parametrize(
    ("events", "stalls"),
    [
        ([READ, *EDITS[:3], READ, *EDITS[3:6], READ, *EDITS[6:], READ] * 2, True),
        ([READ, *EDITS[:3], *EDITS[3:6], *EDITS[6:], *EDITS[:1]], False),
        ([READ, *(each for edit in EDITS[::3] * 2 for each in (edit, call("run", "3 ok")))], False),
    ],
    ids=["as before each time", "not looked at", "checked each time"],
)
def test_an_act_after_which_things_are_as_before_was_none(events, stalls):
    assert analyse(events).has_pattern("progress_stall") == stalls


def test_a_detector_of_ones_own_is_asked_for_every_event():
    class Shouting:
        def __init__(self):
            self.seen = 0

        def observe(self, event, calls, /):
            self.seen += 1
            said = TrajectoryPattern("shouting", 0.5, "loud", event.at, self.seen)
            return None if self.seen < 2 else said

    class Broken:
        def observe(self, event, calls, /):
            raise RuntimeError("no detector")

    builder = TrajectoryBuilder(detectors=[Shouting, Broken, DoomLoopDetector])
    found = builder.add(call()).add(call()).build()
    assert [each.type for each in found.patterns()] == ["shouting"]


def test_an_event_is_what_happened_whatever_alarms_stand_after_it():
    heard = PromptExecuted("go on", 0.0, 0, is_new=False)
    alarmed = replace(heard, alarms={"stall": 0.9})

    assert alarmed == heard
    assert hash(alarmed) == hash(heard)
    assert copy.deepcopy(heard) == heard
    assert asdict(heard)["alarms"] == {}


def test_signals_that_fail_raise_no_alarm_and_stop_nothing(monkeypatch):
    builder = TrajectoryBuilder()
    for _ in range(3):
        builder.add(call(error="no"))
    monkeypatch.setattr(signals, "unmoved", lambda _calls: 1 / 0)
    found = builder.add(call(error="no")).build()

    assert found.alarms == {}
    assert found.has_pattern("doom_loop")


@pytest.mark.slow
def test_memory_stays_as_it_is():
    builder = TrajectoryBuilder()

    tracemalloc.start()
    try:
        for number in range(600):
            name, given = f"get_{number % 7}", {"n": number}
            builder.search_asked(f"thing {number}", found=(name,), at=number)
            builder.tool_invoked(name=name, parameters=given, result="x" * 9_000, at=number)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 2_000_000
    assert all(len(each.result) <= 1_000 for each in builder.build().calls)


EVENTS = st.builds(
    call,
    st.sampled_from(["a", "b_get"]),
    st.sampled_from(["", "x", "running"]),
    error=st.sampled_from([None, None, "boom 1"]),
    q=st.sampled_from([1, "one", None, ["two"]]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_more_errors_are_never_less(events):
    found, more = analyse(events), analyse([*events, call("a", error="boom")])

    assert more.error_count == found.error_count + 1
    assert more.consecutive_errors == found.consecutive_errors + 1
    assert more.calls_without_progress > found.calls_without_progress
    assert sum(more.tool_frequency().values()) == more.tool_call_count


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"tool": "mail/read", "ok": False}, ("tool", "mail/read", False)),
        ({"name": "x", "args": {"a": 1}, "error": "no"}, ("tool", "x", False)),
        ({"role": "user", "content": "hi"}, ("prompt", "", True)),
        ({"type": "search", "text": "fax"}, ("search", "", True)),
        ({"type": "tool", "name": 5}, ("other", "", True)),
        ({"anything": [1]}, ("other", "", True)),
    ],
    ids=str,
)
def test_a_turn_takes_events_of_any_shape_and_loses_nothing(given, read):
    turn = Turn(text="x", trajectory=(given,))
    (event,) = turn.trajectory

    assert (event.type, event.name, event.success) == read
    assert Turn.model_validate(turn.model_dump(exclude_defaults=True)) == turn
    assert analyse(turn.trajectory).patterns() == ()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (
            {"type": "tool", "tool": "x", "arguments": {"a": 1}},
            {"name": "x", "parameters": {"a": 1}},
        ),
        ({"type": "search", "query": "fax"}, {"text": "fax"}),
        ({"type": "tool", "name": "x", "error": {"code": 1}}, {"name": "x", "success": False}),
        ({"type": "tool", "name": "x", "at": "1970-01-01T00:01:00Z"}, {"name": "x", "at": 60.0}),
    ],
    ids=str,
)
def test_events_of_our_types_are_read_in_the_words_of_others(given, read):
    event = TrajectoryEvent.model_validate(given)

    assert {key: getattr(event, key) for key in read} == read


class Unsayable:
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "event",
    [
        {"parameters": {1: 2, "a": 3, "b": {1: 2, "a": Unsayable()}}},
        {"parameters": ["no mapping"]},
        {"error": ValueError("boom"), "success": False},
        {"error": Unsayable(), "result": Unsayable()},
        {"name": None, "at": float("nan")},
    ],
    ids=["parameters", "no-mapping", "error", "unsayable", "name"],
)
def test_no_call_can_break_the_caller(event):
    found = TrajectoryBuilder().tool_invoked(**{"name": "a", **event}).build()

    assert found.tool_call_count == 1
    assert found.error_count == ("error" in event)


def test_what_was_taken_in_is_a_copy_of_its_first_part():
    given = {"to": "ana", "body": "x" * 90_000, "all": [1]}
    builder = TrajectoryBuilder().tool_invoked(name="mail", parameters=given)
    (kept,) = builder.build().calls
    given["all"].append(given.pop("to"))

    assert (kept.parameters["to"], kept.parameters["all"]) == ("ana", [1])
    assert len(kept.parameters["body"]) < 2_000
    with pytest.raises(TypeError):
        kept.parameters["to"] = "bob"


def test_time_begins_with_the_first_that_is_known_and_never_goes_back():
    events = [{"name": "a"}, *({"name": "b", "at": at} for at in (1.7e9, 1.7e9 + 5, 1.7e9 + 2))]
    found = analyse(events)

    assert found.duration == 5
    assert [call.at for call in found.calls[2:]] == [1.7e9 + 5] * 2
    assert not any(call.paused for call in found.calls)


def test_an_error_is_counted_for_tools_that_do_not_work_until_they_do():
    failed = [call(name, error="disk full") for name in "abb"]
    search = TrajectoryEvent(type="search", text="a disk")
    still = analyse([*failed, search, call("c")]).pattern("repeated_error")
    works = analyse([*failed, call("a"), call("b", error="disk full")]).pattern("repeated_error")

    assert (still.occurrences, still.tools) == (3, ("a", "b"))
    assert (works.occurrences, works.tools) == (3, ("b",))
    assert not analyse([*failed, call("b")]).has_pattern("repeated_error")


def test_a_pattern_stands_until_something_changes():
    builder, standing = TrajectoryBuilder(), []
    for name in "aab" * 6:
        found = builder.tool_invoked(name=name, result="x").build()
        standing.append(found.has_pattern("doom_loop"))

    assert standing == sorted(standing)
    assert standing[-1]


def test_a_call_of_many_long_parameters_is_read_once_and_compared_with_few(monkeypatch):
    read = []
    monkeypatch.setattr(actions, "topics", lambda text: read.append(text) or frozenset({"same"}))
    calls = 20
    for width, in_other_words in ((actions.MAX_REWORDED, True), (actions.MAX_REWORDED + 1, False)):
        read.clear()
        said = [
            " ".join(f"{word} {chr(97 + n)}" for word in ("red", "green")) for n in range(calls)
        ]
        events = [call(**{f"p{place}": text for place in range(width)}) for text in said]
        kinds = {each.kind for each in analyse(events).calls}
        assert len(kinds) == (1 if in_other_words else calls)
        assert len(read) <= calls * width


def test_beyond_so_many_characters_parameters_are_compared_as_a_whole():
    def wide(last: str) -> TrajectoryEvent:
        return call(**{f"p{place:02}": "word " * 190 for place in range(30)}, z=last)

    again, other = wide("the last one"), wide("the last two")
    assert [each.kind for each in analyse([again, other, again]).calls] == [0, 1, 0]
