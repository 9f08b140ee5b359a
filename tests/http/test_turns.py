"""Turns over HTTP: read, decided, and helped on after a failure."""

from __future__ import annotations

import sys

import pytest

from toolcrib.http.routes.turns import TurnBody
from toolcrib.records.turns import MAX_HISTORY_MESSAGES, MAX_TRAJECTORY_EVENTS


def test_a_decision_has_the_shape_that_is_asked_for(stocked):
    sent = {"text": "send a mail to somebody", "k": 1, "shape": "anthropic"}
    tools = stocked.post("/v1/route", json=sent).json()["tools"]
    assert tools["tools"][0]["name"] == next(iter(tools["names"]))
    assert "input_schema" in tools["tools"][0]
    assert "items" not in tools


def test_alternates_of_an_exported_name_are_those_of_its_id(stocked):
    by_id, by_name = (
        stocked.post("/v1/alternates", json={"failed_tool": name, "turn": "send a mail"})
        for name in ("mail/send_mail", "mail__send_mail")
    )
    assert (by_name.status_code, by_name.json()) == (200, by_id.json())


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


EVENT = {"type": "tool", "name": "mail/send_mail", "success": False, "error": "no"}


@pytest.mark.parametrize("path", ["detect", "route", "guidance", "alternates"])
def test_a_long_turn_is_read_beside_the_event_loop(stocked, loops_of, path):
    loops = loops_of(TurnBody, "as_turn")
    turn = {"text": "write to Ana", "trajectory": [EVENT] * MAX_TRAJECTORY_EVENTS}
    failed = {"failed_tool": "mail/send_mail", "turn": turn}
    body = failed if path == "alternates" else turn
    assert stocked.post(f"/v1/{path}", json=body).status_code == 200
    assert loops == [None]


def test_only_messages_that_are_looked_at_are_checked(tenant):
    history = [{"role": 5}, *[{"content": "hello"}] * MAX_HISTORY_MESSAGES]
    assert tenant.post("/v1/detect", json={"history": history}).status_code == 200
    assert tenant.post("/v1/detect", json={"history": history[:2]}).status_code == 422


class TestClassify:
    """A turn and the name of a question in, a class out."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, start, tmp_path_factory):
        file = tmp_path_factory.mktemp("questions") / "support.yaml"
        file.write_text(
            "{model: m, question: '{{ topic }} {{ text }}', classes: [{id: a}, {id: b}],"
            " run_if: {from: triage, exists: true}}"
        )
        more = {"questions": {"support": str(file)}}
        with start(more=more) as service, service.client() as client:
            yield client

    def test_the_class_is_told_with_how_it_was_found(self, client):
        body = {"text": "a", "variables": {"topic": "x"}, "outputs": {"triage": {}}}
        found = client.post("/v1/classify", json={"question": "support", **body}).json()
        assert found.keys() == {"branch", "matched", "confidence", "degraded"}
        assert found["branch"] in {"a", "b"}
        assert found["degraded"] == ["llm"]

    def test_a_question_that_is_not_asked_says_so(self, client):
        found = client.post("/v1/classify", json={"question": "support", "text": "a"}).json()
        assert (found["branch"], found["skipped"]) == (None, True)

    def test_an_unknown_question_names_the_nearest(self, client):
        reply = client.post("/v1/classify", json={"question": "suport", "text": "a"})
        assert reply.status_code == 404
        assert reply.json()["nearest"] == ["support"]

    def test_a_template_that_lacks_a_variable_is_the_callers_mistake(self, client):
        body = {"question": "support", "text": "a", "outputs": {"triage": {}}}
        reply = client.post("/v1/classify", json=body)
        assert reply.status_code == 422
        assert "'topic' is undefined" in reply.json()["detail"]

    def test_a_missing_extra_is_named_with_a_status_of_the_document(
        self, start, tmp_path, monkeypatch
    ):
        file = tmp_path / "support.yaml"
        file.write_text("{model: m, question: '{{ text }}', classes: [{id: a}, {id: b}]}")
        with start(more={"questions": {"support": str(file)}}) as service:
            monkeypatch.setitem(sys.modules, "jinja2", None)
            with service.client() as client:
                body = {"question": "support", "text": "a"}
                reply = client.post("/v1/classify", json=body)
                document = client.get("/openapi.json").json()
        assert reply.status_code == 501
        assert "questions" in reply.json()["detail"]
        assert "501" in document["paths"]["/v1/classify"]["post"]["responses"]


class TestCapabilities:
    """A turn in, the capabilities that it needs out."""

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, start):
        file = "data/capabilities/capabilities.yaml"
        more = {"capabilities": {"file": file}, "orchestration_mode": "reactive"}
        with start(more=more) as service, service.client() as client:
            yield client

    def test_those_of_the_settings_are_selected_and_it_says_what_comes_next(self, client):
        sent = {"text": "hello", "bypass": True}
        found = client.post("/v1/capabilities", json=sent).json()
        assert (found["bypassed"], found["active"][0]) == (True, "safety")
        assert (len(found["active"]), found["next"]) == (11, "orchestrator")

    def test_the_state_of_a_loop_is_taken_into_account(self, client):
        state = {"capabilities": ["mail"], "failure": "no access", "reclassifications": 1}
        found = client.post("/v1/capabilities", json={"text": "mail", "state": state}).json()
        assert (found["active"], found["signals"]) == (["mail"], ["reclassification_limit"])

    def test_a_state_that_there_is_not_is_refused_with_its_place(self, client):
        for field, value in (("step", -2), ("stap", 1)):
            sent = {"text": "a", "state": {field: value}}
            reply = client.post("/v1/capabilities", json=sent)
            assert reply.status_code == 422
            assert reply.json()["errors"][0]["place"] == f"state.{field}"
