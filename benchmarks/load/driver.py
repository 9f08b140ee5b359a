"""The load: a process of its own that asks, in a closed or in an open loop.

`python -m load.driver PORT QUERIES` answers requests on standard input, one JSON object a line.
Closed: `clients` ask again as soon as they have an answer. Open: requests come at random at
given rates, whether or not earlier ones are answered, and wait for a connection where all are
taken; that counts as their time too.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from select import select
from time import perf_counter
from typing import Any

from load.lines import Line, post

SEED = 11
PATIENCE_S = 60.0
"""A request that has no answer by then is lost."""

GOOD = 200
FOUND = b'"tools":[{'
TOP = 5


@dataclass(slots=True)
class Samples:
    """Every request: when it came, in seconds from the start, its milliseconds and status.

    `empty` counts good answers without a tool.
    """

    start: float
    at: list[float] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    empty: int = 0
    took_s: float = 0.0

    def add(self, line: Line) -> None:
        """Keep the request that has just ended on a line."""
        now = perf_counter()
        self.at.append(line.due - self.start)
        self.ms.append((now - line.due) * 1000)
        self.status.append(line.status)
        self.empty += line.status == GOOD and FOUND not in line.body
        self.took_s = now - self.start

    def as_dict(self, *, each: bool) -> dict[str, Any]:
        """The summary, and every single one where that is asked for."""
        good = sorted(ms for ms, status in zip(self.ms, self.status, strict=True) if status == GOOD)
        found: dict[str, Any] = {
            "requests": len(self.ms),
            "took_s": self.took_s,
            "per_s": len(good) / self.took_s if self.took_s else 0.0,
            "p50_ms": _share(good, 0.5),
            "p99_ms": _share(good, 0.99),
            "max_ms": good[-1] if good else None,
            "status": {str(status): count for status, count in Counter(self.status).items()},
            "empty": self.empty,
        }
        if each:
            found |= {"at": self.at, "ms": self.ms, "statuses": self.status}
        return found


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of an open loop: requests a second, and for how long."""

    rate: float
    seconds: float


def closed(
    port: int,
    requests: Iterator[bytes],
    clients: int,
    goes_on: Callable[[int, float], bool],
) -> Samples:
    """Ask with so many clients for as long as `goes_on(sent, seconds)` says."""
    samples, busy = Samples(perf_counter()), list[Line]()
    sent = sum(_begun(Line(port), next(requests), busy, samples) for _ in range(clients))
    while busy:
        for line in _ended(busy, PATIENCE_S, samples):
            if goes_on(sent, perf_counter() - samples.start):
                sent += _begun(line, next(requests), busy, samples)
            else:
                line.close()
    return samples


def opened(port: int, requests: Iterator[bytes], phases: Sequence[Phase], lines: int) -> Samples:
    """Ask at the phases' rates over at most so many connections."""
    idle, busy = [Line(port) for _ in range(lines)], list[Line]()
    samples = Samples(perf_counter())
    coming, waiting = deque(_arrivals(phases, samples.start)), deque[float]()
    while coming or waiting or busy:
        while coming and coming[0] <= perf_counter():
            waiting.append(coming.popleft())
        while waiting and idle:
            line = idle.pop()
            if not _begun(line, next(requests), busy, samples, waiting.popleft()):
                idle.insert(0, line)
        until = max(0.0, coming[0] - perf_counter()) if coming else PATIENCE_S
        idle += _ended(busy, until, samples)
    for line in idle:
        line.close()
    return samples


def _begun(
    line: Line, request: bytes, busy: list[Line], samples: Samples, due: float | None = None
) -> bool:
    """Begin a request; it is lost where the server cannot be reached."""
    is_sent = line.send(request, due)
    if is_sent:
        busy.append(line)
    else:
        samples.add(line)
    return is_sent


def _ended(busy: list[Line], within_s: float, samples: Samples) -> list[Line]:
    """Wait, and take those lines out of the busy ones whose requests are answered, or lost."""
    ready, _, _ = select(busy, (), (), within_s)
    if ready or within_s < PATIENCE_S:
        ended = [line for line in ready if line.receive()]
    else:
        ended = busy.copy()
        for line in ended:
            line.close()
    for line in ended:
        samples.add(line)
        busy.remove(line)
    return ended


def _arrivals(phases: Sequence[Phase], start: float) -> Iterator[float]:
    chance = random.Random(SEED)
    begins = start
    for phase in phases:
        at = begins
        begins += phase.seconds
        while (at := at + chance.expovariate(phase.rate)) < begins:
            yield at


def _share(ordered: Sequence[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _asked(port: int, requests: Iterator[bytes], wanted: Mapping[str, Any]) -> Samples:
    if "phases" in wanted:
        phases = [Phase(*phase) for phase in wanted["phases"]]
        return opened(port, requests, phases, wanted["lines"])
    count, seconds = wanted.get("count"), wanted.get("seconds")

    def goes_on(sent: int, passed: float) -> bool:
        return sent < count if count is not None else passed < seconds

    return closed(port, requests, wanted["clients"], goes_on)


def main() -> None:
    """Answer what is asked on standard input."""
    port, file = int(sys.argv[1]), Path(sys.argv[2])
    queries = json.loads(file.read_text(encoding="utf-8"))
    bodies = [json.dumps({"query": query, "k": TOP}).encode() for query in queries]
    requests = cycle([post("/v1/tools/search", body) for body in bodies])
    print("{}", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        samples = _asked(port, requests, wanted)
        print(json.dumps(samples.as_dict(each=wanted.get("each", False))), flush=True)


if __name__ == "__main__":
    main()
