"""`toolcrib top`: servers and calls of a store, for people and for machines."""

from __future__ import annotations

import pytest

from toolcrib import build
from toolcrib.access.activity import ActivityLog
from toolcrib.records.log import GatewayCall, GatewayServer
from toolcrib.settings import Settings


@pytest.fixture
def shell(shell):
    """A shell in whose folder is a store with one server and one call of it."""
    db = build.open_records_db(str(shell.folder / ".toolcrib"), Settings())
    log = ActivityLog(db)
    log.write_state([GatewayServer("post", "down", "it died", tools=2, held=1)])
    log.record(GatewayCall("", "claude 1.0", "post", "post/echo", "failure", 12.0, tokens=7))
    log._queue.flush()
    yield shell
    log.close()
    db.close()


def test_rows_for_who_is_no_terminal(shell):
    lines = [line.split("\t") for line in shell("top").stdout.splitlines()]
    assert lines[1] == ["post", "down it died", "2", "1", "1", "1", "7", "0"]
    assert lines[3][1:] == ["failure", "post/echo", "claude 1.0", "12", "7"]


def test_a_store_without_a_gateway_is_named_as_such(shell):
    assert "no activity" not in shell("top").stderr
    shell("keys", "create", "ana", "--store", "other")
    assert "no activity" in shell("top", "--store", "other").stderr


def test_json_is_the_record(shell):
    shown = shell.json("top", "--once")
    assert (shown["gateways"], shown["kept"], shown["failures"]) == (1, 1, 1)
    assert shown["servers"][0]["state"] == "down"
    assert shell.json("top", "--once", "--calls", "0")["calls"] == []


def test_a_store_that_is_not_there_is_an_error(shell):
    assert "nowhere" in shell.error("top", "--store", "nowhere", "--once", code=3)
