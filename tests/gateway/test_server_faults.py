"""Servers that die, hang, start slowly, list nonsense: each test says what the caller saw."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.gateway.conftest import (
    ECHO,
    QUICK,
    SEARCH_TOOLS,
    found,
    hanging,
    names,
    ready,
    said,
    texts,
    until,
    until_equal,
    web_server,
)
from tests.serving import serving_app

DEAF = {"name": "deaf", "does": "deaf"}


async def missing(client):
    answer = await found(client, "anything at all")
    return {each["server"]: each["state"] for each in answer.get("missing", ())}


@contextmanager
def silent_port():
    """A port that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


async def test_a_killed_server_is_marked_and_comes_back_by_itself(behind):
    pids = behind.folder / "pids"
    shaky = behind.entry("shaky", ECHO, options=("--started", str(pids)))

    other = {**ECHO, "description": "Repeat a word."}  # no copy, which would share a hit
    servers = {"shaky": shaky, "steady": [other]}
    pinned = ("shaky/echo",)
    async with behind.client(servers, retry_s=1.0, pinned=pinned) as client:
        os.kill(int(pids.read_text()), signal.SIGKILL)
        await until(lambda: any("down" in text for _, text in behind.said))
        marked = await client.call_tool("find_tools", {"query": "echo"})
        listed = (await client.list_tools())[0]
        refused = await said(client, "shaky__echo")
        steady = await said(client, "steady__echo", word="still here")
        await until(lambda: len(pids.read_text().split()) == 2)
        await until_equal({}, missing, client)
        again = await said(client, "shaky__echo", word="back")

    notes = {tool["name"]: tool.get("unavailable") for tool in marked.structured_content["tools"]}
    note = "[cannot be called now: its server does not answer]"
    assert notes == {"shaky__echo": note, "steady__echo": None}
    assert listed.description == f"{note} Repeat what is said."
    assert refused.startswith("The server 'shaky' does not answer, so shaky__echo was not called.")
    assert json.loads(steady) == {"word": "still here"}
    assert json.loads(again) == {"word": "back"}


async def test_a_server_that_answers_no_more_is_ended_and_started_again(behind):
    pids = behind.folder / "pids"
    half_dead = behind.entry("half", DEAF, ECHO, options=("--started", str(pids)))

    patient = replace(QUICK, pong_s=2.0)
    async with behind.client({"half": half_dead}, intervals=patient, call_timeout_s=0.5) as client:
        timed_out = await said(client, "half__deaf")
        await until(lambda: len(pids.read_text().split()) > 1)
        await until_equal('{"word": "back"}', partial(said, client, "half__echo", word="back"))

    assert timed_out.startswith("half__deaf: the server gave no answer within 0.5 s.")
    down = "half: down: it gave no sign of life within 2 s; the gateway retries"
    assert ("warning", down) in behind.said


async def test_a_server_that_never_answers_keeps_nobody_waiting(behind):
    with silent_port() as port:
        silent = {"url": f"http://127.0.0.1:{port}/mcp"}
        servers = {"silent": silent, "steady": [ECHO]}
        impatient = replace(QUICK, patience_s=0.0, handshake_s=0.0)
        gateway = behind.make(servers, intervals=impatient, connect_timeout_s=600)
        async with behind.client(gateway, settled=False) as client:
            await gateway.index.is_open.wait()
            await gateway.pool["steady"].settled.wait()
            assert json.loads(await said(client, "steady__echo", word="here")) == {"word": "here"}
            assert await missing(client) == {"silent": "is still being connected to"}


async def test_a_slow_server_is_waited_for_and_then_named_as_missing(behind):
    start = behind.folder / "start"
    other = {**ECHO, "description": "Repeat a word."}  # no copy, which would share a hit
    slow = behind.entry("slow", other, options=("--start-with", str(start)))
    servers = {"slow": slow, "steady": [ECHO]}
    impatient = replace(QUICK, patience_s=0.5, handshake_s=0.0)
    gateway = behind.make(servers, intervals=impatient)

    async with behind.client(gateway, settled=False) as client:
        assert await names(client) == SEARCH_TOOLS
        await gateway.index.is_open.wait()
        await gateway.pool["steady"].settled.wait()
        told = []

        async def progress(done, total, message):
            told.append((total, message))

        first = await client.call_tool("find_tools", {"query": "echo"}, progress_handler=progress)
        start.touch()
        await ready(gateway)
        second = await found(client)

    assert [tool["name"] for tool in first.structured_content["tools"]] == ["steady__echo"]
    (missed,) = first.structured_content["missing"]
    assert (missed["server"], missed["state"]) == ("slow", "is still being connected to")
    assert (3.0, "connecting to servers") in told
    assert {tool["name"] for tool in second["tools"]} == {"slow__echo", "steady__echo"}
    assert "missing" not in second


async def test_a_call_waits_for_a_server_that_is_starting(behind):
    start = behind.folder / "start"
    start.touch()
    slow = behind.entry("slow", ECHO, options=("--start-with", str(start)))
    async with behind.client({"slow": slow}):
        pass

    # Its tools are known from the last time.
    start.unlink()
    gateway = behind.make({"slow": slow})
    async with behind.client(gateway, settled=False) as client:
        await gateway.index.is_open.wait()
        call = asyncio.create_task(said(client, "slow__echo", word="early"))
        await asyncio.sleep(0)
        start.touch()
        answer = await call

    assert json.loads(answer) == {"word": "early"}


@pytest.mark.slow
async def test_a_killed_web_server_is_marked_and_comes_back_by_itself(behind):
    with web_server() as web:
        async with behind.client({"web": {"url": web.url}, "steady": [ECHO]}) as client:
            call = await hanging(client, "web__hang")
            web.kill()
            died = texts(await call)[0]
            dead = await said(client, "web__echo", said="x")
            steady = await said(client, "steady__echo", word="here")
            web.start()
            await until_equal({}, missing, client)
            again = await said(client, "web__echo", said="back")

    assert died.startswith("The server 'web' died during the call of web__hang")
    assert dead.startswith("The server 'web' does not answer, so web__echo was not called.")
    assert json.loads(steady) == {"word": "here"}
    assert json.loads(again) == {"given": "back"}


NOT_FOUND = {"code": -32600, "message": "Session not found"}
NO_SESSION = {"code": -32000, "message": "Bad Request: No valid session ID provided"}


@pytest.mark.parametrize(
    ("status", "error", "answer", "reason"),
    [
        (404, NOT_FOUND, "was restarted, so web__echo was not called", "it ended the session"),
        (404, None, "was restarted, so web__echo was not called", "it ended the session"),
        (400, NO_SESSION, "died during the call of web__echo, which may", "it ended the session"),
        (401, None, "died during the call of web__echo, which may", "it refuses the authorisation"),
    ],
    ids=["404", "404 without a message", "400", "401"],
)
async def test_a_restarted_web_server_gets_new_sessions(behind, status, error, answer, reason):
    sessions: set[str] = set()

    async def handle(request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        asked = await request.json()
        about, method = {"jsonrpc": "2.0", "id": asked.get("id")}, asked["method"]
        if method == "server/discover":
            return JSONResponse({**about, "error": {"code": -32601, "message": "no"}})
        if method == "initialize":
            session = secrets.token_hex(8)
            sessions.add(session)
            capabilities = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            result = {**capabilities, "serverInfo": {"name": "web", "version": "1"}}
            return JSONResponse({**about, "result": result}, headers={"Mcp-Session-Id": session})
        if request.headers.get("mcp-session-id") not in sessions:
            body = {**about, "error": error} if error else "gone"
            return JSONResponse(body, status_code=status)
        if about["id"] is None:
            return Response(status_code=202)
        results = {"tools/list": {"tools": [ECHO | {"inputSchema": {"type": "object"}}]}}
        results["tools/call"] = {"content": [{"type": "text", "text": "here"}]}
        if given := asked.get("params", {}).get("arguments"):
            fault = {"code": given["code"], "message": "no such word"}
            answer, status_code = {"error": fault}, 404
        else:
            answer, status_code = {"result": results.get(method, {})}, 200
        return JSONResponse(about | answer, status_code=status_code)

    app = Starlette(routes=[Route("/mcp", handle, methods=["POST", "GET", "DELETE"])])
    with serving_app(app) as url:
        async with behind.client({"web": {"url": f"{url}/mcp"}}) as client:
            assert await said(client, "web__echo") == "here"
            sessions.clear()
            assert (await said(client, "web__echo")).startswith(f"The server 'web' {answer}")
            assert (await said(client, "web__echo") == "here") is (status != 401)
            await until_equal({}, missing, client)
            opened = set(sessions)
            assert "no such word" in await said(client, "web__echo", code=-32602)
            assert "no such word" in await said(client, "web__echo", code=-32603)
            assert await said(client, "web__echo") == "here"
            assert sessions == opened

    assert any(text.startswith(f"web: down: {reason}") for _, text in behind.said)


async def test_a_gateway_whose_only_server_cannot_be_used_says_so_to_the_agent(behind):
    wrong = {"command": "server", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}}
    async with behind.client({"wrong": wrong}) as client:
        offered = {tool.name for tool in await client.list_tools()}
        states = await missing(client)

    assert "find_tools" in offered
    assert states == {"wrong": "is misconfigured (the gateway's log says why)"}


async def test_an_entry_that_cannot_be_used_keeps_no_other_from_it(behind):
    wrong = {"command": "server", "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}}
    async with behind.client({"wrong": wrong, "post": [ECHO]}) as client:
        states = await missing(client)
        answer = await client.call_tool("wrong__echo", {}, raise_on_error=False)
        assert json.loads(await said(client, "post__echo", word="hi")) == {"word": "hi"}

    assert states == {"wrong": "is misconfigured (the gateway's log says why)"}
    assert texts(answer)[1] == "Not there at the moment are the tools of: wrong."
    (told,) = [text for level, text in behind.said if level == "error"]
    assert told.startswith("wrong: ")
    assert "NOT_SET_ANYWHERE" in told


async def test_a_wrong_tool_costs_no_right_one_and_of_two_of_one_name_the_first_is_taken(behind):
    wrong = [{"description": "No name."}, {**ECHO, "name": "bad", "inputSchema": "none"}, 7]
    again = {**ECHO, "description": "Say the same again."}
    async with behind.client({"odd": [ECHO, *wrong, again]}, pass_through=9) as client:
        shown = [(tool.name, tool.description) for tool in await client.list_tools()]

    assert shown == [("odd__echo", ECHO["description"])]
    warned = [text for level, text in behind.said if level == "warning"]
    assert warned == [
        "odd: tools[1] is left out: name: missing",
        "odd: tools[2] is left out: input_schema: must be an object, not text",
        "odd: tools[3] is left out: a tool must be an object, not a number",
        "odd: 'echo' is listed twice; the first one counts",
    ]


@pytest.mark.parametrize("schema", ["inputSchema", "outputSchema"])
async def test_a_schema_of_no_object_costs_no_tool_its_place_in_the_list(behind, schema):
    odd = {**ECHO, "name": "odd", schema: {"type": "array"}}
    async with behind.client({"post": [ECHO, odd]}, pass_through=9, mode="legacy") as client:
        shown = {tool.name for tool in await client.list_tools()}

    assert shown == {"post__echo", "post__odd"}
