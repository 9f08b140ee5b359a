"""Telemetry: metrics, traces and logs of a service, from one summary of each request.

No user's words are in them, unless the settings allow the words in traces.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pydantic_core import to_json

from toolcrib import __version__
from toolcrib.errors import ServiceError, SettingsError, ToolcribError
from toolcrib.extras import import_extra
from toolcrib.problems import problem_of
from toolcrib.settings import ServiceSettings

if TYPE_CHECKING:
    from toolcrib.language_models import ModelRequest

SERVER_ERROR_STATUS = 500

UNMATCHED_ROUTE = "unmatched"
"""Route of a request that no endpoint takes."""


@dataclass(slots=True)
class RequestSummary:
    """Summary of a request and its answer.

    `route` is the template, never the path, which may name a tool. `stages` are milliseconds by
    stage, in their order. `turned_away` is the reason why a request was refused before any work.
    `text` is the user's, for traces alone, if the settings allow it. `traceparent` came with the
    request.
    """

    request_id: str
    method: str
    route: str = UNMATCHED_ROUTE
    status: int = SERVER_ERROR_STATUS
    took_ms: float = 0.0
    key_id: str = ""
    namespace: str = ""
    stages: Mapping[str, float] = field(default_factory=dict[str, float])
    verdict: str | None = None
    degraded: tuple[str, ...] = ()
    model_requests: tuple[ModelRequest, ...] = ()
    turned_away: str | None = None
    text: str | None = None
    traceparent: str | None = None


# -- metrics -------------------------------------------------------------------------------

SERVICE_FEATURE, SERVICE_EXTRA = "toolcrib serve", "service"

OTHER_LABEL = "_OTHER"
"""Label value for methods that are not in `LABELLED_METHODS`, by OpenTelemetry's conventions."""

LABELLED_METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"})
"""Methods that are label values; clients may send any other method."""

REQUEST_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STAGE_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
MODEL_BUCKETS_S = tuple(0.01 * 2**power for power in range(14))
"""Buckets of OpenTelemetry's conventions."""


class MetricsRegistry:
    """Registry of metrics and their text; safe for several threads.

    A metric of OpenTelemetry's conventions has its name there, in Prometheus' spelling.
    """

    def __init__(self, feature: str = SERVICE_FEATURE, extra: str = SERVICE_EXTRA) -> None:
        self._library = library = import_extra("prometheus_client", feature, extra)
        self._registry: Any = library.CollectorRegistry()
        library.ProcessCollector(registry=self._registry)

    def counter(self, name: str, help_text: str, *labels: str) -> Any:
        """Create a counter; call the result with values of the labels."""
        # Cached, as a look-up costs more than counting.
        return cache(self._library.Counter(name, help_text, labels, registry=self._registry).labels)

    def histogram(self, name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Any:
        """Create a histogram; call the result with values of the labels."""
        made = self._library.Histogram(
            name, help_text, labels, registry=self._registry, buckets=buckets
        )
        return cache(made.labels)

    def watch(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Register a value that is read with the metrics, and left out if reading it fails."""
        gauge = partial(self._library.metrics_core.GaugeMetricFamily, name, help_text)
        self._registry.register(_ValueCollector(gauge, value))

    def text(self) -> tuple[bytes, str]:
        """Write all metrics in Prometheus' text format; also its content type."""
        return self._library.generate_latest(self._registry), self._library.CONTENT_TYPE_LATEST


class Metrics(MetricsRegistry):
    """Metrics of requests. Safe for several threads."""

    def __init__(self) -> None:
        super().__init__()
        counter, histogram = self.counter, self.histogram
        self._requests = histogram(
            "http_server_request_duration_seconds",
            "Time to an answer.",
            REQUEST_BUCKETS_S,
            "http_request_method",
            "http_route",
            "http_response_status_code",
        )
        self._turned_away = counter("toolcrib_turned_away", "Requests refused unworked.", "reason")
        self._verdicts = counter("toolcrib_verdicts", "Answers by the gate's verdict.", "verdict")
        self._degraded = counter("toolcrib_degraded", "Answers without this stage.", "stage")
        self._stages = histogram(
            "toolcrib_stage_seconds", "Time of a stage.", STAGE_BUCKETS_S, "stage"
        )
        of = "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "toolcrib_use"
        inference = "gen_ai_client_inference"
        self._models = histogram(
            f"{inference}_duration_seconds",
            "Time of a request to a language model.",
            MODEL_BUCKETS_S,
            *of,
            "error_type",
        )
        self._input = counter(f"{inference}_usage_input_tokens", "Tokens asked.", *of)
        self._output = counter(f"{inference}_usage_output_tokens", "Tokens said.", *of)
        self._cost = counter("toolcrib_model_cost", "Cost by the settings' prices.", *of)

    def count(self, summary: RequestSummary) -> None:
        """Count a request."""
        method = summary.method if summary.method in LABELLED_METHODS else OTHER_LABEL
        route = "" if summary.route == UNMATCHED_ROUTE else summary.route
        self._requests(method, route, str(summary.status)).observe(summary.took_ms / 1000)
        if summary.turned_away is not None:
            self._turned_away(summary.turned_away).inc()
        if summary.verdict is not None:
            self._verdicts(summary.verdict).inc()
        for stage in summary.degraded:
            self._degraded(stage).inc()
        for stage, took_ms in summary.stages.items():
            self._stages(stage).observe(took_ms / 1000)
        for each in summary.model_requests:
            self._count_model(each)

    def _count_model(self, request: ModelRequest) -> None:
        usage = request.usage
        of = "chat", request.provider, usage.model, usage.use
        self._models(*of, OTHER_LABEL if usage.failed else "").observe(request.took_s)
        self._input(*of).inc(usage.input_tokens)
        self._output(*of).inc(usage.output_tokens)
        self._cost(*of).inc(usage.cost or 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _ValueCollector:
    gauge: Callable[..., Any]
    value: Callable[[], float]

    def collect(self) -> Iterator[Any]:
        try:
            now = self.value()
        except Exception:  # noqa: BLE001 -- metrics are needed most while something fails
            return
        yield self.gauge(value=now)


# -- traces --------------------------------------------------------------------------------

# Names of OpenTelemetry's conventions for generative AI and MCP, which are in development:
# github.com/open-telemetry/semantic-conventions-genai
OPERATION, EXECUTE_TOOL = "gen_ai.operation.name", "execute_tool"
TOOL_CALL_METHOD = "tools/call"

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
NS_PER_MS = 1_000_000


class Traces:
    """Writer of spans to a tracer provider; `text` admits the user's words."""

    def __init__(self, provider: Any, *, text: bool = False) -> None:
        self._api = import_extra("opentelemetry.trace", "traces", "service")
        context = import_extra("opentelemetry.trace.propagation.tracecontext", "traces", "service")
        self._propagator: Any = context.TraceContextTextMapPropagator()
        self._provider = provider
        self._tracer: Any = provider.get_tracer("toolcrib", __version__)
        self._text = text

    def write(self, summary: RequestSummary) -> None:
        """Write the spans of an answered request."""
        ended = time.time_ns()
        began = ended - int(summary.took_ms * NS_PER_MS)
        carrier = {"traceparent": summary.traceparent} if summary.traceparent else {}
        span = self._tracer.start_span(
            f"{summary.method} {summary.route}",
            context=self._propagator.extract(carrier),
            kind=self._api.SpanKind.SERVER,
            attributes=self._attributes(summary),
            start_time=began,
        )
        if summary.status >= SERVER_ERROR_STATUS:
            span.set_status(self._api.StatusCode.ERROR)
        context, at = self._api.set_span_in_context(span), began
        # Stages follow each other; the gaps are the service's own time.
        for stage, took_ms in summary.stages.items():
            if stage != "total":
                inner = self._tracer.start_span(stage, context=context, start_time=at)
                at += int(took_ms * NS_PER_MS)
                inner.end(at)
        span.end(ended)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    def _attributes(self, summary: RequestSummary) -> Mapping[str, Any]:
        known: dict[str, Any] = {
            "http.request.method": summary.method,
            "http.route": summary.route,
            "http.response.status_code": summary.status,
            "toolcrib.request_id": summary.request_id,
            "toolcrib.namespace": summary.namespace or None,
            "toolcrib.verdict": summary.verdict,
            "toolcrib.degraded": summary.degraded or None,
        }
        if summary.verdict is not None:
            is_knowledge = "/knowledge/" in summary.route
            known |= {
                OPERATION: "retrieval",
                "gen_ai.data_source.id": "knowledge" if is_knowledge else "tools",
                "gen_ai.retrieval.query.text": summary.text if self._text else None,
            }
        if usage := [each.usage for each in summary.model_requests]:
            models = sorted({each.model for each in usage})
            known |= {
                "gen_ai.request.model": models[0] if len(models) == 1 else None,
                "gen_ai.usage.input_tokens": sum(each.input_tokens for each in usage),
                "gen_ai.usage.output_tokens": sum(each.output_tokens for each in usage),
            }
        return {name: value for name, value in known.items() if value is not None}


def trace_mcp() -> Callable[[], None]:
    """Send the spans of FastMCP and the MCP SDK, if OpenTelemetry's variables name an endpoint.

    Return the function that sends the remaining spans.

    Raises:
        MissingExtraError: an endpoint is named, and the extra `observe` is not installed.
    """
    provider = configured_provider()
    if provider is None:
        return lambda: None
    provider.add_span_processor(tool_call_spans())
    import_extra("opentelemetry.trace", "traces", "observe").set_tracer_provider(provider)
    return provider.shutdown


def tool_call_spans() -> Any:
    """Processor that marks spans of calls of tools as GenAI's conventions do."""
    base: Any = import_extra("opentelemetry.sdk.trace", "sending traces", "observe").SpanProcessor

    class ToolCallSpans(base):
        def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002
            known: Mapping[str, Any] = span.attributes or {}
            if known.get("mcp.method.name") == TOOL_CALL_METHOD:
                span.set_attribute(OPERATION, EXECUTE_TOOL)
                if TOOL_CALL_METHOD in span.name:  # `MCP send tools/call NAME` of the SDK's client
                    name = span.name.partition(TOOL_CALL_METHOD)[2].strip()
                    span.set_attributes({"gen_ai.tool.name": name} if name else {})

    return ToolCallSpans()


def configured_provider() -> Any:
    """Tracer provider by OpenTelemetry's variables; None if they name no endpoint.

    Raises:
        SettingsError: the variables name a protocol that traces are not sent by.
    """
    # Many programs share these standard variables, so they are no settings of toolcrib.
    variables = os.environ
    is_off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true"
    exporter = variables.get("OTEL_TRACES_EXPORTER", "otlp").lower()
    if is_off or exporter != "otlp" or not any(map(variables.get, _ENDPOINT_VARIABLES)):
        return None
    protocol = next(filter(None, map(variables.get, _PROTOCOL_VARIABLES)), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise SettingsError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}, and traces are sent by {_PROTOCOL}: set "
            f"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL={_PROTOCOL} and the endpoint of that (port 4318)"
        )
    sdk, export, resources, otlp = (
        import_extra(f"opentelemetry.{module}", "sending traces", "observe")
        for module in (
            "sdk.trace",
            "sdk.trace.export",
            "sdk.resources",
            "exporter.otlp.proto.http.trace_exporter",
        )
    )
    named = {} if "OTEL_SERVICE_NAME" in variables else {"service.name": "toolcrib"}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


# -- logs ----------------------------------------------------------------------------------

_UNLOGGED_ROUTES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are requested every few seconds: only failures are logged."""


class Logs:
    """Log with a line for each request, and for each internal error.

    A line that cannot be written is lost: a full disk must not stop the service.
    """

    def __init__(
        self, format: Literal["json", "text"] = "json", stream: BinaryIO | None = None
    ) -> None:
        library = import_extra("structlog", SERVICE_FEATURE, SERVICE_EXTRA)
        processors = library.processors
        out: Any = _LossyStream(stream or sys.stderr.buffer)
        console: Any = library.dev.ConsoleRenderer(colors=False)

        def render(*event: Any) -> bytes:
            return to_json(event[-1]) if format == "json" else console(*event).encode()

        self._logger: Any = library.wrap_logger(
            library.BytesLogger(out),
            processors=[
                processors.add_log_level,
                processors.TimeStamper(fmt="iso", utc=True),
                render,
            ],
            # Bound once: binding for each line takes as long as writing.
        ).bind()

    def write(self, summary: RequestSummary) -> None:
        """Write the line of a request."""
        if summary.route in _UNLOGGED_ROUTES and summary.status == HTTPStatus.OK:
            return
        self._logger.info(
            "request",
            method=summary.method,
            route=summary.route,
            status=summary.status,
            ms=round(summary.took_ms, 3),
            request_id=summary.request_id,
            key=summary.key_id,
            namespace=summary.namespace,
            **({"turned_away": summary.turned_away} if summary.turned_away else {}),
        )

    def fail(self, request_id: str, error: BaseException) -> None:
        """Write an error and its stack; the text only of our own errors: others may quote users."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        text = {"text": str(error)} if isinstance(error, ToolcribError | OSError) else {}
        self._logger.error(
            "error", request_id=request_id, kind=type(error).__name__, **text, at=places
        )

    def warn(self, library: str, text: str) -> None:
        """Write a warning of a library."""
        self._logger.warning("log", logger=library, text=text)


class _LossyStream:
    """Stream that drops the lines it cannot write."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class _LibraryHandler(logging.Handler):
    """Handler that writes records of Python's logging to the service's log."""

    def __init__(self, logs: Logs) -> None:
        super().__init__(logging.WARNING)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record's text alone: a stack trace may quote users."""
        try:
            self._logs.warn(record.name, record.getMessage())
        except Exception:  # noqa: BLE001 -- as logging itself has it
            self.handleError(record)


def log_everything(logs: Logs) -> None:
    """Send warnings of all libraries in this process to the service's log."""
    root = logging.getLogger()
    root.handlers[:] = [_LibraryHandler(logs)]
    root.setLevel(logging.WARNING)


# -- metrics, logs and traces ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Metrics, logs and traces of a service; `traces` is None without an endpoint."""

    metrics: Metrics
    logs: Logs
    traces: Traces | None = None

    @classmethod
    def of(cls, settings: ServiceSettings) -> Telemetry:
        """Telemetry by the settings and OpenTelemetry's variables."""
        provider = configured_provider()
        traces = None if provider is None else Traces(provider, text=settings.trace_text)
        return cls(Metrics(), Logs(settings.log_format), traces)

    def record(self, summary: RequestSummary) -> None:
        """Count, log and trace an answered request."""
        self.metrics.count(summary)
        self.logs.write(summary)
        if self.traces is not None:
            self.traces.write(summary)

    def log_fault(self, request_id: str, error: BaseException) -> None:
        """Log an error of the server; errors of callers and of load are not logged."""
        if problem_of(error).status >= SERVER_ERROR_STATUS and not isinstance(error, ServiceError):
            self.logs.fail(request_id, error)

    def close(self) -> None:
        """Send the remaining spans."""
        if self.traces is not None:
            self.traces.close()
