"""Mistakes of a system: its worst queries, pairs of tools, words in no tool."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import main_measure
from toolcrib.evaluation.results import QueryResult
from toolcrib.indexers.points import FieldWeights, lexical_counts
from toolcrib.records import ToolSpec


@dataclass(frozen=True, slots=True)
class Mistake:
    """A query whose `measure` has this `value`; ids by falling grade and by rank.

    `missing` are the expected tools that were not returned at all.
    """

    query_id: str
    text: str
    measure: str
    value: float
    expected: tuple[str, ...]
    returned: tuple[str, ...]
    missing: tuple[str, ...]
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Number of queries that expect one tool and had another in the first place."""

    expected: str
    returned: str
    count: int


@dataclass(frozen=True, slots=True)
class UnmatchedWord:
    """A word of queries that is in no tool; one of the queries that hold it."""

    word: str
    count: int
    query_id: str


@dataclass(frozen=True, slots=True)
class Mistakes:
    """All three, worst first."""

    worst: tuple[Mistake, ...]
    confusions: tuple[Confusion, ...]
    unmatched: tuple[UnmatchedWord, ...]


def find_mistakes(
    outcomes: Sequence[QueryResult], tools: Iterable[ToolSpec], count: int = 20
) -> Mistakes:
    """At most `count` of each kind, from one system's outcomes on one data set."""
    queries = [outcome.query for outcome in outcomes]
    return Mistakes(
        worst=worst_queries(outcomes, count),
        confusions=confusions(outcomes, count),
        unmatched=unmatched_words(queries, tools, count),
    )


def worst_queries(outcomes: Iterable[QueryResult], count: int = 20) -> tuple[Mistake, ...]:
    """The answerable queries of least value in the main measure, without perfect ones.

    Among equals, what the system was surest of comes first, then the order of the outcomes stands.
    """
    measured = [outcome for outcome in outcomes if outcome.measures]
    name = main_measure(measured[0].measures) if measured else ""
    wrong = [outcome for outcome in measured if outcome.measures[name] < 1]
    wrong.sort(key=lambda o: (o.measures[name], -(o.answer.confidence or 0.0)))
    return tuple(_mistake(outcome, name) for outcome in wrong[:count])


def _mistake(outcome: QueryResult, measure: str) -> Mistake:
    query = outcome.query
    expected = _expected(query)
    returned = tuple(tool.id for tool in outcome.answer.ranked)
    return Mistake(
        query_id=query.id,
        text=query.text,
        measure=measure,
        value=outcome.measures[measure],
        expected=expected,
        returned=returned,
        missing=tuple(tool for tool in expected if tool not in returned),
        confidence=outcome.answer.confidence,
    )


def _expected(query: LabelledQuery) -> tuple[str, ...]:
    relevant = [tool for tool, grade in query.relevant.items() if grade > 0]
    return tuple(sorted(relevant, key=lambda tool: -query.relevant[tool]))


def confusions(outcomes: Iterable[QueryResult], count: int = 20) -> tuple[Confusion, ...]:
    """Pairs of expected and wrong first tool, most frequent first.

    A query with several expected tools counts once for each of them.
    """
    pairs = Counter(
        (expected, outcome.answer.ranked[0].id)
        for outcome in outcomes
        if outcome.answer.ranked and not outcome.first_is_right
        for expected in _expected(outcome.query)
    )
    ordered = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Confusion(*pair, number) for pair, number in ordered[:count])


def unmatched_words(
    queries: Iterable[LabelledQuery],
    tools: Iterable[ToolSpec],
    count: int = 20,
) -> tuple[UnmatchedWord, ...]:
    """Words between spaces of which no index term is in any tool, in most queries first.

    They are counted once a query, in lower case. Only the dense leg can make sense of them:
    frequent ones belong into descriptions or examples.
    """
    encoder, weights = LexicalEncoder(), FieldWeights()
    known = {term for tool in tools for term in lexical_counts(tool, encoder, weights)}
    counts: Counter[str] = Counter()
    first_in: dict[str, str] = {}
    for query in queries:
        for word in _unmatched(query.text, known, encoder):
            counts[word] += 1
            first_in.setdefault(word, query.id)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(UnmatchedWord(word, number, first_in[word]) for word, number in ordered[:count])


def _unmatched(text: str, known: set[str], encoder: LexicalEncoder) -> set[str]:
    in_query = set(encoder.terms(text))
    words = {word.strip(string.punctuation) for word in text.split()}
    # A stop word alone keeps its term, which the query as a whole has dropped.
    terms = {word: in_query.intersection(encoder.terms(word)) for word in words}
    return {word.lower() for word, its in terms.items() if its and not its & known}
