"""Servers that die, hang, start slowly, list nonsense: each test says what the caller saw."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.gateway.conftest import (
    ECHO,
    QUICK,
    Behind,
    hanging,
    ready,
    texts,
    until,
    web_server,
)
from toolcrib.gateway.terms import Manner

DIE = {"name": "die", "does": "die"}
DEAF = {"name": "deaf", "does": "deaf"}


async def said(client, name, **arguments):
    return texts(await client.call_tool(name, arguments, raise_on_error=False))[0]


async def missing(client):
    answer = await client.call_tool("find_tools", {"query": "anything at all"})
    return {each["server"]: each["state"] for each in answer.structured_content.get("missing", ())}


async def nothing_missing(client):
    return not await missing(client)


@contextmanager
def silent_port():
    """A port that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


async def test_a_killed_server_is_marked_and_comes_back_by_itself(behind: Behind):
    pids = behind.folder / "pids"
    shaky = behind.entry("shaky", ECHO, options=("--started", str(pids)))

    servers = {"shaky": shaky, "steady": behind.entry("steady", ECHO)}
    async with behind.client(servers, retry_s=1.0) as client:
        os.kill(int(pids.read_text()), signal.SIGKILL)
        await until(lambda: any("down" in text for _, text in behind.said))
        marked = await client.call_tool("find_tools", {"query": "echo"})
        refused = await said(client, "shaky_echo")
        steady = await said(client, "steady_echo", word="still here")
        await until(lambda: len(pids.read_text().split()) == 2)
        await until(lambda: nothing_missing(client))
        again = await said(client, "shaky_echo", word="back")

    notes = {tool["name"]: tool.get("unavailable") for tool in marked.structured_content["tools"]}
    assert notes == {
        "shaky_echo": "[cannot be called now: its server does not answer]",
        "steady_echo": None,
    }
    assert refused.startswith("The server 'shaky' does not answer, so shaky_echo was not called.")
    assert json.loads(steady) == {"word": "still here"}
    assert json.loads(again) == {"word": "back"}


async def test_the_tools_of_a_dead_server_are_marked_in_the_list(behind: Behind):
    servers = {"shaky": behind.entry("shaky", DIE, ECHO)}

    async with behind.client(servers, retry_s=60, pass_through=9) as client:
        await said(client, "shaky_die")
        await until(lambda: any("down" in text for _, text in behind.said))
        echo = (await client.list_tools())[1]

    assert echo.description == (
        "[cannot be called now: its server does not answer] Repeat what is said."
    )


async def test_a_server_that_answers_no_more_is_ended_and_started_again(behind: Behind):
    pids = behind.folder / "pids"
    half_dead = behind.entry("half", DEAF, ECHO, options=("--started", str(pids)))

    manner = Manner(behind.say, is_shared=True, rhythm=replace(QUICK, pong_s=2.0))
    async with behind.client({"half": half_dead}, manner=manner, call_timeout_s=0.5) as client:
        timed_out = await said(client, "half_deaf")
        await until(lambda: len(pids.read_text().split()) == 2)
        await until(lambda: nothing_missing(client))
        again = await said(client, "half_echo", word="back")

    assert timed_out.startswith("half_deaf: it gave no answer within 0.5 s.")
    assert ("warning", "half: down: it gave no sign of life within 2 s; it is tried again") in (
        behind.said
    )
    assert json.loads(again) == {"word": "back"}


async def test_a_server_that_never_answers_keeps_nobody_waiting(behind: Behind):
    with silent_port() as port:
        servers = {
            "silent": {"url": f"http://127.0.0.1:{port}/mcp"},
            "steady": behind.entry("steady", ECHO),
        }
        async with behind.client(servers, connect_timeout_s=1.0) as client:
            assert json.loads(await said(client, "steady_echo", word="here")) == {"word": "here"}
            assert await missing(client) == {"silent": "does not answer"}

    assert (
        "warning",
        "silent: down: gave no answer to initialize within 1 s; it is tried again",
    ) in behind.said


async def test_a_slow_server_is_waited_for_and_then_named_as_missing(behind: Behind):
    start = behind.folder / "start"
    slow = behind.entry("slow", ECHO, options=("--start-with", str(start)))
    manner = Manner(behind.say, is_shared=True, rhythm=replace(QUICK, patience_s=0.5))
    servers = {"slow": slow, "steady": behind.entry("steady", ECHO)}
    gateway = behind.make(servers, manner=manner)

    async with behind.client(gateway, settled=False) as client:
        assert [tool.name for tool in await client.list_tools()] == ["find_tools", "call_tool"]
        await gateway.stock.is_open.wait()
        await gateway.upstreams["steady"].settled.wait()
        told = []

        async def progress(done, total, message):
            told.append((total, message))

        first = await client.call_tool("find_tools", {"query": "echo"}, progress_handler=progress)
        start.touch()
        await ready(gateway)
        second = await client.call_tool("find_tools", {"query": "echo"})

    shown = [tool["name"] for tool in first.structured_content["tools"]]
    assert shown == ["steady_echo"]
    assert [each["server"] for each in first.structured_content["missing"]] == ["slow"]
    assert first.structured_content["missing"][0]["state"] == "is still being connected to"
    assert (3.0, "connecting to servers") in told
    assert {tool["name"] for tool in second.structured_content["tools"]} == {
        "slow_echo",
        "steady_echo",
    }
    assert "missing" not in second.structured_content


async def test_a_call_waits_for_a_server_that_is_starting(behind: Behind):
    start = behind.folder / "start"
    start.touch()
    slow = behind.entry("slow", ECHO, options=("--start-with", str(start)))
    async with behind.client({"slow": slow}):
        pass

    # Its tools are known from the last time.
    start.unlink()
    gateway = behind.make({"slow": slow})
    async with behind.client(gateway, settled=False) as client:
        await gateway.stock.is_open.wait()
        call = asyncio.create_task(said(client, "slow_echo", word="early"))
        await asyncio.sleep(0)
        start.touch()
        answer = await call

    assert json.loads(answer) == {"word": "early"}


async def test_a_killed_web_server_is_marked_and_comes_back_by_itself(behind: Behind):
    with web_server() as web:
        servers = {"web": {"url": web.url}, "steady": behind.entry("steady", ECHO)}
        async with behind.client(servers) as client:
            call = await hanging(client, "web_hang")
            web.kill()
            died = texts(await call)[0]
            dead = await said(client, "web_echo", said="x")
            steady = await said(client, "steady_echo", word="here")
            web.start()
            await until(lambda: nothing_missing(client))
            again = await said(client, "web_echo", said="back")

    assert died.startswith("The server 'web' died in the call of web_hang")
    assert dead.startswith("The server 'web' does not answer, so web_echo was not called.")
    assert json.loads(steady) == {"word": "here"}
    assert json.loads(again) == {"given": "back"}


async def test_a_web_server_that_was_restarted_is_greeted_anew(behind: Behind):
    with web_server() as web:
        async with behind.client({"web": {"url": web.url}}) as client:
            await said(client, "web_echo", said="x")
            web.kill()
            web.start()

            async def is_back():
                return "back" in await said(client, "web_echo", said="back")

            await until(is_back)


async def test_an_entry_that_cannot_be_used_keeps_no_other_from_it(behind: Behind):
    wrong = {"command": "server", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}}
    servers = {"wrong": wrong, "post": behind.entry("post", ECHO)}
    async with behind.client(servers) as client:
        states = await missing(client)
        answer = await client.call_tool("wrong_echo", {}, raise_on_error=False)
        assert json.loads(await said(client, "post_echo", word="hi")) == {"word": "hi"}

    assert states == {"wrong": "is misconfigured"}
    assert texts(answer)[1] == "Not there at the moment are the tools of: wrong."
    (told,) = [text for level, text in behind.said if level == "error"]
    assert told.startswith("wrong: ")
    assert "NOT_SET_ANYWHERE" in told


async def test_a_wrong_tool_costs_no_right_one(behind: Behind):
    wrong = [{"description": "No name."}, {**ECHO, "name": "bad", "inputSchema": "none"}, 7]
    async with behind.client({"odd": behind.entry("odd", ECHO, *wrong)}, pass_through=9) as client:
        assert [tool.name for tool in await client.list_tools()] == ["odd_echo"]

    warned = [text for level, text in behind.said if level == "warning"]
    assert warned == [
        "odd: tools[1] is left out: name: missing",
        "odd: tools[2] is left out: input_schema: must be an object, not text",
        "odd: tools[3] is left out: a tool must be an object, not a number",
    ]


async def test_of_two_tools_of_one_name_the_first_is_taken(behind: Behind):
    twin = {**ECHO, "description": "Say the same again."}
    async with behind.client({"odd": behind.entry("odd", ECHO, twin)}, pass_through=9) as client:
        assert [tool.description for tool in await client.list_tools()] == [ECHO["description"]]

    assert ("warning", "odd: it lists 'echo' twice; the first is taken") in behind.said


async def test_a_tool_with_a_schema_that_is_none_can_be_called(behind: Behind):
    odd = {**ECHO, "inputSchema": {"type": "object", "properties": {"x": {"type": "wat"}}}}
    async with behind.client({"odd": behind.entry("odd", odd)}) as client:
        assert json.loads(await said(client, "odd_echo", x=1)) == {"x": 1}


@pytest.mark.parametrize("count", [1500])
async def test_a_registry_of_many_tools_is_found_whole(behind: Behind, count):
    tools = [{"name": f"tool_{n}", "description": f"Handles case {n}."} for n in range(count)]
    async with behind.client({"big": behind.entry("big", *tools)}) as client:
        answer = await client.call_tool("find_tools", {"query": "tool_1234", "k": 1})

    assert [tool["name"] for tool in answer.structured_content["tools"]] == ["big_tool_1234"]
