"""Real processes and how a test waits for them: a service, and an engine that can fail."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from tests.fork_server import ForkedProcess
from toolcrib import Settings, build
from toolcrib.access.keys import Grant, KeyRing

ROOT = Path(__file__).parents[2]

PATIENCE_S = 60.0
"""Far more than anything takes: a busy machine is no failure."""

FAST = {"TOOLCRIB_ENCODER__DENSE": "deterministic", "TOOLCRIB_CONTEXT__DETECTOR": "heuristic"}

Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str) -> Found:
    """Look again until something is there."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.02)
    return found


def served(ask: Callable[..., httpx2.Response], path: str, **how: Any) -> httpx2.Response:
    """The good answer to a request, which a busy machine may give late."""
    end = time.monotonic() + PATIENCE_S
    while (answer := ask(path, **how)).status_code not in {200, 204}:
        assert time.monotonic() < end, f"{path}: {answer.status_code} {answer.text}"
        time.sleep(0.02)
    return answer


def make_key(store: Path | str, **grant: Any) -> str:
    """The text of a new key that may write, to every namespace unless the grant says otherwise."""
    records_db = build.open_records_db(str(store), Settings())
    try:
        granted = {"namespaces": ("*",), "access": "write", **grant}
        return KeyRing(records_db).create("test", Grant(**granted))[1]
    finally:
        records_db.close()


def client_of(url: str, key: str, namespace: str | None = None) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {key}"}
    if namespace is not None:
        headers["Toolcrib-Namespace"] = namespace
    return httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S)


def pages(client: httpx2.Client, path: str, **params: Any) -> Iterator[dict[str, Any]]:
    """Every page of a list, each once the one before was read."""
    cursor: dict[str, str] | None = {}
    while cursor is not None:
        page = client.get(path, params={**params, **cursor}).json()
        yield page
        cursor = None if page["next"] is None else {"cursor": page["next"]}


def head_of(client: httpx2.Client, body: bytes) -> bytes:
    """The head of a client's request to write tools, for who sends the body bit by bit."""
    lines = [
        "POST /v1/tools HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    kept = ("Authorization", "Toolcrib-Namespace")
    lines += [f"{name}: {client.headers[name]}" for name in kept if name in client.headers]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


class Served:
    """`toolcrib serve` in a process of its own; `settings` are variables without their prefix.

    A `module` with its first arguments, or a `command`, which starts without the fork server, may
    stand in place of `toolcrib`.
    """

    def __init__(
        self,
        store: Path | str,
        log: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        module: Sequence[str] = ("toolcrib",),
        command: Sequence[str] = (),
        options: Sequence[str] = (),
        errors: Path | None = None,
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if "TOOLCRIB" not in name}
        chosen = {f"TOOLCRIB_{name}": str(value) for name, value in (settings or {}).items()}
        self.log = log
        with (errors or log).open("ab") as said_wrong:
            how: Any = {
                "stderr": said_wrong,
                "cwd": log.parent,
                "env": {**kept, **FAST, **chosen, "PYTHONPATH": str(ROOT)},
            }
            words = ("serve", "--store", str(store), "--port", "0", "--json", *options)
            self.process = (
                subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, **how)
                if command
                else ForkedProcess(*module, *words, **how)
            )
        line = self.process.stdout.readline()
        assert line, f"the service did not start: {log.read_text()[-2000:]}"
        said = json.loads(line)
        self.url: str = said["url"]
        self.pid: int = said["pid"]

    def client(self, key: str, namespace: str | None = None) -> httpx2.Client:
        return client_of(self.url, key, namespace)

    def ready(self) -> httpx2.Response:
        """What `/readyz` says, with the status 0 where nobody answers."""
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=PATIENCE_S)
        except httpx2.TransportError:
            return httpx2.Response(0)

    def gauge(self, name: str) -> float:
        """One of the figures of `/metrics` that have no labels."""
        text = httpx2.get(f"{self.url}/metrics", timeout=PATIENCE_S).text
        return next(
            float(line.split()[1])
            for line in text.splitlines()
            if line.startswith(f"toolcrib_{name} ")
        )

    def is_idle(self) -> bool:
        """Whether nothing is under way, nor goes on behind a caller's back."""
        return self.gauge("requests_under_way") == self.gauge("abandoned_work") == 0

    def connect(self) -> socket.socket:
        """A connection that says nothing by itself."""
        place = urlsplit(self.url)
        return socket.create_connection((place.hostname, place.port), PATIENCE_S)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as an operator does; its exit code."""
        return self._end(signal.SIGTERM)

    def tell(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def _end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


class Engine:
    """A Qdrant server in a process of its own, on one port however often it is started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self.url = ""
        self.start()

    def start(self) -> None:
        self._process = ForkedProcess(
            "tests.faults.qdrant_process", str(self._folder), str(self._port)
        )
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the engine did not start"
        self._port = int(self.url.rpartition(":")[2])

    def order(self, *orders: Mapping[str, Any]) -> None:
        """Let it misbehave so, in place of earlier orders; without any, let it behave."""
        httpx2.put(f"{self.url}/orders", json=list(orders), timeout=PATIENCE_S)

    def freeze(self) -> None:
        """Let it hang: connections are taken, and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def mend(self) -> None:
        """Let it run and behave, whatever became of it."""
        if self._process.poll() is not None:
            self._process.close()
            self.start()
        self.thaw()
        self.order()

    def gone(self) -> None:
        """Wait until it has died by an order of its own."""
        self._process.wait(PATIENCE_S)
        self._process.close()

    def kill(self) -> None:
        self._process.close()
