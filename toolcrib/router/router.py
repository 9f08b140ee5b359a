"""One turn, from what was said to one decision.

text ─► what it leans on ─► encoded once ─┬─► context ──► none (small talk)
                                          ├─► tools ─────┬─► route ─► Decision ─► log
                                          └─► knowledge ─┘
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

import numpy as np

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock
from toolcrib.encoders.base import DenseEncoder, FloatArray, SparseVector
from toolcrib.encoders.onnx import clauses
from toolcrib.errors import QueryError, ToolcribError, did_you_mean, nearest
from toolcrib.records import (
    AgentDecision,
    Collection,
    Context,
    Decision,
    KnowledgeResult,
    Route,
    Turn,
)
from toolcrib.records.scope import is_above
from toolcrib.retrieval.legs import EncodedQuery, has_words
from toolcrib.retrieval.options import BY_SETTINGS, KnowledgeOptions
from toolcrib.router.agents.router import AgentRouter, Pending
from toolcrib.router.budget import Budget, Costs
from toolcrib.router.context.by_model import ContextReader
from toolcrib.router.context.model import Detector
from toolcrib.router.conversation import (
    MAX_ATTACHMENTS,
    SHOWN,
    ConversationReader,
    SearchText,
    by_itself,
    gist,
    search_text,
)
from toolcrib.router.knowledge import KnowledgeRouter
from toolcrib.router.route import Reason, RouteEvidence, choose_route
from toolcrib.router.settings import Limits
from toolcrib.router.sql import find_sql
from toolcrib.router.tools import Selection, ToolStage
from toolcrib.store.filters import from_scope

__all__ = ["Router", "text_signals"]

logger = logging.getLogger(__name__)

LOOKED_AT = 8_000

_TRACE = re.compile(
    r"^Traceback \(most recent call last\)|^[^\S\n]+at [\w.$<>]+\(|^panic: |\bCaused by: ",
    re.MULTILINE,
)
_FENCE = re.compile(r"^```", re.MULTILINE)


def text_signals(turn: Turn) -> tuple[str, ...]:
    """What was found, as short signals: `attachment:csv`, `sql`, `stack-trace`, `code-block`."""
    return tuple(dict.fromkeys(_signals(turn)))


def _signals(turn: Turn) -> Iterator[str]:
    text = turn.text[:LOOKED_AT]
    for attachment in turn.attachments[:MAX_ATTACHMENTS]:
        suffix = PurePosixPath(attachment.name.replace("\\", "/")).suffix.lstrip(".").casefold()
        kind = suffix or attachment.mime.rpartition("/")[2].casefold()
        yield f"attachment:{kind[:20] or 'unknown'}"
    if turn.unreadable:
        yield f"attachments-unreadable:{turn.unreadable}"
    if find_sql(text) is not None:
        yield "sql"
    for signal, shape in (("stack-trace", _TRACE), ("code-block", _FENCE)):
        if shape.search(text):
            yield signal


SMALLTALK = {
    "greeting": "a greeting",
    "thanks": "thanks",
    "farewell": "a farewell",
    "assistant": "a question about the assistant itself",
}

MIN_WORDS = 5
"""A shorter clause says too little of what it wants. With 2 to 6 words the turns to fit on were
routed alike, within a point."""

SURE = 0.8
"""From this probability on a route stands as it is: reading the clauses of a turn as well changes
none of those that were fitted on."""

NO_WORDS = SparseVector(np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.float32))
"""Stands for the words of what is only read, and not searched with."""

PROBES = 0.1
"""Of the time that a turn has left, what looking for facts in it may take."""

MAX_MESSAGES_BYTES = 4 * 2**20
"""Earlier messages whose vectors are kept, some 2,000: a conversation sends them every turn."""


@dataclass(eq=False)
class Router:
    """Decides turns; reads stores, writes none. `knowledge` is None where there are no collections.

    `agents` is None where no targets are configured, `reader` where no language model reads turns,
    `conversation` where none tells what they refer to.
    `version` is that of tools and collections.

    `stranger` reads turns like `detector`, but knows no names of the registry: it is for callers
    who may not use all of it. `gate_decides`: a user has said when tools are good enough, or
    withholds them, and no turn goes to others alone.
    """

    tools: ToolStage
    detector: Detector
    stranger: Detector
    dense: DenseEncoder
    limits: Limits
    clock: Clock
    knowledge: KnowledgeRouter | None = None
    gate_decides: bool = False
    costs: Costs = field(default_factory=Costs)
    agents: AgentRouter | None = None
    version: Hashable = None
    reader: ContextReader | None = None
    conversation: ConversationReader | None = None

    def __post_init__(self) -> None:
        self._known: BoundedMap[str, FloatArray] = BoundedMap(
            MAX_MESSAGES_BYTES, lambda text, vector: len(text) + vector.nbytes
        )

    def detect(self, turn: Turn) -> Context:
        """What kind of turn it is: encodes and classifies, and does nothing else."""
        query = self.tools.encode(gist(turn.text)) if has_words(turn.text) else None
        known = self._detector(turn).detect(turn.text, query)
        reader = self._reader(turn, known)
        return known if reader is None else reader.read(turn, known)[0]

    def _detector(self, turn: Turn) -> Detector:
        """Who reads a turn; its reach keeps from it what is named beyond."""
        return self.detector if from_scope(turn.reach) is None else self.stranger

    def find_knowledge(
        self, turn: Turn, options: KnowledgeOptions = BY_SETTINGS
    ) -> KnowledgeResult:
        """The passages for a question, whatever kind of turn it is.

        Raises:
            QueryError: a collection is named that is not in reach.
        """
        knowledge = self.knowledge
        if knowledge is None:
            return KnowledgeResult(reason=Reason.NO_COLLECTION.said())
        reach, query = self._reach(turn, options), self.tools.encode(gist(turn.text))
        return knowledge.find(query, None, reach, options=options)

    def route(
        self,
        turn: Turn,
        *,
        k: int | Literal["auto"] | None = None,
        budget_ms: float | None = None,
        shown: Sequence[str] = (),
        passages: KnowledgeOptions = BY_SETTINGS,
    ) -> Decision:
        """Decide a turn.

        `k` tools, or `auto`, in place of the settings'; `budget_ms` in place of the limits';
        `passages` say how many of those, and of which collections; `shown` are the ids of tools
        that earlier turns of the conversation had, for an append-only order.

        Raises:
            QueryError: `k` is less than 1, `budget_ms` is no time, or a collection is named that is
                not in reach.
            CalibrationError: `k="auto"` needs a calibration that is not there.
            StoreError: a store does not answer.
        """
        _check(k, budget_ms)
        asked = self._reach(turn, passages), passages
        budget = Budget(self.limits, self.costs, self.clock, budget_ms)
        decision_id = uuid.uuid4().hex
        if turn.needs and not has_words(turn.text):
            turn = turn.model_copy(update={"text": "\n".join(turn.needs)})
        if not has_words(turn.text):
            return self._wordless(decision_id, turn, budget, shown)
        searched = self._search_text(turn, budget)
        query, wanted = budget.timed("encode", lambda: self._encoded(searched))
        # What may not be said everywhere is known with the context; else the model need not wait.
        pending = self._begin_agent(turn, query, budget) if turn.max_sensitivity is None else None
        context = self._context(turn, query, budget)
        may_ask = not is_above(context.sensitivity, turn.max_sensitivity)
        pending = pending or self._begin_agent(turn, query if may_ask else None, budget)
        signals = (*text_signals(turn), *_ceilings(turn, context))
        grounds = self._detector(turn).grounds(turn.text)
        if context.smalltalk is None:
            selection = self._tools(decision_id, turn, wanted, budget, k, shown, may_ask=may_ask)
            knowledge = self._knowledge(query, context, budget, grounds, asked)
        else:
            selection, knowledge = self._for_smalltalk(turn, context.smalltalk, budget, shown)
        found = selection.result
        withholds = self.tools.retriever.assessor.withholds
        seen = (context, found, knowledge, self.gate_decides, frozenset(budget.degraded), withholds)
        evidence = RouteEvidence(*seen, grounds=grounds)
        route = choose_route(evidence)
        wishes: tuple[Context, ...] = ()
        if found.tools and knowledge.passages and (route.confidence or 0.0) < SURE:
            wishes = self._clauses(turn, budget)
            route = choose_route(replace(evidence, clauses=wishes)) if wishes else route
        return Decision(
            id=decision_id,
            context=context,
            route=route,
            tools=self.tools.judged(turn, route, selection),
            knowledge=_kept(route, knowledge),
            search_text=searched.text,
            agent=self._agent(pending, knowledge, budget),
            signals=_once(
                searched.signals,
                signals,
                selection.signals,
                knowledge.signals,
                (f"clauses:{','.join(each.need or '?' for each in wishes)}",) if wishes else (),
            ),
            took_ms={**budget.took_ms, "total": budget.spent_ms},
            degraded=_once(budget.degraded, query.degraded, found.degraded, knowledge.degraded),
            max_tool_calls=self.limits.max_tool_calls,
            tool_timeout_s=self.limits.tool_timeout_s,
        )

    def _wordless(
        self, decision_id: str, turn: Turn, budget: Budget, shown: Sequence[str]
    ) -> Decision:
        reason, context = Reason.NO_WORDS.said(), Context(turn.text)
        selection = self.tools.always(turn, reason, shown)
        return Decision(
            id=decision_id,
            context=context,
            route=Route("none", reason),
            tools=selection.result,
            knowledge=KnowledgeResult(reason=reason),
            search_text="",
            agent=self._agent(self._begin_agent(turn, None, budget), None, budget),
            signals=_once(text_signals(turn), _ceilings(turn, context), selection.signals),
            took_ms={"total": budget.spent_ms},
            degraded=("no-words",),
            max_tool_calls=self.limits.max_tool_calls,
            tool_timeout_s=self.limits.tool_timeout_s,
        )

    def _begin_agent(
        self, turn: Turn, query: EncodedQuery | None, budget: Budget
    ) -> Pending | None:
        """Begin to choose a target: a model is asked while all else is done, if there is time."""
        agents = self.agents
        if agents is None:
            return None
        time_s = 0.0
        if agents.classifier is None or query is None:
            budget.skip("llm")
        elif budget.admitted("llm"):
            time_s = min(agents.time_s, budget.left_ms("llm") / 1000)
        vector = None if query is None else query.dense
        probes_s = PROBES * budget.left_ms("probes") / 1000
        pending = agents.begin(
            turn, time_s=time_s, probes_s=probes_s, version=self.version, vector=vector
        )
        return replace(pending, began_ms=budget.spent_ms)

    def _agent(
        self, pending: Pending | None, knowledge: KnowledgeResult | None, budget: Budget
    ) -> AgentDecision | None:
        """The target of a turn; without a model that takes less than a millisecond."""
        agents = self.agents
        if agents is None or pending is None:
            return None
        made, failed = budget.timed("agents", lambda: agents.finish(pending, knowledge))
        budget.degraded += failed
        if pending.answer is not None:
            took = budget.spent_ms - pending.began_ms
            budget.took_ms["llm"] = took
            self.costs.learn("llm", took)
        return made

    def _context(self, turn: Turn, query: EncodedQuery, budget: Budget) -> Context:
        detector, text = self._detector(turn), turn.text
        entities = budget.admitted("entities")
        known = budget.run(
            "context", lambda: detector.detect(text, query, entities=entities), Context(text)
        )
        reader = self._reader(turn, known)
        if reader is None or not budget.admitted("llm"):
            return known
        room_s = budget.room_ms("llm") / 1000
        context, lacking = budget.timed("llm", lambda: reader.read(turn, known, room_s))
        budget.degraded += lacking
        return context

    def _reader(self, turn: Turn, known: Context) -> ContextReader | None:
        """The language model that reads turns; none may where the turn must not leave the house."""
        return None if is_above(known.sensitivity, turn.max_sensitivity) else self.reader

    def _clauses(self, turn: Turn, budget: Budget) -> tuple[Context, ...]:
        """What each clause of a turn wants by itself; none where it is one wish, or too late."""
        own, detector = gist(turn.text), self._detector(turn)
        parts = [own[start:end] for start, end in clauses(own)]
        parts = [part for part in parts if len(part.split()) >= MIN_WORDS]
        if len(parts) <= 1 or not budget.admits("context"):
            return ()

        def read() -> list[Context]:
            try:
                vectors = self.dense.encode_documents(parts)
            except ToolcribError:
                return []
            return [
                detector.detect(part, EncodedQuery(part, vector, NO_WORDS), entities=False)
                for part, vector in zip(parts, vectors, strict=True)
            ]

        wanting = tuple(each for each in budget.timed("context", read) if each.smalltalk is None)
        return wanting if len(wanting) > 1 else ()

    def _search_text(self, turn: Turn, budget: Budget) -> SearchText:
        alone = by_itself(turn)
        if not turn.history:
            budget.skip("follow_up")
            return alone
        leans = self._detector(turn).leans

        def join() -> SearchText:
            try:
                return search_text(turn, leans, self._vectors)
            except ToolcribError:
                logger.warning("the history could not be read", exc_info=True)
                budget.degraded.append("follow_up")
                return alone

        known = budget.run("follow_up", join, alone)
        reader = self.conversation
        if reader is None or not self.may_be_told(turn) or not budget.admitted("llm"):
            return known
        room_s = budget.room_ms("llm") / 1000
        searched, lacking = budget.timed("llm", lambda: reader.read(turn, known, room_s))
        budget.degraded += lacking
        return searched

    def may_be_told(self, turn: Turn) -> bool:
        """Whether a language model may be shown a turn: no message is above its ceiling."""
        if turn.max_sensitivity is None:
            return True
        detector = self._detector(turn)
        texts = (*(each.content for each in turn.history[-SHOWN:]), turn.text)
        known = (
            detector.detect(text, self.tools.encode(gist(text)))
            for text in texts
            if has_words(text)
        )
        return not any(is_above(each.sensitivity, turn.max_sensitivity) for each in known)

    def _vectors(self, texts: Sequence[str]) -> FloatArray:
        """The vectors of messages, each encoded once as long as it is remembered."""
        kept = ((text, self._known.get(text)) for text in texts)
        known = {text: vector for text, vector in kept if vector is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known |= dict(zip(missing, self.dense.encode_documents(missing), strict=True))
            self._known.update(known)
        return np.stack([known[text] for text in texts])

    def _encoded(self, searched: SearchText) -> tuple[EncodedQuery, EncodedQuery]:
        """The query, and that for tools: there a turn's own words lead what was said before."""
        query = self.tools.encode(searched.text)
        if not searched.own:
            return query, query
        return query, query.led_by(self.tools.encode(searched.own))

    def _tools(
        self,
        decision_id: str,
        turn: Turn,
        query: EncodedQuery,
        budget: Budget,
        k: int | Literal["auto"] | None,
        shown: Sequence[str],
        *,
        may_ask: bool,
    ) -> Selection:
        """The tools; a language model may rank them where it `may_ask` about the turn."""
        stage = self.tools.retriever.rerank_stage
        reranking = stage is not None and (may_ask or stage == "rerank") and budget.admitted(stage)
        if not budget.admitted("tools"):
            return self.tools.always(turn, Reason.NO_TIME.said(), shown)

        asked = turn, query, budget, k, shown
        return budget.timed(
            "tools",
            lambda: self.tools.find(*asked, reranking=reranking, seed=decision_id),
        )

    def _for_smalltalk(
        self, turn: Turn, kind: str, budget: Budget, shown: Sequence[str]
    ) -> tuple[Selection, KnowledgeResult]:
        budget.skip("tools")
        budget.skip("knowledge")
        reason = Reason.SMALLTALK.said(SMALLTALK.get(kind, kind))
        return self.tools.always(turn, reason, shown), KnowledgeResult(reason=reason)

    def _knowledge(
        self,
        query: EncodedQuery,
        context: Context,
        budget: Budget,
        grounds: int,
        asked: tuple[Sequence[Collection], KnowledgeOptions],
    ) -> KnowledgeResult:
        """The passages of a turn; a store that fails costs them, and not the tools."""
        knowledge, (reach, options) = self.knowledge, asked
        if knowledge is None or not reach:
            budget.skip("knowledge")
            return KnowledgeResult(reason=Reason.NO_COLLECTION.said())

        reranking = knowledge.reranks and budget.admits("rerank")

        def find() -> KnowledgeResult:
            try:
                return knowledge.find(
                    query,
                    context,
                    reach,
                    options=options,
                    reranking=reranking,
                    grounded=grounds > 0,
                )
            except ToolcribError:
                logger.warning("the collections could not be asked", exc_info=True)
                budget.degraded.append("knowledge")
                return KnowledgeResult(reason=Reason.FAILED.said())

        return budget.run("knowledge", find, KnowledgeResult(reason=Reason.NO_TIME.said()))

    def _reach(self, turn: Turn, options: KnowledgeOptions) -> tuple[Collection, ...]:
        """The collections that may be asked; what a scope keeps out is as unknown as the rest."""
        reach = self.knowledge.catalogue.within(turn.reach) if self.knowledge else ()
        named = options.collections
        if named is None or self.knowledge is None:
            return reach
        known = {each.name: each for each in reach}
        for name in named:
            if name not in known:
                meant = did_you_mean(nearest(name, known))
                raise QueryError(f"there is no collection {name!r} to ask{meant}")
        return tuple(known[name] for name in dict.fromkeys(named))


def _check(k: int | Literal["auto"] | None, budget_ms: float | None) -> None:
    if isinstance(k, int) and k < 1:
        raise QueryError(f"k is {k}; at least one tool must be asked for")
    if budget_ms is not None and not budget_ms >= 0:
        raise QueryError(f"budget_ms is {budget_ms:g}; it must be 0 milliseconds or more")


def _ceilings(turn: Turn, context: Context) -> tuple[str, ...]:
    """What the decision says of ceilings: that they held, never what they kept out.

    And a warning where the turn itself is more sensitive than its destination may be.
    """
    own = turn.scope.max_sensitivity if turn.scope else None
    there = turn.max_sensitivity
    named = (("caller", own), ("destination", there))
    held = tuple(f"ceiling:{who}:{level}" for who, level in named if level is not None)
    if is_above(context.sensitivity, there):
        return (*held, f"turn-above-ceiling:{context.sensitivity}")
    return held


def _once(*groups: Iterable[str]) -> tuple[str, ...]:
    """Everything in the groups, in their order, each once."""
    return tuple(dict.fromkeys(each for group in groups for each in group))


def _kept(route: Route, knowledge: KnowledgeResult) -> KnowledgeResult:
    """What the route leaves of the knowledge; which collections would be asked is said anyway."""
    if route.kind in ("knowledge", "both", "none"):
        return knowledge
    return replace(knowledge, passages=(), verdict="abstain", reason=route.reason)
