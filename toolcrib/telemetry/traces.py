"""OpenTelemetry spans: one a request, and one a stage of its answer below it.

Made when the answer is known, from the times that it tells: nothing is measured twice, and a
service that is not traced pays nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from toolcrib.extras import import_extra
from toolcrib.telemetry.served import Served

__all__ = ["Traces", "configured_provider"]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SERVER_ERROR = 500
NS = 1_000_000
"""Nanoseconds in a millisecond."""


class Traces:
    """Writes spans to a tracer provider; `text` lets the user's words into them."""

    def __init__(self, provider: Any, *, text: bool = False) -> None:
        from toolcrib import __version__

        self._api = import_extra("opentelemetry.trace", "traces", "service")
        propagation = "opentelemetry.trace.propagation.tracecontext"
        library = import_extra(propagation, "traces", "service")
        self._propagator: Any = library.TraceContextTextMapPropagator()
        self._provider = provider
        self._tracer: Any = provider.get_tracer("toolcrib", __version__)
        self._text = text

    def write(self, served: Served) -> None:
        """The spans of a request that has just been answered."""
        ended = time.time_ns()
        began = ended - int(served.took_ms * NS)
        carrier = {"traceparent": served.traceparent} if served.traceparent else {}
        span = self._tracer.start_span(
            f"{served.method} {served.route}",
            context=self._propagator.extract(carrier),
            kind=self._api.SpanKind.SERVER,
            attributes=self._attributes(served),
            start_time=began,
        )
        if served.status >= SERVER_ERROR:
            span.set_status(self._api.StatusCode.ERROR)
        self._write_stages(served, self._api.set_span_in_context(span), began)
        span.end(ended)

    def close(self) -> None:
        """Send what is still to be sent."""
        self._provider.shutdown()

    def _write_stages(self, served: Served, context: Any, began: int) -> None:
        """One after the other, as they ran; what lies between them is the service's own."""
        at = began
        for stage, took_ms in served.stages.items():
            if stage != "total":
                span = self._tracer.start_span(stage, context=context, start_time=at)
                at += int(took_ms * NS)
                span.end(at)

    def _attributes(self, served: Served) -> Mapping[str, Any]:
        known: dict[str, Any] = {
            "http.request.method": served.method,
            "http.route": served.route,
            "http.response.status_code": served.status,
            "toolcrib.request_id": served.request_id,
            "toolcrib.namespace": served.namespace or None,
            "toolcrib.verdict": served.verdict,
            "toolcrib.degraded": served.degraded or None,
            "toolcrib.text": served.text if self._text else None,
        }
        return {name: value for name, value in known.items() if value is not None}


def configured_provider() -> Any:
    """What OpenTelemetry's own variables ask for, None where they ask for nothing.

    Raises:
        MissingExtraError: they do, and the extra `observe` is not installed.
    """
    # These variables are a standard of many programs, so they are no settings of ours.
    variables = os.environ
    is_off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporter = variables.get("OTEL_TRACES_EXPORTER", "otlp").lower()
    if is_off or exporter != "otlp" or not any(map(variables.get, ENDPOINTS)):
        return None
    sdk, export, otlp = (
        import_extra(module, "sending traces", "observe")
        for module in (
            "opentelemetry.sdk.trace",
            "opentelemetry.sdk.trace.export",
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        )
    )
    resources = import_extra("opentelemetry.sdk.resources", "sending traces", "observe")
    named = {} if "OTEL_SERVICE_NAME" in variables else {"service.name": "toolcrib"}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider
