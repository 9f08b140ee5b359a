"""Route of a turn: a first guess from its context, corrected at most once by what was found."""

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
"""Logits of where a turn goes, of `RouteEvidence.known`: a multinomial regression, fitted on turns
whose routes are labelled, as if they went there as often as the project's training turns do
(benchmarks/turns.py --fit)."""

CLAUSES: Mapping[RouteKind, tuple[float, float]] = {
    "tools": (-0.11, 0.0),
    "knowledge": (-0.22, -0.09),
    "both": (-0.15, 0.03),
    "general": (0.48, 0.06),
}
"""What is added of `RouteEvidence.apart` for a turn of several clauses, fitted with `WEIGHTS` held:
a turn of one clause is routed by those alone."""

GROUNDS: Mapping[RouteKind, float] = {
    "tools": -0.97,
    "knowledge": -0.01,
    "both": 1.34,
    "general": -0.36,
}
"""What is added of `RouteEvidence.grounded`, fitted with the others held."""

MOST_GROUNDS = 3


class Reason(StrEnum):
    """Why a turn goes where it goes, or why a part of its answer is empty."""

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

    def said(self, *details: object) -> str:
        """The reason in words, as answers have it."""
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
    Reason.FAILED: "the collections could not be asked",
    Reason.FIT: "the probability that any collection fits is {:.2f}",
    Reason.NOTHING_NEAR: "no passage comes near (probability {}, below {})",
    Reason.NOT_SURE: "no collection is sure enough ({}, below {}): {} asked instead",
    Reason.MAPPED: "the map names {}",
}
"""What is said for each reason; nothing decides by these sentences."""

LEAST, MOST = 0.01, 0.99
EVEN = 0.5

SELDOM = 0.01
"""How likely both is wanted, or neither, where nobody has said: of 0.01 to 0.2 development turns
without an encoder go right alike, and with this most questions get their passages."""

BY_CUES = 3.0
"""What cues alone say of need counts so much more than their confidence: a classifier is surer."""

GUESSES: Mapping[str, RouteKind] = {"know": "knowledge", "both": "both", "neither": "general"}


@dataclass(frozen=True, slots=True)
class RouteEvidence:
    """What is known when a turn must be sent somewhere.

    With `gate_decides` tools that the gate doubts are not enough alone; where it `withholds`
    them, there are none. `unasked`: the stages that were left out or failed, of which `tools` and
    `knowledge` count. `clauses`: what each of the turn's clauses wants by itself, none where it
    is one wish. `grounds`: how many of its phrases name rules that are written down.
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
        """Whether tools were looked for, and any was found, however unfit."""
        return "tools" not in self.unasked and bool(self.tools.tools)

    @property
    def saw_passages(self) -> bool:
        """Whether passages were looked for, and any was found, however unfit."""
        return bool(self.knowledge.passages) or self.knowledge.fit is not None

    @property
    def has_tools(self) -> bool:
        """Whether there is any tool to give."""
        return self.saw_tools and not (self.withholds and self.tools.verdict != "accept")

    def _first_is_right(self) -> float | None:
        """How likely the best tool is right; of those withheld, how likely any was."""
        likely = [hit.probability for hit in self.tools.tools if hit.probability is not None]
        return max(likely, default=self.tools.confidence)

    def known(self) -> tuple[float, ...]:
        """What the regressions weigh.

        Log-odds that the first tool is right, that any collection fits, that reading rather than
        doing is wanted, both, and neither; whether the turn is of no domain; and a constant.
        """
        return (
            _log_odds(self._first_is_right()),
            _log_odds(self.knowledge.fit),
            _reading(self.context),
            _wanting(self.context, "both"),
            _wanting(self.context, "neither"),
            float(self.context.domain is None),
            1.0,
        )

    @property
    def grounded(self) -> float:
        """How much the turn rests on what is written: what it wants done, it may want done by that.

        From 0 to 1.5.
        """
        return min(self.grounds, MOST_GROUNDS) / 2

    def apart(self) -> tuple[float, float]:
        """How far the clauses are from the whole turn, in log-odds that reading is wanted.

        Of the one that wants it least, and of the one that wants it most.
        """
        whole = _reading(self.context)
        reading = [_reading(each) for each in self.clauses] or [whole]
        return min(reading) - whole, max(reading) - whole


def choose_route(evidence: RouteEvidence) -> Route:
    """The route of a turn.

    The guess says whether the turn wants something done or to know something. What was found
    may correct it once: to the other, to both, or to neither.
    """
    context = evidence.context
    if context.smalltalk is not None:
        return Route("none", evidence.tools.reason, context.confidences.get("smalltalk"))
    if not (evidence.saw_tools or evidence.saw_passages):
        return Route("general", _why_general(evidence))
    likely = _likely(evidence)
    given = _routes(tools=evidence.has_tools, knowledge=bool(evidence.knowledge.passages))
    tools = evidence.tools
    # Where somebody has said what tools it needs, and there is one, passages alone are not enough.
    is_needed = evidence.has_tools and bool(tools.needs) and tools.verdict == "accept"
    kind = max(given, key=lambda each: (not is_needed or each != "knowledge", likely[each]))
    doubted = kind in ("tools", "both") and tools.verdict != "accept"
    if doubted and evidence.gate_decides:
        kind = "both" if evidence.knowledge.passages else "general"
    guess = GUESSES.get(context.need or "", "tools")
    reason = _why_general(evidence) if kind == "general" else Reason(kind).said()
    if doubted and kind != "general":
        reason = f"{reason}, and perhaps none fits: {evidence.tools.reason}"
    if kind == guess:
        return Route(kind, reason, likely[kind])
    told = ", ".join(f"{each} {share:.2f}" for each, share in likely.items())
    return Route(kind, f"{reason} ({told})", likely[kind], corrected_from=guess)


def _routes(*, tools: bool, knowledge: bool) -> tuple[RouteKind, ...]:
    """The routes that there are with tools, with passages, with both or neither."""
    needs = {"tools": (tools,), "knowledge": (knowledge,), "both": (tools, knowledge)}
    return tuple(kind for kind in WEIGHTS if all(needs.get(kind, ())))


def _likely(evidence: RouteEvidence) -> dict[RouteKind, float]:
    """How likely each route is right, of those that there is something for.

    What nobody looked for may be right too. Where all was withheld, that may be wrong, so that
    "nothing fits" is never certain.
    """
    known, apart = evidence.known(), evidence.apart()
    there = _routes(
        tools=evidence.has_tools or "tools" in evidence.unasked,
        knowledge=bool(evidence.knowledge.passages) or "knowledge" in evidence.unasked,
    )
    if len(there) == 1:
        there = _routes(tools=evidence.saw_tools, knowledge=evidence.saw_passages)
    return exclusive_probabilities(
        {
            kind: sum(weight * value for weight, value in zip(WEIGHTS[kind], known, strict=True))
            + sum(weight * value for weight, value in zip(CLAUSES[kind], apart, strict=True))
            + GROUNDS[kind] * evidence.grounded
            for kind in there
        }
    )


def _why_general(evidence: RouteEvidence) -> str:
    """What was looked at and does not fit, why the rest was not; and how sure that is, of each."""
    saw_tools, saw_passages = evidence.saw_tools, evidence.saw_passages
    tools, passages = evidence.tools.reason, evidence.knowledge.reason
    if saw_tools and saw_passages:
        said = Reason.GENERAL.said()
    else:
        first = Reason.NO_TOOL_FITS.said() if saw_tools else tools
        second = Reason.NO_COLLECTION_FITS.said() if saw_passages else passages
        said = ", and ".join(dict.fromkeys((first, second)))
    if saw_passages and not passages and evidence.knowledge.fit is not None:
        passages = Reason.FIT.said(evidence.knowledge.fit)
    if evidence.tools.verdict == "accept":
        tools = f"though {tools}"
    known = [tools] if saw_tools else []
    known += [passages] if saw_passages and passages else []
    return f"{said}: {'; '.join(known)}" if known else said


def _wanting(context: Context, need: str) -> float:
    """Log-odds that this is wanted; where no classifier told, its label says all there is."""
    if need in context.needs:
        return _log_odds(context.needs[need])
    return _log_odds(context.confidences.get("need") if context.need == need else SELDOM)


def _reading(context: Context) -> float:
    """Log-odds that reading rather than doing is wanted."""
    if {"act", "know"} <= context.needs.keys():
        act, know = context.needs["act"], context.needs["know"]
        return _log_odds(know / (act + know) if act + know else None)
    sure = context.confidences.get("need", EVEN)
    odds = BY_CUES * _log_odds({"know": sure, "act": 1 - sure}.get(context.need or "", EVEN))
    return max(_log_odds(LEAST), min(_log_odds(MOST), odds))


def _log_odds(probability: float | None) -> float:
    """Even odds where nobody has said."""
    if probability is None:
        return 0.0
    held = min(MOST, max(LEAST, probability))
    return math.log(held / (1 - held))
