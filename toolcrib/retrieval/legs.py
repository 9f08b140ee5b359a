"""The legs: one encoded query against every named vector, inside what the caller may use.

Each leg brings its best points, and then every point that any leg brought is scored by the
others too: a convex combination needs all scores, and asking for them costs a tenth of
a millisecond where guessing them costs accuracy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from toolcrib.encoders.base import FloatArray, SparseVector
from toolcrib.retrieval.fusion import LegScores
from toolcrib.store.base import LegQuery, Record, Scored, Store
from toolcrib.store.filters import AnyOf, Filter, HasId, all_of
from toolcrib.store.payload import squeeze

__all__ = ["DEPTH", "EncodedQuery", "Legs", "name_keys"]

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
        found: set[int] = set()
        for record in self._scroll_named(keys):
            found.add(record.id)
            if len(found) == MAX_NAMED:
                break
        return found

    def _scroll_named(self, keys: Iterable[str]) -> Iterable[Record]:
        return self._store.scroll(all_of(AnyOf("name_key", sorted(keys)), self._where), ("id",))

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
            missing = points - known.keys() if _is_full(leg, known, self._depth) else set[int]()
            if missing:
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


def _is_full(leg: str, known: dict[int, float], depth: int) -> bool:
    return leg == "anti_patterns" or len(known) >= depth
