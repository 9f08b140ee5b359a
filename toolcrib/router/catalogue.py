"""The collections that can be asked, and how near a question is to what each says of itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import ValidationError

from toolcrib.encoders.base import from_text, to_text
from toolcrib.encoders.base import DenseEncoder, FloatArray
from toolcrib.errors import QueryError, SettingsError
from toolcrib.indexers.points import clean
from toolcrib.records import SENSITIVITIES, Collection, Scope, Sensitivity

__all__ = ["Catalogue", "describe", "preset", "read_catalogue", "read_collections"]

_PRESETS = Path(__file__).with_name("collections.yaml")


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Collections with the vectors of their descriptions and examples.

    `vectors`: float32 [n, dimensions], `owners`: the collection's place of each row.
    """

    collections: tuple[Collection, ...]
    vectors: FloatArray
    owners: tuple[int, ...]

    def __bool__(self) -> bool:
        """Whether there is anything to ask."""
        return bool(self.collections)

    @property
    def names(self) -> tuple[str, ...]:
        """Every collection's name, in their order."""
        return tuple(collection.name for collection in self.collections)

    def kinship(self, query: FloatArray | None) -> dict[str, float]:
        """The cosine of a query to the nearest thing that each collection says of itself."""
        near = dict.fromkeys(self.names, 0.0)
        if query is None or not len(self.vectors):
            return near
        for owner, cosine in zip(self.owners, (self.vectors @ query).tolist(), strict=True):
            name = self.collections[owner].name
            near[name] = max(near[name], cosine)
        return near

    def within(self, scope: Scope | None, ceiling: Sensitivity | None) -> tuple[Collection, ...]:
        """The collections that a caller may ask, no more sensitive than the ceilings."""
        limits = [each for each in (ceiling, scope.max_sensitivity if scope else None) if each]
        highest = min((SENSITIVITIES.index(each) for each in limits), default=None)
        named = scope.collections if scope else None
        return tuple(
            each
            for each in self.collections
            if (named is None or each.name in named)
            and (highest is None or SENSITIVITIES.index(each.sensitivity) <= highest)
        )

    def as_meta(self) -> dict[str, Any]:
        """As it is kept in a store's small document."""
        return {
            "collections": [each.model_dump(mode="json") for each in self.collections],
            "digest": _digest(self.collections),
            "vectors": to_text(self.vectors),
        }

    def with_changes(self, given: Iterable[Collection], dense: DenseEncoder) -> Catalogue:
        """With these put in or replaced; what does not change is not encoded again."""
        merged = {each.name: each for each in self.collections}
        changed = {each.name: each for each in given if merged.get(each.name) != each}
        if not changed:
            return self
        fresh = describe(changed.values(), dense)
        merged |= changed
        parts = [_rows_of(fresh if name in changed else self, name) for name in merged]
        return _joined(merged.values(), parts, self.vectors[:0])

    def without(self, name: str) -> Catalogue:
        """The same without one collection."""
        kept = [each for each in self.collections if each.name != name]
        parts = [_rows_of(self, each.name) for each in kept]
        return _joined(kept, parts, self.vectors[:0])


def describe(collections: Iterable[Collection], dense: DenseEncoder) -> Catalogue:
    """Encode what collections say of themselves."""
    found = tuple(collections)
    texts = [_texts(each) for each in found]
    owners = tuple(place for place, said in enumerate(texts) for _ in said)
    flat = [text for said in texts for text in said]
    vectors = dense.encode_documents(flat) if flat else _nothing(dense)
    return Catalogue(found, vectors, owners)


def read_catalogue(meta: Mapping[str, Any], dense: DenseEncoder) -> Catalogue:
    """The catalogue that a store's small document holds, empty where it holds none."""
    kept = meta.get("catalogue")
    if kept is None:
        return Catalogue((), _nothing(dense), ())
    collections = read_collections(meta)
    if kept["digest"] != _digest(collections):
        return describe(collections, dense)
    vectors = from_text(kept["vectors"], dense.dimensions)
    owners = tuple(place for place, each in enumerate(collections) for _ in _texts(each))
    return Catalogue(collections, vectors, owners)


def read_collections(meta: Mapping[str, Any]) -> tuple[Collection, ...]:
    """The collections that a store keeps, whatever encoder their vectors are of."""
    kept = meta.get("catalogue", {"collections": ()})
    return tuple(Collection.model_validate(each) for each in kept["collections"])


def preset(name: str) -> Collection:
    """What ships for a collection of this name; one with nothing but the name where none does.

    Raises:
        QueryError: no collection can have this name.
    """
    try:
        return _presets().get(name) or Collection(name=name)
    except ValidationError as error:
        raise QueryError(
            f"{name!r} cannot be the name of a collection: letters, digits, '.', '-' and '_' can"
        ) from error


@cache
def _presets() -> dict[str, Collection]:
    found: Any = yaml.safe_load(_PRESETS.read_text(encoding="utf-8"))
    try:
        return {name: Collection(name=name, **fields) for name, fields in found.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"{_PRESETS.name}: {error}") from error


def _joined(
    collections: Iterable[Collection], parts: Sequence[FloatArray], nothing: FloatArray
) -> Catalogue:
    """A catalogue of collections and the rows of each; `nothing` has no rows, and their width."""
    owners = tuple(place for place, rows in enumerate(parts) for _ in rows)
    return Catalogue(tuple(collections), np.concatenate([nothing, *parts]), owners)


def _rows_of(catalogue: Catalogue, name: str) -> FloatArray:
    place = catalogue.names.index(name)
    return catalogue.vectors[[row for row, own in enumerate(catalogue.owners) if own == place]]


def _texts(collection: Collection) -> Sequence[str]:
    name = collection.name.replace("_", " ")
    said = f"{name}: {collection.description}" if collection.description else name
    return [clean(text) for text in (said, *collection.examples)]


def _digest(collections: Iterable[Collection]) -> str:
    parts = "\n".join(each.model_dump_json() for each in collections)
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


def _nothing(dense: DenseEncoder) -> FloatArray:
    return np.empty((0, dense.dimensions), dtype=np.float32)
