"""Turns over HTTP: read, decided, and helped on after a failure."""

from __future__ import annotations

import pytest


@pytest.fixture
def crib(service, stocked):
    return service.namespaces.crib(stocked.get("/v1/me").json()["namespace"])


def test_a_decision_has_the_shape_that_is_asked_for(stocked):
    sent = {"text": "send a mail to somebody", "k": 1, "shape": "anthropic"}
    tools = stocked.post("/v1/route", json=sent).json()["tools"]
    named = next(iter(tools["names"]))
    assert tools["items"][0]["name"] == named
    assert "input_schema" in tools["items"][0]


def test_a_turn_that_says_nothing_is_decided(stocked):
    decision = stocked.post("/v1/route", json={}).json()
    assert (decision["route"]["kind"], decision["degraded"]) == ("none", ["no-words"])


@pytest.mark.parametrize(
    ("path", "sent", "place"),
    [
        ("route", {"text": 3}, "text"),
        ("route", {"text": "x", "k": 0}, "k"),
        ("route", {"text": "x", "budget_ms": -1}, "budget_ms"),
        ("route", {"text": "x", "history": ["hello"]}, "history.0"),
        ("route", {"text": "x", "scope": {"server": ["a"]}}, "scope.server"),
        ("detect", {"text": "x", "k": 3}, "k"),
        ("detect", {"text": "x", "max_sensitivity": "top"}, "max_sensitivity"),
        ("alternates", {"turn": "x"}, "failed_tool"),
        ("alternates", {"failed_tool": "a", "turn": {"txt": "x"}}, "turn.txt"),
    ],
)
def test_what_is_no_turn_is_refused_with_its_place(tenant, path, sent, place):
    answer = tenant.post(f"/v1/{path}", json=sent)
    assert answer.status_code == 422
    assert place in {fault["place"] for fault in answer.json()["errors"]}


def test_a_turn_may_give_whole_numbers_in_any_way(tenant):
    assert tenant.post("/v1/route", json={"text": "hello", "k": 2.0}).status_code == 200
