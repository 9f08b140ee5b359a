"""Learning over HTTP: status for keys that see everything, switch and undo."""

from __future__ import annotations

import pytest

from tests.http.conftest import TOOLS
from toolcrib.records.codec import load
from toolcrib.records.reports import LearningStatus

POST = {"name": "post", "server": "chat", "description": "Post a message in a channel."}
NOTE = {"name": "note", "server": "chat", "description": "Write a note about the team."}


@pytest.fixture(scope="module")
def teaching(start):
    with start(learning=True) as service:
        yield service


@pytest.fixture
def namespace(teaching):
    return teaching.namespace()


@pytest.fixture
def client(teaching, namespace):
    with teaching.client(namespace) as client:
        client.post("/v1/tools", json={"tools": [*TOOLS, POST, NOTE]})
        for session in "abc":
            turn = {"text": f"tell the team {session}", "metadata": {"session": session}}
            decision = client.post("/v1/route", json=turn).json()["id"]
            told = {"decision_id": decision, "tool": "chat/post", "outcome": "success"}
            assert client.post("/v1/outcomes", json=told).status_code == 204
        yield client


def first(client):
    asked = {"query": "tell the team now", "gate": False}
    return client.post("/v1/tools/search", json=asked).json()["tools"][0]["id"]


def test_what_was_learned_is_shown_switched_replayed_and_taken_back(client):
    status = client.get("/v1/learning").json()
    assert load(LearningStatus, client.get("/v1/learning").content).observations == 3
    (tool,) = status["tools"]
    assert (tool["tool"], tool["observations"], tool["live"]) == ("chat/post", 3, True)
    assert "texts" not in tool
    assert [each["verdict"] for each in status["servers"]] == ["live"]
    assert first(client) == "chat/post"
    assert client.post("/v1/learning", json={"on": False}).status_code == 204
    assert first(client) == "chat/note"
    client.post("/v1/learning", json={"on": True})
    assert client.post("/v1/learning/replay").json()["observations"] == 3
    (key,) = tool["by"]
    assert client.post("/v1/learning/undo", json={"what": key}).json() == {"removed": 3}
    assert (client.get("/v1/learning").json()["tools"], first(client)) == ([], "chat/note")


def test_it_is_of_its_namespace_alone(client, teaching):
    with teaching.client(teaching.namespace()) as other:
        assert other.get("/v1/learning").json()["tools"] == []
    teaching.namespaces.remove(client.get("/v1/me").json()["namespace"])
    tables = teaching.namespaces.records_db.tables()
    assert not any(table.endswith(client.get("/v1/me").json()["namespace"]) for table in tables)


@pytest.mark.parametrize("grant", [{"access": "read"}, {"servers": {"chat"}}])
def test_only_who_sees_and_writes_everything_is_told(teaching, namespace, grant):
    with teaching.client(namespace, **grant) as narrow:
        assert narrow.get("/v1/learning").status_code == 403
        assert narrow.post("/v1/learning/undo", json={"what": "x"}).status_code == 403


def test_where_nothing_is_learned_it_says_so(tenant):
    answer = tenant.get("/v1/learning")
    assert answer.status_code == 409
    assert "learning.enabled" in answer.json()["detail"]


def test_feedback_teaches_a_route_and_is_refused_for_the_decision_of_another_key(client, teaching):
    decision = client.post("/v1/route", json={"text": "is the team at work?"}).json()["id"]
    told = {"decision_id": decision, "route": "tools"}
    with teaching.client(teaching.namespace()) as other:
        assert other.post("/v1/feedback", json=told).status_code == 404
    assert client.post("/v1/feedback", json=told).status_code == 204
    tools = client.get("/v1/learning").json()["tools"]
    assert {"route:tools"} == {each["tool"] for each in tools if each.get("choice") == "route"}
