"""Activity log: bounded, without secrets, and counted."""

from __future__ import annotations

import json

import pytest

from toolcrib.access import activity
from toolcrib.access.activity import ActivityLog, ActivityReader, redacted_arguments
from toolcrib.records.log import GatewayCall, GatewayServer


def call(tool: str, outcome="success", **more) -> GatewayCall:
    server = tool.partition("/")[0] if "/" in tool else ""
    return GatewayCall("", "agent", server, tool, outcome, 1.0, **more)


def write(log: ActivityLog, *calls: GatewayCall) -> None:
    for each in calls:
        log.record(each)
    log._queue.flush()


def test_only_the_newest_calls_are_kept(records_db, monkeypatch):
    monkeypatch.setattr(activity, "MAX_KEPT_CALLS", 5)
    monkeypatch.setattr(activity, "PRUNE_EVERY_CALLS", 4)
    log = ActivityLog(records_db)
    for number in range(20):
        write(log, call(f"a/t{number}"))
    assert len(records_db.newest(activity.CALLS, limit=100)) <= 5 + 4
    read = ActivityReader(records_db).read()
    assert (read.kept, read.calls[0].tool) == (5, "a/t19")


def test_a_reader_sees_what_came_since(records_db, monkeypatch):
    monkeypatch.setattr(activity, "PAGE_CALLS", 2)
    reader, log = ActivityReader(records_db), ActivityLog(records_db)
    write(log, *(call(f"a/t{n}") for n in range(5)))
    assert reader.read().kept == 5
    write(log, *(call(f"a/t{n}", "failure") for n in range(3)))
    assert (reader.read().kept, reader.read().failures) == (8, 3)


def test_figures_are_of_servers_and_of_all(records_db):
    log = ActivityLog(records_db)
    listed = GatewayCall(
        "", "agent", "", "tools/list", "success", 0, saved={"a": 90, "b": 30, "": -20}, kind="list"
    )
    write(log, listed, call("a/x", tokens=5), call("a/x", "failure"), call("find_tools", tokens=40))
    read = ActivityReader(records_db).read()
    (a,) = read.servers
    assert (a.calls, a.failures, a.tokens, a.saved) == (2, 1, 5, 90)
    assert (read.kept, read.tokens, read.saved) == (3, 45, 90 + 30 - 20 - 40)


def test_the_state_of_a_killed_gateway_goes_out_of_date(records_db):
    ActivityLog(records_db, now=lambda: 1000.0).write_state([GatewayServer("a", "up")])
    age_s = activity.MAX_STATE_AGE_S
    for at, gateways in ((1010.0, 1), (1000.0 + age_s, 0), (1000.0 - age_s, 0)):
        assert ActivityReader(records_db, now=lambda at=at: at).read().gateways == gateways


def test_of_two_gateways_the_last_state_counts(records_db):
    ActivityLog(records_db, now=lambda: 1000.0).write_state([GatewayServer("a", "up")])
    ActivityLog(records_db, now=lambda: 1001.0).write_state([GatewayServer("a", "down", "died")])
    read = ActivityReader(records_db, now=lambda: 1002.0).read()
    assert (read.gateways, [each.state for each in read.servers]) == (2, ["down"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"password": "abc"},
        {"auth": {"api_key": ["abc"]}},
        {"client_secret": {"value": "abc"}},
        {"passphrase": "abc", "card": {"cvv": "abc", "pin": "abc"}, "otp": "abc"},
        {"headers": [{"name": "Authorization", "value": "abc"}]},
        {"args": ["--user", "ana", "--password", "abc"]},
        {"text": "AKIAIOSFODNN7EXAMPLE"},
        {"url": "https://ana:hunter2!x@host/"},
        {"name": "t", "arguments": '{"auth": {"password": "abc"}}'},
        {"name": "t", "arguments": '{"to": "b", "password": "hunter2!"'},
        {"text": 'the password is "hunter2!"'},
    ],
)
def test_arguments_are_shown_without_secrets(arguments):
    shown = redacted_arguments(arguments)
    assert "***" in shown
    for secret in ("abc", "AKIAIOSFODNN7EXAMPLE", "hunter2"):
        assert secret not in shown


def test_arguments_beside_secrets_stay():
    arguments = {"args": ["--password", "abc", "ana", "-v"], "pair": {"name": "a", "value": "b"}}
    shown = json.loads(redacted_arguments(arguments))
    assert shown == {**arguments, "args": ["--password", "***", "ana", "-v"]}


def test_arguments_are_cut():
    assert len(redacted_arguments({"text": "word " * 9000})) == activity.MAX_ARGUMENTS_CHARS
