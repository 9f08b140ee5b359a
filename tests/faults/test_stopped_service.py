"""A service that is asked to end: what it has begun it finishes, and nothing new is taken."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPResponse

import httpx2

from tests.faults.processes import head_of, make_key, until
from toolcrib import Settings
from toolcrib.build import open_records_db

TOOL = {"name": "bolt", "description": "Turns a bolt."}


def half_a_write(service, key):
    """A connection on which all of a write but its last byte was sent, and that byte."""
    body = json.dumps({"tools": [TOOL]}).encode()
    connection = service.connect()
    with service.client(key) as client:
        connection.sendall(head_of(client, body) + body[:-1])
    until(lambda: service.gauge("requests_under_way") == 1, "the request is under way")
    return connection, body[-1:]


def answered(connection):
    """Status and JSON of the answer that comes on a connection."""
    answer = HTTPResponse(connection)
    answer.begin()
    return answer.status, json.load(answer)


def test_readiness_goes_first_new_requests_are_sent_on_and_work_under_way_is_answered(
    serve, tmp_path
):
    store = tmp_path / "store"
    key = make_key(store)
    service = serve(store)
    connection, rest = half_a_write(service, key)
    with connection, service.client(key) as client:
        service.tell(signal.SIGTERM)
        stopping = until(lambda: (r := service.ready()).status_code == 503 and r, "not ready")
        assert stopping.json()["detail"] == "the service is stopping"
        assert int(stopping.headers["retry-after"]) >= 1
        turned_away = client.post("/v1/tools/search", json={"query": "bolt"})
        assert turned_away.status_code == 503
        assert turned_away.json()["type"] == "urn:toolcrib:problem:service-unavailable"
        assert int(turned_away.headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200
        assert service.process.poll() is None

        connection.sendall(rest)
        status, report = answered(connection)
        assert (status, report["added"]) == (200, 1)
    assert service.stop() == 0
    with serve(store).client(key) as client:
        assert client.get("/v1/tools/bolt").json()["description"] == TOOL["description"]


def test_a_second_signal_does_not_wait_for_a_client_that_never_finishes(serve, tmp_path):
    key = make_key(tmp_path / "store")
    service = serve(tmp_path / "store")
    connection, _ = half_a_write(service, key)
    with connection:
        service.tell(signal.SIGTERM)
        until(lambda: service.ready().status_code == 503, "not ready")
        assert service.stop() == 0


def test_an_upload_that_has_to_end_says_so_in_its_last_line(serve, tmp_path):
    key = make_key(tmp_path / "store")
    service = serve(tmp_path / "store")
    lines = [["", {**TOOL, "name": f"bolt{n}", "description": f"Turns {n}."}] for n in range(9000)]
    content = "\n".join(map(json.dumps, lines))
    kind = {"Content-Type": "application/jsonl"}
    with (
        service.client(key) as client,
        client.stream("POST", "/v1/tools", content=content, headers=kind) as answer,
    ):
        told = filter(str.strip, answer.iter_lines())
        assert "progress" in json.loads(next(told))
        service.tell(signal.SIGTERM)
        until(lambda: service.ready().status_code == 503, "not ready")
        service.tell(signal.SIGTERM)
        *_, last = map(json.loads, told)
    assert last["problem"]["type"] == "urn:toolcrib:problem:service-unavailable"
    assert service.stop() == 0
    logged = [json.loads(line) for line in service.log.read_text().splitlines()]
    of_upload = [each for each in logged if each.get("route") == "/v1/tools"]
    assert [each["status"] for each in of_upload] == [503]


def test_decisions_are_written_before_the_end(serve, tmp_path):
    store = tmp_path / "store"
    key = make_key(store)
    service = serve(store)
    with service.client(key) as client:
        routed = [client.post("/v1/route", json={"text": "hello there"}) for _ in range(20)]
        assert service.stop() == 0
    with closing(open_records_db(str(store), Settings())) as records_db:
        written = {entry.id for entry in records_db.read("decisions/default")}
    assert written == {answer.json()["id"] for answer in routed}


def test_stopped_amid_writes_it_keeps_all_that_callers_saw_acknowledged(serve, tmp_path):
    store = tmp_path / "store"
    key = make_key(store)
    service = serve(store)
    acknowledged, refused = [], []

    def write(namespace):
        with service.client(key, namespace) as client, suppress(httpx2.TransportError):
            for number in range(10_000):
                tool = {"name": f"bolt{number}", "description": f"Turns bolt number {number}."}
                answer = client.post("/v1/tools", json={"tools": [tool]})
                if answer.status_code == 503:
                    refused.append(answer)
                    continue
                assert answer.json()["added"] == 1, answer.text
                acknowledged.append((namespace, tool["name"]))

    namespaces = ("default", "a", "b")
    with ThreadPoolExecutor(len(namespaces)) as pool:
        writers = pool.map(write, namespaces)
        until(lambda: len(acknowledged) > 30, "writes that are acknowledged")
        assert service.stop() == 0
        list(writers)
    for answer in refused:
        assert answer.json()["type"] == "urn:toolcrib:problem:service-unavailable"
        assert "retry-after" in answer.headers

    again = serve(store)
    for namespace in namespaces:
        with again.client(key, namespace) as client:
            held = client.get("/v1/tools", params={"limit": 500}).json()["tools"]
        expected = {name for where, name in acknowledged if where == namespace}
        assert expected
        assert expected - {tool["id"] for tool in held} == set()
