"""Reports: what an index run tells while it works and at its end, and what there is then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import PlainSerializer, computed_field, model_validator

from toolcrib.records.codec import UNLESS_EMPTY

__all__ = [
    "CheckedTools",
    "Facets",
    "IndexProgress",
    "IndexReport",
    "Refusal",
    "Removed",
    "ServiceInfo",
    "ToolReadiness",
    "Unready",
]

Unready: TypeAlias = Literal[
    "unknown", "disabled", "quarantined", "server_down", "out_of_scope", "needs_authorisation"
]
"""Why a tool cannot be called. What the caller may not see is unknown; out of scope is what the
caller's own narrowing leaves out. Of servers only a gateway can tell."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in a source that was not indexed: where it stands and why."""

    source: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolReadiness:
    """Whether a tool can be called, or why not."""

    id: str
    ready: bool
    reason: Unready | None = None

    @classmethod
    def of(cls, id: str, reason: Unready | None) -> ToolReadiness:
        """That of a tool with nothing in its way, or this."""
        return cls(id, reason is None, reason)


@dataclass(frozen=True, slots=True)
class CheckedTools:
    """Tools that somebody relies on, each ready or not, in the order that they were named in."""

    tools: tuple[ToolReadiness, ...]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index run is; `ids` are the tools that just became durable.

    `stage` is "write" while tools are encoded and written, then "optimise" while the engine
    builds its graph. `share` of the work is done, 0 to 1: longer texts are more of it.
    """

    done: int
    total: int
    ids: tuple[str, ...] = ()
    stage: Literal["write", "optimise"] = "write"
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class OutcomeIds:
    """The ids of what came to each outcome of an index run."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


Ids = Annotated[tuple[str, ...], PlainSerializer(len, return_type=int)]
"""Ids, of which JSON has the number."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one index run did, as ids; JSON has their numbers, and in full the ids as `ids`.

    `refused` is what of the sources was not indexed, `dropped` what of an overlay or an enrichment
    was of no use, so that the tools are there without it. `copies` were read again, equal to what
    was read before. All that was read is added, changed, unchanged, refused, a copy, or held back.
    """

    NOT_IN_SUMMARY: ClassVar[Any] = {"ids"}

    added: Ids = ()
    changed: Ids = ()
    removed: Ids = ()
    unchanged: Ids = ()
    refused: tuple[Refusal, ...] = ()
    dropped: Annotated[tuple[Refusal, ...], UNLESS_EMPTY] = ()
    copies: Annotated[tuple[Refusal, ...], UNLESS_EMPTY] = ()

    @computed_field
    @property
    def ids(self) -> OutcomeIds:
        """The ids of what came to each outcome, for whoever needs more than counts."""
        return OutcomeIds(self.added, self.changed, self.removed, self.unchanged)

    def __add__(self, other: IndexReport) -> IndexReport:
        """Both reports as one."""
        return IndexReport(
            self.added + other.added,
            self.changed + other.changed,
            self.removed + other.removed,
            self.unchanged + other.unchanged,
            self.refused + other.refused,
            self.dropped + other.dropped,
            self.copies + other.copies,
        )

    @model_validator(mode="before")
    @classmethod
    def _of_ids(cls, fields: Any) -> Any:
        return {**fields, **fields["ids"]} if "ids" in fields else fields


@dataclass(frozen=True, slots=True)
class Removed:
    """How many passages went."""

    removed: int


@dataclass(frozen=True, slots=True)
class Facets:
    """How many tools there are, and how many of each server, category, tag and sensitivity.

    A tool of several tags counts in each. What is empty is not listed.
    """

    tools: int = 0
    servers: Mapping[str, int] = field(default_factory=dict[str, int])
    categories: Mapping[str, int] = field(default_factory=dict[str, int])
    tags: Mapping[str, int] = field(default_factory=dict[str, int])
    sensitivities: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """A service that can answer: the store answers, the model encodes, the index is one of theirs.

    `tools` are those of the default namespace; `index` is a digest of the models and settings
    that made the index: equal in every replica that gives the same answers.
    """

    status: Literal["ok"]
    engine: str
    tools: int
    encoder: str
    index: str
