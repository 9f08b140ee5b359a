"""`toolcrib top`: servers and calls of a store, for people and for machines."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from toolcrib import build
from toolcrib.access.activity import ActivityLog
from toolcrib.cli.top import top
from toolcrib.errors import StoreError
from toolcrib.records.log import GatewayCall, GatewayServer
from toolcrib.settings import Settings

app = typer.Typer()
app.command()(top)


@pytest.fixture
def store(tmp_path):
    """A store with one server and one call of it."""
    location = str(tmp_path)
    db = build.open_records_db(location, Settings())
    log = ActivityLog(db)
    log.write_state([GatewayServer("post", "down", "it died", tools=2, held=1)])
    log.record(GatewayCall("", "claude 1.0", "post", "post/echo", "failure", 12.0, tokens=7))
    log._queue.flush()
    yield location
    log.close()
    db.close()


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def test_rows_for_who_is_no_terminal(store):
    lines = [line.split("\t") for line in run("--store", store).splitlines()]
    assert lines[1] == ["post", "down it died", "2", "1", "1", "1", "7", "0"]
    assert lines[3][1:] == ["failure", "post/echo", "claude 1.0", "12", "7"]


def test_json_is_the_record(store):
    shown = json.loads(run("--store", store, "--json", "--once"))
    assert (shown["gateways"], shown["kept"], shown["failures"]) == (1, 1, 1)
    assert shown["servers"][0]["state"] == "down"
    assert json.loads(run("--store", store, "--json", "--once", "--calls", "0"))["calls"] == []


def test_a_store_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="nowhere"):
        run("--store", str(tmp_path / "nowhere"), "--once")
