"""Name prefixes: first words that the tools of one group share, left out of their lexical vectors.

A group has its tools in common with every scope: a caller may use all of them or none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import shared_prefix
from toolcrib.store.filters import SCOPE_FIELDS, And, Equals, Filter, Or

META_KEY = "lexical"


def scope_group(fields: Mapping[str, Any]) -> str:
    """Key of the tools that are alike in all scope fields; empty for a tool without a server.

    `fields` are a tool's payload, or its part that scopes go by.
    """
    if not fields["server"]:
        return ""
    listed = ("tags", "safety_tags")
    values = [sorted(fields[n]) if n in listed else fields[n] for n in SCOPE_FIELDS]
    return json.dumps(values)


def in_groups(groups: Iterable[str]) -> Filter:
    """Filter that the tools of all these groups pass, and others with more tags."""
    return Or(*map(_in_group, groups))


def _in_group(group: str) -> Filter:
    pairs = zip(SCOPE_FIELDS, json.loads(group), strict=True)
    values = ((n, one) for n, value in pairs for one in (value if n.endswith("tags") else [value]))
    return And(*(Equals(name, value) for name, value in values if value))


def shared_prefixes(
    names: Iterable[tuple[str, str]], lexical: LexicalEncoder
) -> dict[str, tuple[str, ...]]:
    """Shared name prefix of each group that has one, from (group, name) pairs."""
    by_group: defaultdict[str, list[list[str]]] = defaultdict(list)
    for group, name in names:
        by_group[group].append(lexical.terms(name))
    found = {group: shared_prefix(terms) for group, terms in by_group.items() if group}
    return {group: prefix for group, prefix in found.items() if prefix}


@dataclass(frozen=True, slots=True)
class NamePrefixes:
    """Prefixes by group, kept in the small document of the index.

    `stale`: groups of which some vectors still rest on an older prefix.
    """

    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    stale: frozenset[str] = frozenset()

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> NamePrefixes:
        """Read the prefixes from the small document."""
        return _PREFIXES.validate_python(meta.get(META_KEY, {}))

    def as_meta(self) -> dict[str, Any]:
        """Entry of the small document."""
        return {META_KEY: {**_PREFIXES.dump_python(self, mode="json"), "stale": sorted(self.stale)}}

    def of(self, group: str) -> tuple[str, ...]:
        """Prefix of a group, empty where its tools share none."""
        return self.prefixes.get(group, ())

    def with_groups(
        self,
        groups: Collection[str],
        prefixes: Mapping[str, tuple[str, ...]],
        kept: Collection[str],
    ) -> NamePrefixes:
        """Replace the prefixes of `groups`; a group with `kept` tools becomes stale by a change."""
        others = {group: prefix for group, prefix in self.prefixes.items() if group not in groups}
        moved = {group for group in groups if self.of(group) != prefixes.get(group, ())}
        return NamePrefixes({**others, **prefixes}, self.stale | (moved & set(kept)))


_PREFIXES = TypeAdapter(NamePrefixes)
