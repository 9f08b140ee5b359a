"""Heuristics: the target of a turn by weighed facts alone, without any model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from toolcrib.records import AgentDecision
from toolcrib.retrieval.calibration import softmax
from toolcrib.router.agents.evidence import Evidence
from toolcrib.router.agents.targets import Targets

__all__ = ["by_heuristics", "weigh"]


def weigh(evidence: Evidence, targets: Targets) -> dict[str, float]:
    """What speaks for each target: weights of the heuristics whose facts are there, added.

    What the user said before speaks as well, the more the turn leans on it.
    """
    weights = dict.fromkeys(targets.targets, 0.0)
    for target, weight in targets.always.items():
        weights[target] += weight
    for each in targets.heuristics:
        if each.holds(evidence.facts):
            weights[each.target] += each.weight
    if evidence.before is not None and not evidence.facts & {"smalltalk", "meta"}:
        part = targets.beside + (targets.before - targets.beside) * evidence.leans
        for target, weight in weigh(evidence.before, targets).items():
            weights[target] += part * weight
    return weights


def by_heuristics(evidence: Evidence, targets: Targets) -> AgentDecision:
    """The target that most speaks for; how sure that is, by softmax of the weights.

    Of equals the first, except that a turn of which nothing is known goes to the fallback.
    """
    weights = weigh(evidence, targets)
    likely: Mapping[str, float] = softmax(weights)
    best = max(weights, key=lambda name: (round(weights[name], 9), name == targets.fallback))
    spoke = [
        each.says
        for each in targets.heuristics
        if each.target == best and each.says and each.holds(evidence.facts)
    ]
    reason = "; ".join(dict.fromkeys(spoke)) or "nothing speaks for another target"
    signals = ("heuristic", *evidence.signals)
    if evidence.before is not None and evidence.leans > 0:
        signals = (*signals, "conversation_follow_up")
    sure = likely[best] if math.isfinite(likely[best]) else 0.0
    return AgentDecision(best, sure, reason, evidence.tables, evidence.columns, signals)
