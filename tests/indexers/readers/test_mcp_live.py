"""One live server: real processes over stdio and real HTTP on loopback, right and wrong ones."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.to_thread
import pytest

from tests.indexers.readers.conformance import ReaderConformance
from tests.indexers.readers.mcp_servers.launch import (
    ends,
    over_http,
    target,
    typed,
)
from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.readers.mcp import McpLiveReader, list_tools
from toolcrib.indexers.readers.mcp_config import McpLimits
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.records import Refusal, ToolSpec

SHORT = McpLimits(timeout_s=3.0, max_pages=20)
"""For servers that never answer: long enough to start one on a busy machine."""


@pytest.fixture(scope="module")
def clock_url() -> Generator[str]:
    """A right server over streamable HTTP."""
    with over_http("clock") as address:
        yield f"{address}/mcp"


class TestMcpLiveReader(ReaderConformance):
    reader: ClassVar[Reader] = McpLiveReader()

    def good(self, folder: Path) -> Source:
        return Source.named(typed("broken.py", "pair"))

    def mixed(self, folder: Path) -> Source:
        return Source.named(typed("broken.py", "one_bad"))

    def nothing(self, folder: Path) -> Source:
        return Source.named(typed("broken.py", "no_tools"))


def test_everything_that_a_server_says_of_a_tool_is_read(clock_url: str) -> None:
    tools = _tools(typed("clock.py"))

    get_time, set_alarm = tools
    assert get_time.id == "clock/get_time"
    assert get_time.description == "Tell the current time in a time zone."
    assert get_time.annotations == {
        "readOnlyHint": True,
        "openWorldHint": False,
        "title": "Current time",
    }
    assert get_time.input_schema["properties"]["zone"]["default"] == "UTC"
    assert get_time.output_schema["required"] == ["iso", "zone"]
    assert (get_time.tags, get_time.version) == (("time",), "2")
    assert set_alarm.id == "clock/set_alarm"
    assert _tools(clock_url) == tools


def test_the_server_name_can_be_given(clock_url: str) -> None:
    assert {tool.server for tool in _tools(clock_url, "office")} == {"office"}
    assert [tool.id for tool in _tools(clock_url, "")] == ["get_time", "set_alarm"]


def test_five_thousand_tools_come_over_their_pages_in_order() -> None:
    tools = _tools(typed("pages.py", "--tools", "5000", "--size", "250"))

    assert [tool.name for tool in tools] == [f"tool_{number}" for number in range(5000)]


def test_five_thousand_tools_come_in_one_page_over_http() -> None:
    with over_http("pages", "--tools", "5000", "--size", "5000") as address:
        assert len(_tools(f"{address}/mcp")) == 5000


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (("modern_only", "modern"), "modern"),
        (("modern_only",), Path(sys.executable).name),
        (("touchy",), "broken"),
        (("chatty",), "broken"),
    ],
    ids=["modern", "modern without a name", "touchy", "chatty"],
)
def test_servers_of_every_age_and_manner_are_understood(server: tuple[str], name: str) -> None:
    assert [tool.id for tool in _tools(typed("broken.py", *server))] == [f"{name}/good"]


def test_an_empty_cursor_is_the_end() -> None:
    assert len(_tools(typed("pages.py", "--empty-cursor"))) == 6


def test_a_wrong_tool_costs_no_right_one() -> None:
    items = list(McpLiveReader().read(Source(typed("broken.py", "one_bad")), None))

    assert [item.name for item in items if isinstance(item, ToolSpec)] == ["good", "better"]
    assert [(item.place, item.reason) for item in items if isinstance(item, Refusal)] == [
        ("tools[1]", "name: missing"),
        ("tools[2]", "a tool must be an object, not a number"),
    ]


def test_the_reader_raises_what_left_it_nothing() -> None:
    name = typed("broken.py", "dies")

    with pytest.raises(SourceError) as caught:
        list(McpLiveReader().read(Source(name), None))

    assert (caught.value.source, caught.value.place) == (name, "")
    assert caught.value.reason.startswith("its process ended before it answered initialize; ")


def test_the_reader_yields_what_it_has_and_refuses_the_rest() -> None:
    source = Source(typed("broken.py", "stalls"))

    tool, refusal = McpLiveReader(SHORT).read(source, None)

    assert isinstance(tool, ToolSpec)
    assert refusal == Refusal(
        source.name,
        "broken",
        "gave no answer to tools/list (page 2) within 3 s; tools kept from before that: 1",
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("stdio:", "names no command; write stdio:COMMAND ARGS"),
        ("stdio:  ", "names no command; write stdio:COMMAND ARGS"),
        (
            "stdio:python 'server.py",
            "the command cannot be split into words: No closing quotation; check its quotes",
        ),
    ],
)
def test_a_name_that_starts_nothing(name: str, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        list(McpLiveReader().read(Source(name), None))

    assert caught.value.reason == reason


def test_which_names_are_live_servers() -> None:
    reader = McpLiveReader()

    for name in ("http://a/mcp", "https://a", "HTTPS://A", "stdio:python server.py"):
        assert reader.recognises(Source(name))
    for name in ("tools.json", "ftp://a", "package.module:tools", ""):
        assert not reader.recognises(Source(name))
    assert not reader.recognises(Source("stdio:odd", Path("stdio:odd")))


def test_a_started_command_gets_the_environment_it_is_given() -> None:
    name = "stdio:sh -c 'echo I see $VISIBLE >&2; exit 1'"

    with pytest.raises(SourceError) as caught:
        list(McpLiveReader(env={**os.environ, "VISIBLE": "everything"}).read(Source(name), None))

    assert caught.value.reason == (
        "its process ended before it answered initialize; its last words were 'I see everything'"
    )


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(MissingExtraError) as caught:
        list(McpLiveReader().read(Source("https://example.org/mcp"), None))

    assert str(caught.value) == (
        "reading live MCP servers needs the extra 'mcp': pip install 'toolcrib[mcp]'"
    )


def test_importing_the_readers_imports_no_sdk() -> None:
    code = (
        "import sys\n"
        "import toolcrib.indexers.readers.mcp, toolcrib.indexers.readers.mcp\n"
        "print({'mcp', 'anyio', 'httpx2'} & sys.modules.keys())"
    )

    assert _python(code).stdout == "set()\n"


async def _read_in_the_loop(name: str) -> list[str]:
    return [tool.name for tool in _tools(name)]


async def _read_in_a_thread(name: str) -> list[str]:
    return [tool.name for tool in await asyncio.to_thread(_tools, name)]


def test_it_can_be_read_inside_a_running_loop_and_from_a_thread_beside_one() -> None:
    name = typed("broken.py", "chatty")

    for read in (_read_in_the_loop, _read_in_a_thread):
        assert asyncio.run(read(name)) == ["good"]
        # anyio marks its loops in a context variable, which `to_thread` hands on.
        assert anyio.run(read, name) == ["good"]


def test_the_screen_stays_clean() -> None:
    names = [typed("broken.py", kind) for kind in ("dies", "garbage", "chatty", "no_list")]
    code = (
        "import sys\n"
        "from toolcrib.errors import SourceError\n"
        "from toolcrib.indexers.readers.mcp import McpLiveReader\n"
        "from toolcrib.indexers.readers.base import Source\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        list(McpLiveReader().read(Source(name), None))\n"
        "    except SourceError:\n"
        "        pass\n"
    )

    finished = _python(code, *names, "http://127.0.0.1:1/mcp")

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_a_server_that_will_not_die_is_killed_with_its_children(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    processes: list[int] = []

    async def list_until_it_runs() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(list_tools, target("broken.py", "stubborn", str(fifo)))
            # Blocks until the server and its child have started.
            announced = await anyio.to_thread.run_sync(fifo.read_text)
            processes.extend(map(int, announced.split()))
            tasks.cancel_scope.cancel()

    anyio.run(list_until_it_runs)

    assert [ends(pid) for pid in processes] == [True, True]


def test_nothing_is_left_behind_when_the_user_interrupts(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = (
        "import sys\n"
        "from toolcrib.indexers.readers.mcp import McpLiveReader\n"
        "from toolcrib.indexers.readers.base import Source\n"
        "list(McpLiveReader().read(Source(sys.argv[1]), None))\n"
    )
    command = [sys.executable, "-c", code, typed("broken.py", "waits", str(fifo))]

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as reader:
        # Blocks until the server has started and written its id.
        server = int(fifo.read_text(encoding="utf-8"))
        reader.send_signal(signal.SIGINT)
        reader.wait()

    assert reader.returncode != 0
    assert ends(server)


def _tools(name: str, server: str | None = None) -> list[ToolSpec]:
    return list(_only_tools(McpLiveReader().read(Source(name), server)))


def _only_tools(items: Iterable[ToolSpec | Refusal]) -> Iterable[ToolSpec]:
    for item in items:
        assert isinstance(item, ToolSpec), item
        yield item


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
