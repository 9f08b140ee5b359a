"""Logs: one line a request, and nothing in it that is the user's."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from toolcrib.errors import StoreUnavailableError
from toolcrib.telemetry import Logs, RequestSummary, log_everything

SERVED = RequestSummary(
    request_id="r1",
    method="GET",
    route="/v1/tools/{id}",
    status=200,
    took_ms=1.23456,
    key_id="abc",
    namespace="acme",
    text="the user's words",
)


@pytest.fixture
def out():
    return io.BytesIO()


def lines(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_request_is_a_line_of_json(out):
    Logs("json", out).write(SERVED)
    [line] = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "request",
        "level": "info",
        "method": "GET",
        "route": "/v1/tools/{id}",
        "status": 200,
        "ms": 1.235,
        "request_id": "r1",
        "key": "abc",
        "namespace": "acme",
    }


def test_a_line_may_be_text(out):
    Logs("text", out).write(SERVED)
    line = out.getvalue().decode()
    assert "route=/v1/tools/{id}" in line
    assert "words" not in line


@pytest.mark.parametrize("route", ["/healthz", "/readyz", "/metrics"])
def test_probes_are_told_only_when_they_fail(out, route):
    logs = Logs("json", out)
    logs.write(RequestSummary("r", "GET", route, 200, 1.0))
    logs.write(RequestSummary("r", "GET", route, 503, 1.0))
    assert [line["status"] for line in lines(out)] == [503]


def test_a_line_that_the_disk_does_not_take_is_lost_and_harms_nobody():
    with Path("/dev/full").open("wb", buffering=0) as full:
        with pytest.raises(OSError, match="No space left"):
            full.write(b"so it is")
        Logs("json", full).write(SERVED)
    Logs("json", full).write(SERVED)


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_an_error_is_told_with_its_place_and_text(out):
    Logs("json", out).fail("r1", raised(StoreUnavailableError("it does not answer")))
    [line] = lines(out)
    assert (line["level"], line["kind"]) == ("error", "StoreUnavailableError")
    assert line["text"] == "it does not answer"
    assert line["at"][-1].endswith("raised")


def test_the_text_of_anothers_error_may_quote_and_is_not_told(out):
    Logs("json", out).fail("r1", raised(ValueError("the user's words")))
    assert "words" not in out.getvalue().decode()


@pytest.fixture
def root():
    """Python's own logging, as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def test_warnings_of_libraries_become_lines(out, root):
    log_everything(Logs("json", out))
    logging.getLogger("some.library").warning("%d is odd", 3)
    logging.getLogger("some.library").info("nobody needs this")
    [line] = lines(out)
    assert (line["level"], line["logger"], line["text"]) == ("warning", "some.library", "3 is odd")


def test_a_record_that_cannot_be_written_harms_nobody(out, root, capsys):
    log_everything(Logs("json", out))
    logging.getLogger("some.library").warning("%d is odd", "three")
    assert "Logging error" in capsys.readouterr().err
