"""Caches of bounded size: a map with eviction, and a cache of results for short texts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache, wraps
from typing import Any, TypeVar

__all__ = ["BoundedMap", "cached_texts"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MISSING = object()


class BoundedMap(MutableMapping[_Key, _Value]):
    """Least-recently-used map of at most `max_size`; safe for several threads.

    `size_of` measures an entry when it is set; by default every entry has the size 1. An entry
    larger than `max_size` is not kept.
    """

    def __init__(
        self, max_size: int, size_of: Callable[[_Key, _Value], int] = lambda _key, _value: 1
    ) -> None:
        self.size = 0
        self._max_size, self._size_of = max_size, size_of
        self._entries: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.RLock()

    def __getitem__(self, key: _Key) -> _Value:
        with self._lock:
            value, _ = self._entries[key]
            self._entries.move_to_end(key)
            return value

    def __setitem__(self, key: _Key, value: _Value) -> None:
        size = self._size_of(key, value)
        with self._lock:
            if key in self._entries:
                del self[key]
            if size > self._max_size:
                return
            self._entries[key] = value, size
            self.size += size
            while self.size > self._max_size:
                del self[next(iter(self._entries))]

    def __delitem__(self, key: _Key) -> None:
        with self._lock:
            _, size = self._entries.pop(key)
            self.size -= size

    def pop(self, key: _Key, default: Any = _MISSING) -> Any:
        """Remove a key and return its value, or `default`, in one step.

        Raises:
            KeyError: the key is missing, and no `default` is given.
        """
        with self._lock:
            return super().pop(key) if default is _MISSING else super().pop(key, default)

    def __iter__(self) -> Iterator[_Key]:
        """Keys, the least recently used first; entries may be set and removed meanwhile."""
        with self._lock:
            return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def get_or_make(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Value of a key, or a new value by `make`, for which other threads do not wait."""
        try:
            return self[key]
        except KeyError:
            value = self[key] = make()
            return value

    def clear(self) -> None:
        """Remove every entry."""
        with self._lock:
            self._entries.clear()
            self.size = 0


def cached_texts(
    max_entries: int, max_chars: int
) -> Callable[[Callable[[str], _Value]], Callable[[str], _Value]]:
    """Cache a function's results for texts of at most `max_chars`; other results are not kept."""

    def decorate(function: Callable[[str], _Value]) -> Callable[[str], _Value]:
        cached = lru_cache(max_entries)(function)

        @wraps(function)
        def look_up(text: str) -> _Value:
            return cached(text) if len(text) <= max_chars else function(text)

        return look_up

    return decorate
