"""Page about an evaluation: one HTML document that asks nothing of the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from toolcrib.evaluation.measures import MEASURES, spoken
from toolcrib.evaluation.mistakes import confusions, worst_queries
from toolcrib.evaluation.report.plots import (
    STAGES,
    ablation_bars,
    confidence_distribution,
    latency_bars,
    recall_curves,
    reliability_diagram,
    risk_coverage_curves,
    token_bars,
)
from toolcrib.evaluation.report.svg import Look, milliseconds, percent
from toolcrib.evaluation.report.tables import (
    best_first,
    gate_table,
    leaderboard,
    looks_of,
    main_measure_of,
    measure_table,
    overall,
    per_set_table,
)
from toolcrib.evaluation.results import Comparison, Evaluation, SetResult, SystemResult
from toolcrib.extras import import_extra

__all__ = ["Headline", "fill", "headline", "render"]


WORST = 10
"""Worst queries, and pairs of tools mistaken for one another, that are shown."""


def render(evaluation: Evaluation) -> str:
    """The report as an HTML document that asks nothing of the network.

    The same evaluation gives the same text. It has no scripts, holds its drawings as SVG, and
    is light or dark as the reader's system is. The first system is what others are marked
    against and whose worst queries are shown.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    whole = overall(evaluation)
    looks = looks_of(whole)
    several = len(evaluation.sets) > 1
    return fill(
        "page.html.jinja",
        headline=headline(evaluation, whole),
        whole=whole,
        several=several,
        overall=_chapter(whole, evaluation, looks) if several else None,
        per_set=per_set_table(evaluation, whole, looks) if several else None,
        chapters=[_chapter(one, evaluation, looks) for one in evaluation.sets.values()],
        settings=evaluation.settings,
        measures=[
            (f"{one.title}@k" if one.cutoffs is None else spoken(*one.names(())), one.meaning)
            for one in MEASURES
            if one.meaning
        ],
        first=next(iter(whole.systems), ""),
    )


def _chapter(one: SetResult, evaluation: Evaluation, looks: Mapping[str, Look]) -> dict[str, Any]:
    """One data set, or all of them, as the template takes it."""
    systems = list(one.systems.values())
    ranked = best_first(one)
    measure = main_measure_of(one)
    pooled = one.name not in evaluation.sets
    asked = systems[0].outcomes if systems and not pooled else ()
    best = ranked[0] if measure else None
    return {
        "result": one,
        "measure": spoken(measure),
        "best": f"{best.name} {spoken(measure)} {best.measures[measure].mean:.3f}" if best else "",
        "leaderboard": leaderboard(one, evaluation, looks),
        "every_measure": measure_table(one, evaluation, looks),
        "gates": gate_table(one, looks),
        "finding": (recall_curves(ranked, looks), ablation_bars(systems, looks, measure)),
        "knowing": (
            confidence_distribution(systems),
            reliability_diagram(systems, looks),
            risk_coverage_curves(systems, looks),
        ),
        "costing": (latency_bars(ranked, looks), token_bars(ranked, looks)),
        "missed_by": systems[0].name if systems and not pooled else "",
        "misses": worst_queries(asked, WORST),
        "forbidden": {result.query.id: result.query.forbidden for result in asked},
        "confused": [pair for pair in confusions(asked, WORST) if pair.count > 1],
    }


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence, and what should be said beside it."""

    lead: str
    rest: tuple[str, ...]


def headline(evaluation: Evaluation, whole: SetResult) -> Headline:
    """Which system is best, by how much, and what the first system finds, saves and knows."""
    measure = main_measure_of(whole)
    if not whole.systems:
        return Headline("Nothing was measured.", ())
    first = next(iter(whole.systems.values()))
    if not measure:
        lead = "No query here has an answer: only confidence and cost were measured."
        return Headline(lead, tuple(_about(first, whole)))
    lead, chance = _ranking(evaluation, whole, measure)
    return Headline(lead, tuple(filter(None, (chance, *_about(first, whole)))))


def _ranking(evaluation: Evaluation, whole: SetResult, measure: str) -> tuple[str, str]:
    ranked = [system for system in best_first(whole) if measure in system.measures]
    best = ranked[0]
    value = best.measures[measure].mean
    over = (
        f"over {len(evaluation.sets)} data sets" if len(evaluation.sets) > 1 else f"on {whole.name}"
    )
    if len(ranked) == 1:
        return f"{best.name} reaches {spoken(measure)} {value:.3f} {over}.", ""
    rival = _rival(best, ranked)
    which = ", the best baseline" if rival is not ranked[1] else ""
    ahead = f"{value - rival.measures[measure].mean:.3f} ahead of"
    lead = (
        f"{best.name} finds tools best {over}: {spoken(measure)} {value:.3f}, "
        f"{'level with' if ahead.startswith('0.000') else ahead} {rival.name}{which}."
    )
    return lead, _chance(evaluation, whole, ranked, measure)


def _rival(system: SystemResult, ranked: list[SystemResult]) -> SystemResult:
    """The best of the others; for a stage of toolcrib, of those that are none, where there are."""
    others = [other for other in ranked if other is not system]
    baselines = [other for other in others if other.name not in STAGES]
    return baselines[0] if baselines and system.name in STAGES else others[0]


def _chance(
    evaluation: Evaluation, whole: SetResult, ranked: list[SystemResult], measure: str
) -> str:
    """How sure it is that the first system and its rival, or the best, differ."""
    first = next(iter(whole.systems.values()))
    if not any(system is first for system in ranked):
        return ""
    leads = ranked[0] is first
    other = _rival(first, ranked) if leads else ranked[0]
    found = [
        one.systems[other.name].against_first[measure]
        for one in evaluation.sets.values()
        if other.name in one.systems and measure in one.systems[other.name].against_first
    ]
    if not found:
        return ""
    place = "" if leads else f"{first.name} is number {ranked.index(first) + 1} of {len(ranked)}. "
    if len(found) == 1:
        return place + _of_one(found[0], other.name)
    wins = sum(c.significant and (c.difference < 0) == leads for c in found)
    losses = sum(c.significant and (c.difference > 0) == leads for c in found)
    if not wins and not losses:
        pair = f"{first.name} and {other.name}"
        return f"{place}On no set is the difference between {pair} more than chance."
    ahead, behind = (first, other) if leads else (other, first)
    return (
        f"{place}{ahead.name} is significantly better than {behind.name} on {wins} of "
        f"{len(found)} sets, and significantly worse on {losses or 'none'}."
    )


def _of_one(found: Comparison, rival: str) -> str:
    if not found.significant:
        return f"The difference to {rival} may be chance (p = {found.p:.2f})."
    return f"The difference to {rival} is significant (p = {found.p:.4f})."


def _about(system: SystemResult, whole: SetResult) -> Iterator[str]:
    k = main_measure_of(whole).partition("@")[2]
    recall, complete = (system.measures.get(f"{name}@{k}") for name in ("recall", "completeness"))
    if recall and complete:
        yield (
            f"The first {k} tools of {system.name} hold {percent(recall.mean)} of the tools that a "
            f"query needs, and all of them for {percent(complete.mean)} of the queries."
        )
    if system.prompt_tokens and "p50" in system.latency_ms:
        yield (
            f"They cost {system.prompt_tokens:,.0f} prompt tokens, {percent(system.tokens_saved)} "
            f"fewer than the whole registry, and are found in "
            f"{milliseconds(system.latency_ms['p50'])} ms (median)."
        )
    auroc = system.gates.get("auroc")
    if auroc is not None:
        yield (
            "Asked to tell a query with an answer from one without, its confidence is right in "
            f"{percent(auroc)} of pairs."
        )


FOLDER = "toolcrib.evaluation.report"


def fill(name: str, **values: Any) -> str:
    """The template `name` with these values, and `css`; lone surrogates, as texts may hold, gone.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    css = (files(FOLDER) / "style.css").read_text(encoding="utf-8")
    page: str = _template(name).render(css=css, **values)
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _template(name: str) -> Any:
    jinja = import_extra("jinja2", "the evaluation report", "eval")
    environment = jinja.Environment(
        loader=jinja.PackageLoader(FOLDER, "."),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
