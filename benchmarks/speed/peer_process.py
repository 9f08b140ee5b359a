"""A peer in a process of its own: its imports and its memory disturb nobody.

`python -m speed.peer_process NAME FOLDER` answers requests on standard input, one JSON object a
line: `{"queries": [0, 1], "budget_s": 5}` gives `{"ms": [[0, 1.2], [1, 1.3]], "hits": 10}`.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from speed.fresh import memory_mb
from speed.peers import PEERS, Peer, Prepared

__all__ = ["PeerProcess"]

HERE = Path(__file__).resolve().parents[1]
AT_LEAST = 3
WARM_UP = 3


class PeerProcess:
    """The near end."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._log = (folder / f"peer-{name.replace(' ', '-')}.log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "speed.peer_process", name, str(folder)],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.about = self._read()

    @property
    def is_there(self) -> bool:
        """Whether its package is installed."""
        return "missing" not in self.about

    def ask(self, queries: list[int], budget_s: float) -> tuple[dict[int, float], int]:
        """Milliseconds of each query that fitted into the budget, and how many tools came back."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"queries": queries, "budget_s": budget_s}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return dict(answer["ms"]), answer["hits"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise SystemExit(f"the peer {self.name} ended:\n{self._log.read()[-2000:]}")
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._log.close()


def _serve(name: str, folder: Path) -> None:
    # Libraries print; the wire is ours alone.
    wire = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    described, prepared = PEERS[name], Prepared(folder)
    about = {"does": described.does, "package": described.package}
    try:
        version = metadata.version(described.package)
    except metadata.PackageNotFoundError:
        _write(wire, about | {"missing": described.package})
        return
    # Reading our files is not the peer's work.
    _ = prepared.specs, prepared.texts, prepared.vectors, prepared.queries, prepared.query_vectors
    start = time.perf_counter()
    peer = described.make(prepared)
    load_s = time.perf_counter() - start
    for at in range(min(WARM_UP, len(prepared.queries))):
        peer.search(at)
    gc.collect()
    gc.freeze()
    _write(wire, about | {"version": version, "load_s": load_s, "memory_mb": memory_mb()})
    for line in sys.stdin:
        request = json.loads(line)
        _write(wire, _answer(peer, request["queries"], request["budget_s"]))


def _answer(peer: Peer, queries: list[int], budget_s: float) -> dict[str, Any]:
    taken: list[tuple[int, float]] = []
    hits = 0
    until = time.perf_counter() + budget_s
    for at in queries:
        if len(taken) >= AT_LEAST and time.perf_counter() > until:
            break
        start = time.perf_counter()
        found = peer.search(at)
        taken.append((at, (time.perf_counter() - start) * 1000))
        hits += len(found)
    return {"ms": taken, "hits": hits}


def _write(wire: TextIO, answer: dict[str, Any]) -> None:
    wire.write(json.dumps(answer) + "\n")
    wire.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]))
