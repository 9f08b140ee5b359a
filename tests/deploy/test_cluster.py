"""Two real services on one store, behind the real balancer: any one of them may go."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.deploy.test_balancer import (
    ADDRESSES,
    HAPROXY,
    SEARCH,
    balancing,
    free_ports,
    healthy,
    naming,
    wait_until,
)
from tests.faults.processes import FAST, make_key
from tests.fork_server import ForkedProcess
from tests.store.qdrant_over_http import running

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed")

TOOLS = {"tools": [{"name": "send_mail", "description": "Send a letter by electronic mail."}]}
QUESTION = {"query": "send a letter", "gate": False}


@dataclass
class Cluster:
    """A balancer's address, those of the services, and the key to all of them."""

    port: int
    health_port: int
    replica_port: int
    key: str
    env: dict[str, str]
    services: dict[str, ForkedProcess] = field(default_factory=dict)

    def start(self, host: str) -> None:
        command = ("toolcrib", "serve", "--host", host, "--port", str(self.replica_port))
        with Path(os.devnull).open("wb") as nowhere:
            self.services[host] = ForkedProcess(*command, env=self.env, stderr=nowhere)

    def stop(self) -> None:
        for service in self.services.values():
            service.close()

    def ask(self, path: str, body: Any = None, *, host: str = "") -> tuple[int, Any]:
        """Ask the balancer, or one of the services."""
        port = self.replica_port if host else self.port
        answer = httpx2.request(
            "GET" if body is None else "POST",
            f"http://{host or '127.0.0.1'}:{port}{path}",
            headers={"Authorization": f"Bearer {self.key}"},
            json=body,
            timeout=30,
        )
        return answer.status_code, answer.json()

    def found(self, host: str = "") -> tuple[int, list[str]]:
        status, answer = self.ask(SEARCH, QUESTION, host=host)
        return status, [hit["id"] for hit in answer.get("tools", [])]

    def is_whole(self) -> bool:
        try:
            ready = {self.ask("/readyz", host=host)[0] for host in ADDRESSES}
        except httpx2.TransportError:
            return False
        return ready == {200} and healthy(self.health_port) == len(ADDRESSES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port, health_port, replica_port = free_ports(3)
    with ExitStack() as stack:
        store = stack.enter_context(running()).url
        env = {**os.environ, **FAST, "TOOLCRIB_STORE": store}
        cluster = Cluster(port, health_port, replica_port, make_key(store), env)
        stack.callback(cluster.stop)
        for host in ADDRESSES:
            cluster.start(host)
        dns = stack.enter_context(naming(list(ADDRESSES)))
        stack.enter_context(balancing(folder, dns, (port, health_port, replica_port)))
        wait_until(cluster.is_whole)
        status, report = cluster.ask("/v1/tools", TOOLS)
        assert (status, report.get("added")) == (200, 1), report
        yield cluster


def asking_while(cluster: Cluster, change: Any) -> list[tuple[int, list[str]]]:
    """What is answered from before a change until well after it."""
    seen: list[tuple[int, list[str]]] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            # Nobody can hide a service that dies between an answer's head and its body; whoever
            # only reads asks again.
            with suppress(httpx2.RemoteProtocolError):
                seen.append(cluster.found())

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        wait_until(lambda: len(seen) > 20)
        change()
        after = len(seen)
        wait_until(lambda: len(seen) > after + 60)
    finally:
        over.set()
        asker.join()
    return seen


def test_what_one_service_was_given_every_service_finds(cluster):
    for host in ("", *ADDRESSES):
        assert cluster.found(host) == (200, ["send_mail"])


def test_nobody_notices_that_a_service_was_killed(cluster):
    service = cluster.services["127.0.0.2"]
    seen = asking_while(cluster, service.kill)
    assert service.wait() == -signal.SIGKILL
    service.close()
    assert {(status, *ids) for status, ids in seen} == {(200, "send_mail")}
    cluster.start("127.0.0.2")
    wait_until(cluster.is_whole)


def test_nobody_notices_that_a_service_is_stopped(cluster):
    service = cluster.services["127.0.0.1"]

    def stop() -> None:
        service.send_signal(signal.SIGTERM)
        assert service.wait() == 0

    seen = asking_while(cluster, stop)
    assert {(status, *ids) for status, ids in seen} == {(200, "send_mail")}
