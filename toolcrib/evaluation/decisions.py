"""Measures of logged decisions: routes, latency, accuracy, calibration.

A failed decision counts as wrong in comparisons of confidence and success. Otherwise the labels of
feedback decide; without labels, all accepted parts of a successful decision count as right; without
either, a call of the first tool decides on that tool. Parts chosen by a rule (always-active tools,
collections of the map, ...) belong to no ranking, and are not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter

from toolcrib.clock import DAY_S
from toolcrib.evaluation.dataset import LabelledQuery, LocatedQuery
from toolcrib.evaluation.measures import (
    RELIABILITY_BINS,
    ReliabilityBin,
    expected_error,
    reliability_bins,
)
from toolcrib.evaluation.significance import sign_test
from toolcrib.records import CollectionHit, Outcome, Refusal
from toolcrib.records.log import DecisionRecord, FeedbackRecord, OutcomeRecord, ToolsRecord
from toolcrib.records.turns import ModelUsage, totals
from toolcrib.router.decision_log import Feedback
from toolcrib.router.knowledge import MAPPED_SIGNAL

MIN_BIN_DECISIONS = 20
"""Minimum number of decisions in a share."""

HOUR_S = 3600
MAX_PERIODS = 40
STEPS_S = (60, 300, 900, HOUR_S, 4 * HOUR_S, DAY_S, 7 * DAY_S, 28 * DAY_S, 91 * DAY_S)
"""Periods of a log: the shortest of these that give at most `MAX_PERIODS`."""

VERDICTS = ("accept", "fallback", "abstain")
"""Verdicts, the best first."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of a decision: median, 95th and 99th percentile."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class RouteSummary:
    """Turns with one route."""

    count: int
    latency: Latency


@dataclass(frozen=True, slots=True)
class Share:
    """Mean in [0, 1] over `of` decisions."""

    value: float
    of: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence against success: bins of about equal count, and their mean distance (ECE)."""

    bins: tuple[ReliabilityBin, ...]
    ece: float
    count: int


@dataclass(frozen=True, slots=True)
class Preference:
    """Two interleaved rankings, compared on decisions with known right tools.

    `wins`: the second ranking gave more right tools than the settings' ranking; `losses`: fewer.
    `share`: of wins in both, None without any. `p`: of the two-sided sign test.
    """

    wins: int
    losses: int
    ties: int
    share: float | None
    p: float


@dataclass(frozen=True, slots=True)
class Period:
    """Decisions of one step from `start` (ISO, UTC): turns by verdict and by route."""

    start: str
    verdicts: Mapping[str, int]
    routes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """Summary of a log.

    `since` and `until`: ISO times, empty without decisions. `feedback`: decisions with feedback or
    outcomes; `unreadable`: omitted records. `rates`, if known: `route`, `intent`, `domain` and
    `knowledge` (the first collection, of turns with a route to passages) are shares of right ones;
    `tool_precision`: right tools among the returned; `tool_recall`: returned tools among the right;
    `success`: of decisions. `reliability` by source of the confidence: `route`, `tools`,
    `knowledge`. `verdicts` by `tools` and `knowledge`, of turns with that route. `interleaved` by
    the name of the second ranking. `calls` by tool: share of reported calls that succeeded.
    `usage`: calls of language models. `periods` of `step_s` seconds, without empty ones.
    """

    decisions: int
    feedback: int
    unreadable: int
    since: str
    until: str
    latency: Latency | None
    routes: Mapping[str, RouteSummary]
    rates: Mapping[str, Share]
    reliability: Mapping[str, Reliability]
    verdicts: Mapping[str, Mapping[str, int]]
    degraded: Mapping[str, int]
    interleaved: Mapping[str, Preference]
    calls: Mapping[str, Share]
    usage: tuple[ModelUsage, ...]
    step_s: int
    periods: tuple[Period, ...]


def summarise(records: Iterable[Mapping[str, Any]]) -> DecisionSummary:
    """Measure the decisions of a log; mappings start with the most frequent."""
    made, unreadable = read_decisions(records)
    rows = [one.row for one in made]
    step = _step(made)
    return DecisionSummary(
        decisions=len(made),
        feedback=sum(one.feedback is not None or bool(one.outcomes) for one in made),
        unreadable=unreadable,
        since=_iso(made[0].at) if made else "",
        until=_iso(made[-1].at) if made else "",
        latency=_latency(made) if made else None,
        routes=_routes(made),
        rates=_rates(made),
        reliability=_reliabilities(made),
        verdicts={
            "tools": _counts(row.tools.verdict for row in rows if row.route.kind in TOOL_ROUTES),
            "knowledge": _counts(
                row.knowledge.verdict for row in rows if row.route.kind in KNOWLEDGE_ROUTES
            ),
        },
        degraded=_counts(stage for row in rows for stage in dict.fromkeys(row.degraded)),
        interleaved=_preferences(made),
        calls=_calls(made),
        usage=totals(each for row in rows for each in row.usage),
        step_s=step,
        periods=_periods(made, step),
    )


def _calls(made: Sequence[LoggedDecision]) -> dict[str, Share]:
    outcomes = [(tool, how) for one in made for tool, how in one.outcomes.items()]
    succeeded = Counter(tool for tool, how in outcomes if how == "success")
    called = Counter(tool for tool, _ in outcomes).most_common()
    return {tool: Share(succeeded[tool] / count, count) for tool, count in called}


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _latency(made: Sequence[LoggedDecision]) -> Latency:
    p50, p95, p99 = np.percentile([one.ms for one in made], (50, 95, 99)).tolist()
    return Latency(p50, p95, p99)


def _routes(made: Sequence[LoggedDecision]) -> dict[str, RouteSummary]:
    return {
        kind: RouteSummary(count, _latency([one for one in made if one.row.route.kind == kind]))
        for kind, count in _counts(one.row.route.kind for one in made).items()
    }


def _rates(made: Sequence[LoggedDecision]) -> dict[str, Share]:
    scores = [values(one) for one in made]
    order = ("success", "route", "intent", "domain", "tool_precision", "tool_recall", "knowledge")
    known = {name: [each[name] for each in scores if name in each] for name in order}
    return {name: Share(float(np.mean(its)), len(its)) for name, its in known.items() if its}


def _reliabilities(made: Sequence[LoggedDecision]) -> dict[str, Reliability]:
    judges: dict[str, Callable[[LoggedDecision], tuple[float | None, bool | None]]] = {
        "route": lambda one: (one.row.route.confidence, route_right(one)),
        "tools": lambda one: (_sure_of_first(one.row.tools), tools_right(one)),
        "knowledge": lambda one: (one.row.knowledge.confidence, knowledge_right(one)),
    }
    found: dict[str, Reliability] = {}
    for name, judge in judges.items():
        known = [pair for pair in map(judge, made) if None not in pair]
        if known:
            confidence, correct = (np.array(column) for column in zip(*known, strict=True))
            most = max(1, min(RELIABILITY_BINS, len(known) // MIN_BIN_DECISIONS))
            bins = reliability_bins(confidence, correct, most)
            found[name] = Reliability(bins, expected_error(bins), len(known))
    return found


def _sure_of_first(tools: ToolsRecord) -> float | None:
    """The first tool's probability; if unknown, the confidence, which is its upper bound."""
    sure = None if tools.first is None else tools.first.probability
    return tools.confidence if sure is None else sure


def _preferences(made: Sequence[LoggedDecision]) -> dict[str, Preference]:
    signs: dict[str, Counter[int]] = {}
    for one in made:
        name, right = one.row.tools.interleaved, right_tools(one)
        if name is not None and right is not None:
            teams = Counter(each.team for each in one.row.tools.items if each.id in right)
            lead = teams["other"] - teams["own"]
            signs.setdefault(name, Counter())[(lead > 0) - (lead < 0)] += 1
    found: dict[str, Preference] = {}
    for name, counts in signs.items():
        wins, losses = counts[1], counts[-1]
        share = wins / (wins + losses) if wins + losses else None
        found[name] = Preference(wins, losses, counts[0], share, sign_test(wins, losses))
    return found


def _step(made: Sequence[LoggedDecision]) -> int:
    span = (made[-1].at - made[0].at).total_seconds() if made else 0.0
    return next((step for step in STEPS_S if span / step < MAX_PERIODS), STEPS_S[-1])


def _periods(made: Sequence[LoggedDecision], step: int) -> tuple[Period, ...]:
    by_start: dict[int, list[LoggedDecision]] = {}
    for one in made:
        by_start.setdefault(int(one.at.timestamp() // step) * step, []).append(one)
    return tuple(
        Period(
            _iso(datetime.fromtimestamp(start, UTC)),
            _counts(verdict for one in its if (verdict := _verdict(one))),
            _counts(one.row.route.kind for one in its),
        )
        for start, its in by_start.items()
    )


def _verdict(one: LoggedDecision) -> str:
    """Best verdict of the searched parts; empty for a turn that needs neither."""
    parts = ((TOOL_ROUTES, one.row.tools), (KNOWLEDGE_ROUTES, one.row.knowledge))
    found = {part.verdict for routes, part in parts if one.row.route.kind in routes}
    return next((verdict for verdict in VERDICTS if verdict in found), "")


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


FEEDBACK_SPLIT = "train"
"""Queries labelled by feedback are for learning, never for measuring."""

RECORD_KINDS = ("decision", "feedback", "outcome")
_RECORDS: TypeAdapter[DecisionRecord | FeedbackRecord | OutcomeRecord] = TypeAdapter(
    Annotated[DecisionRecord | FeedbackRecord | OutcomeRecord, Field(discriminator="kind")],
    config=ConfigDict(allow_inf_nan=False, defer_build=True),
)


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """Decision, its feedback, and the outcomes of its tools' calls.

    The latest feedback counts, field by field; None without any. `outcomes`: the latest of each
    tool.
    """

    row: DecisionRecord
    at: datetime
    feedback: Feedback | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])

    @property
    def ms(self) -> float:
        """Milliseconds of the stage `total`, or the sum of all stages without it."""
        took = self.row.took_ms
        return took.get("total", sum(took.values()))


def read_decisions(records: Iterable[Mapping[str, Any]]) -> tuple[tuple[LoggedDecision, ...], int]:
    """Decisions of a log in order of time, and the number of unreadable records.

    Reports on decisions outside of the log, and records of other kinds, are ignored.
    """
    rows: dict[str, tuple[datetime, DecisionRecord]] = {}
    said: list[tuple[datetime, FeedbackRecord | OutcomeRecord]] = []
    unreadable = 0
    for record in records:
        if record.get("kind") not in RECORD_KINDS:
            continue
        try:
            row = _RECORDS.validate_python(record)
            at = datetime.fromisoformat(row.at).astimezone(UTC)
        except ValueError:
            unreadable += 1
            continue
        if isinstance(row, DecisionRecord):
            rows[row.id] = at, row
        else:
            said.append((at, row))
    feedback: dict[str, dict[str, Any]] = {}
    outcomes: dict[str, dict[str, Outcome]] = {}
    for _, row in sorted(said, key=itemgetter(0)):
        if isinstance(row, OutcomeRecord):
            outcomes.setdefault(row.decision, {})[row.tool] = row.outcome
        else:
            fields = {name: getattr(row, name) for name in Feedback.model_fields}
            stated = {name: value for name, value in fields.items() if value is not None}
            feedback.setdefault(row.decision, {}).update(stated)
    given = {id: Feedback(**fields) for id, fields in feedback.items() if fields and id in rows}
    joined = (
        LoggedDecision(row, at, given.get(id), outcomes.get(id, {}))
        for id, (at, row) in rows.items()
    )
    return tuple(sorted(joined, key=lambda one: one.at)), unreadable


def labelled_queries(
    records: Iterable[Mapping[str, Any]], source: str = "the log"
) -> list[LocatedQuery | Refusal]:
    """Decisions with known right tools, as queries to learn from.

    A decision that was logged without its text is refused: it cannot be repeated.
    """
    found: list[LocatedQuery | Refusal] = []
    reason = "was logged without its text; telemetry.text: true logs the text of new decisions"
    for one in read_decisions(records)[0]:
        place, text = f"decision {one.row.id}", one.row.text.search if one.row.text else ""
        if one.feedback is None or (tools := one.feedback.tools) is None:
            continue
        if not text.strip():
            found.append(Refusal(source, place, reason))
            continue
        query = LabelledQuery(
            id=one.row.id,
            text=text,
            split=FEEDBACK_SPLIT,
            relevant=dict.fromkeys(tools, 1.0),
            answerable=bool(tools),
            unanswerable_scope="" if tools else "corpus",
        )
        found.append(LocatedQuery(f"{source}: {place}", query))
    return found


TOOL_ROUTES = ("tools", "both", "general")
KNOWLEDGE_ROUTES = ("knowledge", "both")
"""Routes of turns that get tools, and of turns that get passages."""


def route_right(one: LoggedDecision) -> bool | None:
    """True if the route was right, None if unknown."""
    said = one.feedback
    if said is None:
        return None
    if said.outcome == "failure":
        return False
    if said.route is not None:
        return one.row.route.kind == said.route
    return True if said.outcome == "success" else None


def tools_right(one: LoggedDecision) -> bool | None:
    """True if the first tool of the ranking was right, None if unknown.

    The first tool is the best of the search, wherever rules placed it. Withheld tools are not in
    the log: if no tool would have been right, the first one was wrong.
    """
    if one.row.route.kind not in TOOL_ROUTES:
        return None
    said, tools = one.feedback, one.row.tools
    if said is not None and (said.outcome == "failure" or said.tools == ()):
        return False
    first = tools.first
    if first is None or (tools.verdict != "accept" and first.id in tools.by_rule):
        return None
    if said is not None and said.tools is not None:
        return first.id in said.tools
    if said is not None and said.outcome == "success":
        return True if tools.verdict == "accept" else None
    reported = one.outcomes.get(first.id)
    return None if reported is None else reported == "success"


def right_tools(one: LoggedDecision) -> frozenset[str] | None:
    """Ids of the right tools; None without feedback or outcomes.

    Tools whose calls succeeded, unless feedback names others or states that the decision failed.
    """
    said = one.feedback
    if said is not None and said.outcome == "failure":
        return frozenset()
    if said is not None and said.tools is not None:
        return frozenset(said.tools)
    succeeded = frozenset(tool for tool, how in one.outcomes.items() if how == "success")
    return succeeded if one.outcomes else None


def knowledge_right(one: LoggedDecision) -> bool | None:
    """True if the first collection was right, None if unknown."""
    said, knowledge = one.feedback, one.row.knowledge
    if said is None or one.row.route.kind not in KNOWLEDGE_ROUTES:
        return None
    if said.outcome == "failure":
        return False
    if _is_by_rule(one.row):
        return None
    if said.collections is not None:
        return _first_is_in(knowledge.collections, said.collections)
    return True if said.outcome == "success" and knowledge.verdict == "accept" else None


def values(one: LoggedDecision) -> dict[str, float]:
    """Scores of a decision by its feedback, each in [0, 1]; fields without feedback are absent.

    `success`, `route`, `intent`, `domain` and `knowledge` are 0 or 1; `knowledge` only for turns
    with a route to passages. `tool_precision` needs a returned tool, `tool_recall` a right one.
    """
    said, row = one.feedback, one.row
    if said is None:
        return {}
    pairs = {
        "success": (said.outcome, "success"),
        "route": (said.route, row.route.kind),
        "intent": (said.intent, row.context.intent or ""),
        "domain": (said.domain, row.context.domain or ""),
    }
    found: dict[str, float] = {
        name: given == made for name, (given, made) in pairs.items() if given is not None
    }
    if said.tools is not None:
        found |= _tool_values(row.tools, frozenset(said.tools))
    has_passages = row.route.kind in KNOWLEDGE_ROUTES and not _is_by_rule(row)
    if said.collections is not None and has_passages:
        found["knowledge"] = _first_is_in(row.knowledge.collections, said.collections)
    return found


def _tool_values(tools: ToolsRecord, right: frozenset[str]) -> dict[str, float]:
    """Precision and recall of the ranked tools, without tools added by a rule."""
    ranked = right - tools.by_rule
    if right and not ranked:
        return {}
    right, returned = ranked, {each.id for each in tools.items} - tools.by_rule
    both = len(returned & right)
    precision = {"tool_precision": both / len(returned)} if returned else {}
    recall = {"tool_recall": both / len(right)} if right else {}
    return precision | recall


def _is_by_rule(row: DecisionRecord) -> bool:
    """True if the map, or the fallback setting, chose the collections."""
    return row.knowledge.verdict == "fallback" or MAPPED_SIGNAL in row.signals


def _first_is_in(asked: Sequence[CollectionHit], right: Sequence[str]) -> bool:
    return asked[0].id in right if asked else not right
