"""Token budget: as many of an answer's tools as fit, and the order in which they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolcrib.records import FindResult, ToolHit
from toolcrib.records.definitions import DefinitionForm, definition_tokens
from toolcrib.retrieval.gate import MAX_SET
from toolcrib.retrieval.needs import NEEDS_CUT
from toolcrib.retrieval.options import SearchOptions

__all__ = ["arranged", "unbudgeted"]


def unbudgeted(options: SearchOptions) -> SearchOptions:
    """The options of the search itself: all that may fit, where a budget is in place of `k`."""
    if options.token_budget is None or options.k == "auto":
        return options
    return replace(options, k=MAX_SET)


def arranged(found: FindResult, options: SearchOptions) -> FindResult:
    """The answer within its token budget, in the order that is asked for."""
    if options.token_budget is not None:
        found = _within(found, options.token_budget, options)
    if options.order == "id":
        found = replace(found, tools=tuple(sorted(found.tools, key=lambda hit: hit.id)))
    return found


def _within(found: FindResult, token_budget: int, options: SearchOptions) -> FindResult:
    kept = _fitting(found.tools, token_budget, options.form)
    served = {need for hit in kept for need in hit.needs or ()}
    lacks = {
        # A set that is to be complete no longer is.
        "coverage": options.k == "auto" and len(kept) < len(found.tools),
        NEEDS_CUT: any(need not in served for hit in found.tools for need in hit.needs or ()),
    }
    more = [mark for mark, is_cut in lacks.items() if is_cut and mark not in found.degraded]
    ranked = tuple(replace(hit, rank=rank) for rank, hit in enumerate(kept, start=1))
    return replace(found, tools=ranked, degraded=(*found.degraded, *more))


def _fitting(hits: Sequence[ToolHit], token_budget: int, form: DefinitionForm) -> list[ToolHit]:
    """The best that fit together: the first always, and the general tool before any other.

    Those that the query calls by name come next, each by itself. Any other tool comes with those
    that give what it needs, or not at all; these without it only where they stand before it, in
    their own right.
    """
    costs = {hit.id: definition_tokens(hit.tool, form) for hit in hits}
    kept = {hit.id for hit in hits if hit.rule == "fallback"}
    left = token_budget - sum(costs[each] for each in kept)
    for hit in hits:
        if hit is hits[0] or (hit.score >= 1 and costs[hit.id] <= left):
            left -= 0 if hit.id in kept else costs[hit.id]
            kept.add(hit.id)
    above: set[str] = set()
    for hit in hits:
        users = above.intersection(hit.needed_for)
        above.add(hit.id)
        if hit.id not in kept and users and users.isdisjoint(kept):
            continue
        wanted = _with_providers(hit, hits) - kept
        cost = sum(costs[each] for each in wanted)
        if cost <= left:
            kept |= wanted
            left -= cost
    return [hit for hit in hits if hit.id in kept]


def _with_providers(hit: ToolHit, hits: Sequence[ToolHit]) -> set[str]:
    """The id of a hit, and of all among the hits that give what it and they need."""
    ids = {hit.id}
    while more := {each.id for each in hits if not ids.isdisjoint(each.needed_for)} - ids:
        ids |= more
    return ids
