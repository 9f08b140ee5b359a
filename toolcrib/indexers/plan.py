"""The difference between what was read and what a store holds, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from toolcrib.errors import SpecError
from toolcrib.records import IndexReport, Refusal

__all__ = ["Plan"]

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(slots=True)
class Plan(Generic[Item]):
    """What was read, by id, and what each id is to the store."""

    items: dict[str, Item] = field(default_factory=dict[str, Item])
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    unchanged: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    refused: list[Refusal] = field(default_factory=list[Refusal])

    def compare(self, known: Mapping[str, str], digest: Callable[[Item], str]) -> None:
        """Tell what is new, changed and unchanged; `known` are the store's digests by id."""
        for item_id, item in self.items.items():
            if item_id not in known:
                self.added.append(item_id)
            elif known[item_id] != digest(item):
                self.changed.append(item_id)
            else:
                self.unchanged.append(item_id)

    def prepared(
        self,
        prepare: Callable[[Item], Made],
        refusal: Callable[[Item, SpecError], Refusal],
    ) -> list[Made]:
        """Prepare what must be written; a text that cannot be kept is refused here."""
        made: list[Made] = []
        for ids in (self.added, self.changed):
            for item_id in list(ids):
                try:
                    made.append(prepare(self.items[item_id]))
                except SpecError as error:
                    ids.remove(item_id)
                    self.refused.append(refusal(self.items[item_id], error))
        return made

    def prune(self, gone: Iterable[str], reason: str) -> None:
        """Remove what no source names; while anything is refused, say `reason` instead."""
        doomed = sorted(gone)
        if doomed and self.refused:
            self.refused.append(Refusal("--prune", "", reason))
        else:
            self.removed.extend(doomed)

    def report(self) -> IndexReport:
        """What the run did."""
        return IndexReport(
            tuple(self.added),
            tuple(self.changed),
            tuple(self.removed),
            tuple(self.unchanged),
            tuple(self.refused),
        )
