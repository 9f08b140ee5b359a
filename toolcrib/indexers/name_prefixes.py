"""Name prefixes: first words that the tools of one group share, left out of their lexical vectors.

A group has its tools in common with every scope: a caller may use all of them or none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import shared_prefix
from toolcrib.store.filters import SCOPE_FIELDS, And, Equals, Filter, Or

META_KEY = "lexical/"
"""Beginning of the entries of a small document, each of one group."""


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
        kept = {k.removeprefix(META_KEY): v for k, v in meta.items() if k.startswith(META_KEY)}
        prefixes = {group: tuple(each["prefix"]) for group, each in kept.items()}
        return cls(
            {group: prefix for group, prefix in prefixes.items() if prefix},
            frozenset(group for group, each in kept.items() if each["stale"]),
        )

    def changes_since(self, before: NamePrefixes) -> dict[str, Any]:
        """Entries of the small document that differ from those of `before`."""
        groups = {*self.prefixes, *before.prefixes, *self.stale, *before.stale}
        own, old = ({group: each.entry(group) for group in groups} for each in (self, before))
        return {
            META_KEY + group: own[group] for group in sorted(groups) if own[group] != old[group]
        }

    def entry(self, group: str) -> dict[str, Any] | None:
        """Entry of a group; None for a group that needs none."""
        if not self.of(group) and group not in self.stale:
            return None
        return {"prefix": list(self.of(group)), "stale": group in self.stale}

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
