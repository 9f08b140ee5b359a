"""Sets with a guarantee: quantiles worked by hand, and coverage reached where it was promised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import QueryError
from toolcrib.retrieval.gate import MAX_SET_TOOLS, min_set_probability, set_size

PROBABILITIES = st.lists(st.floats(0, 1), max_size=60)
RANKED = PROBABILITIES.map(lambda values: sorted(values, reverse=True))
ASCENDING = PROBABILITIES.map(sorted)
COVERAGES = st.floats(0, 1)


def _needed(count: int) -> list[float]:
    return [rank / 100 for rank in range(1, count + 1)]


class TestLeastProbability:
    """The `floor((n + 1)(1 - coverage))`-th smallest of what was needed."""

    @pytest.mark.parametrize(
        ("count", "coverage", "expected"),
        [
            pytest.param(19, 0.95, 0.01, id="20 * 0.05 is one: the smallest"),
            pytest.param(18, 0.95, 0.0, id="19 * 0.05 is less than one: no promise"),
            pytest.param(38, 0.95, 0.01, id="39 * 0.05 is less than two"),
            pytest.param(39, 0.95, 0.02, id="40 * 0.05 is two"),
            pytest.param(9, 0.9, 0.01, id="10 * 0.1 is one"),
            pytest.param(9, 0.5, 0.05, id="10 * 0.5 is five: the median"),
            pytest.param(99, 0.9, 0.1, id="100 * 0.1 is ten"),
            pytest.param(1000, 1.0, 0.0, id="certainty is never promised"),
            pytest.param(0, 0.95, 0.0, id="nothing is known"),
        ],
    )
    def test_worked_by_hand(self, count: int, coverage: float, expected: float) -> None:
        assert min_set_probability(_needed(count), coverage) == expected

    def test_needed_tools_that_were_not_found_allow_no_promise(self) -> None:
        # 100 * 0.05 is five, and that many were not found at all.
        assert min_set_probability([0.0] * 5 + _needed(94), 0.95) == 0.0
        assert min_set_probability([0.0] * 4 + _needed(95), 0.95) == 0.01

    @pytest.mark.parametrize("coverage", [-0.1, 1.1, float("nan")])
    def test_what_is_no_probability_is_refused(self, coverage: float) -> None:
        with pytest.raises(QueryError, match=r"^coverage is .*; it must be between 0 and 1$"):
            min_set_probability(_needed(50), coverage)


class TestSetSize:
    """As many as reach the least probability, one at least, and never too many."""

    @pytest.mark.parametrize(
        ("probabilities", "least", "size"),
        [
            ([0.9, 0.4, 0.1], 0.4, 2),
            ([0.9, 0.4, 0.1], 0.0, 3),
            ([0.9, 0.4, 0.1], 0.95, 1),
            ([], 0.0, 0),
            ([0.5] * 200, 0.1, MAX_SET_TOOLS),
        ],
    )
    def test_worked_by_hand(self, probabilities: list[float], least: float, size: int) -> None:
        assert set_size(probabilities, least) == size

    @given(ASCENDING, RANKED, COVERAGES, COVERAGES)
    def test_more_coverage_never_makes_the_set_smaller(
        self, needed: list[float], ranked: list[float], one: float, other: float
    ) -> None:
        less, more = sorted((one, other))
        sizes = [set_size(ranked, min_set_probability(needed, c)) for c in (less, more)]
        assert sizes[0] <= sizes[1]

    @given(RANKED, COVERAGES)
    def test_what_is_in_is_never_less_likely_than_what_is_out(
        self, ranked: list[float], least: float
    ) -> None:
        size = set_size(ranked, least)
        assert min(1, len(ranked)) <= size <= min(len(ranked), MAX_SET_TOOLS)
        assert all(probability < least for probability in ranked[size:MAX_SET_TOOLS])


TOOLS = 20


def _drawn(rng: np.random.Generator, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranked probabilities [queries, tools], badly calibrated, and which tools are needed."""
    scores = rng.normal(0, 3, (queries, TOOLS))
    true = -np.sort(-np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), axis=1)
    places = [(true.cumsum(axis=1) > rng.random((queries, 1))).argmax(axis=1) for _ in range(2)]
    # A fifth of the queries needs a second tool.
    places[1] = np.where(rng.random(queries) < 0.2, places[1], places[0])
    needed = (np.arange(TOOLS) == places[0][:, None]) | (np.arange(TOOLS) == places[1][:, None])
    return true**2, needed


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_what_was_promised_is_reached_on_exchangeable_queries(coverage: float) -> None:
    rng = np.random.default_rng(0)
    shares: list[float] = []
    sizes: list[int] = []
    for _ in range(60):
        shown, needed = _drawn(rng, 400)
        least_of_each = np.where(needed, shown, 1).min(axis=1)
        least = min_set_probability(sorted(least_of_each[:200]), coverage)
        asked = [set_size(row, least) for row in shown[200:]]
        complete = [not row[size:].any() for row, size in zip(needed[200:], asked, strict=True)]
        shares.append(float(np.mean(complete)))
        sizes += asked
    assert np.mean(shares) == pytest.approx(coverage, abs=0.015)
    assert np.mean(sizes) < TOOLS / 2
