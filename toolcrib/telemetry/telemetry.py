"""Metrics, traces and logs as one: told once of every request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcrib.errors import ServiceError
from toolcrib.problems import problem_of
from toolcrib.settings import ServiceSettings
from toolcrib.telemetry.logs import Logs
from toolcrib.telemetry.metrics import Metrics
from toolcrib.telemetry.served import Served
from toolcrib.telemetry.traces import Traces, configured_provider

__all__ = ["Telemetry"]

FAULT = 500


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where the service tells of itself; `traces` is None where nobody asks for them."""

    metrics: Metrics
    logs: Logs
    traces: Traces | None = None

    @classmethod
    def of(
        cls, settings: ServiceSettings, *, provider: Any = None, logs: Logs | None = None
    ) -> Telemetry:
        """As the settings and OpenTelemetry's variables have it; `provider` is used before those.

        Raises:
            MissingExtraError: the extra `service`, or `observe` for traces, is not installed.
        """
        chosen = provider if provider is not None else configured_provider()
        traces = None if chosen is None else Traces(chosen, text=settings.trace_text)
        return cls(Metrics(), logs or Logs(settings.log_format), traces)

    def finished(self, served: Served) -> None:
        """Tell of a request that was answered."""
        self.metrics.count(served)
        self.logs.write(served)
        if self.traces is not None:
            self.traces.write(served)

    def failed(self, request_id: str, error: BaseException) -> None:
        """Log an error that somebody should look at; others are the caller's, or of the load."""
        if problem_of(error).status >= FAULT and not isinstance(error, ServiceError):
            self.logs.fail(request_id, error)

    def close(self) -> None:
        """Send what is still to be sent."""
        if self.traces is not None:
            self.traces.close()
