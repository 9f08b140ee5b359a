"""Looking back at decisions, and saying what would have been right."""

from __future__ import annotations

import pytest

from tests.http.conftest import same_answer


@pytest.fixture
def decide(stocked):
    """Decide turns, and return their ids."""

    def route(text="send a mail", client=stocked):
        return client.post("/v1/route", json={"text": text}).json()["id"]

    return route


@pytest.fixture(params=[{"access": "read"}, {"servers": ["mail"]}], ids=["reads", "has a scope"])
def reader(request, service, namespace):
    """A client of the same namespace that may only read, or that has a scope."""
    with service.client(namespace, **request.param) as client:
        yield client


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [record["id"] for record in answer.json()["decisions"]]


def test_a_decision_can_be_looked_at_at_once(stocked, decide):
    decided = decide()
    record = stocked.get(f"/v1/decisions/{decided}").json()
    assert record["decision"]["id"] == decided
    assert record["decision"]["tools"]["items"][0]["id"] == "mail/send_mail"
    assert (record["feedback"], record["outcomes"]) == ([], [])


def test_no_word_of_the_user_is_kept(stocked, decide):
    decided = decide("send a mail to zebedee@example.org")
    assert "zebedee" not in stocked.get(f"/v1/decisions/{decided}").text


def test_decisions_come_newest_first_page_by_page(stocked, decide):
    made = [decide() for _ in range(5)][::-1]
    first = stocked.get("/v1/decisions?limit=2")
    assert ids(first) == made[:2]
    second = stocked.get("/v1/decisions", params={"limit": 2, "cursor": first.json()["next"]})
    assert ids(second) == made[2:4]
    last = stocked.get("/v1/decisions", params={"limit": 2, "cursor": second.json()["next"]})
    assert (ids(last), last.json()["next"]) == (made[4:], None)


def test_what_is_said_of_a_decision_is_kept_with_it(stocked, decide):
    decided = decide()
    said = {"decision_id": decided, "tools": ["mail/read_mail"], "outcome": "failure"}
    assert stocked.post("/v1/feedback", json=said).status_code == 204
    told = {"tool": "mail/send_mail", "outcome": "success", "took_ms": 2.5}
    call = {"decision_id": decided, **told}
    assert stocked.post("/v1/outcomes", json=call).status_code == 204
    record = stocked.get(f"/v1/decisions/{decided}").json()
    [feedback], [outcome] = record["feedback"], record["outcomes"]
    assert (feedback["tools"], feedback["outcome"]) == (["mail/read_mail"], "failure")
    assert outcome.items() >= told.items()


def test_calls_are_listed_with_the_key_and_a_reader_sees_its_own_alone(stocked, reader, decide):
    for client in (stocked, reader):
        told = {"decision_id": decide(client=client), "tool": "mail/send_mail"}
        assert client.post("/v1/outcomes", json={**told, "outcome": "failure"}).status_code == 204
    every = stocked.get("/v1/outcomes").json()["calls"]
    [own] = reader.get("/v1/outcomes").json()["calls"]
    assert [call["outcome"]["tool"] for call in every] == ["mail/send_mail"] * 2
    assert own == every[0]
    assert own["by"] != every[1]["by"]
    assert len(stocked.get("/v1/outcomes?limit=1").json()["calls"]) == 1


def test_a_reader_sees_its_own_decisions_alone(stocked, reader, decide):
    theirs, own = decide(), decide(client=reader)
    assert ids(reader.get("/v1/decisions")) == [own]
    assert set(ids(stocked.get("/v1/decisions"))) == {theirs, own}
    assert reader.get(f"/v1/decisions/{own}").status_code == 200


def test_a_page_is_full_though_most_decisions_are_anothers(reader, decide):
    own = []
    for _ in range(3):
        own.append(decide(client=reader))
        for _ in range(4):
            decide()
    page = reader.get("/v1/decisions?limit=2")
    assert ids(page) == own[:0:-1]
    rest = reader.get("/v1/decisions", params={"limit": 2, "cursor": page.json()["next"]})
    assert ids(rest) == own[:1]


def test_anothers_decision_and_none_look_alike(reader, decide):
    theirs = decide()

    def post(path, **sent):
        return lambda i: reader.post(f"/v1/{path}", json={"decision_id": i, **sent})

    for ask in (
        lambda i: reader.get(f"/v1/decisions/{i}"),
        post("feedback", outcome="success"),
        post("outcomes", tool="a", outcome="failure"),
        post("alternates", failed_tool="mail/send_mail", turn="x"),
    ):
        answer = same_answer(ask, theirs, "nobody")
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:toolcrib:problem:unknown-decision"


def test_a_decision_of_another_namespace_is_unknown(service, decide):
    with service.client(service.namespace()) as other:
        assert other.get(f"/v1/decisions/{decide()}").status_code == 404
        assert ids(other.get("/v1/decisions")) == []


@pytest.mark.parametrize(
    "said", [{}, {"tool": ["a"]}, {"tools": "a"}, {"outcome": "fine"}, {"route": "nowhere"}]
)
def test_feedback_that_says_nothing_is_refused(stocked, decide, said):
    answer = stocked.post("/v1/feedback", json={"decision_id": decide(), **said})
    assert answer.status_code == 422
