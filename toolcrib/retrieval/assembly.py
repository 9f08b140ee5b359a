"""Assembly of an answer: copies, needs, interleaving, token budget, and order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from random import Random
from typing import Literal

from toolcrib.records import FindResult, NeedResult, ToolHit
from toolcrib.records.answers import Team, with_ranks
from toolcrib.records.definitions import DefinitionForm, definition_tokens
from toolcrib.retrieval.gate import MAX_SET_TOOLS
from toolcrib.retrieval.options import SearchOptions
from toolcrib.text import tokenise, unique

NEEDS_CUT = "needs-cut"
"""Mark of an answer that lacks the first tool of some need."""

# -- copies ----------------------------------------------------------------------------------------


def fold_copies(hits: Sequence[ToolHit], query: str) -> list[ToolHit]:
    """Fold tools of several servers with equal name, description and input schema into one hit.

    The first copy stays, and lists the other servers as `also_on`. Copies on servers that the query
    names stay apart. A tool without a description is no copy: its name says too little.
    """
    alike: dict[tuple[str, str], list[ToolHit]] = {}
    for hit in hits:
        alike.setdefault((hit.name, hit.description), []).append(hit)
    if len(alike) == len(hits):
        return list(hits)
    words = set(tokenise(query))
    heads: dict[str, ToolHit] = {}
    for (_, description), group in alike.items():
        if len(group) == 1 or not description:
            heads |= {hit.id: hit for hit in group}
            continue
        for hit in sorted(group, key=lambda hit: not _is_named(hit, words)):
            kept = (heads[each.id] for each in group if each.id in heads)
            head = next((each for each in kept if _is_copy(each, hit)), None)
            if head is None or _is_named(hit, words):
                heads[hit.id] = hit
            else:
                heads[head.id] = replace(head, also_on=(*head.also_on, hit.server))
    return [heads[hit.id] for hit in hits if hit.id in heads]


def _is_named(hit: ToolHit, words: set[str]) -> bool:
    server = set(tokenise(hit.server))
    return bool(server) and server <= words


def _is_copy(head: ToolHit, hit: ToolHit) -> bool:
    return head.server != hit.server and head.tool.input_schema == hit.tool.input_schema


# -- needs -----------------------------------------------------------------------------------------


def merge_needs(
    answers: Sequence[FindResult], whole: FindResult | None, k: int | Literal["auto"]
) -> FindResult:
    """Merge the answers to each need, and to the whole query if there is one.

    In every round each need adds its best tool that is not in the answer yet, the likeliest first.
    The query joins from the second round on, and fills remaining places. The answer holds the best
    tool of every need, unless `k` is less than the number of needs; `degraded` marks this.
    """
    tools = _rounds(answers, whole)
    asked = [*answers, *([] if whole is None else [whole])]
    surest = max(asked, key=lambda each: (each.verdict == "accept", each.confidence or 0.0))
    unmet = sum(each.verdict != "accept" for each in answers)
    reason = f"; nothing fits {unmet} of {len(answers)} needs" if unmet else ""
    firsts = {each.tools[0].id for each in answers if each.tools}
    ranked = [hit for hit in tools if hit.rule != "fallback"]
    # As for a single query, the general tool takes no place of another tool.
    general = [hit for hit in tools if hit.rule == "fallback"]
    shown = [*(ranked if k == "auto" else ranked[:k]), *general]
    is_cut = not firsts <= {hit.id for hit in shown}
    return FindResult(
        query="" if whole is None else whole.query,
        tools=with_ranks(shown),
        took_ms={
            stage: sum(each.took_ms.get(stage, 0.0) for each in asked)
            for stage in unique(*(each.took_ms for each in asked))
        },
        confidence=surest.confidence,
        verdict=surest.verdict,
        reason=f"{surest.reason}{reason}",
        threshold=surest.threshold,
        fallback=surest.fallback,
        degraded=unique(*(each.degraded for each in asked), (NEEDS_CUT,) if is_cut else ()),
        unmatched_terms=unique(*(each.unmatched_terms for each in asked)),
        needs=tuple(NeedResult(each.query, each.verdict, each.confidence) for each in answers),
        called=answers[0].called,
        spelling={word: right for each in asked for word, right in each.spelling.items()},
    )


def _rounds(answers: Sequence[FindResult], whole: FindResult | None) -> list[ToolHit]:
    """Every tool once, in the order of the rounds, with the needs of its round.

    Lower places of a tool in the answers to other needs do not count.
    """
    queues: list[deque[ToolHit | None]] = [deque(each.tools) for each in answers]
    if whole is not None:
        queues.append(deque((None, *whole.tools)))
    found: dict[str, ToolHit] = {}
    while any(queues):
        given: list[tuple[ToolHit, int]] = []
        for need, queue in enumerate(queues):
            while queue and (hit := queue.popleft()) is not None:
                if hit.id not in found:
                    given.append((hit, need))
                    break
        given.sort(key=lambda each: _likelihood(each[0]), reverse=True)
        for hit, need in given:
            first = found.get(hit.id, replace(hit, needs=()))
            served = (*(first.needs or ()), *([need] if need < len(answers) else []))
            found[hit.id] = replace(first, needs=tuple(sorted(served)))
    return list(found.values())


def _likelihood(hit: ToolHit) -> tuple[bool, float, float]:
    """Sort key: called by name, then probability, then score."""
    return hit.score >= 1, hit.probability or 0.0, hit.score


# -- two rankings ---------------------------------------------------------------------------------


def interleave(own: FindResult, other: FindResult, name: str, seed: str) -> FindResult:
    """Interleave two answers, to learn from use which ranking is better; each tool has its team.

    Scores and probabilities stay with the places of the first answer, as do confidence and verdict.
    Always-active tools keep their places. Answers with different degraded parts are not
    interleaved.
    """
    took, total = other.took_ms.get("total", 0.0), own.took_ms.get("total", 0.0)
    own = replace(own, took_ms={**own.took_ms, "interleave": took, "total": total + took})
    # The first answer sets the number of tools: the mark `coverage` does not matter.
    if set(own.degraded) - {"coverage"} != set(other.degraded):
        return own
    always = [hit for hit in own.tools if hit.tool.always_active]
    first, second = (
        [hit for hit in each.tools if not hit.tool.always_active] for each in (own, other)
    )
    drafted = team_draft(first, second, seed)
    tools = tuple(sorted((*always, *drafted), key=lambda hit: hit.rank))
    return replace(own, tools=tools, interleaved=name)


def team_draft(own: Sequence[ToolHit], other: Sequence[ToolHit], seed: str) -> tuple[ToolHit, ...]:
    """Draft tools from both rankings, as many as the first has (Radlinski, Kurup, Joachims 2008).

    In every round each team drafts its best remaining tool; only the seed decides the team that
    drafts first. The common top of both rankings has no team, because credit for it would be noise.
    Tools that remain when the second ranking ends have no team either.
    """
    pairs = zip(own, other, strict=False)
    shared = [hit for hit, _ in takewhile(lambda pair: pair[0].id == pair[1].id, pairs)]
    chosen: dict[str, tuple[ToolHit, Team | None]] = {hit.id: (hit, None) for hit in shared}
    draw = Random(seed)  # noqa: S311 -- it is no secret
    rankings: dict[Team, Sequence[ToolHit]] = {"own": own, "other": other}
    while any(hit.id not in chosen for hit in other):
        for team in draw.sample(tuple(rankings), 2):
            best = next((hit for hit in rankings[team] if hit.id not in chosen), None)
            if best is not None:
                chosen[best.id] = best, team
    for hit in own:
        chosen.setdefault(hit.id, (hit, None))
    return tuple(
        replace(hit, rank=place.rank, score=place.score, probability=place.probability, team=team)
        for place, (hit, team) in zip(own, chosen.values(), strict=False)
    )


# -- token budget and order -----------------------------------------------------------------------


def widen_for_budget(options: SearchOptions) -> SearchOptions:
    """Widen `k` to all tools that may fit into a token budget, which replaces `k`."""
    if options.token_budget is None or options.k == "auto":
        return options
    return replace(options, k=MAX_SET_TOOLS)


def arrange(found: FindResult, options: SearchOptions) -> FindResult:
    """Cut an answer to its token budget, and order its tools as the options say."""
    if options.token_budget is not None:
        found = _cut_to_budget(found, options.token_budget, options)
    if options.order == "id":
        found = replace(found, tools=tuple(sorted(found.tools, key=lambda hit: hit.id)))
    return found


def _cut_to_budget(found: FindResult, token_budget: int, options: SearchOptions) -> FindResult:
    kept = _select_fitting(found.tools, token_budget, options.form)
    served = {need for hit in kept for need in hit.needs or ()}
    lacks = {
        # The cut set may not be complete.
        "coverage": options.k == "auto" and len(kept) < len(found.tools),
        NEEDS_CUT: any(need not in served for hit in found.tools for need in hit.needs or ()),
    }
    more = [mark for mark, is_cut in lacks.items() if is_cut and mark not in found.degraded]
    return replace(found, tools=with_ranks(kept), degraded=(*found.degraded, *more))


def _select_fitting(
    hits: Sequence[ToolHit], token_budget: int, form: DefinitionForm
) -> list[ToolHit]:
    """Best tools that fit together: always the first, then the general tool.

    Tools called by name come next, each by itself. Any other tool needs its providers. A provider
    comes without its consumer only if it ranks higher.
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
    """Ids of a hit and of the hits that provide what it needs, directly or indirectly."""
    ids = {hit.id}
    while more := {each.id for each in hits if not ids.isdisjoint(each.needed_for)} - ids:
        ids |= more
    return ids
