"""How a command gets the records of a log of decisions: the argument first, settings next."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from toolcrib.errors import SettingsError, SourceError
from toolcrib.router.decision_log import TelemetrySettings, open_log
from toolcrib.settings import load_settings

__all__ = ["Log", "logged_records"]

Log: TypeAlias = Annotated[
    Path | None,
    typer.Argument(help="Log of decisions, .jsonl or .db; default: telemetry.path."),
]


def logged_records(context: typer.Context, log: Path | None) -> tuple[str, list[Mapping[str, Any]]]:
    """What the log is called, and its records, oldest first.

    Raises:
        SettingsError: no log is named and none is set, or its suffix is not known.
        SourceError: there is no such log, or nothing in it.
        StoreDamagedError: it cannot be read.
    """
    path = str(log) if log is not None else load_settings(context.obj).telemetry.path
    opened = open_log(TelemetrySettings(path=path))
    if path is None or opened is None:
        raise SettingsError(
            "no log of decisions is kept: name one, or set telemetry.path and decide something",
        )
    with closing(opened):
        records = list(opened.read())
    if not records:
        reason = "holds no decision yet" if Path(path).exists() else "there is no such log"
        raise SourceError(path, "", f"{reason}; it is written while telemetry.path names it")
    return path, records
