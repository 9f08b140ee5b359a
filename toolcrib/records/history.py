"""History: what is kept of each decision, and of what was said of it later.

All that a user wrote, and all that may quote it, stands under `text` and `note`, which are there
only when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolcrib.records.answers import Team, Verdict
from toolcrib.records.codec import UNLESS_EMPTY, UNLESS_NONE, Milliseconds, Score
from toolcrib.records.knowledge import CollectionHit
from toolcrib.records.scope import Sensitivity
from toolcrib.records.turns import Entity, Outcome, RouteKind
from toolcrib.records.usage import ModelUsage


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """Where a turn went."""

    kind: RouteKind
    confidence: Score | None
    corrected_from: RouteKind | None


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """What kind of turn it was taken for; of entities the types."""

    intent: str | None
    domain: str | None
    urgency: str
    sensitivity: Sensitivity
    language: str | None
    smalltalk: str | None
    need: str | None
    confidence: Score
    confidences: dict[str, Score]
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """A tool that was returned, and by which rule, where it was not for its rank.

    `team`: which of two interleaved rankings gave it.
    """

    id: str
    score: Score
    probability: Score | None
    rule: Annotated[str | None, UNLESS_NONE] = None
    team: Annotated[Team | None, UNLESS_NONE] = None

    @property
    def is_found(self) -> bool:
        """Whether the search found it; what a rule adds has neither score nor probability."""
        return self.score > 0 or self.probability is not None


@dataclass(frozen=True, slots=True)
class ToolsRecord:
    """The tools that were returned, best first; `interleaved` names the second ranking of them."""

    verdict: Verdict
    confidence: Score | None
    threshold: Score | None
    fallback: bool
    items: tuple[ToolRecord, ...]
    interleaved: Annotated[str | None, UNLESS_NONE] = None

    @property
    def first(self) -> ToolRecord | None:
        """The first tool of the ranking, wherever rules have put it."""
        found = [each for each in self.items if each.is_found]
        return max(found, key=lambda each: each.score, default=None)

    @property
    def by_rule(self) -> frozenset[str]:
        """The ids of the tools that came whatever their rank."""
        return frozenset(each.id for each in self.items if each.rule or not each.is_found)


@dataclass(frozen=True, slots=True)
class PassageRecord:
    """A passage that was returned."""

    id: str
    score: Score


@dataclass(frozen=True, slots=True)
class KnowledgeRecord:
    """The passages that were returned, best first."""

    verdict: Verdict
    confidence: Score | None
    threshold: Score | None
    collections: tuple[CollectionHit, ...]
    passages: tuple[PassageRecord, ...]


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """The target that was chosen; of signals those that are no user's words."""

    target: str
    confidence: Score
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextRecord:
    """What the user wrote, and all that may quote it."""

    turn: str
    search: str
    entities: tuple[Entity, ...]
    signals: tuple[str, ...]
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision as it is logged; `by` is the id of the key that asked.

    `guidance` are the keys of the hints that were given.
    """

    id: str
    at: str
    route: RouteRecord
    context: ContextRecord
    tools: ToolsRecord
    knowledge: KnowledgeRecord
    signals: tuple[str, ...]
    took_ms: dict[str, Milliseconds]
    degraded: tuple[str, ...]
    usage: Annotated[tuple[ModelUsage, ...], UNLESS_EMPTY] = ()
    agent: Annotated[AgentRecord | None, UNLESS_NONE] = None
    guidance: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    text: Annotated[TextRecord | None, UNLESS_NONE] = None
    by: Annotated[str | None, UNLESS_NONE] = None
    kind: Literal["decision"] = "decision"


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """What somebody said would have been right for a decision."""

    decision: str
    at: str
    route: Annotated[RouteKind | None, UNLESS_NONE] = None
    tools: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    collections: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    intent: Annotated[str | None, UNLESS_NONE] = None
    domain: Annotated[str | None, UNLESS_NONE] = None
    outcome: Annotated[Outcome | None, UNLESS_NONE] = None
    note: Annotated[str | None, UNLESS_NONE] = None
    kind: Literal["feedback"] = "feedback"


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """How a call of a tool ended."""

    decision: str
    at: str
    tool: str
    outcome: Outcome
    took_ms: Annotated[Milliseconds | None, UNLESS_NONE] = None
    kind: Literal["outcome"] = "outcome"
