"""A real service process over an index, and what the system says of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Service", "served"]

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 60.0


class Service:
    """The near end of a running service."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.port = port

    def memory_mb(self) -> dict[str, float]:
        """Resident memory, and the part of it that is no file (Linux; else nothing)."""
        try:
            text = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return {}
        fields = {"VmRSS:": "resident", "RssAnon:": "without_files"}
        rows = (line.split() for line in text.splitlines())
        return {fields[row[0]]: int(row[1]) / 1024 for row in rows if row and row[0] in fields}

    def cpu_s(self) -> float:
        """Processor time that it has used."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        except OSError:
            return float("nan")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def wait_until_ready(self) -> None:
        """Wait for `/readyz` to say yes."""
        until = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise SystemExit(f"the service ended with {self._process.returncode}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise SystemExit(f"the service was not ready within {READY_WITHIN_S:g} s")

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=STOPPED_WITHIN_S)


@contextmanager
def served(store: Path, settings: Mapping[str, str], log: Path) -> Iterator[Service]:
    """`toolcrib serve` over a folder, ready to answer; `settings` are variables of its own."""
    port = _free_port()
    script = Path(sys.executable).with_name("toolcrib")
    command = [str(script)] if script.is_file() else [sys.executable, "-m", "toolcrib"]
    command += ["serve", "--insecure-local", "--store", str(store), "--port", str(port)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            cwd=store.parent,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        service = Service(process, port)
        try:
            service.wait_until_ready()
            yield service
        except BaseException:
            print(log.read_text(encoding="utf-8", errors="replace")[-2000:], file=sys.stderr)
            raise
        finally:
            if process.poll() is None:
                service.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
