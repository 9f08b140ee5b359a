"""Tools of a turn: the search, tools added by rules, and the tools that the route keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from toolcrib.records import FindResult, Message, Route, ToolHit, ToolSpec, Turn
from toolcrib.records.answers import with_ranks
from toolcrib.retrieval.assembly import interleave
from toolcrib.retrieval.dialogue import OWN_SHARE
from toolcrib.retrieval.gate import ENABLED, append_general_tool
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.retrieval.options import FULL_PLAN, InterleaveSettings, SearchOptions, SearchPlan
from toolcrib.retrieval.prerequisites import required_tools
from toolcrib.router.budget import Budget
from toolcrib.router.settings import ToolSettings
from toolcrib.store.base import ListRequest, Record, Store, point_id
from toolcrib.store.filters import (
    AnyOf,
    Equals,
    Filter,
    HasId,
    Not,
    Range,
    all_of,
    from_scope,
)
from toolcrib.store.payload import read_tool

_ACTIVE = Equals("always_active", value=True)

MAX_LISTED_ACTIVE_TOOLS = 100
"""Always-active tools that the first request lists; more cost a second request."""

MIN_MODEL_TIME_S = 0.001
"""Time in which no language model answers."""


def settings_filter(settings: ToolSettings) -> Filter | None:
    """Filter of the settings; None if every tool passes.

    The legs apply the filter: filtering the answer would leave fewer than `k` tools.
    """
    tags, servers = settings.without_safety_tags, settings.servers
    return all_of(
        _not_above("cost_estimate", settings.max_cost),
        _not_above("avg_latency_ms", settings.max_latency_ms),
        Not(AnyOf("safety_tags", sorted(tags))) if tags else None,
        None if servers is None else AnyOf("server", sorted(servers)),
    )


def _not_above(field: str, most: float | None) -> Filter | None:
    return None if most is None else Not(Range(field, gt=most))


@dataclass(frozen=True, slots=True)
class Reach:
    """Tools that are included without a search, and the number to search for.

    `active`: always-active tools in the caller's scope, by id. `everything`: all tools in scope, by
    id, if they are few enough to return all; else None.
    """

    k: int | Literal["auto"]
    active: tuple[ToolSpec, ...]
    everything: tuple[ToolSpec, ...] | None = None

    @property
    def limit(self) -> int | Literal["auto"]:
        """`k` of the search; always-active tools among its hits do not count."""
        if self.everything is not None:
            return max(1, len(self.everything))
        return self.k if self.k == "auto" else self.k + len(self.active)


@dataclass(frozen=True, slots=True, eq=False)
class ToolSelector:
    """Selector that adds tools by rules to a ranking; reads its store only.

    `allowed`: filter of scope and settings. No tool outside of it and no disabled tool is added.
    """

    store: Store
    settings: ToolSettings = field(default_factory=ToolSettings)

    def reach(self, allowed: Filter | None, k: int | Literal["auto"] | None = None) -> Reach:
        """List the tools that are included without a search; `k` overrides the settings.

        If all tools are returned, the search should withhold none.
        """
        k = self.settings.k if k is None else k
        most = self.settings.pass_through
        small = [ListRequest(all_of(ENABLED, allowed), most + 1)] if most else []
        active = ListRequest(all_of(ENABLED, _ACTIVE, allowed), MAX_LISTED_ACTIVE_TOOLS, ("spec",))
        _, (found, *reached) = self.store.search_and_list((), [active, *small])
        if not reached or len(reached[0]) > most:
            is_cut = len(found) == active.limit
            return Reach(k, self._specs(all_of(_ACTIVE, allowed)) if is_cut else _specs(found))
        everything = self._specs(allowed)
        return Reach(k, tuple(spec for spec in everything if spec.always_active), everything)

    def complete(
        self, hits: Sequence[ToolHit], allowed: Filter | None, reach: Reach | None = None
    ) -> tuple[list[ToolHit], tuple[str, ...]]:
        """Add tools by rules, rank all hits, and return signals of omitted tools.

        Always-active tools come first, by id; then the other hits, each followed by its
        requirements. `reach` limits the other hits to its `k`, or adds all tools. A tool that the
        search did not find has score 0; `legs` names the rule.
        """
        found = {hit.id: hit for hit in hits}
        active = self._specs(all_of(_ACTIVE, allowed)) if reach is None else reach.active
        first = [_by_rule(found.pop(spec.id, None), spec, "always_active") for spec in active]
        chosen = [*first, *_cut(list(found.values()), reach)]
        tools = [hit.tool for hit in chosen]
        needed, signals = required_tools(self.store, tools, allowed, self.settings.max_required)
        whole: list[ToolHit] = []
        for hit in chosen:
            whole += [hit, *(_by_rule(None, spec, "required") for spec in needed.get(hit.id, []))]
        return list(with_ranks(whole)), signals

    def append_only(
        self, previous_ids: Sequence[str], hits: Sequence[ToolHit], allowed: Filter | None
    ) -> list[ToolHit]:
        """Append hits to the tools of earlier turns, and rank them.

        A provider caches a prompt's prefix, so tools of earlier turns keep their places even if
        this turn did not find them. Tools that are no longer allowed are removed.
        """
        known = {hit.id: hit for hit in hits}
        absent = [tool_id for tool_id in previous_ids if tool_id not in known]
        if absent:
            only = HasId(frozenset(map(point_id, absent)))
            kept = self._specs(all_of(only, allowed))
            known |= {spec.id: _by_rule(None, spec, "kept") for spec in kept}
        order = dict.fromkeys((*previous_ids, *(hit.id for hit in hits)))
        return list(with_ranks(known[tool_id] for tool_id in order if tool_id in known))

    def _specs(self, where: Filter | None) -> tuple[ToolSpec, ...]:
        """Enabled tools that match, by id."""
        return _specs(self.store.scroll(all_of(ENABLED, where), ("spec",)))


def _specs(records: Iterable[Record]) -> tuple[ToolSpec, ...]:
    return tuple(sorted((read_tool(r.payload) for r in records), key=lambda spec: spec.id))


def _cut(hits: list[ToolHit], reach: Reach | None) -> list[ToolHit]:
    """First hits within the limit, or all tools if all may be given."""
    if reach is None:
        return hits
    k = len(hits) if reach.k == "auto" else reach.k
    if reach.everything is None:
        return hits[:k]
    there = {tool.id for tool in reach.active} | {hit.id for hit in hits}
    found = [_by_rule(hit, hit.tool, "pass_through") for hit in hits[k:]]
    rest = [spec for spec in reach.everything if spec.id not in there]
    return [*hits[:k], *found, *(_by_rule(None, spec, "pass_through") for spec in rest)]


def _by_rule(found: ToolHit | None, spec: ToolSpec, rule: str) -> ToolHit:
    """Hit of a tool that a rule adds, found or not; `legs` names the rule."""
    hit = found or ToolHit(rank=0, score=0.0, tool=spec)
    return replace(hit, legs=hit.legs | {rule: 1.0}, team=None)


@dataclass(frozen=True, slots=True)
class Selection:
    """Found tools and signals.

    `is_everything`: the result holds all tools in scope. `shown`: ids of tools of earlier turns.
    """

    result: FindResult
    signals: tuple[str, ...] = ()
    is_everything: bool = False
    shown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class ToolStage:
    """Stage that ranks and completes tools; with `second`, interleaves two rankings."""

    retriever: HybridRetriever
    selector: ToolSelector
    second: InterleaveSettings | None = None

    def encode(
        self,
        text: str,
        history: Sequence[Message] = (),
        own_share: float = OWN_SHARE,
        encoded: Sequence[EncodedQuery] = (),
        vocabulary: Filter | None = None,
    ) -> EncodedQuery:
        """Encode a query and its history for every ranking, as `HybridRetriever.encode`.

        `encoded`: queries whose vectors are reused.
        """
        plans = FULL_PLAN, FULL_PLAN if self.second is None else self.second.plan
        return self.retriever.encode(text, plans, history, own_share, encoded, vocabulary)

    def find(
        self,
        turn: Turn,
        query: EncodedQuery,
        budget: Budget,
        k: int | Literal["auto"] | None,
        shown: Sequence[str],
        *,
        reranking: bool,
        seed: str = "",
    ) -> Selection:
        """Find the tools that fit a turn; the gate withholds none here.

        `reranking`: use the reranker, if configured. `seed`: random seed of interleaving. The
        second ranking runs if the budget allows it.
        """
        limits, allowed = self._limits(turn)
        reach = self.selector.reach(allowed, k)
        options = SearchOptions(
            reach.limit,
            turn.reach,
            limits,
            gate=False,
            coverage=self.selector.settings.coverage,
            least=self.selector.settings.least if reach.everything is None else None,
            needs=turn.needs or None,
            called=turn.called if turn.step is not None else None,
            task=turn.text if turn.step is not None else None,
        )

        read = dict[int, Record]()

        def rank(plan: SearchPlan, options: SearchOptions) -> FindResult:
            # A model without any time is not called; with this minimum it is marked as late.
            max_s = max(MIN_MODEL_TIME_S, budget.room_ms("llm") / 1000)
            plan = replace(plan, rerank=plan.rerank and reranking, model_time_s=max_s)
            result = self.retriever.find(query, options, plan, read=read)
            for stage in ("llm", "rerank"):
                budget.record(stage, result.took_ms.get(stage, 0.0))
            return result

        found = rank(FULL_PLAN, options)
        second = self.second
        if second is not None and second.name and found.tools and not turn.needs:
            may_ask = reranking and second.plan.rerank and self.retriever.rerank_stage == "llm"
            same = replace(options, k=len(found.tools) + len(reach.active), least=None)
            if may_ask and not budget.has_room("llm"):
                budget.degraded.append("interleave")
            elif other := budget.run("interleave", lambda: rank(second.plan, same), None):
                found = interleave(found, other, second.name, seed)
        # Requirements stated by authors come beside the k tools, not among them.
        found = self.retriever.complete(found, options, read, authors=False)
        hits, signals = self.selector.complete(found.tools, allowed, reach)
        if self.selector.settings.append_only:
            hits = self.selector.append_only(shown, hits, allowed)
        result = replace(found, tools=tuple(hits))
        return Selection(result, signals, reach.everything is not None, frozenset(shown))

    def active_tools(self, turn: Turn, reason: str, shown: Sequence[str]) -> Selection:
        """Always-active tools, without a search."""
        _, allowed = self._limits(turn)
        hits, signals = self.selector.complete((), allowed)
        if self.selector.settings.append_only:
            hits = self.selector.append_only(shown, hits, allowed)
        result = FindResult(turn.text, tuple(hits), {}, verdict="abstain", reason=reason)
        return Selection(result, signals, shown=frozenset(shown))

    def for_route(self, turn: Turn, route: Route, selection: Selection) -> FindResult:
        """Tools that the route keeps; the verdict is `accept` only if gate and route agree.

        The route `knowledge` keeps always-active tools, tools of earlier turns (if append-only),
        and a registry that was returned whole; so does `general` if the gate withholds. If the gate
        rejects the tools, the general tool follows them.
        """
        found, is_general = selection.result, route.kind == "general"
        if route.kind == "none" or (found.verdict == "accept" and route.kind in ("tools", "both")):
            return found
        stay = self._kept_tools(selection)
        if route.kind == "knowledge":
            return replace(found, tools=stay, verdict="abstain", reason=route.reason)
        general = self.retriever.assessor.general(self._limits(turn)[1])
        kept = stay if is_general and self.retriever.assessor.withholds else found.tools
        return replace(
            found,
            tools=append_general_tool(kept, general),
            verdict="abstain" if general is None else "fallback",
            reason=route.reason if found.verdict == "accept" else found.reason,
            fallback=general is not None,
        )

    def _kept_tools(self, selection: Selection) -> tuple[ToolHit, ...]:
        hits = selection.result.tools
        if selection.is_everything:
            return hits
        shown = selection.shown if self.selector.settings.append_only else frozenset[str]()
        return with_ranks(hit for hit in hits if hit.tool.always_active or hit.id in shown)

    def _limits(self, turn: Turn) -> tuple[Filter | None, Filter | None]:
        """Filter of the settings, and the filter of settings and scope together."""
        limits = settings_filter(self.selector.settings)
        return limits, all_of(from_scope(turn.reach), limits)
