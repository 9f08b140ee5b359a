"""What a system answered badly, ready to be written out."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.evaluation.mistakes import confusions, worst_queries
from toolcrib.evaluation.results import Outcome, SystemResult

__all__ = ["Miss", "Tool", "confusion_table", "worst_table"]

WORST = 10
SHOWN_TOOLS = 4


@dataclass(frozen=True, slots=True)
class Tool:
    """A returned tool: `right`, `wrong` or `forbidden`."""

    id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Miss:
    """A query that a system answers badly."""

    text: str
    value: str
    confidence: str
    wanted: tuple[str, ...]
    got: tuple[Tool, ...]


def worst_table(system: SystemResult) -> tuple[Miss, ...]:
    """The queries that the system answers worst, those that it was surest of first."""
    by_id = {outcome.query.id: outcome for outcome in system.outcomes}
    return tuple(
        Miss(
            text=mistake.text,
            value=f"{mistake.value:.2f}",
            confidence="" if mistake.confidence is None else f"{mistake.confidence:.2f}",
            wanted=mistake.expected,
            got=_got(by_id[mistake.query_id]),
        )
        for mistake in worst_queries(system.outcomes, WORST)
    )


def confusion_table(system: SystemResult) -> tuple[tuple[str, str, int], ...]:
    """Pairs of a wanted tool and the wrong one that came first, more than once."""
    pairs = confusions(system.outcomes, WORST)
    return tuple((pair.expected, pair.returned, pair.count) for pair in pairs if pair.count > 1)


def _got(outcome: Outcome) -> tuple[Tool, ...]:
    query = outcome.query
    return tuple(
        Tool(
            tool.id,
            "right"
            if query.relevant.get(tool.id, 0) > 0
            else "forbidden"
            if tool.id in query.forbidden
            else "wrong",
        )
        for tool in outcome.answer.ranked[:SHOWN_TOOLS]
    )
