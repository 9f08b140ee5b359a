"""Which labelled queries train, which choose, and which are held back to judge."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.training.near_duplicates import clusters

__all__ = ["DEV", "TEST", "TRAIN", "split_anew", "with_dev"]

TRAIN, DEV, TEST = "train", "dev", "test"
SHARES = {TRAIN: 0.6, DEV: 0.15, TEST: 0.25}
DEV_OF_TRAIN = 0.1


def split_anew(data: DataSet, seed: int = 0) -> DataSet:
    """All queries dealt out anew: 60 % train, 15 % dev, 25 % test.

    Queries that say nearly the same stay together: written from one template, they would tell
    the answers of each other.
    """
    return replace(data, queries=_dealt(data.queries, SHARES, seed))


def with_dev(data: DataSet, seed: int = 0) -> DataSet:
    """The data set, with a tenth of the training queries for development where it has none."""
    train = data.split(TRAIN)
    if not train or data.split(DEV):
        return data
    dealt = iter(_dealt(train, {TRAIN: 1 - DEV_OF_TRAIN, DEV: DEV_OF_TRAIN}, seed))
    queries = (next(dealt) if query.split == TRAIN else query for query in data.queries)
    return replace(data, queries=tuple(queries))


def _dealt(
    queries: Sequence[LabelledQuery], shares: dict[str, float], seed: int
) -> tuple[LabelledQuery, ...]:
    """The queries in their order, each in a split; a cluster is never torn apart."""
    groups = clusters([query.text for query in queries])
    random.Random(seed).shuffle(groups)  # noqa: S311 no secret
    splits: dict[int, str] = {}
    room = {name: share * len(queries) for name, share in shares.items()}
    for group in groups:
        emptiest = max(room, key=lambda name: room[name] / shares[name])
        room[emptiest] -= len(group)
        splits |= dict.fromkeys(group, emptiest)
    return tuple(replace(query, split=splits[at]) for at, query in enumerate(queries))
