"""Queries of several threads share runs of the model, and nobody notices but by the clock."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders.batching import BatchingEncoder, JointEncoder, batching
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.base import ClauseEncoder, FloatArray


class Joint(DeterministicEncoder):
    """The shipped double, which takes queries together, too; it runs while `gate` is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)
        self.runs: list[list[str]] = []

    def encode_clauses(self, text: str) -> FloatArray:
        return self.encode_together([text])[0]

    def encode_together(self, texts: Sequence[str]) -> list[FloatArray]:
        self.runs.append(list(texts))
        self.begun.release()
        self.gate.wait()
        return list(self.encode_documents(texts)[:, np.newaxis])


class Crowd:
    """Threads that ask, each known to have come before the next one does."""

    def __init__(self, encoder: BatchingEncoder, inner: Joint) -> None:
        self.encoder = encoder
        self.inner = inner
        self.pool = ThreadPoolExecutor(32)

    def busy(self, text: str) -> Future[FloatArray]:
        """A query that is being encoded, until the gate opens."""
        self.inner.gate.clear()
        asked = self.pool.submit(self.encoder.encode_clauses, text)
        self.inner.begun.acquire()
        return asked

    def waiting(self, *texts: object) -> list[Future[FloatArray]]:
        """Queries that wait, in this order."""
        asked = []
        for text in texts:
            before = len(self.encoder._waiting)
            asked.append(self.pool.submit(self.encoder.encode_clauses, text))
            until(lambda before=before: len(self.encoder._waiting) > before)
        return asked


def until(holds: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if holds():
            return
        threading.Event().wait(0.0001)
    pytest.fail("it never came to that")


@pytest.fixture
def inner():
    return Joint()


@pytest.fixture
def make_crowd(inner):
    crowds = []

    def make(most: int = 8, at_once: int = 1) -> Crowd:
        crowds.append(Crowd(BatchingEncoder(inner, most, at_once=at_once), inner))
        return crowds[-1]

    yield make
    inner.gate.set()
    for crowd in crowds:
        crowd.pool.shutdown()


def vectors(asked: list[Future[FloatArray]]) -> list[list[list[float]]]:
    return [each.result().tolist() for each in asked]


def alone(*texts: str) -> list[list[list[float]]]:
    return [Joint().encode_clauses(text).tolist() for text in texts]


def test_a_query_that_finds_nobody_is_encoded_alone(inner):
    encoder = BatchingEncoder(inner, 8)
    assert [encoder.encode_clauses("one").tolist()] == alone("one")
    assert encoder.encode_query("two").tolist() == alone("two")[0][0]
    assert inner.runs == [["one"], ["two"]]


def test_those_that_come_meanwhile_are_encoded_together_in_their_order(inner, make_crowd):
    crowd = make_crowd()
    first = crowd.busy("a")
    others = crowd.waiting("b", "c", "d")
    inner.gate.set()
    assert vectors([first, *others]) == alone("a", "b", "c", "d")
    assert inner.runs == [["a"], ["b", "c", "d"]]


def test_no_batch_is_larger_than_allowed_and_the_first_come_first(inner, make_crowd):
    crowd = make_crowd(most=3)
    first = crowd.busy("a")
    others = crowd.waiting(*"bcdefgh")
    inner.gate.set()
    assert vectors([first, *others]) == alone(*"abcdefgh")
    assert inner.runs == [["a"], ["b", "c", "d"], ["e", "f", "g"], ["h"]]


def test_a_newcomer_does_not_overtake_who_waits(inner, make_crowd):
    crowd = make_crowd(most=1)
    first = crowd.busy("a")
    others = crowd.waiting("b", "c")
    inner.gate.set()
    vectors([first, *others])
    assert inner.runs == [["a"], ["b"], ["c"]]


def test_as_many_run_at_once_as_are_allowed(inner, make_crowd):
    crowd = make_crowd(at_once=2)
    busy = [crowd.busy("a"), crowd.busy("b")]
    others = crowd.waiting("c", "d")
    inner.gate.set()
    assert vectors([*busy, *others]) == alone("a", "b", "c", "d")
    assert inner.runs[:2] == [["a"], ["b"]]
    assert sorted(text for run in inner.runs[2:] for text in run) == ["c", "d"]


def test_a_bad_text_fails_for_whoever_brought_it_and_for_nobody_else(inner, make_crowd):
    crowd = make_crowd()
    first = crowd.busy("a")
    good, bad, better = crowd.waiting("b", 7, "c")
    inner.gate.set()
    assert vectors([first, good, better]) == alone("a", "b", "c")
    with pytest.raises(TypeError, match="an encoder reads text, not int"):
        bad.result()


def test_after_a_failure_alone_the_next_one_is_encoded(inner, make_crowd):
    crowd = make_crowd(most=1)
    bad = crowd.busy(7)
    (good,) = crowd.waiting("b")
    inner.gate.set()
    with pytest.raises(TypeError):
        bad.result()
    assert vectors([good]) == alone("b")
    assert crowd.encoder.encode_clauses("c").tolist() == alone("c")[0]


class StoppedError(Exception):
    """What a signal's handler raises, as `KeyboardInterrupt` is."""


@pytest.fixture
def on_signal():
    """Send the main thread a signal once it waits, and do something when it arrives."""
    kept = signal.getsignal(signal.SIGUSR1)

    def arrange(crowd: Crowd, act: Callable[[], object]) -> None:
        arrived = threading.Event()

        def handle(_number, _frame) -> None:
            if not arrived.is_set():
                arrived.set()
                act()
                raise StoppedError

        def send() -> None:
            until(lambda: bool(crowd.encoder._waiting))
            # One that comes between the interpreter's last look and the wait is seen after it.
            while not arrived.wait(0.01):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

        signal.signal(signal.SIGUSR1, handle)
        crowd.pool.submit(send)

    yield arrange
    signal.signal(signal.SIGUSR1, kept)


def test_a_thread_that_is_interrupted_while_it_waits_gives_up_its_place(
    inner, make_crowd, on_signal
):
    crowd = make_crowd()
    first = crowd.busy("a")
    on_signal(crowd, lambda: None)
    with pytest.raises(StoppedError):
        crowd.encoder.encode_clauses("mine")
    (other,) = crowd.waiting("b")
    inner.gate.set()
    assert vectors([first, other]) == alone("a", "b")
    assert inner.runs == [["a"], ["b"]]


def test_a_thread_that_is_interrupted_when_its_turn_comes_leaves_nobody_waiting(
    inner, make_crowd, on_signal
):
    crowd = make_crowd()
    first = crowd.busy("a")
    others = []

    def let_it_be_its_turn() -> None:
        others.extend(crowd.waiting("b"))
        inner.gate.set()
        until(lambda: not crowd.encoder._waiting)

    on_signal(crowd, let_it_be_its_turn)
    with pytest.raises(StoppedError):
        crowd.encoder.encode_clauses("mine")
    assert vectors([first, *others]) == alone("a", "b")
    assert crowd.encoder.encode_clauses("c").tolist() == alone("c")[0]


@given(st.lists(st.text(max_size=8), max_size=20), st.integers(1, 4), st.integers(1, 3))
def test_whoever_asks_in_whatever_company_gets_what_the_inner_encoder_gives(texts, most, at_once):
    encoder = BatchingEncoder(Joint(), most, at_once=at_once)
    with ThreadPoolExecutor(8) as pool:
        found = [each.tolist() for each in pool.map(encoder.encode_clauses, texts)]
    assert found == alone(*texts)


def test_it_is_the_same_encoder_by_name_width_and_documents(inner):
    encoder = BatchingEncoder(inner, 8)
    assert isinstance(encoder, ClauseEncoder)
    assert (encoder.name, encoder.dimensions) == (inner.name, inner.dimensions)
    assert np.array_equal(encoder.encode_documents(["x", "y"]), inner.encode_documents(["x", "y"]))


@pytest.mark.parametrize(("most", "at_once"), [(0, 1), (1, 0)])
def test_less_than_one_query_or_run_is_refused(inner, most, at_once):
    with pytest.raises(ValueError, match="must be at least 1"):
        BatchingEncoder(inner, most, at_once=at_once)


def test_only_an_encoder_that_knows_batches_gets_them(inner):
    double = DeterministicEncoder()
    assert not isinstance(double, JointEncoder)
    assert batching(double, 8) is double
    assert batching(inner, 1) is inner
    assert isinstance(batching(inner, 2), BatchingEncoder)
