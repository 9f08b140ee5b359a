"""Caches hold what was used last, up to a size."""

from __future__ import annotations

import threading

import pytest

from toolcrib.caches import BoundedMap, cached_texts


def test_what_was_used_longest_ago_is_evicted():
    kept = BoundedMap[str, int](2)
    kept["a"], kept["b"] = 1, 2
    assert kept["a"] == 1
    kept["c"] = 3
    assert dict(kept) == {"a": 1, "c": 3}
    kept["a"] = 4
    kept["d"] = 5
    assert list(kept) == ["a", "d"]


def test_entries_count_by_their_size_and_one_above_it_is_not_kept():
    kept = BoundedMap[str, str](10, lambda key, value: len(key) + len(value))
    kept["a"], kept["b"] = "xxx", "xxxx"
    assert (len(kept), kept.size) == (2, 9)
    kept["c"] = "xx"
    assert (dict(kept), kept.size) == ({"b": "xxxx", "c": "xx"}, 8)
    kept["c"] = "x" * 10
    assert (dict(kept), kept.size) == ({"b": "xxxx"}, 5)
    del kept["b"]
    assert (len(kept), kept.size) == (0, 0)
    kept["e"] = "x"
    kept.clear()
    assert (len(kept), kept.size) == (0, 0)


def test_a_value_is_made_once_while_it_is_kept():
    kept, made = BoundedMap[str, None](1), []
    for key in ("a", "a", "b", "a"):
        kept.get_or_make(key, lambda key=key: made.append(key))
    assert made == ["a", "b", "a"]
    with pytest.raises(ZeroDivisionError):
        kept.get_or_make("c", lambda: 1 // 0)
    assert list(kept) == ["a"]


def test_several_threads_leave_the_size_that_is_there():
    kept = BoundedMap[int, int](50, lambda _, value: value)

    def write(start: int) -> None:
        for number in range(start, start + 2000):
            kept[number % 97] = number % 7
            kept.pop((number * 3) % 97, None)

    threads = [threading.Thread(target=write, args=(start,)) for start in range(0, 80, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.size == sum(kept.values()) <= 50


def test_long_texts_are_worked_on_anew():
    seen = []

    @cached_texts(max_entries=10, max_chars=3)
    def length(text: str) -> int:
        seen.append(text)
        return len(text)

    assert [length(text) for text in ("abc", "abc", "long", "long")] == [3, 3, 4, 4]
    assert seen == ["abc", "long", "long"]
