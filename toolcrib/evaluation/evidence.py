"""What retrieval knows of labelled queries: what calibrations are fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolcrib.crib import Crib
from toolcrib.errors import QueryError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.retrieval.confidence import Floats
from toolcrib.retrieval.head import Head
from toolcrib.store.filters import Filter, HasId, Not
from toolcrib.store.base import point_id

__all__ = ["LabelledEvidence", "gather_evidence"]

HIDDEN_SHARE = 0.1
"""What queries whose tools were hidden weigh together, where no real unanswerable ones are."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledEvidence:
    """One query's ranking: features [n, f] and whether each of its `n` tools is right.

    `lost` is how many needed tools the ranking lacks. `hidden`: the query was asked again with
    all its right tools out of reach, to see what an unanswerable one looks like.
    """

    query: LabelledQuery
    features: Floats
    right: NDArray[np.bool_]
    first_server: str
    lost: int
    weight: float = 1.0
    hidden: bool = False

    @property
    def first_is_right(self) -> bool:
        """Whether the first tool answers the query."""
        return bool(self.right.size and self.right[0])

    @property
    def answerable(self) -> bool:
        """Whether any tool in reach answers the query."""
        return self.query.answerable and not self.hidden


def gather_evidence(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    *,
    head: Head | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[LabelledEvidence]:
    """Ask every query; where all are answerable, also with their right tools hidden.

    Raises:
        StoreError: the store does not answer.
    """
    hide = all(query.answerable for query in queries)
    found: list[LabelledEvidence] = []
    for done, query in enumerate(queries, start=1):
        found += _asked(crib, query, head, weight=1.0, hidden=False)
        if hide:
            weight = HIDDEN_SHARE / (1 - HIDDEN_SHARE)
            found += _asked(crib, query, head, weight=weight, hidden=True)
        progress(done, len(queries))
    return found


def _asked(
    crib: Crib, query: LabelledQuery, head: Head | None, *, weight: float, hidden: bool
) -> list[LabelledEvidence]:
    try:
        known = crib.tools.evidence(query.text, where=_reach(query, hidden=hidden), head=head)
    except QueryError:
        return []
    if not known.tools:
        return []
    relevant = set[str]() if hidden else set(query.relevant)
    ids = [tool_id for tool_id, _ in known.tools]
    right = np.array([tool_id in relevant for tool_id in ids])
    lost = len(relevant - set(ids))
    return [LabelledEvidence(query, known.features, right, known.tools[0][1], lost, weight, hidden)]


def _reach(query: LabelledQuery, *, hidden: bool) -> Filter | None:
    if hidden:
        return Not(HasId(frozenset(map(point_id, query.relevant))))
    if query.among is not None:
        return HasId(frozenset(map(point_id, query.among)))
    return None
