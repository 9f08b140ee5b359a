"""Steps of an agent: score gains by servers in use, by verbs, and by calls of other runs.

Fitted on runs of real agents, whole tasks held out (docs/explanation/steps.md).
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path

from toolcrib.caches import cached_texts
from toolcrib.records import ToolSpec
from toolcrib.retrieval.legs import MAX_NAME_QUERY_CHARS
from toolcrib.retrieval.options import SearchOptions
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import AnyOf, Filter, HasId, all_of
from toolcrib.store.payload import only_tools, read_tool
from toolcrib.text import split_identifier

MAX_SENTENCES, SENTENCE_SHARE = 4, 0.9
"""Last sentences that are searched separately, and the share of their scores that counts."""

SERVER_GAIN, SERVER_DECAY = 0.12, 0.7
"""Score gain of a tool of the server that was used last, and the gain's factor for each server that
was used since: a run over many servers would otherwise bury the tools of all others."""

VERB_WEIGHT = 0.04
"""Score gain for each unit of a verb's log ratio."""

USE_WEIGHT, CALLED_SHARE, AFTER_SHARE = 0.4, 0.7, 0.7
"""Weight of other runs' use in the score, and its two parts: how many runs like this one called the
tool, and how many called it right after this run's last tools; at most 1 together."""

LAST_TOOLS = 3
"""Last called tools whose next calls in other runs count."""

MAX_SCORED_SERVER_TOOLS, MAX_USED_TOOLS = 500, 200
"""Tools of servers in use, and tools that other runs called, which always get a score."""

MAX_GAINED_SCORE = 0.999
"""Upper bound after gains: a score of 1 is for tools that are called by name."""

_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s|\n")


def last_sentences(text: str) -> list[str]:
    """Last sentences of a text, to be searched separately; none for a single sentence."""
    found = [part.strip() for part in _SENTENCE_END.split(text) if any(map(str.isalnum, part))]
    return found[-MAX_SENTENCES:] if len(found) > 1 else []


@cache
def verb_ratios() -> Mapping[str, float]:
    """Log of a verb's share among the tools that agents call over its share among all tools.

    The empty verb stands for names without any listed verb.
    """
    path = Path(__file__).with_name("verbs.csv")
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return {verb: float(ratio) for verb, ratio in rows}


@cached_texts(4_096, MAX_NAME_QUERY_CHARS)
def verb_ratio(name: str) -> float:
    """Log ratio of the first verb of a tool's name."""
    ratios = verb_ratios()
    words = (word.lower() for word in split_identifier(name))
    return ratios[next((word for word in words if word in ratios), "")]


@dataclass(frozen=True, slots=True, eq=False)
class ToolUse:
    """Use of tools by other runs, all in [0, 1].

    `called`: root of the share of runs that called each point. `beside`: of the runs that called a
    point, the root of the share that also called each other point. `after`: the share that called
    it next.
    """

    called: Mapping[int, float]
    after: Mapping[int, Mapping[int, float]]
    beside: Mapping[int, Mapping[int, float]] = field(default_factory=dict[int, dict[int, float]])

    def of(self, points: Iterable[int], called: Sequence[int]) -> dict[int, float]:
        """Use of these points in a run that called the points `called`, in this order.

        How many runs called a tool is the mean over all runs and those that called each tool of
        this run. A tool that no other run called adds 0: the less this run is like others, the less
        their tools count.
        """
        beside = _sum_shares([self.called, *(self.beside.get(point, {}) for point in called)])
        last = called[-LAST_TOOLS:]
        after = _sum_shares(self.after.get(point, {}) for point in last)

        def use(point: int) -> float:
            share = CALLED_SHARE * beside[point] / (1 + len(called))
            return min(1.0, share + AFTER_SHARE * after[point] / max(len(last), 1))

        return {point: use(point) for point in points}

    def most_called(self) -> list[int]:
        """Points that the most runs called."""
        return sorted(self.called, key=lambda point: (-self.called[point], point))[:MAX_USED_TOOLS]


@dataclass(frozen=True, slots=True)
class RunState:
    """Calls of a run so far: ids of its tools by point, in the order of calls.

    `is_step`: the query is what the agent wrote before a call, not a search of its own. `servers`:
    servers of the called tools, the last used first.
    """

    called: Mapping[int, str] = field(default_factory=dict[int, str])
    servers: tuple[str, ...] = ()
    is_step: bool = False

    @classmethod
    def read(cls, store: Store, options: SearchOptions, allowed: Filter | None) -> RunState:
        """State from the options; tools that are not `allowed`, or unknown, are ignored.

        A name stands for an id if it is unambiguous.
        """
        named = options.called or ()
        only = HasId(frozenset(map(point_id, named)))
        known = store.scroll(all_of(only, allowed), ("id", "server")) if named else ()
        servers = {record.payload["id"]: record.payload["server"] for record in known}

        def list_tools(where: Filter) -> Iterator[ToolSpec]:
            records = store.scroll(all_of(where, allowed), ("spec",))
            return (read_tool(record.payload) for record in records)

        others = only_tools((name for name in named if name not in servers), list_tools)
        servers |= {tool.id: tool.server for tool in others.values()}
        ids = [others[name].id if name in others else name for name in named]
        called = {point_id(each): each for each in reversed(ids) if each in servers}
        in_use = dict.fromkeys(servers[each] for each in called.values())
        used = tuple(server for server in in_use if server)
        return cls(dict(reversed(called.items())), used, options.task is not None)

    def points(self, store: Store, limits: Filter | None, use: ToolUse | None) -> set[int]:
        """Points that always get a score: tools of servers in use, and most called tools."""
        here = all_of(AnyOf("server", sorted(self.servers)), limits)
        found = {r.id for r in islice(store.scroll(here, ("id",)), MAX_SCORED_SERVER_TOOLS)}
        if use is not None:
            known = all_of(HasId(frozenset(use.most_called())), limits)
            found |= {r.id for r in store.scroll(known, ("id",))}
        return found

    def gains(
        self, store: Store, scores: Mapping[int, float], use: ToolUse | None
    ) -> dict[str, dict[int, float]]:
        """Gains of scored points by cause; the sums with the scores are in [0, 1)."""
        facts = store.scroll(HasId(frozenset(scores)), ("name", "server"))
        known = {record.id: record.payload for record in facts}
        by_server = {s: SERVER_GAIN * SERVER_DECAY**since for since, s in enumerate(self.servers)}
        gains = {
            "verb": {p: VERB_WEIGHT * verb_ratio(each["name"]) for p, each in known.items()},
            "server_in_use": {
                p: by_server[each["server"]]
                for p, each in known.items()
                if each["server"] in by_server
            },
        }
        if use is not None:
            now = {p: scores[p] + sum(each.get(p, 0.0) for each in gains.values()) for p in scores}
            used = use.of(scores, list(self.called))
            gains["use"] = {p: USE_WEIGHT * (used[p] - _bounded_score(now[p])) for p in scores}
        return gains


EMPTY_RUN_STATE = RunState()


def with_gains(
    scores: Mapping[int, float], gains: Mapping[str, Mapping[int, float]]
) -> dict[int, float]:
    """Scores with all their gains, in [0, 1)."""
    return {
        point: _bounded_score(score + sum(each.get(point, 0.0) for each in gains.values()))
        for point, score in scores.items()
    }


def _sum_shares(shares: Iterable[Mapping[int, float]]) -> defaultdict[int, float]:
    sums: defaultdict[int, float] = defaultdict(float)
    for each in shares:
        for point, share in each.items():
            sums[point] += share
    return sums


def _bounded_score(score: float) -> float:
    return min(MAX_GAINED_SCORE, max(0.0, score))
