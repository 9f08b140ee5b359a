"""Log records: decisions, their outcomes and feedback, and the calls of a gateway.

Only the fields `text` and `note` have users' words or texts that may quote users; both are absent
unless asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

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
    """Detected context of a turn; entities are logged by type only."""

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
        """True for a tool of the search; a tool added by a rule has no score."""
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
        """First tool of the ranking; tools added by rules are skipped."""
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
    """Chosen target; signals with words of the user are left out."""

    target: str
    confidence: Score
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextRecord:
    """Words of the user, and texts that may quote them; secrets are replaced by asterisks.

    Entities keep their places in the text as it was written.
    """

    turn: str
    search: str
    entities: tuple[Entity, ...]
    signals: tuple[str, ...]
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision as it is logged; `by` is the id of the caller's key.

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


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """One page of decisions, newest first; `next` is the cursor of the next page.

    `feedback` and `outcomes` of these decisions are there if asked for.
    """

    decisions: tuple[DecisionRecord, ...]
    next: str | None
    feedback: Annotated[tuple[FeedbackRecord, ...], UNLESS_EMPTY] = ()
    outcomes: Annotated[tuple[OutcomeRecord, ...], UNLESS_EMPTY] = ()


# -- the gateway -----------------------------------------------------------------------------

ServerState: TypeAlias = Literal[
    "starting", "up", "down", "unusable", "needs_authorisation", "authorisation_expired"
]


@dataclass(frozen=True, slots=True)
class GatewayCall:
    """Call at a gateway: of a server's tool by its id, or of the gateway's own by its name.

    `server` is empty for the gateway's own tools. `agent` is the client's name and version, `by`
    the id of its key. `tokens` estimates the text of the result. `arguments` is shortened JSON
    without secrets, if allowed. A `list` has no tool: `saved` estimates the tokens of definitions
    that it left out, by server; at "" the tokens of the gateway's own tools are subtracted.
    """

    at: str
    agent: str
    server: str
    tool: str
    outcome: Outcome
    took_ms: Milliseconds
    tokens: int = 0
    by: Annotated[str | None, UNLESS_NONE] = None
    arguments: Annotated[str | None, UNLESS_NONE] = None
    saved: Annotated[dict[str, int], UNLESS_EMPTY] = field(default_factory=dict[str, int])
    kind: Literal["call", "list"] = "call"


@dataclass(frozen=True, slots=True)
class GatewayServer:
    """Server behind a gateway: its state, the tools it offers and those held back.

    The figures count the kept calls. `saved`: tokens of definitions that lists left out.
    `reason` explains a state other than up; without a running gateway the state is None.
    """

    name: str
    state: ServerState | None
    reason: str = ""
    tools: int = 0
    held: int = 0
    calls: int = 0
    failures: int = 0
    tokens: int = 0
    saved: int = 0


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """Server of an `mcp.json`; `target` is its command, or the host of its URL.

    `problem` is the reason if it is unusable. `variables` of the environment are referred to.
    """

    name: str
    target: str
    state: Literal["on", "off", "unusable"]
    problem: str = ""
    variables: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()


@dataclass(frozen=True, slots=True)
class GatewayActivity:
    """Activity of the gateways of one store: servers by name, and calls, newest first.

    `gateways` is the number of running gateways; the figures count the `kept` calls, the oldest
    made at `since`. `saved`: tokens of definitions that lists left out, less the tokens of the
    gateway's own tools and their answers.
    """

    gateways: int = 0
    servers: tuple[GatewayServer, ...] = ()
    calls: tuple[GatewayCall, ...] = ()
    kept: int = 0
    failures: int = 0
    tokens: int = 0
    saved: int = 0
    since: str | None = None
