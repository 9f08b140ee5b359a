"""Several processes behind one address answer as one would, also when one of them dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from tests.faults.processes import Served, make_key
from tests.http.sleeper import sleeper
from toolcrib.errors import StoreWriteError
from toolcrib.http import processes
from toolcrib.http.processes import OWNER, Forwarder, bind_path
from toolcrib.settings import Settings

CONNECTIONS = 4
"""They are given out in turn, so that each of two processes has some."""


@contextmanager
def serving(folder):
    """A service of two processes over a new folder, and a key."""
    key = make_key(folder / "store")
    settings = {"SERVICE__DRAIN_S": 60, "SERVICE__TIMEOUT_S": 60}
    options = ("--workers", "2")
    service = Served(folder / "store", folder / "log", settings=settings, options=options)
    try:
        yield service, key
    finally:
        service.kill()


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    with ExitStack() as stack:
        service, key = stack.enter_context(serving(tmp_path_factory.mktemp("several")))
        yield connected(stack, service.url, key)
        assert service.stop() == 0


def connected(stack, url, key):
    """Clients of one connection each, all of them open."""
    made = [
        stack.enter_context(
            httpx2.Client(
                base_url=url,
                headers={"Authorization": f"Bearer {key}"},
                limits=httpx2.Limits(max_connections=1),
                timeout=60,
            )
        )
        for _ in range(CONNECTIONS)
    ]
    for client in made:
        assert client.get("/v1/me").status_code == 200
    return made


def tool(name):
    return {"name": name, "description": f"Does {name}."}


def found(client, query, **headers):
    answer = client.post("/v1/tools/search", json={"query": query, "k": 3}, headers=headers)
    assert answer.status_code == 200
    return [each["name"] for each in answer.json()["tools"]]


def soon(look, within_s=10.0):
    """Value of a check once it is true."""
    until = time.monotonic() + within_s
    while not (seen := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return seen


@pytest.mark.parametrize("namespace", ["default", "acme"])
def test_what_one_writes_all_find(clients, namespace):
    headers = {"Toolcrib-Namespace": namespace}
    for number, writer in enumerate(clients):
        name = f"zebra{number}"
        sent = writer.post("/v1/tools", json={"tools": [tool(name)]}, headers=headers)
        assert sent.json()["added"] == 1
        for client in clients:
            assert soon(lambda client=client, name=name: name in found(client, name, **headers))
            shown = client.get(f"/v1/tools/{name}", headers=headers)
            assert shown.status_code == 200
    gone = clients[0].delete("/v1/tools/zebra0", headers=headers)
    assert gone.status_code == 204
    for client in clients:
        assert soon(lambda client=client: "zebra0" not in found(client, "zebra0", **headers))


def test_documents_uploads_and_refusals_pass(clients):
    for number, client in enumerate(clients):
        lines = b"".join(
            json.dumps(["x", tool(f"lot{number}-{n}")]).encode() + b"\n" for n in range(50)
        )
        sent = client.post(
            "/v1/tools", content=lines, headers={"Content-Type": "application/jsonl"}
        )
        assert json.loads(sent.text.strip().splitlines()[-1])["report"]["added"] == 50
        assert client.post("/v1/tools", json={"tools": 5}).status_code == 422
        assert client.post("/v1/nowhere", json={}).status_code == 404
        anonymous = client.post("/v1/tools", json={"tools": []}, headers={"Authorization": "no"})
        assert anonymous.status_code == 401
    guide = {"name": "a.md", "text": "Zebras are groomed at noon."}
    sent = clients[1].post("/v1/documents", json={"collection": "guides", "documents": [guide]})
    assert sent.json()["added"] == 1
    for client in clients:

        def hits(client=client):
            asked = {"query": "when are zebras groomed"}
            return client.post("/v1/knowledge/search", json=asked).json().get("passages")

        assert soon(hits)


def raw(url, request):
    """The first bytes of the answer to what a client would not send by itself."""
    where = httpx2.URL(url)
    with socket.create_connection((where.host, where.port), 10) as connection:
        connection.sendall(request)
        connection.settimeout(4)
        return connection.recv(4096)


def test_a_request_is_forwarded_as_it_came(clients):
    url, key = clients[0].base_url, clients[0].headers["authorization"]
    clients[0].post("/v1/tools", json={"tools": [tool("b")]})
    for _ in range(2):
        # Not even half a body is waited for from those who have no key.
        begun = b"POST /v1/tools HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{"
        assert raw(url, begun).startswith(b"HTTP/1.1 401")
        # The name of a tool that is not there is not that of another one.
        asked = f"DELETE /v1/tools/a/../b HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\n\r\n"
        assert raw(url, asked.encode()).startswith(b"HTTP/1.1 404")
    for client in clients:
        assert soon(lambda client=client: client.get("/v1/tools/b").status_code == 200)


def test_an_answer_that_came_before_the_body_was_sent_is_handed_on(tmp_path):
    closed, sent = threading.Event(), []
    parts = [b"x", b"y"]
    listening = bind_path(tmp_path / OWNER)
    listening.listen()

    def refuse():
        connection, _ = listening.accept()
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        connection.close()
        closed.set()

    async def receive():
        # Nothing is read meanwhile: what is sent next meets a closed connection.
        closed.wait(10)
        if not parts:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(), "more_body": True}

    async def send(message):
        sent.append(message)

    state = SimpleNamespace(draining=False, under_way=0, settings=Settings())
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/tools",
        "query_string": b"",
        "headers": [(b"host", b"x"), (b"transfer-encoding", b"chunked")],
        "app": SimpleNamespace(state=SimpleNamespace(service=state)),
    }
    with closing(listening), ThreadPoolExecutor(1) as owner:
        owner.submit(refuse)
        asyncio.run(Forwarder(None, tmp_path, "token")(scope, receive, send))
    assert sent[0]["status"] == 401


def test_a_decision_is_known_wherever_it_was_made(clients):
    for maker in clients:
        made = maker.post("/v1/route", json={"text": "groom the zebra"}).json()
        for client in clients:
            path = f"/v1/decisions/{made['id']}"
            assert soon(lambda path=path, client=client: client.get(path).status_code == 200)
    said = {"decision_id": made["id"], "tool": "zebra1", "outcome": "success"}
    assert clients[1].post("/v1/outcomes", json=said).status_code == 204


def test_metrics_are_those_of_all(clients):
    def asked():
        lines = clients[0].get("/metrics").text.splitlines()
        return sum(
            float(x.split()[-1])
            for x in lines
            if x.startswith('toolcrib_requests_total{method="POST",route="/v1/detect"')
        )

    before = asked()
    for client in clients * 2:
        assert client.post("/v1/detect", json={"text": "hello"}).status_code == 200
    assert asked() - before == 2 * CONNECTIONS


def children(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(each) for path in tasks for each in path.read_text().split()]
    return [each for each in found if "spawn_main" in Path(f"/proc/{each}/cmdline").read_text()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are looked up in /proc")
def test_one_that_dies_is_started_again_and_none_outlives_the_owner(tmp_path):
    replicas = tmp_path / "store" / "replicas"
    left_behind = replicas / "toolcrib-serve-of-one-that-was-killed"
    left_behind.mkdir(parents=True)
    with serving(tmp_path) as (owner, key), ExitStack() as stack:
        clients = connected(stack, owner.url, key)
        assert not left_behind.exists()
        clients[0].post("/v1/tools", json={"tools": [tool("zebra")]})
        assert soon(lambda: list(replicas.glob("*/*/replica0/*")))
        (worker,) = children(owner.pid)
        os.kill(worker, signal.SIGKILL)
        assert soon(lambda: children(owner.pid) not in ([], [worker]), 30)
        # Connections of the dead one are lost; new ones go to those that live.
        for _ in range(3):
            with ExitStack() as again:
                for client in connected(again, owner.url, key):
                    assert soon(lambda client=client: found(client, "zebra") == ["zebra"])
        (worker,) = children(owner.pid)
        owner.kill()
        assert soon(lambda: not Path(f"/proc/{worker}").exists(), 30)
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{owner.url}/healthz")


class Refusing:
    """A publisher whose disk is full for a while."""

    def __init__(self) -> None:
        self.is_full = False
        self.refused = []

    def add(self, connection):
        if self.is_full:
            self.refused.append(connection)
            raise StoreWriteError("no room for a copy")
        return connection.close


@pytest.mark.slow
def test_one_that_cannot_be_started_is_tried_again_until_it_can(monkeypatch):
    monkeypatch.setattr(processes, "RESTART_AFTER_S", 0.01)
    said = []
    logs = SimpleNamespace(say=lambda event, **_facts: said.append(event))
    state = SimpleNamespace(
        draining=False, hurried=False, settings=Settings(), telemetry=SimpleNamespace(logs=logs)
    )
    dispatcher, publisher = SimpleNamespace(channels=()), Refusing()
    kept = processes.Processes(1, sleeper, (), state, dispatcher, publisher)
    try:
        (first,) = dispatcher.channels
        publisher.is_full = True
        os.kill(children(os.getpid())[-1], signal.SIGKILL)
        assert soon(lambda: len(publisher.refused) > 1)
        assert said.count("worker-died") == 1
        assert dispatcher.channels == []
        publisher.is_full = False
        assert soon(lambda: dispatcher.channels)
        assert dispatcher.channels != [first]
    finally:
        kept.close()
    assert children(os.getpid()) == []
