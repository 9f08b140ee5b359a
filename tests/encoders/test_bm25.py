"""Our sparse vectors are BM25: by plain arithmetic, by rank-bm25, and through the real engine."""

from __future__ import annotations

import math
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from toolcrib.encoders.base import SparseVector
from toolcrib.encoders.lexical import LexicalEncoder, LexicalSettings
from toolcrib.store.base import Layout, LegQuery, Point, point_id
from toolcrib.store.qdrant_edge import EdgeStore

VOCABULARY = [f"word{number}" for number in range(2000)]
TOLERANCE = 1e-4


class Corpus:
    """Random documents and queries, and BM25 over them, written as the formula is."""

    def __init__(self, seed: int, settings: LexicalSettings) -> None:
        chance = random.Random(seed)
        likely = [1 / (rank + 300) for rank in range(len(VOCABULARY))]
        lengths = [chance.randint(3, 60) for _ in range(300)]
        self.documents = [chance.choices(VOCABULARY, likely, k=length) for length in lengths]
        self.queries = [
            chance.choices(VOCABULARY, likely, k=chance.randint(1, 8)) for _ in range(60)
        ]
        self.settings = settings
        self.counts = [Counter(document) for document in self.documents]
        self.average = sum(map(len, self.documents)) / len(self.documents)

    def idf(self, term: str) -> float:
        """`ln(1 + (N - n + 0.5) / (n + 0.5))`."""
        having = sum(term in counts for counts in self.counts)
        return math.log(1 + (len(self.counts) - having + 0.5) / (having + 0.5))

    def scores(self, query: list[str]) -> list[float]:
        """BM25 of every document."""
        idf = {term: self.idf(term) for term in query}
        return [sum(self._weight(term, c) * idf[term] for term in query) for c in self.counts]

    def _weight(self, term: str, counts: Counter[str]) -> float:
        k1, b, tf = self.settings.k1, self.settings.b, counts[term]
        return tf * (k1 + 1) / (tf + k1 * (1 - b + b * counts.total() / self.average))

    def vectors(self) -> list[SparseVector]:
        """What the encoder makes of the documents."""
        encoder = LexicalEncoder(self.settings)
        return [encoder.encode_document(counts, self.average) for counts in self.counts]


@pytest.fixture(
    scope="module",
    params=[LexicalSettings(), LexicalSettings(k1=0.9, b=0.4), LexicalSettings(k1=2.0, b=1.0)],
    ids=lambda settings: f"k1={settings.k1},b={settings.b}",
)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    """A corpus for each pair of parameters."""
    return Corpus(seed=11, settings=request.param)


def _top(scores: list[float]) -> set[int]:
    """The ten best documents that score at all."""
    order = np.argsort(-np.round(scores, 9), kind="stable")[:10]
    return {int(row) for row in order if scores[row] > 0}


def test_the_inner_product_with_idf_is_bm25(corpus: Corpus) -> None:
    encoder = LexicalEncoder(corpus.settings)
    documents = [dict(zip(v.indices, v.values, strict=True)) for v in corpus.vectors()]
    for query in corpus.queries:
        weights = {
            encoder.encode_terms([term]).indices[0]: count * corpus.idf(term)
            for term, count in Counter(query).items()
        }
        ours = [
            sum(weight * float(document.get(slot, 0.0)) for slot, weight in weights.items())
            for document in documents
        ]
        assert ours == pytest.approx(corpus.scores(query), abs=TOLERANCE)


def test_the_top_ten_are_those_of_rank_bm25(corpus: Corpus) -> None:
    reference = BM25Okapi(corpus.documents, k1=corpus.settings.k1, b=corpus.settings.b)
    agreeing = [
        _top(corpus.scores(query)) == _top(list(reference.get_scores(query)))
        for query in corpus.queries
    ]
    # No word is in more than a fourteenth of the documents. In the more frequent ones the two
    # formulas of IDF part (toolcrib/encoders/lexical.py), and a few tails with them.
    assert sum(agreeing) >= 0.9 * len(agreeing)


def test_the_engine_scores_as_the_formula_does(corpus: Corpus, tmp_path: Path) -> None:
    encoder = LexicalEncoder(corpus.settings)
    ids = [point_id(str(number)) for number in range(len(corpus.documents))]
    layout = Layout(dense={"unused": 1}, multi={}, sparse=("lexical",))
    with closing(EdgeStore.open(tmp_path / "crib", layout)) as store:
        vectors = zip(ids, corpus.vectors(), strict=True)
        store.upsert([Point(id, {}, sparse={"lexical": vector}) for id, vector in vectors])
        for query in corpus.queries:
            expected = dict(zip(ids, corpus.scores(query), strict=True))
            leg = LegQuery("lexical", encoder.encode_terms(query), len(ids))
            found = {hit.id: hit.score for hit in store.search([leg])[0]}
            assert found == pytest.approx(
                {id: score for id, score in expected.items() if score > 0}, abs=TOLERANCE
            )
