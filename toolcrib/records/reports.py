"""Reports: progress and result of an index run, and counts of what is indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import PlainSerializer, computed_field, model_validator

from toolcrib.records.codec import UNLESS_EMPTY

Unready: TypeAlias = Literal[
    "unknown", "disabled", "quarantined", "server_down", "out_of_scope", "needs_authorisation"
]
"""Reason why a tool cannot be called. A tool that the caller may not see is unknown; out of scope
is what the caller's own scope leaves out. Only a gateway knows of servers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Item of a source that was not indexed: its place, and the reason."""

    source: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolReadiness:
    """Readiness of a tool to be called, or the reason against."""

    id: str
    ready: bool
    reason: Unready | None = None

    @classmethod
    def of(cls, id: str, reason: Unready | None) -> ToolReadiness:
        """Readiness by a reason; None means ready."""
        return cls(id, reason is None, reason)


@dataclass(frozen=True, slots=True)
class CheckedTools:
    """Readiness of tools, in the order of the request."""

    tools: tuple[ToolReadiness, ...]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Progress of an index run; `ids` are the tools that just became durable.

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
    """Ids by outcome of an index run."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


Ids = Annotated[tuple[str, ...], PlainSerializer(len, return_type=int)]
"""Ids; JSON has only their number."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Result of one index run as ids; JSON has their numbers, and in full the ids as `ids`.

    `refused` are items of sources that were not indexed, `dropped` unusable entries of an overlay
    or an enrichment, whose tools are there without them. `copies` repeat an item read before.
    Every item read is added, changed, unchanged, refused, a copy, or held back.
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
        """Ids by outcome, beside the counts."""
        return OutcomeIds(self.added, self.changed, self.removed, self.unchanged)

    def __add__(self, other: IndexReport) -> IndexReport:
        """Join two reports."""
        both = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return IndexReport(*(one + more for one, more in both))

    @model_validator(mode="before")
    @classmethod
    def _of_ids(cls, given: Any) -> Any:
        return {**given, **given["ids"]} if "ids" in given else given


@dataclass(frozen=True, slots=True)
class Removed:
    """Number of removed passages."""

    removed: int


@dataclass(frozen=True, slots=True)
class Facets:
    """Number of tools, in all and by server, category, tag and sensitivity.

    A tool of several tags counts in each. Empty values are not listed.
    """

    tools: int = 0
    servers: Mapping[str, int] = field(default_factory=dict[str, int])
    categories: Mapping[str, int] = field(default_factory=dict[str, int])
    tags: Mapping[str, int] = field(default_factory=dict[str, int])
    sensitivities: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """Service that is ready: the store answers, the model encodes, and the index is by that model.

    `tools` are those of the default namespace; `index` is a digest of the models and settings
    that made the index: equal in every replica that gives the same answers.
    """

    status: Literal["ok"]
    engine: str
    tools: int
    encoder: str
    index: str
