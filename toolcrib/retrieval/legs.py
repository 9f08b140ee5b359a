"""Legs: a query is checked, encoded, asked of every named vector, fused and ranked.

Each leg brings its best points, and then every point that any leg brought is scored by the
others too: a convex combination needs all scores, and asking for them costs a tenth of
a millisecond where guessing them costs accuracy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from toolcrib.encoders.base import FloatArray, SparseVector, from_text, to_text
from toolcrib.errors import QueryError, SettingsError
from toolcrib.store.base import LegQuery, Scored, Store, point_id
from toolcrib.store.filters import AnyOf, Filter, HasId, all_of, validate
from toolcrib.store.payload import squeeze

__all__ = [
    "DEPTH",
    "Candidates",
    "EncodedQuery",
    "FusionWeights",
    "Head",
    "LegScores",
    "Legs",
    "Place",
    "by_score",
    "check_query",
    "convex",
    "fuse",
    "has_words",
    "name_keys",
    "names_by_score",
    "pack",
    "rank",
    "reciprocal_rank",
]

DEPTH = 20
"""Candidates a leg, at least; twice as many as are asked for. With 20, 50 or 100 the first ten
were the same on the development splits, to a hundredth of nDCG@10."""

MAX_NAMED = 50
MAX_NAME_CHARS = 200
MAX_NAME_WORDS = 8
"""Longer queries are sentences: only identifiers in them can be names."""

_IDENTIFIER = re.compile(r"\w+(?:[_\-./:]\w+)+|\w*[a-z][A-Z]\w*")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedQuery:
    """A query ready for the legs, made once and shared by whoever searches with it.

    `dense`: float32 [d], or None when the dense encoder failed and the lexical leg is alone.
    `clauses`: float32 [n, d], empty or None where the query has one clause only.
    """

    text: str
    dense: FloatArray | None
    lexical: SparseVector
    degraded: tuple[str, ...] = ()
    clauses: FloatArray | None = None


def name_keys(text: str) -> set[str]:
    """The names that a query may be asking for: itself, and every identifier in it.

    The whole query matches a name whatever the separators; an identifier within a sentence
    only as it is written, lest `e-mail` call a tool named `email`.
    """
    keys = {found.casefold() for found in _IDENTIFIER.findall(text[:MAX_NAME_CHARS])}
    if len(text) <= MAX_NAME_CHARS and len(text.split()) <= MAX_NAME_WORDS:
        keys.add(squeeze(text))
    return keys - {""}


def has_words(text: str) -> bool:
    """Whether there is anything to search by: a letter or a digit of any script."""
    return any(letter.isalnum() for letter in text)


def check_query(query: str, k: int | Literal["auto"], where: Filter | None) -> None:
    """Stop what cannot be answered.

    Raises:
        QueryError: an empty query, an impossible `k`, or a filter on an unknown field.
    """
    if not query.strip():
        raise QueryError("the query is empty: say in a few words what the tool must do")
    if k != "auto" and k < 1:
        raise QueryError(f"k is {k}; at least one tool must be asked for")
    if where is not None:
        validate(where)


class LegScores(NamedTuple):
    """One candidate's evidence, as the legs gave it (a tuple: a query makes a hundred of them).

    `dense`, `clauses`, `examples` and `anti_patterns` are cosines in [-1, 1]; `clauses` is that
    of the query's best clause, None where it has one only, and `examples` and `anti_patterns`
    are None for a tool that has none. `lexical` is BM25, >= 0. `head` is a
    log-probability, <= 0, None without a head.
    """

    dense: float
    lexical: float = 0.0
    examples: float | None = None
    anti_patterns: float | None = None
    head: float | None = None
    clauses: float | None = None


class Head(BaseModel):
    """A fitted head: `weights` are float16 [len(ids), dimensions] as base64, row by row."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ids: tuple[str, ...]
    dimensions: int
    weights: str
    offsets: tuple[float, ...]

    def log_probabilities(self, query: FloatArray, among: Iterable[int]) -> dict[int, float]:
        """The log-probability of each point in `among` that the head knows.

        `query`: float32 [d]. They add up to 1 over these points alone: a tool out of the
        caller's reach changes no other tool's probability.
        """
        rows = {point: self._rows[point] for point in among if point in self._rows}
        if not rows:
            return {}
        places = list(rows.values())
        logits = self._matrix[places] @ query + self._offsets[places]
        logits -= logits.max()
        logits -= np.log(np.exp(logits).sum())
        return dict(zip(rows, logits.tolist(), strict=True))

    @cached_property
    def _matrix(self) -> NDArray[np.float32]:
        return from_text(self.weights, self.dimensions)

    @cached_property
    def _offsets(self) -> NDArray[np.float32]:
        return np.asarray(self.offsets, dtype=np.float32)

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {point_id(tool_id): row for row, tool_id in enumerate(self.ids)}


def pack(ids: list[str], weights: FloatArray, offsets: FloatArray) -> Head:
    """A head of fitted weights: float [len(ids), d], and offsets: float [len(ids)]."""
    return Head(
        ids=tuple(ids),
        dimensions=weights.shape[1],
        weights=to_text(weights),
        offsets=tuple(round(float(value), 5) for value in offsets),
    )


class Legs:
    """One query's searches.

    `where` holds for every leg; `idf_corpus` is the part of it that is the caller's scope, over
    which word frequencies are counted, so that what is out of scope changes no score. `hints`:
    whether the store's points have examples and anti-patterns, as tools do and passages do not.
    """

    def __init__(
        self,
        store: Store,
        query: EncodedQuery,
        where: Filter | None,
        idf_corpus: Filter | None,
        depth: int = DEPTH,
        *,
        hints: bool = True,
    ) -> None:
        self._store = store
        self._where = where
        self._depth = depth
        self._text = query.text
        self._hints = hints
        self._questions = {
            name: LegQuery(name, query.dense, depth, where)
            for name in (("dense", "examples") if hints else ("dense",))
            if query.dense is not None
        }
        clauses = () if query.clauses is None else query.clauses
        self._clauses = {
            f"clause {number}": LegQuery("dense", clause, depth, where)
            for number, clause in enumerate(clauses, start=1)
        }
        if query.lexical.indices.size:
            self._questions["lexical"] = LegQuery(
                "lexical", query.lexical, depth, where, idf_corpus
            )

    def named(self) -> set[int]:
        """Points whose tool is called by its exact name or id in the query."""
        keys = name_keys(self._text)
        if not keys:
            return set()
        called = all_of(AnyOf("name_key", sorted(keys)), self._where)
        return {each.id for each in islice(self._store.scroll(called, ("id",)), MAX_NAMED)}

    def candidates(self, named: set[int]) -> dict[int, LegScores]:
        """Every point that a leg brought or that was named, with all its scores."""
        questions = {**self._questions, **self._clauses}
        brought = self._ask(list(questions.values()))
        found = dict(zip(questions, brought, strict=True))
        scores = {leg: {hit.id: hit.score for hit in hits} for leg, hits in found.items()}
        points = set[int](named).union(*scores.values())
        for leg, hits in self._complete(questions, points, scores).items():
            scores.setdefault(leg, {}).update({hit.id: hit.score for hit in hits})
        dense, lexical, examples, anti_patterns = (
            scores.get(leg, {}) for leg in ("dense", "lexical", "examples", "anti_patterns")
        )
        clauses = [scores[clause] for clause in self._clauses]
        return {
            point: LegScores(
                dense.get(point, 0.0),
                lexical.get(point, 0.0),
                examples.get(point),
                anti_patterns.get(point),
                clauses=max(clause.get(point, 0.0) for clause in clauses) if clauses else None,
            )
            for point in points
        }

    def _complete(
        self, questions: dict[str, LegQuery], points: set[int], scores: dict[str, dict[int, float]]
    ) -> dict[str, list[Scored]]:
        """What each leg says of the points that only others brought."""
        if "dense" in questions and self._hints:
            anti_patterns = replace(questions["dense"], using="anti_patterns")
            questions = {**questions, "anti_patterns": anti_patterns}
        asked: dict[str, LegQuery] = {}
        for leg, question in questions.items():
            known = scores.get(leg, {})
            # A leg that did not fill its list has nothing to say of any other point.
            full = leg == "anti_patterns" or len(known) >= self._depth
            if full and (missing := points - known.keys()):
                only = HasId(frozenset(missing))
                asked[leg] = replace(question, limit=len(missing), where=only)
        return dict(zip(asked, self._ask(list(asked.values())), strict=True))

    def _ask(self, questions: Sequence[LegQuery]) -> list[list[Scored]]:
        return self._store.search(questions) if questions else []

    def matching(self, terms: Sequence[tuple[str, SparseVector]]) -> set[str]:
        """Those of the terms that at least one point in reach contains."""
        questions = [LegQuery("lexical", vector, 1, self._where) for _, vector in terms]
        answers = self._ask(questions)
        return {term for (term, _), hits in zip(terms, answers, strict=True) if hits}


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """How legs are combined; defaults fitted on development splits (docs/explanation/models.md).

    `dense` and `lexical` are the convex weights, both >= 0. `bm25_scale` is the BM25 score at
    which the lexical leg is worth 63 % of its weight. `clauses` is the share of the
    way from the whole query's cosine to its best clause's. `examples` is the share of the way from
    a tool's own cosine to its best example's that it is lifted. `anti_patterns` is how strongly
    a query closer to an anti-pattern than to anything good about the tool lowers it. `head`
    is what one unit of log-probability of a head counts beside a cosine.
    `rrf_k` is the constant of rank fusion, named because engines' defaults differ.
    """

    method: Literal["convex", "rrf"] = "convex"
    dense: Annotated[float, Field(ge=0)] = 1 / 3
    lexical: Annotated[float, Field(ge=0)] = 2 / 3
    bm25_scale: Annotated[float, Field(gt=0)] = 100.0
    clauses: Annotated[float, Field(ge=0, le=1)] = 0.5
    examples: Annotated[float, Field(ge=0, le=1)] = 0.5
    anti_patterns: Annotated[float, Field(ge=0)] = 1.0
    head: Annotated[float, Field(ge=0)] = 0.1
    rrf_k: Annotated[int, Field(ge=1)] = 60

    def __post_init__(self) -> None:
        if self.dense + self.lexical <= 0:
            raise SettingsError("fusion.dense and fusion.lexical are both 0; one must be above")


_Key = TypeVar("_Key", bound=Hashable)


def fuse(candidates: Mapping[_Key, LegScores], weights: FusionWeights) -> dict[_Key, float]:
    """The fused score of every candidate: in [0, 1] for `convex`, higher is better."""
    method = reciprocal_rank if weights.method == "rrf" else convex
    return method(candidates, weights)


def convex(candidates: Mapping[_Key, LegScores], weights: FusionWeights) -> dict[_Key, float]:
    """Weighted sum of normalised leg scores (Bruch, Gai and Ingber 2023, section 4).

    The dense leg is its cosine. The lexical one is `1 - exp(-bm25 / bm25_scale)`: a bound that
    does not depend on the other candidates, so that a weak best match stays weak. Dividing by
    the query's best BM25 instead cost 0.8 points of nDCG@10 (benchmarks/fusion.py).
    """
    scale = weights.bm25_scale
    total = weights.dense + weights.lexical
    dense, lexical = weights.dense / total, weights.lexical / total
    fused: dict[_Key, float] = {}
    for key, scores in candidates.items():
        words = 1 - math.exp(-scores.lexical / scale)
        score = dense * semantic_score(scores, weights) + lexical * words
        fused[key] = min(1.0, max(0.0, score))
    return fused


def semantic_score(scores: LegScores, weights: FusionWeights) -> float:
    """A tool's cosine, lifted by a closer example and lowered by a closer anti-pattern.

    First it is moved towards the cosine of the clause that the tool fits best.
    Where a head was fitted there are examples enough to go by: a closer one counts in full.
    """
    lifted = scores.dense
    if scores.clauses is not None:
        lifted += weights.clauses * (scores.clauses - scores.dense)
    best = lifted
    if scores.examples is not None and scores.examples > best:
        best, own = scores.examples, best
        share = weights.examples if scores.head is None else 1.0
        lifted += share * (best - own)
    if scores.head is not None:
        lifted += weights.head * scores.head
    if scores.anti_patterns is not None and scores.anti_patterns > best:
        lifted -= weights.anti_patterns * (scores.anti_patterns - best)
    return lifted


def reciprocal_rank(
    candidates: Mapping[_Key, LegScores], weights: FusionWeights
) -> dict[_Key, float]:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of `1 / (k + rank)`.

    The legs are the lexical one, for candidates that share a word with the query, and the
    dense one after examples and anti-patterns; ties within a leg share the better rank.
    """
    meaning = {key: semantic_score(scores, weights) for key, scores in candidates.items()}
    words = {key: scores.lexical for key, scores in candidates.items() if scores.lexical > 0}
    fused = dict.fromkeys(candidates, 0.0)
    for leg in (meaning, words):
        for key, rank in _ranks(leg).items():
            fused[key] += 1 / (weights.rrf_k + rank)
    return fused


def _ranks(scores: Mapping[_Key, float]) -> dict[_Key, int]:
    ordered: Sequence[float] = sorted(scores.values(), reverse=True)
    first: dict[float, int] = {}
    for position, score in enumerate(ordered, start=1):
        first.setdefault(score, position)
    return {key: first[score] for key, score in scores.items()}


class _Ranked(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def score(self) -> float: ...


_R = TypeVar("_R", bound=_Ranked)


def by_score(found: Iterable[_R]) -> list[_R]:
    """In the order of a ranking: the highest score first, ties by id."""
    return sorted(found, key=lambda each: (-each.score, each.id))


def names_by_score(scores: Mapping[str, float]) -> list[str]:
    """Names in the order of a ranking: the highest score first, ties by name."""
    return sorted(scores, key=lambda name: (-scores[name], name))


class Place(NamedTuple):
    """A candidate in the ranking, in the order of its fields: called by name comes first."""

    unnamed: bool
    deficit: float
    point: int

    @property
    def level(self) -> tuple[bool, float]:
        """Equal for candidates that only their ids can part."""
        return self.unnamed, self.deficit

    @property
    def score(self) -> float:
        """In [0, 1]; 1 for one that was called by name."""
        return -self.deficit if self.unnamed else 1.0


def rank(fused: Mapping[int, float], named: set[int]) -> list[Place]:
    """The candidates, best first; `named` are points that the query calls by name."""
    return sorted(Place(point not in named, -score, point) for point, score in fused.items())


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the legs and fusion made of a query: the ranking, and what each leg said."""

    ranking: list[Place]
    scores: Mapping[int, LegScores]

    def first(self, count: int) -> list[Place]:
        """The first places, and with them those level with the last: ids break the tie."""
        ranking = self.ranking
        while count < len(ranking) and ranking[count].level == ranking[count - 1].level:
            count += 1
        return ranking[:count]

    def explained(self, place: Place) -> dict[str, float]:
        """What each leg said of a candidate."""
        told = self.scores[place.point]._asdict()
        legs = ("dense", "lexical", "clauses", "examples", "anti_patterns", "head")
        said = {leg: told[leg] for leg in legs if told[leg] is not None}
        return said if place.unnamed else said | {"exact_name": 1.0}
