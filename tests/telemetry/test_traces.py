"""Spans: one a request, one a stage below it, and none of a user's words unless asked for."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from toolcrib.errors import SettingsError
from toolcrib.language_models import ModelRequest
from toolcrib.records.turns import ModelUsage
from toolcrib.telemetry import RequestSummary, Traces, configured_provider

SERVED = RequestSummary(
    request_id="r1",
    method="POST",
    route="/v1/tools/search",
    status=200,
    took_ms=12.0,
    namespace="acme",
    stages={"encode": 2.0, "legs": 3.0, "total": 5.0},
    verdict="accept",
    degraded=("rerank",),
    text="send a mail",
)


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


def spans(exporter):
    return {span.name: span for span in exporter.get_finished_spans()}


def ms(span):
    return (span.end_time - span.start_time) / 1_000_000


def test_a_request_is_a_span_with_one_a_stage_below_it(provider, exporter):
    Traces(provider).write(SERVED)
    found = spans(exporter)
    whole = found["POST /v1/tools/search"]
    assert set(found) == {"POST /v1/tools/search", "encode", "legs"}
    assert (whole.kind, whole.parent) == (SpanKind.SERVER, None)
    assert ms(whole) == pytest.approx(12.0)
    for stage in ("encode", "legs"):
        assert ms(found[stage]) == pytest.approx(SERVED.stages[stage])
        assert found[stage].parent.span_id == whole.context.span_id
    assert found["legs"].start_time == found["encode"].end_time


def test_a_span_says_what_became_of_the_request(provider, exporter):
    Traces(provider).write(SERVED)
    assert dict(spans(exporter)["POST /v1/tools/search"].attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/tools/search",
        "http.response.status_code": 200,
        "toolcrib.request_id": "r1",
        "toolcrib.namespace": "acme",
        "toolcrib.verdict": "accept",
        "toolcrib.degraded": ("rerank",),
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "tools",
    }


def test_words_of_a_user_are_in_a_trace_where_that_is_allowed(provider, exporter):
    Traces(provider, text=True).write(SERVED)
    [whole] = [span for span in exporter.get_finished_spans() if span.parent is None]
    assert whole.attributes["gen_ai.retrieval.query.text"] == "send a mail"


def test_a_span_has_the_tokens_of_language_models(provider, exporter):
    usage = ModelUsage("judge", "small", 2, input_tokens=7, output_tokens=3)
    more = ModelUsage("rerank", "small", 1, input_tokens=1, output_tokens=1)
    requests = ModelRequest(usage, 0.2, "openai"), ModelRequest(more, 0.1, "openai")
    summary = RequestSummary("r", "POST", "/v1/classify", 200, model_requests=requests)
    Traces(provider).write(summary)
    [span] = exporter.get_finished_spans()
    assert span.attributes["gen_ai.request.model"] == "small"
    assert span.attributes["gen_ai.usage.input_tokens"] == 8
    assert span.attributes["gen_ai.usage.output_tokens"] == 4


def test_a_trace_that_began_elsewhere_goes_on(provider, exporter):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    Traces(provider).write(RequestSummary("r", "GET", "/v1/me", 200, 1.0, traceparent=parent))
    [span] = exporter.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"


def test_a_fault_of_ours_is_an_error(provider, exporter):
    Traces(provider).write(RequestSummary("r", "GET", "/v1/me", 500, 1.0))
    Traces(provider).write(RequestSummary("r", "GET", "/v1/facets", 404, 1.0))
    found = spans(exporter)
    assert found["GET /v1/me"].status.status_code is StatusCode.ERROR
    assert found["GET /v1/facets"].status.status_code is StatusCode.UNSET


def test_nothing_is_traced_unless_it_is_configured(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert configured_provider() is None


@pytest.mark.parametrize(
    "variables", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}]
)
def test_the_standard_variables_turn_it_off(monkeypatch, variables):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert configured_provider() is None


def test_a_protocol_that_traces_are_not_sent_by_is_an_error(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(SettingsError, match="'grpc'"):
        configured_provider()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    Traces(configured_provider()).close()


@pytest.mark.parametrize(("named", "expected"), [(None, "toolcrib"), ("mine", "mine")])
def test_the_standard_variables_turn_it_on(monkeypatch, named, expected):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    if named is not None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", named)
    traces = Traces(configured_provider())
    assert traces._provider.resource.attributes["service.name"] == expected
    traces.close()
