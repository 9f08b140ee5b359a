"""Runs: the tools that agents' runs called with success, and the tools called next.

Counts are by key: a key changes the learned shares by at most its share of all runs.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TypeAlias

from toolcrib.caches import BoundedMap
from toolcrib.clock import DAY_S
from toolcrib.learning.lessons import MIN_EXAMPLE_WEIGHT, KeyWeights, age_weight, bounded_share
from toolcrib.learning.observations import day_of, read_newest
from toolcrib.records.reports import UsedTool
from toolcrib.retrieval.steps import ToolUse
from toolcrib.store.base import point_id
from toolcrib.store.records_db import DbRow, RecordsDb

MAX_RUNS = 5_000
"""Runs kept in a namespace; the oldest are removed."""

MAX_RUN_CALLS = 200
"""Last calls that are kept of a run; repeated calls of one tool in a row are one call."""

MAX_PAIRED_TOOLS = 20
"""Last different tools of a run that are paired with one another."""

MIN_RUNS = 20
"""Runs of the last `HALF_LIFE_DAYS` below which nothing is learned."""

MAX_SHOWN_NEXT = 3
"""Next tools that the status shows for each tool."""

MAX_RUN_DECISIONS = 100_000
"""Decisions whose runs are remembered until their calls are reported."""

PairWeights: TypeAlias = defaultdict[tuple[int, int], KeyWeights]
"""Weights of runs by the caller's key, of pairs of points."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run of an agent: the tools that it called with success, in their order.

    `at` is the time of the last call, in Unix seconds; `by` the id of the caller's key.
    """

    id: str
    at: float
    by: str
    tools: tuple[str, ...]

    @property
    def day(self) -> str:
        """Day of the last call in UTC, as `2026-01-31`."""
        return day_of(self.at)

    def row(self) -> DbRow:
        """Row of the run."""
        return DbRow(self.id, self.at, {"by": self.by, "tools": list(self.tools)})


class RunTable:
    """Runs of a namespace, in the table `runs/NAMESPACE`. Safe for several threads.

    Every method raises `StoreError` if the database fails.
    """

    def __init__(self, database: Callable[[], RecordsDb], namespace: str) -> None:
        self._database, self._table = database, f"runs/{namespace}"
        self._keys: BoundedMap[str, tuple[str, str]] = BoundedMap(MAX_RUN_DECISIONS)
        self._lock = threading.Lock()

    def remember(self, decision_id: str, session: str | None, by: str) -> None:
        """Keep the run of a decision; without a session the decision is a run of its own."""
        self._keys[decision_id] = f"{by}\n{session or decision_id}", by

    def record(self, decision_id: str, tool: str, at: float) -> bool:
        """Add a successful call to the run of a decision; False if the decision is unknown."""
        known = self._keys.get(decision_id)
        if known is None:
            return False
        run_id = _run_id(known[0])
        with self._lock:
            row = self._database().get(self._table, run_id)
            tools: list[str] = [] if row is None else row.body["tools"]
            if tools[-1:] != [tool]:
                run = Run(run_id, at, known[1], (*tools, tool)[-MAX_RUN_CALLS:])
                self._database().put(self._table, run.row())
        return True

    def run_id(self, decision_id: str) -> str | None:
        """Id of the run of a decision; None if the decision is unknown."""
        known = self._keys.get(decision_id)
        return None if known is None else _run_id(known[0])

    def read(self) -> list[Run]:
        """Read the newest `MAX_RUNS`, oldest first, and remove older runs."""
        rows = read_newest(self._database(), self._table, MAX_RUNS)
        return [Run(row.id, row.at, row.body["by"], tuple(row.body["tools"])) for row in rows]

    def remove(self, what: str) -> None:
        """Remove the runs of a day, a key, or a tool alone; other runs lose the tool."""
        for run in self.read():
            left = tuple(tool for tool in run.tools if tool != what)
            if what in {run.day, run.by or None} or not left:
                self._database().delete(self._table, run.id)
            elif left != run.tools:
                self._database().put(self._table, Run(run.id, run.at, run.by, left).row())


def _run_id(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def tool_use(runs: Iterable[Run], now: float) -> ToolUse | None:
    """Tool use by runs, which decay like observations; None below `MIN_RUNS` recent runs."""
    weights = {run: age_weight((now - run.at) / DAY_S, changed=False) for run in runs if run.tools}
    weights = {run: weight for run, weight in weights.items() if weight >= MIN_EXAMPLE_WEIGHT}
    whole = math.fsum(weights.values())
    if sum(weight >= 1 / 2 for weight in weights.values()) < MIN_RUNS:
        return None
    by_key: KeyWeights = defaultdict(float)
    called: defaultdict[int, KeyWeights] = defaultdict(lambda: defaultdict(float))
    nexts: PairWeights = defaultdict(lambda: defaultdict(float))
    others: PairWeights = defaultdict(lambda: defaultdict(float))
    for run, weight in weights.items():
        points = list(map(point_id, run.tools))
        by_key[run.by] += weight
        for point in set(points):
            called[point][run.by] += weight
        for pair in set(pairwise(points)):
            nexts[pair][run.by] += weight
        last = list(dict.fromkeys(reversed(points)))[:MAX_PAIRED_TOOLS]
        for pair in permutations(last, 2):
            others[pair][run.by] += weight
    shares = {key: weight / whole for key, weight in by_key.items() if key}
    beside = _pair_shares(others, called, shares)
    return ToolUse(
        {p: bounded_share(c, whole, shares) ** 0.5 for p, c in called.items()},
        after=_pair_shares(nexts, called, shares),
        beside={p: {o: s**0.5 for o, s in each.items()} for p, each in beside.items()},
    )


def _pair_shares(
    pairs: PairWeights, called: Mapping[int, KeyWeights], shares: Mapping[str, float]
) -> dict[int, dict[int, float]]:
    """Share of the runs with the first point of each pair that have the pair."""
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for (first, second), counts in pairs.items():
        if first != second:
            found[first][second] = bounded_share(counts, sum(called[first].values()), shares)
    return dict(found)


def used_tools(runs: Iterable[Run], use: ToolUse) -> tuple[UsedTool, ...]:
    """Tools by the number of runs that called them, with the tools called next."""
    names = {point_id(tool): tool for run in runs for tool in run.tools}

    def called_next(point: int) -> dict[str, float]:
        shares = use.after.get(point, {})
        most = sorted(shares, key=lambda other: (-shares[other], names[other]))
        return {names[other]: shares[other] for other in most[:MAX_SHOWN_NEXT]}

    most = use.most_called()
    return tuple(UsedTool(names[p], use.called[p] ** 2, called_next(p)) for p in most)
