"""Four alarms stand where an agent is stuck, by rules that can be read, and nowhere else."""

from __future__ import annotations

import pytest

from toolcrib.guidance import PatternType, analyse

LOOP, STREAK = PatternType.DOOM_LOOP, PatternType.ERROR_STREAK
SEARCH, STALL = PatternType.SEARCH_LOOP, PatternType.PROGRESS_STALL


def call(name, result="", at=None, *, success=None, **parameters):
    event = {"name": name, "parameters": parameters, "result": result, "success": success}
    return {"type": "tool", "at": at, **event}


def rows(seconds, shown=5):
    """An answer that differs in its duration alone, and says that it was cut."""
    names = "".join(f"\nRow {n}: name {'abcdefgh'[n]}, city {'stuvwxyz'[n]}" for n in range(shown))
    return f"Total rows: 720. Took {seconds} ms. Sample results (first {shown} rows):{names}"


SQL = "SELECT name, city FROM people.visits WHERE year = 2024"
THINK = call("think", "thought", thought="what now")
PROMPT = {"type": "prompt", "text": "look again, please"}
FAIL = call("book", "Error: no seat is left", seat="4a")
ABC = ("alder", "birch", "cedar")


def run(code, error=""):
    """A program's run; frames of its traceback quote its code."""
    frames = (
        f'Traceback (most recent call last):\n  File "<input>", line 1, in <module>\n    {code}\n'
    )
    return call("run", f"{frames}{error}" if error else f"rows of {code}", code=code)


def cases(alarms, others):
    """Trajectories by name that raise an alarm, and others that do not."""
    return [
        pytest.param(events, table is alarms, id=name)
        for table in (alarms, others)
        for name, events in table.items()
    ]


LOOPS = {
    "the same answer": [call("get", "empty page", page="x")] * 3,
    "a failure": [FAIL] * 3,
    "with thoughts between": [FAIL, THINK, FAIL, THINK, FAIL],
    "two calls in turn": [call("click", "clicked", ref="e1"), call("look", "a banner")] * 3,
    "another duration": [call("query", rows(took), sql=SQL) for took in (512, 498, 530)],
    "nearly the same words": [
        call("query", rows(took), sql=f"{SQL}{more}")
        for took, more in ((512, ""), (498, " ORDER BY name"), (530, ""))
    ],
    "over several requests, if it fails": [FAIL, PROMPT, FAIL, PROMPT, FAIL],
}
NO_LOOPS = {
    "twice": [call("get", "empty page", page="x")] * 2,
    "another answer each time": [call("get", f"page {word}") for word in "abc"],
    "another file, the same answer": [call("wc", "3", path=f"/{word}.txt") for word in "abc"],
    "another date, the same answer": [
        call("seats", "none", day=f"2024-05-0{n}") for n in (1, 2, 3)
    ],
    "an acknowledgement": [call("write", "saved", text=f"part {word} of it") for word in "abc"],
    "work under way": [call("status", "job 7 is running", job=7)] * 6,
    "progress": [call("status", f"{n} of 9 done", job=7) for n in (1, 2, 3)],
    "asked for again": [call("get", "nothing"), PROMPT] * 4,
    "every minute": [call("get", "no change", at=70.0 * n) for n in range(5)],
    "too far apart": [call("get", "x"), *[call(f"t{n}", f"{n} a") for n in range(12)]] * 3,
}


@pytest.mark.parametrize(("events", "raised"), cases(LOOPS, NO_LOOPS))
def test_a_call_that_came_three_times_with_the_same_answer_is_a_loop(events, raised):
    assert (LOOP in analyse(events).patterns()) is raised


def test_a_loop_of_failures_is_said_to_fail():
    assert "failed" in analyse([FAIL] * 3).patterns()[LOOP].evidence
    assert "answer" in analyse(LOOPS["the same answer"]).patterns()[LOOP].evidence


def test_a_loop_tells_its_cycle_its_number_and_how_much_of_the_answer_came():
    two = analyse(LOOPS["two calls in turn"]).patterns()[LOOP]
    cut = analyse(LOOPS["another duration"]).patterns()[LOOP]

    assert (two.cycle_actions, two.repetitions, two.part) == (("click", "look"), 3, "")
    assert (cut.cycle_actions, cut.occurrences, cut.part) == (("query",), 3, "5 of 720")
    assert (two.confidence, two.first_seen) == (0.5, 0.0)
    assert "3 times" in two.evidence


ERRORS = {
    "in a row": [call(name, f"Error: {name}") for name in ("here", "there", "nowhere")],
    "in a row, with thoughts and searches between": [
        *(call("a", "Error: one"), THINK, call("b", "Error: two")),
        *({"type": "search", "text": "a map"}, call("c", "Error: three")),
    ],
    "of one tool": [
        *[each for n in "abc" for each in (call("save", f"Error: {n}"), call("read", n))],
        call("save", "Error: d"),
    ],
    "with one error": [
        each
        for region in ("na", "north", "eu")
        for each in (call(f"rent_{region}", "Error: INTERNAL_ERROR 7"), call("list", region))
    ][:-1],
    "of programs, with one error and other programs between": [
        each
        for wood in ABC
        for each in (
            run(f"order({wood}, count=7, note='to ana')", "DbError: no table"),
            run(f"print({wood}, sizes)"),
        )
    ][:-1],
    "of servers that flag no failure": [call("slide", '{"error": "Nothing is loaded"}')] * 3,
}
NO_ERRORS = {
    "two": [call("save", "Error: a")] * 2,
    "that is over": [*[call("save", "Error: a")] * 3, call("save", "done")],
    "with successes of the tool between": [
        each for n in "abcd" for each in (call("save", f"Error: {n}"), call("save", "done"))
    ][:-1],
    "of programs that work when they are run again": [
        each
        for wood in ABC
        for each in (
            run(f"order({wood}, count=7, note='to ana')", "DbError: busy"),
            run(f"order({wood}, count=7, note='to ana')"),
        )
    ][:-1],
    "of programs for other things": [
        each for wood in ABC for each in (run(f"find {wood}", "Exit code 1"), run(f"show {wood}"))
    ][:-1],
    "of tests that fail less and less": [
        each
        for n in (4, 3, 2)
        for each in (run("pytest tests", f"{n} failed, {9 - n} passed"), run(f"show row {n}"))
    ][:-1],
    "far apart": [
        each
        for n in range(3)
        for each in (call(f"t{n}", f"Error: {n}"), *[call(f"r{m}", f"{n} {m}") for m in range(9)])
    ],
    "in a log that is read": [call("logs", "2024-05-03 ERROR disk full " + "x " * 300)] * 3,
}


@pytest.mark.parametrize(("events", "raised"), cases(ERRORS, NO_ERRORS))
def test_three_failures_in_a_row_of_one_tool_or_with_one_error_are_a_streak(events, raised):
    assert (STREAK in analyse(events).patterns()) is raised


def test_a_streak_tells_its_tools_and_if_the_error_is_one():
    streak = analyse(ERRORS["in a row"]).patterns()[STREAK]
    alike = analyse(ERRORS["with one error"]).patterns()[STREAK]

    assert (streak.occurrences, streak.is_one_error) == (3, False)
    assert set(streak.tools) == {"here", "there", "nowhere"}
    assert (alike.occurrences, alike.is_one_error) == (3, True)


def test_the_error_of_a_traceback_is_what_follows_its_frames():
    order = "order(wood, count=7, note='for ana', when=today)"
    alike = [run(f"{order}  # {wood}", "DbError: no table") for wood in ABC]
    other = [run(order, f"DbError: {error}") for error in ("no table", "it expired", "not yours")]

    assert analyse(alike).patterns()[STREAK].is_one_error
    assert not analyse(other).patterns()[STREAK].is_one_error


def find(query, result="No matches found", **more):
    return call("search_files", result, pattern=query, path="/src", **more)


WISHES = ("run a shell command", "shell command tool", "execute shell commands", "shell commands")
ROUTES = ("BRN", "OSL", "LIS", "DUB", "VIE", "RIX", "ATH", "SOF", "BUD", "PRG", "ZAG")
SEARCHES = {
    "in other words, without a match": [find("template"), find("prompt"), find("qwen")],
    "between reads": [
        each for word in "abc" for each in (find(word), call("read", f"file {word}"))
    ][:-1],
    "with known answers": [
        call("web_search", "a page on red cars", query=f"red cars {word}")
        for word in ("list", "table", "all", "full")
    ],
    "for a tool": [
        {"type": "search", "text": text, "found": [f"tool_{n}"]} for n, text in enumerate(WISHES)
    ],
}
NO_SEARCHES = {
    "with matches": [find(word, f"/src/{word}.py: {word}") for word in "abc"],
    "at other places": [
        call("search_files", "No matches found", pattern="x", path=f"/{place}") for place in "abc"
    ],
    "of eleven routes": [
        call("search_flight", "[]", origin="GVA", destination=place) for place in ROUTES
    ],
    "that fail": [find(word, "Error: no index") for word in "ab"],
    "for other tools": [
        {"type": "search", "text": text} for text in ("send a mail", "book a room", "rent a boat")
    ],
    "for a tool that was used": [
        each
        for text in WISHES
        for each in ({"type": "search", "text": text}, call("bash", f"out of {text}"))
    ],
}


@pytest.mark.parametrize(("events", "raised"), cases(SEARCHES, NO_SEARCHES))
def test_three_searches_that_bring_nothing_are_a_search_loop(events, raised):
    assert (SEARCH in analyse(events).patterns()) is raised


def test_a_search_loop_tells_its_tool_or_the_nearest_tools():
    of_a_tool = analyse(SEARCHES["between reads"]).patterns()[SEARCH]
    for_a_tool = analyse(
        [{"type": "search", "text": text, "found": ["bash", "ssh"]} for text in WISHES]
    ).patterns()[SEARCH]

    assert (of_a_tool.tool_name, of_a_tool.found, of_a_tool.occurrences) == ("search_files", (), 3)
    assert (for_a_tool.tool_name, for_a_tool.found) == ("", ("bash", "ssh"))


def test_five_calls_in_a_row_that_do_nothing_are_a_stall():
    idle = [
        call("list", "a.txt b.txt"),
        *[call("list", "b.txt a.txt", page=n) for n in range(4)],
        call("open", "Error: gone"),
    ]
    stall = analyse(idle).patterns()[STALL]

    assert stall.actions_during_stall == 5
    assert STALL not in analyse([*idle, call("list", "c.txt d.txt e.txt")]).patterns()
    assert STALL not in analyse([call("save", "done")] * 9).patterns()
