"""`toolcrib learn`: what was learned is shown, replayed, switched off and taken back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.router.conftest import free_of_models
from toolcrib import Crib, ToolSpec
from toolcrib.router.decision_log import JsonLinesLog
from toolcrib.router.settings import TelemetrySettings

TOOLS = [
    ToolSpec(name="post", server="chat", description="Post a message in a channel."),
    ToolSpec(name="note", server="chat", description="Write a note about the team."),
]


@pytest.fixture
def shell(shell, monkeypatch):
    """A shell in whose folder are an index and a log of three days with users' words."""
    monkeypatch.setenv("TOOLCRIB_CONTEXT__DETECTOR", "heuristic")
    settings = free_of_models().model_copy(update={"telemetry": TelemetrySettings(text=True)})
    log = JsonLinesLog(shell.folder / "raw.jsonl")
    with Crib.open(shell.folder / ".toolcrib", settings=settings, log=log) as crib:
        crib.index_tools(TOOLS)
        for text in ("tell the team", "tell the whole team", "tell the team now"):
            crib.report_outcome(crib.route(text).id, "chat/post", "success")
    days = [(datetime.now(UTC) - timedelta(days=3 - n // 2)).isoformat() for n in range(6)]
    records = zip(log.read(), days, strict=True)
    shell.write("log.jsonl", *({**record, "at": at} for record, at in records))
    monkeypatch.setenv("TOOLCRIB_LEARNING__ENABLED", "true")
    return shell


@pytest.mark.slow
def test_a_log_teaches_and_what_it_taught_can_be_seen_and_taken_back(shell):
    assert shell.json("learn", "--from", "log.jsonl")["added"] == 3
    status = shell.json("learn", "--status")
    assert [each["tool"] for each in status["tools"] if each["live"]] == ["chat/post"]
    assert status == shell.json("learn")
    assert shell.json("learn", "--replay")["servers"][0]["verdict"] == "live"
    text = shell("learn").stdout
    assert "3 observations of 1 tool, 1 of them live" in text
    assert "chat/post\tno key 3\tyes\t3\t3\t0." in text
    days = sorted(day for tool in status["tools"] for day in tool["days"])
    assert days[0] in shell("learn", "--undo", "1999-12-31").stdout
    assert shell.json("learn", "--off") == {"on": False}
    assert "learning is off" in shell("learn").stdout
    assert shell.json("learn", "--on") == {"on": True}
    assert shell.json("learn", "--undo", list(status["tools"][0]["days"])[1]) == {"removed": 1}
    assert shell.json("learn", "--undo", "chat/post") == {"removed": 2}
    assert shell.json("learn")["tools"] == []


def test_where_learning_is_off_it_can_still_be_looked_at(shell, monkeypatch):
    shell("learn", "--from", "log.jsonl")
    monkeypatch.delenv("TOOLCRIB_LEARNING__ENABLED")
    done = shell("learn", "--status")
    assert "learning.enabled is off" in done.stderr
    assert "learning is off: 3 observations" in done.stdout


def test_a_file_of_other_records_is_no_log(shell):
    calls = shell.write("calls.jsonl", {"kind": "call", "tool": "chat/post"})
    assert "no decision" in shell.error("learn", "--from", calls)


def test_one_thing_is_done_at_a_time(shell):
    assert "--replay" in shell.error("learn", "--off", "--replay")
