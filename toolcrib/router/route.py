"""Route of a turn, from the probabilities that it needs a tool and that it needs passages."""

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
"""Coefficients of two logistic regressions over `RouteEvidence.features`: need of a tool, need of
passages. Fitted on turns with labelled routes (benchmarks/turns.py --fit)."""

FIRST_NEED_THRESHOLD, SECOND_NEED_THRESHOLD = 0.4, 0.5
"""Minimum probability of the likelier need, and of the other need beside it."""

MIN_TOOL_ROUTE_PROBABILITY, MIN_TOOL_ROUTE_CONFIDENCE = 0.5, 0.8
"""Minimum probability of the first tool, or that any tool fits, that rules out the route `general`;
for passages their verdict does. Equal tools share one probability, so either bound is enough."""

STATED_NEED_PROBABILITY = 0.05
"""Minimum probability of each need in a turn with both an order and a question; below it, the
search results contradict the need."""

MAX_RULE_MENTIONS = 3


class Reason(StrEnum):
    """Reason of a route or of an empty part of an answer; `{}` takes details.

    The texts are for people: no code branches on them.
    """

    TOOLS = "a tool must do this"
    KNOWLEDGE = "written knowledge answers this"
    BOTH = "this needs a tool and written knowledge"
    GENERAL = "neither the tools nor the collections fit"
    NO_TOOL_FITS = "no tool fits"
    NO_TOOL_NEEDED = "the turn probably needs no tool"
    NO_COLLECTION_FITS = "no collection fits"
    SMALLTALK = "no search for small talk: {}"
    NO_TIME = "no time was left"
    NO_WORDS = "the turn holds no words"
    NO_COLLECTION = "no collection is in reach"
    NO_PASSAGES = "the collections in the caller's scope hold no passages"
    FAILED = "the collections could not be searched"
    COLLECTION_FIT = "the probability that any collection fits is {:.2f}"
    NO_PASSAGE_FITS = "no passage fits (probability {}, below {})"
    NO_LIKELY_COLLECTION = "no collection is likely enough ({}, below {}); searched instead: {}"
    MAPPED = "the map chooses {}"


MIN_ROUTE_PROBABILITY, MAX_ROUTE_PROBABILITY = 0.01, 0.99
EVEN_PROBABILITY = 0.5

UNLABELLED_NEED_PROBABILITY = 0.01
"""Default probability of the need `neither`, for a context without it."""

CUES_LOG_ODDS_FACTOR = 3.0
"""Scale of log-odds from cues alone, which are smaller than those of a classifier."""

ROUTE_OF_NEED: Mapping[str, RouteKind] = {"know": "knowledge", "both": "both", "neither": "general"}


@dataclass(frozen=True, slots=True)
class RouteEvidence:
    """Evidence for the route of a turn.

    `gate_decides`: tools below the gate's threshold alone do not make the route `tools`.
    `withholds`: the gate removes such tools. `skipped_stages` did not run or failed.
    `rule_mentions`: number of phrases that name written rules. `orders_and_asks`: one clause gives
    an order, another asks a question. `is_order`: the turn begins with an order. `is_step`: an
    agent wrote what it does next.
    `learned_shares`: probability of each route by learned examples (`retrieval.learned`).
    """

    context: Context
    tools: FindResult
    knowledge: KnowledgeResult
    gate_decides: bool = False
    skipped_stages: frozenset[str] = frozenset()
    withholds: bool = False
    rule_mentions: int = 0
    orders_and_asks: bool = False
    is_order: bool = False
    is_step: bool = False
    learned_shares: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def found_tools(self) -> bool:
        """True if the search found tools, whatever the gate's verdict."""
        return "tools" not in self.skipped_stages and bool(self.tools.tools)

    @property
    def found_passages(self) -> bool:
        """True if the search found passages, whatever their verdict."""
        return bool(self.knowledge.passages) or self.knowledge.fit is not None

    @property
    def has_tools(self) -> bool:
        """True if the gate leaves tools to return."""
        return self.found_tools and not (self.withholds and self.tools.verdict != "accept")

    @property
    def first_tool_probability(self) -> float | None:
        """Highest probability of a tool; the confidence of the answer if tools are withheld."""
        likely = [hit.probability for hit in self.tools.tools if hit.probability is not None]
        return max(likely, default=self.tools.confidence)

    @property
    def is_lexical_only(self) -> bool:
        """True if the dense encoder failed, and only the lexical leg found tools."""
        return "dense" in self.tools.degraded

    def features(self) -> tuple[float, ...]:
        """Features of both regressions.

        Log-odds that the first tool is right, that any collection fits, and of the needs act, know
        and neither; 1 for a turn without a domain; mentions of written rules, which an action may
        need too; and a constant.
        """
        return (
            _log_odds(self.first_tool_probability),
            _log_odds(self.knowledge.fit),
            _log_odds(need_probability(self.context, "act")),
            _log_odds(need_probability(self.context, "know")),
            _log_odds(self.context.needs.get("neither", UNLABELLED_NEED_PROBABILITY)),
            float(self.context.domain is None),
            min(self.rule_mentions, MAX_RULE_MENTIONS) / 2,
            1.0,
        )


def need_probability(context: Context, need: Literal["act", "know"]) -> float:
    """Probability of a need, alone or in `both`; 0.5 if unknown."""
    if context.needs:
        return context.needs.get(need, 0.0) + context.needs.get("both", 0.0)
    if context.need is None:
        return EVEN_PROBABILITY
    sure = context.confidences.get("need", EVEN_PROBABILITY)
    odds = CUES_LOG_ODDS_FACTOR * _log_odds(sure)
    return sigmoid(odds if context.need in {need, "both"} else -odds)


def choose_route(evidence: RouteEvidence) -> Route:
    """Choose the route of a turn by its need of a tool and its need of passages.

    `corrected_from`: the route by the context's need alone, if the evidence gives another.
    """
    context, tools, knowledge = evidence.context, evidence.tools, evidence.knowledge
    if context.smalltalk is not None:
        return Route("none", tools.reason, context.confidences.get("smalltalk"))
    if not (evidence.found_tools or evidence.found_passages):
        return Route("general", _general_reason(evidence))
    kind = _KINDS[_needs(evidence)]
    if evidence.gate_decides and kind in ("tools", "both") and tools.verdict != "accept":
        kind = "both" if knowledge.passages else "general"
    reason = _general_reason(evidence) if kind == "general" else _reason(evidence, kind)
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
"""Route by the need of a tool and the need of passages."""

DECIDED_ROUTES = tuple(_KINDS.values())
"""Routes that evidence decides; small talk and empty turns get the route `none`."""


def _needs(evidence: RouteEvidence) -> tuple[bool, bool]:
    """Needs of a tool and of passages that the search results can meet.

    Results above their own threshold always count: the need `neither` does not outvote them.
    """
    tools, knowledge = evidence.tools, evidence.knowledge
    has_tools, has_text = evidence.has_tools, bool(knowledge.passages)
    tool, text = _need_probabilities(evidence)
    tool, text = tool * has_tools, text * has_text
    # Needs that the caller states require a fitting tool. The regressions were fitted on rankings
    # with the dense encoder: without it the gate decides.
    is_sure = has_tools and tools.verdict == "accept" and (tools.needs or evidence.is_lexical_only)
    # The text of a step is the task: it says nothing of the call that comes next.
    is_sure = is_sure or (has_tools and (evidence.is_step or _is_fitting_order(evidence)))
    needs_tool = bool(
        is_sure or tool >= SECOND_NEED_THRESHOLD or tool >= max(text, FIRST_NEED_THRESHOLD)
    )
    needs_text = text >= SECOND_NEED_THRESHOLD or text >= max(tool, FIRST_NEED_THRESHOLD)
    if needs_tool or needs_text:
        return needs_tool, needs_text
    if has_text and knowledge.verdict == "accept":
        return False, True
    is_likely = not evidence.is_lexical_only and (
        (evidence.first_tool_probability or 0.0) >= MIN_TOOL_ROUTE_PROBABILITY
        or (tools.confidence or 0.0) >= MIN_TOOL_ROUTE_CONFIDENCE
    )
    return has_tools and is_likely, False


def _is_fitting_order(evidence: RouteEvidence) -> bool:
    """True for an order whose first tool is more likely right than not, and accepted."""
    likely = evidence.first_tool_probability or 0.0
    is_fitting = evidence.tools.verdict == "accept" and likely >= MIN_TOOL_ROUTE_PROBABILITY
    return evidence.is_order and is_fitting


def _need_probabilities(evidence: RouteEvidence) -> tuple[float, float]:
    """Probabilities that a turn needs a tool and that it needs passages, found or not."""
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

    A skipped stage keeps its probability. If the gate withheld all results, they count all the
    same: the route `general` is never certain.
    """
    tool, text = _need_probabilities(evidence)
    tools = evidence.has_tools or "tools" in evidence.skipped_stages
    passages = bool(evidence.knowledge.passages) or "knowledge" in evidence.skipped_stages
    if not (tools or passages):
        tools, passages = evidence.found_tools, evidence.found_passages
    tool, text = tool * tools, text * passages
    shares: dict[RouteKind, float] = {
        kind: (tool if needs_tool else 1 - tool) * (text if needs_text else 1 - text)
        for (needs_tool, needs_text), kind in _KINDS.items()
    }
    return {kind: share for kind, share in shares.items() if share}


def _reason(evidence: RouteEvidence, kind: RouteKind) -> str:
    """Reason of a route with results, and the reasons of results below their threshold."""
    reason, tools, knowledge = Reason[kind.upper()].format(), evidence.tools, evidence.knowledge
    if kind != "knowledge" and tools.verdict != "accept":
        reason = f"{reason}, but perhaps no tool fits: {tools.reason}"
    if kind != "tools" and knowledge.verdict != "accept":
        reason = f"{reason}, but perhaps no passage fits: {knowledge.reason}"
    return reason


def _general_reason(evidence: RouteEvidence) -> str:
    """Reason of the route `general`: parts that do not fit or were not searched."""
    found_tools, found_passages = evidence.found_tools, evidence.found_passages
    tools, passages = evidence.tools.reason, evidence.knowledge.reason
    is_accepted = evidence.tools.verdict == "accept"
    if found_tools and found_passages and not is_accepted:
        reason = Reason.GENERAL.format()
    else:
        unmet = Reason.NO_TOOL_NEEDED if is_accepted else Reason.NO_TOOL_FITS
        first = unmet.format() if found_tools else tools
        second = Reason.NO_COLLECTION_FITS.format() if found_passages else passages
        reason = ", and ".join(dict.fromkeys((first, second)))
    if found_passages and not passages and evidence.knowledge.fit is not None:
        passages = Reason.COLLECTION_FIT.format(evidence.knowledge.fit)
    if is_accepted:
        tools = f"though {tools}"
    parts = [tools] if found_tools else []
    parts += [passages] if found_passages and passages else []
    return f"{reason}: {'; '.join(parts)}" if parts else reason


def _log_odds(probability: float | None) -> float:
    """Log-odds of a probability clipped to the bounds; 0 if unknown."""
    if probability is None:
        return 0.0
    held = min(MAX_ROUTE_PROBABILITY, max(MIN_ROUTE_PROBABILITY, probability))
    return math.log(held / (1 - held))
