"""Supervisor: one deterministic look at a decision, which corrects it at most once, by rules."""

from __future__ import annotations

from dataclasses import replace

from toolcrib.records import AgentDecision
from toolcrib.router.agents.evidence import AgentEvidence
from toolcrib.router.agents.targets import CONFIDENT, UNSURE, AgentRule, Targets

__all__ = ["CORRECTED", "FALLBACK", "MOST_REASON", "supervise"]

CORRECTED, FALLBACK = "semantic_validation_corrected", "supervisor_fallback"
MOST_REASON = 200
"""Characters of a reason."""


def supervise(decision: AgentDecision, evidence: AgentEvidence, targets: Targets) -> AgentDecision:
    """The decision, its confidence capped, and its target corrected where a rule says so.

    A target that there is not becomes the fallback. Supervising twice changes nothing more.
    """
    made = replace(decision, confidence=min(1.0, max(0.0, decision.confidence)))
    if made.target not in targets.targets:
        made = replace(
            made,
            target=targets.fallback,
            confidence=min(made.confidence, targets.unsure),
            signals=_with(made.signals, "unknown_target", CORRECTED, FALLBACK),
        )
    made = _capped(made, evidence, targets)
    if FALLBACK not in made.signals:
        rule = _first(made, evidence, targets)
        if rule is not None:
            made = _capped(_corrected(made, rule), evidence, targets)
    if not targets.targets[made.target].uses_tables:
        made = replace(made, tables=(), columns=())
    return replace(made, reason=made.reason[:MOST_REASON])


def _first(decision: AgentDecision, evidence: AgentEvidence, targets: Targets) -> AgentRule | None:
    """The first rule that this decision falls under."""
    facts = evidence.facts
    if decision.confidence >= targets.confident:
        facts |= {CONFIDENT}
    if decision.confidence < targets.unsure:
        facts |= {UNSURE}
    for rule in targets.rules:
        if (not rule.targets or decision.target in rule.targets) and rule.holds(facts):
            return rule
    return None


def _corrected(decision: AgentDecision, rule: AgentRule) -> AgentDecision:
    if decision.target == rule.to:
        held = max(decision.confidence, rule.confidence)
        return replace(decision, confidence=held, signals=_with(decision.signals, *rule.signals))
    return replace(
        decision,
        target=rule.to,
        confidence=rule.confidence,
        reason=rule.says,
        signals=_with(decision.signals, *rule.signals, CORRECTED, FALLBACK),
    )


def _capped(decision: AgentDecision, evidence: AgentEvidence, targets: Targets) -> AgentDecision:
    held = decision.confidence
    for cap in targets.caps:
        if (not cap.targets or decision.target in cap.targets) and cap.holds(evidence.facts):
            held = min(held, cap.most)
    return replace(decision, confidence=held)


def _with(signals: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*signals, *more)))
