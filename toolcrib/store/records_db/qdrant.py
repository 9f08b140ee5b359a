"""Records database on a Qdrant server or cluster: a collection of points without vectors.

A server orders by one number, in any order among equal numbers, and its parser may change a
number's last digit. Points are therefore ordered by their time in whole microseconds, which every
parser reads exactly, and the records of one microsecond are sorted here.

Importing this module takes seconds (`qdrant-client`): only stores with a URL import it.
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from toolcrib.errors import StoreDamagedError, StoreError
from toolcrib.store.base import is_text
from toolcrib.store.qdrant_client import OWN_META_KEY, QdrantConnection, batches, connect, models
from toolcrib.store.records_db import DbRow, RecordsDb, body_text, read_row

_PAGE_RECORDS = 500
FIRST_TABLES_LIMIT = 1000

_MAX_BATCH_RECORDS = 100

SECOND_DIGITS = 6
"""Digits after the decimal point: exact in every parser until the year 2255."""

METADATA_MARK = "ledger"
INDEXES = {"table": models.PayloadSchemaType.KEYWORD, "at": models.PayloadSchemaType.FLOAT}

ASCENDING, DESCENDING = models.Direction.ASC, models.Direction.DESC


class QdrantRecordsDb(RecordsDb):
    """A `RecordsDb` in one collection; safe to use from several threads."""

    def __init__(self, connection: QdrantConnection, name: str) -> None:
        self._connection = connection
        self._name = name

    @classmethod
    def open(
        cls,
        url: str,
        *,
        api_key: str | None = None,
        collection: str = "toolcrib-ledger",
        timeout_s: float = 10.0,
        replicas: int | None = None,
    ) -> QdrantRecordsDb:
        """Open the collection, or make it with one shard, as the database is small.

        Raises:
            StoreUnavailableError: the server does not answer.
            StoreError: not a URL, a refused API key, a server older than 1.19, or a collection
                that toolcrib did not make.
        """
        opened = cls(connect(url, api_key, timeout_s), collection)
        try:
            opened._make(replicas)
        except BaseException:
            opened.close()
            raise
        return opened

    def _make(self, replicas: int | None) -> None:
        """Make the collection and its indexes if missing; refuse a collection that is not ours."""
        connection, name = self._connection, self._name
        connection.require_version()
        if not connection.has(name):
            connection.make(
                name, METADATA_MARK, vectors_config={}, shard_number=1, replication_factor=replicas
            )
        found = connection.describe(name)
        if (found.config.metadata or {}).get(OWN_META_KEY) != METADATA_MARK:
            raise StoreError(
                f"the collection {name!r} at {connection.place} is no records database of "
                "toolcrib: set server.collection to another name, or delete this one"
            )
        connection.index_fields(name, found, INDEXES)

    # -- writing ---------------------------------------------------------------------------

    def put_all(self, table: str, rows: Sequence[DbRow]) -> None:
        """Write records; after a failure repeat the whole call."""
        # If an id comes twice in a request, the last record must stay.
        points = {point.id: point for point in (_point(table, row) for row in rows)}
        upsert = self._connection.client.upsert
        for batch in batches(points.values(), _MAX_BATCH_RECORDS, _weight):
            what = f"writing {len(batch)} records of {table!r}"
            self._connection.write(what, upsert, self._name, batch, wait=True)

    def delete(self, table: str, row_id: str) -> bool:
        if self.get(table, row_id) is None:
            return False
        self._remove(table, models.PointIdsList(points=[_point_id(table, row_id)]))
        return True

    def prune(self, table: str, *, before: float) -> int:
        selector = _table_filter(table, lt=before)
        count = self._connection.client.count
        what = f"counting old records of {table!r}"
        found = self._connection.ask(what, count, self._name, selector, exact=True).count
        if found:
            self._remove(table, models.FilterSelector(filter=selector))
        return found

    def _remove(self, table: str, selector: models.PointIdsList | models.FilterSelector) -> None:
        delete, what = self._connection.client.delete, f"removing records of {table!r}"
        self._connection.write(what, delete, self._name, selector, wait=True)

    # -- reading ---------------------------------------------------------------------------

    def get(self, table: str, row_id: str) -> DbRow | None:
        if not is_text(table, row_id):
            return None
        retrieve = self._connection.client.retrieve
        what = f"reading a record of {table!r}"
        wanted = [_point_id(table, row_id)]
        found = self._connection.ask(what, retrieve, self._name, wanted, with_payload=True)
        return self._row(found[0]) if found else None

    def newest(
        self, table: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[DbRow]:
        if limit < 1:
            return []
        if before is None:
            return list(islice(self._ordered_rows(table, DESCENDING, limit + 1), limit))
        at = before[0]
        beside = (row for row in self._rows_at(table, at, DESCENDING) if (row.at, row.id) < before)
        beyond = self._ordered_rows(table, DESCENDING, limit + 1, beyond=at)
        return list(islice(chain(beside, beyond), limit))

    def read(self, table: str) -> Iterator[DbRow]:
        return self._ordered_rows(table, ASCENDING, _PAGE_RECORDS)

    def tables(self) -> list[str]:
        facet = self._connection.client.facet
        limit = FIRST_TABLES_LIMIT
        while True:
            what = "listing the tables"
            found = self._connection.ask(what, facet, self._name, "table", limit=limit, exact=True)
            if len(found.hits) < limit:
                return sorted(str(hit.value) for hit in found.hits if hit.count)
            limit *= 10

    def close(self) -> None:
        self._connection.close()

    def _ordered_rows(
        self, table: str, direction: models.Direction, page: int, *, beyond: float | None = None
    ) -> Iterator[DbRow]:
        """The records of a table, page by page, from behind the microsecond `beyond`."""
        while True:
            past = {} if beyond is None else {"gt" if direction is ASCENDING else "lt": beyond}
            by = models.OrderBy(key="at", direction=direction)
            found, _ = self._scroll(table, _table_filter(table, **past), limit=page, order_by=by)
            if len(found) < page:
                yield from _sort_rows(found, direction)
                return
            # A page may end within a microsecond, whose records are then read together.
            last = _microsecond(found[-1].at)
            yield from _sort_rows((row for row in found if _microsecond(row.at) != last), direction)
            yield from self._rows_at(table, last, direction)
            beyond = last

    def _rows_at(self, table: str, at: float, direction: models.Direction) -> list[DbRow]:
        """All records of one microsecond, in order."""
        rows: list[DbRow] = []
        offset: Any = None
        while True:
            within = _table_filter(table, gte=at, lte=at)
            found, offset = self._scroll(table, within, limit=_PAGE_RECORDS, offset=offset)
            rows += found
            if offset is None:
                return _sort_rows(rows, direction)

    def _scroll(self, table: str, where: models.Filter, **options: Any) -> tuple[list[DbRow], Any]:
        found, offset = self._connection.ask(
            f"reading through {table!r}",
            self._connection.client.scroll,
            self._name,
            scroll_filter=where,
            with_payload=True,
            **options,
        )
        return [self._row(record) for record in found], offset

    def _row(self, record: models.Record) -> DbRow:
        payload = record.payload or {}
        place = f"the collection {self._name!r} at {self._connection.place}"
        try:
            return read_row(payload["id"], float(payload["time"]), payload["body"], place)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamagedError(
                f"the point {record.id} in {place} is no record of toolcrib; delete it, or "
                "restore a snapshot"
            ) from error


def _sort_rows(rows: Iterable[DbRow], direction: models.Direction) -> list[DbRow]:
    return sorted(rows, key=lambda row: (row.at, row.id), reverse=direction is DESCENDING)


def _point_id(table: str, row_id: str) -> str:
    """Id of a record's point: 128 bits of a digest, as callers may choose ids."""
    name = f"{len(table)}:{table}{row_id}".encode()
    return str(uuid.UUID(bytes=hashlib.blake2b(name, digest_size=16).digest()))


def _point(table: str, row: DbRow) -> models.PointStruct:
    payload = {
        "table": table,
        "id": row.id,
        "at": _microsecond(row.at),
        "time": repr(float(row.at)),
        "body": body_text(table, row),
    }
    return models.PointStruct(id=_point_id(table, row.id), vector={}, payload=payload)


def _weight(point: models.PointStruct) -> int:
    return len((point.payload or {})["body"])


def _microsecond(at: float) -> float:
    """A time in whole microseconds, finite, as JSON cannot write infinity."""
    largest = sys.float_info.max
    return round(min(max(at, -largest), largest), SECOND_DIGITS)


def _table_filter(table: str, **bounds: float) -> models.Filter:
    """Filter of a table's records, with `bounds` (`lt`, `lte`, `gt`, `gte`) of the microsecond."""
    whose = models.FieldCondition(key="table", match=models.MatchValue(value=table))
    limits = {name: _microsecond(bound) for name, bound in bounds.items()}
    when = [models.FieldCondition(key="at", range=models.Range(**limits))] if limits else []
    return models.Filter(must=[whose, *when])
