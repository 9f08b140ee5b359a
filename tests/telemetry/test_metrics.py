"""Metrics: what is counted, by labels that nobody can make up."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from toolcrib.records.turns import ModelUsage
from toolcrib.telemetry import UNMATCHED, Metrics, RequestSummary


def values(metrics):
    text, kind = metrics.text()
    assert kind.startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_made_up_methods_are_one():
    metrics = Metrics()
    for method in ("FOO", "BAR"):
        metrics.count(RequestSummary("r", method, UNMATCHED, 405, 1.0))
    found = values(metrics)
    assert found["toolcrib_requests_total", "405", "OTHER", UNMATCHED] == 2
    assert ("toolcrib_request_seconds_count", UNMATCHED) not in found


def test_a_watched_value_is_that_of_now_and_left_out_where_it_fails():
    metrics, now = Metrics(), [1, 2]
    metrics.watch("falling", "Falls.", now.pop)
    assert [values(metrics).get(("toolcrib_falling",)) for _ in range(3)] == [2, 1, None]


def test_two_services_in_a_process_count_apart():
    one, other = Metrics(), Metrics()
    one.count(RequestSummary("r", "GET", "/v1/me", 200, 1.0))
    assert ("toolcrib_requests_total", "/v1/me", "200", "GET") not in values(other)


def test_what_language_models_were_asked_is_counted_by_use():
    metrics = Metrics()
    used = (ModelUsage("rerank", "small", 2, 1, 30, 4, 0.5), ModelUsage("agents", "large", 1))
    metrics.count(RequestSummary("r", "POST", "/v1/route", 200, 1.0, usage=used))
    text = metrics.text()[0].decode()
    assert 'toolcrib_model_calls_total{model="small",use="rerank"} 2.0' in text
    assert 'toolcrib_model_failures_total{model="small",use="rerank"} 1.0' in text
    assert 'tokens_total{direction="input",model="small",use="rerank"} 30.0' in text
    assert 'toolcrib_model_cost_total{model="small",use="rerank"} 0.5' in text
    assert 'toolcrib_model_calls_total{model="large",use="agents"} 1.0' in text
