"""Evaluation reports: pages that were written elsewhere, shown without being trusted."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import Path as InPath
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from toolcrib.http.endpoints import Endpoint, answer
from toolcrib.http.visits import Visit, visit_of
from toolcrib.http.wire.records import ReportsAnswer
from toolcrib.namespaces import DEFAULT
from toolcrib.records import Scope

__all__ = ["ENDPOINTS"]

NAME = r"^[A-Za-z0-9_-][A-Za-z0-9_. -]{0,199}\.html\Z"

POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A report is read, and does nothing: no script, no form, no request."""


async def list_reports(request: Request) -> Response:
    """List the evaluation reports, newest first; only for keys that see all there is."""
    visit = visit_of(request)
    return answer({"reports": await visit.look(lambda: _reports(visit))})


def _reports(visit: Visit) -> list[dict[str, Any]]:
    folder = _folder(visit)
    if folder is None or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        files = [
            (entry.name, entry.stat())
            for entry in entries
            if re.match(NAME, entry.name) and entry.is_file(follow_symlinks=False)
        ]
    files.sort(key=lambda file: (-file[1].st_mtime, file[0]))
    return [
        {"name": name, "modified": round(found.st_mtime, 3), "bytes": found.st_size}
        for name, found in files
    ]


async def get_report(name: Annotated[str, InPath(max_length=205)], request: Request) -> Response:
    """Give a report: a page of HTML that may run nothing."""
    visit = visit_of(request)
    page = await visit.look(lambda: _page(visit, name))
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})


def _page(visit: Visit, name: str) -> bytes:
    folder = _folder(visit)
    path = folder / name if folder is not None and re.match(NAME, name) else None
    if path is None or path.is_symlink() or not path.is_file():
        raise HTTPException(404, "there is no such report")
    return path.read_bytes()


def _folder(visit: Visit) -> Path | None:
    """Where reports are, for whom they are: they tell of all tools of the default namespace."""
    named = visit.house.settings.service.reports
    sees_all = visit.namespace == DEFAULT and visit.scope() == Scope()
    return Path(named) if named is not None and sees_all else None


TAG = "reports"

ENDPOINTS = (
    Endpoint("GET", "/v1/reports", list_reports, TAG, ReportsAnswer),
    Endpoint("GET", "/v1/reports/{name}", get_report, TAG, media_type="text/html"),
)
