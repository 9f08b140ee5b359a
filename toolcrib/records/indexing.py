"""What an index run tells while it works, and at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["IndexProgress", "IndexReport", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in a source that was not indexed: where it stands and why."""

    source: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index run is; `ids` are the tools that just became durable.

    `stage` is "write" while tools are encoded and written, then "optimise" while the engine
    builds its graph.
    """

    done: int
    total: int
    ids: tuple[str, ...] = ()
    stage: Literal["write", "optimise"] = "write"


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one index run did, as ids; `as_dict` gives the counts of the JSON contract."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def ids(self) -> dict[str, list[str]]:
        """The ids of what came to each outcome, for whoever needs more than counts."""
        return {
            "added": list(self.added),
            "changed": list(self.changed),
            "removed": list(self.removed),
            "unchanged": list(self.unchanged),
        }

    def as_dict(self) -> dict[str, Any]:
        """Counts, and the refusals in full."""
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "unchanged": len(self.unchanged),
            "refused": [
                {"source": r.source, "place": r.place, "reason": r.reason} for r in self.refused
            ],
        }
