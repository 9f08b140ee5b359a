"""Learned examples re-order what was found; they bring nothing, and judge nobody out of reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.retrieval.learned import (
    COLLECTIONS,
    MAX_LIFTED_TOOLS,
    NEAREST_EXAMPLES,
    LearnedChoices,
    LearnedTools,
    keep_nearest,
)
from toolcrib.store.base import point_id

EAST, NORTH = np.eye(2, dtype=np.float32)


def learned(**tools):
    """Tools by point, each with its strength and its requests; each of another decision."""
    return LearnedTools.of(
        {
            int(name[1:]): ((strength,) * 2, {f"{name}-{n}": row for n, row in enumerate(rows)})
            for name, (strength, *rows) in tools.items()
        }
    )


def test_a_tool_is_lifted_by_how_near_its_examples_are_and_how_far_they_are_believed():
    known = learned(p1=(1.0, EAST), p2=(1.0, NORTH), p3=(0.5, EAST))
    lifts = known.lifts({1: 0.3, 2: 0.3, 3: 0.3, 4: 0.3}, EAST)
    assert lifts.keys() == {1, 2, 3}
    assert lifts[1] == pytest.approx(2 * lifts[3])
    assert lifts[1] > 0.2 > lifts[2]


def test_copies_and_similar_requests_have_a_strength_each():
    beside = np.array([0.8, 0.6], dtype=np.float32)

    def lift(strengths, query):
        return LearnedTools.of({1: (strengths, {"d": EAST})}).lifts({1: 0.3}, query).get(1, 0.0)

    assert lift((0.0, 1.0), EAST) == lift((1.0, 1.0), EAST) > 0.2
    assert lift((1.0, 0.0), beside) == lift((1.0, 1.0), beside) > 0.2
    assert lift((1.0, 0.0), EAST) == lift((0.0, 1.0), beside) == 0


def test_tools_that_answered_one_request_together_take_nothing_from_each_other():
    together = LearnedTools.of({1: ((1.0, 1.0), {"d": EAST}), 2: ((1.0, 1.0), {"d": EAST})})
    alone = learned(p1=(1.0, EAST))
    apart = learned(p1=(1.0, EAST), p2=(1.0, EAST))
    scores = {1: 0.3, 2: 0.3}
    assert together.lifts(scores, EAST)[1] == alone.lifts(scores, EAST)[1]
    assert together.lifts(scores, EAST)[1] > apart.lifts(scores, EAST)[1]


def test_what_is_no_candidate_changes_nothing():
    known = learned(p1=(1.0, EAST), p2=(1.0, EAST))
    alone = learned(p1=(1.0, EAST))
    assert known.lifts({1: 0.3}, EAST) == alone.lifts({1: 0.3}, EAST)
    assert known.lifts({3: 0.3}, EAST) == {}


def test_only_the_first_two_hundred_are_lifted():
    scores = {point: 1 / (point + 2) for point in range(MAX_LIFTED_TOOLS + 1)}
    known = learned(p0=(1.0, EAST), p200=(1.0, EAST))
    assert known.lifts(scores, EAST).keys() == {0}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 360)), min_size=1))
def test_scores_stay_scores(tools):
    def towards(angle):
        return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)

    known = LearnedTools.of(
        {n: ((s, s), {str(n): towards(a)}) for n, (_, s, a) in enumerate(tools)}
    )
    scores = {n: score for n, (score, _, _) in enumerate(tools)}
    lifts = known.lifts(scores, EAST)
    assert all(lift >= 0 and scores[n] + lift <= 1 for n, lift in lifts.items())


LIKELY = {"docs": 0.6, "wiki": 0.3, "mail": 0.1}


def choices(**vectors):
    """Learned examples of collections, one for each name."""
    known = LearnedChoices()
    examples = {point_id(name): ((1.0, 1.0), {name: vector}) for name, vector in vectors.items()}
    known.known = {COLLECTIONS: LearnedTools.of(examples)}
    return known


@pytest.mark.parametrize("query", [None, EAST])
def test_a_choice_of_which_nothing_was_learned_is_made_as_before(query):
    assert LearnedChoices().mix(COLLECTIONS, LIKELY, query) == LIKELY
    assert choices(wiki=EAST).mix("route", LIKELY, query) == LIKELY
    assert choices(wiki=EAST).mix(COLLECTIONS, LIKELY, None) == LIKELY


def test_a_near_example_takes_its_share_of_all_probabilities():
    mixed = choices(wiki=EAST, docs=NORTH).mix(COLLECTIONS, LIKELY, EAST)
    assert max(mixed, key=mixed.get) == "wiki"
    assert sum(mixed.values()) == pytest.approx(1)


@given(st.floats(0, 1))
def test_what_passes_a_threshold_by_itself_passes_it_beside_examples(stands):
    mixed = choices(wiki=EAST).mix(COLLECTIONS, LIKELY, EAST, stands)
    assert {n for n, p in LIKELY.items() if p >= stands} <= {
        n for n, p in mixed.items() if p >= stands
    }


def test_only_the_nearest_requests_count_for_a_choice():
    kernels = np.arange(50, dtype=np.float64)
    kept = keep_nearest(kernels)
    assert np.count_nonzero(kept) == NEAREST_EXAMPLES
    assert kept.max() == kernels.max()
    assert keep_nearest(kernels[:3]).tolist() == [0, 1, 2]
