"""What is measured in processes that have done nothing before: opening, importing, memory.

`python -m speed.fresh open FOLDER` and `python -m speed.fresh memory FOLDER QUERIES` print one
JSON object each. Nothing of toolcrib is imported before the clock starts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
SEARCHES = 200


def memory_mb(pid: int | str = "self") -> dict[str, float]:
    """Resident memory now and at its peak, and how much of it is files (Linux; else nothing)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return {}
    fields = {"VmRSS": "current", "VmHWM": "peak", "RssAnon": "current_without_files"}
    rows = (line.split() for line in text.splitlines())
    return {
        fields[row[0][:-1]]: round(int(row[1]) / 1024, 1)
        for row in rows
        if row and row[0][:-1] in fields
    }


def _open(store: str) -> dict[str, Any]:
    start = time.perf_counter()
    from toolcrib import Crib

    imported = time.perf_counter()
    crib = Crib.open(store)
    opened = time.perf_counter()
    crib.find_tools("send a message to the team")
    searched = time.perf_counter()
    crib.close()
    return {
        "import_crib_s": imported - start,
        "open_s": opened - imported,
        "first_search_s": searched - opened,
    }


def _memory(store: str, queries: list[str]) -> dict[str, Any]:
    from toolcrib import Crib

    with Crib.open(store) as crib:
        opened = memory_mb()
        for at in range(SEARCHES):
            crib.find_tools(queries[at % len(queries)])
        return {"after_opening": opened, f"after_{SEARCHES}_searches": memory_mb()}


# -- the near end ------------------------------------------------------------------------------


def _ask(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "speed.fresh", *arguments]
    done = subprocess.run(command, cwd=HERE, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _wall_s(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def _cli() -> list[str]:
    script = Path(sys.executable).with_name("toolcrib")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "toolcrib"]


def fresh_processes(store: Path, query: str, runs: int) -> dict[str, Any]:
    """Seconds of everything that starts cold, in turns: medians over `runs` processes each."""
    commands = {
        "bare_python_s": [sys.executable, "-c", "pass"],
        "python_import_toolcrib_s": [sys.executable, "-c", "import toolcrib"],
        "cold_search_s": [*_cli(), "search", query, "--store", str(store)],
    }
    found: dict[str, list[float]] = {}
    for turn in range(runs + 1):
        taken = {name: _wall_s(command, store.parent) for name, command in commands.items()}
        taken |= _ask("open", str(store))
        if turn:  # the first turn fills the file cache
            for name, seconds in taken.items():
                found.setdefault(name, []).append(seconds)
    medians = {name: statistics.median(values) for name, values in found.items()}
    medians["import_toolcrib_s"] = medians["python_import_toolcrib_s"] - medians["bare_python_s"]
    return {"runs": runs, **{name: round(seconds, 4) for name, seconds in medians.items()}}


def peak_memory(store: Path, folder: Path) -> dict[str, Any]:
    """Memory of a process that opens the store and searches, in MB."""
    return _ask("memory", str(store), str(folder / "queries.json"))


if __name__ == "__main__":
    if sys.argv[1] == "open":
        print(json.dumps(_open(sys.argv[2])))
    else:
        texts = json.loads(Path(sys.argv[3]).read_text(encoding="utf-8"))
        print(json.dumps(_memory(sys.argv[2], texts)))
