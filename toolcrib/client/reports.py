"""What became of parts that were sent, put together as one report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from toolcrib.client.answers import Written
from toolcrib.client.parcels import Parcel
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.records import IndexProgress, IndexReport, Refusal

__all__ = ["Told", "joined", "traced"]

PLACE = re.compile(r"\w*\[(\d+)\]")
"""How a service says which of the tools that were sent it means."""


class Told:
    """Tells a listener how far the work is."""

    def __init__(self, total: int, progress: Listener | None) -> None:
        self._heard = progress or ignore
        self._total = total
        self._done = 0
        self._heard(IndexProgress(0, total))

    def tell(self, part: Sequence[Parcel], without: Iterable[Refusal]) -> None:
        """A part is durable, but for what was refused of it."""
        refused = {each.place for each in without}
        self._done += len(part)
        ids = tuple(each.id for each in part if each.id not in refused)
        self._heard(IndexProgress(self._done, self._total, ids))


def traced(written: Written, part: Sequence[Parcel]) -> Written:
    """What was refused of a part, by where it came from here and by its id."""
    by_id = {each.id: each for each in part}

    def here(refusal: Refusal) -> Refusal:
        at = PLACE.fullmatch(refusal.place)
        sent = part[int(at[1])] if at and int(at[1]) < len(part) else by_id.get(refusal.place)
        return refusal if sent is None else Refusal(sent.source, sent.id, refusal.reason)

    refused = tuple(map(here, written.report.refused))
    report = replace(written.report, refused=refused)
    return Written(report, tuple(map(here, written.held)))


def joined(one: IndexReport, other: IndexReport) -> IndexReport:
    """Both reports as one."""
    names = [each.name for each in fields(IndexReport)]
    return IndexReport(*(getattr(one, name) + getattr(other, name) for name in names))
