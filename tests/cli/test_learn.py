"""`toolcrib learn`: what was learned is shown, replayed, switched off and taken back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import typer
from typer.testing import CliRunner

from tests.router.conftest import free_of_models
from toolcrib import Crib, ToolSpec
from toolcrib.cli.learn import learn
from toolcrib.errors import SourceError
from toolcrib.router.decision_log import JsonLinesLog
from toolcrib.router.settings import TelemetrySettings

app = typer.Typer()
app.command()(learn)

TOOLS = [
    ToolSpec(name="post", server="chat", description="Post a message in a channel."),
    ToolSpec(name="note", server="chat", description="Write a note about the team."),
]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder with an index, and beside it a log of three days with users' words."""
    monkeypatch.setenv("TOOLCRIB_ENCODER__DENSE", "deterministic")
    monkeypatch.setenv("TOOLCRIB_CONTEXT__DETECTOR", "heuristic")
    monkeypatch.chdir(tmp_path)
    settings = free_of_models().model_copy(update={"telemetry": TelemetrySettings(text=True)})
    log = JsonLinesLog(tmp_path / "raw.jsonl")
    with Crib.open(tmp_path / "store", settings=settings, log=log) as crib:
        crib.index_tools(TOOLS)
        for text in ("tell the team", "tell the whole team", "tell the team now"):
            crib.report_outcome(crib.route(text).id, "chat/post", "success")
    with (tmp_path / "log.jsonl").open("w") as file:
        for number, record in enumerate(log.read()):
            at = (datetime.now(UTC) - timedelta(days=3 - number // 2)).isoformat()
            file.write(json.dumps({**record, "at": at}) + "\n")
    monkeypatch.setenv("TOOLCRIB_LEARNING__ENABLED", "true")
    return str(tmp_path / "store")


def run(store, *arguments):
    done = CliRunner().invoke(app, [*arguments, "--store", store])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def shown(store, *arguments):
    done = run(store, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_log_teaches_and_what_it_taught_can_be_seen_and_taken_back(store):
    assert shown(store, "--from", "log.jsonl")["added"] == 3
    status = shown(store, "--status")
    assert [each["tool"] for each in status["tools"] if each["live"]] == ["chat/post"]
    assert status == shown(store)
    assert shown(store, "--replay")["servers"][0]["verdict"] == "live"
    text = run(store).stdout
    assert "3 observations of 1 tool, 1 of them live" in text
    assert "chat/post\tno key 3\tyes\t3\t3\t0." in text
    days = sorted(day for tool in status["tools"] for day in tool["days"])
    assert days[0] in run(store, "--undo", "1999-12-31").stdout
    assert shown(store, "--off") == {"on": False}
    assert "learning is off" in run(store).stdout
    assert shown(store, "--on") == {"on": True}
    assert shown(store, "--undo", list(status["tools"][0]["days"])[1]) == {"removed": 1}
    assert shown(store, "--undo", "chat/post") == {"removed": 2}
    assert shown(store)["tools"] == []


def test_where_learning_is_off_it_can_still_be_looked_at(store, monkeypatch):
    run(store, "--from", "log.jsonl")
    monkeypatch.delenv("TOOLCRIB_LEARNING__ENABLED")
    done = run(store, "--status")
    assert "learning.enabled is off" in done.stderr
    assert "3 observations" in done.stdout


def test_a_file_of_other_records_is_no_log(store, tmp_path):
    (tmp_path / "calls.jsonl").write_text('{"kind": "call", "tool": "chat/post"}\n')
    with pytest.raises(SourceError, match="no decision"):
        run(store, "--from", str(tmp_path / "calls.jsonl"))


def test_one_thing_is_done_at_a_time(store):
    assert run(store, "--off", "--replay").exit_code == 2
