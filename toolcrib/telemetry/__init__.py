"""What the service tells of itself: metrics, traces and logs."""

from toolcrib.telemetry.telemetry import (
    UNMATCHED,
    Logs,
    RequestSummary,
    Telemetry,
    log_everything,
)

__all__ = ["UNMATCHED", "Logs", "RequestSummary", "Telemetry", "log_everything"]
