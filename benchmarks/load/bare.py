"""`find_tools` itself, called by some threads of one process: what a service can at most reach.

`python -m load.bare FOLDER QUERIES` answers `{"threads": 2, "seconds": 5}` on standard input.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

from speed.figures import median

from toolcrib import Crib, Settings

TOP = 5
WARM_UP = 100


def main() -> None:
    """Answer what is asked on standard input."""
    queries = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    with Crib.open(sys.argv[1], settings=Settings()) as crib:
        for query in queries[:WARM_UP]:
            crib.find_tools(query, k=TOP)
        gc.collect()
        gc.freeze()
        print("{}", flush=True)
        for line in sys.stdin:
            print(json.dumps(_rate(crib, queries, **json.loads(line))), flush=True)


def _rate(crib: Crib, queries: list[str], threads: int, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    start = perf_counter()

    def ask(number: int) -> None:
        at = number * len(queries) // threads
        while (began := perf_counter()) < start + seconds:
            crib.find_tools(queries[at % len(queries)], k=TOP)
            times.append((perf_counter() - began) * 1000)
            at += 1

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    took_s = perf_counter() - start
    times.sort()
    return {
        "per_s": len(times) / took_s,
        "p50_ms": median(times),
        "p99_ms": times[int(len(times) * 0.99)],
    }


if __name__ == "__main__":
    main()
