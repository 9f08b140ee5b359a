"""The rounds: toolcrib, its encoder and the peers take turns on the same queries."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from speed.child import Child
from speed.figures import median, median_ratio, rounded, stats
from speed.inputs import Inputs
from speed.peers import TOP
from toolcrib import Crib, FindResult, Scope

SEED = 3
WARM_UP = 20
OWN = ("encode", "find", "engine", "tenth")

Item = TypeVar("Item")

Times = dict[int, float]
"""Milliseconds by the query's number."""


def timed_ms(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and how long it takes."""
    start = time.perf_counter()
    found = call()
    return found, (time.perf_counter() - start) * 1000


def engine_ms(result: FindResult) -> float:
    """A search without the encoding of its query."""
    return result.took_ms["total"] - result.took_ms["encode"]


def _rotated(items: Sequence[Item], by: int) -> Sequence[Item]:
    start = by % len(items)
    return [*items[start:], *items[:start]]


@dataclass
class Rounds:
    """Runs rounds and keeps their samples; `samples[name]` is a list of rounds."""

    inputs: Inputs
    crib: Crib
    tenth: Crib
    scopes: Mapping[str, Scope]
    peers: Mapping[str, Child]
    budget_s: float
    samples: dict[str, list[Times]] = field(default_factory=lambda: defaultdict(list))
    stages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    hits: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def run(self, rounds: int) -> None:
        """Take turns; who begins changes from round to round."""
        for query in self.inputs.queries[:WARM_UP]:
            for crib in (self.crib, self.tenth):
                crib.find_tools(query, k=TOP)
        for number in range(rounds):
            order = random.Random(SEED + number).sample(
                range(len(self.inputs.queries)),
                len(self.inputs.queries),
            )
            turns: list[Callable[[list[int]], None]] = [self._own, self._scoped]
            turns += [self._peer(name, peer) for name, peer in self.peers.items()]
            for turn in _rotated(turns, number):
                turn(order)

    def _own(self, order: list[int]) -> None:
        """Query by query: the encoder alone, the whole search, the search in a tenth."""
        encode, find, engine, tenth = Times(), Times(), Times(), Times()

        def alone(at: int, query: str) -> None:
            _, encode[at] = timed_ms(lambda: self.inputs.encoder.encode_query(query))

        def whole(at: int, query: str) -> None:
            result, find[at] = timed_ms(lambda: self.crib.find_tools(query, k=TOP))
            engine[at] = engine_ms(result)
            for stage, ms in result.took_ms.items():
                self.stages[stage].append(ms)

        def small(at: int, query: str) -> None:
            tenth[at] = engine_ms(self.tenth.find_tools(query, k=TOP))

        for place, at in enumerate(order):
            for step in _rotated((alone, whole, small), place):
                step(at, self.inputs.queries[at])
        for name, times in zip(OWN, (encode, find, engine, tenth), strict=True):
            self.samples[name].append(times)

    def _scoped(self, order: list[int]) -> None:
        """The same queries within scopes and without one.

        What comes first finds the caches cold, so each comes first in turn.
        """
        wanted: dict[str, Scope | None] = {"plain": None, **self.scopes}
        taken: dict[str, Times] = {name: {} for name in wanted}
        for place, at in enumerate(order):
            for name in _rotated(tuple(wanted), place):
                result = self.crib.find_tools(self.inputs.queries[at], k=TOP, scope=wanted[name])
                taken[name][at] = engine_ms(result)
        for name, times in taken.items():
            self.samples[name].append(times)

    def _peer(self, name: str, peer: Child) -> Callable[[list[int]], None]:
        def turn(order: list[int]) -> None:
            answer = peer.ask(queries=order, budget_s=self.budget_s)
            self.samples[name].append(dict(answer["ms"]))
            self.hits[name] += answer["hits"]

        return turn

    # -- figures -----------------------------------------------------------------------------

    def _stats(self, name: str) -> dict[str, Any]:
        return stats([ms for times in self.samples[name] for ms in times.values()])

    def _ratio(self, above: str, below: str) -> float:
        """Median over the rounds of the ratio within a round."""
        pairs = zip(self.samples[above], self.samples[below], strict=True)
        return rounded(median(median_ratio(one, other) for one, other in pairs))

    def own_figures(self) -> dict[str, Any]:
        """Toolcrib's own."""
        return {
            "encode_ms": self._stats("encode"),
            "find_ms": self._stats("find"),
            "engine_ms": self._stats("engine"),
            "stages_ms": {name: rounded(median(ms)) for name, ms in self.stages.items()},
            "find_to_encode": self._ratio("find", "encode"),
            "tenth_engine_ms": self._stats("tenth"),
            "growth_tenfold": self._ratio("engine", "tenth"),
            "scoped": {
                name: {"engine_ms": self._stats(name), "to_plain": self._ratio(name, "plain")}
                for name in self.scopes
            },
        }

    def peer_figures(self) -> dict[str, Any]:
        """The peers', with how many times as long as toolcrib's engine part they take."""
        found: dict[str, Any] = {}
        for name, peer in self.peers.items():
            ms = self._stats(name)
            if self.hits[name] < ms["samples"] * TOP / 2:
                raise SystemExit(f"{name} found next to nothing: it is not driven as it must")
            found[name] = {
                **peer.about,
                "load_s": rounded(peer.about["load_s"]),
                "ms": ms,
                "times_toolcrib": self._ratio(name, "engine"),
                "hits_a_query": rounded(self.hits[name] / ms["samples"]),
            }
        return found
