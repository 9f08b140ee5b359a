"""Collections of passages, and their cosine to a question."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from toolcrib.encoders.base import DenseEncoder, FloatArray, encode_groups, from_text, to_text
from toolcrib.errors import QueryError, require_type
from toolcrib.indexers.points import clean
from toolcrib.records import Collection, Scope

_COLLECTION_ENTRY_PREFIX = "collection/"
"""Prefix of a collection's key in the store's metadata."""

_PRESETS = Path(__file__).with_name("collections.yaml")


@dataclass(frozen=True, eq=False)
class CollectionIndex:
    """Collections with the vectors of their descriptions and examples.

    `rows`: float32 [texts, dimensions] of each collection.
    """

    collections: tuple[Collection, ...]
    rows: tuple[FloatArray, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all collections, in order."""
        return tuple(collection.name for collection in self.collections)

    def similarity(self, query: FloatArray | None) -> dict[str, float]:
        """Highest cosine of a query to a description or example of each collection."""
        near = np.zeros(len(self.collections))
        if query is not None and self.collections:
            np.maximum.at(near, self._owners, self._vectors @ query)
        return dict(zip(self.names, near.tolist(), strict=True))

    @cached_property
    def _vectors(self) -> FloatArray:
        return np.concatenate(self.rows)

    @cached_property
    def _owners(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(len(self.rows)), [len(own) for own in self.rows])

    def within(self, scope: Scope | None) -> tuple[Collection, ...]:
        """Collections that a scope allows.

        Raises:
            QueryError: the scope is of another type.
        """
        require_type(scope, Scope | None, "scope", "a Scope")
        caller = scope or Scope()
        return tuple(
            each
            for each in self.collections
            if caller.allows_collection(each.name, each.sensitivity)
        )

    def changes_since(self, before: CollectionIndex | None) -> dict[str, Any]:
        """Entries of the store's metadata that differ from those of `before`; None deletes."""
        known = {} if before is None else {each.name: each for each in before.collections}
        gone = dict.fromkeys(
            f"{_COLLECTION_ENTRY_PREFIX}{name}" for name in known.keys() - {*self.names}
        )
        return gone | {
            f"{_COLLECTION_ENTRY_PREFIX}{each.name}": {
                "collection": each.model_dump(mode="json"),
                "digest": _digest(each),
                "vectors": to_text(rows),
            }
            for each, rows in zip(self.collections, self.rows, strict=True)
            if known.get(each.name) != each
        }

    def with_changes(self, given: Iterable[Collection], dense: DenseEncoder) -> CollectionIndex:
        """Index with collections added or replaced; only changed ones are encoded."""
        known = dict(zip(self.names, self.collections, strict=True))
        changed = {each.name: each for each in given if known.get(each.name) != each}
        if not changed:
            return self
        fresh = index_collections(changed.values(), dense)
        return _index_of(_entries(self) | _entries(fresh))

    def without(self, name: str) -> CollectionIndex:
        """Index without one collection."""
        return _index_of({key: each for key, each in _entries(self).items() if key != name})


def _entries(index: CollectionIndex) -> dict[str, tuple[Collection, FloatArray]]:
    return dict(zip(index.names, zip(index.collections, index.rows, strict=True), strict=True))


def _index_of(entries: Mapping[str, tuple[Collection, FloatArray]]) -> CollectionIndex:
    collections, rows = zip(*entries.values(), strict=True) if entries else ((), ())
    return CollectionIndex(collections, rows)


def index_collections(collections: Iterable[Collection], dense: DenseEncoder) -> CollectionIndex:
    """Encode the descriptions and examples of collections."""
    found = tuple(collections)
    return CollectionIndex(found, tuple(encode_groups(dense, [_texts(each) for each in found])))


def read_collection_index(meta: Mapping[str, Any], dense: DenseEncoder) -> CollectionIndex:
    """Read the index from a store's metadata; empty without collections."""
    collections = read_collections(meta)
    kept = [meta[f"{_COLLECTION_ENTRY_PREFIX}{each.name}"] for each in collections]
    digests = [_digest(each) for each in collections]
    if [each["digest"] for each in kept] != digests:
        return index_collections(collections, dense)
    rows = (from_text(each["vectors"], dense.dimensions) for each in kept)
    return CollectionIndex(collections, tuple(rows))


def read_collections(meta: Mapping[str, Any]) -> tuple[Collection, ...]:
    """Read the collections from a store's metadata, without their vectors."""
    return tuple(
        Collection.model_validate(meta[key]["collection"])
        for key in sorted(meta)
        if key.startswith(_COLLECTION_ENTRY_PREFIX)
    )


def preset(name: str) -> Collection:
    """Preset of this name; without a preset, a collection that only has the name.

    Raises:
        QueryError: no collection can have this name.
    """
    try:
        return _presets().get(name) or Collection(name=name)
    except ValidationError as error:
        raise QueryError(
            f"{name!r} cannot name a collection: use letters, digits, '.', '-' and '_' alone"
        ) from error


def with_known_fields(given: Collection, known: Collection) -> Collection:
    """Collection with the known one's values in the fields that are not set."""
    return known.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


@cache
def _presets() -> dict[str, Collection]:
    import yaml

    found: dict[str, Any] = yaml.safe_load(_PRESETS.read_text(encoding="utf-8"))
    return {name: Collection(name=name, **fields) for name, fields in found.items()}


def _texts(collection: Collection) -> Sequence[str]:
    name = collection.name.replace("_", " ")
    described = f"{name}: {collection.description}" if collection.description else name
    return [clean(text) for text in (described, *collection.examples)]


def _digest(collection: Collection) -> str:
    text = collection.model_dump_json()
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
