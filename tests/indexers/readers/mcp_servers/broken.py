"""Processes that are started as an MCP server and are none, or none for long."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INITIALIZED: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "broken", "version": "1"},
}

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
GOOD = {"name": "good", "description": "Works.", "inputSchema": {"type": "object"}}


def hangs() -> None:
    """Read everything, answer nothing, end at the end of stdin."""
    sys.stderr.write("waiting for a licence\n")
    for _ in sys.stdin:
        pass


def stubborn(fifo: str) -> None:
    """Answer nothing and outlive a closed stdin and SIGTERM, together with a child."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _announce(fifo, f"{os.getpid()} {child.pid}")
    while True:
        time.sleep(600)


def waits(fifo: str) -> None:
    """Answer nothing, once a test knows that it runs."""
    _announce(fifo, f"{os.getpid()}")
    hangs()


def meets(port: str) -> None:
    """Answer only once a listener on that port says so: it may wait for others to come too."""
    with socket.create_connection(("127.0.0.1", int(port))) as meeting:
        meeting.recv(1)
    chatty()


def logs(path: str) -> None:
    """Write to a file when it starts and when it ends."""
    _append(path, "start ")
    chatty()
    _append(path, "end ")


def stalls() -> None:
    """Give a first page and never a second."""
    for request in _requests():
        if request["method"] == "initialize":
            _answer(request, INITIALIZED)
        elif not request.get("params", {}).get("cursor"):
            _answer(request, {"tools": [GOOD], "nextCursor": "more"})


def old_version() -> None:
    """Insist on a version of the protocol that no one speaks."""
    for request in _requests():
        _answer(request, {**INITIALIZED, "protocolVersion": "1999-01-01"})


def dies() -> None:
    """End with a traceback, as a server does whose token is missing."""
    raise SystemExit("Error: API_TOKEN is required")


def garbage() -> None:
    """Print a banner to stdout and end."""
    _write("<html>Welcome to my server!</html>")


def chatty() -> None:
    """Log to stdout between the answers, as many servers do by mistake."""
    _write("Server is starting...")
    _list([GOOD])


def pair() -> None:
    """List two tools, as it should."""
    _list([GOOD, {**GOOD, "name": "better"}])


def half_character() -> None:
    """List a text that was cut within an emoji, as JavaScript's `slice` does."""
    _list([{**GOOD, "description": "Works \ud83d"}])


def one_bad() -> None:
    """List a tool without a name and one that is a number, between two that are right."""
    _list([GOOD, {"description": "No name.", "inputSchema": {}}, 7, {**GOOD, "name": "better"}])


def no_list() -> None:
    """Answer tools/list with something that is not a list."""
    _list("none")


def no_tools() -> None:
    """A server of resources only."""
    for request in _requests():
        if request["method"] == "initialize":
            _answer(request, INITIALIZED)
        else:
            _refuse(request)


def modern_only(name: str = "") -> None:
    """Know `server/discover` and no handshake, as the protocol of 2026-07-28 allows."""
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **complete}
    if name:
        discovered["_meta"] = {SERVER_INFO: {"name": name, "version": "1"}}
    listed = {"tools": [GOOD], **complete}
    for request in _requests():
        if request["method"] == "server/discover":
            _answer(request, discovered)
        elif request["method"] == "tools/list":
            _answer(request, listed)
        else:
            _refuse(request)


def touchy() -> None:
    """End at any first message but `initialize`, as servers on rmcp before 3.0 do."""
    for number, request in enumerate(_requests()):
        if number == 0 and request["method"] != "initialize":
            raise SystemExit("expected initialize request")
        _answer(request, INITIALIZED if request["method"] == "initialize" else {"tools": [GOOD]})


def _announce(fifo: str, text: str) -> None:
    """Write to a named pipe; returns once someone has begun to read it."""
    Path(fifo).write_text(text, encoding="utf-8")


def _append(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


def _requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            yield message


def _list(tools: Any) -> None:
    for request in _requests():
        _answer(request, INITIALIZED if request["method"] == "initialize" else {"tools": tools})


def _answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    _send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def _refuse(request: dict[str, Any]) -> None:
    error = {"code": -32601, "message": "Method not found"}
    _send({"jsonrpc": "2.0", "id": request["id"], "error": error})


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _send(message: dict[str, Any]) -> None:
    _write(json.dumps(message))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
