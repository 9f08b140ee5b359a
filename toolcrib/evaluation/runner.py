"""Every system answers every query of every data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolcrib.errors import CalibrationError, SettingsError, ToolcribError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.measures import measure
from toolcrib.evaluation.prompt import PromptTokens
from toolcrib.evaluation.results import Evaluation, Outcome, SetResult, SystemResult
from toolcrib.evaluation.significance import DRAWS, RESAMPLES
from toolcrib.evaluation.summary import (
    compare_with_first,
    leg_warnings,
    macro_comparisons,
    macro_means,
    summarise,
)
from toolcrib.evaluation.systems.protocol import Answer, Learner, SetFinder, System

__all__ = ["CreateSystem", "Progress", "Report", "evaluate"]

CreateSystem = Callable[[], System]
"""Makes a fresh system: one is indexed for each data set, and closed after it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of a data set's `total` queries a system has answered; 0 when it is indexed."""

    data_set: str
    system: str
    done: int
    total: int


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class _Plan:
    split: str
    ks: tuple[int, ...]
    depth: int
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
    progress: Report | None = None,
) -> Evaluation:
    """Measure every system on one split of every data set, and compare each with the first.

    Every query asks for as many tools as the largest of `ks`. Systems that can learn do so first
    from the split `learn`, where one is named and the set has it. With `coverage`, systems that
    choose a set's size are asked for sets that are complete with this probability: how many were
    is `coverage@95` (for 0.95), their mean size `set_size@95`. `limit` takes so
    many queries of each set at random, the same ones for every system. Queries that nothing
    answers count for gates, latency and prompt tokens only. A system that cannot be restricted
    to a query's candidates is not measured on that query, which a note of the set says.

    Latency is the wall clock of a search, one at a time, after one that is not counted: it
    loads models.

    Raises:
        SettingsError: `ks` or `limit` make no sense, `learn` is the split that is measured, two
            sets have one name, or a set
            has no queries in this split.
        MissingExtraError: the extra `eval`, or a system's, is not installed.
    """
    if not ks or min(*ks, 1 if limit is None else limit) < 1:
        raise SettingsError(f"k ({list(ks)}) and limit ({limit}) must be 1 or more")
    if learn == split:
        raise SettingsError(f"what is learned from ({learn!r}) cannot be what is measured")
    plan = _Plan(
        split, tuple(ks), max(ks), learn, coverage, limit, seed, progress or (lambda _: None)
    )
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


def _settings(plan: _Plan) -> dict[str, str]:
    return {
        "split": plan.split,
        "k": ",".join(map(str, plan.ks)),
        "depth": str(plan.depth),
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
    queries = _chosen(data, plan)
    prompt = PromptTokens(data.tools)
    results: dict[str, SystemResult] = {}
    notes = list(data.notes)
    for name, create in systems.items():
        try:
            results[name] = _evaluate_system(name, create, data, queries, prompt, plan)
        except ToolcribError:
            raise
        except Exception as error:
            # A library that stumbles over one set must not cost the figures of all others; the
            # first system is what the rest is compared with, so nothing is left without it.
            if not results:
                raise
            notes.append(f"{name} failed and is not measured: {type(error).__name__}: {error}")
            continue
        if plan.coverage is not None and not _has_sets(results[name]):
            notes.append(f"{name} does not choose how many tools to return, or is not calibrated")
        left_out = len(queries) - len(results[name].outcomes)
        if left_out:
            notes.append(
                f"{name} cannot be restricted to given candidates: {left_out} of {len(queries)} "
                "queries are not measured for it, and comparisons leave them out",
            )
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


def _chosen(data: DataSet, plan: _Plan) -> tuple[LabelledQuery, ...]:
    queries = data.split(plan.split)
    if not queries:
        there = ", ".join(sorted({query.split for query in data.queries})) or "none at all"
        raise SettingsError(
            f"data set {data.name!r} has no queries in the split {plan.split!r}; "
            f"its splits are: {there}",
        )
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
    system = create()
    try:
        system.index(data.tools)
        if plan.learn and isinstance(system, Learner) and (known := data.split(plan.learn)):
            plan.report(Progress(data.name, f"{name} learns", 0, len(known)))
            system.learn(known)
        plan.report(Progress(data.name, name, 0, len(queries)))
        system.search(queries[0].text, plan.depth)
        outcomes: list[Outcome] = []
        for done, query in enumerate(queries, start=1):
            outcome = _ask(system, query, prompt, plan.depth)
            outcomes += [outcome] if outcome else []
            plan.report(Progress(data.name, name, done, len(queries)))
        sets = _complete(system, outcomes, plan.coverage)
        version = system.version
    finally:
        system.close()
    measured = _measured(outcomes, plan.ks, sets)
    return summarise(name, version, measured, prompt, plan.seed)


def _ask(system: System, query: LabelledQuery, prompt: PromptTokens, depth: int) -> Outcome | None:
    """The answer and its cost; nothing where the system cannot keep to the candidates."""
    start = time.perf_counter()
    try:
        answer = system.search(query.text, depth, query.among)
    except NotImplementedError:
        if query.among is None:
            raise
        return None
    ms = (time.perf_counter() - start) * 1000
    answer = replace(answer, ranked=answer.ranked[:depth])
    return Outcome(query, answer, ms, prompt.count(_ids(answer)))


def _complete(
    system: System, outcomes: Sequence[Outcome], coverage: float | None
) -> dict[str, dict[str, float]]:
    """By query, whether the set of the system's own size held all that is needed, and its size."""
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


def _has_sets(result: SystemResult) -> bool:
    return any(measure.startswith("coverage@") for measure in result.measures)


def _ids(answer: Answer) -> list[str]:
    return [tool.id for tool in answer.ranked]


def _measured(
    outcomes: Sequence[Outcome], ks: Sequence[int], sets: Mapping[str, Mapping[str, float]]
) -> tuple[Outcome, ...]:
    answerable = [outcome for outcome in outcomes if outcome.query.answerable]
    values = iter(
        measure(
            [_ids(outcome.answer) for outcome in answerable],
            [outcome.query for outcome in answerable],
            ks,
        )
    )
    return tuple(
        replace(outcome, measures={**next(values), **sets.get(outcome.query.id, {})})
        if outcome.query.answerable
        else outcome
        for outcome in outcomes
    )
