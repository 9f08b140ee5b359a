"""Two services over one engine: what one was told, the other knows a moment later."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from tests.faults.processes import make_key, served, until
from toolcrib import Settings, build
from toolcrib.access.keys import KeyRing

NUMBERS = itertools.count()

BOLT = {"name": "bolt", "description": "Turns a bolt by hand."}


@pytest.fixture
def pair(cluster):
    """A client of each service, in a namespace that both have looked at."""
    name = f"pair{next(NUMBERS)}"
    clients = [service.client(cluster.key, name) for service in (cluster.patient, cluster.hasty)]
    for client in clients:
        served(client.post, "/v1/route", json={"text": "turn the bolt"})
        served(client.post, "/v1/knowledge/search", json={"query": "who turns bolts"})
    yield clients
    for client in clients:
        client.close()


def found(client, query):
    answer = client.post("/v1/tools/search", json={"query": query})
    return [hit["id"] for hit in answer.json().get("tools", ())]


def sources(client, query):
    answer = client.post("/v1/knowledge/search", json={"query": query})
    return [hit["source"] for hit in answer.json().get("passages", ())]


def test_a_tool_that_one_was_given_the_other_finds_until_it_is_taken_out(pair):
    one, other = pair
    served(one.post, "/v1/tools", json={"tools": [BOLT]})
    until(lambda: found(other, "turn a bolt") == ["bolt"], "found at the other")
    served(other.delete, "/v1/tools/bolt")
    until(lambda: found(one, "turn a bolt") == [], "gone at the first")
    until(lambda: one.get("/v1/tools/bolt").status_code == 404, "unknown at the first")


def test_a_document_of_a_new_collection_is_found_at_the_other(pair):
    one, other = pair
    page = {"name": "bolts.md", "text": "# Bolts\n\nThe fitter turns bolts, ten times a day."}
    served(one.post, "/v1/documents", json={"collection": "shop", "documents": [page]})
    until(lambda: sources(other, "who turns bolts") == ["bolts.md"], "found at the other")
    served(other.delete, "/v1/collections/shop")
    until(lambda: sources(one, "who turns bolts") == [], "gone at the first")


def test_a_decision_of_one_takes_feedback_and_outcomes_at_the_other(pair):
    one, other = pair
    served(one.post, "/v1/tools", json={"tools": [BOLT]})
    decision = served(one.post, "/v1/route", json={"text": "turn the bolt"}).json()["id"]
    served(other.post, "/v1/feedback", json={"decision_id": decision, "intent": "act"})
    outcome = {"decision_id": decision, "tool": "bolt", "outcome": "failure"}
    served(other.post, "/v1/outcomes", json=outcome)
    record = served(one.get, f"/v1/decisions/{decision}").json()
    assert [said["intent"] for said in record["feedback"]] == ["act"]
    assert [said["tool"] for said in record["outcomes"]] == ["bolt"]


def test_a_revoked_key_is_refused_by_both(cluster):
    text = make_key(cluster.engine.url)
    clients = [service.client(text) for service in (cluster.patient, cluster.hasty)]
    for client in clients:
        served(client.get, "/v1/me")
    records_db = build.open_records_db(cluster.engine.url, Settings())
    KeyRing(records_db).revoke(text.split("_")[1])
    records_db.close()
    for client in clients:
        until(lambda client=client: client.get("/v1/me").status_code == 401, "refused")
        client.close()


def knows(client, number):
    return f"p{number}.md" in sources(client, f"what is the word quux{number}")


def test_what_one_wrote_while_the_other_wrote_too_is_seen_by_both(pair):
    # Each looks again when it hears of a write, and must not take the other's for its own.
    for number in range(4):
        writer, reader = pair[number % 2], pair[1 - number % 2]
        page = {"name": f"p{number}.md", "text": f"The word of day {number} is quux{number}."}
        body = {"collection": f"shop{number}", "documents": [page]}
        served(reader.get, "/v1/facets")
        served(writer.post, "/v1/documents", json=body)
        served(reader.post, "/v1/tools", json={"tools": [{**BOLT, "name": f"bolt{number}"}]})
        until(partial(knows, reader, number), "seen by the other")
