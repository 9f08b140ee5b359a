"""One conversation with a server: how it begins, goes on, and ends."""

from __future__ import annotations

import asyncio
import sys

import pytest
from mcp import MCPError

from tests.gateway.conftest import DIE, ECHO, Behind, until
from tests.indexers.readers.mcp_servers.launch import closed_port, ends, over_http
from toolcrib.errors import ServiceUnavailableError
from toolcrib.gateway.connection import StderrTail, UpstreamConnection
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget

DEAF = {"name": "deaf", "does": "deaf"}
ENDLESS = {"name": "elicit", "does": "again"}


class Nobody:
    """A caller that cannot be asked and hears nothing but progress."""

    wants_progress = True

    def __init__(self):
        self.begun, self.session = asyncio.Event(), self

    def refusal(self, request):
        raise AssertionError(request)

    async def report_progress(self, progress, total, message):
        self.begun.set()


async def passed(_call):
    """Every call may be made."""


async def call(connection, name, arguments, caller=None):
    pending = connection.call(caller or Nobody(), name, arguments, None, 60.0, passed)
    return await pending.outcome()


def to(behind: Behind, *tools, options=()):
    entry = behind.entry("post", *tools, options=options)
    target = StdioTarget(entry["command"], tuple(entry["args"]))
    return UpstreamConnection(target, has_one_caller=True)


@pytest.mark.parametrize("options", [(), ("--modern",)], ids=["handshake", "since 2026"])
async def test_a_conversation_from_its_beginning_to_its_end(behind: Behind, options):
    await to(behind, ECHO).close()  # one that was never opened is closed easily
    connection = to(behind, ECHO, options=options)

    await connection.open(60)
    assert [tool["name"] for tool in await connection.tools()] == ["echo"]
    assert (await call(connection, "echo", {"a": 1})).structured_content == {"given": {"a": 1}}
    assert await connection.is_alive(60)
    await until(lambda: connection.announces_changes)
    await connection.close()

    assert connection.is_over
    assert connection.ended.is_set()
    assert not await connection.is_alive(1)
    with pytest.raises(ServiceUnavailableError):
        await connection.tools()
    await connection.close()


async def test_progress_gives_a_call_its_whole_time_again(behind: Behind):
    connection = to(behind, {"name": "cook", "does": "progress"})
    await connection.open(60)

    pending = connection.call(Nobody(), "cook", {"pause_s": 1.2}, None, 2.0, passed)
    result = await pending.outcome()
    await connection.close()

    assert not result.is_error


@pytest.mark.parametrize("sse", [True, None], ids=["typed", "falls back"])
async def test_a_server_that_still_speaks_server_sent_events(sse):
    with over_http("clock-sse") as address:
        connection = UpstreamConnection(HttpTarget(f"{address}/sse", sse=sse), has_one_caller=True)
        await connection.open(60)
        names = [tool["name"] for tool in await connection.tools()]
        await connection.close()

    assert names == ["get_time", "set_alarm"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (StdioTarget("no-such-command"), "there is no command 'no-such-command'"),
        (StdioTarget(sys.executable, ("-c", "raise SystemExit('no licence')")), "'no licence'"),
        (StdioTarget("sleep", ("60",)), "gave no answer to initialize within 0.5 s"),
        (HttpTarget(f"http://127.0.0.1:{closed_port()}/mcp"), "cannot be reached"),
    ],
    ids=["no command", "ends", "silent", "nobody there"],
)
async def test_who_cannot_be_reached_is_told_why(target, reason):
    connection = UpstreamConnection(target, has_one_caller=True)
    with pytest.raises(ServiceUnavailableError, match=reason):
        await connection.open(0.5 if target == StdioTarget("sleep", ("60",)) else 20)

    assert connection.ended.is_set()


async def test_who_stops_waiting_leaves_no_process_behind(behind: Behind):
    pids = behind.folder / "pids"
    options = ("--started", str(pids), "--start-with", "never")
    connection = to(behind, ECHO, options=options)
    opening = asyncio.create_task(connection.open(60))
    await until(pids.exists)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    assert ends(int(pids.read_text()))


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("out of luck", "out of luck"),
        ("refused: password=hunter2secret99 for bob", "refused: password=*** for bob"),
    ],
)
async def test_the_end_of_a_server_is_noticed_with_its_last_line(behind: Behind, words, shown):
    connection = to(behind, DIE)
    await connection.open(60)
    with pytest.raises(MCPError, match="Connection closed"):
        await call(connection, "die", {"words": words})
    await until(connection.ended.is_set)

    assert connection.reason == f"its process ended; stderr ended with {shown!r}"


async def test_a_server_that_is_deaf_is_not_alive_and_is_ended_all_the_same(behind: Behind):
    pids = behind.folder / "pids"
    connection = to(behind, DEAF, options=("--started", str(pids)))
    await connection.open(60)
    caller = Nobody()
    calling = asyncio.create_task(call(connection, "deaf", {}, caller))
    await caller.begun.wait()

    assert not await connection.is_alive(0.3)
    connection.give_up("it is deaf")
    connection.give_up("something else")
    await connection.close()

    assert connection.reason == "it is deaf"
    assert ends(int(pids.read_text()))
    with pytest.raises(MCPError):
        await calling


async def test_a_server_without_tools_has_none():
    entry = ("-c", NO_TOOLS)
    connection = UpstreamConnection(StdioTarget(sys.executable, entry), has_one_caller=True)
    await connection.open(60)

    assert await connection.tools() == []
    assert not connection.announces_changes
    await connection.close()


NO_TOOLS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        about = {"name": "x", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif "id" in message:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""


async def test_who_asks_without_end_is_not_answered_without_end(behind: Behind, monkeypatch):
    monkeypatch.setattr("toolcrib.gateway.connection.MAX_INPUT_ROUNDS", 3)
    connection = to(behind, ENDLESS, options=("--modern",))
    await connection.open(60)
    with pytest.raises(ServiceUnavailableError, match="requests more input after 3 rounds"):
        await call(connection, "elicit", {})
    await connection.close()


@pytest.mark.parametrize("by_thread", [False, True])
async def test_of_what_a_process_writes_the_end_is_kept(by_thread):
    with StderrTail(by_thread=by_thread) as words:
        for number in range(300):
            words.file.write(f"line {number} " + "x" * 50 + "\n")
            words.file.flush()
            await asyncio.sleep(0)
        words.file.write("the   last\n\n")
        words.file.flush()
        await until(lambda: words.line == "the last")
        assert len(words._tail) <= 8192
    assert words.line == "the last"


@pytest.mark.parametrize("by_thread", [False, True])
async def test_a_process_that_writes_and_writes_is_not_held_up(by_thread):
    script = "import sys; sys.stderr.write('y' * 5_000_000 + '\\nend\\n'); sys.stderr.flush()"
    with StderrTail(by_thread=by_thread) as words:
        command = (sys.executable, "-c", script)
        process = await asyncio.create_subprocess_exec(*command, stderr=words.file)
        assert await asyncio.wait_for(process.wait(), 120) == 0
        await until(lambda: words.line == "end")
