"""Structured logs on standard error: one line a request, never a query or a secret."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, BinaryIO, Literal, TypeAlias

from pydantic_core import to_json

from toolcrib.errors import ToolcribError
from toolcrib.extras import import_extra
from toolcrib.telemetry.served import Served

__all__ = ["Logs", "log_everything"]

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that are asked every few seconds: only what fails is worth a line."""

OK = 200

Event: TypeAlias = MutableMapping[str, Any]
Renderer: TypeAlias = Callable[[Any, str, Event], bytes]


class Logs:
    """Writes one line for each request, and one for what went wrong.

    A line that cannot be written is lost: a full disk is no reason to serve nobody.
    """

    def __init__(
        self, format: Literal["json", "text"] = "json", stream: BinaryIO | None = None
    ) -> None:
        library = import_extra("structlog", "toolcrib serve", "service")
        processors = library.processors
        out: Any = _Lossy(stream or sys.stderr.buffer)
        self._logger: Any = library.wrap_logger(
            library.BytesLogger(out),
            processors=[
                processors.add_log_level,
                processors.TimeStamper(fmt="iso", utc=True),
                _renderer(library, format),
            ],
            # Bound once: to do so for each line takes as long as to write it.
        ).bind()

    def write(self, served: Served) -> None:
        """The line of a request."""
        if served.route in QUIET and served.status == OK:
            return
        self._logger.info(
            "request",
            method=served.method,
            route=served.route,
            status=served.status,
            ms=round(served.took_ms, 3),
            request_id=served.request_id,
            key=served.key_id,
            namespace=served.namespace,
            **({"turned_away": served.turned_away} if served.turned_away else {}),
        )

    def fail(self, request_id: str, error: BaseException) -> None:
        """What went wrong here, with where; the text only of our own errors, as others quote."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        said = {"text": str(error)} if isinstance(error, ToolcribError | OSError) else {}
        self._logger.error(
            "error", request_id=request_id, kind=type(error).__name__, **said, at=places
        )

    def say(self, event: str, *, warn: bool = False, **facts: Any) -> None:
        """Anything else that happens to the service."""
        (self._logger.warning if warn else self._logger.info)(event, **facts)


class _Lossy:
    """A stream that is given lines as long as it takes them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        """Write, or do not."""
        with suppress(OSError, ValueError):
            self._stream.write(line)

    def flush(self) -> None:
        """Flush, or try again the next time."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def _renderer(library: Any, format: Literal["json", "text"]) -> Renderer:
    if format == "json":
        return _as_json
    console: Any = library.dev.ConsoleRenderer(colors=False)

    def as_text(logger: Any, method: str, event: Event) -> bytes:
        return console(logger, method, event).encode()

    return as_text


def _as_json(_logger: Any, _method: str, event: Event) -> bytes:
    return to_json(event)


class _ToLogs(logging.Handler):
    """Hands what libraries log through Python's own logging to ours."""

    def __init__(self, logs: Logs) -> None:
        super().__init__(logging.WARNING)
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """One line for a record; its text alone, as a trace of the stack may quote."""
        try:
            self._logs.say("log", warn=True, logger=record.name, text=record.getMessage())
        except Exception:  # noqa: BLE001 -- as logging itself has it
            self.handleError(record)


def log_everything(logs: Logs) -> None:
    """Send warnings of all libraries of this process to these logs."""
    root = logging.getLogger()
    root.handlers[:] = [_ToLogs(logs)]
    root.setLevel(logging.WARNING)
