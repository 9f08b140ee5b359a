"""Telemetry of a running service: log lines and spans, without users' words."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.http.conftest import half_a_body

QUERY = "zebedee sends a mail"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def ask(client):
    """Ask in every way that has words in it, and give the ids of the requests."""
    asked = [
        ("/v1/tools/search", {"query": QUERY}),
        ("/v1/knowledge/search", {"query": QUERY}),
        ("/v1/detect", {"text": QUERY}),
        ("/v1/route", {"text": QUERY}),
        ("/v1/tools/search", {"query": QUERY, "k": 0}),
    ]
    return [client.post(path, json=sent).headers["x-request-id"] for path, sent in asked]


def test_a_request_is_one_line_without_its_words_or_its_key(service):
    with service.client("telling") as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        for request_id in ask(client):
            [line] = service.lines(request_id)
            assert line["namespace"] == "telling"
            assert line["key"] == key.split("_")[1]
            assert line["route"].startswith("/v1/")
            assert "zebedee" not in str(line)
            assert key not in str(line)


def test_who_still_sends_a_revoked_key_is_told_by_its_id(service):
    text = service.key()
    key_id = text.split("_")[1]
    with service.anonymous() as client:
        client.headers["Authorization"] = f"Bearer {text}"
        service.keys.revoke(key_id)
        answer = client.get("/v1/me")
        unknown = client.get("/v1/me", headers={"Authorization": f"Bearer {text[:-1]}x"})
    [line] = service.lines(answer.headers["x-request-id"])
    assert (line["status"], line["turned_away"], line["key"]) == (401, "key", key_id)
    [line] = service.lines(unknown.headers["x-request-id"])
    assert line["key"] == ""


def test_a_client_that_leaves_before_its_body_is_whole_is_no_fault(service):
    with half_a_body(service, service.writer, request_id="leaves"):
        pass
    [line] = service.lines("leaves")
    assert (line["status"], line["turned_away"]) == (499, "disconnect")


@pytest.mark.parametrize(
    ("method", "path", "status", "route"),
    [
        ("POST", "/v1/route", 401, "/v1/route"),
        ("PUT", "/v1/tools/a/b", 401, "/v1/tools/{id}"),
        ("GET", "/v1/tools/secret-tool", 401, "/v1/tools/{id}"),
        ("PUT", "/healthz", 405, "/healthz"),
        ("GET", "/v1/nowhere", 401, "unmatched"),
        ("GET", "/nowhere", 404, "unmatched"),
        ("GET", "/openapi.json", 200, "/openapi.json"),
        ("GET", "/", 200, "/"),
    ],
)
def test_a_request_is_told_by_its_route_and_why_it_was_turned_away(
    service, method, path, status, route
):
    with service.anonymous() as client:
        answer = client.request(method, path)
    [line] = service.lines(answer.headers["x-request-id"])
    assert (line["status"], line["route"]) == (status, route)
    assert line.get("turned_away") == ("key" if status == 401 else None)
    assert "secret-tool" not in str(line)


@pytest.mark.parametrize("trace_text", [False, True])
def test_a_request_is_a_trace_with_its_words_only_where_that_is_asked_for(start, trace_text):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with start(provider=provider, trace_text=trace_text) as service:
        with service.client() as client:
            client.post("/v1/tools", json={"tools": [{"name": "mail", "version": "1"}]})
            client.headers["traceparent"] = PARENT
            service.lines(ask(client)[0])
        spans = exporter.get_finished_spans()
    whole = next(span for span in spans if span.name == "POST /v1/tools/search")
    below = {s.name for s in spans if s.parent and s.parent.span_id == whole.context.span_id}
    assert f"{whole.context.trace_id:032x}" == PARENT.split("-")[1]
    assert {"encode", "legs", "gate"} <= below
    told = " ".join(str(dict(span.attributes)) for span in spans)
    assert ("zebedee" in told) == trace_text
