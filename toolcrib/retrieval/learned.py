"""Learned examples: lifts of tools, and of other options, by past successful requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.numerics import Floats
from toolcrib.retrieval.prerequisites import Companions
from toolcrib.retrieval.steps import ToolUse
from toolcrib.store.base import point_id

_Indexes: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

MAX_LIFTED_TOOLS = 200
"""First tools of a ranking that are lifted: use reorders fitting tools, and adds none."""

MAX_LIFT_SHARE, REQUEST_KERNEL_WIDTH_COSINE, UNKNOWN_REQUEST_COSINE = 0.8, 0.1, 0.5
"""Chosen on the train and development splits of six public sets (benchmarks/learning.py): the lift
towards a score of 1 of a tool, if no other tool's examples are similar to the query; the difference
of cosines by which an example counts e times as much; the cosine at which an example counts as much
as all unseen requests together."""

COPY_COSINE = 0.98
"""Cosine from which on an example is a copy of the query: the same words, but for their marks."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedTools:
    """Learned examples of tools, by point: requests, each with the tools that answered it.

    For other choices, a point stands for an option's name. `places`: index of each point among the
    tools. `strengths`: float [tools, 2] in [0, 1], the trust in each tool's examples, for similar
    queries and for copies; with 0 they lift nothing, but still reduce the shares of other tools.
    `vectors`: float32 [requests, d]. `owners` and `requests`: int [examples], the tool and the
    request of each example.
    """

    places: Mapping[int, int]
    strengths: Floats
    vectors: FloatArray
    owners: _Indexes
    requests: _Indexes

    @classmethod
    def of(
        cls, tools: Mapping[int, tuple[tuple[float, float], Mapping[str, FloatArray]]]
    ) -> LearnedTools:
        """Collect strengths and examples of each point; at least one point.

        Examples: the vector, float32 [d], of each request by the request's id.
        """
        examples = [request for _, own in tools.values() for request in own]
        vectors = {name: vector for _, own in tools.values() for name, vector in own.items()}
        numbers = {name: number for number, name in enumerate(vectors)}
        counts = [len(own) for _, own in tools.values()]
        return cls(
            places={point: place for place, point in enumerate(tools)},
            strengths=np.array([strength for strength, _ in tools.values()]),
            vectors=np.stack(list(vectors.values())),
            owners=np.repeat(np.arange(len(counts)), counts),
            requests=np.array([numbers[name] for name in examples]),
        )

    def lifts(self, scores: Mapping[int, float], query: FloatArray) -> dict[int, float]:
        """Lifts of the first `MAX_LIFTED_TOOLS` candidates with examples, by point.

        `scores` are in [0, 1], and so are their sums with the lifts; `query`: float32 [d].
        """
        first: Iterable[int] = scores
        if len(scores) > MAX_LIFTED_TOOLS:
            ranked = sorted(scores, key=lambda point: (-scores[point], point))
            first = ranked[:MAX_LIFTED_TOOLS]
        shares = self.shares(first, self.kernels(query))
        return {point: (1 - scores[point]) * share for point, share in shares.items()}

    def shares(self, points: Iterable[int], kernels: Floats) -> dict[int, float]:
        """Positive shares of the candidates with examples, from `lift_shares`."""
        known = [each for each in points if each in self.places]
        rows = np.array([self.places[each] for each in known], dtype=np.int64)
        shares = self.lift_shares(rows, kernels, self.strengths[rows]).tolist()
        return {each: share for each, share in zip(known, shares, strict=True) if share > 0}

    def kernels(self, query: FloatArray) -> Floats:
        """Weight of each request for a query, float32 [d]: 1 at `UNKNOWN_REQUEST_COSINE`."""
        return np.exp((self.vectors @ query - UNKNOWN_REQUEST_COSINE) / REQUEST_KERNEL_WIDTH_COSINE)

    def lift_shares(self, rows: _Indexes, kernels: Floats, strengths: Floats) -> Floats:
        """Lifts of candidates as shares of the way to a score of 1; `rows` are their indexes.

        A share is the strength times the part of the candidates' requests, weighted by `kernels`,
        that the tool answered (Nadaraya 1964). Tools that are no candidates have no effect.
        `strengths`: float [rows, 2], as of the tools; or [rows, 1], one for both kinds.
        """
        is_candidate = np.zeros(len(self.places), dtype=bool)
        is_candidate[rows] = True
        is_known = np.zeros(len(kernels), dtype=bool)
        is_known[self.requests[is_candidate[self.owners]]] = True
        copied = is_copy(kernels)
        by_tool = [
            np.bincount(self.owners, (kernels * part)[self.requests], minlength=len(self.places))
            for part in (~copied, copied)
        ]
        lifted = (strengths * np.stack(by_tool, axis=1)[rows]).sum(axis=1)
        return MAX_LIFT_SHARE * lifted / (1.0 + kernels[is_known].sum())


def is_copy(kernels: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """True for the kernels of copies."""
    return kernels >= np.exp((COPY_COSINE - UNKNOWN_REQUEST_COSINE) / REQUEST_KERNEL_WIDTH_COSINE)


@dataclass(frozen=True, slots=True)
class UseData:
    """Data learned from use: tools' examples, calls of other runs, and companions of tools."""

    examples: LearnedTools | None = None
    use: ToolUse | None = None
    goes_with: Companions = field(default_factory=dict[str, Sequence[str]])


NO_LEARNED_DATA = UseData()


# -- choices between other options -----------------------------------------------------------------

ROUTE, COLLECTIONS, AGENTS = "route", "collections", "agents"
CAPABILITIES, QUESTIONS = "capabilities", "questions/"
"""Choices with learned examples; the last is a prefix of a question's name."""

NEAREST_EXAMPLES = 10
"""Nearest requests that count for a choice, chosen on development splits of public sets."""


class RankedOptions(NamedTuple):
    """Options of a choice for one text: the text's vector, float32 [d], and their scores."""

    vector: FloatArray | None
    scores: Mapping[str, float]


class LearnedChoices:
    """Learned examples of choices, such as between collections; replaced all at once.

    Without examples every choice is made without learning.
    """

    def __init__(self) -> None:
        self.known: Mapping[str, LearnedTools] = {}

    def shares(
        self, choice: str, options: Iterable[str], query: FloatArray | None
    ) -> dict[str, float]:
        """Learned evidence for each option, for a query, float32 [d]; empty without examples."""
        examples = self.known.get(choice)
        if examples is None or query is None:
            return {}
        names = {point_id(name): name for name in options}
        shares = examples.shares(names, keep_nearest(examples.kernels(query)))
        return {names[point]: share for point, share in shares.items()}

    def mix(
        self,
        choice: str,
        likely: Mapping[str, float],
        query: FloatArray | None,
        min_kept: float = 2,
    ) -> dict[str, float]:
        """Probabilities of a choice's options, mixed with the learned evidence.

        An option above the threshold `min_kept` stays above it.
        """
        mixed = mix_shares(likely, self.shares(choice, likely, query))
        return {
            name: max(mixed[name], min_kept) if each >= min_kept else mixed[name]
            for name, each in likely.items()
        }


def keep_nearest(kernels: Floats) -> Floats:
    """Kernels of the `NEAREST_EXAMPLES` nearest requests, and 0 for all others."""
    if len(kernels) <= NEAREST_EXAMPLES:
        return kernels
    least = np.partition(kernels, -NEAREST_EXAMPLES)[-NEAREST_EXAMPLES]
    return np.where(kernels >= least, kernels, 0)


def mix_shares(likely: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Probabilities reduced by the sum of learned evidence, plus the evidence."""
    left = 1 - min(1.0, sum(shares.values()))
    return {name: left * each + shares.get(name, 0.0) for name, each in likely.items()}
