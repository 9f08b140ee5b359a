"""`toolcrib gateway` over standard input and output, with the official client and by hand."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import wrap_file
from mcp import Client, StdioServerParameters
from mcp.server.stdio import stdio_server
from typer.testing import CliRunner

from tests.fork_server import ForkedProcess
from tests.gateway.command import app
from tests.gateway.conftest import ANNOUNCE, ECHO, SEARCH_TOOLS, Behind, found, names, texts, until
from toolcrib.gateway import serve

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, str(Path(__file__).parent / "command.py"), "gateway"]
ENV = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "TOOLCRIB_ENCODER__DENSE": "deterministic",
    "TOOLCRIB_GATEWAY__PASS_THROUGH": "0",
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@contextmanager
def forked(
    behind: Behind, *options: str, stderr: Any = subprocess.PIPE, **env: str
) -> Generator[ForkedProcess]:
    """The gateway in front of the servers of `mcp.json`, started by the fork server."""
    command = ("tests.gateway.command", "gateway", str(behind.folder / "mcp.json"), *options)
    how = {"cwd": behind.folder, "env": {**ENV, **env}, "stderr": stderr}
    with closing(ForkedProcess(*command, **how)) as process:
        yield process


@asynccontextmanager
async def pipes(process: ForkedProcess) -> AsyncGenerator[Any]:
    """Transport of a client to a gateway that the fork server started and that ends with it."""
    # Lines go in and out on this side as they do on the other.
    lines = wrap_file(process.stdout), wrap_file(process.stdin)
    async with stdio_server(*lines) as (read, write), read.clone() as rest:
        try:
            yield read, write
        finally:
            process.stdin.close()
            async for _ in rest:
                pass  # said after the client had gone
    process.wait(60)


async def use(client):
    listed = [tool.name for tool in (await client.list_tools()).tools]
    answer = await client.call_tool("find_tools", {"query": "repeat what is said"})
    given = {"name": "post__echo", "arguments": {"word": "hi"}}
    called = await client.call_tool("call_tool", given)
    return listed, answer.structured_content["tools"][0]["name"], called.structured_content


WANTED = (SEARCH_TOOLS, "post__echo", {"given": {"word": "hi"}})


@pytest.mark.slow
async def test_the_official_client_uses_it_though_its_folder_cannot_be_written(behind: Behind):
    (behind.folder / "taken").write_text("a file")
    program, *words = [*COMMAND, str(behind.config(post=[ECHO]))]
    words += ["--store", str(behind.folder / "taken")]

    async with Client(StdioServerParameters(command=program, args=words, env=ENV)) as client:
        assert client.session.protocol_version == "2026-07-28"
        assert await use(client) == WANTED


@pytest.mark.slow
def test_standard_output_is_the_protocols_alone(behind: Behind):
    behind.config(post=[ECHO])
    with forked(behind, "--store", str(behind.store), "--json") as process:
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.flush()
        hello = json.loads(process.stdout.readline())
        line = process.stderr.readline()
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(60) == 0

    assert hello["result"]["serverInfo"]["name"] == "toolcrib"
    assert all(json.loads(each)["jsonrpc"] == "2.0" for each in rest.splitlines())
    assert json.loads(line) == {"level": "info", "text": "post: 1 tool"}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_when_told_to_and_takes_its_servers_along(behind: Behind, number, code):
    pids = behind.folder / "pids"
    behind.config(post=behind.entry("post", ECHO, options=("--started", str(pids))))
    with forked(behind, "--store", str(behind.store)) as process:
        assert process.stderr.readline() == "toolcrib gateway: post: 1 tool\n"
        process.send_signal(number)
        assert process.wait(60) == code

    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_it_ends_quietly_when_nobody_reads_its_answers(behind: Behind):
    behind.config(post=[ECHO])
    with forked(behind, "--store", str(behind.store)) as process:
        process.stdout.close()
        process.stdin.write(json.dumps(HELLO) + "\n")
        process.stdin.close()
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


ONE = '{"mcpServers": {"post": {"command": "x"}}}'


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (None, [], "no such file; `toolcrib import`"),
        ("{}", [], "names no MCP servers"),
        (ONE, ["--server", "fax"], "no server 'fax'"),
        (ONE, ["--pin", "pots/echo"], "'pots/echo'; did you mean 'post/echo'?"),
        (ONE, ["--pin", "echo"], "no server has a tool 'echo'"),
        (ONE, ["--lock", "bad.lock"], "bad.lock"),
        (ONE, ["--transport", "http", "--host", "192.0.2.1"], "toolcrib keys create"),
    ],
)
def test_a_mistake_is_told_on_standard_error(behind: Behind, monkeypatch, content, options, said):
    monkeypatch.chdir(behind.folder)
    Path("bad.lock").write_text("servers: [")
    if content is not None:
        Path("mcp.json").write_text(content)

    done = CliRunner().invoke(app, ["gateway", "mcp.json", *options, "--json"])

    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in json.loads(done.stderr)["text"]


def test_a_port_that_is_taken_is_told(behind: Behind, monkeypatch):
    monkeypatch.chdir(behind.folder)
    config = behind.config(post=[ECHO])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(
            app, ["gateway", str(config), "--store", "s", "--transport", "http", "--port", port]
        )

    assert done.exit_code == 2
    assert f"cannot listen on 127.0.0.1 port {port}: " in done.stderr


async def test_options_narrow_what_there_is(behind: Behind, monkeypatch):
    servers = {
        "post": behind.entry("post", ECHO, toolcrib={"tags": ["home"]}),
        "vault": behind.entry("vault", ECHO, toolcrib={"sensitivity": "pii", "tags": ["home"]}),
        "other": {"command": "never-started"},
    }
    given = []
    monkeypatch.setattr(serve, "serve_gateway", lambda *parts: given.append(parts))
    chosen = ("--server", "post", "--server", "vault", "--tag", "home", "--pin", "post/echo")
    chosen = (*chosen, "--max-sensitivity", "internal", "--store=~/index")
    arguments = [str(behind.config(**servers)), *chosen]
    assert CliRunner().invoke(app, ["gateway", *arguments]).exit_code == 0
    ((serving, _, options),) = given
    assert serving.store == str(Path.home() / "index")

    gateway = behind.make(
        servers,
        only=serving.file.only,
        tags=options.tags,
        max_sensitivity=options.max_sensitivity,
        pinned=options.pinned,
    )
    async with behind.client(gateway) as client:
        answer = await found(client, "repeat")
        hidden = await client.call_tool("vault__echo", {}, raise_on_error=False)
        shown = await names(client)

    assert [tool["name"] for tool in answer["tools"]] == ["post__echo"]
    assert "missing" not in answer
    assert hidden.is_error
    assert texts(hidden)[0].startswith("There is no tool 'vault__echo'")
    assert shown == ["post__echo", *SEARCH_TOOLS]


@pytest.mark.slow
async def test_what_is_shown_of_an_index_run_ends_with_it(behind: Behind):
    """The gateway goes on for months, and would write a line every ten seconds."""
    behind.config(post=[ANNOUNCE])
    options = ("--store", str(behind.store), "--no-audit")
    log = behind.folder / "stderr"
    with log.open("wb") as stderr, forked(behind, *options, stderr=stderr, PROGRESS_S="0.01") as it:
        async with Client(pipes(it)) as client:
            await client.call_tool("find_tools", {"query": "announce"})
            behind.offer("post", ANNOUNCE, ECHO)
            await client.call_tool("post__announce", {})
            await until(lambda: "post: 2 tools" in log.read_text())
            for _ in range(50):
                await client.call_tool("find_tools", {"query": "announce"})

    assert log.read_text().endswith("post: 2 tools\n")


@pytest.mark.e2e
async def test_a_profile_serves_its_part_by_its_own_settings(behind: Behind):
    drop = {"name": "drop_all", "description": "Repeat what is dropped."}
    behind.config(post=[ECHO, drop], fax=[ECHO])
    part = {"servers": ["post"], "exclude": ["post/drop_*"], "pass_through": 9}
    profiles = {"TOOLCRIB_GATEWAY__PROFILES": json.dumps({"writing": part})}
    options = ("--store", str(behind.store), "--profile", "writing")
    with forked(behind, *options, **profiles) as process:
        async with Client(pipes(process)) as client:

            async def is_there() -> bool:
                return [tool.name for tool in (await client.list_tools()).tools] == ["post__echo"]

            await until(is_there)
            refused = await client.call_tool("post__drop_all", {})

    assert refused.is_error


def test_a_profile_that_is_not_there_is_named(behind: Behind, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_GATEWAY__PROFILES", '{"writing": {}}')
    result = CliRunner().invoke(app, ["gateway", str(behind.config()), "--profile", "writin"])
    assert result.exit_code == 2
    assert "did you mean" in result.output
