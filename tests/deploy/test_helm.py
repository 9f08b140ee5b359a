"""The Helm chart renders to valid resources, with the rights, store and keys that it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.conftest import ROOT
from toolcrib.gateway.config import McpFile
from toolcrib.gateway.serve import DRAIN_TIMEOUT_S
from toolcrib.settings import load_settings

helm = pytest.importorskip("helm_python", reason="built for Linux on x86-64 alone")

CHART = ROOT / "deploy" / "helm" / "toolcrib"
OLDEST, NEWEST = "1.27", "1.37"
"""Versions of Kubernetes against whose schemas resources are held."""

BOTH = {
    "gateway": {
        "enabled": True,
        "servers": {"mail": {"url": "https://mail.example.com/mcp"}},
        "ingress": {"host": "tools.example.com", "className": "nginx", "tlsSecret": "tls"},
    },
    "service": {"storage": {"url": "http://qdrant:6333"}, "replicas": 3},
    "secrets": {"TOOLCRIB_SERVER__API_KEY": "a secret"},
    "settings": {"gateway": {"k": 3}},
    "serviceAccount": {"annotations": {"a": "b"}},
    "imagePullSecrets": [{"name": "registry"}],
}
OWN = {"existingSecret": "keys", "serviceAccount": {"name": "own"}, "service": {"firstKey": False}}

pytestmark = pytest.mark.slow


def rendered(values: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Resources by kind and name, of a release `demo`."""
    with helm.Chart.load(str(CHART)) as chart:
        files = chart.render(dict(values), name="demo", namespace="prod")
    texts = [text for name, text in files.items() if not name.endswith(".txt")]
    found = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(values: Mapping[str, Any], part: str = "service") -> dict[str, Any]:
    return rendered(values)["StatefulSet", f"demo-toolcrib-{part}"]["spec"]["template"]["spec"]


def test_helm_finds_no_fault():
    found = helm.lint(str(CHART))
    assert found["errors"] == []
    assert {each["error"] for each in found["messages"]} == {"icon is recommended"}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", [{}, BOTH, OWN], ids=["default", "both", "own"])
def test_resources_are_valid(values, version):
    for resource in rendered(values).values():
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("part", ["service", "gateway"])
def test_a_container_has_no_more_rights_than_it_needs(part):
    spec = pod(BOTH, part)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    # Readable and writable for the user of the image.
    assert f"USER {spec['securityContext']['runAsUser']}:" in (ROOT / "Dockerfile").read_text()
    for each in (*spec["initContainers"], *spec["containers"]):
        rights = each["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert set(each["resources"]["limits"]) == {"cpu", "memory"}


def test_an_index_is_a_volume_or_a_server():
    volume = rendered({})["StatefulSet", "demo-toolcrib-service"]["spec"]["volumeClaimTemplates"]
    assert [each["metadata"]["name"] for each in volume] == ["data"]
    found = rendered(BOTH)
    assert "volumeClaimTemplates" not in found["StatefulSet", "demo-toolcrib-service"]["spec"]
    environment = pod(BOTH)["containers"][0]["env"]
    assert {"name": "TOOLCRIB_STORE", "value": "http://qdrant:6333"} in environment


def test_a_volume_serves_one_replica():
    with pytest.raises(helm.HelmError, match=r"service\.storage\.url"):
        rendered({"service": {"replicas": 2}})


@pytest.mark.parametrize(
    "values",
    [
        {"service": {"replica": 2}},
        {"image": {"tag": 1}},
        {"gateway": {"port": 80}},
        {"service": {"storage": {"url": "qdrant:6333"}}},
    ],
)
def test_unknown_and_wrong_values_are_refused(values):
    with helm.Chart.load(str(CHART)) as chart, pytest.raises(helm.HelmValuesError):
        chart.validate_schema(values)


@pytest.mark.parametrize(
    ("settings", "drain_s"),
    [
        ({}, 20),
        ({"service": {"drain_s": 90.5}}, 91),
        ({"service": {"drain_s": 0}}, DRAIN_TIMEOUT_S),
    ],
)
def test_a_pod_has_time_to_drain_and_to_close(settings, drain_s):
    for part in ("service", "gateway"):
        spec = pod({**BOTH, "settings": settings}, part)
        *_, wait_s = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert spec["terminationGracePeriodSeconds"] == int(wait_s) + drain_s + 10


def test_probes_ask_for_what_is_served():
    service, gateway = pod(BOTH)["containers"][0], pod(BOTH, "gateway")["containers"][0]
    assert service["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/healthz"
    assert {each["livenessProbe"]["httpGet"]["path"] for each in (service, gateway)} == {"/healthz"}


def test_secrets_reach_the_containers_as_variables_alone():
    found = rendered(BOTH)
    (variables,) = pod(BOTH)["containers"][0]["envFrom"]
    assert variables == {"secretRef": {"name": "demo-toolcrib"}}
    assert found["Secret", "demo-toolcrib"]["stringData"] == BOTH["secrets"]
    holders = [key for key, each in found.items() if "a secret" in yaml.safe_dump(each)]
    assert holders == [("Secret", "demo-toolcrib")]
    assert pod(OWN)["containers"][0]["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert ("Secret", "demo-toolcrib") not in rendered(OWN)


def test_the_files_of_the_config_map_are_read(tmp_path, monkeypatch):
    for name, text in rendered(BOTH)["ConfigMap", "demo-toolcrib"]["data"].items():
        (tmp_path / name).write_text(text, "utf-8")
    for each in pod(BOTH)["containers"][0]["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    settings = load_settings(tmp_path / "toolcrib.yaml")
    assert (settings.gateway.k, settings.encoder.threads) == (3, 2)
    assert [each.name for each in McpFile(tmp_path / "mcp.json", {}).read()] == ["mail"]


def test_the_first_key_is_made_once(tmp_path):
    """The commands of the containers run as they are, on one folder."""
    (first,) = pod(BOTH)["initContainers"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TOOLCRIB_STORE": str(tmp_path)}

    def start(ordinal):
        name = f"demo-toolcrib-service-{ordinal}"
        variables = {**environment, "HOSTNAME": name}
        return subprocess.Popen(first["command"], env=variables, stdout=subprocess.PIPE, text=True)

    # The first pod starts last, and the others wait for its key; then it starts once more.
    printed = [each.communicate()[0] for each in [start(10), start(1), start(0)]]
    assert [text.count("tc_") for text in printed] == [0, 0, 1]
    assert start(0).communicate()[0] == ""
    assert "initContainers" not in pod(OWN)
