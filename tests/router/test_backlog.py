"""Work that nobody waits for is done soon, in order, once, and not given up while it may pass."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolcrib.errors import StoreError
from toolcrib.router.backlog import Backlog


class Bench:
    """Where work is done: notes it, and fails or waits when told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failures: list[Exception] = []
        self.tried = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, items: list[int]) -> None:
        self.tried.set()
        assert self.may_go_on.wait(10)
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(items)

    @property
    def done(self) -> list[int]:
        return [item for batch in self.batches for item in batch]


@pytest.fixture
def bench():
    return Bench()


def settled(backlog: Backlog[int]) -> None:
    """Wait until its thread has nothing more to do."""
    worker = backlog._worker
    if worker is not None:
        worker.join(10)
    assert backlog._worker is None


def test_items_are_done_without_being_asked_for(bench):
    backlog = Backlog(bench, pause_s=0.001)
    for number in range(5):
        assert backlog.add(number)
    settled(backlog)
    assert bench.done == list(range(5))


def test_the_thread_ends_with_the_work_and_begins_with_it(bench):
    backlog = Backlog(bench, pause_s=0.001)
    backlog.add(1)
    settled(backlog)
    backlog.add(2)
    settled(backlog)
    assert bench.batches == [[1], [2]]


def test_what_comes_within_the_pause_is_done_together(bench):
    backlog = Backlog(bench, pause_s=60)
    for number in range(5):
        backlog.add(number)
    backlog.flush()
    assert bench.batches == [[0, 1, 2, 3, 4]]
    assert backlog.close() == 0


def test_flushing_nothing_does_nothing(bench):
    Backlog(bench).flush()
    assert bench.batches == []


def test_flushing_waits_for_what_is_under_way(bench):
    bench.may_go_on.clear()
    backlog = Backlog(bench, pause_s=0.001)
    backlog.add(1)
    assert bench.tried.wait(10)
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(backlog.flush)
        assert not flushed.done()
        bench.may_go_on.set()
        flushed.result(10)
        assert bench.done == [1]
    backlog.close()


def test_more_than_may_wait_is_refused(bench):
    backlog = Backlog(bench, capacity=3, pause_s=60)
    assert [backlog.add(number) for number in range(5)] == [True, True, True, False, False]
    backlog.flush()
    assert backlog.add(5)
    assert backlog.close() == 0
    assert bench.done == [0, 1, 2, 5]


def test_what_failed_stays_in_its_place_and_is_tried_again(bench):
    bench.failures = [StoreError("busy"), StoreError("still busy")]
    backlog = Backlog(bench, pause_s=60)
    backlog.add(1)
    with pytest.raises(StoreError, match=r"^busy"):
        backlog.flush()
    backlog.add(2)
    with pytest.raises(StoreError, match="still busy"):
        backlog.flush()
    backlog.flush()
    assert bench.batches == [[1, 2]]
    assert backlog.close() == 0


def test_the_thread_tries_again_by_itself_and_says_so_once(bench, caplog):
    bench.failures = [StoreError("busy")] * 3
    backlog = Backlog(bench, pause_s=0.001, retry_s=0.002)
    backlog.add(1)
    settled(backlog)
    assert bench.batches == [[1]]
    assert [record.message for record in caplog.records] == ["cannot be done now, is tried again"]


def test_a_fault_costs_its_items_and_not_those_that_follow(bench, caplog):
    bench.failures = [TypeError("a fault of ours")]
    backlog = Backlog(bench, pause_s=0.001)
    backlog.add(1)
    settled(backlog)
    backlog.add(2)
    settled(backlog)
    assert bench.batches == [[2]]
    assert "a fault of ours" in caplog.text


def test_closing_does_what_is_left_and_more_may_be_added(bench):
    backlog = Backlog(bench, pause_s=60)
    backlog.add(1)
    assert backlog.close() == 0
    assert backlog.close() == 0
    backlog.add(2)
    assert backlog.close() == 0
    assert bench.batches == [[1], [2]]


def test_closing_says_how_much_had_to_be_given_up(bench):
    bench.failures = [StoreError("gone")]
    backlog = Backlog(bench, pause_s=60)
    backlog.add(1)
    backlog.add(2)
    assert backlog.close() == 2
    backlog.flush()
    assert bench.batches == []


def test_threads_add_at_once_and_nothing_is_lost_or_done_twice(bench):
    backlog = Backlog(bench, pause_s=0.0005)

    def add(start: int) -> None:
        for number in range(start, start + 500):
            assert backlog.add(number)
            if number % 50 == 0:
                backlog.flush()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(0, 2000, 500)))
    assert backlog.close() == 0
    assert sorted(bench.done) == list(range(2000))
    for start in range(0, 2000, 500):
        own = [number for number in bench.done if start <= number < start + 500]
        assert own == sorted(own)
