"""Alarms are compared with what a careful human would say, and every mistake is listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from toolcrib.errors import SourceError
from toolcrib.evaluation.trajectories import (
    LabelledTrajectory,
    evaluate_guidance,
    load_trajectories,
)

DATA = Path(__file__).parents[2] / "data" / "trajectories"
FAIL = {"type": "tool", "at": 3600, "name": "a", "success": False, "error": "no"}
STREAK = [{**FAIL, "name": name} for name in "cdef"]
FINE = {"type": "tool", "at": 0, "name": "b", "result": "yes"}


def made(id_, *events, readers=(), **alarms):
    told = [
        [{"pattern": name, "from": first, "by": by} for name, (first, by) in each.items()]
        for each in (alarms, *readers)
    ]
    given = {"id": id_, "kind": "made", "events": events, "alarms": told[0], "readers": told[1:]}
    return LabelledTrajectory.model_validate(given)


def test_what_is_found_late_is_missed_and_what_is_not_labelled_is_false():
    found = evaluate_guidance(
        [
            made("right", FINE, *STREAK, error_streak=(1, 3)),
            made("late", FINE, *[FAIL] * 4, doom_loop=(0, 0)),
            made("healthy", FINE, *STREAK),
        ],
        "test",
    )

    streak, loop = found.patterns["error_streak"], found.patterns["doom_loop"]
    assert (streak.labelled, streak.found, streak.fired, streak.right) == (1, 1, 2, 1)
    assert (loop.recall, loop.precision) == (0, 1)
    stall = found.patterns["stall"]
    assert (stall.recall, stall.precision) == (None, None)
    assert (found.healthy, found.healthy_alarms, found.healthy_hours) == (1, 1, 1.0)
    assert [(each.id, each.pattern, each.mistake) for each in found.mistakes] == [
        ("late", "doom_loop", "missed"),
        ("healthy", "error_streak", "false"),
    ]


def test_an_alarm_is_due_where_most_readers_want_it_and_right_where_one_does():
    early, late = {"error_streak": (1, 3)}, {"error_streak": (3, 6)}
    found = evaluate_guidance(
        [
            made("most", FINE, *STREAK, readers=[early, late]),
            made("one", FINE, *STREAK, readers=[{}, early]),
            made("quiet", *({**FINE, "name": name} for name in "bcde"), readers=[early, late]),
        ],
        "test",
    )

    streak = found.patterns["error_streak"]
    assert (streak.labelled, streak.found, streak.fired, streak.right) == (2, 1, 2, 2)
    assert (
        found.healthy,
        [(each.id, each.at) for each in found.mistakes if each.mistake == "missed"],
    ) == (0, [("quiet", 6)])


@pytest.mark.parametrize(
    ("events", "alarms", "reason"),
    [
        ([FINE, {"role": "assistant", "content": "x", "tool_calls": []}], {}, r"events.1: no call"),
        ([FINE], {"stall": (1, 2)}, r"'from' \(1\) is after the last event"),
    ],
    ids=["message", "after-the-end"],
)
def test_what_would_count_as_missed_by_a_mistake_in_the_file_is_refused(events, alarms, reason):
    with pytest.raises(ValidationError, match=reason):
        made("x", *events, **alarms)


def test_what_cannot_be_read_is_named_with_its_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "x", "events": []}\n{"id": "y"}\n')

    with pytest.raises(SourceError, match=r"line 2.*events"):
        list(load_trajectories([tmp_path], "all"))


@pytest.mark.parametrize("name", ["val", "validation", "dev"])
def test_the_development_split_has_several_names(tmp_path, name):
    (tmp_path / "a.jsonl").write_text(f'{{"id": "x", "events": [], "split": "{name}"}}')

    (found,) = load_trajectories([tmp_path], "dev")
    assert found.split == "dev"


def test_a_label_that_is_due_before_it_begins_is_refused(tmp_path):
    row = '{"id": "x", "events": [], "alarms": [{"pattern": "stall", "from": 3, "by": 1}]}'
    (tmp_path / "a.jsonl").write_text(row)

    with pytest.raises(SourceError, match=r"line 1.*'by'"):
        list(load_trajectories([tmp_path], "all"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "least"),
    [
        ("dev", {"doom_loop": 0.7, "error_streak": 0.95, "stall": 0.2, "search_loop": 0.5}),
        ("test", {"doom_loop": 0.85, "error_streak": 0.95, "stall": 0.6, "search_loop": 0.6}),
    ],
)
def test_the_samples_hold(split, least):
    found = evaluate_guidance(list(load_trajectories([DATA], split)), split)
    assert found.trajectories >= 200
    assert found.healthy_alarms <= found.healthy / 4
    assert {name for name in least if found.patterns[name].recall < least[name]} == set()
