"""Looking back at decisions where several processes make them."""

from __future__ import annotations

import pytest

from toolcrib.access.grants import ANYONE
from toolcrib.errors import UnknownDecisionError
from toolcrib.http import past
from toolcrib.http.visits import Visit
from toolcrib.router.decision_log_db import DatabaseLog

RECORD = {"kind": "decision", "id": "d1", "at": "2026-01-02T03:04:05+00:00"}


@pytest.fixture
def visit(service, monkeypatch):
    """A visit to a service that is one of several over a store."""
    monkeypatch.setattr(service.namespaces, "location", "http://qdrant:6333")
    return Visit(service.house, "r", ANYONE, service.namespace())


@pytest.fixture
def other(service, visit):
    """The log of the same namespace in another process."""
    log = DatabaseLog(service.namespaces.ledger, visit.namespace, text=False, keep_s=1e12)
    yield log
    log.close()


def test_a_decision_that_another_process_is_about_to_write_is_waited_for(visit, other, monkeypatch):
    monkeypatch.setattr(past.time, "sleep", lambda _seconds: (other.write(RECORD), other.flush()))
    assert past.require_visible(visit, "d1") == RECORD


def test_it_is_not_waited_for_for_ever(visit):
    with pytest.raises(UnknownDecisionError, match="there is no decision 'd1'"):
        past.require_visible(visit, "d1")
