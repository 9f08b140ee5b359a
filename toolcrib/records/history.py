"""History: records of decisions, and of the outcomes and feedback on them.

Words of users, and texts that may quote them, stand under `text` and `note` alone, which are
there only when asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolcrib.records.answers import Team, Verdict
from toolcrib.records.codec import UNLESS_EMPTY, UNLESS_NONE, Milliseconds, Score
from toolcrib.records.knowledge import CollectionHit
from toolcrib.records.scope import Sensitivity
from toolcrib.records.turns import Entity, ModelUsage, Outcome, RouteKind


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """Route of a turn."""

    kind: RouteKind
    confidence: Score | None
    corrected_from: RouteKind | None


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """Detected context of a turn; of entities the types."""

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
    """Returned tool; `rule` added it, `team` is its ranking when two are interleaved."""

    id: str
    score: Score
    probability: Score | None
    rule: Annotated[str | None, UNLESS_NONE] = None
    team: Annotated[Team | None, UNLESS_NONE] = None

    @property
    def is_found(self) -> bool:
        """True for a tool of the search; a rule's has neither score nor probability."""
        return self.score > 0 or self.probability is not None


@dataclass(frozen=True, slots=True)
class ToolsRecord:
    """Returned tools, best first; `interleaved` names the second ranking."""

    verdict: Verdict
    confidence: Score | None
    threshold: Score | None
    fallback: bool
    items: tuple[ToolRecord, ...]
    interleaved: Annotated[str | None, UNLESS_NONE] = None

    @property
    def first(self) -> ToolRecord | None:
        """First tool of the ranking, wherever rules placed it."""
        found = [each for each in self.items if each.is_found]
        return max(found, key=lambda each: each.score, default=None)

    @property
    def by_rule(self) -> frozenset[str]:
        """Ids of the tools that rules added."""
        return frozenset(each.id for each in self.items if each.rule or not each.is_found)


@dataclass(frozen=True, slots=True)
class PassageRecord:
    """Returned passage."""

    id: str
    score: Score


@dataclass(frozen=True, slots=True)
class KnowledgeRecord:
    """Returned passages, best first."""

    verdict: Verdict
    confidence: Score | None
    threshold: Score | None
    collections: tuple[CollectionHit, ...]
    passages: tuple[PassageRecord, ...]


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """Chosen target; of signals those without words of the user."""

    target: str
    confidence: Score
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextRecord:
    """Words of the user, and texts that may quote them."""

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
    """Feedback: the right answer to a decision, by a person."""

    decision: str
    at: str
    route: Annotated[RouteKind | None, UNLESS_NONE] = None
    tools: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    collections: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    passages: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    labels: Annotated[tuple[str, ...] | None, UNLESS_NONE] = None
    intent: Annotated[str | None, UNLESS_NONE] = None
    domain: Annotated[str | None, UNLESS_NONE] = None
    outcome: Annotated[Outcome | None, UNLESS_NONE] = None
    note: Annotated[str | None, UNLESS_NONE] = None
    kind: Literal["feedback"] = "feedback"


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """Outcome of a tool call."""

    decision: str
    at: str
    tool: str
    outcome: Outcome
    took_ms: Annotated[Milliseconds | None, UNLESS_NONE] = None
    kind: Literal["outcome"] = "outcome"
