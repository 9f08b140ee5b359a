"""docker-compose.yml keeps its promises: what starts, with which rights, limits and secrets."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from toolcrib.settings import ServiceSettings, load_settings
from toolcrib.store.qdrant_client import MIN_SERVER_VERSION

FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

NODES = ["qdrant-1", "qdrant-2", "qdrant-3"]
QDRANT = ["qdrant", *NODES]
OURS = ["toolcrib", "replica"]


def each(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names)


@each(list(SERVICES))
def test_a_service_needs_only_what_its_profile_starts(name):
    profiles = SERVICES[name].get("profiles")
    needed = SERVICES[name].get("depends_on", [])
    assert all(SERVICES[other].get("profiles") in (None, profiles) for other in needed)


@each([name for name in SERVICES if name not in OURS])
def test_an_image_is_named_by_version_and_digest(name):
    assert re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image(name))


@each(QDRANT)
def test_qdrant_is_of_a_version_that_toolcrib_accepts(name):
    tag = re.match(r"qdrant/qdrant:v(\d+)\.(\d+)\.\d+-unprivileged@", image(name))
    assert (int(tag[1]), int(tag[2])) >= MIN_SERVER_VERSION


def image(name: str) -> str:
    return SERVICES[name]["image"]


def ports(name: str) -> list[str]:
    return SERVICES[name].get("ports", [])


@each(list(SERVICES))
def test_ports_are_open_to_this_machine_only(name):
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports(name))


def test_the_service_is_where_its_settings_say():
    port = ServiceSettings().port
    assert ports("toolcrib") == [f"127.0.0.1:{port}:{port}"]


@each(list(SERVICES))
def test_a_container_has_no_more_rights_than_it_needs(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"cap_add", "privileged", "user", "network_mode", "pid"} & set(service)


@each(list(SERVICES))
def test_a_container_has_limits_comes_back_and_fills_no_disk_with_its_log(name):
    service = SERVICES[name]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert service["restart"] == "unless-stopped"
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}


@each([*QDRANT, *OURS])
def test_what_holds_data_or_requests_stops_in_peace(name):
    seconds = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert seconds > ServiceSettings().drain_s


@each(list(SERVICES))
def test_every_environment_value_is_text_and_none_is_a_secret(name):
    environment = SERVICES[name].get("environment", {})
    assert all(isinstance(value, str) for value in environment.values())
    assert not any(re.search(r"KEY|SECRET|TOKEN|PASSWORD", variable) for variable in environment)


@each([*QDRANT, *OURS])
def test_secrets_come_from_a_file_that_is_not_part_of_the_project(name):
    assert SERVICES[name]["env_file"] == [{"path": "deploy/secrets.env", "required": False}]
    assert "secrets.env" in (ROOT / "deploy" / ".gitignore").read_text("utf-8").splitlines()


@each(OURS)
def test_the_services_variables_are_settings(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for variable, value in SERVICES[name]["environment"].items():
        monkeypatch.setenv(variable, value)
    settings = load_settings()
    threads = SERVICES[name]["deploy"]["resources"]["limits"]["cpus"]
    assert settings.encoder.threads == int(threads)
    server = re.fullmatch(r"http://([\w-]+):6333", settings.store)
    assert server[1] in SERVICES[name]["depends_on"]


def test_the_nodes_balancer_knows_every_node():
    config = (ROOT / "deploy" / "haproxy" / "nodes.cfg").read_text("utf-8")
    assert re.findall(r"^    server (\S+) (\S+)$", config, re.MULTILINE) == [
        (node, f"{node}:6333") for node in NODES
    ]


@pytest.mark.parametrize("profile", ["", "cluster", "observe"])
def test_compose_itself_takes_it(profile):
    docker = shutil.which("docker")
    version = [docker, "compose", "version"]
    if docker is None or subprocess.run(version, capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "--file", FILE, "--profile", profile, "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
