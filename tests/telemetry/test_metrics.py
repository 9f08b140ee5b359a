"""Metrics: what is counted, by labels that nobody can make up."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from toolcrib.language_models import ModelRequest
from toolcrib.records.turns import ModelUsage
from toolcrib.telemetry import UNMATCHED_ROUTE, Metrics, RequestSummary


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
        metrics.count(RequestSummary("r", method, UNMATCHED_ROUTE, 405, 1.0))
    found = values(metrics)
    assert found["http_server_request_duration_seconds_count", "", "405", "_OTHER"] == 2


def test_a_watched_value_is_that_of_now_and_left_out_where_it_fails():
    metrics, now = Metrics(), [1, 2]
    metrics.watch("falling", "Falls.", now.pop)
    assert [values(metrics).get(("falling",)) for _ in range(3)] == [2, 1, None]


def test_two_services_in_a_process_count_apart():
    one, other = Metrics(), Metrics()
    one.count(RequestSummary("r", "GET", "/v1/me", 200, 1.0))
    counted = "http_server_request_duration_seconds_count", "/v1/me", "200", "GET"
    assert counted in values(one)
    assert counted not in values(other)


def test_requests_to_language_models_are_counted_by_model_and_use():
    metrics = Metrics()
    requests = (
        ModelRequest(ModelUsage("rerank", "small", 1, 0, 30, 4, 0.5), 0.2, "openai"),
        ModelRequest(ModelUsage("rerank", "small", 1, 1), 0.1, "openai"),
    )
    metrics.count(RequestSummary("r", "POST", "/v1/route", 200, 1.0, model_requests=requests))
    found, of = values(metrics), ("chat", "openai", "rerank", "small")
    inference = "gen_ai_client_inference"
    assert found[f"{inference}_duration_seconds_count", "", *of] == 1
    assert found[f"{inference}_duration_seconds_count", "_OTHER", *of] == 1
    assert found[f"{inference}_usage_input_tokens_total", *of] == 30
    assert found[f"{inference}_usage_output_tokens_total", *of] == 4
    assert found["toolcrib_model_cost_total", *of] == 0.5
