"""What happens to the tools that were found before an agent gets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from pydantic import Field

from toolcrib.records import Sensitivity, ToolHit, ToolSpec
from toolcrib.retrieval.assessment import ENABLED
from toolcrib.router.requirements import required
from toolcrib.store.filters import AnyOf, Equals, Filter, HasId, Not, Range, all_of, up_to
from toolcrib.store.payload import read_tool
from toolcrib.store.base import Store, point_id

__all__ = ["Reach", "ToolSelector", "ToolSettings", "compatible"]

Ceiling = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_ACTIVE = Equals("always_active", value=True)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Which tools an agent may get, and how many.

    `k`: tools a turn, beside those that are always active and those that the chosen ones
    require (at most `max_required`). Where no more than `pass_through` tools are in reach, all
    are given; 0 for never. With `append_only` tools stay where they stood in earlier turns,
    which keeps a provider's prompt cache. `max_cost` and `max_latency_ms` keep out what states
    a higher `cost_estimate` or `avg_latency_ms`; what states none passes. `servers` are the
    only ones allowed; None allows all.
    """

    k: Annotated[int, Field(ge=1)] = 5
    pass_through: Annotated[int, Field(ge=0)] = 30
    max_required: Annotated[int, Field(ge=0)] = 10
    append_only: bool = False
    max_cost: Ceiling | None = None
    max_latency_ms: Ceiling | None = None
    without_safety_tags: frozenset[str] = frozenset()
    servers: frozenset[str] | None = None


def compatible(settings: ToolSettings, ceiling: Sensitivity | None = None) -> Filter | None:
    """What the settings, and a turn's ceiling of sensitivity, let through; None for everything.

    It belongs inside the legs: what is cut from an answer has taken a place in it.

    Raises:
        QueryError: a ceiling is not a finite number.
    """
    tags, servers = settings.without_safety_tags, settings.servers
    return all_of(
        _not_above("cost_estimate", settings.max_cost),
        _not_above("avg_latency_ms", settings.max_latency_ms),
        Not(AnyOf("safety_tags", sorted(tags))) if tags else None,
        None if servers is None else AnyOf("server", sorted(servers)),
        up_to(ceiling),
    )


def _not_above(field: str, most: float | None) -> Filter | None:
    return None if most is None else Not(Range(field, gt=most))


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known before a search: who comes anyway, and how many to search for.

    `active` are the tools in reach that are always active, by id. `everything`: every tool in
    reach, by id, where they are few enough to be given all; None where they are not.
    """

    k: int
    active: tuple[ToolSpec, ...]
    everything: tuple[ToolSpec, ...] | None = None

    @property
    def limit(self) -> int:
        """The `k` of the search: a found tool that is always active takes no other's place."""
        if self.everything is None:
            return self.k + len(self.active)
        return max(1, len(self.everything))


class ToolSelector:
    """Completes rankings out of a store, which it only reads.

    `allowed` is everywhere the caller's scope and limits together; no tool beyond it, and no
    disabled one, is ever added.
    """

    def __init__(self, store: Store, settings: ToolSettings | None = None) -> None:
        self._store = store
        self._settings = settings or ToolSettings()

    def reach(self, allowed: Filter | None, k: int | None = None) -> Reach:
        """Look at what is in reach; `k` in place of the settings'.

        Where everything is given, ask the search to withhold nothing.

        Raises:
            StoreError: the store does not answer.
        """
        k = self._settings.k if k is None else k
        if not self._is_small(allowed):
            return Reach(k, self._active(allowed))
        everything = self._specs(allowed)
        return Reach(k, tuple(spec for spec in everything if spec.always_active), everything)

    def complete(
        self, hits: Sequence[ToolHit], allowed: Filter | None, reach: Reach | None = None
    ) -> tuple[list[ToolHit], tuple[str, ...]]:
        """The hits with what belongs to them, ranked anew, and signals of what was left out.

        First come the tools that are always active, by id, then the others, each followed by
        what it requires. With `reach` no more than its `k` others, or all that there are.
        What was not found has a score of 0, and says in `legs` why it is there.

        Raises:
            StoreError: the store does not answer.
        """
        found = {hit.id: hit for hit in hits}
        active = self._active(allowed) if reach is None else reach.active
        first = [found.pop(spec.id, None) or _added(spec, "always_active") for spec in active]
        chosen = [*first, *_cut(list(found.values()), reach)]
        needed = required(
            self._store, [hit.tool for hit in chosen], allowed, self._settings.max_required
        )
        whole: list[ToolHit] = []
        for hit in chosen:
            further = needed.tools.get(hit.id, [])
            whole += [hit, *(_added(spec, "required") for spec in further)]
        return _ranked(whole), needed.signals

    def append_only(
        self, previous_ids: Sequence[str], hits: Sequence[ToolHit], allowed: Filter | None
    ) -> list[ToolHit]:
        """The hits behind the tools of earlier turns, which keep their places; ranked anew.

        A prompt cache holds as long as what stood in front stays, so a tool that was given
        before stays although this turn did not find it. It goes when it is no longer allowed.

        Raises:
            StoreError: the store does not answer.
        """
        known = {hit.id: hit for hit in hits}
        absent = [tool_id for tool_id in previous_ids if tool_id not in known]
        if absent:
            only = HasId(frozenset(map(point_id, absent)))
            kept = self._specs(all_of(only, allowed))
            known |= {spec.id: _added(spec, "kept") for spec in kept}
        order = dict.fromkeys((*previous_ids, *(hit.id for hit in hits)))
        return _ranked(known[tool_id] for tool_id in order if tool_id in known)

    def _is_small(self, allowed: Filter | None) -> bool:
        """Whether all may be given; looks no further than it must, where a count grows."""
        most = self._settings.pass_through
        if most == 0:
            return False
        records = self._store.scroll(all_of(ENABLED, allowed), ("id",))
        return len(list(islice(records, most + 1))) <= most

    def _active(self, allowed: Filter | None) -> tuple[ToolSpec, ...]:
        return self._specs(all_of(_ACTIVE, allowed))

    def _specs(self, where: Filter | None) -> tuple[ToolSpec, ...]:
        """The enabled tools that match, by id."""
        records = self._store.scroll(all_of(ENABLED, where), ("spec",))
        return tuple(sorted((read_tool(r.payload) for r in records), key=lambda spec: spec.id))


def _cut(hits: list[ToolHit], reach: Reach | None) -> list[ToolHit]:
    """As many hits as may be given, or all tools where all may."""
    if reach is None:
        return hits
    if reach.everything is None:
        return hits[: reach.k]
    there = {tool.id for tool in reach.active} | {hit.id for hit in hits}
    unfound = [spec for spec in reach.everything if spec.id not in there]
    return [*hits, *(_added(spec, "pass_through") for spec in unfound)]


def _added(spec: ToolSpec, why: str) -> ToolHit:
    return ToolHit(rank=0, score=0.0, tool=spec, legs={why: 1.0})


def _ranked(hits: Iterable[ToolHit]) -> list[ToolHit]:
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1)]
