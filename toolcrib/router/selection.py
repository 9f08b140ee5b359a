"""The tools of a turn: searched, completed by what belongs to them, and what the route leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolcrib.records import FindResult, Route, ToolHit, Turn
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.retrieval.options import SearchOptions
from toolcrib.router.tools import ToolSelector, ToolSettings, compatible
from toolcrib.store.filters import Filter, all_of, from_scope

__all__ = ["Selection", "ToolStage"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What was found, what was noticed, and whether that is all that there is in reach.

    `shown` are the ids of tools that earlier turns had.
    """

    result: FindResult
    signals: tuple[str, ...] = ()
    is_everything: bool = False
    shown: frozenset[str] = frozenset()


class ToolStage:
    """Chooses the tools of turns."""

    def __init__(
        self, retriever: HybridRetriever, selector: ToolSelector, settings: ToolSettings
    ) -> None:
        self._retriever = retriever
        self._first_stage = retriever.first_stage()
        self._selector = selector
        self._settings = settings

    @property
    def reranks(self) -> bool:
        """Whether candidates are looked at twice, where there is time."""
        return self._retriever.reranks

    def find(
        self,
        turn: Turn,
        query: EncodedQuery,
        k: int | None,
        shown: Sequence[str],
        *,
        reranking: bool,
    ) -> Selection:
        """The tools that fit, whatever the gate says of them.

        Raises:
            QueryError: an impossible `k`.
            StoreError: the store does not answer.
        """
        limits, allowed = self._limits(turn)
        reach = self._selector.reach(allowed, k)
        retriever = self._retriever if reranking else self._first_stage
        options = SearchOptions(reach.limit, turn.scope, limits, gate=False)
        found = retriever.find(query, options)
        hits, signals = self._selector.complete(found.tools, allowed, reach)
        if self._settings.append_only:
            hits = self._selector.append_only(shown, hits, allowed)
        result = replace(found, tools=tuple(hits))
        return Selection(result, signals, reach.everything is not None, frozenset(shown))

    def always(self, turn: Turn, reason: str, shown: Sequence[str]) -> Selection:
        """The tools that come with every turn, where nothing was looked for."""
        _, allowed = self._limits(turn)
        hits, signals = self._selector.complete((), allowed)
        if self._settings.append_only:
            hits = self._selector.append_only(shown, hits, allowed)
        result = FindResult(turn.text, tuple(hits), {}, verdict="abstain", reason=reason)
        return Selection(result, signals)

    def judged(self, turn: Turn, route: Route, selection: Selection) -> FindResult:
        """What the route leaves.

        Those that are always active stay, and those of earlier turns where the order is to be
        append-only; so does a registry that is small enough to be given whole. Where nothing
        fits, the general tool comes.
        """
        found = selection.result
        if route.kind in ("tools", "both"):
            return replace(found, verdict="accept", reason=route.reason)
        if route.kind == "none":
            return found
        kept = found.tools
        if not selection.is_everything:
            stay = selection.shown if self._settings.append_only else frozenset[str]()
            kept = tuple(hit for hit in kept if hit.tool.always_active or hit.id in stay)
        general = None
        if route.kind == "general":
            general = self._retriever.general(self._limits(turn)[1])
        if general is None:
            return replace(found, tools=kept, verdict="abstain", reason=route.reason)
        hits = _with(kept, general)
        return replace(found, tools=hits, verdict="fallback", reason=route.reason, fallback=True)

    def _limits(self, turn: Turn) -> tuple[Filter | None, Filter | None]:
        """What settings and destination let through, and that within the caller's scope."""
        limits = compatible(self._settings, turn.max_sensitivity)
        return limits, all_of(from_scope(turn.scope), limits)


def _with(kept: Sequence[ToolHit], general: ToolHit) -> tuple[ToolHit, ...]:
    there = {hit.id for hit in kept}
    hits = [*kept, *([] if general.id in there else [general])]
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1))
