"""The health checks of image and compose file, run as Docker runs them, against local servers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import yaml
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from tests.conftest import ROOT
from tests.serving import serving_app

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
IMAGE = re.search(r"HEALTHCHECK .*\n +CMD (\[.*\])", (ROOT / "Dockerfile").read_text("utf-8"))
PATHS = {
    "image": "/readyz",
    **dict.fromkeys(["qdrant", "qdrant-1", "qdrant-2", "qdrant-3"], "/readyz"),
    **dict.fromkeys(["nodes", "balancer"], "/healthz"),
    "prometheus": "/-/ready",
    "grafana": "/api/health",
}
"""What each check asks for."""

every_check = pytest.mark.parametrize("name", PATHS)


@contextmanager
def answering(path: str, status: int) -> Generator[int]:
    """A server on loopback that answers this path with this status; its port."""
    app = Starlette(routes=[Route(path, lambda _: Response(status_code=status))])
    with serving_app(app) as url:
        yield int(url.rpartition(":")[2])


def command(name: str, port: int) -> list[str]:
    """What a check runs, with the test's port in the place of its own."""
    if name == "image":
        python, *rest = json.loads(IMAGE[1])
        assert python == "python"
        return [sys.executable, *rest]
    kind, *words = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD"
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    # Compose turns $$ into $.
    there = r"127\.0\.0\.1([:/])\d{4}"
    return [re.sub(there, rf"127.0.0.1\g<1>{port}", word.replace("$$", "$")) for word in words]


def is_healthy(name: str, port: int) -> bool:
    # A proxy, where one is set, has no part in it.
    env = {"TOOLCRIB_SERVICE__PORT": str(port), "PATH": "/usr/bin:/bin"}
    env |= {"http_proxy": "http://127.0.0.1:9"} if name == "image" else {}
    done = subprocess.run(
        command(name, port), env=env, check=False, capture_output=True, timeout=10
    )
    return done.returncode == 0


@every_check
@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_a_check_tells_a_ready_server_from_one_that_is_not(name, status, healthy):
    with answering(PATHS[name], status) as port:
        assert is_healthy(name, port) is healthy


@every_check
def test_a_check_fails_when_nothing_listens(name):
    with answering(PATHS[name], 200) as port:
        pass
    assert not is_healthy(name, port)


def test_every_service_is_checked():
    checked = {name for name, service in SERVICES.items() if "healthcheck" in service}
    assert checked == set(PATHS) - {"image"}
    assert {SERVICES[name]["build"] for name in set(SERVICES) - checked} == {"."}
