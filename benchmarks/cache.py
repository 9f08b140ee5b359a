"""Cache of model answers, measured: how often a near turn's decision would have been another one.

    python benchmarks/cache.py --out benchmarks/results/cache.json

A language model that is always right stands behind the agents' cache, which is empty at first. The
labelled turns are asked one after the other; where the cache answers, its label is looked at. Each
turn is asked again in the words of `WORDINGS`, which leave its label, since turns of one set are
hardly ever near each other, and those for a database once more in the words of `FLIPS`, which
change it. `threshold` is the lowest from which on no more than 1 of 100 hits is wrong on the
development split; the test split tells what `AgentSettings.cache_similarity` is worth.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora import rows

from toolcrib.build import make_agents, make_dense
from toolcrib.clock import SystemClock
from toolcrib.encoders.base import FloatArray
from toolcrib.records import AgentDecision, Turn
from toolcrib.router.choices.agents import DecisionCache, PendingTarget, cache_key
from toolcrib.router.settings import AgentSettings
from toolcrib.settings import Settings

DATA = Path(__file__).parent.parent / "data"
SETS = {
    "agents": (DATA / "agents.jsonl", "agent"),
    "turns": (DATA / "turns.jsonl", "route"),
    "questions": (DATA / "questions" / "turns.jsonl", "branch"),
    "development": (DATA / "questions" / "development.jsonl", "branch"),
}
THRESHOLDS = (0.85, 0.875, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.99)
MOST_FALSE = 0.01
FLIPS = ("what does it mean: {}", "how is this done: {}", "are we allowed to: {}")
"""What makes a turn for a database one for documents, by the rules of the targets that ship."""

WORDINGS = ("{}", "please, {}", "{} thanks", "hey, {}?", "{} !")


@dataclass(frozen=True, slots=True)
class CachedTurn:
    """A labelled turn as the cache sees it."""

    key: Hashable
    vector: FloatArray
    label: str
    row: str


def cached_turns(split: str) -> dict[str, list[CachedTurn]]:
    """The turns of each set in a split, in every wording."""
    settings = Settings(agents=AgentSettings(targets="preset"))
    router, dense = make_agents(settings), make_dense(settings)
    found: dict[str, list[CachedTurn]] = {}
    for name, (file, field) in SETS.items():
        found[name] = []
        for row in rows(file):
            if row["split"] != split:
                continue
            label = row["labels"][field]
            said = [(wording, label) for wording in WORDINGS]
            if label == "analytics":
                said += [(flip, "knowledge") for flip in FLIPS]
            for wording, told in said:
                turn = Turn.model_validate(
                    {k: row[k] for k in ("history", "attachments") if k in row}
                    | {"text": wording.format(row["text"])}
                )
                pending = PendingTarget(turn, router.reader.read(turn))
                # A question is one of several files: another one has another cache.
                key = cache_key(pending, pending.evidence), row.get("config")
                vector = dense.encode_query(turn.text)
                found[name].append(CachedTurn(key, vector, told, row["id"]))
    return found


def measure(
    turns: Sequence[CachedTurn], similarity: float, *, keyed: bool = True
) -> dict[str, Any]:
    """Of all turns, how many the cache answers, and how many of those wrongly.

    Without `keyed` the vectors alone decide.
    """
    cache = DecisionCache(SystemClock(), size=10_000, ttl_s=1e9, similarity=similarity)
    hits = others = false = 0
    for each in turns:
        key = each.key if keyed else None
        known = cache.get(key, each.vector)
        if known is None:
            cache.put(key, each.vector, AgentDecision(each.label, 1.0, each.row))
        else:
            hits += 1
            others += known.reason != each.row
            false += known.target != each.label
    return {"turns": len(turns), "hits": hits, "others": others, "false": false}


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """The parts together, with shares."""
    told = list(parts)
    added = {
        name: sum(each[name] for each in told) for name in ("turns", "hits", "others", "false")
    }
    return {
        **added,
        "hit rate": added["hits"] / added["turns"],
        "wrong of hits": added["false"] / max(1, added["hits"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    dev, test = cached_turns("dev"), cached_turns("test")
    found: dict[str, Any] = {"dev": {}}
    for near in THRESHOLDS:
        for keyed in (True, False):
            sets = {name: measure(turns, near, keyed=keyed) for name, turns in dev.items()}
            name = f"{near}" if keyed else f"{near}, vectors alone"
            found["dev"][name] = total(sets.values())
    fine = [n for n in THRESHOLDS if found["dev"][f"{n}"]["wrong of hits"] <= MOST_FALSE]
    best = min(n for n in fine if all(higher in fine for higher in THRESHOLDS if higher > n))
    shipped = AgentSettings().cache_similarity
    sets = {name: measure(turns, shipped) for name, turns in test.items()}
    found |= {"threshold": best, "test": total(sets.values()), "test, each set": sets}
    print(json.dumps(found, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
