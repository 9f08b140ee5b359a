"""Metrics over HTTP: what is counted, and that no label names a tenant."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families


def samples(client):
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def answered(route, status):
    """Key of the number of GET requests of a route that were answered with a status."""
    heads = ("http_request_method", "GET"), ("http_response_status_code", str(status))
    return "http_server_request_duration_seconds_count", (*heads, ("http_route", route))


def test_requests_are_counted_by_route_and_status(service, tenant):
    key = answered("/v1/tools/{id}", 404)
    before = samples(tenant).get(key, 0)
    tenant.get("/v1/tools/secret-name")
    after = samples(tenant)
    assert after[key] == before + 1


def test_stages_and_verdicts_of_answers_are_counted(stocked):
    counted = ("toolcrib_stage_seconds_count", (("stage", "legs"),))
    before = samples(stocked)
    stocked.post("/v1/tools/search", json={"query": "send a mail"})
    stocked.post("/v1/tools/search", json={"query": "?"})
    after = samples(stocked)
    assert after[counted] == before.get(counted, 0) + 1
    assert after["toolcrib_verdicts_total", (("verdict", "accept"),)] >= 1
    assert after["toolcrib_verdicts_total", (("verdict", "abstain"),)] >= 1
    assert after["toolcrib_degraded_total", (("stage", "no-words"),)] >= 1


def test_who_is_turned_away_is_counted_by_the_reason(service):
    with service.anonymous() as client:
        client.get("/v1/me")
        found = samples(client)
    assert found["toolcrib_turned_away_total", (("reason", "key"),)] >= 1
    assert found[answered("/v1/me", 401)] >= 1


def test_the_service_itself_is_measured(tenant):
    found = samples(tenant)
    for name in ("requests_under_way", "abandoned_work", "decisions_dropped"):
        assert found[f"toolcrib_{name}", ()] == 0
    assert found["toolcrib_tools", ()] >= 0
    assert found["process_resident_memory_bytes", ()] > 0


def test_nothing_in_them_is_anybodys(service):
    with service.client("acme-tenant") as client:
        client.post("/v1/tools", json={"tools": [{"name": "acme_tool", "server": "acme-server"}]})
        client.post("/v1/tools/search", json={"query": "the acme question"})
        client.get("/v1/tools/acme-server/acme_tool")
        client.get("/acme-path")
        client.request("ACME", "/acme-path")
        assert re.search("acme", client.get("/metrics").text, re.IGNORECASE) is None
