"""A gateway in front of real server processes, and clients in front of the gateway."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fastmcp import Client

from tests.fork_server import ForkedProcess
from toolcrib import Crib, Settings, build
from toolcrib.access.logins import Logins
from toolcrib.access.quarantine import LockFile, Quarantine
from toolcrib.gateway.approval import Approval
from toolcrib.gateway.config import McpFile
from toolcrib.gateway.gateway import Gateway, GatewayOptions
from toolcrib.gateway.index import Storage
from toolcrib.gateway.upstream import Intervals
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.router.settings import RecoverySettings
from toolcrib.settings import ContextSettings, EncoderSettings, GatewaySettings, LearningSettings
from toolcrib.store.records_db import RecordsDb

SERVERS = Path(__file__).parent / "servers"
QUICK = Intervals(
    ping_s=0.3, pong_s=10.0, refresh_s=0.5, poll_s=0.1,
    patience_s=5.0, opening_s=5.0, handshake_s=15.0,
)  # fmt: skip
LONG_S = 120.0

OPTIONS = [option.name for option in fields(GatewayOptions)]
ANNOUNCE = {"name": "announce", "description": "Announce a change.", "does": "announce"}
FAX = {"name": "send_fax", "description": "Send a fax to somebody."}
DIE = {"name": "die", "does": "die"}
SEARCH_TOOLS = ["find_tools", "describe_tools", "call_tool", "check_tools"]
ECHO = {"name": "echo", "description": "Repeat what is said."}


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that will surely come; the condition may have to be awaited."""
    async with asyncio.timeout(LONG_S):
        # Nothing tells of what other processes do.
        while not (await met if inspect.isawaitable(met := condition()) else met):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def names(client: Client[Any]) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


async def until_equal(expected: Any, ask: Callable[..., Awaitable[Any]], *given: Any) -> None:
    """Wait until something that is asked for is as expected."""

    async def is_so() -> bool:
        return await ask(*given) == expected

    await until(is_so)


async def until_listed(client: Client[Any], *expected: str) -> None:
    await until_equal(list(expected), names, client)


async def said(client: Client[Any], name: str, /, **arguments: Any) -> str:
    """The first text of what a call answers, be it an error."""
    return texts(await client.call_tool(name, arguments, raise_on_error=False))[0]


async def found(client: Client[Any], query: str = "echo", k: int | None = 9) -> dict[str, Any]:
    result = await client.call_tool("find_tools", {"query": query, "k": k})
    assert json.loads(texts(result)[0]) == result.structured_content
    return result.structured_content


def texts(result: Any) -> list[str]:
    return [part.text for part in result.content]


class Heard:
    """Kinds of the messages that a client gets."""

    def __init__(self) -> None:
        self._kinds: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message: object) -> None:
        self._kinds.put_nowait(type(message).__name__)

    def clear(self) -> None:
        """Forget what came so far."""
        while not self._kinds.empty():
            self._kinds.get_nowait()

    async def until(self, *kinds: str) -> None:
        """Wait for messages of these kinds, one after the other."""
        async with asyncio.timeout(LONG_S):
            for kind in kinds:
                while not (await self._kinds.get()).startswith(kind):
                    pass


@dataclass
class Behind:
    """Builds servers in a folder, and gateways in front of them; `audits` is for all of those."""

    folder: Path
    audits: bool = False
    said: list[tuple[str, str]] = field(default_factory=list)
    opened: ExitStack = field(default_factory=ExitStack)

    def entry(
        self, name: str, *tools: dict[str, Any], options: tuple[str, ...] = (), **keys: Any
    ) -> Any:
        """An entry for a server with these tools, whose file can be written anew, and more keys."""
        self.offer(name, *tools)
        script, file = str(SERVERS / "plain.py"), str(self.tools(name))
        return {"command": sys.executable, "args": [script, file, *options], **keys}

    def tools(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def offer(self, name: str, *tools: dict[str, Any]) -> None:
        """Let a server have these tools from now on."""
        written = self.folder / f"{name}.new"
        written.write_text(json.dumps(tools))
        written.replace(self.tools(name))

    def config(self, **servers: Any) -> Path:
        """An mcp.json with these entries; a list of tools stands for a server that has them."""
        path = self.folder / "mcp.json"
        entries = {
            name: self.entry(name, *each) if isinstance(each, list) else each
            for name, each in servers.items()
        }
        path.write_text(json.dumps({"mcpServers": entries}))
        return path

    @property
    def lock(self) -> Path:
        return self.folder / "toolcrib.lock"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def records_db(self) -> RecordsDb:
        """The records beside the index, as any process sees them."""
        records_db = build.open_records_db(str(self.store), quick_settings())
        self.opened.callback(records_db.close)
        return records_db

    def crib(self) -> Crib:
        """The index, while no gateway uses it."""
        return Crib.open(self.store, settings=quick_settings())

    def quarantine(self) -> Quarantine:
        """The quarantine, as any process sees it."""
        return Quarantine(self.records_db(), DEFAULT_NAMESPACE)

    def held(self) -> dict[str, str]:
        """Reasons of held tools, by id."""
        return {each.tool_id: each.reason for each in self.quarantine().list()}

    def make(
        self,
        servers: dict[str, Any],
        *,
        locks: bool = False,
        strict: bool = False,
        only: tuple[str, ...] = (),
        logins: Logins | None = None,
        **how: Any,
    ) -> Gateway:
        """A gateway, quick to notice, whose index is in the folder; `how` are options or settings.

        Without more it has one client, as over stdio.
        """
        options = {key: how.pop(key) for key in OPTIONS if key in how}
        settings = quick_settings(**how)
        records_db = self.records_db()
        quarantine = Quarantine(records_db, DEFAULT_NAMESPACE)
        lock = LockFile(self.lock)
        approval = Approval(lock, quarantine, locks=locks, audits=self.audits, strict=strict)
        chosen = {"report": self.say, "is_shared": True, "intervals": QUICK, **options}
        return Gateway(
            McpFile(self.config(**servers), {}, only).read(),
            settings,
            Storage(str(self.store), records_db, approval, logins),
            GatewayOptions(**chosen),
        )

    def say(self, level: str, text: str) -> None:
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
        await gateway.index.is_open.wait()
        await gateway.pool.wait_settled()


def quick_settings(*, learning: bool = False, **chosen: Any) -> Settings:
    """Settings without a model, under which nothing takes long."""
    quick = {"retry_s": 0.2, "connect_timeout_s": 60.0, "call_timeout_s": 10.0, "pass_through": 0}
    return Settings(
        encoder=EncoderSettings(dense="deterministic"),
        context=ContextSettings(detector="heuristic"),
        gateway=GatewaySettings(**{**quick, **chosen}),
        recovery=RecoverySettings(likeness=0),
        learning=LearningSettings(enabled=learning),
    )


@pytest.fixture
def behind() -> Generator[Behind]:
    with TemporaryDirectory() as folder:
        built = Behind(Path(folder))
        with built.opened:
            yield built


@dataclass
class Web:
    """A server over HTTP, which can be killed, stopped and started again at its port."""

    port: int = 0
    process: ForkedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        """Start it; it listens when this returns."""
        self.process = ForkedProcess("tests.gateway.servers.web", str(self.port))
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.close()


@contextmanager
def web_server() -> Generator[Web]:
    server = Web()
    server.start()
    try:
        yield server
    finally:
        server.kill()
