"""A stuck agent is told so once, behind a result; who gets on hears nothing."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import ECHO, texts

MARK = "[Hint of the toolcrib gateway, not of the tool]"
FAIL = {"name": "rent_room", "description": "Rent a meeting room.", "does": "fail"}
BOOK = {"name": "book_room", "description": "Book a meeting room."}


def hints(result):
    return [text for text in texts(result) if text.startswith(MARK)]


async def call(client, name, **arguments):
    return await client.call_tool(name, arguments, raise_on_error=False)


async def test_an_agent_that_loops_gets_one_hint_and_ends_with_another_tool(behind):
    servers = {"town": [FAIL], "office": [BOOK]}
    used, heard = [], []
    async with behind.client(servers) as client:
        await call(client, "find_tools", query="a room for a meeting")
        tool = "town__rent_room"
        for _ in range(8):
            result = await call(client, tool, room="A1")
            used.append(tool)
            heard += hints(result)
            if hints(result):
                # What a model would read there.
                tool = "office__book_room" if "office__book_room" in hints(result)[0] else tool

    assert len(heard) == 1
    assert heard[0].startswith(f"{MARK} town__rent_room failed 3 times.")
    assert used == ["town__rent_room"] * 3 + ["office__book_room"] * 5


async def test_a_failure_that_a_server_reports_as_text_is_one(behind):
    heard = []
    async with behind.client({"say": [ECHO]}) as client:
        for number in range(3):
            error = "No presentation is currently loaded"
            result = await call(client, "say__echo", error=error, slide=number)
            heard += hints(result)

    assert not result.is_error
    assert "3 of the last 3 calls failed" in heard[0]


async def test_who_searches_on_for_the_same_hears_once_that_there_is_nothing_new(behind):
    async with behind.client({"office": [BOOK]}) as client:
        asked = ("send a fax", "fax sender", "fax somebody", "a fax machine", "telefax", "fax it")
        results = [await call(client, "find_tools", query=each) for each in asked]

    heard = [hint for result in results for hint in hints(result)]
    assert len(heard) == 1
    assert "searches for the same tool. The nearest is office__book_room." in heard[0]
    assert results[-1].structured_content is not None


@pytest.mark.slow
@pytest.mark.parametrize("guidance", [True, False])
async def test_200_healthy_calls_hear_nothing_nor_a_loop_where_it_is_off(behind, guidance):
    async with behind.client({"say": [ECHO, FAIL]}, guidance=guidance) as client:
        name, times = ("say__echo", 200) if guidance else ("say__rent_room", 6)
        results = [await call(client, name, text=f"row {number}") for number in range(times)]

    assert [hint for result in results for hint in hints(result)] == []
