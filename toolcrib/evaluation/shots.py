"""Few-shot intents: some labelled training queries become the examples of their intent."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

from toolcrib.evaluation.dataset import DataSet

__all__ = ["with_shots"]


def with_shots(data: DataSet, shots: int, seed: int = 0) -> DataSet:
    """The data set with up to `shots` training queries as examples of each intent.

    Queries that became examples are queries no more. Only intents are taught, and only from
    queries of the split `train` that one intent answers.
    """
    if data.kind != "intents" or shots == 0:
        return data
    pools: defaultdict[str, list[str]] = defaultdict(list)
    for query in data.split("train"):
        if len(query.relevant) == 1:
            pools[next(iter(query.relevant))].append(query.text)
    rng = random.Random(seed)  # noqa: S311 -- a seeded choice, nothing secret
    chosen = {
        tool.id: tuple(rng.sample(pools[tool.id], min(shots, len(pools[tool.id]))))
        for tool in data.tools
    }
    taken = {text for texts in chosen.values() for text in texts}
    return replace(
        data,
        tools=tuple(
            tool.model_copy(update={"success_examples": tool.success_examples + chosen[tool.id]})
            for tool in data.tools
        ),
        queries=tuple(query for query in data.queries if query.text not in taken),
        notes=(*data.notes, f"up to {shots} training queries are examples of each intent"),
    )
