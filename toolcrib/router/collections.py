"""Collections of passages, and their cosine to a question."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from toolcrib.encoders.base import DenseEncoder, FloatArray, from_text, to_text
from toolcrib.errors import QueryError, require_type
from toolcrib.indexers.points import clean
from toolcrib.records import Collection, Scope

_COLLECTION_ENTRY_PREFIX = "collection/"
"""Prefix of a collection's key in the store's metadata."""

_PRESETS = Path(__file__).with_name("collections.yaml")


@dataclass(frozen=True, slots=True, eq=False)
class CollectionIndex:
    """Collections with the vectors of their descriptions and examples.

    `vectors`: float32 [n, dimensions]; `owners`: index of each row's collection.
    """

    collections: tuple[Collection, ...]
    vectors: FloatArray
    owners: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all collections, in order."""
        return tuple(collection.name for collection in self.collections)

    def similarity(self, query: FloatArray | None) -> dict[str, float]:
        """Highest cosine of a query to a description or example of each collection."""
        near = np.zeros(len(self.collections))
        if query is not None:
            np.maximum.at(near, np.array(self.owners, dtype=np.intp), self.vectors @ query)
        return dict(zip(self.names, near.tolist(), strict=True))

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
                "vectors": to_text(self.rows_of(each.name)),
            }
            for each in self.collections
            if known.get(each.name) != each
        }

    def with_changes(self, given: Iterable[Collection], dense: DenseEncoder) -> CollectionIndex:
        """Index with collections added or replaced; only changed ones are encoded."""
        merged = {each.name: each for each in self.collections}
        changed = {each.name: each for each in given if merged.get(each.name) != each}
        if not changed:
            return self
        fresh = index_collections(changed.values(), dense)
        merged |= changed
        rows = [(fresh if name in changed else self).rows_of(name) for name in merged]
        return _joined_index(merged.values(), [self.vectors[:0], *rows])

    def without(self, name: str) -> CollectionIndex:
        """Index without one collection."""
        kept = [each for each in self.collections if each.name != name]
        return _joined_index(kept, [self.vectors[:0], *(self.rows_of(each.name) for each in kept)])

    def rows_of(self, name: str) -> FloatArray:
        """Vectors of one collection."""
        place = self.names.index(name)
        return self.vectors[[row for row, own in enumerate(self.owners) if own == place]]


def _joined_index(
    collections: Iterable[Collection], parts: Sequence[FloatArray]
) -> CollectionIndex:
    """Index of collections; `parts`: an empty array, then the rows of each collection."""
    owners = tuple(place for place, rows in enumerate(parts[1:]) for _ in rows)
    return CollectionIndex(tuple(collections), np.concatenate(parts), owners)


def index_collections(collections: Iterable[Collection], dense: DenseEncoder) -> CollectionIndex:
    """Encode the descriptions and examples of collections."""
    found = tuple(collections)
    texts = [_texts(each) for each in found]
    flat = [text for own in texts for text in own]
    vectors = dense.encode_documents(flat) if flat else _no_vectors(dense)
    owners = tuple(place for place, own in enumerate(texts) for _ in own)
    return CollectionIndex(found, vectors, owners)


def read_collection_index(meta: Mapping[str, Any], dense: DenseEncoder) -> CollectionIndex:
    """Read the index from a store's metadata; empty without collections."""
    collections = read_collections(meta)
    kept = [meta[f"{_COLLECTION_ENTRY_PREFIX}{each.name}"] for each in collections]
    digests = [_digest(each) for each in collections]
    if [each["digest"] for each in kept] != digests:
        return index_collections(collections, dense)
    rows = [from_text(each["vectors"], dense.dimensions) for each in kept]
    return _joined_index(collections, [_no_vectors(dense), *rows])


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


def _no_vectors(dense: DenseEncoder) -> FloatArray:
    return np.empty((0, dense.dimensions), dtype=np.float32)
