"""Router: one turn, from its text to one decision.

text ─► what it refers to ─► encoded once ─┬─► context ──► none (small talk)
                                           ├─► tools ─────┬─► route ─► Decision ─► log
                                           └─► knowledge ─┘
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock
from toolcrib.context.by_model import ContextReader
from toolcrib.context.rules import RECALL, REFUSAL, Answer, HeuristicDetector
from toolcrib.encoders.base import DenseEncoder, FloatArray, SparseVector
from toolcrib.encoders.onnx import clauses
from toolcrib.errors import QueryError, ToolcribError, did_you_mean, nearest, require_positive
from toolcrib.language_models.turns import read_label, shown_data, shown_sentences
from toolcrib.records import (
    AgentDecision,
    Collection,
    Context,
    Decision,
    FindResult,
    KnowledgeResult,
    Route,
    Scope,
    Turn,
)
from toolcrib.records.scope import Sensitivity, is_above
from toolcrib.retrieval.dialogue import OWN_SHARE
from toolcrib.retrieval.gate import ENABLED
from toolcrib.retrieval.learned import ROUTE, LearnedChoices, RankedOptions
from toolcrib.retrieval.legs import EncodedQuery, has_words
from toolcrib.retrieval.options import DEFAULT_KNOWLEDGE_OPTIONS, KnowledgeOptions
from toolcrib.router.budget import Budget, Costs
from toolcrib.router.choices.agents import AgentRouter, PendingTarget
from toolcrib.router.collections import CollectionIndex
from toolcrib.router.conversation import (
    CONVERSATION_BY_MODEL,
    ConversationReader,
    SearchText,
    answer_kind,
    excerpt,
    search_text,
    standalone_text,
)
from toolcrib.router.knowledge import KnowledgeRouter
from toolcrib.router.probes import text_signals
from toolcrib.router.route import (
    DECIDED_ROUTES,
    Reason,
    RouteEvidence,
    choose_route,
    need_probability,
    route_probabilities,
)
from toolcrib.router.settings import Limits
from toolcrib.router.tools import Selection, ToolStage
from toolcrib.store.filters import Filter, all_of, from_scope
from toolcrib.text import unique

logger = logging.getLogger(__name__)

SMALLTALK = {
    "greeting": "a greeting",
    "thanks": "thanks",
    "farewell": "a farewell",
    "assistant": "a question about the assistant itself",
    REFUSAL: "a refusal",
    RECALL: "a question for what was said before",
}

MIN_CLAUSE_WORDS = 4
"""Minimum length of a clause that is classified: shorter clauses do not show their need."""

SURE_QUESTION_PROBABILITY = 0.7
"""Probability of the need `know` from which a lower threshold holds for passages."""

SHIFTED_OWN_SHARE = 0.5
"""Weight of a turn's own text beside the dialogue, if the turn seems to start a new topic."""

NO_TERMS = SparseVector(np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.float32))
"""Empty lexical vector, for clauses that are classified but not searched."""

PROBES_TIME_SHARE = 0.1
"""Share of the remaining time that probes may take."""

MAX_VECTORS_BYTES = 4 * 2**20
"""Cache size for vectors of earlier messages, some 2,000: a conversation resends its history with
every turn."""

MAX_LEVELS_CHARS = 2**20
"""Cache size for the sensitivity of texts, by their characters."""


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """Turn to decide, its budget, its collections in scope, and the caller's options."""

    id: str
    turn: Turn
    detector: HeuristicDetector
    budget: Budget
    reach: Sequence[Collection]
    passages: KnowledgeOptions = DEFAULT_KNOWLEDGE_OPTIONS
    k: int | Literal["auto"] | None = None
    shown: Sequence[str] = ()
    answer: Answer | None = None


@dataclass(eq=False)
class Router:
    """Router of turns; reads stores, and writes none.

    None stands for an absent part: `knowledge` without passages, `agents` without targets,
    `reader` and `conversation` without a language model. `version`: of tools and collections.
    `public_detector` knows no names of the registry, and serves callers with a scope.
    `gate_decides`: the settings set the gate's threshold, so tools below it alone do not make the
    route `tools`.
    """

    tools: ToolStage
    detector: HeuristicDetector
    public_detector: HeuristicDetector
    dense: DenseEncoder
    limits: Limits
    clock: Clock
    catalogue: CollectionIndex
    knowledge: KnowledgeRouter | None = None
    gate_decides: bool = False
    costs: Costs = field(default_factory=Costs)
    agents: AgentRouter | None = None
    version: Hashable = None
    reader: ContextReader | None = None
    conversation: ConversationReader | None = None
    learned_choices: LearnedChoices = field(default_factory=LearnedChoices)

    def __post_init__(self) -> None:
        self._message_vectors: BoundedMap[str, FloatArray] = BoundedMap(
            MAX_VECTORS_BYTES, lambda text, vector: len(text) + vector.nbytes
        )
        self._levels: BoundedMap[tuple[bool, str], Sensitivity] = BoundedMap(
            MAX_LEVELS_CHARS, lambda key, _: len(key[1])
        )
        self._active: list[str] = []
        """Turns that are being decided: a list, which threads change without a lock."""

    def detect(self, turn: Turn) -> Context:
        """Detect the context of a turn; encodes and classifies only."""
        query = self.tools.encode(excerpt(turn.text)) if has_words(turn.text) else None
        known = _with_metadata(self._detector(turn).detect(turn.text, query), turn.metadata)
        if self.reader is None or not self._may_ask_model(turn, known):
            return known
        return self.reader.read(turn, known)[0]

    def _detector(self, turn: Turn) -> HeuristicDetector:
        """Detector for a turn; for a scope, one that cannot reveal names of the registry."""
        return self.detector if from_scope(turn.reach) is None else self.public_detector

    def find_knowledge(
        self,
        turn: Turn,
        options: KnowledgeOptions = DEFAULT_KNOWLEDGE_OPTIONS,
        context: Context | None = None,
    ) -> KnowledgeResult:
        """Find the passages for a question; the map applies only with a context."""
        reach = self._reach(turn, options)
        if self.knowledge is None:
            return KnowledgeResult(reason=Reason.NO_COLLECTION.format())
        query = self.tools.encode(excerpt(turn.text))
        found = self.knowledge.find(query, context, reach, options=options)
        return replace(found, degraded=unique(query.degraded, found.degraded))

    def route(
        self,
        turn: Turn,
        *,
        k: int | Literal["auto"] | None = None,
        budget_ms: float | None = None,
        shown: Sequence[str] = (),
        passages: KnowledgeOptions = DEFAULT_KNOWLEDGE_OPTIONS,
    ) -> Decision:
        """Decide a turn.

        `k` and `budget_ms` override the settings; `passages`: options for knowledge; `shown`: ids
        of tools of earlier turns of the conversation, for an append-only order.
        """
        _check(k, budget_ms)
        turn, reach, detector = _with_words(turn), self._reach(turn, passages), self._detector(turn)
        budget = Budget(self.limits, self.costs, self.clock, budget_ms)
        answer = answer_kind(turn, detector)
        request = _Request(
            uuid.uuid4().hex, turn, detector, budget, reach, passages, k, shown, answer
        )
        self._active.append(request.id)
        try:
            # A thumbs-up without words answers a question.
            if has_words(turn.text) or (answer and detector.has_reply(turn.text)):
                return self._decide(request)
            return self._decide_without_words(request)
        finally:
            self._active.pop()

    def _decide(self, request: _Request) -> Decision:
        turn, budget, detector = request.turn, request.budget, request.detector
        searched = self._search_text(request)
        # Beside other turns there is no idle core.
        if len(self._active) == 1 and budget.has_room("context"):
            detector.begin(searched.text if turn.step is None else standalone_text(turn).text)
        query, for_tools, own = budget.measure("encode", lambda: self._encode(request, searched))
        # With a sensitivity ceiling the context decides whether a model may read the turn.
        pending = self._begin_agent(turn, query, budget) if turn.max_sensitivity is None else None
        context, selection = self._context_by_tools(request, query, for_tools, own)
        may_ask = self._may_ask_model(turn, context)
        pending = pending or self._begin_agent(turn, query if may_ask else None, budget)
        if context.smalltalk is None:
            selection = selection or self._tools(request, for_tools, may_ask=may_ask)
            knowledge = self._knowledge(request, query, context)
        else:
            selection, knowledge = self._for_smalltalk(request, context.smalltalk)
        found = selection.result
        shares = self.learned_choices.shares(ROUTE, DECIDED_ROUTES, query.dense)
        evidence, clause_signals = self._evidence(request, context, found, knowledge)
        route = choose_route(replace(evidence, learned_shares=shares))
        return Decision(
            id=request.id,
            context=context,
            route=route,
            tools=self.tools.for_route(turn, route, selection),
            knowledge=_for_route(route, knowledge),
            search_text=searched.text,
            agent=self._agent(pending, knowledge, budget),
            signals=unique(
                searched.signals,
                _signals(turn, context),
                selection.signals,
                knowledge.signals,
                clause_signals,
            ),
            took_ms={**budget.took_ms, "total": budget.spent_ms},
            degraded=unique(budget.degraded, query.degraded, found.degraded, knowledge.degraded),
            max_tool_calls=self.limits.max_tool_calls,
            tool_timeout_s=self.limits.tool_timeout_s,
        )

    def rank_routes(self, text: str, scope: Scope | None) -> RankedOptions:
        """Probabilities of the routes of a turn's text without learned examples."""
        if not has_words(text):
            return RankedOptions(None, {})
        turn, budget = Turn(text=text, scope=scope), Budget(Limits(), Costs(), self.clock)
        reach, detector = self._reach(turn, DEFAULT_KNOWLEDGE_OPTIONS), self._detector(turn)
        request = _Request("", turn, detector, budget, reach)
        query = self.tools.encode(excerpt(text), vocabulary=_vocabulary(turn))
        found = self._tools(request, query, may_ask=False).result
        query = self._for_documents(query)
        context = detector.detect(text, query)
        knowledge = self._knowledge(request, query, context)
        evidence, _ = self._evidence(request, context, found, knowledge)
        return RankedOptions(query.dense, {**route_probabilities(evidence)})

    def rank_collections(self, text: str, scope: Scope | None) -> RankedOptions:
        """Probabilities of the collections for a question without learned examples."""
        query, knowledge = self.tools.encode(excerpt(text)), self.knowledge
        reach = self._reach(Turn(text=text, scope=scope), DEFAULT_KNOWLEDGE_OPTIONS)
        best = knowledge.best_passages(query, reach) if knowledge and reach else []
        if knowledge is None or not best:
            return RankedOptions(query.dense, {})
        held = {each.passage.collection for each in best}
        among = [each for each in reach if each.name in held]
        likely, _ = knowledge.collection_scores(query, best, among)
        return RankedOptions(query.dense, likely)

    def _evidence(
        self, request: _Request, context: Context, found: FindResult, knowledge: KnowledgeResult
    ) -> tuple[RouteEvidence, tuple[str, ...]]:
        """Evidence for a turn's route, and a signal with its clauses' needs, if classified."""
        has_both = found.tools and knowledge.passages
        needs = self._clause_needs(request) if has_both else ()
        evidence = RouteEvidence(
            context,
            found,
            knowledge,
            gate_decides=self.gate_decides,
            skipped_stages=frozenset(request.budget.degraded),
            withholds=self.tools.retriever.assessor.withholds,
            rule_mentions=request.detector.rule_mentions(request.turn.text),
            orders_and_asks={"act", "know"} <= set(needs),
            is_order=request.detector.orders(request.turn.text),
            is_step=request.turn.step is not None,
        )
        return evidence, (f"clauses:{','.join(needs)}",) if needs else ()

    def _decide_without_words(self, request: _Request) -> Decision:
        turn, budget, reason = request.turn, request.budget, Reason.NO_WORDS.format()
        selection = self.tools.active_tools(turn, reason, request.shown)
        context = Context(turn.text)
        return Decision(
            id=request.id,
            context=context,
            route=Route("none", reason),
            tools=selection.result,
            knowledge=KnowledgeResult(reason=reason),
            search_text="",
            agent=self._agent(self._begin_agent(turn, None, budget), None, budget),
            signals=unique(_signals(turn, context), selection.signals),
            took_ms={"total": budget.spent_ms},
            degraded=("no-words",),
            max_tool_calls=self.limits.max_tool_calls,
            tool_timeout_s=self.limits.tool_timeout_s,
        )

    def _begin_agent(
        self, turn: Turn, query: EncodedQuery | None, budget: Budget
    ) -> PendingTarget | None:
        """Start to choose a target; a language model runs beside other stages, time permitting."""
        agents = self.agents
        if agents is None:
            return None
        time_s = 0.0
        if agents.classifier is None or query is None:
            budget.skip("llm")
        elif budget.admit("llm"):
            time_s = min(agents.time_s, budget.left_ms("llm") / 1000)
        vector = None if query is None else query.dense
        probes_s = PROBES_TIME_SHARE * budget.left_ms("probes") / 1000
        pending = agents.begin(
            turn, time_s=time_s, probes_s=probes_s, version=self.version, vector=vector
        )
        return replace(pending, began_ms=budget.spent_ms)

    def _agent(
        self, pending: PendingTarget | None, knowledge: KnowledgeResult | None, budget: Budget
    ) -> AgentDecision | None:
        """Target of a turn, once its passages are found."""
        agents = self.agents
        if agents is None or pending is None:
            return None
        made, failed = budget.measure("agents", lambda: agents.finish(pending, knowledge))
        budget.degraded += failed
        if pending.answer is not None:
            took = budget.spent_ms - pending.began_ms
            budget.took_ms["llm"] = took
            self.costs.add_run("llm", took)
        return made

    def _context_by_tools(
        self, request: _Request, query: EncodedQuery, for_tools: EncodedQuery, own: EncodedQuery
    ) -> tuple[Context, Selection | None]:
        """Context of a turn, and the tools by which doubtful small talk was judged, if any.

        An accepted tool shows that the turn is a request.
        """
        context = self._context(request, query, own)
        if not self._is_doubtful_smalltalk(request, context):
            return context, None
        selection = self._tools(request, for_tools, may_ask=False)
        if selection.result.verdict == "accept":
            context = self._context(request, query, own, mistaken=context)
        return context, selection

    def _is_doubtful_smalltalk(self, request: _Request, context: Context) -> bool:
        """True for small talk by a classifier that takes requests for it, without a model's word.

        Questions about the assistant are not mistaken for requests.
        """
        is_courtesy = context.smalltalk in {"greeting", "thanks", "farewell"}
        if not is_courtesy or request.answer or self.reader is not None:
            return False
        return request.detector.may_take_for_smalltalk(request.turn.text)

    def _context(
        self,
        request: _Request,
        query: EncodedQuery,
        own: EncodedQuery,
        *,
        mistaken: Context | None = None,
    ) -> Context:
        """Context of a turn; `mistaken`: its context as small talk, which it is not."""
        turn, budget = request.turn, request.budget
        if mistaken is None:
            entities, otherwise = budget.admit("entities"), Context(turn.text)
        else:
            # If no time is left, the first context holds: its entities make the turn sensitive.
            entities, otherwise = bool(mistaken.entities), replace(mistaken, smalltalk=None)
        known = budget.run(
            "context",
            lambda: request.detector.detect(
                turn.text,
                query,
                own=own,
                entities=entities,
                answer=request.answer,
                by_words=mistaken is not None,
            ),
            otherwise,
        )
        known = _with_metadata(known, turn.metadata)
        if turn.step or turn.needs:
            # An agent that goes on, or lacks a tool, has something to do, whatever its user wrote.
            known = replace(known, smalltalk=None)
        reader = self.reader
        if reader is None or not self._may_ask_model(turn, known) or not budget.admit("llm"):
            return known
        max_s = budget.room_ms("llm") / 1000
        context, lacking = budget.measure("llm", lambda: reader.read(turn, known, max_s))
        budget.degraded += lacking
        return context

    def _clause_needs(self, request: _Request) -> tuple[str, ...]:
        """Need of each clause of a turn; empty if no clause begins with an order."""
        own, detector = excerpt(request.turn.text), request.detector
        parts = [own[start:end] for start, end in clauses(own)]
        parts = [part for part in parts if len(part.split()) >= MIN_CLAUSE_WORDS]
        orders = {part for part in parts if detector.orders(part)}
        if len(parts) <= 1 or not orders or not request.budget.has_room("context"):
            return ()

        def read() -> list[str]:
            try:
                vectors = self.dense.encode_documents(parts)
            except ToolcribError:
                return []
            found = [
                detector.detect(part, EncodedQuery(part, vector, NO_TERMS), entities=False).need
                for part, vector in zip(parts, vectors, strict=True)
            ]
            needs = ("know" if need == "both" else need or "?" for need in found)
            return [
                "?" if need == "act" and part not in orders else need
                for part, need in zip(parts, needs, strict=True)
            ]

        return tuple(request.budget.measure("context", read))

    def _search_text(self, request: _Request) -> SearchText:
        turn, budget, detector = request.turn, request.budget, request.detector
        alone = standalone_text(turn)
        if turn.step is not None and has_words(turn.step):
            return SearchText(excerpt(turn.step), "first", ("step",))
        if not turn.history:
            budget.skip("follow_up")
            return alone

        def join() -> SearchText:
            try:
                return search_text(turn, request.answer, detector, self._vectors)
            except ToolcribError:
                logger.warning("the history could not be encoded", exc_info=True)
                budget.degraded.append("follow_up")
                return alone

        known = budget.run("follow_up", join, alone)
        reader = self.conversation
        if reader is None or not self.may_show_to_model(turn) or not budget.admit("llm"):
            return known
        max_s = budget.room_ms("llm") / 1000
        searched, lacking = budget.measure("llm", lambda: reader.read(turn, known, max_s))
        budget.degraded += lacking
        return searched

    def may_show_to_model(self, turn: Turn) -> bool:
        """True if nothing that a model may be shown is above the turn's ceiling."""
        if turn.max_sensitivity is None:
            return True
        detector = self._detector(turn)
        texts = filter(has_words, shown_sentences(turn))
        # The classifier reads sentences: names and JSON are judged by entities and phrases.
        data = (detector.detect(piece) for piece in shown_data(turn))
        levels: Iterator[Sensitivity] = (each.sensitivity for each in data)
        levels = chain(levels, (self._level(detector, text) for text in texts))
        return not any(is_above(level, turn.max_sensitivity) for level in levels)

    def _level(self, detector: HeuristicDetector, text: str) -> Sensitivity:
        """Sensitivity of a text; kept, as a history comes again with every turn."""
        key = detector is self.detector, text
        level = self._levels.get(key)
        if level is None:
            query = self.tools.encode(excerpt(text))
            level = detector.detect(text, query).sensitivity
            if not query.degraded:
                self._levels[key] = level
        return level

    def _may_ask_model(self, turn: Turn, context: Context) -> bool:
        """True if the turn is within its ceiling; its context decides where no model reads it."""
        if is_above(context.sensitivity, turn.max_sensitivity):
            return False
        agents, stage = self.agents, self.tools.retriever.rerank_stage
        has_model = self.reader is not None or stage == "llm"
        if not (has_model or (agents is not None and agents.classifier is not None)):
            return True
        return self.may_show_to_model(turn)

    def _vectors(self, texts: Sequence[str]) -> FloatArray:
        kept = ((text, self._message_vectors.get(text)) for text in texts)
        known = {text: vector for text, vector in kept if vector is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known |= dict(zip(missing, self.dense.encode_documents(missing), strict=True))
            self._message_vectors.update(known)
        return np.stack([known[text] for text in texts])

    def _encode(
        self, request: _Request, searched: SearchText
    ) -> tuple[EncodedQuery, EncodedQuery, EncodedQuery]:
        """Queries for knowledge, for tools, and of the turn's own text.

        The query for tools adds the dialogue before the turn. At a step only the query for tools
        has the agent's words.
        """
        turn = request.turn
        encode = partial(self.tools.encode, vocabulary=_vocabulary(turn))
        alone = standalone_text(turn).text
        if turn.step is not None:
            own = self.tools.encode(alone)
            return own, encode(searched.text), own
        query, joins = encode(searched.text), searched.follow_up == "joined"
        if searched.follow_up == "first" or request.answer:
            return self._for_documents(query), query, query
        own = encode(alone) if joins else query
        is_whole = joins and not request.detector.has_content(excerpt(turn.text))
        if is_whole or CONVERSATION_BY_MODEL in searched.signals:
            return self._for_documents(query), query, own
        share = OWN_SHARE if joins else SHIFTED_OWN_SHARE
        for_tools = encode(alone, turn.history, share, (query, own))
        return self._for_documents(query), for_tools, own

    def _for_documents(self, query: EncodedQuery) -> EncodedQuery:
        """Query without words of tools: a document may have a word that no tool has."""
        return self.tools.encode(query.text) if query.spelling else query

    def _tools(self, request: _Request, query: EncodedQuery, *, may_ask: bool) -> Selection:
        """Tools of a turn; with `may_ask` a language model may rank them."""
        stage, budget = self.tools.retriever.rerank_stage, request.budget
        reranking = stage is not None and (may_ask or stage == "rerank") and budget.admit(stage)
        if not budget.admit("tools"):
            return self.tools.active_tools(request.turn, Reason.NO_TIME.format(), request.shown)
        given = request.turn, query, budget, request.k, request.shown
        return budget.measure(
            "tools", lambda: self.tools.find(*given, reranking=reranking, seed=request.id)
        )

    def _for_smalltalk(self, request: _Request, kind: str) -> tuple[Selection, KnowledgeResult]:
        request.budget.skip("tools")
        request.budget.skip("knowledge")
        reason = Reason.SMALLTALK.format(SMALLTALK.get(kind, kind))
        selection = self.tools.active_tools(request.turn, reason, request.shown)
        return selection, KnowledgeResult(reason=reason)

    def _knowledge(
        self, request: _Request, query: EncodedQuery, context: Context
    ) -> KnowledgeResult:
        """Passages of a turn; if the store fails, only the passages are missing."""
        knowledge, budget, reach = self.knowledge, request.budget, request.reach
        if knowledge is None or not reach:
            budget.skip("knowledge")
            return KnowledgeResult(reason=Reason.NO_COLLECTION.format())
        reranking = knowledge.reranker is not None and budget.has_room("rerank")

        def find() -> KnowledgeResult:
            is_question = (
                request.detector.rule_mentions(request.turn.text) > 0
                or need_probability(context, "know") >= SURE_QUESTION_PROBABILITY
            )
            how = {"reranking": reranking, "is_question": is_question}
            try:
                return knowledge.find(query, context, reach, options=request.passages, **how)
            except ToolcribError:
                logger.warning("the collections could not be searched", exc_info=True)
                budget.degraded.append("knowledge")
                return KnowledgeResult(reason=Reason.FAILED.format())

        return budget.run("knowledge", find, KnowledgeResult(reason=Reason.NO_TIME.format()))

    def _reach(self, turn: Turn, options: KnowledgeOptions) -> tuple[Collection, ...]:
        """Collections to search; a collection outside of the scope counts as unknown."""
        reach = self.catalogue.within(turn.reach)
        named = options.collections
        if named is None:
            return reach
        known = {each.name: each for each in reach}
        for name in named:
            if name not in known:
                meant = did_you_mean(nearest(name, known))
                raise QueryError(f"there is no collection {name!r}{meant}")
        return tuple(known[name] for name in dict.fromkeys(named))


STATED_METADATA = ("urgency", "ticket", "source")
"""Metadata of a turn that a context takes over."""

URGENCIES = ("low", "medium", "high")
URGENCY_WORDS = MappingProxyType({"critical": "high", "urgent": "high", "normal": "medium"})
MAX_METADATA_CHARS = 80


def _with_metadata(known: Context, metadata: Mapping[str, Any]) -> Context:
    """Context with the urgency of the metadata; the metadata also become signals."""
    given = {
        name: str(metadata[name])[:MAX_METADATA_CHARS]
        for name in STATED_METADATA
        if metadata.get(name)
    }
    if not given:
        return known
    signals = (*known.signals, *(f"metadata: {name} {value}" for name, value in given.items()))
    urgency = read_label(given.get("urgency", ""), URGENCIES, URGENCY_WORDS)
    if urgency is None:
        return replace(known, signals=signals)
    sure = {**known.confidences, "urgency": 1.0}
    return replace(known, urgency=urgency, confidences=sure, signals=signals)


def _vocabulary(turn: Turn) -> Filter | None:
    """Tools whose words the misspelt words of a turn may stand for."""
    return all_of(ENABLED, from_scope(turn.reach))


def _with_words(turn: Turn) -> Turn:
    """Turn whose text without words is replaced by its needs, or by its step."""
    if has_words(turn.text) or not (text := "\n".join(turn.needs) or turn.step):
        return turn
    return turn.model_copy(update={"text": text})


def _check(k: int | Literal["auto"] | None, budget_ms: float | None) -> None:
    require_positive(k, "k")
    if budget_ms is not None and not budget_ms >= 0:
        raise QueryError(f"budget_ms is {budget_ms:g}; it must be 0 milliseconds or more")


def _signals(turn: Turn, context: Context) -> Iterator[str]:
    """Signals of the text, of sensitivity ceilings, and of a turn above the destination's."""
    yield from text_signals(turn)
    own = turn.scope.max_sensitivity if turn.scope else None
    levels = {"caller": own, "destination": turn.max_sensitivity}
    yield from (f"ceiling:{who}:{level}" for who, level in levels.items() if level is not None)
    if is_above(context.sensitivity, turn.max_sensitivity):
        yield f"turn-above-ceiling:{context.sensitivity}"


def _for_route(route: Route, knowledge: KnowledgeResult) -> KnowledgeResult:
    """Knowledge without its passages if the route needs none; the collections remain."""
    if route.kind in ("knowledge", "both", "none"):
        return knowledge
    return replace(knowledge, passages=(), verdict="abstain", reason=route.reason)
