"""Metrics, traces and logs are told of the same things, once."""

from __future__ import annotations

import io

from toolcrib.errors import OverloadedError, QueryError, StoreError
from toolcrib.settings import ServiceSettings
from toolcrib.telemetry import Logs, Metrics, RequestSummary, Telemetry


def test_only_what_somebody_should_look_at_is_logged_as_an_error():
    out = io.BytesIO()
    telemetry = Telemetry(Metrics(), Logs("json", out))
    for error in (QueryError("asked wrong"), OverloadedError("too much")):
        telemetry.log_fault("r", error)
    assert out.getvalue() == b""
    telemetry.log_fault("r", StoreError("broken"))
    assert b"broken" in out.getvalue()


def test_lines_go_to_standard_error_by_default(capfd):
    Telemetry.of(ServiceSettings()).record(RequestSummary("r", "GET", "/v1/me", 200, 1.0))
    assert '"route":"/v1/me"' in capfd.readouterr().err
