"""Fork server: processes of Python that begin with the modules of a service or gateway imported.

Importing them takes a core two to five seconds, and tests start some fifty.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[1]

# Windows has none: there each process imports for itself.
FORKS = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
FORKS.set_forkserver_preload(["tests.fork_preload"])


class ForkedProcess:
    """`python -m MODULE ARGUMENT...` with pipes; `stderr` is as for `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        cwd: Path = ROOT,
        env: Mapping[str, str] = os.environ,
        stderr: IO[bytes] | int | None = None,
    ) -> None:
        (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
        self.stdin = os.fdopen(write_in, "w", encoding="utf-8")
        self.stdout = os.fdopen(read_out, encoding="utf-8")
        self.stderr: IO[str] | None = None
        if stderr == subprocess.PIPE:
            read_err, write_err = os.pipe()
            self.stderr = os.fdopen(read_err, encoding="utf-8")
        else:
            write_err = os.dup(2 if stderr is None else stderr.fileno())
        streams = (
            Connection(read_in, writable=False),
            Connection(write_out, readable=False),
            Connection(write_err, readable=False),
        )
        self._process = FORKS.Process(
            target=_run, args=(module, arguments, str(cwd), dict(env), streams)
        )
        with pytest.MonkeyPatch.context() as patch:
            # The first one starts the server, which must find what it is to import.
            patch.setenv("PYTHONPATH", str(ROOT))
            self._process.start()
        for stream in streams:
            stream.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended."""
        return self._process.exitcode

    def wait(self, timeout_s: float | None = None) -> int:
        """Return the exit code, once there is one."""
        self._process.join(timeout_s)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout_s or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process, unless it has ended, and close its streams."""
        self.kill()
        self.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _run(
    module: str,
    arguments: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    streams: Sequence[Connection],
) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[1:] = arguments
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            # At the end of a process of its own this is no failure.
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
