"""Prometheus and Grafana: what they ask for is what the service tells, and alerts go off."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from toolcrib.http.app import make_app
from toolcrib.http.authenticator import Anyone
from toolcrib.language_models import ModelRequest
from toolcrib.records.turns import ModelUsage
from toolcrib.settings import EncoderSettings, Settings
from toolcrib.telemetry import RequestSummary
from toolcrib.tenants import Tenants

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text("utf-8"))["services"]
CONFIG = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
RULES = [
    rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]
]
GRAFANA = DEPLOY / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "toolcrib.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in RULES},
    **{panel["title"]: " + ".join(t["expr"] for t in panel["targets"]) for panel in PANELS},
}

OURS = r"\b(?:toolcrib|http_server_request|gen_ai_client)_\w+"
"""Names of metrics of the service."""

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Any:
    """A service that has answered one request of every kind of outcome."""
    settings = Settings(encoder=EncoderSettings(dense="deterministic"))
    with Tenants.open(tmp_path_factory.mktemp("crib"), settings=settings) as namespaces:
        app = make_app(namespaces, settings, callers=Anyone())
        app.state.service.telemetry.metrics.count(
            RequestSummary(
                request_id="r",
                method="POST",
                route="/v1/tools/search",
                status=200,
                took_ms=2.0,
                stages={"encode": 1.0, "total": 2.0},
                verdict="accept",
                degraded=("dense",),
                turned_away="deadline",
                model_requests=(ModelRequest(ModelUsage("rerank", "small"), 0.1, "openai"),),
            )
        )
        yield app


async def read_metrics(service: Any) -> str:
    transport = httpx2.ASGITransport(service)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/metrics")).text


@pytest.fixture(scope="module")
def told(service) -> dict[str, set[str]]:
    """The names of the metrics that the service tells, each with its labels."""
    text = asyncio.run(read_metrics(service))
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def test_every_metric_and_label_that_is_looked_at_is_told(told):
    everywhere = {"instance", "job"}
    for name, expression in EXPRESSIONS.items():
        wanted = set(re.findall(rf"{OURS}|\bprocess_\w+", expression)) - {"toolcrib_use"}
        assert wanted - set(told) == set(), name
        for metric, matchers in re.findall(rf"({OURS})\{{([^}}]*)\}}", expression):
            assert set(re.findall(r"(\w+)\s*[=!]~?", matchers)) <= told[metric] | everywhere, name


def test_every_metric_of_the_service_is_on_the_dashboard_and_explained(told):
    shown = " ".join(EXPRESSIONS[panel["title"]] for panel in PANELS)
    explained = (DEPLOY.parent / "docs" / "how-to" / "watch.md").read_text("utf-8")
    base = {re.sub(r"_(bucket|sum|count|total|created)$", "", n) for n in told if re.match(OURS, n)}
    assert {name for name in base if name not in shown} == set()
    assert {name for name in base if f"| `{name}" not in explained} == set()


async def test_every_reason_that_is_looked_at_is_given(service):
    house = service.state.service
    transport = httpx2.ASGITransport(service)
    async with httpx2.AsyncClient(transport=transport, base_url="http://elsewhere") as client:
        assert (await client.get("/v1/tools")).status_code == 403
        house.under_way = house.settings.service.concurrent
        own = {"Host": "localhost"}
        assert (await client.get("/v1/tools", headers=own)).status_code == 503
        house.under_way = 0
    given = re.findall(r'reason="(\w+)"', house.telemetry.metrics.text()[0].decode())
    wanted = {r for e in EXPRESSIONS.values() for r in re.findall(r'reason="(\w+)"', e)}
    assert set() < wanted <= set(given)


def test_every_route_that_is_looked_at_exists(service):
    routes = {route.path for route in service.routes}
    for expression in EXPRESSIONS.values():
        for operator, pattern in re.findall(r'http_route(=~?)"([^"]+)"', expression):
            known = [
                r for r in routes if (re.fullmatch(pattern, r) if "~" in operator else r == pattern)
            ]
            assert len(known) == len(re.findall(r"\|", pattern)) + 1


@pytest.mark.parametrize("job", CONFIG["scrape_configs"], ids=lambda job: job["job_name"])
def test_every_name_that_is_scraped_is_a_service_in_reach(job):
    (names,) = job["dns_sd_configs"]
    networks = set(COMPOSE["prometheus"]["networks"])
    for name in names["names"]:
        assert networks & set(COMPOSE[name]["networks"])


def test_grafana_is_given_its_source_and_its_dashboard():
    source = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())
    (prometheus,) = source["datasources"]
    assert prometheus["url"] == "http://prometheus:9090"
    used = {json.dumps(panel["datasource"]) for panel in PANELS}
    assert used == {json.dumps({"type": "prometheus", "uid": prometheus["uid"]})}
    files = yaml.safe_load((GRAFANA / "provisioning/dashboards/files.yml").read_text())
    folder = files["providers"][0]["options"]["path"]
    assert f"./deploy/grafana/dashboards:{folder}:ro" in COMPOSE["grafana"]["volumes"]
    home = COMPOSE["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/toolcrib.json"


def promtool(*arguments: object) -> None:
    command = [str(PROMTOOL), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_takes_its_files(tmp_path):
    here = (DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8")
    config = tmp_path / "prometheus.yml"
    config.write_text(here.replace("/etc/prometheus", str(ALERTS.parent)), "utf-8")
    promtool("check", "config", config)


@needs_promtool
def test_prometheus_understands_every_question_of_the_dashboard(tmp_path):
    asked = [t["expr"] for panel in PANELS for t in panel["targets"]]
    rules = [
        {"record": f"panel:{n}", "expr": e.replace("$__rate_interval", "1m")}
        for n, e in enumerate(asked)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)


DURATION = "http_server_request_duration_seconds"
HEADS = 'job="toolcrib", instance="a", http_route="{}", http_response_status_code="{}"'
TOTAL = f"{DURATION}_count{{{HEADS.format('/v1/route', 200)}}}"
CASES: dict[str, list[tuple[str, str]]] = {
    "ToolcribAway": [('up{job="toolcrib", instance="a"}', "0x40")],
    "ToolcribNotReady": [(f"{DURATION}_count{{{HEADS.format('/readyz', 503)}}}", "0+6x40")],
    "ToolcribFails": [(TOTAL, "0+900x40"), (TOTAL.replace("200", "500"), "0+20x40")],
    "ToolcribOverloaded": [
        (TOTAL, "0+900x40"),
        ('toolcrib_turned_away_total{instance="a", reason="overload"}', "0+90x40"),
    ],
    "ToolcribSlow": [
        (f'{DURATION}_bucket{{{HEADS.format("/v1/route", 200)}, le="{le}"}}', f"0+{n}x40")
        for le, n in (("0.5", 90), ("1.0", 100), ("+Inf", 100))
    ],
    "ToolcribDegraded": [
        ('toolcrib_degraded_total{stage="rerank"}', "0+5x40"),
        ('toolcrib_verdicts_total{verdict="accept"}', "0+100x40"),
    ],
    "ToolcribRefusesKeys": [('toolcrib_turned_away_total{reason="key"}', "0+120x40")],
    "ToolcribLosesDecisions": [('toolcrib_decisions_dropped{instance="a"}', "0+1x40")],
    "QdrantAway": [('up{job="qdrant", instance="q"}', "0x40")],
    "FewServersBehindBalancer": [('haproxy_backend_active_servers{proxy="nodes"}', "1x40")],
}
"""Of each alert, series by the minute that set it off."""
WELL = [
    ('up{job="toolcrib", instance="a"}', "1x40"),
    ('up{job="qdrant", instance="q"}', "1x40"),
    (TOTAL, "0+900x40"),
    (f"{DURATION}_count{{{HEADS.format('/readyz', 200)}}}", "0+6x40"),
    (f'{DURATION}_bucket{{{HEADS.format("/v1/route", 200)}, le="0.5"}}', "0+900x40"),
    (f'{DURATION}_bucket{{{HEADS.format("/v1/route", 200)}, le="+Inf"}}', "0+900x40"),
    ('toolcrib_verdicts_total{verdict="accept"}', "0+900x40"),
    ('haproxy_backend_active_servers{proxy="nodes"}', "3x40"),
    ('toolcrib_decisions_dropped{instance="a"}', "7x40"),
]
"""Series of a service that nobody need look at."""


def fires(folder: Path, series: list[tuple[str, str]], alert: str) -> str:
    """What promtool says of an alert that is expected not to go off."""
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "alert_rule_test": [{"eval_time": "30m", "alertname": alert, "exp_alerts": []}],
    }
    file = folder / "case.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    command = [str(PROMTOOL), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES])
def test_an_alert_goes_off_when_it_should_and_only_then(tmp_path, alert):
    assert f'alertname="{alert}"' in fires(tmp_path, CASES[alert], alert)
    assert "SUCCESS" in fires(tmp_path, WELL, alert)


@needs_promtool
def test_the_refusals_of_one_key_are_an_overload_too(tmp_path):
    alert = "ToolcribOverloaded"
    series = [(name.replace("overload", "share"), values) for name, values in CASES[alert]]
    assert f'alertname="{alert}"' in fires(tmp_path, series, alert)
