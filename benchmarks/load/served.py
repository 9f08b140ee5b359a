"""A real service process over an index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Service:
    """A running service."""

    pid: int
    url: str

    @property
    def port(self) -> int:
        """Port on the loopback address."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def served(store: Path, log: Path, *options: str, **settings: str) -> Iterator[Service]:
    """`toolcrib serve` over a folder, ready to answer; `settings` are variables of its own."""
    command = [sys.executable, "-m", "toolcrib", "serve", "--port", "0", "--json", *options]
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            [*command, "--store", str(store)],
            cwd=store.parent,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the service ended:\n{log.read_text('utf-8')[-2000:]}")
            yield Service(process.pid, json.loads(line)["url"])
        finally:
            process.terminate()
