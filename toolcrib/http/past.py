"""Which decisions a caller may look back at."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from toolcrib.errors import UnknownDecisionError
from toolcrib.http.visits import Visit
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.wiring import is_url

__all__ = ["is_visible", "log_of", "recent", "require_visible"]

PATIENCE_S = 0.1
"""Another process writes its decisions a moment after it has answered."""

MAX_PAGES = 20
"""How far back a page is looked for, for a caller who sees few of a namespace's decisions."""


def log_of(visit: Visit) -> DatabaseLog:
    """The log of the visit's namespace."""
    return visit.house.namespaces.log(visit.namespace)


def is_visible(visit: Visit, record: Mapping[str, Any]) -> bool:
    """Whether the caller may know of a decision: one of its own, or any where it may write."""
    return visit.caller.may_write or record.get("by") == visit.caller.key_id


def require_visible(visit: Visit, decision_id: str) -> Mapping[str, Any]:
    """The record of a decision.

    Raises:
        UnknownDecisionError: there is none, or none of the caller's.
    """
    log = log_of(visit)
    record = log.find(decision_id)
    if record is None and is_url(visit.house.namespaces.location):
        time.sleep(PATIENCE_S)
        record = log.find(decision_id)
    if record is None or not is_visible(visit, record):
        raise UnknownDecisionError(f"there is no decision {decision_id!r}")
    return record


def recent(
    visit: Visit, limit: int, before: str | None
) -> tuple[list[Mapping[str, Any]], str | None]:
    """The caller's last decisions, newest first, and behind which one older ones begin."""
    log = log_of(visit)
    found: list[Mapping[str, Any]] = []
    for _ in range(MAX_PAGES):
        page = log.recent(limit, before)
        for record in page:
            if is_visible(visit, record):
                found.append(record)
            before = record["id"]
            if len(found) == limit:
                return found, before
        if len(page) < limit:
            return found, None
    return found, before
