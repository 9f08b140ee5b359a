"""The second look at passages: it reorders what it has seen, in its time, and breaks nothing."""

from __future__ import annotations

import numpy as np
import pytest

from toolcrib.clock import ManualClock
from toolcrib.records import Passage
from toolcrib.retrieval.fusion import LegScores
from toolcrib.retrieval.passage_rerank import PassageReranker
from toolcrib.retrieval.passages import RankedPassage
from toolcrib.retrieval.rerank import RerankSettings


class Likes:
    """A reranker that likes one word, and takes its time."""

    name = "likes"

    def __init__(self, word, clock=None, seconds=0.0):
        self.word, self.clock, self.seconds = word, clock, seconds
        self.seen = []

    def score(self, query, texts):
        self.seen += texts
        if self.clock is not None:
            self.clock.now += self.seconds
        return np.array([5.0 if self.word in text else -5.0 for text in texts], dtype=np.float32)


class Broken(Likes):
    def score(self, query, texts):
        raise RuntimeError("out of memory")


class Short(Likes):
    def score(self, query, texts):
        return np.zeros(len(texts) - 1, dtype=np.float32)


def ranked(*texts):
    """Passages of falling scores."""
    return [
        RankedPassage(Passage("c", "d.md", text, ("Title",), n), 0.9 - n / 10, LegScores(0.5))
        for n, text in enumerate(texts)
    ]


def texts(found):
    return [each.passage.text for each in found]


def test_what_the_reranker_likes_comes_first():
    likes = Likes("tea")
    found, degraded = PassageReranker(likes, RerankSettings()).rerank(
        "hot", ranked("coffee", "milk", "tea")
    )
    assert (texts(found), degraded) == (["tea", "coffee", "milk"], ())
    assert likes.seen[0] == "Title: coffee"
    assert all(0 <= each.score <= 1 for each in found)


def test_what_it_has_not_seen_cannot_overtake():
    settings = RerankSettings(depth=2)
    found, _ = PassageReranker(Likes("tea"), settings).rerank("x", ranked("milk", "tea", "tea tea"))
    assert texts(found) == ["tea", "milk", "tea tea"]


def test_it_stops_when_its_time_is_over_and_says_so():
    clock = ManualClock()
    likes = Likes("tea", clock, seconds=1.0)
    settings = RerankSettings(batch=1, budget_ms=500)
    found, degraded = PassageReranker(likes, settings, clock).rerank("x", ranked("milk", "tea"))
    assert (texts(found), degraded, len(likes.seen)) == (["milk", "tea"], ("rerank-late",), 1)


@pytest.mark.parametrize("kind", [Broken, Short])
def test_one_that_fails_changes_nothing_and_is_named(kind):
    given = ranked("milk", "tea")
    found, degraded = PassageReranker(kind("tea"), RerankSettings()).rerank("x", given)
    assert (found, degraded) == (given, ("rerank",))


def test_of_nothing_it_makes_nothing():
    assert PassageReranker(Likes("tea"), RerankSettings()).rerank("x", []) == ([], ())
