"""The supervisor corrects at most once, and keeps what it promises for any decision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.records import AgentDecision
from toolcrib.router.choices.agents import CORRECTED_SIGNAL, FALLBACK_SIGNAL, supervise
from toolcrib.router.choices.evidence import AgentEvidence
from toolcrib.router.choices.targets import (
    CONFIDENT,
    FACTS,
    MAX_DECISION_REASON_CHARS,
    UNSURE,
    Targets,
    load_targets,
)

PRESET = load_targets()
CUES = tuple(PRESET.cues)
KNOWN = sorted({*FACTS, *CUES, *(f"file_{name}" for name in CUES)})

facts = st.frozensets(st.sampled_from(KNOWN))
names = st.sampled_from([*PRESET.targets, "nowhere"])
decisions = st.builds(
    AgentDecision,
    names,
    st.floats(-1, 2),
    st.text(max_size=300),
    st.just(("orders",)),
    st.just(("status",)),
)


@st.composite
def target_sets(draw) -> Targets:
    """Targets with rules and caps at random."""
    targets = ["a", "b", "c"]
    some = st.lists(st.sampled_from(["sql", "tables", "hits"]), max_size=2)
    rule = st.fixed_dictionaries(
        {
            "targets": st.lists(st.sampled_from(targets), max_size=2),
            "to": st.sampled_from(targets),
            "confidence": st.floats(0, 1),
            "if": some | st.just([UNSURE]),
            "unless": some | st.just([CONFIDENT]),
            "says": st.just("a rule"),
        }
    )
    cap = st.fixed_dictionaries(
        {"targets": st.lists(st.sampled_from(targets)), "most": st.floats(0, 1), "if": some}
    )
    return Targets.model_validate(
        {
            "targets": {name: {"description": name} for name in targets},
            "fallback": "a",
            "rules": draw(st.lists(rule, max_size=5)),
            "caps": draw(st.lists(cap, max_size=3)),
            "confident": 0.8,
            "unsure": 0.4,
        }
    )


@given(decisions, facts, st.just(PRESET) | target_sets())
def test_supervising_holds_for_any_decision(decision, facts, targets):
    evidence = AgentEvidence(facts)
    once = supervise(decision, evidence, targets)
    assert supervise(once, evidence, targets) == once
    assert once.target in targets.targets
    assert 0 <= once.confidence <= 1
    assert len(once.reason) <= MAX_DECISION_REASON_CHARS
    assert once.signals.count(FALLBACK_SIGNAL) <= 1
    if decision.target not in targets.targets:
        assert once.target == targets.fallback
    elif once.target != decision.target:
        assert {CORRECTED_SIGNAL, FALLBACK_SIGNAL} <= set(once.signals)


def judged(target: str, confidence: float, *facts: str) -> AgentDecision:
    evidence = AgentEvidence(frozenset(facts))
    return supervise(AgentDecision(target, confidence, "x"), evidence, PRESET)


@pytest.mark.parametrize(
    ("target", "confidence", "facts", "expected"),
    [
        ("knowledge", 0.9, ("attachment", "invoice"), "commerce"),
        ("analytics", 0.6, ("concept",), "knowledge"),
        ("analytics", 0.95, ("concept",), "analytics"),
        ("analytics", 0.6, ("tables", "concept"), "analytics"),
        ("knowledge", 0.6, ("tables", "period"), "analytics"),
        ("commerce", 0.6, ("invoice", "count"), "analytics"),
        ("commerce", 0.9, ("invoice", "count"), "commerce"),
        ("triage", 0.6, ("document",), "knowledge"),
        ("triage", 0.6, ("tables", "display"), "analytics"),
        ("triage", 0.6, ("document", "smalltalk", "greeting"), "triage"),
        ("triage", 0.6, ("document", "meta"), "triage"),
        ("triage", 0.6, ("hits",), "knowledge"),
        ("knowledge", 0.3, (), "triage"),
    ],
)
def test_rules_of_the_preset(target, confidence, facts, expected):
    assert judged(target, confidence, *facts).target == expected


def test_documents_to_process_dominate_and_weak_hits_cap_the_confidence():
    assert judged("commerce", 0.4, "attachment", "invoice").confidence == pytest.approx(0.9)
    assert judged("knowledge", 0.95, "document", "weak_hits").confidence == pytest.approx(0.75)


def test_no_evidence_says_so():
    assert {"low_confidence", "ambiguous_intent"} <= set(judged("knowledge", 0.3).signals)


def test_only_targets_of_tables_name_tables():
    asked = AgentDecision("knowledge", 0.9, "x", ("orders",), ("status",))
    assert supervise(asked, AgentEvidence(frozenset({"concept"})), PRESET).tables == ()
