"""Targets as decisions have them: by the library, in the log, and within a turn's time."""

from __future__ import annotations

import json

import pytest

from toolcrib import Crib, Message, Settings, ToolSpec, Turn
from toolcrib.language_models.testing import ChatServer
from toolcrib.records.codec import as_json

TOOL = ToolSpec(name="run_query", description="Runs a SQL query on the database.", server="db")
SAID = {"reasoning": "so", "target": "analytics", "confidence": 0.9}


def crib(tmp_path=None, **settings) -> Crib:
    given = {"agents": {"targets": "preset"}, **settings}
    opened = Crib.open(":memory:", settings=Settings.model_validate(given))
    opened.index_tools([TOOL])
    return opened


def test_without_targets_there_is_no_agent():
    with Crib.open(":memory:", settings=Settings()) as plain:
        plain.index_tools([TOOL])
        assert as_json(plain.route("how many orders in May?"))["agent"] is None


def test_a_decision_says_its_target_and_the_log_no_words_of_it(tmp_path):
    log = tmp_path / "log.jsonl"
    with crib(telemetry={"path": str(log)}) as opened:
        decision = opened.route(Turn(text="how many orders in May?", thread_id="t9"))
        assert as_json(decision)["agent"].keys() == {
            *("target", "confidence", "reason", "tables", "columns", "signals", "thread_id")
        }
    logged = json.loads(log.read_text())["agent"]
    assert (logged["target"], decision.agent.thread_id) == ("analytics", "t9")
    assert logged.keys() == {"target", "confidence", "signals"}
    assert "orders" not in str(logged)


@pytest.mark.parametrize("text", ["", "hello there", "?!"])
def test_turns_of_no_request_have_a_target_too(text):
    with crib() as opened:
        assert opened.route(Turn(text=text)).agent.target == "triage"


def test_the_model_is_asked_within_the_turns_time():
    late = ChatServer(SAID, faults=lambda _: "slow", slow_s=30)
    with late as server, crib(llm=server.settings) as opened:
        decision = opened.route("how many orders in May?", budget_ms=400)
    assert decision.agent.target == "analytics"
    assert {"agents", "llm"} & set(decision.degraded)
    assert "heuristic" in decision.agent.signals


def test_a_model_that_answers_degrades_nothing():
    with ChatServer(SAID) as server, crib(llm=server.settings) as opened:
        decision = opened.route("how many orders in May?")
        assert opened.route("how many orders in May?").agent.signals[-1] == "allowlist:orders"
        assert len(server.requests) == 3
    assert "heuristic" not in decision.agent.signals
    assert decision.degraded == ()
    assert "llm" in decision.took_ms


def test_no_model_sees_a_turn_above_its_ceiling():
    text = "is invoice 4111 1111 1111 1111 of ana@example.org paid?"
    with ChatServer(SAID) as server, crib(llm=server.settings, rerank="llm") as opened:
        held = opened.route(Turn(text=text, max_sensitivity="internal"))
        assert server.requests == []
        assert "heuristic" in held.agent.signals
        opened.route(Turn(text=text, max_sensitivity="pii"))
        assert server.requests != []


@pytest.mark.parametrize(
    "models",
    [
        {},
        {"agents": {"targets": None}, "rerank": "llm"},
        {"agents": {"targets": None}, "context": {"detector": "llm"}},
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_no_model_sees_a_history_above_the_ceiling_of_its_turn(models, role):
    card = Message(role=role, content="the card is 4111 1111 1111 1111 of ana@example.org")
    history = Message(content="who paid the invoice?"), card
    turn = Turn(text="how many orders in May?", history=history, max_sensitivity="internal")
    llm = {"uses": {"context": {"timeout_s": 60}}} if "context" in models else {}
    models = {"tools": {"pass_through": 0}, **models}
    with ChatServer(SAID) as server, crib(llm=server.settings | llm, **models) as opened:
        opened.index_tools([ToolSpec(name="list_orders", description="Lists orders of a month.")])
        opened.route(turn)
        assert server.requests == []
        opened.route(turn.model_copy(update={"max_sensitivity": "pii"}))
        assert server.requests != []
