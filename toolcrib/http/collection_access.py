"""What a caller may do with collections: see, describe, fill and remove those in its scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from toolcrib.crib import Crib
from toolcrib.errors import ForbiddenError, UnknownCollectionError
from toolcrib.records import Collection, Scope
from toolcrib.router.collections import preset

__all__ = [
    "describe_collections",
    "known_collections",
    "remove_from_collection",
    "require_writable",
]


def known_collections(crib: Crib, scope: Scope) -> list[dict[str, Any]]:
    """The collections in reach by name, each with its number of passages."""
    return [
        {**each.model_dump(mode="json"), "passages": count}
        for each, count in crib.list_collections(scope=scope)
    ]


def describe_collections(
    crib: Crib, collections: Iterable[Collection], scope: Scope
) -> list[dict[str, Any]]:
    """Make collections known or describe them anew, all or none; gives those in reach then.

    Raises:
        ForbiddenError: one is out of scope, or stands in the place of one that is.
    """
    given = list(collections)
    known = _by_name(crib)
    for each in given:
        _require(scope, each, known.get(each.name))
    crib.add_collections(*given)
    return known_collections(crib, scope)


def require_writable(crib: Crib, name: str, scope: Scope) -> None:
    """See that documents may be put into a collection, which need not be there yet.

    Raises:
        ForbiddenError: it is out of scope.
        QueryError: no collection can be called so.
    """
    known = _by_name(crib).get(name)
    _require(scope, known or preset(name), None)


def remove_from_collection(crib: Crib, name: str, documents: Iterable[str], scope: Scope) -> int:
    """Remove documents; without any, the whole collection. Counts passages.

    Raises:
        UnknownCollectionError: there is none of this name in reach.
    """
    reach = [each.name for each, _ in crib.list_collections(scope=scope)]
    if name not in reach:
        raise UnknownCollectionError(name, tuple(get_close_matches(name, reach, n=3)))
    return crib.remove_docs(name, *documents)


def _by_name(crib: Crib) -> Mapping[str, Collection]:
    return {each.name: each for each, _ in crib.list_collections()}


def _require(scope: Scope, *collections: Collection | None) -> None:
    """The same words whether there is such a collection or not."""
    for each in collections:
        if each is not None and not scope.allows_collection(each.name, each.sensitivity):
            raise ForbiddenError(f"this key's scope does not allow to write {each.name!r}")
