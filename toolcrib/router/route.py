"""Route of a turn: its need of a tool and its need of a text, by what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from toolcrib.numerics import sigmoid
from toolcrib.records import Context, FindResult, KnowledgeResult, Route, RouteKind

TOOL_WEIGHTS = (0.53, -0.18, 0.87, 0.28, 0.35, -0.57, 0.9, 1.34)
TEXT_WEIGHTS = (-0.31, 0.81, 0.05, 1.14, -0.25, -0.25, 1.61, -0.85)
"""Weights of the log-odds that a turn needs a tool, and that it needs a text, for
`RouteEvidence.features`: two logistic regressions on turns with labelled routes
(benchmarks/turns.py --fit)."""

FIRST_NEED_THRESHOLD, SECOND_NEED_THRESHOLD = 0.4, 0.5
"""Probabilities from which the likelier need counts, and the other one beside it."""

STANDING_TOOL_PROBABILITY = 0.5
"""Probability of the first tool from which the route is never `general`; for passages their verdict
decides."""

STATED_NEED_PROBABILITY = 0.05
"""Probability from which a need counts in a turn with an order and a question; below it, what was
found speaks clearly against the need."""

MAX_GROUNDS = 3


class Reason(StrEnum):
    """Reason of a route, or of an empty part of an answer, to be formatted with its details.

    Nothing decides by these sentences.
    """

    TOOLS = "a tool must do this"
    KNOWLEDGE = "written knowledge answers this"
    BOTH = "this needs a tool and what is written about it"
    GENERAL = "neither the tools nor the collections fit"
    NO_TOOL_FITS = "no tool fits"
    NO_COLLECTION_FITS = "no collection fits"
    SMALLTALK = "nothing is looked up for this: {}"
    NO_TIME = "no time was left"
    NO_WORDS = "the turn holds no words"
    NO_COLLECTION = "there is no collection in reach"
    NO_PASSAGES = "the collections in reach hold no passages"
    FAILED = "the collections could not be searched"
    FIT = "the probability that any collection fits is {:.2f}"
    NOTHING_NEAR = "no passage comes near (probability {}, below {})"
    NOT_SURE = "no collection is sure enough ({}, below {}): {} asked instead"
    MAPPED = "the map names {}"


MIN_ROUTE_PROBABILITY, MAX_ROUTE_PROBABILITY = 0.01, 0.99
EVEN_PROBABILITY = 0.5

UNLABELLED_NEED_PROBABILITY = 0.01
"""Probability of needing neither, without a label."""

CUES_LOG_ODDS_FACTOR = 3.0
"""Factor of the log-odds of need by cues alone: a classifier's are larger."""

ROUTE_OF_NEED: Mapping[str, RouteKind] = {"know": "knowledge", "both": "both", "neither": "general"}


@dataclass(frozen=True, slots=True)
class RouteEvidence:
    """Evidence for the route of a turn.

    With `gate_decides` tools that the gate doubts are not enough alone; if the gate `withholds`
    them, there are none. `skipped_stages` were left out or failed. `grounds`: phrases of the turn
    that name written rules. `orders_and_asks`: one clause orders something, another asks.
    `learned_shares`: probabilities of the routes by learned examples (`retrieval.learned`).
    """

    context: Context
    tools: FindResult
    knowledge: KnowledgeResult
    gate_decides: bool = False
    skipped_stages: frozenset[str] = frozenset()
    withholds: bool = False
    grounds: int = 0
    orders_and_asks: bool = False
    learned_shares: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def saw_tools(self) -> bool:
        """True if a search for tools found any, fit or not."""
        return "tools" not in self.skipped_stages and bool(self.tools.tools)

    @property
    def saw_passages(self) -> bool:
        """True if a search for passages found any, fit or not."""
        return bool(self.knowledge.passages) or self.knowledge.fit is not None

    @property
    def has_tools(self) -> bool:
        """True if there is a tool to give."""
        return self.saw_tools and not (self.withholds and self.tools.verdict != "accept")

    @property
    def first_tool_probability(self) -> float | None:
        """Probability that the best tool is right; of withheld tools, that any is."""
        likely = [hit.probability for hit in self.tools.tools if hit.probability is not None]
        return max(likely, default=self.tools.confidence)

    @property
    def by_words(self) -> bool:
        """True if the tools were found by words alone."""
        return "dense" in self.tools.degraded

    def features(self) -> tuple[float, ...]:
        """Features of both regressions.

        Log-odds that the first tool is right, that any collection fits, that the user wants to act,
        to know, and neither; whether the turn has no domain; written rules (an action may be wanted
        by those); and a constant.
        """
        return (
            _log_odds(self.first_tool_probability),
            _log_odds(self.knowledge.fit),
            _log_odds(wish_probability(self.context, "act")),
            _log_odds(wish_probability(self.context, "know")),
            _log_odds(self.context.needs.get("neither", UNLABELLED_NEED_PROBABILITY)),
            float(self.context.domain is None),
            min(self.grounds, MAX_GROUNDS) / 2,
            1.0,
        )


def wish_probability(context: Context, need: Literal["act", "know"]) -> float:
    """Probability that the user wants to act or to know, be it both; even odds if unknown."""
    if context.needs:
        return context.needs.get(need, 0.0) + context.needs.get("both", 0.0)
    if context.need is None:
        return EVEN_PROBABILITY
    sure = context.confidences.get("need", EVEN_PROBABILITY)
    odds = CUES_LOG_ODDS_FACTOR * _log_odds(sure)
    return sigmoid(odds if context.need in {need, "both"} else -odds)


def choose_route(evidence: RouteEvidence) -> Route:
    """Choose the route of a turn by two questions: if it needs a tool, and if it needs a text.

    `corrected_from` is the guess by the context's need alone, if the evidence says otherwise.
    """
    context, tools, knowledge = evidence.context, evidence.tools, evidence.knowledge
    if context.smalltalk is not None:
        return Route("none", tools.reason, context.confidences.get("smalltalk"))
    if not (evidence.saw_tools or evidence.saw_passages):
        return Route("general", _why_general(evidence))
    kind = _KINDS[_needs(evidence)]
    doubted = kind in ("tools", "both") and tools.verdict != "accept"
    if doubted and evidence.gate_decides:
        kind = "both" if knowledge.passages else "general"
    reason = _why_general(evidence) if kind == "general" else Reason[kind.upper()].format()
    if doubted and kind != "general":
        reason = f"{reason}, and perhaps none fits: {tools.reason}"
    likely = route_probabilities(evidence)
    guess = ROUTE_OF_NEED.get(context.need or "", "tools")
    if kind == guess:
        return Route(kind, reason, likely[kind])
    shares = ", ".join(f"{each} {share:.2f}" for each, share in likely.items())
    return Route(kind, f"{reason} ({shares})", likely[kind], corrected_from=guess)


_KINDS: Mapping[tuple[bool, bool], RouteKind] = {
    (True, False): "tools",
    (False, True): "knowledge",
    (True, True): "both",
    (False, False): "general",
}
"""Route by the need of a tool and the need of a text."""

DECIDED_ROUTES = tuple(_KINDS.values())
"""Routes that evidence decides; small talk and empty turns have another."""


def _needs(evidence: RouteEvidence) -> tuple[bool, bool]:
    """Needs of a tool and of a text that what was found can serve.

    Evidence that passed its own threshold is never outvoted by "neither".
    """
    tools, knowledge = evidence.tools, evidence.knowledge
    has_tools, has_text = evidence.has_tools, bool(knowledge.passages)
    tool, text = _need_probabilities(evidence)
    tool, text = tool * has_tools, text * has_text
    # If the caller states needs, and a tool fits, passages alone are not enough. The probabilities
    # are of rankings with the encoder: by words alone the gate decides.
    is_sure = has_tools and tools.verdict == "accept" and (tools.needs or evidence.by_words)
    needs_tool = bool(
        is_sure or tool >= SECOND_NEED_THRESHOLD or tool >= max(text, FIRST_NEED_THRESHOLD)
    )
    needs_text = text >= SECOND_NEED_THRESHOLD or text >= max(tool, FIRST_NEED_THRESHOLD)
    if needs_tool or needs_text:
        return needs_tool, needs_text
    if has_text and knowledge.verdict == "accept":
        return False, True
    likely = 0.0 if evidence.by_words else evidence.first_tool_probability or 0.0
    return has_tools and likely >= STANDING_TOOL_PROBABILITY, False


def _need_probabilities(evidence: RouteEvidence) -> tuple[float, float]:
    """Probabilities that a turn needs a tool, and that it needs a text, found or not."""
    features = evidence.features()
    tool, text = (
        sigmoid(sum(weight * value for weight, value in zip(weights, features, strict=True)))
        for weights in (TOOL_WEIGHTS, TEXT_WEIGHTS)
    )
    shares = evidence.learned_shares
    left, both = 1 - sum(shares.values()), shares.get("both", 0.0)
    tool = left * tool + shares.get("tools", 0.0) + both
    text = left * text + shares.get("knowledge", 0.0) + both
    if not evidence.orders_and_asks:
        return tool, text
    tool, text = (
        max(need, SECOND_NEED_THRESHOLD) if need >= STATED_NEED_PROBABILITY else need
        for need in (tool, text)
    )
    return tool, text


def route_probabilities(evidence: RouteEvidence) -> dict[RouteKind, float]:
    """Probability of each possible route.

    A stage that was left out may still be right. If everything was withheld, that may be wrong, so
    "nothing fits" is never certain.
    """
    tool, text = _need_probabilities(evidence)
    tools = evidence.has_tools or "tools" in evidence.skipped_stages
    passages = bool(evidence.knowledge.passages) or "knowledge" in evidence.skipped_stages
    if not (tools or passages):
        tools, passages = evidence.saw_tools, evidence.saw_passages
    tool, text = tool * tools, text * passages
    shares: dict[RouteKind, float] = {
        kind: (tool if needs_tool else 1 - tool) * (text if needs_text else 1 - text)
        for (needs_tool, needs_text), kind in _KINDS.items()
    }
    return {kind: share for kind, share in shares.items() if share}


def _why_general(evidence: RouteEvidence) -> str:
    """Reason of the route `general`: what does not fit or was not searched, with probabilities."""
    saw_tools, saw_passages = evidence.saw_tools, evidence.saw_passages
    tools, passages = evidence.tools.reason, evidence.knowledge.reason
    if saw_tools and saw_passages:
        reason = Reason.GENERAL.format()
    else:
        first = Reason.NO_TOOL_FITS.format() if saw_tools else tools
        second = Reason.NO_COLLECTION_FITS.format() if saw_passages else passages
        reason = ", and ".join(dict.fromkeys((first, second)))
    if saw_passages and not passages and evidence.knowledge.fit is not None:
        passages = Reason.FIT.format(evidence.knowledge.fit)
    if evidence.tools.verdict == "accept":
        tools = f"though {tools}"
    parts = [tools] if saw_tools else []
    parts += [passages] if saw_passages and passages else []
    return f"{reason}: {'; '.join(parts)}" if parts else reason


def _log_odds(probability: float | None) -> float:
    """Log-odds of a probability, within bounds; even odds if unknown."""
    if probability is None:
        return 0.0
    held = min(MAX_ROUTE_PROBABILITY, max(MIN_ROUTE_PROBABILITY, probability))
    return math.log(held / (1 - held))
