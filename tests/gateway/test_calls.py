"""Calls: checks before them, timeouts, and answers to failures."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from tests.gateway.conftest import ECHO, Behind, texts, until
from toolcrib.gateway import calls
from toolcrib.gateway.calls import CallBudgets, PendingInputs

ROOM = {
    "name": "book_room",
    "description": "Book a meeting room.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "room": {"type": "string"},
            "size": {"enum": ["small", "large"]},
            "people": {"type": "integer", "minimum": 1},
        },
        "required": ["room"],
        "additionalProperties": False,
    },
}
HANG = {"name": "reserve_hall", "description": "Reserve a hall for a meeting.", "does": "hang"}
DIE = {"name": "rent_room", "description": "Rent a meeting room.", "does": "die"}
FAIL = {"name": "ask_desk", "description": "Ask the desk for a meeting room.", "does": "fail"}


OTHERS = "Other tools that may do the same:\n- office__book_room"


async def call(client, name, **arguments):
    given = {"name": name, "arguments": arguments}
    return await client.call_tool("call_tool", given, raise_on_error=False)


async def test_arguments_that_do_not_fit_are_not_sent_and_told_how_to_mend(behind: Behind):
    async with behind.client({"office": [ROOM]}) as client:
        wrong = {"rom": "A1", "size": "smal"}
        directly = await client.call_tool("office__book_room", wrong, raise_on_error=False)
        by_proxy = await call(client, "office__book_room", **wrong)

    assert directly.is_error
    assert texts(directly) == texts(by_proxy)
    first, *problems, schema = texts(directly)[0].splitlines()
    assert "was not made" in first
    assert [each.partition(":")[0] for each in problems] == ["- size", *["- arguments"] * 2]
    assert all("did you mean" in problems[n] for n in (0, 2))
    assert schema == f"Its inputSchema: {json.dumps(ROOM['inputSchema'], separators=(',', ':'))}"


async def test_there_are_so_many_calls_from_one_search_to_the_next(behind: Behind):
    async with behind.client({"office": [ROOM]}, max_calls=2) as client:
        await client.call_tool("find_tools", {"query": "a room"})
        assert (await call(client, "office__book_room")).is_error  # not made, so not counted
        results = [await call(client, "office__book_room", room="A1") for _ in range(3)]
        directly = await client.call_tool("office__book_room", {"room": "A1"}, raise_on_error=False)
        await client.call_tool("find_tools", {"query": "another room"})
        after = await call(client, "office__book_room", room="A2")

    assert [result.is_error for result in results] == [False, False, True]
    assert texts(results[2]) == texts(directly)
    assert "limit of 2 calls" in texts(directly)[0]
    assert "Call find_tools" in texts(directly)[0]
    assert not after.is_error


async def test_a_call_that_takes_too_long_is_cancelled_and_others_are_named(behind: Behind):
    tell = {"name": "tell", "does": "tell"}
    servers = {"town": [HANG, tell], "office": [ROOM]}

    async with behind.client(servers, call_timeout_s=2.0) as client:
        await client.call_tool("find_tools", {"query": "a hall for a meeting"})
        result = await call(client, "town__reserve_hall")
        told = await call(client, "town__tell")

    assert result.is_error
    first, *others = texts(result)[0].splitlines()
    assert "no answer within 2 s. The call was cancelled, but may have taken effect." in first
    assert "\n".join(others).startswith(f"{OTHERS}: Book a meeting room.")
    assert '"cancelled": []' not in texts(told)[0]


async def test_of_a_server_that_dies_in_a_call_the_caller_hears_at_once(behind: Behind):
    async with behind.client({"town": [DIE], "office": [ROOM]}, retry_s=60) as client:
        died = await call(client, "town__rent_room")
        dead = await call(client, "town__rent_room")
        other = await call(client, "office__book_room", room="A1")

    assert f"town__rent_room, which may have taken effect.\n{OTHERS}" in texts(died)[0]
    assert f"town__rent_room was not called.\n{OTHERS}" in texts(dead)[0]
    assert not other.is_error


async def test_no_tool_that_failed_before_is_proposed(behind: Behind):
    more = [{**DIE, "name": f"rent_{number}"} for number in range(2)]
    one, two = behind.entry("one", more[0]), behind.entry("two", more[1])
    fine = {"name": "rent_ok", "description": DIE["description"]}

    async with behind.client({"one": one, "two": two, "three": [fine]}, retry_s=0.2) as client:
        await client.call_tool("find_tools", {"query": "rent a meeting room"})
        await call(client, "one__rent_0")
        await until(lambda: behind.said.count(("info", "one: 1 tool")) == 1)
        second = await call(client, "two__rent_1")

    assert "three__rent_ok" in texts(second)[0]
    assert "one__rent_0" not in texts(second)[0]


@pytest.mark.parametrize(
    ("says", "more"),
    [
        ("503 service unavailable, try again later", OTHERS),
        ("no such function here", OTHERS),
        ("invalid argument: room", 'Its inputSchema: {"type":"object"'),
        ("permission denied", None),
    ],
)
async def test_a_tools_own_error_is_followed_by_what_may_help(behind: Behind, says, more):
    async with behind.client({"desk": [FAIL], "office": [ROOM]}) as client:
        await client.call_tool("find_tools", {"query": "a meeting room"})
        result = await call(client, "desk__ask_desk", says=says)

    assert texts(result)[0] == says
    assert result.structured_content == {"code": 7}
    assert [text.startswith(str(more)) for text in texts(result)[1:]] == [True] * bool(more)
    (outcome,) = (row.body for row in behind.records_db().read("outcomes/default"))
    assert (outcome["tool"], outcome["outcome"]) == ("desk/ask_desk", "failure")


def test_who_has_not_searched_has_a_budget_too_and_the_longest_unused_are_forgotten(monkeypatch):
    monkeypatch.setattr(calls, "MAX_CONVERSATIONS", 1)
    budgets = CallBudgets(1)

    assert [budgets.of("ada").take() for _ in range(2)] == [True, False]
    budgets.begin("bob", "x")
    assert budgets.of("ada").take()


@pytest.fixture
def waiting():
    """Calls that wait for their client, and those that were cancelled."""
    pending, cancelled = PendingInputs(60.0), []

    def put(who, name="send"):
        entry = SimpleNamespace(spec=SimpleNamespace(id=f"post/{name}"))
        cancel = SimpleNamespace(cancel=lambda: cancelled.append(who))
        call = SimpleNamespace(key=who, entry=entry, pending=cancel)
        return call, pending.put(call)

    return pending, put, cancelled


async def test_a_call_that_waits_is_given_back_once_and_to_nobody_else(waiting):
    pending, put, cancelled = waiting
    call, state = put("ada")

    assert pending.take(state, "bob", "post/send") is None
    assert pending.take(state, "ada", "post/read") is None
    assert pending.take("another", "ada", "post/send") is None
    assert pending.take(state, "ada", "post/send") is call
    assert pending.take(state, "ada", "post/send") is None
    assert cancelled == []


async def test_a_call_that_nobody_comes_back_for_is_cancelled(waiting, monkeypatch):
    pending, put, cancelled = waiting
    for who in ("ada", "bob", "ada", "eve"):
        put(who)

    pending.leave("ada")
    assert cancelled == ["ada", "ada"]
    monkeypatch.setattr(calls, "MAX_PENDING_CALLS", 2)
    put("fay")
    assert cancelled == ["ada", "ada", "bob"]
    monkeypatch.setattr(pending, "_keep_s", 0.0)
    put("late")
    await asyncio.sleep(0.01)
    assert cancelled == ["ada", "ada", "bob", "eve", "late"]
    pending.close()
    assert cancelled == ["ada", "ada", "bob", "eve", "late", "fay"]


async def test_who_lets_most_calls_wait_loses_the_oldest_of_them(waiting, monkeypatch):
    pending, put, cancelled = waiting
    monkeypatch.setattr(calls, "MAX_PENDING_CALLS", 3)
    for who in ("bob", "eve", "eve", "ada", "eve"):
        put(who)
    assert cancelled == ["eve", "eve"]
    pending.close()
    assert sorted(cancelled[2:]) == ["ada", "bob", "eve"]


async def test_what_is_found_and_called_with_success_teaches(behind: Behind):
    gateway = behind.make({"office": [ROOM, FAIL, ECHO]}, learning=True)
    async with behind.client(gateway) as client:
        await client.call_tool("find_tools", {"query": "we meet at noon"})
        await call(client, "office__ask_desk")
        await call(client, "office__echo", error="closed")
        await call(client, "office__book_room", room="A1")
        (learned,) = gateway.index.crib.turns.learner.status().tools

    assert (learned.tool, learned.observations) == ("office/book_room", 1)
