"""Requests and time of a search over a Qdrant server, beside a folder.

    python -m benchmarks.server

The server is the double of the tests: it sends real HTTP, adds a delay to each request, and answers
by itself in Python, slower than a server. So the processor time of the searching thread is taken,
without the double's work; the delay of the requests, which follow each other, is added.
Tools and requests are those of `data/`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.store.qdrant_over_http import LocalQdrant, running
from toolcrib import Crib
from toolcrib.evaluation.loaders import load

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "server.json"
DELAYS_MS = (0, 2, 10)
SEARCHES = 60


def measure(
    ask: Callable[[str], Any], queries: list[str], server: LocalQdrant | None = None
) -> dict[str, Any]:
    """Median processor milliseconds of a search, and its requests to a server."""
    times: list[float] = []
    requests: list[int] = []
    for query in queries:
        sent = len(server.requests) if server else 0
        start = time.thread_time()
        ask(query)
        times.append((time.thread_time() - start) * 1000)
        requests.append(len(server.requests) - sent if server else 0)
    share = sum(each == median(requests) for each in requests) / len(requests)
    return {
        "processor_ms": round(median(times), 2),
        "requests": median(requests),
        "share_of_searches": round(share, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    data = load(str(ROOT / "data"))
    queries = [query.text for query in data.queries][:: max(1, len(data.queries) // SEARCHES)]
    rows: list[dict[str, Any]] = []
    with running() as server, Crib.open(":memory:") as folder, Crib.open(server.url) as remote:
        folder.index_tools(data.tools)
        remote.index_tools(data.tools)
        calls = {
            "find_tools": (folder.find_tools, remote.find_tools),
            "route": (folder.route, remote.route),
        }
        for name, (local, over) in calls.items():
            for query in queries:  # both fill their caches
                local(query)
                over(query)
            plain = measure(local, queries)
            rows.append({"call": name, "store": "folder", **plain})
            for delay in DELAYS_MS:
                server.delay_s = delay / 1000
                row = measure(over, queries, server)
                waiting = row["requests"] * delay
                total = {
                    "waiting_ms": waiting,
                    "total_ms": round(row["processor_ms"] + waiting, 2),
                    "times_folder": round(row["processor_ms"] / plain["processor_ms"], 2),
                }
                rows.append({"call": name, "store": "server", "delay_ms": delay, **row, **total})
            server.delay_s = 0.0
    found = {
        "command": "python -m benchmarks.server",
        "tools": len(data.tools),
        "searches": len(queries),
        "rows": rows,
    }
    print(json.dumps(found, indent=1))
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
