"""Looking back at decisions where several processes make them."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib.access.keys import ANYONE
from toolcrib.errors import UnknownDecisionError
from toolcrib.http.context import RequestContext
from toolcrib.http.routes import turns
from toolcrib.router.decision_log_db import DatabaseLog, DecisionPruner

RECORD = {"kind": "decision", "id": "d1", "at": "2026-01-02T03:04:05+00:00"}


@pytest.fixture
def context(service, monkeypatch):
    """A request of a service that is one of several over a store."""
    monkeypatch.setattr(service.namespaces, "is_alone", False)
    return RequestContext(
        "r", "GET", namespace=service.namespace(), caller=ANYONE, state=service.state
    )


async def test_a_decision_that_another_process_is_about_to_write_is_waited_for(
    service, context, monkeypatch
):
    db = service.namespaces.records_db
    other = DatabaseLog(db, context.namespace, text=False, pruner=DecisionPruner(db, keep_s=1e12))

    async def write_meanwhile(_seconds):
        other.write(RECORD)
        other.flush()

    monkeypatch.setattr(turns.asyncio, "sleep", write_meanwhile)
    assert await turns._require_visible(context, "d1") == RECORD
    other.close()


async def test_it_is_not_waited_for_for_ever(context):
    with pytest.raises(UnknownDecisionError, match="there is no decision 'd1'"):
        await asyncio.wait_for(turns._require_visible(context, "d1"), 60)
