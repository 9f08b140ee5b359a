"""docker-compose.yml keeps its promises; its health check is run, as Docker would run it."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib.store.server_wire import MIN_SERVER

COMPOSE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parent.parent / "docker-compose.yml").read_text("utf-8"),
)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = ["qdrant-1", "qdrant-2", "qdrant-3"]

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())


def test_there_is_one_server_and_a_cluster_of_three() -> None:
    assert list(SERVICES) == ["qdrant", *NODES]
    assert "profiles" not in SERVICES["qdrant"]
    assert all(SERVICES[node]["profiles"] == ["cluster"] for node in NODES)


@every_service
def test_the_image_is_pinned_to_a_version_that_toolcrib_accepts(service: dict[str, Any]) -> None:
    tag = re.fullmatch(r"qdrant/qdrant:v(\d+)\.(\d+)\.(\d+)", service["image"])
    assert tag is not None
    assert (int(tag[1]), int(tag[2])) >= MIN_SERVER


@every_service
def test_ports_are_open_to_this_machine_only(service: dict[str, Any]) -> None:
    assert service["ports"]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:6333", port) for port in service["ports"])


def test_no_port_is_taken_twice() -> None:
    ports = [port.split(":")[1] for service in SERVICES.values() for port in service["ports"]]
    assert len(set(ports)) == len(ports)


def test_every_server_keeps_its_data_in_a_volume_of_its_own() -> None:
    mounts = [service["volumes"] for service in SERVICES.values()]
    assert mounts == [[f"{name}:/qdrant/storage"] for name in SERVICES]
    assert set(COMPOSE["volumes"]) == set(SERVICES)


@every_service
def test_a_server_comes_back_and_stops_in_peace(service: dict[str, Any]) -> None:
    assert service["restart"] == "unless-stopped"
    assert service["stop_grace_period"] == "30s"


@every_service
def test_every_environment_value_is_text(service: dict[str, Any]) -> None:
    assert all(isinstance(value, str) for value in service["environment"].values())


def test_the_first_node_founds_the_cluster_and_the_others_join_it() -> None:
    founder, *others = NODES
    assert SERVICES[founder]["command"] == ["./qdrant", "--uri", f"http://{founder}:6335"]
    for node in others:
        joins = [
            "./qdrant",
            "--uri",
            f"http://{node}:6335",
            "--bootstrap",
            f"http://{founder}:6335",
        ]
        assert SERVICES[node]["command"] == joins
        assert SERVICES[node]["depends_on"] == [founder]
    for node in NODES:
        environment = SERVICES[node]["environment"]
        assert environment["QDRANT__CLUSTER__ENABLED"] == "true"
        assert environment["QDRANT__CLUSTER__P2P__PORT"] == "6335"


@contextmanager
def _answering(status: int) -> Generator[int]:
    """A server on loopback that answers `/readyz` with this status; its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _health_check(service: dict[str, Any], port: int) -> int:
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    # Compose turns $$ into $; the port is the test's.
    command = [part.replace("$$", "$").replace("/6333", f"/{port}") for part in command]
    return subprocess.run(command, check=False, capture_output=True, timeout=10).returncode


@every_service
@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_the_health_check_tells_a_ready_server_from_one_that_is_not(
    service: dict[str, Any],
    status: int,
    healthy: bool,
) -> None:
    with _answering(status) as port:
        assert (_health_check(service, port) == 0) is healthy


@every_service
def test_the_health_check_fails_when_nothing_listens(service: dict[str, Any]) -> None:
    with _answering(200) as port:
        pass
    assert _health_check(service, port) != 0


@every_service
def test_a_dollar_sign_is_kept_from_composes_own_substitution(service: dict[str, Any]) -> None:
    text = " ".join(service["healthcheck"]["test"])
    assert "$" not in text.replace("$$", "")
