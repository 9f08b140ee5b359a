"""A ledger's records and questions in a Qdrant server's words: pure translation.

A server orders by one number and leaves open what comes first among equals, and it may read a
number's last digit wrong. So points are ordered by their time in whole microseconds, which any
parser reads back as it was, and whoever asks puts the records of one microsecond in order.
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Iterable, Iterator

from qdrant_client import models

from toolcrib.errors import StoreDamagedError
from toolcrib.store.ledger import Entry
from toolcrib.store.ledger_text import body_text, read_entry

__all__ = [
    "INDEXES",
    "batches",
    "moment",
    "ordered_by",
    "point",
    "point_id",
    "read_point",
    "records_of",
]

DIGITS = 6
"""Behind the point; exact for any parser until the year 2255."""

MAX_BATCH_POINTS = 100
MAX_BATCH_CHARS = 4 * 2**20
"""A server refuses bodies above 32 MB by default, and proxies before it often above 8."""

INDEXES = {
    "shelf": models.PayloadSchemaType.KEYWORD,
    "at": models.PayloadSchemaType.FLOAT,
}


def point_id(shelf: str, entry_id: str) -> str:
    """The same in every run; 128 bits of a digest, since ids may come from strangers."""
    name = f"{len(shelf)}:{shelf}{entry_id}".encode()
    return str(uuid.UUID(bytes=hashlib.blake2b(name, digest_size=16).digest()))


def point(shelf: str, entry: Entry) -> models.PointStruct:
    """A record as the server keeps it.

    Raises:
        StoreError: it is not fit to be kept.
    """
    payload = {
        "shelf": shelf,
        "id": entry.id,
        "at": moment(entry.at),
        "time": repr(float(entry.at)),
        "body": body_text(shelf, entry),
    }
    return models.PointStruct(id=point_id(shelf, entry.id), vector={}, payload=payload)


def batches(points: Iterable[models.PointStruct]) -> Iterator[list[models.PointStruct]]:
    """Cut what is written into requests of bounded size, in order; one huge record goes alone."""
    batch: list[models.PointStruct] = []
    size = 0
    for each in points:
        weight = len((each.payload or {})["body"])
        if batch and (len(batch) == MAX_BATCH_POINTS or size + weight > MAX_BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += weight
    if batch:
        yield batch


def read_point(record: models.Record, place: str) -> Entry:
    """The record that a point holds; `place` is the collection as messages name it.

    Raises:
        StoreDamagedError: it holds none.
    """
    payload = record.payload or {}
    try:
        return read_entry(payload["id"], float(payload["time"]), payload["body"], place)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamagedError(
            f"the point {record.id} in {place} is no record of a ledger; delete it, or restore a "
            "snapshot",
        ) from error


def moment(at: float) -> float:
    """The microsecond of a time; JSON has no word for infinity."""
    largest = sys.float_info.max
    return round(min(max(at, -largest), largest), DIGITS)


def records_of(shelf: str, **bounds: float) -> models.Filter:
    """The records of a shelf, those alone whose microsecond is `lt`, `lte`, `gt`, `gte` a time."""
    whose = models.FieldCondition(key="shelf", match=models.MatchValue(value=shelf))
    limits = {name: moment(bound) for name, bound in bounds.items()}
    when = [models.FieldCondition(key="at", range=models.Range(**limits))] if limits else []
    return models.Filter(must=[whose, *when])


def ordered_by(direction: models.Direction) -> models.OrderBy:
    """By time, as far as the server knows it."""
    return models.OrderBy(key="at", direction=direction)
