"""A peer in a process of its own: its imports and its memory disturb nobody.

`python -m speed.peer_process NAME FOLDER` answers requests on standard input, one JSON object a
line: `{"queries": [0, 1], "budget_s": 5}` gives `{"ms": [[0, 1.2], [1, 1.3]], "hits": 10}`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from speed.fresh import memory_mb
from speed.peers import PEERS, Peer, Prepared

AT_LEAST = 3
WARM_UP = 3


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
