"""Route of a turn: a guess from its context, corrected at most once by what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from toolcrib.numerics import exclusive_probabilities
from toolcrib.records import Context, FindResult, KnowledgeResult, Route, RouteKind

WEIGHTS: Mapping[RouteKind, tuple[float, ...]] = {
    "tools": (0.56, -0.38, -0.36, -0.25, 0.27, -0.01, 1.5),
    "knowledge": (-0.41, 0.41, 0.4, 0.04, -0.22, -0.09, -0.18),
    "both": (0.09, 0.35, 0.06, 0.79, -0.7, -0.85, -0.82),
    "general": (-0.24, -0.38, -0.1, -0.58, 0.65, 0.95, -0.5),
}
"""Weights of the logit of each route for `RouteEvidence.features`: a multinomial regression on
turns with labelled routes, weighted to the routes of the project's training turns
(benchmarks/turns.py --fit)."""

CLAUSES: Mapping[RouteKind, tuple[float, float]] = {
    "tools": (-0.11, 0.0),
    "knowledge": (-0.22, -0.09),
    "both": (-0.15, 0.03),
    "general": (0.48, 0.06),
}
"""Weights of `RouteEvidence.clause_features`, fitted with `WEIGHTS` held: 0 for a turn of one
clause."""

GROUNDS: Mapping[RouteKind, float] = {
    "tools": -0.97,
    "knowledge": -0.01,
    "both": 1.34,
    "general": -0.36,
}
"""Weights of `RouteEvidence.grounded`, fitted with the others held."""

MAX_GROUNDS = 3


class Reason(StrEnum):
    """Reason of a route, or of an empty part of an answer."""

    TOOLS = "tools"
    KNOWLEDGE = "knowledge"
    BOTH = "both"
    GENERAL = "general"
    NO_TOOL_FITS = "no-tool-fits"
    NO_COLLECTION_FITS = "no-collection-fits"
    SMALLTALK = "smalltalk"
    NO_TIME = "no-time"
    NO_WORDS = "no-words"
    NO_COLLECTION = "no-collection"
    NO_PASSAGES = "no-passages"
    FAILED = "failed"
    FIT = "fit"
    NOTHING_NEAR = "nothing-near"
    NOT_SURE = "not-sure"
    MAPPED = "mapped"

    def text(self, *details: object) -> str:
        """Reason in words, as answers have it."""
        return REASONS[self].format(*details)


REASONS: Mapping[Reason, str] = {
    Reason.TOOLS: "a tool must do this",
    Reason.KNOWLEDGE: "written knowledge answers this",
    Reason.BOTH: "this needs a tool and what is written about it",
    Reason.GENERAL: "neither the tools nor the collections fit",
    Reason.NO_TOOL_FITS: "no tool fits",
    Reason.NO_COLLECTION_FITS: "no collection fits",
    Reason.SMALLTALK: "nothing is looked up for this: {}",
    Reason.NO_TIME: "no time was left",
    Reason.NO_WORDS: "the turn holds no words",
    Reason.NO_COLLECTION: "there is no collection in reach",
    Reason.NO_PASSAGES: "the collections in reach hold no passages",
    Reason.FAILED: "the collections could not be searched",
    Reason.FIT: "the probability that any collection fits is {:.2f}",
    Reason.NOTHING_NEAR: "no passage comes near (probability {}, below {})",
    Reason.NOT_SURE: "no collection is sure enough ({}, below {}): {} asked instead",
    Reason.MAPPED: "the map names {}",
}
"""Sentences of reasons; nothing decides by them."""

MIN_ROUTE_PROBABILITY, MAX_ROUTE_PROBABILITY = 0.01, 0.99
EVEN_PROBABILITY = 0.5

UNLABELLED_NEED_PROBABILITY = 0.01
"""Probability of needing both, or neither, without a label: of 0.01 to 0.2, development turns
without an encoder go right alike, and with 0.01 most questions get their passages."""

CUES_LOG_ODDS_FACTOR = 3.0
"""Factor of the log-odds of need by cues alone: a classifier's are larger."""

ROUTE_OF_NEED: Mapping[str, RouteKind] = {"know": "knowledge", "both": "both", "neither": "general"}


@dataclass(frozen=True, slots=True)
class RouteEvidence:
    """Evidence for the route of a turn.

    With `gate_decides` tools that the gate doubts are not enough alone; if the gate `withholds`
    them, there are none. `unasked`: stages that were left out or failed. `clauses`: context of each
    clause, empty for a single clause. `grounds`: phrases of the turn that name written rules.
    """

    context: Context
    tools: FindResult
    knowledge: KnowledgeResult
    gate_decides: bool = False
    unasked: frozenset[str] = frozenset()
    withholds: bool = False
    clauses: tuple[Context, ...] = ()
    grounds: int = 0

    @property
    def saw_tools(self) -> bool:
        """True if a search for tools found any, fit or not."""
        return "tools" not in self.unasked and bool(self.tools.tools)

    @property
    def saw_passages(self) -> bool:
        """True if a search for passages found any, fit or not."""
        return bool(self.knowledge.passages) or self.knowledge.fit is not None

    @property
    def has_tools(self) -> bool:
        """True if there is a tool to give."""
        return self.saw_tools and not (self.withholds and self.tools.verdict != "accept")

    def _first_tool_probability(self) -> float | None:
        """Probability that the best tool is right; of withheld tools, that any is."""
        likely = [hit.probability for hit in self.tools.tools if hit.probability is not None]
        return max(likely, default=self.tools.confidence)

    def features(self) -> tuple[float, ...]:
        """Features of the regression.

        Log-odds that the first tool is right, that any collection fits, that the user wants to read
        rather than act, wants both, and neither; whether the turn has no domain; and a constant.
        """
        return (
            _log_odds(self._first_tool_probability()),
            _log_odds(self.knowledge.fit),
            _reading_log_odds(self.context),
            _need_log_odds(self.context, "both"),
            _need_log_odds(self.context, "neither"),
            float(self.context.domain is None),
            1.0,
        )

    @property
    def grounded(self) -> float:
        """Degree to which the turn names written rules, from 0 to 1.5.

        An action may be wanted by those rules.
        """
        return min(self.grounds, MAX_GROUNDS) / 2

    def clause_features(self) -> tuple[float, float]:
        """Lowest and highest reading log-odds of the clauses, less those of the turn."""
        whole = _reading_log_odds(self.context)
        reading = [_reading_log_odds(each) for each in self.clauses] or [whole]
        return min(reading) - whole, max(reading) - whole


def choose_route(evidence: RouteEvidence) -> Route:
    """Choose the route of a turn.

    The guess is by the context's need, to act or to know. The evidence may correct it once: to the
    other, to both, or to neither.
    """
    context = evidence.context
    if context.smalltalk is not None:
        return Route("none", evidence.tools.reason, context.confidences.get("smalltalk"))
    if not (evidence.saw_tools or evidence.saw_passages):
        return Route("general", _why_general(evidence))
    likely = _probabilities(evidence)
    given = _routes(tools=evidence.has_tools, knowledge=bool(evidence.knowledge.passages))
    tools = evidence.tools
    # If the caller states needs, and a tool fits, passages alone are not enough.
    is_needed = evidence.has_tools and bool(tools.needs) and tools.verdict == "accept"
    kind = max(given, key=lambda each: (not is_needed or each != "knowledge", likely[each]))
    doubted = kind in ("tools", "both") and tools.verdict != "accept"
    if doubted and evidence.gate_decides:
        kind = "both" if evidence.knowledge.passages else "general"
    guess = ROUTE_OF_NEED.get(context.need or "", "tools")
    reason = _why_general(evidence) if kind == "general" else Reason(kind).text()
    if doubted and kind != "general":
        reason = f"{reason}, and perhaps none fits: {evidence.tools.reason}"
    if kind == guess:
        return Route(kind, reason, likely[kind])
    shares = ", ".join(f"{each} {share:.2f}" for each, share in likely.items())
    return Route(kind, f"{reason} ({shares})", likely[kind], corrected_from=guess)


def _routes(*, tools: bool, knowledge: bool) -> tuple[RouteKind, ...]:
    """Routes that are possible with tools, with passages, with both or neither."""
    needs = {"tools": (tools,), "knowledge": (knowledge,), "both": (tools, knowledge)}
    return tuple(kind for kind in WEIGHTS if all(needs.get(kind, ())))


def _probabilities(evidence: RouteEvidence) -> dict[RouteKind, float]:
    """Probability of each possible route.

    A stage that was left out may still be right. If everything was withheld, that may be wrong, so
    "nothing fits" is never certain.
    """
    features, clause_features = evidence.features(), evidence.clause_features()
    there = _routes(
        tools=evidence.has_tools or "tools" in evidence.unasked,
        knowledge=bool(evidence.knowledge.passages) or "knowledge" in evidence.unasked,
    )
    if len(there) == 1:
        there = _routes(tools=evidence.saw_tools, knowledge=evidence.saw_passages)
    return exclusive_probabilities(
        {
            kind: sum(weight * value for weight, value in zip(WEIGHTS[kind], features, strict=True))
            + sum(
                weight * value for weight, value in zip(CLAUSES[kind], clause_features, strict=True)
            )
            + GROUNDS[kind] * evidence.grounded
            for kind in there
        }
    )


def _why_general(evidence: RouteEvidence) -> str:
    """Reason of the route `general`: what does not fit or was not searched, with probabilities."""
    saw_tools, saw_passages = evidence.saw_tools, evidence.saw_passages
    tools, passages = evidence.tools.reason, evidence.knowledge.reason
    if saw_tools and saw_passages:
        reason = Reason.GENERAL.text()
    else:
        first = Reason.NO_TOOL_FITS.text() if saw_tools else tools
        second = Reason.NO_COLLECTION_FITS.text() if saw_passages else passages
        reason = ", and ".join(dict.fromkeys((first, second)))
    if saw_passages and not passages and evidence.knowledge.fit is not None:
        passages = Reason.FIT.text(evidence.knowledge.fit)
    if evidence.tools.verdict == "accept":
        tools = f"though {tools}"
    parts = [tools] if saw_tools else []
    parts += [passages] if saw_passages and passages else []
    return f"{reason}: {'; '.join(parts)}" if parts else reason


def _need_log_odds(context: Context, need: str) -> float:
    """Log-odds of a need; without a classifier, by its label."""
    if need in context.needs:
        return _log_odds(context.needs[need])
    return _log_odds(
        context.confidences.get("need") if context.need == need else UNLABELLED_NEED_PROBABILITY
    )


def _reading_log_odds(context: Context) -> float:
    """Log-odds that the user wants to read rather than act."""
    if {"act", "know"} <= context.needs.keys():
        act, know = context.needs["act"], context.needs["know"]
        return _log_odds(know / (act + know) if act + know else None)
    sure = context.confidences.get("need", EVEN_PROBABILITY)
    odds = CUES_LOG_ODDS_FACTOR * _log_odds(
        {"know": sure, "act": 1 - sure}.get(context.need or "", EVEN_PROBABILITY)
    )
    return max(_log_odds(MIN_ROUTE_PROBABILITY), min(_log_odds(MAX_ROUTE_PROBABILITY), odds))


def _log_odds(probability: float | None) -> float:
    """Log-odds of a probability, within bounds; even odds if unknown."""
    if probability is None:
        return 0.0
    held = min(MAX_ROUTE_PROBABILITY, max(MIN_ROUTE_PROBABILITY, probability))
    return math.log(held / (1 - held))
