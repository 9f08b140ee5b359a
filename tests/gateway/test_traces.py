"""Traces of the gateway, as a collector gets them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from mcp import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.gateway.conftest import ECHO, Behind
from tests.gateway.test_command import forked, pipes, use

KINDS = {2: "server", 3: "client"}


@contextmanager
def collector() -> Generator[tuple[str, list[Any]]]:
    """Address of a collector, and the spans that it was sent."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                spans.extend(span for scope in each.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_given: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", spans
        server.shutdown()


def described(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value for each in span.attributes}


@pytest.mark.slow
async def test_a_call_is_a_trace_from_the_client_to_the_server(behind: Behind):
    behind.config(post=behind.entry("post", ECHO))
    with collector() as (address, spans):
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_COMPRESSION": ""}
        with forked(behind, "--store", str(behind.store), **env) as process:
            async with Client(pipes(process)) as client:
                await use(client)
        calls = [
            (KINDS.get(span.kind), known["gen_ai.tool.name"], known["mcp.method.name"])
            for span in spans
            if (known := described(span)).get("gen_ai.operation.name") == "execute_tool"
            and KINDS.get(span.kind)
        ]
        sent = next(each for each in spans if each.kind == 3 and "tools/call" in each.name)
        parents = {each.span_id: each for each in spans}

    assert ("server", "post__echo", "tools/call") in calls
    assert ("client", "echo", "tools/call") in calls
    above = sent
    while above.parent_span_id in parents:
        above = parents[above.parent_span_id]
    assert (KINDS[above.kind], described(above)["mcp.method.name"]) == ("server", "tools/call")
    assert not [each for each in spans if "repeat what is said" in str(each)]
