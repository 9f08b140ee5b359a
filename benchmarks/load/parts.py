"""What is measured of a running service: rounds, each party in turn, and medians of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

from speed.child import Child
from speed.figures import median, rounded, stats
from speed.fresh import memory_mb

from load.driver import GOOD
from load.served import Service, served

THREADS = (1, 2, 3, 4)
CLIENTS = (1, 8, 32)
WARM_UP_S = 2.0
LINES = 400
"""Connections of an open loop, at most; `select` looks at no more than a thousand."""

BUSY = 503
SOAK_STEPS = 20
SHARE, CALM, TIMES = 0.7, 0.4, 5.0
"""Of the sustained rate: the steady load, the load around an overload, the overload."""

WINDOW_S = 0.1


@dataclass(frozen=True, slots=True)
class Bench:
    """An index in a folder, queries in a file, and how long everything is measured."""

    index: Path
    queries: Path
    seconds: float
    rounds: int

    def copy(self, name: str) -> Path:
        """The index once more: a folder is one process's at a time."""
        folder = self.index.with_name(name)
        copytree(self.index, folder)
        return folder

    def driver(self, service: Service) -> Child:
        """A warmed-up load process for a service."""
        driver = Child("load.driver", str(service.port), str(self.queries))
        driver.ask(clients=4, seconds=WARM_UP_S)
        return driver


def throughput(bench: Bench) -> dict[str, Any]:
    """Calls a second of bare `find_tools`, and requests a second of the service, in turns."""
    bare: dict[int, list[dict[str, Any]]] = defaultdict(list)
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    with ExitStack() as stack:
        alone = Child("load.bare", str(bench.copy("bare")), str(bench.queries))
        stack.callback(alone.close)
        _, driver = stack.enter_context(_one(bench))
        for _ in range(bench.rounds):
            for threads in THREADS:
                bare[threads].append(alone.ask(threads=threads, seconds=bench.seconds))
            for clients in CLIENTS:
                asked = driver.ask(clients=clients, seconds=bench.seconds)
                found[clients].append(_all_good(asked))
    return _throughput_figures(bare, found)


def _throughput_figures(
    bare: Mapping[int, Sequence[Mapping[str, Any]]],
    found: Mapping[int, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    rows = {str(threads): _medians(each) for threads, each in bare.items()}
    service = {str(clients): _medians(each) for clients, each in found.items()}
    best = max(row["per_s"] for row in rows.values())
    sustained = max(row["per_s"] for row in service.values())
    return {
        "bare": rows,
        "service": service,
        "sustained_per_s": sustained,
        "sustained_to_bare": rounded(sustained / best),
    }


def steady(bench: Bench) -> dict[str, Any]:
    """Requests at random at 0.7 of the sustained rate: what a p99 is beside a median."""
    with _one(bench) as (_, driver):
        rate = SHARE * _sustained(driver, bench)
        rounds = [
            _all_good(driver.ask(phases=[[rate, bench.seconds]], lines=LINES))
            for _ in range(bench.rounds)
        ]
    ratios = [each["p99_ms"] / each["p50_ms"] for each in rounds]
    return {
        "offered_per_s": rounded(rate),
        **_medians(rounds),
        "p99_to_p50": rounded(median(ratios)),
        "by_round": [rounded(ratio) for ratio in ratios],
    }


def overload(bench: Bench) -> dict[str, Any]:
    """Five times the sustained rate between two calm stretches."""
    with _one(bench) as (_, driver):
        sustained = _sustained(driver, bench)
        rates = (CALM * sustained, TIMES * sustained, CALM * sustained)
        asked = driver.ask(phases=[[rate, bench.seconds] for rate in rates], lines=LINES, each=True)
    begins, ends = bench.seconds, 2 * bench.seconds
    rows = list(zip(asked["at"], asked["ms"], asked["statuses"], strict=True))
    during = [row for row in rows if begins <= row[0] < ends]
    calm = [ms for at, ms, status in rows if at < begins and status == GOOD]
    return {
        "sustained_per_s": rounded(sustained),
        "offered_per_s": rounded(rates[1]),
        "requests": len(during),
        "answered_per_s": rounded(sum(row[2] == GOOD for row in during) / bench.seconds),
        "turned_away": rounded(sum(row[2] == BUSY for row in during) / len(during)),
        "lost": sum(row[2] not in {GOOD, BUSY} for row in rows),
        "calm_ms": _times(calm),
        "answered_ms": _times([ms for _, ms, status in during if status == GOOD]),
        "turned_away_ms": _times([ms for _, ms, status in during if status == BUSY]),
        "recovery_s": _recovery(rows, ends, median(calm)),
    }


def soak(bench: Bench, requests: int, clients: int = 8) -> dict[str, Any]:
    """Very many requests: errors, and memory as they go on."""
    memory: list[dict[str, float]] = []
    status: dict[str, int] = defaultdict(int)
    took_s = 0.0
    with _one(bench) as (service, driver):
        for _ in range(SOAK_STEPS):
            asked = driver.ask(clients=clients, count=requests // SOAK_STEPS)
            took_s += asked["took_s"]
            memory.append(memory_mb(service.pid))
            for code, count in asked["status"].items():
                status[code] += count
    total = sum(status.values())
    held = [each.get("current_without_files", float("nan")) for each in memory]
    return {
        "requests": total,
        "per_s": rounded(total / took_s),
        "errors": total - status[str(GOOD)],
        "status": dict(status),
        "memory_mb": [rounded(each) for each in held],
        "resident_mb": rounded(memory[-1].get("current", float("nan"))),
        # The first half fills what is filled once: pools of memory, caches of requests.
        "growth_mb": rounded(held[-1] - held[len(held) // 2 - 1]),
    }


# -- what the parts share ------------------------------------------------------------------------


@contextmanager
def _one(bench: Bench) -> Iterator[tuple[Service, Child]]:
    """A service as it is shipped, and a load process for it."""
    log = bench.index.with_suffix(".log")
    with served(bench.index, log, "--insecure-local") as service:
        driver = bench.driver(service)
        try:
            yield service, driver
        finally:
            driver.close()


def _sustained(driver: Child, bench: Bench) -> float:
    """Requests a second in a closed loop, with the best number of clients."""
    return max(
        median(
            _all_good(driver.ask(clients=clients, seconds=bench.seconds))["per_s"]
            for _ in range(bench.rounds)
        )
        for clients in CLIENTS[1:]
    )


def _all_good(asked: dict[str, Any]) -> dict[str, Any]:
    if set(asked["status"]) != {str(GOOD)} or asked["empty"] > asked["requests"] / 2:
        raise SystemExit(f"the service did not answer as it should: {asked}")
    return asked


def _medians(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        name: rounded(median(each[name] for each in rounds))
        for name in ("per_s", "p50_ms", "p99_ms")
    }


def _times(ms: Sequence[float]) -> dict[str, Any] | None:
    return stats(ms) if ms else None


def _recovery(
    rows: Sequence[tuple[float, float, int]], ends: float, calm_ms: float
) -> float | None:
    """Seconds from the end of the load until all is well again; None where it never was.

    It is well in the first window in which nobody was turned away and the median is at most
    twice that of the calm before.
    """
    windows: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for at, ms, status in rows:
        if at >= ends:
            windows[int((at - ends) / WINDOW_S)].append((ms, status))
    for number in sorted(windows):
        window = windows[number]
        is_answered = all(status == GOOD for _, status in window)
        if is_answered and median(ms for ms, _ in window) <= 2 * calm_ms:
            return rounded((number + 1) * WINDOW_S)
    return None
