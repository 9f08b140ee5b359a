"""Metrics: what is counted, by labels that nobody can make up."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from toolcrib.telemetry import UNMATCHED, RequestSummary
from toolcrib.telemetry.telemetry import Metrics


def values(metrics):
    text, kind = metrics.text()
    assert kind.startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_a_request_is_counted_and_timed():
    metrics = Metrics()
    for took_ms in (1.0, 3.0):
        metrics.count(RequestSummary("r", "GET", "/v1/me", 200, took_ms))
    found = values(metrics)
    assert found["toolcrib_requests_total", "/v1/me", "200", "GET"] == 2
    assert found["toolcrib_request_seconds_count", "/v1/me"] == 2
    assert found["toolcrib_request_seconds_sum", "/v1/me"] == 0.004


def test_stages_verdicts_and_what_is_missing_are_counted():
    metrics = Metrics()
    served = RequestSummary(
        "r",
        "POST",
        "/v1/route",
        200,
        9.0,
        stages={"encode": 2.0},
        verdict="fallback",
        degraded=("rerank",),
        turned_away="rate",
    )
    metrics.count(served)
    found = values(metrics)
    assert found["toolcrib_stage_seconds_sum", "encode"] == 0.002
    assert found["toolcrib_verdicts_total", "fallback"] == 1
    assert found["toolcrib_degraded_total", "rerank"] == 1
    assert found["toolcrib_turned_away_total", "rate"] == 1


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
