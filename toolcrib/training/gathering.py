"""All that a model may learn from, with what must stay unseen taken out and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolcrib.evaluation.dataset import DataSet
from toolcrib.indexers.points import dense_text
from toolcrib.records import ToolSpec
from toolcrib.training.examples import TrainingData, from_labels, pruned, sampled
from toolcrib.training.imitation import imitate
from toolcrib.training.near_duplicates import HeldOut
from toolcrib.training.splits import TRAIN

__all__ = ["Gathered", "gather"]

LIMIT = 3_000
"""Pairs of one data set: with more of them a large set would set the tone for all."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Training data by source, and how many texts of each source were left out."""

    parts: Mapping[str, TrainingData]
    left_out: Mapping[str, int]

    @property
    def pairs(self) -> dict[str, int]:
        """How many pairs each source gave."""
        return {name: len(part.examples) for name, part in self.parts.items()}


def gather(
    data_sets: Sequence[DataSet],
    corpora: Mapping[str, Iterable[ToolSpec]],
    *,
    unseen: Sequence[DataSet] = (),
    imitated: bool = True,
    limit: int = LIMIT,
    corpus_limit: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _source: None,
) -> Gathered:
    """Pairs from the training queries of the data sets, and from tools alone.

    Out go training queries that nearly repeat any query outside the training splits, and tools
    of `corpora` that nearly repeat a tool of a data set. `unseen` are data sets to keep out
    that are not trained on. With `imitated` the data sets' own tools make pairs as well.
    `limit` and `corpus_limit` bound the pairs of a data set and of a corpus.

    Raises:
        MissingExtraError: the extra `train` is not installed.
    """
    every = [*data_sets, *unseen]
    queries = HeldOut(q.text for data in every for q in data.queries if q.split != TRAIN)
    tools = HeldOut(_text(tool) for data in every for tool in data.tools)
    parts: dict[str, TrainingData] = {}
    left_out: dict[str, int] = {}
    for data in data_sets:
        progress(data.name)
        labelled = [query for query in data.split(TRAIN) if query.relevant]
        kept = [query for query in labelled if query.text not in queries]
        left_out[data.name] = len(labelled) - len(kept)
        parts[data.name] = sampled(from_labels(data, kept), limit, seed)
        if imitated:
            made = _without(imitate(data.tools, f"{data.name}: tools", seed=seed), queries)
            parts[f"{data.name}: tools"] = sampled(made, limit, seed)
    for name, specs in corpora.items():
        progress(name)
        found = list(specs)
        fresh = [spec for spec in found if _text(spec) not in tools]
        left_out[name] = len(found) - len(fresh)
        made = _without(imitate(fresh, name, seed=seed), queries)
        # A corpus can be far larger than what is taken of it, and every text must be encoded.
        parts[name] = made if corpus_limit is None else pruned(sampled(made, corpus_limit, seed))
    return Gathered({name: part for name, part in parts.items() if part.examples}, left_out)


def _without(data: TrainingData, held: HeldOut) -> TrainingData:
    return replace(data, examples=tuple(e for e in data.examples if e.query not in held))


def _text(tool: ToolSpec) -> str:
    """What makes it this tool, whatever server offers it."""
    return dense_text(tool.model_copy(update={"server": ""}))
