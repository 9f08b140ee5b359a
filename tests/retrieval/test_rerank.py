"""The second look blends in, keeps to its time, and never lets the unseen overtake."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Settings, build
from toolcrib.clock import ManualClock
from toolcrib.encoders.base import FloatArray
from toolcrib.language_models.testing import ChatServer
from toolcrib.records import Passage, ToolHit, ToolSpec
from toolcrib.retrieval.fusion import LegScores
from toolcrib.retrieval.passages import RankedPassage
from toolcrib.retrieval.rerank import (
    ModelReranker,
    PassageReranker,
    Reranking,
    RerankSettings,
    ToolReranker,
)


class Scripted:
    """A reranker with an opinion of each tool's name, whose batches take time on the clock."""

    name = "scripted"

    def __init__(
        self, opinions: dict[str, float], clock: ManualClock | None = None, batch_s: float = 0.0
    ) -> None:
        self.opinions, self.clock, self.batch_s = opinions, clock or ManualClock(), batch_s
        self.seen: list[list[str]] = []

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        self.clock.now += self.batch_s
        self.seen.append([text.split(":")[0] for text in texts])
        return np.array([self.opinions[name] for name in self.seen[-1]], dtype=np.float32)


def _hits(**scores: float) -> list[ToolHit]:
    """Hits as the first stage hands them on: best first."""
    ordered = sorted(scores.items(), key=lambda pair: -pair[1])
    return [
        ToolHit(rank, score, ToolSpec(name=name, description=f"does {name}"), {"dense": score})
        for rank, (name, score) in enumerate(ordered, start=1)
    ]


def _rerank(reranker: Scripted, hits: list[ToolHit], **settings: float) -> Reranking:
    return ToolReranker(reranker, RerankSettings(**settings), reranker.clock).rerank("query", hits)


def _scores(done: Reranking) -> dict[str, float]:
    return {hit.name: pytest.approx(hit.score) for hit in done.hits}


def _names(done: Reranking) -> str:
    return "".join(hit.name for hit in done.hits)


def test_scores_are_blended_by_weight_worked_by_hand() -> None:
    # The sigmoid of 0 is 0.5, of ln 3 it is 0.75.
    done = _rerank(Scripted({"a": 0.0, "b": math.log(3)}), _hits(a=0.6, b=0.4), weight=0.5, lead=1)
    assert _names(done) == "ba"
    assert _scores(done) == {"b": 0.575, "a": 0.55}
    assert done.lacking == ()


def test_where_the_first_leads_by_far_nothing_is_looked_at_and_scores_stand() -> None:
    reranker, hits = Scripted({"a": -5.0, "b": 5.0}), _hits(a=0.65, b=0.4)
    done = _rerank(reranker, hits, lead=0.2)
    assert done == Reranking(hits)
    assert reranker.seen == []


@pytest.mark.parametrize(("weight", "order"), [(0.0, "abc"), (1.0, "cba")])
def test_the_weight_goes_from_no_say_to_the_only_say(weight: float, order: str) -> None:
    reranker = Scripted({"a": -5.0, "b": 0.0, "c": 5.0})
    assert _names(_rerank(reranker, _hits(a=0.9, b=0.8, c=0.7), weight=weight)) == order


def test_the_reranker_reads_name_and_description() -> None:
    reranker = Scripted({"a": 0.0})
    texts: list[str] = []
    reranker.score = lambda _, batch: texts.extend(batch) or np.zeros(1)  # type: ignore[method-assign]
    _rerank(reranker, _hits(a=0.5))
    assert texts == ["a: does a"]


def test_equal_scores_are_ordered_by_id() -> None:
    done = _rerank(Scripted({"a": 0.0, "b": 0.0, "c": 0.0}), _hits(c=0.5, b=0.5, a=0.5))
    assert _names(done) == "abc"


def test_a_tool_called_by_its_name_stays_first_and_is_not_looked_at() -> None:
    reranker = Scripted({"a": 9.0, "b": 9.0})
    done = _rerank(reranker, _hits(x=1.0, a=0.9, b=0.8))
    assert _names(done) == "xab"
    assert done.hits[0].score == 1.0
    assert reranker.seen == [["a", "b"]]


def test_what_lies_below_the_depth_is_not_looked_at_and_does_not_overtake() -> None:
    reranker = Scripted({"a": -9.0, "b": -9.0})
    done = _rerank(reranker, _hits(a=0.9, b=0.8, c=0.79), depth=2)
    assert reranker.seen == [["a", "b"]]
    assert _names(done) == "abc"
    assert "rerank" not in done.hits[2].legs
    assert done.lacking == ()


def test_texts_go_in_batches() -> None:
    reranker = Scripted(dict.fromkeys("abcde", 0.0))
    _rerank(reranker, _hits(a=0.9, b=0.8, c=0.7, d=0.6, e=0.5), batch=2)
    assert reranker.seen == [["a", "b"], ["c", "d"], ["e"]]


def test_nothing_to_rerank_asks_nothing() -> None:
    reranker = Scripted({})
    assert _rerank(reranker, []) == Reranking([], share=0.5)
    assert reranker.seen == []


class TestBudget:
    """Time is looked at between batches, and what was done until then is kept."""

    HITS = _hits(a=0.9, b=0.8, c=0.7, d=0.6)
    OPINIONS = dict.fromkeys("abcd", -9.0)

    def test_within_the_budget_all_are_looked_at(self) -> None:
        reranker = Scripted(self.OPINIONS, batch_s=0.0625)
        done = _rerank(reranker, self.HITS, batch=1, budget_ms=250)
        assert len(reranker.seen) == 4
        assert done.lacking == ()

    def test_beyond_it_the_rest_keeps_its_order_behind(self) -> None:
        reranker = Scripted(self.OPINIONS | {"b": 3.0}, batch_s=0.125)
        done = _rerank(reranker, self.HITS, batch=1, budget_ms=200)
        assert reranker.seen == [["a"], ["b"]]
        assert done.lacking == ("rerank-late",)
        assert _names(done) == "bacd"
        assert _scores(done)["c"] == 0.35

    def test_the_first_batch_is_looked_at_however_small_the_budget(self) -> None:
        reranker = Scripted(self.OPINIONS, batch_s=10)
        done = _rerank(reranker, self.HITS, batch=1, budget_ms=1)
        assert reranker.seen == [["a"]]
        assert done.lacking == ("rerank-late",)


NAMES = "abcdefghij"
FIRST = st.lists(st.floats(0, 1), min_size=1, max_size=10)
SECOND = st.lists(
    st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=10, max_size=10
)


@given(FIRST, SECOND, st.integers(1, 12), st.integers(1, 4), st.floats(0, 1), st.floats(0, 1))
def test_hits_are_only_reordered_and_scores_stay_ordered_between_zero_and_one(
    first: list[float], second: list[float], depth: int, batch: int, weight: float, batch_s: float
) -> None:
    hits = _hits(**dict(zip(NAMES, first, strict=False)))
    reranker = Scripted(dict(zip(NAMES, second, strict=True)), batch_s=batch_s)
    done = _rerank(reranker, hits, depth=depth, batch=batch, weight=weight)
    scores = [hit.score for hit in done.hits]
    assert sorted(_names(done)) == sorted(hit.name for hit in hits)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert all(left >= right - 1e-9 for left, right in pairwise(scores))


@pytest.mark.parametrize("bad", [None, [math.nan, 1.0], [math.inf, 1.0], [1.0]])
def test_one_that_fails_or_gives_what_is_no_score_changes_nothing_and_is_named(
    bad: list[float] | None,
) -> None:
    class Broken(Scripted):
        def score(self, query: str, texts: Sequence[str]) -> FloatArray:
            if bad is None:
                raise RuntimeError("out of memory")
            return np.array(bad, dtype=np.float32)

    hits, found = _hits(a=0.5, b=0.4), _ranked("milk", "tea")
    assert _rerank(Broken({}), hits) == Reranking(hits, ("rerank",))
    assert _reranked(Broken({}), found) == (found, ("rerank",))


def test_a_manual_is_cut_before_the_reranker_reads_it() -> None:
    lengths: list[int] = []

    class Measuring(Scripted):
        def score(self, query: str, texts: Sequence[str]) -> FloatArray:
            lengths.extend(map(len, texts))
            return np.zeros(len(texts), dtype=np.float32)

    tool = ToolSpec(name="a", description="x" * 100_000)
    _rerank(Measuring({}), [ToolHit(rank=1, score=0.5, tool=tool)])
    assert lengths == [len("a: ") + 4_000]


def _ranked(*texts: str) -> list[RankedPassage]:
    """Passages of falling scores."""
    return [
        RankedPassage(Passage("c", "d.md", text, (text,), n), 0.9 - n / 10, LegScores(0.5))
        for n, text in enumerate(texts)
    ]


def _reranked(
    reranker: Scripted, found: list[RankedPassage], **settings: float
) -> tuple[list[RankedPassage], tuple[str, ...]]:
    chosen = RerankSettings(**settings)
    return PassageReranker(reranker, chosen, reranker.clock).rerank("query", found)


class TestPassages:
    """Passages are reranked by the same rule, and read with their headings."""

    LIKES_TEA = {"tea": 5.0, "milk": -5.0, "coffee": -5.0, "more tea": 5.0}  # noqa: RUF012

    def test_what_the_reranker_likes_comes_first(self) -> None:
        reranker = Scripted(self.LIKES_TEA)
        found, degraded = _reranked(reranker, _ranked("coffee", "milk", "tea"))
        assert ([each.passage.text for each in found], degraded) == (["tea", "coffee", "milk"], ())
        assert all(0 <= each.score <= 1 for each in found)

    def test_it_stops_when_its_time_is_over_and_says_so(self) -> None:
        reranker = Scripted(self.LIKES_TEA, batch_s=1.0)
        _, degraded = _reranked(reranker, _ranked("milk", "tea"), batch=1, budget_ms=500)
        assert (degraded, reranker.seen) == (("rerank-late",), [["milk"]])


class TestByALanguageModel:
    """Listwise, by numbers alone; what it says changes the order and no score."""

    HITS = MappingProxyType({"a": 0.60, "b": 0.55, "c": 0.5, "d": 0.4})

    def reranked(self, replies, faults=(), hits=None, query="query", **settings):
        with ChatServer(replies, faults) as server:
            model = build.language_model(
                Settings.model_validate({"llm": {**server.settings, "attempts": 1}}), "rerank"
            )
            assert model is not None
            reranker = ModelReranker(model, RerankSettings(**{"budget_ms": 20_000, **settings}))
            found = reranker.rerank(query, _hits(**(self.HITS if hits is None else hits)))
        return found, server.requests

    @staticmethod
    def best(*names):
        """A reply that names tools by the numbers that they have in the request."""

        def reply(request):
            lines = request.messages[-1].content.splitlines()
            numbers = {line.split(". ")[1][0]: line.split(".")[0] for line in lines if ". " in line}
            return {"tools": [int(numbers[each]) for each in names]}

        return reply

    @pytest.mark.slow
    def test_what_it_names_comes_first_and_places_keep_their_scores(self):
        found, asked = self.reranked(self.best("c", "a"))
        assert [(hit.name, hit.score) for hit in found.hits] == [
            ("c", 0.60), ("a", 0.55), ("b", 0.5), ("d", 0.4)
        ]  # fmt: skip
        assert found.lacking == ()
        assert len(asked) == 2

    def test_it_is_asked_once_where_it_agrees_with_the_first(self):
        found, asked = self.reranked(self.best("a", "d"))
        assert _names(found) == "adbc"
        assert len(asked) == 1

    def test_it_is_asked_again_in_another_order_where_it_does_not(self):
        found, asked = self.reranked({"tools": [2]}, query="another")
        (first, again) = (each.messages[-1].content.splitlines()[4:] for each in asked)
        assert first != again
        assert sorted(line[3:] for line in first) == sorted(line[3:] for line in again)
        # Whoever always names the second has named two that are nothing but second.
        assert {first[1][3], again[1][3]} == set(_names(found)[:2])

    def test_without_the_second_answer_the_first_stage_counts_as_that(self):
        found, _ = self.reranked({"tools": [4]}, [None, "error"])
        assert _names(found) == "adbc"
        assert found.lacking == ()

    @pytest.mark.parametrize(
        ("reply", "fault", "lacking"),
        [
            ({"tools": [77, -1, 0]}, None, ("rerank",)),
            ({"tools": [3]}, "error", ("rerank",)),
            ({"tools": [1]}, "wrong-schema", ()),
            ({"tools": []}, None, ()),
            ({"tools": [1, 1, 99]}, None, ()),
        ],
    )
    def test_what_cannot_be_used_changes_nothing(self, reply, fault, lacking):
        found, _ = self.reranked(reply, [fault], hits={"a": 0.6, "b": 0.59})
        assert (_names(found), found.lacking) == ("ab", lacking)

    def test_late_is_not_failed(self):
        found, _ = self.reranked({"tools": [3]}, lambda _: "slow", budget_ms=50)
        assert (_names(found), found.lacking) == ("abcd", ("rerank-late",))

    @pytest.mark.parametrize("hits", [{"a": 0.9, "b": 0.4}, {"x": 1.0, "a": 0.5}, {}])
    def test_where_the_first_stage_is_sure_it_is_not_asked(self, hits):
        found, asked = self.reranked({"tools": [2]}, hits=hits)
        assert "".join(hit.name for hit in found.hits) == "".join(hits)
        assert asked == []

    def test_it_reads_no_more_than_the_first(self):
        found, asked = self.reranked(self.best("b"), depth=2)
        assert _names(found)[2:] == "cd"
        assert "c: " not in asked[0].text
