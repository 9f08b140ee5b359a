"""A Qdrant server or cluster as a store.

Importing this module takes seconds (`qdrant-client`): `build` does it when a URL is configured.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from toolcrib.encoders.base import SparseVector
from toolcrib.errors import (
    BadPointError,
    MissingExtraError,
    StoreUnavailableError,
)
from toolcrib.store.filters import Filter
from toolcrib.store.base import (
    Layout,
    LegQuery,
    Point,
    Record,
    Scored,
    StoreInfo,
    check_point,
    check_sparse,
)

try:
    from qdrant_client import QdrantClient, models
except ModuleNotFoundError as missing:
    raise MissingExtraError("a Qdrant server", "server") from missing

from toolcrib.store import server_requests as requests
from toolcrib.store.server_collections import META_KEY, Collections
from toolcrib.store.qdrant_client import Wire, connect, shown

__all__ = ["ServerStore"]

SCROLL_PAGE = 500
IDS_A_REQUEST = 1000

Item = TypeVar("Item")


class ServerStore:
    """A `Store` behind one name on a Qdrant server; safe to use from several threads.

    The small document of `write_meta` is kept as text under one key of the collection's own
    metadata: it lives and dies with the collection, a cluster replicates it by consensus, and
    one key is replaced whole where several would be merged with what was there.
    """

    def __init__(self, collections: Collections, layout: Layout, *, owns_client: bool) -> None:
        self._collections = collections
        self._wire = collections.wire
        self._name = collections.name
        self._layout = layout
        self._owns_client = owns_client

    @classmethod
    def open(
        cls,
        url: str,
        layout: Layout,
        *,
        api_key: str | None = None,
        collection: str = "toolcrib",
        timeout_s: float = 10.0,
        shards: int | None = None,
        replicas: int | None = None,
    ) -> ServerStore:
        """Open the collection with the layout that it has, or make it with `layout`.

        `shards` and `replicas` matter only when a collection is made.

        Raises:
            StoreUnavailableError: the server does not answer.
            StoreError: not a URL, a refused API key, a server older than 1.19.
            IndexMismatchError: toolcrib did not make the collection, and its vectors are others.
        """
        wire = Wire(connect(url, api_key, timeout_s), shown(url))
        collections = Collections(wire, collection, shards, replicas)
        try:
            return cls(collections, collections.open(layout), owns_client=True)
        except BaseException:
            wire.close(client_too=True)
            raise

    @classmethod
    def over(
        cls,
        client: QdrantClient,
        layout: Layout,
        *,
        collection: str = "toolcrib",
        place: str = "the client given",
    ) -> ServerStore:
        """Open the collection over a client that is there already, and that `close` leaves open.

        Raises:
            StoreError: as `open`.
        """
        collections = Collections(Wire(client, place), collection)
        return cls(collections, collections.open(layout), owns_client=False)

    @property
    def layout(self) -> Layout:
        """The named vectors that the collection was made with."""
        return self._layout

    # -- writing ---------------------------------------------------------------------------

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points, in requests of bounded size; durable when this returns.

        Raises:
            BadPointError: a point is not fit for the engine; nothing of the call is written.
            StoreError: a request failed; those before it are written, and the call can be
                repeated as it was.
        """
        upsert = self._wire.client.upsert
        for point in points:
            check_point(point, self._layout)
        for batch in requests.batches(points):
            what = f"writing {len(batch)} points to {self._name!r}"
            structs = requests.points(batch)
            self._require_completed(self._wire.ask(what, upsert, self._name, structs, wait=True))

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        """Replace one sparse vector of existing points; durable when this returns.

        Raises:
            BadPointError: there is no sparse vector `using`, or one given is not fit.
            StoreError: a point does not exist; the others of the call may be written.
        """
        update = self._wire.client.update_vectors
        if using not in self._layout.sparse:
            raise BadPointError(f"there is no sparse vector {using!r}")
        for owner, vector in vectors.items():
            check_sparse(owner, using, vector)
        for page in _pages(requests.sparse_updates(using, vectors), requests.MAX_BATCH_POINTS):
            what = f"writing {len(page)} sparse vectors to {self._name!r}"
            self._require_completed(self._wire.ask(what, update, self._name, page, wait=True))

    def delete(self, ids: Iterable[int]) -> None:
        """Remove points; unknown ids are no error; durable when this returns."""
        delete = self._wire.client.delete
        for page in _pages(requests.well_formed(ids), IDS_A_REQUEST):
            what = f"deleting {len(page)} points from {self._name!r}"
            doomed = models.PointIdsList(points=[*page])
            self._require_completed(self._wire.ask(what, delete, self._name, doomed, wait=True))

    def _require_completed(self, result: models.UpdateResult) -> None:
        if result.status != models.UpdateStatus.COMPLETED:
            raise StoreUnavailableError(
                f"the Qdrant server at {self._wire.place} took a write and did not finish it in "
                f"time ({result.status.value}); repeat it when the server is less busy",
            )

    # -- reading ---------------------------------------------------------------------------

    def search(self, queries: Sequence[LegQuery]) -> list[list[Scored]]:
        """Answer each query best first; all of them are one request."""
        query = self._wire.client.query_batch_points
        asked = [place for place, leg in enumerate(queries) if _can_match(leg)]
        answers: list[list[Scored]] = [[] for _ in queries]
        if not asked:
            return answers
        batch = [requests.query(queries[place], self._layout) for place in asked]
        responses = self._wire.ask(f"searching {self._name!r}", query, self._name, batch)
        for place, response in zip(asked, responses, strict=True):
            answers[place] = [Scored(_number(hit.id), hit.score) for hit in response.points]
        return answers

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        """The points with these ids, whole payloads, in the order asked; unknown ones left out."""
        retrieve = self._wire.client.retrieve
        found: dict[int, Mapping[str, Any]] = {}
        for page in _pages(requests.well_formed(ids), IDS_A_REQUEST):
            what = f"reading {len(page)} points of {self._name!r}"
            records = self._wire.ask(what, retrieve, self._name, page, with_payload=True)
            found |= {_number(record.id): record.payload or {} for record in records}
        return [Record(point_id, found[point_id]) for point_id in ids if point_id in found]

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        """Every matching point, with only these payload fields (None: all), in a fixed order.

        `after`: the id of a point, there or gone, behind which to begin.
        """
        scroll = self._wire.client.scroll
        condition = requests.condition(where)
        wanted = True if fields is None else list(fields) or False
        offset: Any = None if after is None else after + 1
        while True:
            page, offset = self._wire.ask(
                f"reading through {self._name!r}",
                scroll,
                self._name,
                scroll_filter=condition,
                limit=SCROLL_PAGE,
                offset=offset,
                with_payload=wanted,
            )
            yield from (Record(_number(record.id), record.payload or {}) for record in page)
            if offset is None:
                return

    def count(self, where: Filter | None = None) -> int:
        """How many points match, exactly."""
        count = self._wire.client.count
        condition = requests.condition(where)
        what = f"counting in {self._name!r}"
        return self._wire.ask(what, count, self._name, condition, exact=True).count

    # -- the rest --------------------------------------------------------------------------

    def read_meta(self) -> Mapping[str, Any]:
        """The small document kept beside the points; empty for a new store."""
        metadata = self._collections.describe().config.metadata or {}
        return json.loads(metadata.get(META_KEY, "{}"))

    def write_meta(self, meta: Mapping[str, Any]) -> None:
        """Replace that document; durable when this returns."""
        update = self._wire.client.update_collection
        metadata = {META_KEY: json.dumps(meta, sort_keys=True)}
        what = f"writing the metadata of {self._name!r}"
        self._wire.ask(what, update, self._name, metadata=metadata)

    @contextmanager
    def renew(self, layout: Layout) -> Generator[ServerStore]:
        """An empty store beside this one, which takes its place when the block ends well.

        Searches from everywhere go to the old one until then. One process at a time renews.

        Raises:
            StoreError: the collection is not behind an alias that toolcrib made.
        """
        collections = self._collections
        live = collections.live()
        collections.remove_leftovers(live)
        fresh = collections.unused()
        collections.make(fresh, layout)
        beside = ServerStore(Collections(self._wire.another(), fresh), layout, owns_client=False)
        try:
            yield beside
        except BaseException:
            collections.remove(fresh)
            raise
        finally:
            beside.close()
        collections.point_to(fresh)
        self._layout = layout
        collections.remove(live)

    def optimise(self) -> None:
        """Nothing to do: a server optimises by itself, beside its searches."""

    def info(self) -> StoreInfo:
        """Describe the store."""
        status = self._collections.describe().status
        return StoreInfo(
            engine=f"Qdrant server {self._wire.require_version()}",
            location=f"{self._wire.place}, collection {self._name!r}",
            points=self.count(),
            optimised=status == models.CollectionStatus.GREEN,
        )

    def close(self) -> None:
        """Close the connections, unless the client was given; a second call does nothing."""
        self._wire.close(client_too=self._owns_client)


def _number(point: Any) -> int:
    """A point's id as we gave it; the client's types allow UUIDs too."""
    return point


def _can_match(leg: LegQuery) -> bool:
    """Whether it is worth asking: a server refuses a limit of 0, and no term finds nothing."""
    if isinstance(leg.vector, SparseVector) and leg.vector.indices.size == 0:
        return False
    return leg.limit > 0


def _pages(items: list[Item], size: int) -> Iterator[list[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
