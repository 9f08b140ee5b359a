"""What a model learns from: texts of tools, and queries with the texts that answer them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.indexers.points import clean, dense_text

__all__ = ["Example", "TrainingData", "from_labels", "joined", "pruned", "sampled"]

MAX_POSITIVES = 2
"""A query that needs more tools teaches with this many of them; the others are masked."""


@dataclass(frozen=True, slots=True)
class Example:
    """A query, the place of the text it is drawn to, and of all texts that answer it.

    `negatives` are places of texts that look right and are not. `source` names the set that
    the example comes from: batches are drawn within a source or across all.
    """

    query: str
    positive: int
    relevant: frozenset[int]
    source: str
    negatives: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Texts, each once, and the examples that point to them."""

    documents: tuple[str, ...]
    examples: tuple[Example, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over all texts and pairs, in order."""
        hashed = hashlib.sha256()
        for text in self.documents:
            hashed.update(text.encode("utf-8", "surrogatepass") + b"\0")
        for example in self.examples:
            places = f"{example.positive} {sorted(example.relevant)} {example.negatives}"
            line = f"{example.query}\0{places}\0{example.source}\n"
            hashed.update(line.encode("utf-8", "surrogatepass"))
        return hashed.hexdigest()


def from_labels(data: DataSet, queries: Iterable[LabelledQuery]) -> TrainingData:
    """Pairs from labelled queries: each with its highest graded tools, at most two.

    Queries that no tool answers, and labels that name no tool of the set, are passed over.
    """
    places: dict[str, int] = {}
    by_id = {
        tool.id: places.setdefault(dense_text(tool), len(places))
        for tool in sorted(data.tools, key=lambda tool: tool.id)
    }
    examples: list[Example] = []
    for query in queries:
        known = [tool for tool in query.relevant if tool in by_id]
        text = clean(query.text)
        if not known or not text:
            continue
        best = sorted(known, key=lambda tool: (-query.relevant[tool], tool))[:MAX_POSITIVES]
        relevant = frozenset(by_id[tool] for tool in known)
        places_of_best = dict.fromkeys(by_id[tool] for tool in best)
        examples += (Example(text, place, relevant, data.name) for place in places_of_best)
    return TrainingData(tuple(places), tuple(examples))


def joined(parts: Sequence[TrainingData]) -> TrainingData:
    """Several sets as one; a text that two of them hold is one text."""
    places: dict[str, int] = {}
    examples: list[Example] = []
    for part in parts:
        moved = [places.setdefault(text, len(places)) for text in part.documents]
        examples += (_moved(example, moved) for example in part.examples)
    return TrainingData(tuple(places), tuple(examples))


def _moved(example: Example, places: Sequence[int] | Mapping[int, int]) -> Example:
    return replace(
        example,
        positive=places[example.positive],
        relevant=frozenset(places[place] for place in example.relevant),
        negatives=tuple(places[place] for place in example.negatives),
    )


def pruned(data: TrainingData) -> TrainingData:
    """Only the texts that an example points to."""
    used = sorted({p for e in data.examples for p in (e.positive, *e.relevant, *e.negatives)})
    moved = {place: number for number, place in enumerate(used)}
    examples = (_moved(example, moved) for example in data.examples)
    return TrainingData(tuple(data.documents[place] for place in used), tuple(examples))


def sampled(data: TrainingData, limit: int, seed: int) -> TrainingData:
    """At most `limit` examples, drawn with a seed; all texts stay, as negatives."""
    if len(data.examples) <= limit:
        return data
    return replace(data, examples=tuple(random.Random(seed).sample(data.examples, limit)))  # noqa: S311 no secret
