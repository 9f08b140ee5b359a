"""Builds a shard's graph in a process of its own: the engine would stop every thread of ours.

`python -m toolcrib.store.qdrant_edge FOLDER` optimises the shard in FOLDER and ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from toolcrib.errors import StoreError
from toolcrib.store.folder import copy_sparsely

__all__ = ["optimise_beside"]


def optimise_beside(generation: Path, target: Path) -> None:
    """Copy a flushed generation to `target` and optimise the copy in another process.

    Raises:
        StoreError: the other process failed; `target` is removed, the original is as it was.
    """
    try:
        copy_sparsely(generation, target)
        _run(target / "shard", generation)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _run(shard: Path, original: Path) -> None:
    # A fresh interpreter, never a fork: a forked child hangs on its first query.
    command = [sys.executable, "-m", __name__, str(shard)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise StoreError(f"optimising a copy of {original} failed: {last}")


def _optimise(shard_folder: str) -> None:
    import qdrant_edge as engine

    # The searches of the parent come first.
    os.nice(10)
    shard = engine.EdgeShard.load(shard_folder)
    shard.optimize()
    shard.flush()
    shard.close()


if __name__ == "__main__":
    _optimise(sys.argv[1])
