"""Knowledge routing, measured: the right collection, the right passages, and honest refusals.

    python benchmarks/knowledge.py --data DATA/knowledge --out benchmarks/results/knowledge.json

Collections and passages are indexed as a user would; nothing of a query is. `--examples` gives
each collection its training questions as examples, as a team with a history of questions would.
Baselines in the same run: BM25 voting (top 20 passages of the lexical leg) and each leg alone.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpora import rows
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from toolcrib import Collection, Crib, Passage
from toolcrib.retrieval.fusion import PassageWeights
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.router import knowledge
from toolcrib.router.knowledge import KnowledgeRouter
from toolcrib.router.settings import KnowledgeSettings
from toolcrib.settings import load_settings

SETS = ("swdocs", "lfrqa")
OUTSIDE = {"lfrqa": ("gis", "mathematica", "tex"), "swdocs": ()}
"""Forums of cqadup_routing that fit no collection of a set which has no such queries itself."""

K = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A labelled question: the right collections (none when nothing fits) and passages."""

    text: str
    split: str
    collections: frozenset[str]
    relevant: Mapping[str, float]
    kind: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What hop one knew of a question."""

    asked: Asked
    shares: Mapping[str, float]
    fits: float
    votes: Mapping[str, float]
    similarity: Mapping[str, float]
    scores: tuple[float, ...]


def questions(data: Path, name: str) -> list[Asked]:
    asked = [
        Asked(
            row["text"],
            row["split"],
            frozenset(row["collections"]),
            row["relevant"],
            row.get("meta", {}).get("kind", ""),
        )
        for row in rows(data / name / "queries.jsonl")
    ]
    strangers = [
        Asked(row["text"], row["split"], frozenset(), {}, "other forum")
        for row in rows(data / "cqadup_routing" / "queries.jsonl")
        if set(row["collections"]) <= set(OUTSIDE[name]) and row["collections"]
    ]
    return asked + strangers


def passages(data: Path, name: str) -> list[Passage]:
    """Each document is one passage; its id's last part is its position."""
    return [
        Passage(
            collection=row["collection"],
            document=row["id"],
            text=row["text"],
            title=tuple(part for part in row["title"].split(" › ") if part),
        )
        for row in rows(data / name / "documents.jsonl")
    ]


def open_set(data: Path, name: str, *, examples: bool) -> Crib:
    crib = Crib.open(":memory:", settings=load_settings())
    asked = questions(data, name) if examples else []
    collections = [
        Collection(
            name=row["id"],
            description=row["description"],
            examples=tuple(
                each.text
                for each in asked
                if each.split == "train" and each.collections == {row["id"]}
            )[:200],
        )
        for row in rows(data / name / "collections.jsonl")
    ]
    crib.add_collections(*collections)
    crib.index_passages(passages(data, name))
    return crib


def look(crib: Crib, asked: Sequence[Asked]) -> list[Seen]:
    """Hop one's evidence for each question, and the passages' ranks."""
    catalogue, encode = crib.knowledge.catalogue, crib.tools.retriever.encode
    router = KnowledgeRouter(crib.knowledge.retriever(), catalogue, KnowledgeSettings())
    seen: list[Seen] = []
    for each in asked:
        query = encode(each.text)
        probe = router.best_passages(query)
        votes = knowledge.passage_shares(probe, catalogue.names)
        similarity = catalogue.similarity(query.dense)
        shares, fits = router.collection_scores(query, probe, catalogue.collections)
        best = tuple(hit.score for hit in probe[: knowledge.FIT_PASSAGES])
        seen.append(Seen(each, shares, fits, votes, similarity, best))
    return seen


def ndcg(found: Sequence[str], relevant: Mapping[str, float]) -> float:
    gains = [2 ** relevant.get(each, 0) - 1 for each in found[:K]]
    ideal = sorted((2**grade - 1 for grade in relevant.values()), reverse=True)[:K]
    return dcg(gains) / dcg(ideal)


def dcg(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def auroc(good: Sequence[float], bad: Sequence[float]) -> float | None:
    if not good or not bad:
        return None
    return float(roc_auc_score([True] * len(good) + [False] * len(bad), [*good, *bad]))


def in_first(ranked: Sequence[str], right: frozenset[str], k: int) -> bool:
    return bool(set(ranked[:k]) & right)


def ranked(shares: Mapping[str, float]) -> list[str]:
    return sorted(shares, key=lambda name: -shares[name])


def first_hop(seen: Sequence[Seen]) -> dict[str, Any]:
    inside = [each for each in seen if each.asked.collections]
    outside = [each for each in seen if not each.asked.collections]
    if not inside:
        return {"queries": 0, "unanswerable": len(outside), **refused(inside, outside)}
    orders = [(ranked(each.shares), each.asked.collections) for each in inside]
    return {
        "queries": len(inside),
        "first": np.mean([in_first(order, right, 1) for order, right in orders]).item(),
        "first two": np.mean([in_first(order, right, 2) for order, right in orders]).item(),
        "unanswerable": len(outside),
        "AUROC": auroc([e.fits for e in inside], [e.fits for e in outside]),
        **refused(inside, outside),
    }


def refused(inside: Sequence[Seen], outside: Sequence[Seen]) -> dict[str, float]:
    """The shares of questions that the gate turns away."""
    least = KnowledgeSettings().least
    sides = {"refused, answerable": inside, "refused, unanswerable": outside}
    return {
        name: np.mean([each.fits < least for each in side]).item()
        for name, side in sides.items()
        if side
    }


def ranking(crib: Crib, asked: Sequence[Asked], weights: PassageWeights | None) -> float:
    """nDCG@10 of the passages over all collections."""
    retriever = crib.knowledge.retriever(weights)
    values: list[float] = []
    for each in asked:
        if each.relevant:
            found = retriever.find(crib.tools.retriever.encode(each.text), K)
            values.append(ndcg([hit.passage.document for hit in found], each.relevant))
    return float(np.mean(values))


def bm25_voting(crib: Crib, asked: Sequence[Asked]) -> dict[str, float]:
    """The collection with most of the first twenty passages' BM25."""
    retriever = crib.knowledge.retriever()
    hits: list[tuple[bool, bool]] = []
    for each in asked:
        if not each.collections:
            continue
        query = crib.tools.retriever.encode(each.text)
        words = EncodedQuery(query.text, None, query.lexical)
        votes: defaultdict[str, float] = defaultdict(float)
        for hit in retriever.find(words, 20):
            votes[hit.passage.collection] += hit.legs.lexical
        order = ranked(votes)
        hits.append((in_first(order, each.collections, 1), in_first(order, each.collections, 2)))
    first, two = np.mean(hits, axis=0)
    return {"first": float(first), "first two": float(two)}


def measure(data: Path, name: str, *, examples: bool, split: str) -> dict[str, Any]:
    with open_set(data, name, examples=examples) as crib:
        asked = [each for each in questions(data, name) if each.split == split]
        own = [each for each in asked if each.kind != "other forum"]
        found: dict[str, Any] = {"set": name, "split": split, "examples": examples}
        found |= first_hop(look(crib, asked))
        if not examples:
            found["BM25 voting"] = bm25_voting(crib, own)
            found["nDCG@10"] = {
                "fused": ranking(crib, own, None),
                "dense": ranking(crib, own, PassageWeights(lexical=0)),
                "lexical": ranking(crib, own, PassageWeights(lexical=1, term_scale=1000)),
            }
        if name == "swdocs":
            kinds = sorted({each.kind for each in own})
            seen = look(crib, own)
            found["kinds"] = {
                kind: first_hop([each for each in seen if each.asked.kind == kind])
                for kind in kinds
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    found = [
        measure(chosen.data, name, examples=examples, split=chosen.split)
        for name in SETS
        for examples in (False, True)
    ]
    table = Table("set", "examples", "first", "first two", "AUROC", "nDCG@10 (fused dense lexical)")
    for row in found:
        ndcgs = row.get("nDCG@10", {})
        table.add_row(
            row["set"],
            "train questions" if row["examples"] else "none",
            f"{row['first']:.1%}",
            f"{row['first two']:.1%}",
            f"{row['AUROC']:.3f}" if row["AUROC"] is not None else "",
            " ".join(f"{value:.3f}" for value in ndcgs.values()),
        )
    Console().print(table)
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
