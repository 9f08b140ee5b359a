"""An engine that hangs or is slow: nobody waits past the deadline, and nothing stays taken."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.faults.processes import served, until

NUMBERS = itertools.count()
TOOL = {"name": "bolt", "description": "Turns a bolt by hand."}
LATER = {"name": "nut", "description": "Loosens a nut by hand."}
QUERY = {"query": "turn a bolt"}
SEARCH = "/points/query/batch"


@pytest.fixture
def namespace(cluster):
    """One with a tool, which both services have looked at."""
    name = f"slow{next(NUMBERS)}"
    with cluster.patient.client(cluster.key, name) as client:
        assert client.post("/v1/tools", json={"tools": [TOOL]}).json()["added"] == 1
    for service in (cluster.patient, cluster.hasty):
        with service.client(cluster.key, name) as client:
            served(client.post, "/v1/tools/search", json=QUERY)
    return name


def require_deadline(answer):
    assert answer.status_code == 504, answer.text
    assert answer.json()["type"] == "urn:toolcrib:problem:deadline"


def test_callers_of_a_frozen_engine_are_told_so_and_all_goes_on_when_it_does(cluster, namespace):
    patient = cluster.patient.client(cluster.key, namespace)
    hasty = cluster.hasty.client(cluster.key, namespace)
    with patient, hasty, ThreadPoolExecutor(6) as pool:
        cluster.engine.freeze()
        asked = [
            pool.submit(client.post, path, json=body)
            for client in (patient, hasty)
            for path, body in (("/v1/tools/search", QUERY), ("/v1/tools", {"tools": [LATER]}))
        ]
        away = pool.submit(cluster.patient.ready)
        for answer in (each.result() for each in asked[:2]):
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) >= 1
        for each in asked[2:]:
            require_deadline(each.result())
        assert away.result().status_code == 503
        for service in (cluster.patient, cluster.hasty):
            assert httpx2.get(f"{service.url}/healthz").status_code == 200
        # Who watches the service is told so too, though its threads all wait for the engine.
        assert cluster.hasty.gauge("abandoned_work") >= 2
        assert cluster.hasty.ready().status_code == 503
        cluster.engine.thaw()

        for service in (cluster.patient, cluster.hasty):
            until(lambda service=service: service.ready().status_code == 200, "ready again")
            until(service.is_idle, "all slots given back")
        for client in (patient, hasty):
            found = served(client.post, "/v1/tools/search", json=QUERY).json()
            assert found["tools"][0]["id"] == "bolt"
            # What was late may have been written, or not; sent again, it is there once.
            report = served(client.post, "/v1/tools", json={"tools": [LATER]}).json()
            assert report["added"] + report["unchanged"] == 1
            held = served(client.get, "/v1/tools").json()["tools"]
            assert sorted(tool["id"] for tool in held) == ["bolt", "nut"]


def test_while_some_searches_are_slow_other_requests_are_answered(cluster, namespace):
    client = cluster.hasty.client(cluster.key, namespace)
    with client, ThreadPoolExecutor(2) as pool:
        cluster.engine.order({"path": SEARCH, "hold": True})
        slow = [pool.submit(client.post, "/v1/tools/search", json=QUERY) for _ in range(2)]
        served(client.get, "/v1/tools/bolt")
        for each in slow:
            require_deadline(each.result())
        # The two still hold a thread each, and nobody else notices.
        assert cluster.hasty.gauge("abandoned_work") >= 2
        served(client.get, "/v1/tools/bolt")
        cluster.engine.order()
        until(cluster.hasty.is_idle, "all slots given back")
        served(client.post, "/v1/tools/search", json=QUERY)


def test_too_many_slow_searches_are_turned_away_until_the_first_have_ended(cluster, namespace):
    client = cluster.hasty.client(cluster.key, namespace)
    with client, ThreadPoolExecutor(20) as pool:
        cluster.engine.order({"path": SEARCH, "hold": True})
        asked = [pool.submit(client.post, "/v1/tools/search", json=QUERY) for _ in range(20)]
        answers = [each.result() for each in asked]
        late = [answer for answer in answers if answer.status_code == 504]
        for answer in late:
            require_deadline(answer)
        for answer in answers:
            if answer not in late:
                assert answer.status_code == 503
                assert answer.json()["type"] == "urn:toolcrib:problem:overloaded"
                assert int(answer.headers["retry-after"]) >= 1
        assert 0 < len(late) < len(answers)
        cluster.engine.order()
        until(cluster.hasty.is_idle, "all slots given back")
        served(client.post, "/v1/tools/search", json=QUERY)
