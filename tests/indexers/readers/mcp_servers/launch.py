"""How tests start the servers in this folder: as a target, as a name to type, or over HTTP."""

from __future__ import annotations

import os
import select
import shlex
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib.indexers.readers.mcp_config import StdioTarget

HERE = Path(__file__).parent


def target(script: str, *arguments: str) -> StdioTarget:
    """A script of this folder, to be started over stdio."""
    return StdioTarget(sys.executable, (str(HERE / script), *arguments))


def typed(script: str, *arguments: str) -> str:
    """The same as a user types it: `stdio:python script ...`."""
    return "stdio:" + shlex.join([sys.executable, str(HERE / script), *arguments])


def entry(script: str, *arguments: str) -> dict[str, Any]:
    """The same as it stands in an mcp.json."""
    return {"command": sys.executable, "args": [str(HERE / script), *arguments]}


@contextmanager
def over_http(kind: str, *options: str) -> Generator[str]:
    """Serve `kind` (see `over_http.py`) on loopback; yields the address without a path."""
    command = [sys.executable, str(HERE / "over_http.py"), kind, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def closed_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as once_taken:
        once_taken.bind(("127.0.0.1", 0))
        port: int = once_taken.getsockname()[1]
    return port


def ends(pid: int) -> bool:
    """Whether the process has ended or, having been killed, is just about to."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 5.0)[0])
    finally:
        os.close(process)
