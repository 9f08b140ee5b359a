"""Interleaving of two rankings in one answer, to learn from use which ranking is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from random import Random

from toolcrib.records import FindResult, ToolHit
from toolcrib.records.answers import Team


def interleave(own: FindResult, other: FindResult, name: str, seed: str) -> FindResult:
    """Interleave the tools of two answers; each tool names its team.

    Scores and probabilities stay with the places of the first answer, as do confidence and
    verdict. Tools that are always active keep their places. Answers that lack different parts are
    not interleaved.
    """
    took, total = other.took_ms.get("total", 0.0), own.took_ms.get("total", 0.0)
    own = replace(own, took_ms={**own.took_ms, "interleave": took, "total": total + took})
    # The first answer alone sets the number of tools, so `coverage` is not compared.
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
    """Draft as many tools as the first ranking has from both (Radlinski, Kurup, Joachims 2008).

    In every round each team picks its best tool that is not drafted yet; the seed alone draws the
    team that picks first. The shared top of both rankings has no team, as credit for it would be
    noise. Tools that are left when the second ranking ends have no team either.
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
