"""One conversation with a server: how it begins, goes on, and ends."""

from __future__ import annotations

import asyncio
import sys

import pytest
from mcp import MCPError

from tests.gateway.conftest import ECHO, Behind, until
from tests.indexers.readers.mcp_servers.launch import closed_port, ends
from toolcrib.errors import ServiceUnavailableError
from toolcrib.gateway.last_words import LastWords
from toolcrib.gateway.link import Link
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget

DEAF = {"name": "deaf", "does": "deaf"}
DIE = {"name": "die", "does": "die"}
ENDLESS = {"name": "elicit", "does": "again"}


class Silence:
    """Hears nothing and answers nothing."""

    async def answer(self, request):
        raise AssertionError(request)

    async def hear(self, note):
        raise AssertionError(note)


def to(behind: Behind, *tools, options=()):
    entry = behind.entry("post", *tools, options=options)
    return Link(StdioTarget(entry["command"], tuple(entry["args"])), Silence())


@pytest.mark.parametrize("options", [(), ("--modern",)], ids=["handshake", "since 2026"])
async def test_a_conversation_from_its_beginning_to_its_end(behind: Behind, options):
    link = to(behind, ECHO, options=options)

    await link.open(10)
    assert [tool["name"] for tool in await link.tools()] == ["echo"]
    assert (await link.call("echo", {"a": 1})).structured_content == {"given": {"a": 1}}
    assert await link.is_alive(10)
    await until(lambda: link.tells_changes)
    await link.close()

    assert link.is_over
    assert link.ended.is_set()
    assert not await link.is_alive(1)
    with pytest.raises(ServiceUnavailableError):
        await link.tools()
    await link.close()


async def test_a_link_that_was_never_opened_is_closed_easily(behind: Behind):
    await to(behind, ECHO).close()


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
    link = Link(target, Silence())
    with pytest.raises(ServiceUnavailableError, match=reason):
        await link.open(0.5 if target == StdioTarget("sleep", ("60",)) else 20)

    assert link.ended.is_set()


async def test_who_stops_waiting_leaves_no_process_behind(behind: Behind):
    pids = behind.folder / "pids"
    options = ("--started", str(pids), "--start-with", "never")
    link = to(behind, ECHO, options=options)
    opening = asyncio.create_task(link.open(60))
    await until(pids.exists)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    assert ends(int(pids.read_text()))


async def test_the_end_of_a_server_is_noticed_with_its_last_words(behind: Behind):
    link = to(behind, DIE)
    await link.open(10)
    with pytest.raises(MCPError, match="Connection closed"):
        await link.call("die", {})
    await until(link.ended.is_set)

    assert link.reason == "its process ended; its last words were 'out of luck'"


async def test_a_server_that_is_deaf_is_not_alive_and_is_ended_all_the_same(behind: Behind):
    pids = behind.folder / "pids"
    link = to(behind, DEAF, options=("--started", str(pids)))
    await link.open(10)
    begun = asyncio.Event()

    async def progress(progress, total, message):
        begun.set()

    calling = asyncio.create_task(link.call("deaf", {}, progress=progress))
    await begun.wait()

    assert not await link.is_alive(0.3)
    link.give_up("it is deaf")
    link.give_up("something else")
    await link.close()

    assert link.reason == "it is deaf"
    assert ends(int(pids.read_text()))
    with pytest.raises(MCPError):
        await calling


async def test_a_server_without_tools_has_none():
    entry = ("-c", NO_TOOLS)
    link = Link(StdioTarget(sys.executable, entry), Silence())
    await link.open(10)

    assert await link.tools() == []
    assert not link.tells_changes
    await link.close()


NO_TOOLS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {},
                  "serverInfo": {"name": "x", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif "id" in message:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""


async def test_who_asks_without_end_is_not_answered_without_end(behind: Behind, monkeypatch):
    monkeypatch.setattr("toolcrib.gateway.link.MAX_ROUNDS", 3)
    link = to(behind, ENDLESS, options=("--modern",))
    await link.open(10)
    with pytest.raises(ServiceUnavailableError, match="asks for more input after 3 rounds"):
        await link.call("elicit", {})
    await link.close()


async def test_of_what_a_process_writes_the_end_is_kept():
    with LastWords() as words:
        for number in range(300):
            words.file.write(f"line {number} " + "x" * 50 + "\n")
            words.file.flush()
            await asyncio.sleep(0)
        words.file.write("the   last\n\n")
        words.file.flush()
        await asyncio.sleep(0)
        assert words.line == "the last"
        assert len(words._tail) <= 8192
    assert words.line == "the last"


async def test_a_process_that_writes_and_writes_is_not_held_up(behind: Behind):
    script = "import sys; sys.stderr.write('y' * 5_000_000 + '\\nend\\n'); sys.stderr.flush()"
    with LastWords() as words:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stderr=words.file
        )
        assert await asyncio.wait_for(process.wait(), 30) == 0
        await until(lambda: words.line == "end")
