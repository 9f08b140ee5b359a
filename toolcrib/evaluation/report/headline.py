"""What was found, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.evaluation.report.canvas import percent
from toolcrib.evaluation.report.overall import best_first, main_measure_of
from toolcrib.evaluation.report.plots import STAGES, milliseconds
from toolcrib.evaluation.report.tables import spoken
from toolcrib.evaluation.results import Comparison, Evaluation, SetResult, SystemResult

__all__ = ["Headline", "headline"]


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
