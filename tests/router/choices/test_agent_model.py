"""A language model chooses targets: several prompts at once, a scorer for ties, honest failures."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from toolcrib.build import make_agents
from toolcrib.errors import SettingsError
from toolcrib.language_models.testing import ChatServer, faulty_share
from toolcrib.records import AgentDecision, KnowledgeResult, PassageHit, Turn
from toolcrib.router.choices.agent_model import UNSTATED_CONFIDENCE
from toolcrib.router.choices.agents import AgentRouter, DecisionCache
from toolcrib.router.settings import AgentSettings
from toolcrib.settings import Settings

TURN = Turn(text="the numbers of Porto", thread_id="t")
HIT = PassageHit("guides", "porto.md", "Porto is a city", "Porto", 0, 0)


def answer(target: str, confidence: float = 0.9, **more: object) -> dict[str, object]:
    return {"reasoning": "so", "target": target, "confidence": confidence, **more}


def router(server: ChatServer, timeout_s: float = 20.0, **settings) -> AgentRouter:
    given = {"targets": "preset", "cache_size": 0, **settings}
    llm = server.settings | {"attempts": 1, "uses": {"agents": {"timeout_s": timeout_s}}}
    return make_agents(Settings.model_validate({"llm": llm, "agents": given}))


def routed(reply, turn=TURN, found=None, *, faults=(), **settings):
    """Decision by a model that replies so, what failed, and requests that the model got."""
    with ChatServer(reply, faults=faults, slow_s=60) as server:
        made, failed = router(server, **settings).route(turn, found)
    return made, failed, server.requests


def test_targets_of_a_file_have_no_tables_but_those_of_an_allowlist(tmp_path):
    (tmp_path / "allowlist.yaml").write_text("tables: {parcels: [sender]}")
    file = tmp_path / "targets.yaml"
    file.write_text(
        "targets: {a: {description: A}, b: {description: B, uses_tables: true}}\nfallback: a"
    )
    prompts: list[str] = []
    for more in ({}, {"allowlist": str(tmp_path / "allowlist.yaml")}):
        reply = answer("b", tables=["orders", "parcels"])
        made, _, requests = routed(reply, ensemble=1, targets=str(file), **more)
        prompts.append(requests[0].messages[0].content)
        assert made.tables == (("parcels",) if more else ())
    assert "orders(" not in prompts[0]
    assert "parcels(" in prompts[1]


def test_prompts_are_asked_at_once_and_most_votes_win():
    # Nobody gets an answer before all three have asked.
    together = threading.Barrier(3, timeout=20)
    votes = ["analytics", "Analytics", "knowledge"]

    def reply(request):
        return answer(votes[together.wait()], tables=["orders", "secrets"], columns=["status"])

    made, failed, requests = routed(reply)
    prompts = {request.messages[0].content for request in requests}
    assert (made.target, made.tables, made.columns) == ("analytics", ("orders",), ("status",))
    assert made.confidence == pytest.approx(0.9)
    assert "ensemble_majority" in made.signals
    assert (made.thread_id, failed) == ("t", ())
    assert len(prompts) == 3
    assert all("order_items" in prompt for prompt in prompts)


def test_an_answer_without_a_confidence_is_neither_sure_nor_unsure_and_is_marked():
    made, failed, _ = routed({"reasoning": "so", "target": "analytics", "tables": "x"})
    assert (made.target, made.confidence) == ("analytics", pytest.approx(UNSTATED_CONFIDENCE))
    assert set(failed) == {"agents-llm:confidence", "agents-llm:tables"}


@pytest.mark.parametrize(
    ("said", "confidence", "marks"),
    [
        ("90%", 0.9, ()),
        ("high", 0.9, ()),
        (None, UNSTATED_CONFIDENCE, ("agents-llm:confidence",)),
    ],
)
def test_a_confidence_in_another_shape_does_not_lose_the_target(said, confidence, marks):
    reply = answer("knowledge") | {"confidence": said}
    made, failed, _ = routed(reply, Turn(text="how do we hire?"))
    assert (made.target, made.confidence, failed) == ("knowledge", confidence, marks)


def test_each_target_but_the_fallback_has_a_prompt_that_leans_to_it():
    leaning = [request.messages[0].content for request in routed(answer("knowledge"))[2]]
    for target in ("analytics", "knowledge", "commerce"):
        assert sum(f"may be {target} or another" in rules for rules in leaning) == 1


def test_fewer_prompts_than_targets_begin_with_a_neutral_one():
    (asked,) = routed(answer("knowledge"), ensemble=1)[2]
    assert "or another, look twice" not in asked.messages[0].content


@pytest.mark.parametrize(
    ("reply", "is_unknown"),
    [({}, False), ({"error": "busy"}, False), ({"confidence": 0.9}, False), (answer("x"), True)],
)
def test_an_answer_without_a_target_or_with_one_that_there_is_not_is_none(reply, is_unknown):
    made, failed, _ = routed(reply)
    assert "heuristic" in made.signals
    assert ("unknown_target" in made.signals) is is_unknown
    assert failed == ("agents",)


@pytest.mark.parametrize(
    ("scores", "target", "signal"),
    [
        ({"knowledge": 0.9, "analytics": 0.2}, "knowledge", "ensemble_scorer"),
        ({"knowledge": 0.3, "analytics": 0.2}, "triage", "ensemble_tie_low_confidence"),
        ("no scores", "triage", "ensemble_tie_low_confidence"),
    ],
)
def test_a_tie_goes_to_the_scorer(scores, target, signal):
    def reply(request):
        if "Score every target" in request.text:
            return {"scores": scores}
        leans = "look twice whether it is analytics" in request.text
        return answer("analytics" if leans else "knowledge")

    made, _, _ = routed(reply, ensemble=2)
    assert made.target == target
    assert signal in made.signals


def test_what_overrides_hold_is_not_the_models_to_say():
    made, _, _ = routed(answer("knowledge"), Turn(text="SELECT city FROM stores"), ensemble=1)
    assert made.target == "analytics"
    assert "critical_override" in made.signals


def test_doubts_seconds_and_the_calibration_are_heard():
    said = answer("analytics", 90, second="knowledge", consistent=False)
    settings = {"ensemble": 1, "secondary": True, "calibration": [[0.2, 0.1], [0.6, 0.3]]}
    made, _, _ = routed(said, Turn(text="sales of Porto by month"), **settings)
    assert {"self_inconsistent", "secondary:knowledge"} <= set(made.signals)
    assert made.confidence == pytest.approx(0.2)


def test_a_calibration_that_falls_is_refused():
    with pytest.raises(SettingsError, match="calibration"):
        AgentSettings(calibration=((0.2, 0.5), (0.6, 0.3)))


def test_documents_found_late_are_looked_at_once_more():
    found = KnowledgeResult(passages=(HIT,), fit=0.9)
    made, _, requests = routed(answer("triage"), Turn(text="Porto"), found, ensemble=1)
    assert ["rag_hits:1" in request.text for request in requests] == [False, True]
    assert {"rag_probe_hit", "reclassified_by_probe"} <= set(made.signals)


@pytest.mark.parametrize(
    ("replies", "faults", "degraded"),
    [
        (answer("analytics"), ["error", None, None], ("agents-ensemble",)),
        (answer("analytics"), ["error"] * 3, ("agents",)),
        (answer("nowhere"), [], ("agents",)),
    ],
)
def test_what_failed_is_named_and_the_turn_is_answered(replies, faults, degraded):
    made, failed, _ = routed(replies, Turn(text="sales of May by store"), faults=faults)
    assert made.target == "analytics"
    assert failed == degraded
    assert ("heuristic" in made.signals) == (degraded == ("agents",))


def test_prompts_that_answered_count_however_long_another_takes():
    def late(request):
        return "slow" if "look twice whether it is knowledge" in request.text else None

    made, failed, _ = routed(answer("analytics"), faults=late, timeout_s=3.0)
    assert (made.target, failed) == ("analytics", ("agents-ensemble",))


def test_every_turn_is_answered_by_a_server_that_fails_at_random():
    texts = [f"sales of store {number} by month" for number in range(12)]
    with ChatServer(answer("analytics"), faults=faulty_share(0.3, seed=3), slow_s=9) as server:
        agents = router(server, timeout_s=1.0)
        made = [agents.route(Turn(text=text)) for text in texts]
    assert [decision.target for decision, _ in made] == ["analytics"] * len(texts)
    for decision, failed in made:
        assert ("agents" in failed) == ("heuristic" in decision.signals)


def test_small_talk_asks_no_model():
    made, failed, requests = routed(answer("analytics"), Turn(text="obrigado, até amanhã!"))
    assert (made.target, failed, requests) == ("triage", (), [])


def unit(*values: float) -> np.ndarray:
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def test_near_turns_with_the_same_evidence_share_a_decision():
    near, far = unit(1, 0.1), unit(1, 2)
    with ChatServer(answer("analytics")) as server:
        agents = router(server, ensemble=1, cache_size=10)

        def asked(text: str, vector: np.ndarray, version: int = 1, **more: object) -> bool:
            before = len(server.requests)
            turn = Turn.model_validate({"text": text, **more})
            made, _ = agents.finish(agents.begin(turn, vector=vector, version=version))
            assert made.target == "analytics"
            assert ("semantic_cache_hit" in made.signals) == ("cached" in made.reason)
            return len(server.requests) > before

        assert asked("sales of May", unit(1, 0))
        assert not asked("sales of June", near)
        assert asked("sales of June", far)
        assert asked("sales of May", unit(1, 0), version=2)
        assert asked("sales of May", unit(1, 0), scope={"servers": ["crm"]})
        assert asked("sales of May", unit(1, 0), history=[{"content": "and now"}])
        assert asked("SELECT 1 FROM orders", unit(1, 0))
        assert asked("sales of May", unit(1, 0), attachments=["may.csv"])


def test_what_was_decided_in_part_is_not_kept():
    with ChatServer(answer("analytics"), faults=["error"]) as server:
        agents = router(server, ensemble=2, cache_size=10)
        for _ in range(2):
            agents.finish(agents.begin(TURN, vector=unit(1, 0)))
        assert len(server.requests) == 4


def test_the_cache_forgets_what_is_old_and_what_is_too_much():
    now = 0.0
    cache = DecisionCache(lambda: now, size=2, ttl_s=10, similarity=0.9)
    for name in "abc":
        cache.put(name, unit(1, 0), AgentDecision(name, 1.0, ""))
    assert [cache.get(name, unit(1, 0)) is not None for name in "abc"] == [False, True, True]
    now = 11.0
    assert cache.get("c", unit(1, 0)) is None


def test_commerce_without_any_evidence_of_a_document_falls():
    made, _, _ = routed(answer("commerce"), Turn(text="the weather in Lyon is nice"))
    bill, _, _ = routed(answer("commerce"), Turn(text="Total 430,50 € IVA 23%. Is it right?"))
    assert (made.target, made.confidence) == ("triage", 0.5)
    assert bill.target == "commerce"


def test_the_winners_confidence_goes_beyond_a_tie():
    # Three prompts, three targets, and a scorer that is sure of one.
    votes = iter(["analytics", "knowledge", "commerce"])

    def reply(request):
        if "Score every target" in request.text:
            return {"scores": {"knowledge": 0.95}}
        return answer(next(votes), confidence=0.9)

    made, _, _ = routed(reply, Turn(text="what are the rules for a refund"))
    assert (made.target, made.confidence) == ("knowledge", pytest.approx(0.9))
