"""An engine that dies or hangs: callers are told to come back, and never half an answer."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.faults.processes import until

NUMBERS = itertools.count()

# No two are as near to a question, since what is equally near comes in any order.
TOOLS = [
    {"name": f"bolt{number}", "description": f"Turns bolt {number} by hand{' slowly' * number}."}
    for number in range(20)
]
MORE = [
    {"name": f"nut{number}", "description": f"Loosens nut number {number} by hand."}
    for number in range(40)
]
PAGE = {"name": "bolts.md", "text": "# Bolts\n\nA bolt is turned by hand, ten times."}

READS = {
    "search": ("POST", "/v1/tools/search", {"query": "turn bolt 7", "k": 5}),
    "route": ("POST", "/v1/route", {"text": "turn bolt 7 by hand"}),
    "knowledge": ("POST", "/v1/knowledge/search", {"query": "how often is a bolt turned"}),
    "list": ("GET", "/v1/tools?limit=10", None),
    "facets": ("GET", "/v1/facets", None),
    "get": ("GET", "/v1/tools/bolt3", None),
    "collections": ("GET", "/v1/collections", None),
}


def ask(client, read):
    method, path, body = READS[read]
    return client.request(method, path, json=body)


def gist(answer):
    """An answer without what differs each time: ids, times, and the last digits of scores."""
    rounded = json.loads(answer.text, parse_float=lambda text: round(float(text), 3))
    said = {**rounded, "id": None, "took_ms": None}
    if isinstance(said.get("tools"), dict):
        said["tools"] = {**said["tools"], "took_ms": None}
    return said


@pytest.fixture
def stocked(cluster):
    """A client of the patient service, in a namespace with tools and a document."""
    with cluster.patient.client(cluster.key, f"dead{next(NUMBERS)}") as client:
        assert client.post("/v1/tools", json={"tools": TOOLS}).json()["added"] == len(TOOLS)
        body = {"collection": "handbook", "documents": [PAGE]}
        assert client.post("/v1/documents", json=body).json()["added"] == 1
        yield client


def require_come_back(answer):
    """That a caller is told to come back, and nothing else."""
    assert answer.status_code == 503, answer.text
    assert answer.json()["type"] == "urn:toolcrib:problem:store-unavailable"
    assert int(answer.headers["retry-after"]) >= 1
    assert not answer.json().keys() & {"tools", "passages", "next"}


def keys_refused(client):
    """The line of the metric by which an alert goes off; None before the first such request."""
    lines = client.get("/metrics").text.splitlines()
    start = 'toolcrib_turned_away_total{reason="key"}'
    return next((line for line in lines if line.startswith(start)), None)


def test_while_it_is_dead_every_caller_is_told_to_come_back_and_then_all_is_as_before(
    cluster, stocked
):
    before = {read: gist(ask(stocked, read)) for read in READS}
    # It goes in the middle of a search, after it has answered other requests of it.
    cluster.engine.order({"path": "/points/query/batch", "die": 0})
    require_come_back(ask(stocked, "search"))
    cluster.engine.gone()
    # At once, as each is tried for as long as its caller waits.
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(ask, stocked, read) for read in READS]
        answers.append(pool.submit(stocked.post, "/v1/tools", json={"tools": MORE[:1]}))
        for answer in answers:
            require_come_back(answer.result())
    require_come_back(cluster.patient.ready())
    with httpx2.Client(base_url=cluster.patient.url, timeout=30) as anyone:
        assert anyone.get("/healthz").status_code == 200
        refused = keys_refused(anyone)
        require_come_back(anyone.get("/v1/me", headers={"X-API-Key": f"tc_{0:012}_{0:064}"}))
        assert keys_refused(anyone) == refused

    cluster.engine.mend()
    until(lambda: cluster.patient.ready().status_code == 200, "ready again")
    assert {read: gist(ask(stocked, read)) for read in READS} == before


@pytest.mark.parametrize("done", [False, True], ids=["before it is done", "once it is done"])
def test_a_write_that_it_dies_in_is_no_success_and_can_be_sent_again(cluster, stocked, done):
    # First comes what is known of all of them, then they themselves.
    cluster.engine.order({"path": "/points", "method": "PUT", "die": 1, "done": done})
    require_come_back(stocked.post("/v1/tools", json={"tools": MORE}))
    cluster.engine.gone()
    cluster.engine.mend()
    report = stocked.post("/v1/tools", json={"tools": MORE}).json()
    assert report["unchanged" if done else "added"] == len(MORE)
    page = stocked.get("/v1/tools", params={"limit": 500}).json()
    held = {tool["id"]: tool["description"] for tool in page["tools"]}
    assert held == {tool["name"]: tool["description"] for tool in TOOLS + MORE}
    found = stocked.post("/v1/tools/search", json={"query": "loosens nut number 35", "k": 1})
    assert [hit["id"] for hit in found.json()["tools"]] == ["nut35"]


@pytest.mark.parametrize(("read", "first"), [("search", 0), ("route", 4)])
def test_wherever_it_begins_to_refuse_an_answer_is_whole_or_says_what_is_missing(
    cluster, stocked, read, first
):
    whole = gist(ask(stocked, read))
    refused = 0
    for good in itertools.count(first):
        cluster.engine.order({"refuse": good})
        answer = ask(stocked, read)
        cluster.engine.order()
        if answer.status_code == 200 and gist(answer) == whole:
            break
        if answer.status_code == 200:
            assert gist(answer)["degraded"]
        else:
            require_come_back(answer)
            refused += 1
    assert refused > 0
