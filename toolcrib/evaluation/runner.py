"""Runner of an evaluation: every system answers every query; all are compared with the first."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toolcrib.errors import CalibrationError, SettingsError, ToolcribError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.measures import (
    PromptTokens,
    gate_measures,
    main_measure,
    measure,
    verdict_measures,
)
from toolcrib.evaluation.results import (
    Comparison,
    Evaluation,
    QueryResult,
    SetResult,
    SystemResult,
)
from toolcrib.evaluation.significance import (
    DRAWS,
    RESAMPLES,
    bootstrap_intervals,
    draws_for,
    holm,
    randomisation_tests,
)
from toolcrib.evaluation.systems.base import Answer, Learner, SetFinder, System
from toolcrib.extras import require_extra
from toolcrib.numerics import Floats

CreateSystem = Callable[[], System]
"""Function that creates a system; each data set gets a new one, closed after it."""

Report = Callable[[str, int, int], None]
"""Callback with the current step, the finished amount, and the total; 0 during indexing."""


@dataclass(frozen=True, slots=True)
class _Plan:
    split: str
    ks: tuple[int, ...]
    learn: str | None
    coverage: float | None
    limit: int | None
    seed: int
    report: Report


def evaluate(  # noqa: PLR0913 -- all by name, each an option of the command
    datasets: Iterable[DataSet],
    systems: Mapping[str, CreateSystem],
    *,
    split: str = "test",
    ks: Sequence[int] = (1, 3, 5, 10),
    learn: str | None = None,
    coverage: float | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: Report = lambda _what, _done, _total: None,
) -> Evaluation:
    """Measure every system on one split of every data set, and compare each with the first.

    Every query requests as many tools as the largest of `ks`. Systems that can learn first do so
    from the split `learn`, if given and in the set. With `coverage`, systems that choose a set's
    size return sets that are complete with this probability: the share of complete ones is
    `coverage@95` (for 0.95), their mean size `set_size@95`. `limit` draws so many queries of each
    set at random, the same for every system. Unanswerable queries count for gates, latency and
    prompt tokens only. A system that cannot be restricted to a query's candidates is not measured
    on the query; a note of the set lists these. Latency is the wall clock of single searches, after
    one uncounted search that loads models.

    Raises:
        SettingsError: `ks` or `limit` are invalid, `learn` is the measured split, two sets have one
            name, or a set has no queries in this split.
        MissingExtraError: the extra `eval`, or a system's, is not installed.
    """
    if not ks or min(*ks, 1 if limit is None else limit) < 1:
        raise SettingsError("each rank of k, and limit, must be at least 1")
    if learn == split:
        raise SettingsError(f"the split for learning ({learn!r}) cannot be the measured split")
    if systems:
        # Queries may take minutes; their measures, after them, are what needs the extra.
        require_extra("ir_measures", "evaluation", "eval")
    plan = _Plan(split, tuple(ks), learn, coverage, limit, seed, progress)
    sets: dict[str, SetResult] = {}
    for data in datasets:
        if data.name in sets:
            raise SettingsError(f"two data sets are called {data.name!r}; rename one")
        sets[data.name] = _evaluate_set(data, systems, plan)
    return Evaluation(
        sets=sets,
        macro=macro_means(sets),
        macro_against_first=macro_comparisons(sets, seed),
        settings=_settings(plan),
    )


def _degraded_notes(name: str, outcomes: Sequence[QueryResult]) -> list[str]:
    """Notes on what a system's answers lacked: their figures are not those of the whole system."""
    marks = Counter(mark for outcome in outcomes for mark in outcome.answer.degraded)
    return [
        f"{name}: {count} of {len(outcomes)} answers are marked {mark!r}"
        for mark, count in marks.most_common()
    ]


def _settings(plan: _Plan) -> dict[str, str]:
    return {
        "split": plan.split,
        "k": ",".join(map(str, plan.ks)),
        "depth": str(max(plan.ks)),
        "learned from": plan.learn or "nothing",
        "limit": "none" if plan.limit is None else str(plan.limit),
        "seed": str(plan.seed),
        "intervals": f"95 % percentile bootstrap, {RESAMPLES} resamples of queries",
        "significance": (
            "paired randomisation test against the first system, at least "
            f"{DRAWS} draws, Holm-corrected over all systems and measures of a data set"
        ),
    }


def _evaluate_set(data: DataSet, systems: Mapping[str, CreateSystem], plan: _Plan) -> SetResult:
    queries = _draw_queries(data, plan)
    prompt = PromptTokens(data.tools)
    results: dict[str, SystemResult] = {}
    notes = list(data.notes)
    if plan.learn and not data.split(plan.learn):
        notes.append(f"nothing was learned: no query is of the split {plan.learn!r}")
    for name, create in systems.items():
        try:
            results[name] = _evaluate_system(name, create, data, queries, prompt, plan)
        except ToolcribError:
            raise
        except Exception as error:
            # A failing library must not cost the figures of the others; the first system is the
            # reference, so its failure ends the set.
            if not results:
                raise
            notes.append(f"{name} failed and is not measured: {type(error).__name__}: {error}")
            continue
        has_sets = any(measure.startswith("coverage@") for measure in results[name].measures)
        if plan.coverage is not None and not has_sets:
            notes.append(f"{name} does not choose how many tools to return, or is not calibrated")
        if left_out := len(queries) - len(results[name].outcomes):
            notes.append(
                f"{name} cannot be restricted to given candidates: {left_out} of {len(queries)} "
                "queries are not measured for it, and comparisons leave them out"
            )
        notes += _degraded_notes(name, results[name].outcomes)
    return SetResult(
        name=data.name,
        split=plan.split,
        tools=len(data.tools),
        queries=len(queries),
        unanswerable=sum(not query.answerable for query in queries),
        systems=compare_with_first(results, plan.seed),
        notes=tuple(notes),
        warnings=leg_warnings(results, plan.seed),
    )


def _draw_queries(data: DataSet, plan: _Plan) -> tuple[LabelledQuery, ...]:
    data.require_splits(plan.split)
    queries = data.split(plan.split)
    if plan.limit is None or plan.limit >= len(queries):
        return queries
    rng = np.random.default_rng(plan.seed)
    drawn: list[int] = rng.choice(len(queries), plan.limit, replace=False).tolist()
    return tuple(queries[place] for place in sorted(drawn))


def _evaluate_system(
    name: str,
    create: CreateSystem,
    data: DataSet,
    queries: Sequence[LabelledQuery],
    prompt: PromptTokens,
    plan: _Plan,
) -> SystemResult:
    with closing(create()) as system:
        system.index(data.tools)
        if plan.learn and isinstance(system, Learner) and (known := data.split(plan.learn)):
            plan.report(f"{data.name}: {name} learns", 0, len(known))
            system.learn(known)
        plan.report(f"{data.name}: {name}", 0, len(queries))
        system.search(queries[0].text, max(plan.ks))
        outcomes: list[QueryResult] = []
        for done, query in enumerate(queries, start=1):
            outcome = _ask(system, query, prompt, max(plan.ks))
            outcomes += [outcome] if outcome else []
            plan.report(f"{data.name}: {name}", done, len(queries))
        sets = _complete(system, outcomes, plan.coverage)
        version = system.version
    measured = _with_measures(outcomes, plan.ks, sets)
    return summarise(name, version, measured, prompt, plan.seed)


def _ask(
    system: System, query: LabelledQuery, prompt: PromptTokens, depth: int
) -> QueryResult | None:
    """Answer and its cost; None if the system cannot be restricted to the candidates."""
    start = time.perf_counter()
    try:
        answer = system.search(query.text, depth, query.among)
    except NotImplementedError:
        if query.among is None:
            raise
        return None
    ms = (time.perf_counter() - start) * 1000
    answer = replace(answer, ranked=answer.ranked[:depth])
    for tool in answer.ranked:
        if not math.isfinite(tool.score):
            raise ValueError(f"the score of {tool.id!r} for the query {query.id!r} is {tool.score}")
    return QueryResult(query, answer, ms, prompt.count(_ids(answer)))


def _complete(
    system: System, outcomes: Sequence[QueryResult], coverage: float | None
) -> dict[str, dict[str, float]]:
    """By query, whether the system's own set was complete, and its size."""
    if coverage is None or not isinstance(system, SetFinder):
        return {}
    percent = f"{100 * coverage:g}"
    found: dict[str, dict[str, float]] = {}
    for query in (outcome.query for outcome in outcomes if outcome.query.answerable):
        try:
            chosen = system.complete(query.text, coverage)
        except CalibrationError:
            return {}
        found[query.id] = {
            f"coverage@{percent}": float(query.relevant.keys() <= set(chosen)),
            f"set_size@{percent}": float(len(chosen)),
        }
    return found


def _ids(answer: Answer) -> list[str]:
    return [tool.id for tool in answer.ranked]


def _with_measures(
    outcomes: Sequence[QueryResult], ks: Sequence[int], sets: Mapping[str, Mapping[str, float]]
) -> tuple[QueryResult, ...]:
    answerable = [outcome for outcome in outcomes if outcome.query.answerable]
    rankings = [_ids(outcome.answer) for outcome in answerable]
    values = iter(measure(rankings, [outcome.query for outcome in answerable], ks))
    return tuple(
        replace(outcome, measures={**next(values), **sets.get(outcome.query.id, {})})
        if outcome.query.answerable
        else outcome
        for outcome in outcomes
    )


FUSION_SYSTEMS = ("toolcrib", "fusion")
LEGS = ("dense", "lexical")
"""Names of the systems that `leg_warnings` compares."""


def summarise(
    name: str, version: str, outcomes: Sequence[QueryResult], prompt: PromptTokens, seed: int
) -> SystemResult:
    """Means with intervals, gates, latency and prompt tokens, without comparisons.

    A system without any measured query has no latency, and one without answerable queries no
    measures.
    """
    ms = [outcome.ms for outcome in outcomes]
    measured = [outcome.measures for outcome in outcomes if outcome.measures]
    values = np.array([list(of_query.values()) for of_query in measured])
    intervals = bootstrap_intervals(values, seed) if measured else ()
    tokens = float(np.mean([outcome.prompt_tokens for outcome in outcomes])) if outcomes else 0.0
    return SystemResult(
        name=name,
        version=version,
        measures=dict(zip(measured[0] if measured else (), intervals, strict=True)),
        latency_ms={f"p{q}": float(np.percentile(ms, q)) for q in (50, 99)} if ms else {},
        prompt_tokens=tokens,
        tokens_saved=prompt.saved_share(tokens),
        tokens=_tokens(outcomes, prompt),
        gates=_gates(outcomes),
        outcomes=tuple(outcomes),
    )


ANSWER_TOOLS = 5
"""Number of tools in a gateway's answer."""


def _tokens(outcomes: Sequence[QueryResult], prompt: PromptTokens) -> dict[str, float]:
    """Tokens of all tools, of an answer in either form, and the number of answers that cost all."""
    firsts = [_ids(outcome.answer)[:ANSWER_TOOLS] for outcome in outcomes]
    schemas = [prompt.count(ids) for ids in firsts]
    signatures = [prompt.count(ids, "signature") for ids in firsts]
    if not any(signatures):
        return {}
    tokens = {"menu": float(prompt.whole_registry)}
    for name, counts in (("schemas", schemas), ("signatures", signatures)):
        tokens |= {f"{name}_p{q}": float(np.percentile(counts, q)) for q in (50, 95)}
    return tokens | {"searches": prompt.whole_registry / float(np.mean(signatures))}


def _gates(outcomes: Sequence[QueryResult]) -> dict[str, float]:
    """Measures of confidence and probabilities; missing values of a system count as 0.

    For a system without a confidence, the score of its first tool orders queries, but is no
    probability: its calibration is not measured.
    """
    correct = np.array([outcome.first_is_right for outcome in outcomes], dtype=np.bool_)
    answerable = np.array([outcome.query.answerable for outcome in outcomes], dtype=np.bool_)
    verdicts = [outcome.answer.verdict for outcome in outcomes]
    sure = _zeros_for_missing([outcome.answer.confidence for outcome in outcomes])
    if sure is not None:
        ranked = (outcome.answer.ranked for outcome in outcomes)
        firsts = _zeros_for_missing([tools[0].probability if tools else None for tools in ranked])
        gates = gate_measures(sure, correct, answerable, firsts)
    else:
        lowest = min((o.answer.ranked[0].score for o in outcomes if o.answer.ranked), default=0.0)
        tops = [o.answer.ranked[0].score if o.answer.ranked else lowest for o in outcomes]
        gates = gate_measures(np.array(tops), correct, answerable)
        gates = {name: value for name, value in gates.items() if name not in {"ece", "brier"}}
    if any(verdicts):
        gates |= verdict_measures([verdict or "" for verdict in verdicts], correct)
    return gates


def _zeros_for_missing(values: Sequence[float | None]) -> Floats | None:
    """Values of a system, 0 for missing ones; None for a system without any."""
    is_any = any(value is not None for value in values)
    return np.array([value or 0.0 for value in values]) if is_any else None


def compare_with_first(results: Mapping[str, SystemResult], seed: int) -> dict[str, SystemResult]:
    """Every system but the first with its comparisons, on queries that both answered.

    P-values are Holm-corrected over all systems and measures.
    """
    if not results:
        return {}
    first, *others = results.values()
    pairs = {other.name: query_differences(other, first) for other in others}
    against = _compare_differences(pairs, seed, np.mean)
    return {
        name: replace(one, against_first=against.get(name, {})) for name, one in results.items()
    }


def query_differences(system: SystemResult, other: SystemResult) -> dict[str, Floats]:
    """`system` minus `other` in each measure, query by query."""
    theirs = {outcome.query.id: outcome.measures for outcome in other.outcomes}
    both = [
        (outcome.measures, theirs[outcome.query.id])
        for outcome in system.outcomes
        if outcome.measures and outcome.query.id in theirs
    ]
    return {
        measure: np.array([mine[measure] - its[measure] for mine, its in both])
        for measure in (both[0][0] if both else ())
        if measure in both[0][1]
    }


def leg_warnings(results: Mapping[str, SystemResult], seed: int) -> tuple[str, ...]:
    """Warnings of fusions that are significantly below one of their own legs in nDCG@10.

    If 10 is not among the cut-offs, the largest one counts. Holm-corrected over the pairs.
    """
    tested: dict[str, dict[str, Floats]] = {}
    for fused in FUSION_SYSTEMS:
        for leg in LEGS:
            if fused in results and leg in results:
                columns = query_differences(results[fused], results[leg])
                if name := main_measure(columns):
                    tested[f"{fused} is below its own leg {leg!r}"] = {name: columns[name]}
    return tuple(
        f"{finding} in {name} ({one.difference:+.3f}, p = {one.p:.4f} for this measure alone): "
        "its weights do not fit this set"
        for finding, compared in _compare_differences(tested, seed, np.mean).items()
        for name, one in compared.items()
        if one.significant and one.difference < 0
    )


def macro_means(sets: Mapping[str, SetResult]) -> dict[str, dict[str, float]]:
    """Unweighted mean of every figure of every system, over the sets that have it.

    Beside measures and gates: `latency_p50_ms`, `prompt_tokens`, `tokens_saved`.
    """
    collected: dict[str, dict[str, list[float]]] = {}
    for one in sets.values():
        for name, system in one.systems.items():
            figures = collected.setdefault(name, {})
            for figure, value in _figures(system).items():
                figures.setdefault(figure, []).append(value)
    return {
        name: {figure: float(np.mean(values)) for figure, values in figures.items()}
        for name, figures in collected.items()
    }


def _figures(system: SystemResult) -> dict[str, float]:
    if not system.outcomes:
        return {}
    means = {measure: interval.mean for measure, interval in system.measures.items()}
    return {
        **means,
        **system.gates,
        "latency_p50_ms": system.latency_ms["p50"],
        "prompt_tokens": system.prompt_tokens,
        "tokens_saved": system.tokens_saved,
    }


def macro_comparisons(sets: Mapping[str, SetResult], seed: int) -> dict[str, dict[str, Comparison]]:
    """Differences of each system's means over sets from the first system's, by measure.

    The test is the paired one of a single set, over the queries of all, weighted so that every set
    counts equally. Holm-corrected over systems and measures.
    """
    first = next((next(iter(one.systems)) for one in sets.values() if one.systems), "")
    others = {name: None for one in sets.values() for name in one.systems if name != first}
    weighted = {name: _weighted_differences(sets, name, first) for name in others}
    return _compare_differences(weighted, seed, np.sum)


def _compare_differences(
    differences: Mapping[str, Mapping[str, Floats]], seed: int, total: Callable[[Floats], Any]
) -> dict[str, dict[str, Comparison]]:
    """The `total` of each system's and measure's differences, and its p-value."""
    tests = [(name, figure) for name, columns in differences.items() for figure in columns]
    draws = draws_for(len(tests))
    p_values = [
        float(p)
        for columns in differences.values()
        if columns
        for p in randomisation_tests(np.column_stack(list(columns.values())), seed, draws)
    ]
    found: dict[str, dict[str, Comparison]] = {name: {} for name in differences}
    for (name, figure), p in zip(tests, holm(p_values), strict=True):
        found[name][figure] = Comparison(float(total(differences[name][figure])), p)
    return found


def _weighted_differences(
    sets: Mapping[str, SetResult], name: str, first: str
) -> dict[str, Floats]:
    """Differences of all queries, weighted so that each measure's sum is the macro difference."""
    pairs = [
        query_differences(one.systems[name], one.systems[first])
        for one in sets.values()
        if name in one.systems and first in one.systems
    ]
    pairs = [pair for pair in pairs if pair]
    measures = [m for m in (pairs[0] if pairs else {}) if all(m in pair for pair in pairs)]
    return {
        measure: np.concatenate([pair[measure] / len(pair[measure]) for pair in pairs]) / len(pairs)
        for measure in measures
    }
