"""Copier: copies a store into another, re-encoded, and afterwards later changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from toolcrib.records import IndexReport
from toolcrib.store.base import Store

_Item = TypeVar("_Item")

Payload = Mapping[str, Any]


@dataclass(slots=True)
class Copier(Generic[_Item]):
    """Copies tools or passages; each call copies the changes since the last call.

    `read` makes an item of a payload, and `write` syncs items into a store. Items of one `group`
    are written together, as a sync removes missing parts of a document. `convert` makes entries of
    the target's metadata from entries of the source's; a removed entry is None.
    """

    read: Callable[[Payload], _Item]
    group: Callable[[Payload], str]
    write: Callable[[Store, list[tuple[str, _Item]]], IndexReport]
    convert: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    _digests: dict[int, str] = field(default_factory=dict[int, str])
    _entries: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, source: Store, target: Store) -> bool:
        """Copy the changes since the last call; False if there are none.

        Raises:
            StoreError: a store refused; the call can be repeated.
        """
        entries = dict(source.read_meta())
        gone = dict.fromkeys(self._entries.keys() - entries.keys())
        news = {key: value for key, value in entries.items() if self._entries.get(key) != value}
        target.write_meta(self.convert(gone | news))
        records = list(source.scroll())
        digests = {record.id: record.payload["digest"] for record in records}
        removed = self._digests.keys() - digests.keys()
        changed = {
            self.group(record.payload)
            for record in records
            if self._digests.get(record.id) != digests[record.id]
        }
        target.delete(removed)
        if changed:
            wanted = (record.payload for record in records if self.group(record.payload) in changed)
            self.write(target, [("the index", self.read(payload)) for payload in wanted])
        self._digests, self._entries = digests, entries
        return bool(changed or removed or gone or news)
