"""Traces of the gateway, as a collector gets them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from mcp import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.gateway.conftest import ECHO, Behind
from tests.gateway.test_command import forked, pipes, use
from tests.serving import serving_app

KINDS = {2: "server", 3: "client"}


@contextmanager
def collector() -> Generator[tuple[str, list[Any]]]:
    """Address of a collector, and the spans that it was sent."""
    spans: list[Any] = []

    async def take(request: Request) -> Response:
        for each in ExportTraceServiceRequest.FromString(await request.body()).resource_spans:
            spans.extend(span for scope in each.scope_spans for span in scope.spans)
        return Response()

    with serving_app(Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])) as url:
        yield url, spans


def described(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value for each in span.attributes}


@pytest.mark.slow
async def test_a_call_is_a_trace_from_the_client_to_the_server(behind: Behind):
    behind.config(post=[ECHO])
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
