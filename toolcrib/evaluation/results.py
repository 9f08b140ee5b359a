"""Results of an evaluation: queries, macro averages, mistakes; as JSON and TREC runs."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import integer_grades, main_measure
from toolcrib.evaluation.systems.base import Answer
from toolcrib.indexers.points import FieldWeights, lexical_counts
from toolcrib.records import ToolSpec

SIGNIFICANCE_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One system's answer to one query, with its measures.

    `measures` by name (`ndcg@10`), empty for an unanswerable query. `ms`: wall clock of the search;
    `prompt_tokens`: cost of the returned tools in a prompt.
    """

    query: LabelledQuery
    answer: Answer
    ms: float
    prompt_tokens: int
    measures: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def first_is_right(self) -> bool:
        """True if the first returned tool is relevant, whatever the gate's verdict."""
        ranked = self.answer.ranked
        return bool(ranked) and self.query.relevant.get(ranked[0].id, 0) > 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference of a system from the first one in a measure, query by query.

    `p`: Holm-corrected p-value of a paired randomisation test.
    """

    difference: float
    p: float

    @property
    def significant(self) -> bool:
        """True if p < 0.05."""
        return self.p < SIGNIFICANCE_LEVEL


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one data set.

    `measures`: means over answerable queries. `gates`: measures of the confidence over all queries
    (`auroc`, `aupr`, `ece`, ...), empty for systems without a confidence. `tokens`: of all tools
    (`menu`), of a search's first five with their schemas and as signatures (`schemas_p50`,
    `signatures_p95`, ...), and the number of searches that cost as much as the menu.
    `against_first`: comparison with the first system, by measure.
    """

    name: str
    version: str
    measures: Mapping[str, Interval]
    latency_ms: Mapping[str, float]
    prompt_tokens: float
    tokens_saved: float
    tokens: Mapping[str, float] = field(default_factory=dict[str, float])
    gates: Mapping[str, float] = field(default_factory=dict[str, float])
    against_first: Mapping[str, Comparison] = field(default_factory=dict[str, Comparison])
    outcomes: tuple[QueryResult, ...] = ()


@dataclass(frozen=True, slots=True)
class SetResult:
    """All systems on one data set; `warnings`: limits of the results."""

    name: str
    split: str
    tools: int
    queries: int
    unanswerable: int
    systems: Mapping[str, SystemResult]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All data sets, the unweighted mean over them for every system, and the settings.

    `macro_against_first` compares those means with the first system's, by system and measure.
    """

    sets: Mapping[str, SetResult]
    macro: Mapping[str, Mapping[str, float]]
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    macro_against_first: Mapping[str, Mapping[str, Comparison]] = field(
        default_factory=dict[str, Mapping[str, Comparison]]
    )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Systems that were not measured on every set: their means are of other sets."""
        counts = Counter(name for one in self.sets.values() for name in one.systems)
        return tuple(
            f"{name}: means over {count} of {len(self.sets)} sets; do not compare them with others"
            for name, count in counts.items()
            if count < len(self.sets)
        )


FIGURE_DIGITS = 5
"""Decimals of shares; milliseconds and tokens have fewer, p-values one more."""


def as_json(evaluation: Evaluation, *, per_query: bool = False) -> dict[str, Any]:
    """Evaluation as plain dicts, lists, strings and numbers.

    `datasets` holds, by set and system, every measure as `mean`, `low` and `high`, gates as numbers
    (`auroc`), `latency_ms` (`p50`, `p99`), `prompt_tokens`, `tokens_saved`, `tokens`, `version`,
    and `against_first` (`difference`, `p`, `significant`), empty for the first system. `macro`
    holds means over sets, `macro_against_first` their differences from the first system's, `sets`
    the data sets, `settings` the method. With `per_query`, that key holds every measure of every
    answerable query, by set, system and query id, so that two evaluations can be compared query by
    query. Systems with a `confidence` give it for every query there.
    """
    sets = evaluation.sets
    exported: dict[str, Any] = {
        "datasets": {
            name: {system: _system(result) for system, result in one.systems.items()}
            for name, one in sets.items()
        },
        "macro": {system: _round_values(figures) for system, figures in evaluation.macro.items()},
        "macro_against_first": {
            system: _comparisons_json(compared)
            for system, compared in evaluation.macro_against_first.items()
        },
        "sets": {
            name: {key: getattr(one, key) for key in ("split", "tools", "queries", "unanswerable")}
            | {"notes": list(one.notes), "warnings": list(one.warnings)}
            for name, one in sets.items()
        },
        "settings": dict(evaluation.settings),
    }
    if per_query:
        exported["per_query"] = {
            name: {
                system: {
                    one.query.id: shown for one in result.outcomes if (shown := _query_json(one))
                }
                for system, result in found.systems.items()
            }
            for name, found in sets.items()
        }
    return exported


def _system(result: SystemResult) -> dict[str, Any]:
    return {
        **{
            measure: _round_values(asdict(interval))
            for measure, interval in result.measures.items()
        },
        **_round_values(result.gates),
        "latency_ms": _round_values(result.latency_ms, 3),
        "prompt_tokens": round(result.prompt_tokens, 1),
        "tokens_saved": round(result.tokens_saved, FIGURE_DIGITS),
        **({"tokens": _round_values(result.tokens, 1)} if result.tokens else {}),
        "version": result.version,
        "against_first": _comparisons_json(result.against_first),
    }


def _query_json(result: QueryResult) -> dict[str, float]:
    sure = result.answer.confidence
    return _round_values({**result.measures, **({} if sure is None else {"confidence": sure})})


def _comparisons_json(comparisons: Mapping[str, Comparison]) -> dict[str, dict[str, Any]]:
    return {
        measure: {
            "difference": round(one.difference, FIGURE_DIGITS),
            "p": round(one.p, FIGURE_DIGITS + 1),
            "significant": one.significant,
        }
        for measure, one in comparisons.items()
    }


def _round_values(figures: Mapping[str, float], digits: int = FIGURE_DIGITS) -> dict[str, float]:
    return {name: round(value, digits) for name, value in figures.items()}


UNENCODED_CHARS = string.punctuation.replace("%", "")
"""Characters of an id that are not encoded, beside ASCII letters and digits."""


def write_runs(evaluation: Evaluation, directory: Path) -> tuple[Path, ...]:
    """Write `SET.qrels` and `SET.SYSTEM.run` for all sets and systems; return their paths.

    Columns are separated by spaces, so ids are percent-encoded if they contain white space, `%` or
    non-ASCII letters; `urllib.parse.unquote` decodes them. Scores only count down with the rank:
    evaluators sort by score and break ties by id, which would change a system's order. Unanswerable
    queries are in the runs, but not in the qrels. `trec_eval -c` gives the same means: it counts an
    omitted query as zero.

    Raises:
        OSError: the folder cannot be created or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files: dict[Path, Iterator[str]] = {}
    for one in evaluation.sets.values():
        files[directory / f"{_file(one.name)}.qrels"] = _qrels(one)
        for name, system in one.systems.items():
            path = directory / f"{_file(one.name)}.{_file(name)}.run"
            files[path] = _run(name, system.outcomes)
    for path, lines in files.items():
        path.write_text("".join(lines), encoding="ascii")
    return tuple(files)


def _qrels(one: SetResult) -> Iterator[str]:
    # A system may have omitted queries: collect the queries of all systems.
    queries: dict[str, LabelledQuery] = {
        outcome.query.id: outcome.query
        for system in one.systems.values()
        for outcome in system.outcomes
        if outcome.query.answerable
    }
    for query, grades in zip(queries, integer_grades(list(queries.values())), strict=True):
        for tool, grade in grades.items():
            yield f"{_id(query)} 0 {_id(tool)} {grade}\n"


def _run(name: str, outcomes: Iterable[QueryResult]) -> Iterator[str]:
    for outcome in outcomes:
        ranked = list(dict.fromkeys(tool.id for tool in outcome.answer.ranked))
        for rank, tool in enumerate(ranked, start=1):
            score = len(ranked) - rank + 1
            yield f"{_id(outcome.query.id)} Q0 {_id(tool)} {rank} {score} {_id(name)}\n"


def _id(text: str) -> str:
    return quote(text, safe=UNENCODED_CHARS, errors="surrogatepass")


def _file(name: str) -> str:
    return quote(name, safe="+", errors="surrogatepass")


# -- mistakes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mistake:
    """Query whose `measure` has this `value`; ids by falling grade and by rank.

    `missing`: expected tools that were not returned at all.
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
    """Number of queries that expect one tool and got another in the first place."""

    expected: str
    returned: str
    count: int


@dataclass(frozen=True, slots=True)
class UnmatchedWord:
    """Word of queries that no tool has; `query_id`: one of these queries."""

    word: str
    count: int
    query_id: str


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Worst queries, confusions and unmatched words, worst first."""

    worst: tuple[Mistake, ...]
    confusions: tuple[Confusion, ...]
    unmatched: tuple[UnmatchedWord, ...]


def find_mistakes(
    outcomes: Sequence[QueryResult], tools: Iterable[ToolSpec], count: int = 20
) -> Mistakes:
    """At most `count` of each kind, from one system's outcomes on one data set."""
    unmatched = unmatched_words([outcome.query for outcome in outcomes], tools, count)
    return Mistakes(worst_queries(outcomes, count), confusions(outcomes, count), unmatched)


def worst_queries(outcomes: Iterable[QueryResult], count: int = 20) -> tuple[Mistake, ...]:
    """Answerable queries with the lowest main measure, without perfect ones.

    Ties are in order of falling confidence, then in the order of the outcomes.
    """
    measured = [outcome for outcome in outcomes if outcome.measures]
    name = main_measure(measured[0].measures) if measured else ""
    wrong = [outcome for outcome in measured if outcome.measures[name] < 1]
    wrong.sort(key=lambda o: (o.measures[name], -(o.answer.confidence or 0.0)))
    found: list[Mistake] = []
    for outcome in wrong[:count]:
        query, value, sure = outcome.query, outcome.measures[name], outcome.answer.confidence
        expected = _expected_ids(query)
        returned = tuple(tool.id for tool in outcome.answer.ranked)
        missing = tuple(tool for tool in expected if tool not in returned)
        made = Mistake(query.id, query.text, name, value, expected, returned, missing, sure)
        found.append(made)
    return tuple(found)


def _expected_ids(query: LabelledQuery) -> tuple[str, ...]:
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
        for expected in _expected_ids(outcome.query)
    )
    ordered = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Confusion(*pair, number) for pair, number in ordered[:count])


def unmatched_words(
    queries: Iterable[LabelledQuery], tools: Iterable[ToolSpec], count: int = 20
) -> tuple[UnmatchedWord, ...]:
    """Words between spaces without any index term in a tool, the most frequent first.

    They count once a query, in lower case. Only the dense leg can use them: frequent ones belong
    into descriptions or examples.
    """
    encoder, weights = LexicalEncoder(), FieldWeights()
    known = {term for tool in tools for term in lexical_counts(tool, encoder, weights)}
    queries_with: dict[str, list[str]] = {}
    for query in queries:
        for word in _unmatched_words(query.text, known, encoder):
            queries_with.setdefault(word, []).append(query.id)
    ordered = sorted(queries_with.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return tuple(UnmatchedWord(word, len(ids), ids[0]) for word, ids in ordered[:count])


def _unmatched_words(text: str, known: set[str], encoder: LexicalEncoder) -> set[str]:
    in_query = set(encoder.terms(text))
    words = {word.strip(string.punctuation) for word in text.split()}
    # A stop word alone keeps its term, but not within a query.
    terms = {word: in_query.intersection(encoder.terms(word)) for word in words}
    return {word.lower() for word, its in terms.items() if its and not its & known}
