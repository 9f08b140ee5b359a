"""A log of decisions as measures want it: each with what was said of it later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.loaders.rows import Located
from toolcrib.records import Outcome, Refusal, Verdict
from toolcrib.records.turns import RouteKind
from toolcrib.router.telemetry import Feedback

__all__ = ["LogContent", "LoggedDecision", "labelled_queries", "read_decisions"]

SPLIT = "train"
"""Queries that people labelled in use are learned from, never measured on."""

Probability = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Logged(BaseModel):
    """A part of a record; what is not looked at here is let through."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LoggedRoute(Logged):
    """Where a turn went."""

    kind: RouteKind
    confidence: Probability | None = None


class LoggedContext(Logged):
    """What kind of turn it was taken for."""

    intent: str | None = None
    domain: str | None = None


class Named(Logged):
    """A tool or collection that was returned."""

    id: str


class LoggedTools(Logged):
    """The tools that were returned, best first."""

    verdict: Verdict
    confidence: Probability | None = None
    fallback: bool = False
    items: tuple[Named, ...] = ()


class LoggedKnowledge(Logged):
    """The collections that were asked, best first."""

    verdict: Verdict
    confidence: Probability | None = None
    collections: tuple[Named, ...] = ()


class LoggedText(Logged):
    """What tools and passages were searched with."""

    search: str


class DecisionRow(Logged):
    """A record of the kind `decision`."""

    id: str
    at: AwareDatetime
    route: LoggedRoute
    context: LoggedContext = LoggedContext()
    tools: LoggedTools
    knowledge: LoggedKnowledge
    took_ms: dict[str, Milliseconds] = Field(default_factory=dict[str, float])
    degraded: tuple[str, ...] = ()
    text: LoggedText | None = None


class FeedbackRow(Logged, Feedback):
    """A record of the kind `feedback`, with what it says."""

    model_config = ConfigDict(extra="ignore")

    decision: str
    at: AwareDatetime


class OutcomeRow(Logged):
    """A record of the kind `outcome`."""

    decision: str
    at: AwareDatetime
    tool: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision, what was said of it, and how the first calls of its tools ended.

    Of several feedbacks the latest counts, field by field; None where there is none at all.
    `outcomes` by tool, the latest of each.
    """

    row: DecisionRow
    feedback: Feedback | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])

    @property
    def ms(self) -> float:
        """What it took: the stage `total`, or all stages together where there is none."""
        took = self.row.took_ms
        return took.get("total", sum(took.values()))


@dataclass(frozen=True, slots=True)
class LogContent:
    """The decisions of a log in the order of their times; `unreadable` records were left out."""

    decisions: tuple[LoggedDecision, ...]
    unreadable: int


def read_decisions(records: Iterable[Mapping[str, Any]]) -> LogContent:
    """Join records into decisions.

    What is said of a decision that is not in the log (any more) is passed over, and so are
    records of other kinds.
    """
    rows: dict[str, DecisionRow] = {}
    feedback: dict[str, list[FeedbackRow]] = {}
    outcomes: dict[str, list[OutcomeRow]] = {}
    unreadable = 0
    for record in records:
        try:
            match record.get("kind"):
                case "decision":
                    row = DecisionRow.model_validate(record)
                    rows[row.id] = row
                case "feedback":
                    said = FeedbackRow.model_validate(record)
                    feedback.setdefault(said.decision, []).append(said)
                case "outcome":
                    ended = OutcomeRow.model_validate(record)
                    outcomes.setdefault(ended.decision, []).append(ended)
                case _:
                    continue
        except ValidationError:
            unreadable += 1
    joined = (
        LoggedDecision(row, _merged(feedback.get(id, [])), _latest(outcomes.get(id, [])))
        for id, row in rows.items()
    )
    return LogContent(tuple(sorted(joined, key=lambda one: one.row.at)), unreadable)


def labelled_queries(
    records: Iterable[Mapping[str, Any]], source: str = "the log"
) -> list[Located | Refusal]:
    """The decisions whose right tools somebody named, as queries that can be learned from.

    A decision that was logged without its text is refused: there is nothing to ask again.
    """
    return list(_labelled(read_decisions(records).decisions, source))


def _labelled(decisions: Iterable[LoggedDecision], source: str) -> Iterator[Located | Refusal]:
    for one in decisions:
        tools = one.feedback.tools if one.feedback else None
        if tools is None:
            continue
        place = f"decision {one.row.id}"
        if one.row.text is None or not one.row.text.search.strip():
            reason = "was logged without its text; telemetry.text: true keeps that of new ones"
            yield Refusal(source, place, reason)
            continue
        query = LabelledQuery(
            id=one.row.id,
            text=one.row.text.search,
            split=SPLIT,
            relevant=dict.fromkeys(tools, 1.0),
            answerable=bool(tools),
            unanswerable_scope="" if tools else "corpus",
        )
        yield Located(f"{source}: {place}", query)


def _merged(said: list[FeedbackRow]) -> Feedback | None:
    fields: dict[str, Any] = {}
    for one in sorted(said, key=lambda row: row.at):
        fields |= one.model_dump(exclude={"decision", "at"}, exclude_none=True)
    return Feedback(**fields) if fields else None


def _latest(ended: list[OutcomeRow]) -> dict[str, Outcome]:
    return {one.tool: one.outcome for one in sorted(ended, key=lambda row: row.at)}
