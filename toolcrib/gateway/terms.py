"""On what terms a gateway stands: what it is for, what it stands on, how it goes about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolcrib.gateway.judging import Judge
from toolcrib.gateway.news import Say, quiet
from toolcrib.gateway.upstream import Rhythm
from toolcrib.indexers.writer import Listener
from toolcrib.records import Sensitivity
from toolcrib.store.records_db.base import RecordsDb

__all__ = ["Backing", "Manner", "Purpose"]


@dataclass(frozen=True, slots=True)
class Purpose:
    """What this gateway is for: only tools with one of `tags`, no more sensitive than that."""

    tags: frozenset[str] | None = None
    max_sensitivity: Sensitivity | None = None
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Backing:
    """What it stands on: where the index is, what is kept beside it, who judges tools."""

    location: str
    ledger: RecordsDb
    judge: Judge


@dataclass(frozen=True, slots=True)
class Manner:
    """How it goes about it. `is_shared`: there is but one client, as over stdio."""

    say: Say = quiet
    listener: Listener | None = None
    is_shared: bool = False
    rhythm: Rhythm = field(default_factory=Rhythm)
