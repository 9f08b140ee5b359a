"""Evidence: what is known of labelled queries, as they are and with their right tools hidden.

And a head: a linear classifier over the examples of tools, fitted where there are enough of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from toolcrib.crib import Crib
from toolcrib.errors import EncoderError, QueryError, UnknownToolError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.extras import import_extra
from toolcrib.indexers.points import dense_text
from toolcrib.numerics import Floats
from toolcrib.records import ToolSpec
from toolcrib.retrieval.hybrid import Evidence
from toolcrib.retrieval.legs import Head, pack
from toolcrib.store.base import LegQuery, point_id
from toolcrib.store.filters import Filter, HasId, Not

HIDDEN_SHARE = 0.1
"""Total weight of queries with hidden tools, where no real query is unanswerable."""

SAME_TEXT_COSINE, MAX_SAME_TEXTS = 0.9, 20
"""Tools whose own texts have this cosine do the same: where one is hidden, so are the others."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledEvidence:
    """One query's ranking: features [n, f] and whether each of its `n` tools is right.

    `about`: float64 [q], what is known of the query. `lost` is how many needed tools the
    ranking lacks. `hidden`: the query was asked again with all its right tools, and those like
    them, out of reach: this is what an unanswerable one looks like.
    """

    query: LabelledQuery
    features: Floats
    about: Floats
    right: NDArray[np.bool_]
    first_server: str
    lost: int
    weight: float = 1.0
    hidden: bool = False

    @property
    def first_is_right(self) -> bool:
        """True if the first tool answers the query."""
        return bool(self.right.size and self.right[0])

    @property
    def answerable(self) -> bool:
        """True if any tool in reach answers the query."""
        return self.query.answerable and not self.hidden


def gather_evidence(
    crib: Crib,
    queries: Sequence[LabelledQuery],
    *,
    head: Head | None = None,
    by_examples: bool = False,
    words: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[LabelledEvidence]:
    """Ask every query, and those that can be answered also with their right tools hidden.

    `by_examples`: with the head of the tools' examples. With `words`, by words alone.

    Raises:
        StoreError: the store does not answer.
    """
    hiding = _Hiding(crib)
    known = partial(crib.tools.evidence, head=head, by_examples=by_examples, words=words)
    found: list[LabelledEvidence] = []
    for done, query in enumerate(queries, start=1):
        reach = None if query.among is None else HasId(frozenset(map(point_id, query.among)))
        found += _query_evidence(known, query, reach)
        if query.answerable:
            hidden = _query_evidence(known, query, hiding.of(query))
            weight = HIDDEN_SHARE / (1 - HIDDEN_SHARE)
            found += [
                replace(one, right=np.zeros_like(one.right), lost=0, weight=weight, hidden=True)
                for one in hidden
            ]
        progress(done, len(queries))
    return found


def _query_evidence(
    evidence: Callable[..., Evidence], query: LabelledQuery, reach: Filter | None
) -> list[LabelledEvidence]:
    try:
        known = evidence(query.text, where=reach)
    except QueryError:
        return []
    if not known.tools:
        return []
    ids = [tool_id for tool_id, _ in known.tools]
    right = np.array([tool_id in query.relevant for tool_id in ids])
    lost = len(query.relevant.keys() - set(ids))
    return [LabelledEvidence(query, known.features, known.query, right, known.tools[0][1], lost)]


class _Hiding:
    """Keeps the right tools of a query out of reach, and those whose texts are like theirs."""

    def __init__(self, crib: Crib) -> None:
        self._tools = crib.tools
        self._like: dict[str, frozenset[int]] = {}

    def of(self, query: LabelledQuery) -> Filter:
        """Filter that leaves out the query's right tools and tools like them."""
        return Not(HasId(frozenset[int]().union(*map(self._alike_points, query.relevant))))

    def _alike_points(self, tool_id: str) -> frozenset[int]:
        if tool_id not in self._like:
            self._like[tool_id] = self._search_alike(tool_id)
        return self._like[tool_id]

    def _search_alike(self, tool_id: str) -> frozenset[int]:
        own = frozenset({point_id(tool_id)})
        try:
            [vector] = self._tools.encode([dense_text(self._tools.get(tool_id))])
        except (UnknownToolError, EncoderError):
            return own
        [near] = self._tools.store.search([LegQuery("dense", vector, MAX_SAME_TEXTS)])
        return own | {hit.id for hit in near if hit.score >= SAME_TEXT_COSINE}


# -- the head --------------------------------------------------------------------------------

MIN_EXAMPLES = 5
MIN_TOOLS_WITH_EXAMPLES_SHARE = 0.95
MIN_TOOLS, MAX_TOOLS = 2, 1000
"""A head is for registries where all but 5 % of the tools have 5 examples or more."""

INVERSE_REGULARISATION = 10.0
"""On vectors of unit length scikit-learn's 1 is too strong."""


def fit_head(crib: Crib) -> Head | None:
    """A head for the tools of an index; None where too few have examples enough.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    tools = [tool for tool in crib.list_tools() if tool.enabled]
    with_examples = [tool for tool in tools if len(tool.success_examples) >= MIN_EXAMPLES]
    with_examples.sort(key=attrgetter("id"))
    if not MIN_TOOLS <= len(with_examples) <= MAX_TOOLS or len(
        with_examples
    ) < MIN_TOOLS_WITH_EXAMPLES_SHARE * len(tools):
        return None
    return _fit_linear(crib, with_examples)


def _fit_linear(crib: Crib, tools: Sequence[ToolSpec]) -> Head:
    linear = import_extra("sklearn.linear_model", "fitting a head", "eval")
    vectors = crib.tools.encode([text for tool in tools for text in tool.success_examples])
    labels = np.repeat(np.arange(len(tools)), [len(tool.success_examples) for tool in tools])
    model = linear.LogisticRegression(C=INVERSE_REGULARISATION, max_iter=500)
    model.fit(vectors, labels)
    weights, offsets = model.coef_, model.intercept_
    if weights.shape[0] == 1:  # scikit-learn gives one row for two classes
        weights = np.vstack([-weights[0], weights[0]])
        offsets = np.array([-offsets[0], offsets[0]])
    return pack([tool.id for tool in tools], weights, offsets)
