"""The order of examples: batches within a source, and batches across all."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["batches"]

Source = TypeVar("Source")


def batches(
    sources: Sequence[Source], size: int, *, homogeneous: float = 0.5, seed: int = 0
) -> list[list[int]]:
    """Places of examples, `size` a batch, each example once; the last few that fill none are out.

    A share of `homogeneous` of every source goes into batches of its own: their other texts are
    alike and make hard negatives. The rest is mixed, so that no source's style tells its texts.
    """
    rng = random.Random(seed)  # noqa: S311 no secret
    by_source: defaultdict[Source, list[int]] = defaultdict(list)
    for place, source in enumerate(sources):
        by_source[source].append(place)
    drawn: list[list[int]] = []
    mixed: list[int] = []
    for places in by_source.values():
        rng.shuffle(places)
        whole = int(len(places) * homogeneous) // size * size
        drawn += (places[start : start + size] for start in range(0, whole, size))
        mixed += places[whole:]
    rng.shuffle(mixed)
    full = len(mixed) // size * size
    drawn += (mixed[start : start + size] for start in range(0, full, size))
    rng.shuffle(drawn)
    return drawn
