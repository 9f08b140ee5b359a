"""What a tool's lexical vector rests on beside its own text: its siblings and the average."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import shared_prefix

__all__ = ["LexicalContext", "shared_prefixes"]

DRIFT = 0.1
"""How far, relatively, the average length may stray before all lexical vectors are renewed."""

Prefixes: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class LexicalContext:
    """Kept with the index, in its small document under `lexical`.

    `average`: mean field-weighted terms a tool, 0 for an empty index. `prefixes`: the name
    terms that a server's tools share. `stale`: servers whose vectors still rest on older
    values; `all_stale`: every server's do.
    """

    average: float = 0.0
    prefixes: Prefixes = field(default_factory=dict[str, tuple[str, ...]])
    stale: frozenset[str] = frozenset()
    all_stale: bool = False

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> LexicalContext:
        """Read it from the index's small document."""
        kept = meta.get("lexical", {})
        return cls(
            average=kept.get("average", 0.0),
            prefixes={server: tuple(terms) for server, terms in kept.get("prefixes", {}).items()},
            stale=frozenset(kept.get("stale", ())),
            all_stale=kept.get("all_stale", False),
        )

    def as_meta(self) -> dict[str, Any]:
        """The entry of the small document."""
        return {
            "average": self.average,
            "prefixes": {server: list(terms) for server, terms in self.prefixes.items()},
            "stale": sorted(self.stale),
            "all_stale": self.all_stale,
        }

    def with_prefixes(self, prefixes: Prefixes, kept: Collection[str]) -> LexicalContext:
        """Take over new prefixes; where they differ, servers of `kept` tools become stale."""
        moved = {s for s in set(kept) if self.prefixes.get(s, ()) != prefixes.get(s, ())}
        return replace(self, prefixes=prefixes, stale=self.stale | moved)

    def with_lengths(self, kept: Sequence[float], new: Sequence[float]) -> LexicalContext:
        """Take over a new average, if the mean length has drifted from the one in use."""
        count = len(kept) + len(new)
        mean = (sum(kept) + sum(new)) / count if count else self.average
        if abs(mean - self.average) <= DRIFT * self.average:
            return self
        return replace(self, average=mean, all_stale=self.all_stale or bool(kept))

    def is_stale(self, server: str) -> bool:
        """Whether a server's older vectors must be weighed anew."""
        return self.all_stale or server in self.stale

    def renewed(self) -> LexicalContext:
        """The same, with nothing stale."""
        return replace(self, stale=frozenset(), all_stale=False)


def shared_prefixes(
    names: Iterable[tuple[str, str]],
    lexical: LexicalEncoder,
) -> dict[str, tuple[str, ...]]:
    """The shared name prefix of each server that has one, from (server, name) pairs."""
    by_server: defaultdict[str, list[list[str]]] = defaultdict(list)
    for server, name in names:
        if server:
            by_server[server].append(lexical.terms(name))
    found = {server: shared_prefix(terms) for server, terms in by_server.items()}
    return {server: prefix for server, prefix in found.items() if prefix}
