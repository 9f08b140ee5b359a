"""The balancers keep their promises: HAProxy itself runs, before replicas on loopback."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, UDPServer

import pytest

from toolcrib.settings import ServiceSettings

HAPROXY = shutil.which("haproxy")
CONFIGS = Path(__file__).resolve().parents[2] / "deploy" / "haproxy"
ADDRESSES = ("127.0.0.1", "127.0.0.2")
SEARCH, FEEDBACK = "/v1/tools/search", "/v1/feedback"

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="HAProxy is not installed")


@dataclass
class Replica:
    ready: bool = True
    status: int = 200
    hangs_up: bool = False
    asked: Counter[str] = field(default_factory=Counter)


@dataclass
class Cluster:
    """A running balancer, its replicas, and the addresses that the name server gives."""

    port: int
    health_port: int
    replicas: dict[str, Replica]
    servers: dict[str, ThreadingHTTPServer]
    known: list[str]

    def ask(self, path: str, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
        return ask(self.port, path, method)

    def asked(self, path: str) -> int:
        return sum(replica.asked[path] for replica in self.replicas.values())


def ask(port: int, path: str, method: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body=b"{}" if method == "POST" else None)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def healthy(health_port: int) -> int:
    metrics = ask(health_port, "/metrics", "GET")[2].decode()
    found = re.findall(r'haproxy_backend_active_servers\{proxy="replicas"\} (\d+)', metrics)
    return int(found[0])


def serve(replica: Replica, address: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            if self.path == "/readyz":
                return self.answer(200 if replica.ready else 503)
            replica.asked[self.path] += 1
            if replica.hangs_up:
                self.close_connection = True
                return None
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return self.answer(replica.status)

        def do_POST(self) -> None:
            self.do_GET()

        def answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    return server


def stop(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()


@contextmanager
def naming(known: list[str]) -> Generator[int]:
    """A name server on loopback that knows these addresses, whatever it is asked; its port."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            query, server = self.request
            end = query.index(b"\0", 12) + 5
            is_v4 = query[end - 4 : end - 2] == b"\0\1"
            found = [socket.inet_aton(address) for address in known] if is_v4 else []
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
            records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + one for one in found)
            server.sendto(head + query[12:end] + records, self.client_address)

    with UDPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to pass")


def answers(port: int) -> bool:
    try:
        return ask(port, "/metrics", "GET")[0] == 200
    except OSError:
        return False


@contextmanager
def balancing(folder: Path, dns: int, ports: tuple[int, int, int]) -> Generator[None]:
    port, health_port, replica_port = ports
    text = (CONFIGS / "balancer.cfg").read_text("utf-8")
    for there, here in (
        ("bind :8642", f"bind 127.0.0.1:{port}"),
        ("bind :8404", f"bind 127.0.0.1:{health_port}"),
        ("replica:8642", f"replica:{replica_port}"),
        ("127.0.0.11:53", f"127.0.0.1:{dns}"),
    ):
        assert text.count(there) == 1
        text = text.replace(there, here)
    config = folder / "haproxy.cfg"
    config.write_text(text, "utf-8")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen([str(HAPROXY), "-db", "-q", "-f", str(config)], **quiet)
    try:
        wait_until(lambda: answers(health_port))
        yield
    finally:
        running.terminate()
        running.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    port, health_port, replica_port = free_ports(3)
    replicas = {address: Replica() for address in ADDRESSES}
    known = list(ADDRESSES)
    with ExitStack() as stack:
        servers = {ip: serve(replica, ip, replica_port) for ip, replica in replicas.items()}
        for server in servers.values():
            stack.callback(stop, server)
        dns = stack.enter_context(naming(known))
        stack.enter_context(balancing(tmp_path, dns, (port, health_port, replica_port)))
        cluster = Cluster(port, health_port, replicas, servers, known)
        wait_until(lambda: healthy(cluster.health_port) == len(ADDRESSES))
        yield cluster


@pytest.mark.parametrize("name", ["balancer.cfg", "nodes.cfg"])
def test_haproxy_takes_the_file_without_a_warning(name):
    done = subprocess.run(
        [str(HAPROXY), "-c", "-f", CONFIGS / name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


def test_requests_are_shared_among_the_replicas(cluster):
    assert {cluster.ask(SEARCH)[0] for _ in range(20)} == {200}
    # The next request may come before the balancer has closed the last one's connection.
    assert min(replica.asked[SEARCH] for replica in cluster.replicas.values()) >= 5


def test_a_replica_that_is_not_ready_is_asked_nothing(cluster):
    tired, awake = cluster.replicas.values()
    tired.ready = False
    wait_until(lambda: healthy(cluster.health_port) == 1)
    assert {cluster.ask(SEARCH)[0] for _ in range(10)} == {200}
    assert (tired.asked[SEARCH], awake.asked[SEARCH]) == (0, 10)


@pytest.mark.parametrize(("method", "path"), [("POST", SEARCH), ("GET", "/v1/tools")])
@pytest.mark.parametrize("fault", [{"status": 503}, {"hangs_up": True}])
def test_a_question_that_one_replica_cannot_answer_goes_to_another(cluster, method, path, fault):
    broken, whole = cluster.replicas.values()
    for name, value in fault.items():
        setattr(broken, name, value)
    assert {cluster.ask(path, method)[0] for _ in range(10)} == {200}
    assert broken.asked[path] > 0
    assert whole.asked[path] == 10


def test_a_refusal_of_what_leaves_a_trace_is_handed_on(cluster):
    for replica in cluster.replicas.values():
        replica.status = 503
    assert cluster.ask(FEEDBACK)[0] == 503
    assert cluster.asked(FEEDBACK) == 1


def test_what_leaves_a_trace_is_never_sent_twice(cluster):
    for replica in cluster.replicas.values():
        replica.hangs_up = True
    status, headers, body = cluster.ask(FEEDBACK)
    assert (status, cluster.asked(FEEDBACK)) == (502, 1)
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"] == "urn:toolcrib:problem:service-unavailable"


def test_what_was_never_sent_goes_to_another_replica(cluster):
    stop(cluster.servers["127.0.0.2"])
    # Asked at once: the balancer has not yet noticed that this one is gone.
    assert {cluster.ask(FEEDBACK)[0] for _ in range(20)} == {200}
    assert cluster.replicas["127.0.0.1"].asked[FEEDBACK] == 20


def test_a_new_replica_is_found_by_its_name(cluster):
    cluster.known.remove("127.0.0.2")
    wait_until(lambda: healthy(cluster.health_port) == 1)
    cluster.known.append("127.0.0.2")
    wait_until(lambda: healthy(cluster.health_port) == 2)


def test_without_a_replica_the_answer_is_a_problem_that_says_when_to_ask_again(cluster):
    for replica in cluster.replicas.values():
        replica.ready = False
    wait_until(lambda: healthy(cluster.health_port) == 0)
    status, headers, body = cluster.ask(SEARCH)
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(body)["retry_after_s"] == 1
    assert ask(cluster.health_port, "/healthz", "GET")[0] == 503


def test_the_balancer_is_healthy_while_one_replica_is(cluster):
    cluster.replicas["127.0.0.1"].ready = False
    wait_until(lambda: healthy(cluster.health_port) == 1)
    assert ask(cluster.health_port, "/healthz", "GET")[0] == 200


@pytest.mark.parametrize("file", ["prometheus/alerts.yml", "grafana/dashboards/toolcrib.json"])
def test_every_figure_that_is_looked_at_is_told(cluster, file):
    wanted = set(re.findall(r"haproxy_\w+", (CONFIGS.parent / file).read_text("utf-8")))
    told = ask(cluster.health_port, "/metrics", "GET")[2].decode()
    assert set() < wanted <= set(re.findall(r"^(haproxy_\w+)\{", told, re.MULTILINE))


@pytest.mark.parametrize("path", ["/metrics", "/%6detrics", "/metrics/", "/metrics?x=1"])
def test_figures_are_not_shown_to_the_outside(cluster, path):
    assert cluster.ask(path, "GET")[0] == 404
    assert cluster.asked(path) == 0


def test_the_balancer_waits_longer_than_the_service_works():
    waits = re.search(r"timeout server (\d+)s", (CONFIGS / "balancer.cfg").read_text("utf-8"))
    assert int(waits[1]) > ServiceSettings().timeout_s
