"""Legs: searches of a query by each named vector.

Each leg finds its best points, and then scores the points of the other legs: a convex combination
needs all scores. The second search costs a tenth of a millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from toolcrib.encoders.base import FloatArray, SparseVector, from_text, to_text
from toolcrib.errors import QueryError, require_text, require_type
from toolcrib.numerics import log_softmax
from toolcrib.records import Context, Scope
from toolcrib.records.codec import FrozenModel
from toolcrib.retrieval.fusion import LegScores
from toolcrib.store.base import LegQuery, ListRequest, Record, ScoredPoint, Store, point_id
from toolcrib.store.filters import AnyOf, Filter, HasId, all_of
from toolcrib.text import UNSPACED_SCRIPTS, name_key

MIN_LEG_CANDIDATES = 20
"""Minimum depth of a leg, which is otherwise twice `k`; 50 or 100 do not change the first ten."""

BM25_DIGITS = 4
"""Digits of a BM25 score. Equal tools differ in later digits, because engines sum float32 in
another order after each build of an index; two builds would break a tie differently."""

MIN_NORM = 1e-12
MAX_NAMED_POINTS = 50
MAX_READ_AHEAD_POINTS = 64
_NO_POINT = -1
MAX_NAME_QUERY_CHARS = 200
MAX_NAME_QUERY_WORDS = 8
"""Longer queries are sentences, in which only identifiers can be names."""

SELECT_PREFIX, MCP_PREFIX = "select:", "mcp__"
"""Prefixes of names that agents write: `select:name`, `mcp__server__tool`."""

_UNSPACED = re.compile(f"[{UNSPACED_SCRIPTS}]+")
_IDENTIFIER = re.compile(r"(?<!\w)(?:\w+(?:[_\-./:]\w+)+|\w*[a-z][A-Z]\w*)")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedQuery:
    """Encoded query, encoded once for all searches.

    `dense`: float32 [d], or None if the dense encoder failed. `clauses`: float32 [n, d], empty or
    None for a query of one clause. `naming`: text that may call a tool by name; empty for the whole
    text. `cosine_factor`: factor of all cosines. `spelling`: misspelt words of `text`, with the
    words that were encoded in their place.
    """

    text: str
    dense: FloatArray | None
    lexical: SparseVector
    degraded: tuple[str, ...] = ()
    clauses: FloatArray | None = None
    naming: str = ""
    cosine_factor: float = 1.0
    spelling: Mapping[str, str] = field(default_factory=dict[str, str])

    def blend_with(self, own: EncodedQuery, own_share: float) -> EncodedQuery:
        """Query of a dialogue, blended with the last message's `own` query by its share.

        Every leg is linear in its query, so the blend fuses the scores of both. Clauses and names
        of tools are those of the last message alone.
        """
        if self.dense is None or own.dense is None:
            dense, degraded = None, self.degraded or own.degraded
        else:
            mixed = own_share * own.dense + (1 - own_share) * self.dense
            dense = (mixed / max(float(np.linalg.norm(mixed)), MIN_NORM)).astype(np.float32)
            degraded = self.degraded
        lexical = _weighted_sum((own.lexical, own_share), (self.lexical, 1 - own_share))
        more = own.clauses, own.text, own.cosine_factor, own.spelling
        return EncodedQuery(self.text, dense, lexical, degraded, *more)


def _weighted_sum(*parts: tuple[SparseVector, float]) -> SparseVector:
    """Weighted sum of sparse vectors."""
    indices = np.unique(np.concatenate([vector.indices for vector, _ in parts]))
    values = np.zeros(len(indices), dtype=np.float32)
    for vector, weight in parts:
        values[np.searchsorted(indices, vector.indices)] += np.float32(weight) * vector.values
    return SparseVector(indices, values)


def name_keys(text: str) -> set[str]:
    """Names that a query may call: the whole query, and every identifier in it.

    The whole query matches a name with any separators. An identifier in a sentence matches only as
    written: `e-mail` must not call a tool named `email`. Agents also write `mcp__server__tool`,
    `server.tool` and `select:name`.
    """
    text = text.strip()
    head = text[:MAX_NAME_QUERY_CHARS]
    found = _IDENTIFIER.findall(head)
    if not head.isascii():
        # `apply_passportを実行`: words of an unspaced script touch a name of ASCII.
        found += _IDENTIFIER.findall(_UNSPACED.sub(" ", head))
    keys = {key for name in found for key in _spellings(name.casefold())}
    if text.startswith(SELECT_PREFIX):
        names = text.removeprefix(SELECT_PREFIX).split(",")
        keys.update(map(name_key, names[:MAX_NAMED_POINTS]))
    if len(text) <= MAX_NAME_QUERY_CHARS and len(text.split()) <= MAX_NAME_QUERY_WORDS:
        keys.add(name_key(text))
    return keys - {""}


def _spellings(name: str) -> Iterator[str]:
    """Keys of ids and names of tools that an identifier may stand for."""
    name = name.removeprefix(SELECT_PREFIX)
    yield name
    if name.startswith(MCP_PREFIX):
        yield name_key(name.removeprefix(MCP_PREFIX))
    for mark in ("__", "."):
        server, found, tool = name.partition(mark)
        if found:
            yield f"{server}/{tool}"


def has_words(text: str) -> bool:
    """True if a text has a letter or a digit of any script, and can be searched."""
    return any(letter.isalnum() for letter in text)


def check_question(query: str, scope: Scope | None, context: Context | None) -> None:
    """Reject a search of passages for no words, or with a value of another type."""
    require_text(query, "question")
    require_type(scope, Scope | None, "scope", "a Scope")
    require_type(context, Context | None, "context", "a Context")
    if not has_words(query):
        raise QueryError("the question is empty: say in a few words what to look for")


class Head(FrozenModel):
    """Fitted head: `weights` are float16 [len(ids), dimensions] as base64, row by row."""

    ids: tuple[str, ...]
    dimensions: int
    weights: str
    offsets: tuple[float, ...]

    def log_probabilities(self, query: FloatArray, among: Iterable[int]) -> dict[int, float]:
        """Log-probability of each point in `among` that the head knows.

        `query`: float32 [d]. Probabilities add up to 1 over these points: a tool outside of the
        caller's scope changes no other probability.
        """
        rows = {point: self._rows[point] for point in among if point in self._rows}
        if not rows:
            return {}
        places = list(rows.values())
        logits = self._matrix[places] @ query + self._offsets[places]
        return dict(zip(rows, log_softmax(logits).tolist(), strict=True))

    @cached_property
    def _matrix(self) -> NDArray[np.float32]:
        return from_text(self.weights, self.dimensions)

    @cached_property
    def _offsets(self) -> NDArray[np.float32]:
        return np.asarray(self.offsets, dtype=np.float32)

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {point_id(tool_id): row for row, tool_id in enumerate(self.ids)}


def pack_head(ids: list[str], weights: FloatArray, offsets: FloatArray) -> Head:
    """Pack fitted weights, float [len(ids), d], and offsets, float [len(ids)], as a head."""
    return Head(
        ids=tuple(ids),
        dimensions=weights.shape[1],
        weights=to_text(weights),
        offsets=tuple(round(float(value), 5) for value in offsets),
    )


class Legs:
    """Searches of one query.

    `where` filters every leg. `idf_corpus`, the caller's scope, limits the count of word
    frequencies, so that tools out of scope change no score. `hints`: points have examples and
    anti-patterns (tools, not passages). `names`: the query may call tools by name.
    """

    def __init__(
        self,
        store: Store,
        query: EncodedQuery,
        where: Filter | None,
        idf_corpus: Filter | None,
        depth: int = MIN_LEG_CANDIDATES,
        *,
        hints: bool = True,
        names: bool = True,
    ) -> None:
        self._store = store
        self.where = where
        self.scope = idf_corpus
        self._depth = depth
        self._names = name_keys(query.naming or query.text) if hints and names else set[str]()
        self._hints = hints
        self.records = dict[int, Record]()
        """All records that were read, by point."""
        # In a scope each search counts words again: slow for a folder, so count once.
        self._counts_apart = idf_corpus is not None and not store.is_remote
        self._words = query.lexical
        self._cosine_factor = query.cosine_factor
        self._questions = {
            name: LegQuery(name, query.dense, depth, where)
            for name in (("dense", "examples") if hints else ("dense",))
            if query.dense is not None
        }
        if query.lexical.indices.size:
            self._questions["lexical"] = LegQuery(
                "lexical", query.lexical, depth, where, idf_corpus
            )
        clauses = enumerate(() if query.clauses is None else query.clauses, start=1)
        by_clause = {f"clause {n}": LegQuery("dense", each, depth, where) for n, each in clauses}
        self._clauses = list(by_clause)
        self._questions |= by_clause

    @property
    def reached_limit(self) -> bool:
        """True if a leg is at its limit: there may be more points."""
        return any(len(found) >= self._depth for found in self._first[0].values())

    @property
    def named_points(self) -> set[int]:
        """Points of tools that the query calls by exact name or id."""
        return self._first[1]

    @cached_property
    def _first(self) -> tuple[dict[str, dict[int, float]], set[int]]:
        """Scores by leg, best first, and the named points: one request to the store."""
        asked = dict(self._questions)
        if self._counts_apart:
            asked.pop("lexical", None)
        called = all_of(AnyOf("name_key", sorted(self._names)), self.where)
        listings = [ListRequest(called, MAX_NAMED_POINTS)] if self._names else []
        found, listed = self._store.search_and_list(list(asked.values()), listings)
        scores = {leg: dict(hits) for leg, hits in zip(asked, found, strict=True)}
        return scores, {record.id for record in chain(*listed)}

    def read(self, points: Sequence[int]) -> list[Record]:
        """Records of points in their order; prefetched records are not requested again."""
        missing = [point for point in points if point not in self.records]
        if missing:
            self.records |= {record.id: record for record in self._store.retrieve(missing)}
        return [self.records[point] for point in points if point in self.records]

    def candidates(self, more: AbstractSet[int] = frozenset()) -> dict[int, LegScores]:
        """Scores by leg of every point that a leg found, that is named, or that is in `more`."""
        questions = dict(self._questions)
        scores = dict(self._first[0])
        points = self.named_points.union(more, *scores.values())
        if self._counts_apart and (counted := questions.pop("lexical", None)):
            # Both searches go into one batch.
            only = replace(counted, limit=max(len(points), 1), where=HasId(frozenset(points)))
            scores["lexical"] = dict(chain.from_iterable(self._store.search([counted, only])))
            points |= scores["lexical"].keys()
        for leg, hits in self._complete(questions, points, scores).items():
            scores.setdefault(leg, {}).update(hits)
        if self._cosine_factor != 1:
            for leg in scores.keys() - {"lexical"}:
                scores[leg] = {p: self._cosine_factor * cosine for p, cosine in scores[leg].items()}
        dense, lexical, examples, anti_patterns = (
            scores.get(leg, {}) for leg in ("dense", "lexical", "examples", "anti_patterns")
        )
        clauses = [scores[clause] for clause in self._clauses]
        parts = {p: tuple(each.get(p, 0.0) for each in clauses) for p in points} if clauses else {}
        return {
            point: LegScores(
                dense.get(point, 0.0),
                round(lexical.get(point, 0.0), BM25_DIGITS),
                examples.get(point),
                anti_patterns.get(point),
                None,
                max(parts[point]) if clauses else None,
                by_clause=parts.get(point, ()),
            )
            for point in points
        }

    def _complete(
        self, questions: dict[str, LegQuery], points: set[int], scores: dict[str, dict[int, float]]
    ) -> dict[str, list[ScoredPoint]]:
        """Score the points of each leg that only other legs found."""
        if "dense" in questions and self._hints:
            anti_patterns = replace(questions["dense"], using="anti_patterns")
            questions = {**questions, "anti_patterns": anti_patterns}
        asked: dict[str, LegQuery] = {}
        for leg, question in questions.items():
            known = scores.get(leg, {})
            # A leg below its limit has found every point with a score.
            full = leg == "anti_patterns" or len(known) >= self._depth
            if full and (missing := points - known.keys()):
                only = HasId(frozenset(missing))
                asked[leg] = LegQuery(
                    question.using, question.vector, len(missing), only, question.idf_corpus
                )
        found, read = self._store.search_and_list(
            list(asked.values()), self._prefetch_requests(scores)
        )
        self.records |= {record.id: record for record in chain(*read)}
        return dict(zip(asked, found, strict=True))

    def _prefetch_requests(self, scores: dict[str, dict[int, float]]) -> list[ListRequest]:
        """Requests to prefetch likely tools: named ones, then the best of each leg in turn."""
        if not (self._hints and self._store.is_remote):
            return []
        in_turn = chain.from_iterable(zip_longest(*scores.values(), fillvalue=_NO_POINT))
        found = dict.fromkeys(chain(self.named_points, in_turn))
        likely = frozenset(islice((p for p in found if p != _NO_POINT), MAX_READ_AHEAD_POINTS))
        return [ListRequest(HasId(likely), len(likely), None)] if likely else []

    def word_coverage(self, point: int) -> float:
        """Share of the query's words that the tool at a point has; 0 for a query without words."""
        indices, values = self._words.indices, self._words.values
        words = [SparseVector(indices[[n]], values[[n]]) for n in range(indices.size)]
        return sum(self.matches(words, HasId(frozenset({point})))) / max(1, len(words))

    def matches(self, words: Sequence[SparseVector], where: Filter | None) -> list[bool]:
        """True for each word that any point within `where` has."""
        found = self._store.search([LegQuery("lexical", word, 1, where) for word in words])
        return [*map(bool, found)]
