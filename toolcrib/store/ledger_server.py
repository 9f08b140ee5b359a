"""A ledger on a Qdrant server or cluster: a collection of points without vectors.

Importing this module takes seconds (`qdrant-client`): `build` does it when a URL is configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from toolcrib.errors import (
    MissingExtraError,
    StoreError,
    StoreUnavailableError,
)
from toolcrib.store.ledger import Entry
from toolcrib.store.ledger_text import is_text

try:
    from qdrant_client import QdrantClient, models
except ModuleNotFoundError as missing:
    raise MissingExtraError("a Qdrant server", "server") from missing

from toolcrib.store import ledger_requests as requests
from toolcrib.store.ledger_requests import moment
from toolcrib.store.server_collections import META_KEY, Collections
from toolcrib.store.qdrant_client import Wire, connect, shown

__all__ = ["ServerLedger"]

PAGE = 500
SHELVES_AT_FIRST = 1000

OURS = "ledger"

ASCENDING, DESCENDING = models.Direction.ASC, models.Direction.DESC


class ServerLedger:
    """A `Ledger` in one collection; safe to use from several threads.

    The server finds the shelf and the microsecond; within one, records are put in order here.
    """

    def __init__(self, wire: Wire, name: str, *, owns_client: bool) -> None:
        self._wire = wire
        self._name = name
        self._owns_client = owns_client

    @classmethod
    def open(
        cls,
        url: str,
        *,
        api_key: str | None = None,
        collection: str = "toolcrib-ledger",
        timeout_s: float = 10.0,
        replicas: int | None = None,
    ) -> ServerLedger:
        """Open the collection, or make it: with one shard, since a ledger is small.

        Raises:
            StoreUnavailableError: the server does not answer.
            StoreError: not a URL, a refused API key, a server older than 1.19, or a collection
                that toolcrib did not make.
        """
        wire = Wire(connect(url, api_key, timeout_s), shown(url))
        ledger = cls(wire, collection, owns_client=True)
        try:
            ledger._make(replicas)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def over(
        cls,
        client: QdrantClient,
        *,
        collection: str = "toolcrib-ledger",
        place: str = "the client given",
    ) -> ServerLedger:
        """Open it over a client that is there already, and that `close` leaves open.

        Raises:
            StoreError: as `open`.
        """
        ledger = cls(Wire(client, place), collection, owns_client=False)
        ledger._make(None)
        return ledger

    # -- writing ---------------------------------------------------------------------------

    def put(self, shelf: str, entry: Entry) -> None:
        """Write a record, or replace the one of the same id; durable when this returns.

        Raises:
            StoreUnavailableError: the server does not answer.
            StoreWriteError: its disk is full.
            StoreError: the record is not fit to be kept.
        """
        self.put_all(shelf, [entry])

    def put_all(self, shelf: str, entries: Sequence[Entry]) -> None:
        """Write records; durable when this returns.

        Raises:
            StoreError: as `put`; some may be written, and the call can be repeated as it was.
        """
        # Of one id twice in a request, the last one must stay.
        points = {point.id: point for point in (requests.point(shelf, entry) for entry in entries)}
        upsert = self._wire.client.upsert
        for batch in requests.batches(points.values()):
            what = f"writing {len(batch)} records of {shelf!r}"
            self._require_done(self._wire.ask(what, upsert, self._name, batch, wait=True))

    def delete(self, shelf: str, entry_id: str) -> bool:
        """Remove a record; whether there was one. Durable when this returns."""
        if self.get(shelf, entry_id) is None:
            return False
        self._remove(shelf, models.PointIdsList(points=[requests.point_id(shelf, entry_id)]))
        return True

    def prune(self, shelf: str, *, before: float) -> int:
        """Remove what is older than this time, to the microsecond; counts what went."""
        doomed = requests.records_of(shelf, lt=before)
        count = self._wire.client.count
        what = f"counting what is old in {shelf!r}"
        found = self._wire.ask(what, count, self._name, doomed, exact=True).count
        if found:
            self._remove(shelf, models.FilterSelector(filter=doomed))
        return found

    # -- reading ---------------------------------------------------------------------------

    def get(self, shelf: str, entry_id: str) -> Entry | None:
        """The record with this id, None where there is none.

        Raises:
            StoreUnavailableError: the server does not answer.
            StoreDamagedError: the record cannot be read.
        """
        if not is_text(shelf, entry_id):
            return None
        retrieve = self._wire.client.retrieve
        what = f"reading a record of {shelf!r}"
        wanted = [requests.point_id(shelf, entry_id)]
        found = self._wire.ask(what, retrieve, self._name, wanted, with_payload=True)
        return self._entry(found[0]) if found else None

    def newest(
        self, shelf: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[Entry]:
        """The last records, newest first; with `before`, only those ordered before that pair."""
        if limit < 1:
            return []
        if before is None:
            return list(islice(self._in_order(shelf, DESCENDING, limit + 1), limit))
        at = before[0]
        beside = (e for e in self._moment(shelf, at, DESCENDING) if (e.at, e.id) < before)
        beyond = self._in_order(shelf, DESCENDING, limit + 1, beyond=at)
        return list(islice(chain(beside, beyond), limit))

    def read(self, shelf: str) -> Iterator[Entry]:
        """Every record of a shelf, oldest first, in pages: others may write in between."""
        return self._in_order(shelf, ASCENDING, PAGE)

    def shelves(self, prefix: str = "") -> list[str]:
        """The shelves that hold anything and begin so, by name."""
        facet = self._wire.client.facet
        limit = SHELVES_AT_FIRST
        while True:
            what = "listing the shelves"
            hits = self._wire.ask(what, facet, self._name, "shelf", limit=limit, exact=True).hits
            if len(hits) < limit:
                names = [str(hit.value) for hit in hits if hit.count]
                return sorted(name for name in names if name.startswith(prefix))
            limit *= 10

    def close(self) -> None:
        """Close the connections, unless the client was given; a second call does nothing."""
        self._wire.close(client_too=self._owns_client)

    # -- the collection --------------------------------------------------------------------

    def _make(self, replicas: int | None) -> None:
        """Make sure that the collection is there, is ours, and has its indexes."""
        self._wire.require_version()
        collections = Collections(self._wire, self._name)
        if not collections.exists():
            self._create(collections, replicas)
        found = collections.describe()
        if (found.config.metadata or {}).get(META_KEY) != OURS:
            raise StoreError(
                f"the collection {self._name!r} at {self._wire.place} is no ledger of toolcrib: "
                "set server.collection to another name, or delete this one",
            )
        index = self._wire.client.create_payload_index
        for field, kind in requests.INDEXES.items():
            if field not in found.payload_schema:
                self._wire.ask(f"indexing the field {field!r}", index, self._name, field, kind)

    def _create(self, collections: Collections, replicas: int | None) -> None:
        try:
            self._wire.ask(
                f"making the collection {self._name!r}",
                self._wire.client.create_collection,
                self._name,
                vectors_config={},
                shard_number=1,
                replication_factor=replicas,
                metadata={META_KEY: OURS},
            )
        except StoreUnavailableError:
            raise
        except StoreError:
            # Another process may have made it since we looked, or our own first try did.
            if not collections.exists():
                raise

    def _in_order(
        self, shelf: str, direction: models.Direction, page: int, *, beyond: float | None = None
    ) -> Iterator[Entry]:
        """The records of a shelf, page by page; `beyond`: only those past this microsecond."""
        while True:
            found = self._page(shelf, direction, page, beyond)
            if len(found) < page:
                yield from _sorted(found, direction)
                return
            # The page may end among records of one microsecond: those are read whole.
            last = moment(found[-1].at)
            yield from _sorted((e for e in found if moment(e.at) != last), direction)
            yield from self._moment(shelf, last, direction)
            beyond = last

    def _page(
        self, shelf: str, direction: models.Direction, limit: int, beyond: float | None
    ) -> list[Entry]:
        past = {} if beyond is None else {"gt" if direction is ASCENDING else "lt": beyond}
        found, _ = self._wire.ask(
            f"reading through {shelf!r}",
            self._wire.client.scroll,
            self._name,
            scroll_filter=requests.records_of(shelf, **past),
            limit=limit,
            order_by=requests.ordered_by(direction),
            with_payload=True,
        )
        return [self._entry(record) for record in found]

    def _moment(self, shelf: str, at: float, direction: models.Direction) -> list[Entry]:
        """All records of one microsecond, in order."""
        entries: list[Entry] = []
        offset: Any = None
        while True:
            found, offset = self._wire.ask(
                f"reading through {shelf!r}",
                self._wire.client.scroll,
                self._name,
                scroll_filter=requests.records_of(shelf, gte=at, lte=at),
                limit=PAGE,
                offset=offset,
                with_payload=True,
            )
            entries += [self._entry(record) for record in found]
            if offset is None:
                return _sorted(entries, direction)

    def _entry(self, record: models.Record) -> Entry:
        return requests.read_point(record, f"the collection {self._name!r} at {self._wire.place}")

    def _remove(self, shelf: str, doomed: models.PointIdsList | models.FilterSelector) -> None:
        delete, what = self._wire.client.delete, f"removing records of {shelf!r}"
        self._require_done(self._wire.ask(what, delete, self._name, doomed, wait=True))

    def _require_done(self, result: models.UpdateResult) -> None:
        if result.status != models.UpdateStatus.COMPLETED:
            raise StoreUnavailableError(
                f"the Qdrant server at {self._wire.place} took a write and did not finish it in "
                f"time ({result.status.value}); repeat it when the server is less busy",
            )


def _sorted(entries: Iterable[Entry], direction: models.Direction) -> list[Entry]:
    return sorted(entries, key=lambda e: (e.at, e.id), reverse=direction is DESCENDING)
