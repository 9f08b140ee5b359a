"""Queries that several threads ask at the same time are encoded together."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from toolcrib.encoders.base import ClauseEncoder, DenseEncoder, FloatArray

__all__ = ["BatchingEncoder", "JointEncoder", "batching"]

logger = logging.getLogger(__name__)


@runtime_checkable
class JointEncoder(ClauseEncoder, Protocol):
    """A clause encoder that can take several queries through its model in one run."""

    def encode_together(self, texts: Sequence[str]) -> list[FloatArray]:
        """For each query what `encode_clauses` gives, in their order."""
        ...


def batching(encoder: DenseEncoder, most: int) -> DenseEncoder:
    """The encoder, its queries in batches of up to `most`; itself where it knows no batches."""
    if most > 1 and isinstance(encoder, JointEncoder):
        return BatchingEncoder(encoder, most)
    return encoder


class BatchingEncoder:
    """A clause encoder that gives what `inner` gives, with at most `at_once` runs at a time.

    A query that finds a run free is encoded at once and alone, in its own thread. Those that
    come while none is free wait, in their order: whoever ends a run hands it to the first of
    them, and that one's thread encodes up to `most` of them together. Nobody waits for company,
    and there is no thread and nothing to close here.

    A batch that fails is encoded again query by query, each in the thread that asks for it, so
    that an error reaches whom it concerns and nobody else.

    Raises:
        ValueError: `most` or `at_once` is below one.
    """

    def __init__(self, inner: JointEncoder, most: int, *, at_once: int = 1) -> None:
        if most < 1 or at_once < 1:
            raise ValueError(f"most={most} and at_once={at_once} must be at least 1")
        self._inner = inner
        self._most = most
        self._free = at_once
        self._turns = threading.Lock()
        self._waiting: deque[_Place] = deque()

    @property
    def name(self) -> str:
        """The inner encoder's: the vectors are the same."""
        return self._inner.name

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self._inner.dimensions

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """As the inner encoder does: float32 [n, dimensions], rows L2-normalised."""
        return self._inner.encode_documents(texts)

    def encode_query(self, text: str) -> FloatArray:
        """Encode one query: float32 [dimensions], L2-normalised.

        Raises:
            TypeError, EncoderError: as the inner encoder.
        """
        return self.encode_clauses(text)[0]

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses: float32 [1 + clauses, dimensions], L2-normalised.

        Raises:
            TypeError, EncoderError: as the inner encoder.
        """
        place = self._place(text)
        if len(place.batch) > 1:
            self._lead(place.batch)
        elif place.batch:
            try:
                return self._inner.encode_clauses(text)
            finally:
                self._hand_over()
        # Without an answer its batch failed, maybe for another's text.
        return self._inner.encode_clauses(text) if place.answer is None else place.answer

    def _place(self, text: str) -> _Place:
        """Take a place, and wait there until a run is free or somebody has encoded the text."""
        place = _Place(text)
        with self._turns:
            if self._free:
                self._free -= 1
                place.batch = [place]
                return place
            self._waiting.append(place)
        try:
            place.called.acquire()
        except BaseException:  # a signal: others must not wait for a thread that is gone
            self._leave(place)
            raise
        return place

    def _leave(self, place: _Place) -> None:
        with self._turns:
            if place in self._waiting:
                self._waiting.remove(place)
        if place.batch:
            self._end(place.batch)

    def _lead(self, batch: list[_Place]) -> None:
        """Answer everybody in the batch, as far as it can be encoded together."""
        try:
            answers = self._inner.encode_together([place.text for place in batch])
            for place, answer in zip(batch, answers, strict=True):
                place.answer = answer
        except Exception:  # whose text it was shows when each is encoded alone
            logger.debug("a batch of %d queries failed", len(batch), exc_info=True)
        finally:
            self._end(batch)

    def _end(self, batch: list[_Place]) -> None:
        """Call everybody in the batch, after whoever has the run next."""
        self._hand_over()
        for place in batch[1:]:
            place.called.release()

    def _hand_over(self) -> None:
        """Give the run to the first who waits, with the batch that it is for."""
        with self._turns:
            batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            if not batch:
                self._free += 1
                return
            batch[0].batch = batch
        batch[0].called.release()


class _Place:
    """One query's place in the order.

    `called` opens when the query has an answer, a batch to lead, or neither, since its batch
    failed. `batch` is empty for those whose query another thread encodes.
    """

    __slots__ = ("answer", "batch", "called", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.answer: FloatArray | None = None
        self.batch: list[_Place] = []
        self.called = threading.Lock()
        self.called.acquire()
