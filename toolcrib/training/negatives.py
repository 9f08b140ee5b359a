"""Hard negatives: what our own first stage ranks high for a query and is not labelled right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.encoders.base import DenseEncoder, FloatArray, SparseVector
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.training import import_train
from toolcrib.training.data import Example, TrainingData, join_data

SAME_TEXT_COSINE = 0.9
"""Cosine from which a text counts as the positive in other words, and as no negative."""

MAX_LEAD_OVER_POSITIVE = 0.1
"""Score above the positive from which a text is more likely unlabelled than wrong."""

MINING_DEPTH = 20
CHUNK_QUERIES = 256


def mine(
    parts: Sequence[TrainingData],
    guide: DenseEncoder,
    *,
    count: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[TrainingData, FloatArray]:
    """All parts as one, every example with `count` negatives from the first 20 of its own part.

    Tools of the positive's own server come first: they are what is taken for it. False negatives
    are filtered: texts of a cosine of 0.9 or more to the positive, and texts ranked well above it
    (in the manner of NV-Retriever, Moreira et al. 2024). An example without enough candidates
    takes any other text. The second value is the guide's vector of
    every text, float32 [texts, d]; the loss masks by it as well.

    Raises:
        MissingExtraError: scipy is not installed.
        EncoderError: the guide cannot encode.
    """
    rng = np.random.default_rng(seed)
    # A part of one text has nothing to tell it from.
    parts = [part for part in parts if len(part.documents) > 1]
    total = sum(len(part.examples) for part in parts)
    done, mined = 0, list[TrainingData]()
    vectors: dict[str, FloatArray] = {}
    for part in parts:
        known = guide.encode_documents(part.documents)
        vectors |= zip(part.documents, known, strict=True)
        servers = _server_numbers(part.servers or [""] * len(part.documents))
        words, examples = _Words(part.documents), list[Example]()
        for start in range(0, len(part.examples), CHUNK_QUERIES):
            chunk = part.examples[start : start + CHUNK_QUERIES]
            examples += _with_negatives(chunk, guide, known, words, servers, count, rng)
            progress(done + len(examples), total)
        done += len(examples)
        mined.append(replace(part, examples=tuple(examples)))
    data = join_data(mined)
    return data, np.array([vectors[text] for text in data.documents], dtype=np.float32)


def _server_numbers(servers: Sequence[str]) -> NDArray[np.int64]:
    """A number for each text's server; where none is known, one of the text's own."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(servers))}
    own = range(len(numbers), len(numbers) + len(servers))
    known = [numbers[name] if name else alone for name, alone in zip(servers, own, strict=True)]
    return np.array(known, dtype=np.int64)


def _with_negatives(
    examples: Sequence[Example],
    guide: DenseEncoder,
    vectors: FloatArray,
    words: _Words,
    servers: NDArray[np.int64],
    count: int,
    rng: np.random.Generator,
) -> list[Example]:
    scores = _first_stage([e.query for e in examples], guide, vectors, words)
    alike = vectors[[e.positive for e in examples]] @ vectors.T >= SAME_TEXT_COSINE
    mined: list[Example] = []
    for row, example in enumerate(examples):
        barred = alike[row]
        barred[[example.positive, *example.relevant]] = True
        siblings = servers == servers[example.positive]
        chosen = _draw(scores[row], example.positive, barred, siblings, count, rng)
        mined.append(replace(example, negatives=chosen))
    return mined


def _first_stage(
    queries: Sequence[str], guide: DenseEncoder, vectors: FloatArray, words: _Words
) -> FloatArray:
    """The fused score of every query and text: float32 [queries, texts]."""
    weights = FusionWeights()
    dense = np.stack([guide.encode_query(query) for query in queries]) @ vectors.T
    lexical = 1 - np.exp(-words.scores(queries) / weights.bm25_scale)
    return (weights.dense * dense + weights.lexical * lexical).astype(np.float32)


def _draw(
    scores: FloatArray,
    positive: int,
    barred: NDArray[np.bool_],
    siblings: NDArray[np.bool_],
    count: int,
    rng: np.random.Generator,
) -> tuple[int, ...]:
    left = np.where(barred | (scores > scores[positive] + MAX_LEAD_OVER_POSITIVE), -np.inf, scores)
    depth = min(MINING_DEPTH, len(left))
    hardest = np.argpartition(-left, depth - 1)[:depth]
    hardest = hardest[np.isfinite(left[hardest])]
    if len(hardest) < count:
        hardest = np.flatnonzero(~barred)
    if not len(hardest):
        hardest = np.setdiff1d(np.arange(len(scores)), [positive])
    drawn = rng.permutation(hardest)
    # A stable order: those of its server, at random, before the others.
    drawn = np.resize(drawn[np.argsort(~siblings[drawn], kind="stable")], count)
    return tuple(int(place) for place in drawn)


class _Words:
    """BM25 of many queries against the texts, as one sparse product."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._sparse: Any = import_train("scipy.sparse")
        self._encoder = LexicalEncoder()
        counts = [self._counts(text) for text in documents]
        average = float(np.mean([sum(count.values()) for count in counts])) if counts else 1.0
        matrix = self._matrix([self._encoder.encode_document(c, average) for c in counts])
        found = np.bincount(matrix.indices, minlength=matrix.shape[1])
        idf = np.log1p((len(counts) - found + 0.5) / (found + 0.5)).astype(np.float32)
        self._documents = matrix.multiply(idf).tocsr()

    def scores(self, queries: Sequence[str]) -> FloatArray:
        """BM25 with the engine's IDF: float32 [queries, texts]."""
        asked = self._matrix([self._encoder.encode_query(query) for query in queries])
        return (asked @ self._documents.T).toarray()

    def _counts(self, text: str) -> dict[str, float]:
        counts: dict[str, float] = {}
        for term in self._encoder.terms(text):
            counts[term] = counts.get(term, 0.0) + 1
        return counts

    def _matrix(self, rows: Sequence[SparseVector]) -> Any:
        ends = np.cumsum([0, *(len(row.indices) for row in rows)])
        # The engine's term ids are 32 bits wide; a matrix of as many columns would be too.
        columns = np.concatenate([row.indices for row in rows] or [np.empty(0)]) % TERM_COLUMNS
        values = np.concatenate([row.values for row in rows] or [np.empty(0)])
        shape = (len(rows), TERM_COLUMNS)
        return self._sparse.csr_matrix(
            (values.astype(np.float32), columns.astype(np.int64), ends), shape=shape
        )


TERM_COLUMNS = 1 << 22
"""Columns of the term matrix: terms that share one are rare enough for mining."""
