"""Saved `tools/list` answers: every form they are saved in, and what is kept of a tool."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import ListToolsResult, Tool, ToolAnnotations

from tests.gateway.conftest import SERVERS
from tests.indexers.readers.conformance import ReaderConformance, split, write
from tests.indexers.readers.mcp_servers.launch import (
    closed_port,
    ends,
    entry,
    over_http,
    target,
    typed,
)
from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.mcp import (
    McpLimits,
    McpListReader,
    McpLiveReader,
    McpServersReader,
    list_tools,
    tool_specs,
)
from toolcrib.records import ToolSpec

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}}
TIME = {"name": "get_time", "description": "Tell the time.", "inputSchema": SCHEMA}
ALARM = {"name": "set_alarm", "inputSchema": {"type": "object"}}
LIST = McpListReader()
PLAIN = SERVERS / "plain.py"
"""A server that starts at once, as it loads no library."""


class TestMcpListReader(ReaderConformance):
    reader: ClassVar[Reader] = McpListReader()

    def mixed(self, folder: Path) -> Source:
        return _file(folder, {"tools": [TIME, {"inputSchema": {}}]})

    def nothing(self, folder: Path) -> Source:
        return _file(folder, {"tools": []})


@pytest.mark.parametrize(
    "saved",
    [
        {"tools": [{**TIME, "_meta": {"x": 1}}, ALARM]},
        {"tools": [TIME, ALARM], "nextCursor": None, "_meta": {}},
        {"jsonrpc": "2.0", "id": 7, "result": {"tools": [TIME, ALARM]}},
        {"result": {"tools": [TIME, ALARM]}},
        [TIME, ALARM],
    ],
)
def test_every_form_of_the_answer_is_recognised_and_read(tmp_path, saved):
    source = _file(tmp_path, saved)

    assert McpListReader().recognises(source)
    get_time, set_alarm = _tools(source)
    assert (get_time.id, get_time.description) == ("clock/get_time", "Tell the time.")
    assert get_time.input_schema == SCHEMA
    assert set_alarm == ToolSpec(name="set_alarm", server="clock", input_schema={"type": "object"})


def test_everything_that_a_tool_carries_is_kept(tmp_path):
    tool = {
        **TIME,
        "title": "Current time",
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "x-vendor": {"a": 1}, "title": "Inner"},
        "_meta": {
            "fastmcp": {"tags": ["time"], "version": "2"},
            "toolcrib": {"sensitivity": "internal", "other": 1},
            "other": 1,
        },
        "icons": [{"src": "https://example.org/clock.png"}],
    }

    (spec,) = _tools(_file(tmp_path, {"tools": [tool]}))

    assert spec == ToolSpec(
        name="get_time",
        description="Tell the time.",
        server="clock",
        input_schema=SCHEMA,
        output_schema={"type": "object"},
        annotations={"readOnlyHint": True, "x-vendor": {"a": 1}, "title": "Current time"},
        tags=("time",),
        sensitivity="internal",
        version="2",
    )
    assert spec.safety_tags == ("open_world", "read_only")


def test_the_server_is_the_stem_unless_given(tmp_path):
    source = _file(tmp_path, [TIME], "my-clock.json")

    assert [tool.id for tool in _tools(source)] == ["my-clock/get_time"]
    assert [tool.id for tool in _tools(source, "office")] == ["office/get_time"]
    assert [tool.id for tool in _tools(source, "")] == ["get_time"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_page_that_names_a_next_one_is_reported_as_incomplete(tmp_path, wrapped):
    page: dict[str, Any] = {"tools": [TIME], "nextCursor": "page-2"}
    source = _file(tmp_path, {"jsonrpc": "2.0", "result": page} if wrapped else page)

    [_], [refusal] = split(McpListReader().read(source, None))

    assert (refusal.source, refusal.place) == (source.name, "nextCursor")
    assert refusal.reason.startswith("the list is incomplete: the server has more pages")


def test_a_wrong_tool_costs_no_right_one(tmp_path):
    tools: list[Any] = [
        TIME,
        {"description": "No name.", "inputSchema": {}},
        7,
        {"name": "f", "parameters": {}},
        {**ALARM, "annotations": ["destructive"]},
        {**ALARM, "inputSchema": "object"},
        ALARM,
    ]
    source = _file(tmp_path, {"tools": tools})

    read, refusals = split(McpListReader().read(source, None))

    assert [tool.name for tool in read] == ["get_time", "set_alarm"]
    assert [(refusal.place, refusal.reason) for refusal in refusals] == [
        ("tools[1]", "name: missing"),
        ("tools[2]", "a tool must be an object, not a number"),
        ("tools[3]", "this is a function definition, which --format functions reads"),
        ("tools[4]", "annotations: must be an object, not a list"),
        ("tools[5]", "input_schema: must be an object, not text"),
    ]


def test_a_saved_error_says_what_the_server_said(tmp_path):
    error = {"code": -32601, "message": "Method not found"}
    source = _file(tmp_path, {"jsonrpc": "2.0", "id": 1, "error": error})

    assert McpListReader().recognises(source)
    with pytest.raises(SourceError, match="with the error 'Method not found'") as caught:
        list(McpListReader().read(source, None))
    assert caught.value.place == "error"


def test_another_answer_than_that_to_tools_list_is_refused(tmp_path):
    source = _file(tmp_path, {"jsonrpc": "2.0", "result": {"prompts": []}})

    assert not McpListReader().recognises(source)
    with pytest.raises(SourceError, match="save the whole answer to tools/list") as caught:
        list(McpListReader().read(source, None))
    assert caught.value.place == "result.tools"


TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=20)


def _sdk_tool(
    name: str, title: str | None, description: str | None, read_only: bool | None, shaped: bool
) -> Tool:
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=SCHEMA,
        output_schema=SCHEMA if shaped else None,
        annotations=None if read_only is None else ToolAnnotations(read_only_hint=read_only),
    )


@given(
    st.lists(
        st.builds(
            _sdk_tool,
            name=TEXT,
            title=st.none() | TEXT,
            description=st.none() | st.text(st.characters(codec="utf-8")),
            read_only=st.none() | st.booleans(),
            shaped=st.booleans(),
        )
    )
)
def test_whatever_the_sdk_writes_is_read_as_it_was(tools):
    written = ListToolsResult(tools=tools).model_dump(mode="json", by_alias=True, exclude_none=True)

    specs = list(tool_specs("saved", "tools", written["tools"], "s"))

    assert len(specs) == len(tools)
    for spec, tool in zip(specs, tools, strict=True):
        assert isinstance(spec, ToolSpec)
        assert (spec.name, spec.description) == (tool.name, tool.description or "")
        assert spec.input_schema == tool.input_schema
        assert spec.output_schema == (tool.output_schema or {})
        assert spec.annotations.get("title") == tool.title
        hints = tool.annotations.read_only_hint if tool.annotations else None
        assert spec.annotations.get("readOnlyHint") == hints


def _file(folder: Path, content: Any, name: str = "clock.json") -> Source:
    return Source.by_name(write(folder, name, content))


def _tools(source: Source, server: str | None = None, reader: Reader = LIST) -> list[ToolSpec]:
    tools, refusals = split(reader.read(source, server))
    assert refusals == []
    return tools


SHORT = McpLimits(timeout_s=8.0, max_pages=20)
"""For servers that never answer: long enough to start one on a busy machine."""


@pytest.fixture(scope="module")
def clock_url() -> Generator[str]:
    """A right server over streamable HTTP."""
    with over_http("clock") as address:
        yield f"{address}/mcp"


class TestMcpLiveReader(ReaderConformance):
    reader: ClassVar[Reader] = McpLiveReader()

    def good(self, folder: Path) -> Source:
        return Source.by_name(typed("broken.py", "pair"))

    def mixed(self, folder: Path) -> Source:
        return Source.by_name(typed("broken.py", "one_bad"))

    def nothing(self, folder: Path) -> Source:
        return Source.by_name(typed("broken.py", "no_tools"))


@pytest.mark.slow
def test_everything_that_a_server_says_of_a_tool_is_read(clock_url):
    tools = _tools_live(typed("clock.py"))

    get_time, set_alarm = tools
    hints = {"readOnlyHint": True, "openWorldHint": False}
    assert get_time.id == "clock/get_time"
    assert get_time.description == "Tell the current time in a time zone."
    assert get_time.annotations == {**hints, "title": "Current time"}
    assert get_time.input_schema["properties"]["zone"]["default"] == "UTC"
    assert get_time.output_schema["required"] == ["iso", "zone"]
    assert (get_time.tags, get_time.version) == (("time",), "2")
    assert set_alarm.id == "clock/set_alarm"
    assert _tools_live(clock_url) == tools
    assert [tool.id for tool in _tools_live(clock_url, "")] == ["get_time", "set_alarm"]


@pytest.mark.slow
def test_a_thousand_tools_come_over_their_pages_in_order():
    tools = _tools_live(typed("pages.py", "--tools", "1000", "--size", "50"))

    assert [tool.name for tool in tools] == [f"tool_{number}" for number in range(1000)]


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
def test_servers_of_every_age_and_manner_are_understood(server, name):
    assert [tool.id for tool in _tools_live(typed("broken.py", *server))] == [f"{name}/good"]


@pytest.mark.slow
def test_an_empty_cursor_is_the_end():
    assert len(_tools_live(typed("pages.py", "--empty-cursor"))) == 6


@pytest.mark.slow
def test_the_reader_yields_what_it_has_and_refuses_the_rest():
    source = Source(typed("pages.py", "--endless", "same"))

    tools, [refusal] = split(McpLiveReader().read(source, None))

    assert [tool.name for tool in tools] == ["tool_0", "tool_1"] * 2
    assert (refusal.source, refusal.place) == (source.name, "pages")
    assert refusal.reason.startswith("lists tools without end: ")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("stdio:", "names no command; write stdio:COMMAND ARGS"),
        ("stdio:  ", "names no command; write stdio:COMMAND ARGS"),
        ("stdio:python 'server.py", "cannot be split into words: No closing quotation"),
        ("https://example.org/openapi.json?v=1", "pipe a file in: curl URL"),
    ],
)
def test_a_name_that_starts_nothing(name, reason):
    with pytest.raises(SourceError, match=reason):
        list(McpLiveReader().read(Source(name), None))


def test_which_names_are_live_servers():
    reader = McpLiveReader()

    for name in ("http://a/mcp", "https://a", "HTTPS://A", "stdio:python server.py"):
        assert reader.recognises(Source(name))
    for name in ("tools.json", "ftp://a", "package.module:tools", ""):
        assert not reader.recognises(Source(name))
    assert not reader.recognises(Source("stdio:odd", Path("stdio:odd")))


def test_a_started_command_gets_the_environment_it_is_given():
    name = "stdio:sh -c 'echo I see $VISIBLE >&2; exit 1'"

    with pytest.raises(SourceError, match="stderr ended with 'I see everything'"):
        list(McpLiveReader(env={**os.environ, "VISIBLE": "everything"}).read(Source(name), None))


def test_without_the_sdk_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(MissingExtraError, match="reading live MCP servers needs the extra 'mcp'"):
        list(McpLiveReader().read(Source("https://example.org/mcp"), None))


def test_it_can_be_read_inside_a_running_loop_and_from_a_thread_beside_one():
    name = typed("broken.py", "chatty")

    async def read() -> list[str]:
        read_twice = [*_tools_live(name), *await asyncio.to_thread(_tools_live, name)]
        return [tool.name for tool in read_twice]

    assert asyncio.run(read()) == ["good"] * 2
    # anyio marks its loops in a context variable, which `to_thread` hands on.
    assert anyio.run(read) == ["good"] * 2


@pytest.mark.slow
def test_the_screen_stays_clean():
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

    command = [sys.executable, "-c", code, *names, "http://127.0.0.1:1/mcp"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (finished.stdout, finished.stderr) == ("", "")


def test_a_server_that_will_not_die_is_killed_with_its_children(tmp_path):
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


@pytest.mark.slow
def test_nothing_is_left_behind_when_the_user_interrupts(tmp_path):
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


def _tools_live(name: str, server: str | None = None) -> list[ToolSpec]:
    return _tools(Source(name), server, McpLiveReader())


class TestMcpServersReader(ReaderConformance):
    reader: ClassVar[Reader] = McpServersReader()

    def good(self, folder: Path) -> Source:
        return _file_servers(folder, {"it": entry("broken.py", "pair")})

    def mixed(self, folder: Path) -> Source:
        return _file_servers(
            folder, {"it": entry("broken.py", "one_bad"), "gone": {"command": "no-such"}}
        )

    def nothing(self, folder: Path) -> Source:
        return _file_servers(folder, {"off": {**entry("broken.py", "pair"), "disabled": True}})


def test_one_file_with_everything_that_can_be_right_and_wrong(tmp_path):
    with over_http("web") as address:
        source = _file_servers(
            tmp_path,
            {
                "chatty": entry("broken.py", "chatty"),
                "missing": {"command": "no-such-command"},
                "guarded": {
                    "type": "http",
                    "url": "${BASE}/locked",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
                "hangs": entry("broken.py", "hangs"),
                "off": {**entry("broken.py", "dies"), "disabled": True},
                "dies": entry("broken.py", "dies"),
                "no token": {"url": "https://example.org/mcp", "headers": {"A": "${GH_TOKEN}"}},
                "asks": {"url": "https://example.org/mcp", "headers": {"A": "${input:token}"}},
                "half": entry("broken.py", "stalls"),
                "closed": {"url": f"http://127.0.0.1:{closed_port()}/mcp"},
                "page": {"url": "${BASE}/html"},
                "one bad": entry("broken.py", "one_bad"),
                "nonsense": 7,
            },
        )
        items = _told(source, McpServersReader(SHORT, {"BASE": address, "TOKEN": "s3cret"}))

    starts = [
        "chatty/good",
        "missing: there is no command 'no-such-command'",
        "guarded: answered initialize with the error 'your plan has no tools' (code -32000)",
        "hangs: gave no answer to initialize within 8 s; stderr ended with 'waiting for a licence'",
        "dies: its process ended before it answered initialize",
        "no token: headers.A needs the environment variable 'GH_TOKEN', which is not set",
        "asks: headers.A needs an interactive input (${input:token})",
        "half/good",
        "half: gave no answer to tools/list (page 2) within 8 s; tools kept from before that: 1",
        "closed: cannot be reached",
        "page: is no MCP endpoint: it answered initialize with HTTP 200 (text/html)",
        "one bad/good",
        "one bad: tools[1]: name: missing",
        "one bad: tools[2]: a tool must be an object, not a number",
        "one bad/better",
        "nonsense: must be an object, not a number",
    ]
    for item, start in zip(items, starts, strict=True):
        assert item.startswith(start)


@pytest.mark.parametrize("key", ["tools", "includeTools", "excludeTools", "disabled_tools"])
def test_tools_that_an_entry_switches_off_are_not_read(tmp_path, key):
    names = ["get_*"] if key in {"tools", "includeTools"} else ["set_alarm"]
    clock = entry(str(PLAIN), write(tmp_path, "clock.json", [TIME, ALARM]))

    assert _told_of(tmp_path, {"clock": {**clock, key: names}}) == ["clock/get_time"]


def test_a_wrong_tool_that_is_switched_off_is_not_reported(tmp_path):
    off = {**entry("broken.py", "one_bad"), "includeTools": ["better"]}

    assert _told_of(tmp_path, {"it": off}) == [
        "it: tools[2]: a tool must be an object, not a number",
        "it/better",
    ]


def test_warnings_and_patterns_that_fit_no_tool_are_reported(tmp_path):
    keys = {"includeTools": ["get_time"], "excludeTools": ["get-time"], "secretTools": ["x"]}

    assert _told_of(tmp_path, {"clock": {**entry("clock.py"), **keys}}) == [
        "clock: 'secretTools' is not known; write 'includeTools' or 'excludeTools'",
        "clock/get_time",
        "clock: 'get-time' in a list of its tools fits none",
    ]


def test_a_server_that_still_speaks_server_sent_events(tmp_path):
    with over_http("clock-sse") as address:
        typed = {"type": "sse", "url": f"{address}/sse"}
        servers = {"typed": typed, "falls back": {"url": f"{address}/sse"}}
        items = _told_of(tmp_path, servers)

    assert items == [
        *("typed/get_time", "typed/set_alarm"),
        *("falls back/get_time", "falls back/set_alarm"),
    ]


def test_the_environment_of_the_process_fills_placeholders_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_PYTHON", sys.executable)
    server = {**entry("broken.py", "chatty"), "command": "${TEST_PYTHON}"}

    assert _told_of(tmp_path, {"it": server}) == ["it/good"]


def test_a_server_gets_its_own_variables_and_none_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("OUR_SECRET", "s3cret")
    server = {
        "command": "sh",
        "args": ["-c", 'echo "$OWN and [$OUR_SECRET] in $PWD" >&2; exit 1'],
        "env": {"OWN": "own"},
        "cwd": "/",
    }

    assert _told_of(tmp_path, {"it": server}) == [
        "it: its process ended before it answered initialize; stderr ended with 'own and [] in /'"
    ]


def test_servers_are_asked_at_the_same_time(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as meeting:
        port = str(meeting.getsockname()[1])
        servers = {name: entry("broken.py", "meets", port) for name in "abc"}
        # No server answers before all three have come: one after the other, none ever would.
        host = Thread(target=_let_go_together, args=(meeting, len(servers)))
        host.start()
        items = _told_of(tmp_path, servers, at_once=3)
        host.join()

    assert items == ["a/good", "b/good", "c/good"]


def test_no_more_servers_than_allowed_run_at_the_same_time(tmp_path):
    log = tmp_path / "log"
    servers = {name: entry("broken.py", "logs", str(log)) for name in "abc"}

    assert _told_of(tmp_path, servers, at_once=1) == ["a/good", "b/good", "c/good"]
    assert log.read_text(encoding="utf-8") == "start end " * 3


@pytest.mark.parametrize("document", [{"mcpServers": {}}, {"servers": []}, {"tools": []}, [1]])
def test_a_file_without_servers_is_refused_as_a_whole(tmp_path, document):
    with pytest.raises(SourceError, match="names no MCP servers; put them under 'mcpServers'"):
        list(McpServersReader().read(_file(tmp_path, document, "mcp.json"), None))


@pytest.mark.slow
def test_only_files_that_name_servers_are_recognised(tmp_path):
    reader = McpServersReader()
    lines = '{"mcpServers": {}}\n{"mcpServers": {}}\n'

    assert reader.recognises(_file_servers(tmp_path, {}))
    assert not reader.recognises(_file(tmp_path, "{", "broken.json"))
    assert not reader.recognises(_file(tmp_path, lines, "lines.jsonl"))
    assert not reader.recognises(Source("https://example.org/mcp"))


def _let_go_together(meeting: socket.socket, count: int) -> None:
    guests = [meeting.accept()[0] for _ in range(count)]
    for guest in guests:
        guest.sendall(b"!")
        guest.close()


def _file_servers(folder: Path, servers: dict[str, Any]) -> Source:
    return _file(folder, {"mcpServers": servers}, "mcp.json")


def _told(source: Source, reader: McpServersReader) -> list[str]:
    """Ids of tools, and refusals as `place: reason`."""
    return [
        item.id if isinstance(item, ToolSpec) else f"{item.place}: {item.reason}"
        for item in reader.read(source, None)
    ]


def _told_of(folder: Path, servers: dict[str, Any], at_once: int = 8) -> list[str]:
    return _told(_file_servers(folder, servers), McpServersReader(McpLimits(at_once=at_once)))
