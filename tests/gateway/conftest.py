"""A gateway in front of real server processes, and clients in front of the gateway."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fastmcp import Client

from toolcrib import Settings, wiring
from toolcrib.access.lock_file import LockFile
from toolcrib.access.quarantine import Quarantine
from toolcrib.gateway.config import read_config
from toolcrib.gateway.gateway import Gateway
from toolcrib.gateway.judging import Judge
from toolcrib.gateway.terms import Backing, Manner, Purpose
from toolcrib.gateway.upstream import Rhythm
from toolcrib.namespaces import DEFAULT
from toolcrib.settings import ContextSettings, EncoderSettings, GatewaySettings
from toolcrib.store.records_db.base import RecordsDb

SERVERS = Path(__file__).parent / "servers"
QUICK = Rhythm(ping_s=0.3, pong_s=10.0, refresh_s=0.5, poll_s=0.1, patience_s=5.0)
LONG_S = 30.0
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Each gateway makes an index of some hundred files, which takes a disk longer than all else."""

ECHO = {"name": "echo", "description": "Repeat what is said."}


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that will surely come; the condition may have to be awaited."""
    async with asyncio.timeout(LONG_S):
        # Nothing tells of what other processes do.
        while not (await met if inspect.isawaitable(met := condition()) else met):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def texts(result: Any) -> list[str]:
    """The texts of a result."""
    return [part.text for part in result.content]


@dataclass
class Behind:
    """Builds servers in a folder, and gateways in front of them."""

    folder: Path
    said: list[tuple[str, str]] = field(default_factory=list)
    opened: ExitStack = field(default_factory=ExitStack)

    def entry(self, name: str, *tools: dict[str, Any], options: tuple[str, ...] = ()) -> Any:
        """An entry for a server with these tools, whose file can be written anew."""
        self.offer(name, *tools)
        script, file = str(SERVERS / "plain.py"), str(self.tools(name))
        return {"command": sys.executable, "args": [script, file, *options]}

    def tools(self, name: str) -> Path:
        """The file of a server's tools."""
        return self.folder / f"{name}.json"

    def offer(self, name: str, *tools: dict[str, Any]) -> None:
        """Let a server have these tools from now on."""
        written = self.folder / f"{name}.new"
        written.write_text(json.dumps(tools))
        written.replace(self.tools(name))

    def config(self, **servers: Any) -> Path:
        """An mcp.json with these entries."""
        path = self.folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    @property
    def lock(self) -> Path:
        """The file of approved tools."""
        return self.folder / "toolcrib.lock"

    @property
    def store(self) -> Path:
        """The folder of the index."""
        return self.folder / "store"

    def ledger(self) -> RecordsDb:
        """The records beside the index, as any process sees them."""
        ledger = wiring.open_ledger(str(self.store), quick_settings())
        self.opened.callback(ledger.close)
        return ledger

    def make(
        self,
        servers: dict[str, Any],
        *,
        purpose: Purpose | None = None,
        manner: Manner | None = None,
        locks: bool = False,
        only: tuple[str, ...] = (),
        **chosen: Any,
    ) -> Gateway:
        """A gateway, quick to notice, whose index is in the folder."""
        settings = quick_settings(**chosen)
        ledger = self.ledger()
        judge = Judge(LockFile(self.lock), Quarantine(ledger, DEFAULT), locks=locks)
        manner = manner or Manner(self.say, is_shared=True, rhythm=QUICK)
        configs = read_config(self.config(**servers), {}, only)
        backing = Backing(str(self.store), ledger, judge)
        return Gateway(configs, settings, backing, purpose=purpose, manner=manner)

    def say(self, level: str, text: str) -> None:
        """Remember what the operator is told."""
        self.said.append((level, text))

    @asynccontextmanager
    async def client(
        self, servers: dict[str, Any] | Gateway, *, settled: bool = True, **how: Any
    ) -> AsyncGenerator[Client[Any]]:
        """A client of a gateway in this process; `how` is for either of them."""
        asked = ("mode", "elicitation_handler", "sampling_handler", "roots", "log_handler")
        known = {key: how.pop(key) for key in (*asked, "message_handler") if key in how}
        gateway = servers if isinstance(servers, Gateway) else self.make(servers, **how)
        async with Client(gateway.server, **known) as client:
            if settled:
                await ready(gateway)
            yield client


async def hanging(client: Client[Any], name: str) -> asyncio.Task[Any]:
    """A call of a tool that never answers, when its server has it."""
    begun = asyncio.Event()

    async def progress(*_told: Any) -> None:
        begun.set()

    call = client.call_tool(name, {}, progress_handler=progress, raise_on_error=False)
    task = asyncio.create_task(call)
    async with asyncio.timeout(LONG_S):
        await begun.wait()
    return task


async def ready(gateway: Gateway) -> None:
    """Wait until every server has been connected to, or tried."""
    async with asyncio.timeout(LONG_S):
        await gateway.stock.is_open.wait()
        for upstream in gateway.upstreams.values():
            await upstream.settled.wait()


def quick_settings(**chosen: Any) -> Settings:
    """Settings without a model, under which nothing takes long."""
    quick = {"retry_s": 0.2, "connect_timeout_s": 10.0, "call_timeout_s": 10.0, "pass_through": 0}
    return Settings(
        encoder=EncoderSettings(dense="deterministic"),
        context=ContextSettings(detector="heuristic"),
        gateway=GatewaySettings(**{**quick, **chosen}),
    )


@pytest.fixture
def behind() -> Generator[Behind]:
    """Builds gateways in front of servers."""
    with TemporaryDirectory(dir=IN_MEMORY) as folder:
        built = Behind(Path(folder))
        with built.opened:
            yield built


@dataclass
class Web:
    """A server over HTTP, which can be killed, stopped and started again at its port."""

    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it speaks MCP."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        """Start it; it listens when this returns."""
        command = [sys.executable, str(SERVERS / "web.py"), str(self.port)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        """Kill it, as a crash would."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def web_server() -> Generator[Web]:
    """A server over HTTP for the time of the block."""
    server = Web()
    server.start()
    try:
        yield server
    finally:
        server.kill()
