"""Namespace: one tenant's part of a shared store, with the methods of a store.

Every point has its namespace, and every leg and its term frequencies are limited to one: other
tenants' points change no score. Ids are shifted by a number of the namespace, so that two tenants
may have tools of the same id. Each entry of a namespace's metadata is a point too, without a
vector and in a reserved namespace.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.errors import BadPointError, QueryError, SettingsError, StoreError
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.store.base import (
    MAX_POINT_ID,
    CopyChanges,
    Layout,
    LegQuery,
    ListRequest,
    Point,
    Record,
    ScoredPoint,
    Store,
    StoreInfo,
    is_point_id,
    point_id,
    valid_ids,
)
from toolcrib.store.filters import EMPTY_CORPUS, TENANT_FIELD, And, Equals, Filter, HasId, Not, Or

META_NAMESPACE = ":meta"
"""Reserved namespace with one point for each tenant; `:meta/TENANT` has the entries of a tenant's
metadata. No tenant can have such a name."""

NAMESPACE_PATTERN = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def check_name(name: str) -> str:
    """Check a namespace's name, and return it."""
    if NAMESPACE_PATTERN.fullmatch(name) is None:
        raise QueryError(
            f"{name[:80]!r} is no namespace: a name has 1 to 63 lower-case letters, digits, '.', "
            "'_' and '-', and begins with a letter or digit",
        )
    return name


def check_shards(names: Iterable[str]) -> None:
    """Check the names of namespaces that get a shard of their own."""
    try:
        checked = [check_name(name) for name in names]
    except QueryError as error:
        raise SettingsError(f"server.tenant_shards: {error}") from None
    if DEFAULT_NAMESPACE in checked:
        raise SettingsError(
            f"server.tenant_shards: {DEFAULT_NAMESPACE!r} has its own collections anyway: remove it"
        )


class NamespacedStore(Store):
    """The part of `shared` that belongs to one namespace; `close` leaves `shared` open."""

    def __init__(self, shared: Store, namespace: str) -> None:
        self._store: Store | None = shared.of_tenant(namespace)
        self._namespace = namespace
        self._own = Equals(TENANT_FIELD, namespace)
        digest = hashlib.blake2b(namespace.encode("utf-8"), digest_size=8, person=b"namespace")
        self._shift = int.from_bytes(digest.digest()) & MAX_POINT_ID
        self._meta = f"{META_NAMESPACE}/{namespace}"

    # -- writing ---------------------------------------------------------------------------

    def upsert(self, points: Sequence[Point]) -> None:
        moved = [self._shared_point(point) for point in points]
        self._require_own([point.id for point in moved])
        self._shared_store.upsert(moved)

    def set_sparse(self, using: str, vectors: Mapping[int, SparseVector]) -> None:
        moved = {self._shift_id(i): vector for i, vector in vectors.items()}
        self._require_own(moved)
        self._shared_store.set_sparse(using, moved)

    def delete(self, ids: Iterable[int]) -> None:
        moved = [*map(self._shift_id, valid_ids(ids))]
        self._require_own(moved)
        self._shared_store.delete(moved)

    def _require_own(self, ids: Iterable[int]) -> None:
        """Refuse to overwrite another namespace's points: two ids may have one number."""
        written = HasId(frozenset(valid_ids(ids)))
        if written.ids and self._shared_store.count(And(written, Not(self._own))):
            raise BadPointError(
                f"namespace {self._namespace!r}: an id has the same number as one of another "
                "namespace; give the tool or document another name"
            )

    # -- reading ---------------------------------------------------------------------------

    @property
    def is_remote(self) -> bool:
        return self._shared_store.is_remote

    def search(self, queries: Sequence[LegQuery]) -> list[list[ScoredPoint]]:
        return self.search_and_list(queries, ())[0]

    def search_and_list(
        self, queries: Sequence[LegQuery], listings: Sequence[ListRequest]
    ) -> tuple[list[list[ScoredPoint]], list[list[Record]]]:
        own_queries = [
            replace(
                query, where=self._within(query.where), idf_corpus=self._within(query.idf_corpus)
            )
            for query in queries
        ]
        own_listings = [replace(each, where=self._within(each.where)) for each in listings]
        found, listed = self._shared_store.search_and_list(own_queries, own_listings)
        return (
            [[ScoredPoint(self._shift_id(hit.id), hit.score) for hit in hits] for hits in found],
            [[*map(self._own_record, records)] for records in listed],
        )

    def retrieve(self, ids: Sequence[int]) -> list[Record]:
        moved = [*map(self._shift_id, valid_ids(ids))]
        return [
            self._own_record(record)
            for record in self._shared_store.retrieve(moved)
            if record.payload.get(TENANT_FIELD) == self._namespace
        ]

    def vectors(self, ids: Sequence[int], using: str) -> dict[int, FloatArray]:
        known = HasId(frozenset(valid_ids(ids)))
        own = [record.id for record in self.scroll(known, ("id",))] if known.ids else []
        found = self._shared_store.vectors([self._shift_id(i) for i in own], using)
        return {self._shift_id(i): vector for i, vector in found.items()}

    def scroll(
        self,
        where: Filter | None = None,
        fields: Sequence[str] | None = None,
        *,
        after: int | None = None,
    ) -> Iterator[Record]:
        moved = None if after is None else self._shift_id(after)
        found = self._shared_store.scroll(self._within(where), fields, after=moved)
        yield from map(self._own_record, found)

    def count(self, where: Filter | None = None) -> int:
        return self._shared_store.count(self._within(where))

    # -- the rest --------------------------------------------------------------------------

    def read_meta(self) -> Mapping[str, Any]:
        found = self._shared_store.scroll(Equals(TENANT_FIELD, self._meta), ("id", "meta"))
        return {record.payload["id"]: json.loads(record.payload["meta"]) for record in found}

    def write_meta(self, entries: Mapping[str, Any]) -> None:
        if not entries:
            return
        points = [
            Point(point_id(self._meta), {TENANT_FIELD: META_NAMESPACE, "id": self._namespace})
        ]
        points += [
            Point(
                self._entry_point(key),
                {TENANT_FIELD: self._meta, "id": key, "meta": json.dumps(value, sort_keys=True)},
            )
            for key, value in entries.items()
            if value is not None
        ]
        self._shared_store.upsert(points)
        self._shared_store.delete(
            [self._entry_point(k) for k, value in entries.items() if value is None]
        )

    def _entry_point(self, key: str) -> int:
        return point_id(f"{self._meta}/{key}")

    def clear(self) -> None:
        """Remove all points and metadata of the namespace."""
        # The shared shard may keep copies of a tenant that got its own shard later.
        for part in {self._shared_store, self._shared_store.of_tenant(META_NAMESPACE)}:
            held = Or(self._own, Equals(TENANT_FIELD, self._meta))
            part.delete([record.id for record in part.scroll(held, ("id",))])
            part.delete([point_id(self._meta)])

    def renew(
        self,
        layout: Layout,  # noqa: ARG002 -- the protocol's
        copy: CopyChanges | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Store]:
        """Refused: the shared store cannot hold vectors of two models."""
        raise StoreError(
            f"the namespace {self._namespace!r} cannot be rebuilt alone: rebuild all namespaces "
            "of the store with `toolcrib index --rebuild`"
        )

    def optimise(self) -> None:
        self._shared_store.optimise()

    def info(self) -> StoreInfo:
        return replace(self._shared_store.info(), points=self.count())

    def close(self) -> None:
        """Release the shared store without closing it."""
        self._store = None

    @property
    def _shared_store(self) -> Store:
        if self._store is None:
            raise StoreError(f"the namespace {self._namespace!r} is closed")
        return self._store

    # -- between the two -------------------------------------------------------------------

    def _shift_id(self, number: int) -> int:
        """A point's id in the shared store, and back again."""
        return number ^ self._shift

    def _shared_point(self, point: Point) -> Point:
        payload = {**point.payload, TENANT_FIELD: self._namespace}
        moved = self._shift_id(point.id) if is_point_id(point.id) else point.id
        return replace(point, id=moved, payload=payload)

    def _own_record(self, record: Record) -> Record:
        payload = {k: v for k, v in record.payload.items() if k != TENANT_FIELD}
        return Record(self._shift_id(record.id), payload)

    def _within(self, where: Filter | None) -> Filter:
        if where is None:
            return self._own
        # An engine knows the empty corpus by its filter, and counts nothing.
        return where if where == EMPTY_CORPUS else And(self._own, self._shift_filter(where))

    def _shift_filter(self, where: Filter) -> Filter:
        match where:
            case HasId(ids=ids):
                return HasId(frozenset(map(self._shift_id, ids)))
            case Not(part=part):
                return Not(self._shift_filter(part))
            case And(parts=parts):
                return And(*map(self._shift_filter, parts))
            case Or(parts=parts):
                return Or(*map(self._shift_filter, parts))
            case _:
                return where


def namespaces_of(shared: Store) -> list[str]:
    """All namespaces that were ever written to, by name."""
    found = shared.scroll(Equals(TENANT_FIELD, META_NAMESPACE), ("id",))
    return sorted({record.payload["id"] for record in found})
