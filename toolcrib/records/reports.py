"""Reports: results of index runs, counts of tools, findings in their texts, learning from use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, computed_field, model_validator

from toolcrib.records.codec import UNLESS_EMPTY, UNLESS_NONE, Score, iso_time
from toolcrib.records.tools import ToolSpec

Unready: TypeAlias = Literal[
    "unknown",
    "disabled",
    "quarantined",
    "server_down",
    "out_of_scope",
    "needs_authorisation",
    "authorisation_expired",
]
"""Reason why a tool cannot be called. A tool that the caller's key excludes is unknown; a tool that
the request's scope excludes is out of scope. Only a gateway knows the state of servers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Item of a source that was not indexed, with its place and the reason."""

    source: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolReadiness:
    """Readiness of a tool to be called, or the reason why it is not ready."""

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
    builds its graph. `share` is the finished part of the work, 0 to 1, by the length of texts.
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

    `refused` are items of sources that were not indexed. `dropped` are unusable entries of an
    overlay or an enrichment; their tools are indexed without them. `copies` repeat an earlier
    item. Every item of a source is added, changed, unchanged, refused, a copy, or held back.
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
    """Facts of a ready service: store and model work, and the model made the index.

    `tools` counts the default namespace; `index` is a digest of the models and settings that made
    the index, equal in replicas that give the same answers.
    """

    status: Literal["ok"]
    engine: str
    tools: int
    encoder: str
    index: str


Severity: TypeAlias = Literal["info", "warning", "block"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding in a text of a tool, ready to be shown.

    `tool` is the tool's id, `place` the path to the text within its specification, such as
    `input_schema.properties.path.description`.
    """

    severity: Severity
    rule: str
    tool: str
    place: str
    excerpt: str
    why: str


def _unix(at: Any) -> Any:
    return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at


@dataclass(frozen=True, slots=True)
class Held:
    """Tool held back, with the reason and the findings.

    `since` is the time of the hold, in Unix time, in JSON ISO 8601 in UTC. `was_digest` is the
    digest that was approved for the id before, None for a new tool. `written_by` is the id of the
    key that first sent this version, empty without a key. `replaces` is the served version that
    was removed.
    """

    tool_id: str
    server: str
    digest: str
    was_digest: str | None
    reason: str
    findings: tuple[Finding, ...]
    since: Annotated[float, BeforeValidator(_unix), PlainSerializer(iso_time, return_type=str)]
    spec: ToolSpec
    written_by: str = ""
    replaces: Annotated[ToolSpec | None, UNLESS_NONE] = None


@dataclass(frozen=True, slots=True)
class HeldTools:
    """Held tools in the caller's scope."""

    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class LearnedTool:
    """Learned use of one tool; the specification is unchanged.

    `observations` counts all that are kept, `examples` the chosen ones. `support` grows to 1 with
    sessions. `live`: the examples re-order answers; else `reason` says why not. `by` counts
    observations by key (empty: no key), `days` by day. `goes_with` are tools that the same
    requests often called. `texts` are requests, if texts may be kept. With a `choice`, `tool` is
    an option of this choice: `route:knowledge` of `route`.
    """

    tool: str
    server: str
    observations: int
    examples: int
    support: Score
    live: bool
    reason: str
    sessions: int
    by: dict[str, int]
    days: dict[str, int]
    goes_with: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    texts: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    choice: Annotated[str, UNLESS_EMPTY] = ""


@dataclass(frozen=True, slots=True)
class UsedTool:
    """Tool that agents' runs call; runs weigh less with age, and keys by their share.

    `runs` is the share of runs that called the tool; `next` has the tools most often called right
    after it, with their share of these runs.
    """

    tool: str
    runs: Score
    next: dict[str, Score]


@dataclass(frozen=True, slots=True)
class ServerReplay:
    """Effect of a server's examples on past requests, each replayed without its own session.

    `before` and `after` are nDCG@10 over the `requests` that the examples re-order, beside the
    examples of all other servers; `p` is the p-value of the paired test of their difference.
    `strength` is the part of the difference beyond chance, for requests like an example, and
    `copies` that for copies of one; with both at 0 the examples are in shadow: kept without effect.
    With a `choice`, `server` is the name of this choice.
    """

    server: str
    requests: int
    sessions: int
    before: Score
    after: Score
    p: Score
    strength: Score
    copies: Score
    verdict: Literal["live", "shadow"]
    choice: Annotated[str, UNLESS_EMPTY] = ""


@dataclass(frozen=True, slots=True)
class LearningStatus:
    """State of learning from use, and its measured effect.

    `on`: examples may re-order answers; `collects`: outcomes become observations. `encoder` made
    the vectors; observations of other encoders are ignored. `learned_at` is when examples were
    last chosen. With `orders_steps` the calls of `runs` order later steps, from 20 recent runs on.
    `used` are the tools that runs call, most often called first. `left_out` are keys that nothing
    is learned from, as their calls contradict the calls of other keys.
    """

    on: bool
    collects: bool
    encoder: str
    learned_at: str | None
    observations: int
    runs: int = 0
    orders_steps: bool = True
    used: tuple[UsedTool, ...] = ()
    servers: tuple[ServerReplay, ...] = ()
    tools: tuple[LearnedTool, ...] = ()
    left_out: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """Number of observations taken back."""

    removed: int


@dataclass(frozen=True, slots=True)
class LogLearning:
    """Result of learning from a log: new observations, and successes without an observation.

    `over_quota`: successes of sessions that have taught their share of the option already.
    """

    added: int
    known: int
    without_text: int
    without_tool: int
    over_quota: int
