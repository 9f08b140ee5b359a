"""Several legs become one score: worked by hand, bounded, monotone, blind to order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import SettingsError
from toolcrib.retrieval.fusion import (
    CLAUSE_GAIN,
    FusionWeights,
    LegScores,
    clause_gains,
    convex,
    fuse,
    reciprocal_rank,
)

HALVES = FusionWeights(
    clauses=1.0, dense=0.5, lexical=0.5, bm25_scale=10.0, examples=0.4, anti_patterns=1.0
)
ONE_SCALE = 10.0 * math.log(2)
"""The BM25 at which the lexical leg of `HALVES` is worth exactly one half."""

COSINES = st.floats(-1, 1)
SCORES = st.builds(
    LegScores,
    dense=COSINES,
    lexical=st.floats(0, 500),
    examples=st.none() | COSINES,
    anti_patterns=st.none() | COSINES,
    head=st.none() | st.floats(-30, 0),
    clauses=st.none() | COSINES,
)
CANDIDATES = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), SCORES, max_size=12)
WEIGHTS = st.builds(
    FusionWeights,
    dense=st.floats(0.01, 5),
    lexical=st.floats(0.01, 5),
    bm25_scale=st.floats(0.1, 200),
    clauses=st.floats(0, 1),
    examples=st.floats(0, 1),
    anti_patterns=st.floats(0, 3),
    head=st.floats(0, 1),
)


def _one(scores: LegScores, weights: FusionWeights = HALVES) -> float:
    return convex({"it": scores}, weights)["it"]


WEATHER, FORECAST, MAIL, MAP = 1, 2, 3, 4
BY_CLAUSE = {
    WEATHER: LegScores(0.6, by_clause=(0.8, 0.1)),
    FORECAST: LegScores(0.5, by_clause=(0.7, 0.1)),
    MAIL: LegScores(0.3, by_clause=(0.1, 0.6)),
    MAP: LegScores(0.2, by_clause=(0.2, 0.2)),
}
"""Tools for a query of two clauses: the weather, and mail."""
FUSED = {WEATHER: 0.5, FORECAST: 0.45, MAIL: 0.4, MAP: 0.1}


class TestClauseGains:
    """The gains of tools that fit a clause which the tools before them fit less."""

    def test_best_tool_of_another_clause_passes_a_second_tool_of_the_first(self) -> None:
        gains = clause_gains(FUSED, BY_CLAUSE, set())
        # Mail fits the second clause by 0.5 better than the weather, but may not pass it.
        assert gains == {MAIL: pytest.approx(0.1)}
        assert FUSED[FORECAST] < FUSED[MAIL] + gains[MAIL] < FUSED[WEATHER]

    def test_gain_is_a_share_of_the_better_fit(self) -> None:
        gains = clause_gains(FUSED | {WEATHER: 0.9}, BY_CLAUSE, set())
        assert gains == {MAIL: pytest.approx(CLAUSE_GAIN * (0.6 - 0.1))}

    def test_named_tools_come_before_the_best(self) -> None:
        assert clause_gains(FUSED, BY_CLAUSE, {MAIL}) == {}
        # A named tool of low score bounds no gain.
        assert clause_gains(FUSED, BY_CLAUSE, {MAP}) == {MAIL: pytest.approx(0.1)}

    @pytest.mark.parametrize("named", [set[int](), {1, 2}])
    def test_query_of_one_clause_has_no_gains(self, named: set[int]) -> None:
        assert clause_gains({1: 0.5, 2: 0.4}, dict.fromkeys((1, 2), LegScores(0.5)), named) == {}

    def test_first_of_two_equal_tools_gains_in_any_order(self) -> None:
        candidates = {**BY_CLAUSE, MAP: BY_CLAUSE[MAIL]}
        fused = FUSED | {MAP: FUSED[MAIL]}
        turned = dict(reversed(fused.items()))
        assert [*clause_gains(fused, candidates, set())] == [MAIL]
        assert [*clause_gains(turned, candidates, set())] == [MAIL]

    @given(st.lists(st.tuples(st.floats(0, 1), COSINES, COSINES), min_size=1, max_size=15))
    def test_no_gain_takes_a_tool_past_the_best(
        self, rows: list[tuple[float, float, float]]
    ) -> None:
        fused = {point: score for point, (score, *_) in enumerate(rows)}
        candidates = {p: LegScores(0.5, by_clause=(a, b)) for p, (_, a, b) in enumerate(rows)}
        gains = clause_gains(fused, candidates, set())
        assert all(gain > 0 for gain in gains.values())
        best = max(fused.values())
        assert all(fused[point] + gain <= best for point, gain in gains.items())


class TestConvex:
    """The weighted sum of what each leg says, each on its own scale."""

    @pytest.mark.parametrize(
        ("scores", "expected"),
        [
            pytest.param(LegScores(0.6), 0.3, id="dense alone"),
            pytest.param(LegScores(0.0, ONE_SCALE), 0.25, id="lexical alone"),
            pytest.param(LegScores(0.6, ONE_SCALE), 0.55, id="both"),
            pytest.param(LegScores(1.0, 1e9), 1.0, id="all there can be"),
            pytest.param(LegScores(-1.0), 0.0, id="never below nothing"),
            pytest.param(LegScores(0.5, examples=1.0), 0.35, id="two fifths of the way up"),
            pytest.param(LegScores(0.5, examples=0.2), 0.25, id="a farther example is no harm"),
            pytest.param(LegScores(0.5, anti_patterns=0.7), 0.15, id="down by what is closer"),
            pytest.param(LegScores(0.5, anti_patterns=0.4), 0.25, id="a farther one is no harm"),
            # Lifted to 0.62; 0.9 is 0.1 closer than the example, the best there is of the tool.
            pytest.param(LegScores(0.5, 0.0, 0.8, 0.9), 0.26, id="lifted and lowered"),
            pytest.param(LegScores(0.5, 0.0, 0.8, 0.7), 0.31, id="the example excuses"),
            pytest.param(LegScores(0.2, clauses=0.6), 0.3, id="the best clause speaks"),
            pytest.param(LegScores(0.6, clauses=0.2), 0.1, id="also where it is farther"),
            pytest.param(LegScores(0.2, 0.0, 0.9, clauses=0.4), 0.3, id="lifted from the clause"),
            pytest.param(LegScores(0.2, 0.0, 0.6, clauses=0.8), 0.4, id="a closer clause than it"),
            pytest.param(LegScores(0.2, 0.0, None, 0.6, clauses=0.8), 0.4, id="a clause excuses"),
        ],
    )
    def test_worked_by_hand(self, scores: LegScores, expected: float) -> None:
        assert _one(scores) == pytest.approx(expected)

    @pytest.mark.parametrize(("share", "expected"), [(0.0, 0.1), (0.25, 0.15), (1.0, 0.3)])
    def test_a_clause_counts_by_its_share(self, share: float, expected: float) -> None:
        weights = replace(HALVES, clauses=share)
        assert _one(LegScores(0.2, clauses=0.6), weights) == pytest.approx(expected)
        assert _one(LegScores(0.2), weights) == pytest.approx(0.1)

    @given(CANDIDATES, WEIGHTS)
    def test_every_score_is_between_zero_and_one(
        self, candidates: dict[str, LegScores], weights: FusionWeights
    ) -> None:
        fused = convex(candidates, weights)
        assert fused.keys() == candidates.keys()
        assert all(0.0 <= score <= 1.0 for score in fused.values())

    @given(SCORES, WEIGHTS, st.floats(0, 2))
    def test_a_higher_cosine_never_lowers(
        self, scores: LegScores, weights: FusionWeights, more: float
    ) -> None:
        better = scores._replace(dense=min(1.0, scores.dense + more))
        assert _one(better, weights) >= _one(scores, weights) - 1e-12

    @given(SCORES, WEIGHTS, COSINES)
    def test_an_anti_pattern_never_lifts(
        self, scores: LegScores, weights: FusionWeights, cosine: float
    ) -> None:
        without = scores._replace(anti_patterns=None)
        with_it = scores._replace(anti_patterns=cosine)
        assert _one(with_it, weights) <= _one(without, weights) + 1e-12


class TestReciprocalRank:
    """The sum over the legs of one over `k` plus the rank."""

    def test_worked_by_hand(self) -> None:
        fused = reciprocal_rank(
            {"both": LegScores(0.8, 2.0), "meaning": LegScores(0.9), "words": LegScores(0.1, 7.0)},
            FusionWeights(rrf_k=60),
        )
        assert fused == pytest.approx(
            {"both": 1 / 62 + 1 / 62, "meaning": 1 / 61, "words": 1 / 63 + 1 / 61}
        )

    def test_equal_scores_share_the_better_rank(self) -> None:
        fused = reciprocal_rank(
            {"a": LegScores(0.5), "b": LegScores(0.5), "c": LegScores(0.4)}, FusionWeights(rrf_k=1)
        )
        assert fused == pytest.approx({"a": 1 / 2, "b": 1 / 2, "c": 1 / 4})

    def test_examples_and_anti_patterns_move_the_dense_rank(self) -> None:
        fused = reciprocal_rank(
            {
                "lifted": LegScores(0.4, examples=1.0),
                "plain": LegScores(0.5),
                "lowered": LegScores(0.6, anti_patterns=0.9),
            },
            FusionWeights(rrf_k=1),
        )
        assert fused == pytest.approx({"lifted": 1 / 2, "plain": 1 / 3, "lowered": 1 / 4})

    def test_the_best_clause_moves_the_dense_rank(self) -> None:
        candidates = {"whole": LegScores(0.6, clauses=0.5), "part": LegScores(0.4, clauses=0.8)}
        for share, best in ((1.0, "part"), (0.0, "whole")):
            fused = reciprocal_rank(candidates, FusionWeights(rrf_k=1, clauses=share))
            assert max(fused, key=fused.__getitem__) == best


def test_the_settings_choose_the_method() -> None:
    candidates = {"a": LegScores(0.5, 1.0), "b": LegScores(0.9)}
    ranked, summed = FusionWeights(method="rrf"), FusionWeights(method="convex")
    assert fuse(candidates, ranked) == reciprocal_rank(candidates, ranked)
    assert fuse(candidates, summed) == convex(candidates, summed)


def test_both_weights_at_zero_are_an_error():
    with pytest.raises(SettingsError) as caught:
        FusionWeights(dense=0, lexical=0)
    assert str(caught.value) == "fusion.dense and fusion.lexical are both 0; one must be above"
