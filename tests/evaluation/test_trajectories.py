"""Alarms are compared with what a careful human would say, and every mistake is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.errors import SourceError
from toolcrib.evaluation.trajectories import (
    LabelledTrajectory,
    evaluate_guidance,
    load_trajectories,
)

DATA = Path(__file__).parents[2] / "data" / "trajectories"
FAIL = {"type": "tool", "at": 3600, "name": "a", "success": False, "error": "no"}
FINE = {"type": "tool", "at": 0, "name": "b", "result": "yes"}


def made(id_, *events, **alarms):
    labels = [{"pattern": name, "from": first, "by": by} for name, (first, by) in alarms.items()]
    given = {"id": id_, "kind": "made", "events": events, "alarms": labels}
    return LabelledTrajectory.model_validate(given)


def test_what_is_found_late_is_missed_and_what_is_not_labelled_is_false():
    found = evaluate_guidance(
        [
            made("right", FINE, *[FAIL] * 4, error_streak=(1, 3), doom_loop=(1, 3)),
            made("late", FINE, *[FAIL] * 6, error_streak=(1, 2), doom_loop=(0, 0)),
            made("healthy", FINE, *[FAIL] * 4),
        ],
        "test",
    )

    streak, loop = found.patterns["error_streak"], found.patterns["doom_loop"]
    assert (streak.labelled, streak.found, streak.fired, streak.right) == (2, 2, 3, 2)
    assert (loop.recall, loop.precision) == (0.5, pytest.approx(2 / 3))
    assert (found.healthy, found.healthy_alarms, found.healthy_hours) == (1, 2, 1.0)
    assert [(each.id, each.pattern, each.mistake) for each in found.mistakes] == [
        ("late", "doom_loop", "missed"),
        ("healthy", "doom_loop", "false"),
        ("healthy", "error_streak", "false"),
    ]


def test_what_cannot_be_read_is_named_with_its_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "x", "events": []}\n{"id": "y"}\n')

    with pytest.raises(SourceError, match=r"line 2.*events"):
        list(load_trajectories([tmp_path], "all"))


@pytest.mark.parametrize(
    ("split", "least"),
    [
        ("dev", {"doom_loop": 0.65, "error_streak": 0.95, "stall": 0.5, "search_loop": 0.85}),
        ("test", {"doom_loop": 0.75, "error_streak": 0.85, "stall": 0.3, "search_loop": 0.85}),
    ],
)
def test_the_samples_hold_and_few_who_get_on_are_alarmed(split, least):
    found = evaluate_guidance(list(load_trajectories([DATA], split)), split)
    precise = {name: scores.precision for name, scores in found.patterns.items()}

    assert found.trajectories >= 200
    assert found.healthy_alarms <= found.healthy / 30
    assert {name for name in least if found.patterns[name].recall < least[name]} == set()
    assert min(precise[name] for name in precise if name != "stall") >= 0.85
