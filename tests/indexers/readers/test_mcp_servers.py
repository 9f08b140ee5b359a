"""A whole mcp.json: many real servers at once, of which some fail and the others go on."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from tests.indexers.readers.conformance import ReaderConformance
from tests.indexers.readers.mcp_servers.launch import closed_port, entry, over_http
from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.readers.mcp import McpServersReader
from toolcrib.indexers.readers.mcp_config import McpLimits
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.records import Refusal, ToolSpec

SHORT = McpLimits(timeout_s=3.0, max_pages=20)


class TestMcpServersReader(ReaderConformance):
    reader: ClassVar[Reader] = McpServersReader()

    def good(self, folder: Path) -> Source:
        return _file(folder, {"it": entry("broken.py", "pair")})

    def mixed(self, folder: Path) -> Source:
        return _file(folder, {"it": entry("broken.py", "one_bad"), "gone": {"command": "no-such"}})

    def nothing(self, folder: Path) -> Source:
        return _file(folder, {"off": {**entry("broken.py", "pair"), "disabled": True}})


def test_one_file_with_everything_that_can_be_right_and_wrong(tmp_path: Path) -> None:
    with over_http("web") as address:
        source = _file(
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
        items = _read(source, McpServersReader(SHORT, {"BASE": address, "TOKEN": "s3cret"}))

    assert _told(items) == [
        "chatty/good",
        "missing: there is no command 'no-such-command': install it, or write its full path",
        "guarded: answered initialize with the error 'your plan has no tools' (code -32000)",
        (
            "hangs: gave no answer to initialize within 3 s; "
            "its last words were 'waiting for a licence'"
        ),
        (
            "dies: its process ended before it answered initialize; "
            "its last words were 'Error: API_TOKEN is required'"
        ),
        (
            "no token: headers.A needs the environment variable 'GH_TOKEN', which is not set; "
            "set it, or write ${GH_TOKEN:-default}"
        ),
        (
            "asks: headers.A needs an interactive input (${input:token}), which only an editor "
            "asks for; write an environment variable there, such as ${TOKEN}"
        ),
        "half/good",
        "half: gave no answer to tools/list (page 2) within 3 s; tools kept from before that: 1",
        "closed: cannot be reached: All connection attempts failed; is it running there?",
        (
            "page: is no MCP endpoint: it answered initialize with HTTP 200 (text/html); "
            "check the path, which often ends in /mcp"
        ),
        "one bad/good",
        "one bad: tools[1]: name: missing",
        "one bad: tools[2]: a tool must be an object, not a number",
        "one bad/better",
        "nonsense: must be an object, not a number",
    ]


def test_a_server_that_still_speaks_server_sent_events(tmp_path: Path) -> None:
    with over_http("clock-sse") as address:
        source = _file(tmp_path, {"clock": {"type": "sse", "url": f"{address}/sse"}})
        items = _read(source, McpServersReader())

    assert _told(items) == ["clock/get_time", "clock/set_alarm"]


def test_the_environment_of_the_process_fills_placeholders_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_TEST_PYTHON", sys.executable)
    server = {**entry("broken.py", "chatty"), "command": "${TOOLCRIB_TEST_PYTHON}"}

    assert _told(_read(_file(tmp_path, {"it": server}), McpServersReader())) == ["it/good"]


def test_a_server_gets_its_own_variables_and_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "s3cret")
    server = {
        "command": "sh",
        "args": ["-c", 'echo "$OWN and [$OUR_SECRET] in $PWD" >&2; exit 1'],
        "env": {"OWN": "own"},
        "cwd": "/",
    }

    assert _told(_read(_file(tmp_path, {"it": server}), McpServersReader())) == [
        "it: its process ended before it answered initialize; its last words were 'own and [] in /'"
    ]


def test_the_server_name_can_be_given_for_all(tmp_path: Path) -> None:
    source = _file(tmp_path, {"a": entry("broken.py", "chatty")})

    assert _told(list(McpServersReader().read(source, "office"))) == ["office/good"]


def test_vs_code_names_its_servers_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = json.dumps({"it": {"type": "stdio", **entry("broken.py", "chatty")}})
    path.write_text(f'{{ // ours\n"inputs": [], "servers": {servers}, }}', encoding="utf-8")
    source = Source(str(path), path)

    assert McpServersReader().recognises(source)
    assert _told(_read(source, McpServersReader())) == ["it/good"]


def test_servers_are_asked_at_the_same_time(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as meeting:
        port = str(meeting.getsockname()[1])
        servers = {name: entry("broken.py", "meets", port) for name in "abc"}
        # No server answers before all three have come: one after the other, none ever would.
        host = Thread(target=_let_go_together, args=(meeting, len(servers)))
        host.start()
        items = _read(_file(tmp_path, servers), McpServersReader(McpLimits(at_once=3)))
        host.join()

    assert _told(items) == ["a/good", "b/good", "c/good"]


def test_no_more_servers_than_allowed_run_at_the_same_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    servers = {name: entry("broken.py", "logs", str(log)) for name in "abc"}

    items = _read(_file(tmp_path, servers), McpServersReader(McpLimits(at_once=1)))

    assert _told(items) == ["a/good", "b/good", "c/good"]
    assert log.read_text(encoding="utf-8") == "start end " * 3


@pytest.mark.parametrize("document", [{"mcpServers": {}}, {"servers": []}, {"tools": []}, [1]])
def test_a_file_without_servers_is_refused_as_a_whole(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(SourceError) as caught:
        list(McpServersReader().read(Source(str(path), path), None))

    assert caught.value.reason == (
        "names no MCP servers; put them under 'mcpServers' (VS Code: 'servers')"
    )


def test_only_files_that_name_servers_are_recognised(tmp_path: Path) -> None:
    reader = McpServersReader()
    broken, lines = tmp_path / "broken.json", tmp_path / "lines.jsonl"
    broken.write_text("{", encoding="utf-8")
    lines.write_text('{"mcpServers": {}}\n{"mcpServers": {}}\n', encoding="utf-8")

    assert reader.recognises(_file(tmp_path, {}))
    assert not reader.recognises(Source(str(broken), broken))
    assert not reader.recognises(Source(str(lines), lines))
    assert not reader.recognises(Source("https://example.org/mcp"))


def test_without_the_sdk_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'toolcrib\[mcp\]'"):
        _read(_file(tmp_path, {"a": {"command": "x"}}), McpServersReader())


def _let_go_together(meeting: socket.socket, count: int) -> None:
    guests = [meeting.accept()[0] for _ in range(count)]
    for guest in guests:
        guest.sendall(b"!")
        guest.close()


def _file(folder: Path, servers: dict[str, Any]) -> Source:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return Source(str(path), path)


def _read(source: Source, reader: McpServersReader) -> list[ToolSpec | Refusal]:
    return list(reader.read(source, None))


def _told(items: list[ToolSpec | Refusal]) -> list[str]:
    """Ids of tools, and refusals as `place: reason`."""
    return [
        item.id if isinstance(item, ToolSpec) else f"{item.place}: {item.reason}" for item in items
    ]
