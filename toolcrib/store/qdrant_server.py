"""Qdrant server: a store on a server or cluster.

The name that users set is an alias of one of the collections `NAME.g0001`, `NAME.g0002`, ....
Searches go to the alias, which a server moves in one step, so that searches always find it.

Importing this module takes seconds (`qdrant-client`): only stores with a URL import it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import sleep
from typing import Any, Literal, Self

import numpy as np

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.errors import IndexMismatchError, StoreError
from toolcrib.store.base import (
    CopyChanges,
    Layout,
    LegQuery,
    ListRequest,
    Point,
    Record,
    ScoredPoint,
    Store,
    StoreInfo,
    check_point,
    check_sparse,
    named_vectors,
    pages,
    valid_ids,
)
from toolcrib.store.filters import (
    KEYWORD_FIELDS,
    NUMBER_FIELDS,
    TENANT_FIELD,
    YIELDS_FIELD,
    And,
    AnyOf,
    Equals,
    Filter,
    HasId,
    Not,
    Or,
    Range,
    as_keyword,
)
from toolcrib.store.qdrant_client import OWN_META_KEY, QdrantConnection, batches, connect, models

_SCROLL_PAGE_POINTS = 500
MAX_REQUEST_IDS = 1000
MAX_REQUEST_VECTORS = 100

_MAX_BATCH_POINTS = 256
_NUMBER_BYTES = 22
"""Longest float32 as JSON, which writes it as a double, with its comma."""

SHARED_SHARD = "SHARED"
"""Key of the shard of all tenants without their own shard; no namespace can have this name."""

_OVERSAMPLING = 2.0

MAX_COPY_PASSES = 10
IN_FLIGHT_WRITES_S = 1.0
"""Time until writes that a server accepted just before the swap are in the old collection."""

_META_ENTRY_PREFIX = f"{OWN_META_KEY}/"
"""Prefix of the collection's metadata keys that hold entries of the store's metadata."""


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """Storage plan of a collection. None is the server's choice; for `quantization` it is int8.

    `on_disk`: vectors, graph and words are read from the disk; int8 copies stay in memory.
    `tenant_shards`: each of these tenants has its own `shards`; all other tenants share one.
    """

    shards: int | None = None
    replicas: int | None = None
    on_disk: bool | None = None
    quantization: Literal["int8", "none"] | None = None
    tenant_shards: tuple[str, ...] | None = None


SERVER_DEFAULTS = CollectionPlan()


class ServerStore(Store):
    """A `Store` behind one alias, `name`, on a Qdrant server; safe to use from several threads.

    Each entry of the store's metadata is a text under a key of the collection's metadata: it is
    deleted with the collection, and a cluster replicates it by consensus. A server merges keys, so
    processes may write different entries at once.
    """

    def __init__(
        self,
        connection: QdrantConnection,
        name: str,
        layout: Layout,
        plan: CollectionPlan = SERVER_DEFAULTS,
    ) -> None:
        self._connection = connection
        self.name = name
        self.layout = layout
        self._plan = plan
        self._by_tenant = plan.tenant_shards is not None
        self._shard: models.ShardKeyWithFallback | None = None

    @classmethod
    def open(
        cls,
        url: str,
        layout: Layout,
        *,
        api_key: str | None = None,
        collection: str = "toolcrib",
        timeout_s: float = 10.0,
        plan: CollectionPlan = SERVER_DEFAULTS,
    ) -> ServerStore:
        """Open the collection with its own layout, or make it with `layout` and `plan`.

        Raises:
            StoreUnavailableError: the server does not answer.
            StoreError: not a URL, a refused API key, a server older than 1.19.
            IndexMismatchError: toolcrib did not make the collection, and its vectors differ.
        """
        connection = connect(url, api_key, timeout_s)
        store = cls(connection, collection, layout, plan)
        try:
            store._open()
        except BaseException:
            store.close()
            raise
        return store

    def plan(self) -> CollectionPlan:
        """Plan of the live collection."""
        params = self._connection.describe(self.name).config.params
        vectors = params.vectors if isinstance(params.vectors, dict) else {}
        dense = [each for each in vectors.values() if each.multivector_config is None]
        is_int8 = any(each.quantization_config is not None for each in dense)
        keys = self._connection.shard_keys(self.name)
        return CollectionPlan(
            params.shard_number,
            params.replication_factor,
            any(bool(each.on_disk) for each in dense),
            "int8" if is_int8 else "none",
            tuple(sorted(keys - {SHARED_SHARD})) if keys else None,
        )

    def of_tenant(self, namespace: str) -> ServerStore:
        """The store, limited to the shard of a tenant's points."""
        store = copy(self)
        if self._by_tenant:
            target = models.ShardKeyWithFallback(target=namespace, fallback=SHARED_SHARD)
            store._shard = target  # noqa: SLF001 -- of its own class
        return store

    # -- writing ---------------------------------------------------------------------------

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points in requests of bounded size; after a failure repeat the whole call."""
        upsert = self._connection.client.upsert
        for point in points:
            check_point(point, self.layout)
        for batch in batches(points, _MAX_BATCH_POINTS, _weight):
            what = f"writing {len(batch)} points to {self.name!r}"
            self._write(what, upsert, [*map(_struct, batch)])

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        """Replace one sparse vector of points; a missing point is an error, others may be set."""
        update = self._connection.client.update_vectors
        check_sparse(using, vectors, self.layout)
        updates = [
            models.PointVectors(id=owner, vector={using: _sparse(vector)})
            for owner, vector in vectors.items()
        ]
        for page in pages(updates, _MAX_BATCH_POINTS):
            what = f"writing {len(page)} sparse vectors to {self.name!r}"
            self._write(what, update, [*page])

    def delete(self, ids: Iterable[int]) -> None:
        delete = self._connection.client.delete
        for page in pages(valid_ids(ids), MAX_REQUEST_IDS):
            what = f"deleting {len(page)} points from {self.name!r}"
            self._write(what, delete, models.PointIdsList(points=[*page]))

    # -- reading ---------------------------------------------------------------------------

    @property
    def is_remote(self) -> bool:
        return True

    def search(self, queries: Sequence[LegQuery]) -> list[list[ScoredPoint]]:
        return self.search_and_list(queries, ())[0]

    def search_and_list(
        self, queries: Sequence[LegQuery], listings: Sequence[ListRequest]
    ) -> tuple[list[list[ScoredPoint]], list[list[Record]]]:
        query = self._connection.client.query_batch_points
        places = [place for place, leg in enumerate(queries) if _can_match(leg)]
        found: list[list[ScoredPoint]] = [[] for _ in queries]
        batch = [_query(queries[place], self.layout, self._shard) for place in places]
        batch += [_list_query(each, self._shard) for each in listings]
        if not batch:
            return found, []
        what = f"searching {self.name!r}"
        # The client's types allow UUIDs as ids too.
        answered: list[Any] = self._connection.ask(what, query, self.name, batch)
        answers = [each.points for each in answered]
        for place, hits in zip(places, answers, strict=False):
            found[place] = [ScoredPoint(hit.id, hit.score) for hit in hits]
        listed = [
            [Record(hit.id, hit.payload or {}) for hit in hits] for hits in answers[len(places) :]
        ]
        return found, listed

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        retrieve = self._connection.client.retrieve
        found: dict[int, Mapping[str, Any]] = {}
        for page in pages(valid_ids(ids), MAX_REQUEST_IDS):
            what = f"reading {len(page)} points of {self.name!r}"
            records = self._ask(what, retrieve, [*page], with_payload=True)
            found |= {record.id: record.payload or {} for record in records}
        return [Record(point_id, found[point_id]) for point_id in ids if point_id in found]

    def vectors(self, ids: Sequence[int], using: str) -> dict[int, FloatArray]:
        retrieve = self._connection.client.retrieve
        found: dict[int, FloatArray] = {}
        for page in pages(valid_ids(ids), MAX_REQUEST_VECTORS):
            what = f"reading {len(page)} vectors of {self.name!r}"
            records = self._ask(what, retrieve, [*page], with_payload=False, with_vectors=[using])
            for record in records:
                named: Any = record.vector or {}
                if named.get(using):
                    found[record.id] = np.asarray(named[using], dtype=np.float32)
        return found

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        scroll = self._connection.client.scroll
        condition = _to_filter(where)
        wanted = True if fields is None else list(fields) or False
        offset: Any = None if after is None else after + 1
        while True:
            page, offset = self._ask(
                f"reading through {self.name!r}",
                scroll,
                scroll_filter=condition,
                limit=_SCROLL_PAGE_POINTS,
                offset=offset,
                with_payload=wanted,
            )
            yield from (Record(record.id, record.payload or {}) for record in page)
            if offset is None:
                return

    def count(self, where: Filter | None = None) -> int:
        count, what = self._connection.client.count, f"counting in {self.name!r}"
        return self._ask(what, count, _to_filter(where), exact=True).count

    def _ask(self, what: str, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Send a request about points, to the tenant's shard if there is one."""
        more["shard_key_selector"] = self._shard
        return self._connection.ask(what, call, self.name, *given, **more)

    def _write(self, what: str, call: Callable[..., models.UpdateResult], *given: Any) -> None:
        more: Any = {"wait": True, "shard_key_selector": self._shard}
        self._connection.write(what, call, self.name, *given, **more)

    # -- the rest --------------------------------------------------------------------------

    def read_meta(self) -> Mapping[str, Any]:
        metadata: Mapping[str, str] = self._connection.describe(self.name).config.metadata or {}
        return {
            key.removeprefix(_META_ENTRY_PREFIX): json.loads(text)
            for key, text in metadata.items()
            if key.startswith(_META_ENTRY_PREFIX)
        }

    def write_meta(self, entries: Mapping[str, Any]) -> None:
        if not entries:
            return
        update = self._connection.client.update_collection
        metadata = {
            _META_ENTRY_PREFIX + key: None if value is None else json.dumps(value, sort_keys=True)
            for key, value in entries.items()
        }
        what = f"writing the metadata of {self.name!r}"
        self._connection.ask(what, update, self.name, metadata=metadata)

    @contextmanager
    def renew(self, layout: Layout, copy: CopyChanges | None = None) -> Generator[ServerStore]:
        """As the protocol says; until the swap, all searches go to the old collection.

        `copy` copies writes of other processes before the swap, and afterwards the writes that
        were in flight. Only one process may renew at a time.
        """
        live = self._live()
        for name in self._generations():
            if name != live:  # left by an interrupted renewal
                self._remove(name)
        fresh = self._generation(1 + max(self._generations().values(), default=0))
        chosen = {name: value for name, value in asdict(self._plan).items() if value is not None}
        plan = replace(self.plan(), **chosen)
        self._make(fresh, layout, plan)
        self._connection.wait_for_nodes(fresh)
        beside = ServerStore(self._connection, fresh, layout, plan)
        old = ServerStore(self._connection, live, self.layout, plan)
        try:
            yield beside
            if copy is not None:
                _copy_all_changes(copy, old, beside)
        except BaseException:
            self._remove(fresh)
            raise
        self._move_alias(fresh)
        self.layout, self._by_tenant = layout, plan.tenant_shards is not None
        if copy is not None:
            sleep(IN_FLIGHT_WRITES_S)
            _copy_all_changes(copy, old, self)
        self._remove(live)

    def optimise(self) -> None:
        """Do nothing: a server optimises by itself during searches."""

    def info(self) -> StoreInfo:
        found = self._connection.describe(self.name)
        return StoreInfo(
            engine=f"Qdrant server {self._connection.require_version()}",
            location=f"{self._connection.place}, collection {self.name!r}",
            points=self.count(),
            optimised=found.status == models.CollectionStatus.GREEN,
            unindexed_fields=tuple(sorted(_payload_indexes().keys() - found.payload_schema.keys())),
        )

    def close(self) -> None:
        self._connection.close()

    # -- the collections behind the name -----------------------------------------------------

    def _open(self) -> None:
        """Make the collection with our layout, or read the layout of an existing one."""
        self._connection.require_version()
        if not self._connection.has(self.name):
            # Processes that start at once choose the same name: only the first one makes it.
            first_generation = self._generation(1)
            self._remove_unfinished(first_generation)
            self._make(first_generation, self.layout, self._plan)
            self._connection.wait_for_nodes(first_generation)
            self._move_alias(first_generation)
        found = self._connection.describe(self.name)
        if OWN_META_KEY in (found.config.metadata or {}):
            self.layout = _layout_of(found.config.params)
        self._by_tenant = found.config.params.sharding_method == models.ShardingMethod.CUSTOM
        self._require_layout(self.name, found, self.layout)
        self._connection.index_fields(self.name, found, _payload_indexes())

    def _remove_unfinished(self, name: str) -> None:
        """Remove a collection without an alias, left by an interrupted start with another plan."""
        if self._connection.has(name):
            found = self._connection.describe(name)
            by_tenant = found.config.params.sharding_method == models.ShardingMethod.CUSTOM
            if by_tenant != (self._plan.tenant_shards is not None) and not found.points_count:
                self._remove(name)

    def _live(self) -> str:
        """The collection that the alias names now."""
        get_aliases = self._connection.client.get_aliases
        for alias in self._connection.ask("reading the aliases", get_aliases).aliases:
            if alias.alias_name == self.name:
                return alias.collection_name
        raise StoreError(
            f"{self.name!r} at {self._connection.place} is a collection, not an alias that "
            "toolcrib made, and cannot be rebuilt; set server.collection to a new name and index "
            "the sources again"
        )

    def _make(self, name: str, layout: Layout, plan: CollectionPlan) -> None:
        """Make a collection with an index on every field that a filter may name."""
        words = None if plan.on_disk is None else models.SparseIndexParams(on_disk=plan.on_disk)
        idf = models.SparseVectorParams(modifier=models.Modifier.IDF, index=words)
        graph = None if plan.on_disk is None else models.HnswConfigDiff(on_disk=plan.on_disk)
        method = None if plan.tenant_shards is None else models.ShardingMethod.CUSTOM
        if method is not None and not self._connection.peers():
            raise StoreError(
                f"the Qdrant server at {self._connection.place} is not in cluster mode, which "
                "shards by tenant need: start it with QDRANT__CLUSTER__ENABLED=true, or leave out "
                "server.tenant_shards"
            )
        self._connection.make(
            name,
            "{}",
            vectors_config=_dense_vectors(layout, plan),
            sparse_vectors_config=dict.fromkeys(layout.sparse, idf),
            hnsw_config=graph,
            shard_number=plan.shards,
            replication_factor=plan.replicas,
            sharding_method=method,
        )
        if plan.tenant_shards is not None:
            self._connection.make_shards(name, SHARED_SHARD, plan.tenant_shards)
        found = self._connection.describe(name)
        self._require_layout(name, found, layout)
        self._connection.index_fields(name, found, _payload_indexes())

    def _move_alias(self, name: str) -> None:
        """Move the alias to this collection, in one step."""
        to = models.CreateAlias(collection_name=name, alias_name=self.name)
        move = self._connection.client.update_collection_aliases
        what = f"moving the alias {self.name!r} to {name!r}"
        self._connection.ask(what, move, [models.CreateAliasOperation(create_alias=to)])

    def _remove(self, name: str) -> None:
        """Remove an old collection; after a failure the next renewal removes it."""
        with suppress(StoreError):
            delete = self._connection.client.delete_collection
            self._connection.ask(f"removing the collection {name!r}", delete, name)

    def _generation(self, number: int) -> str:
        return f"{self.name}.g{number:04d}"

    def _generations(self) -> dict[str, int]:
        get_collections = self._connection.client.get_collections
        listed = self._connection.ask("listing the collections", get_collections)
        ours = re.compile(re.escape(self.name) + r"\.g(\d{4,})")
        found = [ours.fullmatch(collection.name) for collection in listed.collections]
        return {match[0]: int(match[1]) for match in found if match}

    def _require_layout(self, name: str, found: models.CollectionInfo, wanted: Layout) -> None:
        faults = _layout_faults(wanted, found.config.params)
        if faults:
            raise IndexMismatchError(
                f"the collection {name!r} at {self._connection.place} was made for other models: "
                f"{'; '.join(faults)}; set server.collection to another name, or delete this one"
            )


def _copy_all_changes(copy: CopyChanges, old: Store, new: Store) -> None:
    """Copy until there are no more changes; faster writes are copied after the swap."""
    for _ in range(MAX_COPY_PASSES):
        if not copy(old, new):
            return


def _can_match(leg: LegQuery) -> bool:
    """False for a leg with a limit of 0 or without terms, which finds nothing."""
    is_empty = isinstance(leg.vector, SparseVector) and not leg.vector.indices.size
    return leg.limit > 0 and not is_empty


def _dense_vectors(
    layout: Layout, plan: CollectionPlan = SERVER_DEFAULTS
) -> dict[str, models.VectorParams]:
    """Dense vectors (int8 in memory, originals for the scores) and multivectors."""
    scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    int8 = None if plan.quantization == "none" else models.ScalarQuantization(scalar=scalar)
    max_sim = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    make = partial(models.VectorParams, distance=models.Distance.COSINE, on_disk=plan.on_disk)
    dense = {n: make(size=width, quantization_config=int8) for n, width in layout.dense.items()}
    multi = {n: make(size=width, multivector_config=max_sim) for n, width in layout.multi.items()}
    return dense | multi


def _payload_indexes() -> dict[str, models.PayloadSchemaType | models.KeywordIndexParams]:
    """All fields for filters, with the kind of their index."""
    keyword, number = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.FLOAT
    # A server stores the points of one tenant together.
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return {
        **dict.fromkeys(sorted({*KEYWORD_FIELDS, YIELDS_FIELD}), keyword),
        **dict.fromkeys(sorted(NUMBER_FIELDS), number),
        TENANT_FIELD: tenant,
    }


def _layout_of(found: models.CollectionParams) -> Layout:
    vectors = found.vectors if isinstance(found.vectors, dict) else {}
    return Layout(
        dense={n: v.size for n, v in vectors.items() if v.multivector_config is None},
        multi={n: v.size for n, v in vectors.items() if v.multivector_config is not None},
        sparse=tuple(found.sparse_vectors or {}),
    )


def _layout_faults(layout: Layout, found: models.CollectionParams) -> list[str]:
    """Differences between a collection and `layout`, in words; empty when equal."""
    vectors = found.vectors if isinstance(found.vectors, dict) else {}
    there = {name: _describe(params) for name, params in vectors.items()}
    there |= {
        name: "sparse with IDF" if params.modifier == models.Modifier.IDF else "sparse without IDF"
        for name, params in (found.sparse_vectors or {}).items()
    }
    wanted = {name: _describe(params) for name, params in _dense_vectors(layout).items()}
    wanted |= dict.fromkeys(layout.sparse, "sparse with IDF")
    return [
        f"vector {name!r} is {there.get(name, 'missing')}, wanted {wanted.get(name, 'none')}"
        for name in sorted(there.keys() | wanted.keys())
        if there.get(name) != wanted.get(name)
    ]


def _describe(params: models.VectorParams) -> str:
    kind = "dense" if params.multivector_config is None else "multi"
    return f"{kind} of width {params.size} ({params.distance.value})"


def _struct(point: Point) -> models.PointStruct:
    vectors: dict[str, Any] = named_vectors(point, _sparse)
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=vector.indices.tolist(), values=vector.values.tolist())


def _weight(point: Point) -> int:
    numbers = sum(vector.size for vector in (*point.dense.values(), *point.multi.values()))
    numbers += sum(2 * vector.indices.size for vector in point.sparse.values())
    return numbers * _NUMBER_BYTES + len(json.dumps(dict(point.payload)))


class _Request(models.QueryRequest):
    """Query request without the client's deep copy of each number, which takes milliseconds."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


def _query(leg: LegQuery, layout: Layout, shard: Any) -> models.QueryRequest:
    """Request of one leg: ids and scores only, since payloads cost more than the search."""
    return _Request(
        # Our own vectors need no validation against every kind of query.
        query=models.NearestQuery.model_construct(nearest=_query_vector(leg, layout)),
        using=leg.using,
        filter=_to_filter(leg.where),
        params=_search_params(leg, layout),
        limit=leg.limit,
        with_payload=False,
        with_vector=False,
        shard_key=shard,
    )


def _list_query(listing: ListRequest, shard: Any) -> models.QueryRequest:
    """Request of a listing: a query without a vector gives points by id."""
    return _Request(
        filter=_to_filter(listing.where),
        limit=listing.limit,
        with_payload=True if listing.fields is None else list(listing.fields) or False,
        with_vector=False,
        shard_key=shard,
    )


def _query_vector(leg: LegQuery, layout: Layout) -> Any:
    if isinstance(leg.vector, SparseVector):
        return _sparse(leg.vector)
    row: FloatArray = leg.vector
    return [row.tolist()] if leg.using in layout.multi else row.tolist()


def _search_params(leg: LegQuery, layout: Layout) -> models.SearchParams | None:
    if leg.using in layout.dense:
        # Without rescoring, a server's int8 score only approximates the cosine.
        rescored = models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
        return models.SearchParams(quantization=rescored)
    if leg.using in layout.sparse and leg.idf_corpus is not None:
        corpus = models.Filter(must=[_condition(leg.idf_corpus)])
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))
    return None


def _to_filter(where: Filter | None) -> models.Filter | None:
    """The server's filter with the meaning of `filters.matches`; None for none."""
    return None if where is None else models.Filter(must=[_condition(where)])


def _condition(where: Filter) -> models.Condition:  # noqa: PLR0911
    match where:
        case Equals(field=field, value=value):
            match_value = models.MatchValue(value=as_keyword(value))
            return models.FieldCondition(key=field, match=match_value)
        case AnyOf(values=()) | Or(parts=()):
            # An empty `should` would match everything.
            return models.HasIdCondition(has_id=[])
        case AnyOf(field=field, values=values):
            match_any = models.MatchAny(any=[*map(as_keyword, values)])
            return models.FieldCondition(key=field, match=match_any)
        case Range(field=field):
            return models.FieldCondition(key=field, range=models.Range(**where.bounds))
        case HasId(ids=ids):
            return models.HasIdCondition(has_id=[*sorted(valid_ids(ids))])
        case Not(part=part):
            return models.Filter(must_not=[_condition(part)])
        case And(parts=parts) | Or(parts=parts):
            joined = [*map(_condition, parts)]
            is_and = isinstance(where, And)
            return models.Filter(must=joined) if is_and else models.Filter(should=joined)
