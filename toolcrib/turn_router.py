"""Turn router: decides turns over a tool index and a knowledge base; logs and learns."""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args
from uuid import uuid4

from pydantic import ValidationError

from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import (
    EncoderError,
    FeedbackError,
    LearningOffError,
    QueryError,
    SettingsError,
    StoreError,
    UnknownDecisionError,
    require_positive,
    require_text,
    require_texts,
    require_type,
)
from toolcrib.knowledge_base import KnowledgeBase
from toolcrib.language_models import count_usage
from toolcrib.learning.learner import Learnable, UsageLearner, right_options
from toolcrib.records import (
    Context,
    Decision,
    Guidance,
    KnowledgeResult,
    Message,
    Scope,
    ToolHit,
    ToolSpec,
    Turn,
)
from toolcrib.records.codec import in_words
from toolcrib.retrieval.learned import (
    AGENTS,
    COLLECTIONS,
    ROUTE,
    LearnedChoices,
    RankedOptions,
)
from toolcrib.retrieval.legs import check_question, has_words
from toolcrib.retrieval.options import DEFAULT_KNOWLEDGE_OPTIONS, FULL_PLAN, KnowledgeOptions
from toolcrib.router.decision_log import (
    DecisionLog,
    FailureLog,
    Failures,
    Feedback,
    Outcome,
    decision_record,
    feedback_record,
    open_log,
    outcome_record,
)
from toolcrib.tool_index import ToolIndex

if TYPE_CHECKING:
    from toolcrib.context.by_model import ContextReader
    from toolcrib.context.model import ContextModel
    from toolcrib.context.rules import HeuristicDetector
    from toolcrib.guidance.turns import TurnGuidance
    from toolcrib.router.choices.agents import AgentRouter
    from toolcrib.router.conversation import ConversationReader
    from toolcrib.router.knowledge import KnowledgeRouter
    from toolcrib.router.router import Router

logger = logging.getLogger(__name__)

CONTEXT_MODEL_KEY = "context"
"""Key of the context model, fitted to the settings' labels, in the store's metadata."""

UNLOGGED_WARNING = "a decision could not be logged"
UNLEARNED_WARNING = "an outcome could not be learned from"

_WARM_UP_TEXT = (
    "What does our guide say about refunds? Please send the report of last May to ada@example.com, "
    "or call +49 30 901820, and delete invoice 4711 at https://example.com/a by tomorrow."
)
"""Text with a match for every detector."""


class TurnRouter:
    """Decides turns; keeps their log and the failed tools. Safe for several threads.

    The router is made for the first turn, and again after a change of tools or collections.
    """

    def __init__(
        self,
        tools: ToolIndex,
        knowledge: KnowledgeBase | None = None,
        *,
        clock: Clock | None = None,
        log: DecisionLog | None = None,
        learner: UsageLearner | None = None,
        agents: Callable[[], AgentRouter] | None = None,
        reader: ContextReader | None = None,
        conversation: ConversationReader | None = None,
    ) -> None:
        self.learner: UsageLearner | None = None
        if learner is not None:
            self.use_learner(learner)
        self._reader = reader
        self._conversation = conversation
        self._tools = tools
        self._knowledge = knowledge
        self._settings = tools.settings
        self._clock = clock or SystemClock()
        self._log = log or open_log(self._settings.telemetry)
        self._failures = Failures()
        self._making = threading.Lock()
        self._versioned_router: tuple[object, Router] | None = None
        self._is_warm = False
        self._agents: AgentRouter | None = None
        self._make_agents = agents
        self._fitted_context: tuple[bytes | None, ContextModel | None] | None = None

    # -- turns -------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Load the models that the first turn needs, by an example turn that is not logged."""
        from toolcrib.router.budget import Costs
        from toolcrib.router.settings import Limits

        # The first run loads models, so its costs are dropped; the second run gives the costs
        # expected of later turns. A ceiling below the text's level keeps language models out.
        router = self._router()
        self._is_warm = True
        apart = {"limits": Limits(), "agents": None, "reader": None, "conversation": None}
        before = (Message(content="and then?"),)
        turn = Turn(text=_WARM_UP_TEXT, history=before, max_sensitivity="public")
        for costs in (Costs(), router.costs):
            replace(router, **apart, costs=costs).route(turn)

    def detect(self, turn: Turn) -> Context:
        """Context of a turn, without a decision; nothing is called or logged."""
        return self._router().detect(turn)

    def may_show_to_model(self, turn: Turn) -> bool:
        """Allow language models for a turn if no message is above either sensitivity ceiling."""
        ceiling = None if turn.reach is None else turn.reach.max_sensitivity
        held = turn.model_copy(update={"max_sensitivity": ceiling})
        return ceiling is None or self._router().may_show_to_model(held)

    def route(
        self,
        turn: Turn,
        *,
        k: int | Literal["auto"] | None = None,
        budget_ms: float | None = None,
        shown: Sequence[str] = (),
        passages: KnowledgeOptions = DEFAULT_KNOWLEDGE_OPTIONS,
        by: str | None = None,
    ) -> Decision:
        """Decide a turn and log the decision, as `Crib.route`; `by` names the caller in the log."""
        if k != "auto":
            require_type(k, int | None, "option k", "a whole number or 'auto'")
        require_type(budget_ms, float | int | None, "option budget_ms", "a number of milliseconds")
        limits = self._settings.limits
        if not self._is_warm and (budget_ms or limits.total_ms is not None or limits.stage_ms):
            self.warm_up()
        with count_usage() as meter:
            decision = self._router().route(
                turn, k=k, budget_ms=budget_ms, shown=shown, passages=passages
            )
            if turn.trajectory:
                at_end = self._settings.tools.append_only
                decision = self._turn_guidance(turn).apply_to(decision, at_end=at_end)
        decision = replace(decision, usage=meter.usage) if meter.usage else decision
        if self._log is not None:
            text = self._settings.telemetry.text
            record = decision_record(decision, text=text, at=time.time())
            record |= {} if by is None else {"by": by}
            _attempt(partial(self._log.write, record), UNLOGGED_WARNING)
        if (learner := self.collector) is not None:
            session, text = _session(turn), decision.search_text
            learner.remember(
                decision.id, text, scope=turn.reach, session=session, by=by, choice=AGENTS
            )
        return decision

    @property
    def collector(self) -> UsageLearner | None:
        """Learner, if it collects requests until their outcomes are reported."""
        learner = self.learner
        return learner if learner is not None and learner.collects else None

    def remember_choice(self, turn: Turn, choice: str) -> str:
        """Id of a choice that was made for a turn; empty if learning is off."""
        if self.collector is None or not has_words(turn.text):
            return ""
        made = uuid4().hex
        self.collector.remember(made, turn.text, session=_session(turn), choice=choice)
        return made

    def assign(self, decision_id: str, by: str | None) -> None:
        """Assign a decision that waits for outcomes to its caller's key."""
        if self.learner is not None and by:
            self.learner.assign(decision_id, by)

    def use_learner(self, learner: UsageLearner) -> None:
        """Let outcomes teach the choices of turns from now on."""
        self.learner = learner
        # The router is made anew after a change of tools or collections.
        self.register_choice(ROUTE, lambda text, scope: self._router().rank_routes(text, scope))
        self.register_choice(
            COLLECTIONS, lambda text, scope: self._router().rank_collections(text, scope)
        )
        self.register_choice(AGENTS, self._rank_agents)

    def register_choice(self, choice: str, rank: Learnable) -> None:
        """Let outcomes teach a choice, if learning is on."""
        if self.learner is not None:
            self.learner.learnable[choice] = rank

    def is_pending(self, decision_id: str, by: str | None = None) -> bool:
        """True for a decision that waits for outcomes; of the caller `by`, if one is named."""
        return self.learner is not None and self.learner.is_pending(decision_id, by)

    @property
    def learned_choices(self) -> LearnedChoices:
        """Learned examples of choices; none without a learner."""
        return LearnedChoices() if self.learner is None else self.learner.choices

    def _rank_agents(self, text: str, _scope: Scope | None) -> RankedOptions:
        agents, query = self._agent_router(), self._tools.retriever.encode(text)
        return RankedOptions(query.dense, {} if agents is None else agents.rank(text))

    def find_knowledge(
        self,
        query: str,
        options: KnowledgeOptions = DEFAULT_KNOWLEDGE_OPTIONS,
        *,
        scope: Scope | None = None,
        context: Context | None = None,
    ) -> KnowledgeResult:
        """Passages that answer a question, as `Crib.find_knowledge`."""
        check_question(query, scope, context)
        return self._router().find_knowledge(Turn(text=query, scope=scope), options, context)

    def alternates(
        self, failed_tool: str, turn: Turn, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """Replacements for a failed tool, as `Crib.alternates`."""
        from toolcrib.router.alternates import alternates
        from toolcrib.router.tools import settings_filter

        require_text(failed_tool, "tool")
        require_type(k, int, "option k", "a whole number")
        require_positive(k, "k")
        tools, retriever = self._tools, self._tools.retriever
        is_local = retriever.rerank_stage != "llm"
        plan = replace(FULL_PLAN, rerank=is_local or self._router().may_show_to_model(turn))
        found = alternates(
            partial(retriever.find, plan=plan),
            # An unknown name, or that of several tools, is an error as an id.
            tools.by_name(failed_tool, scope=turn.scope)
            or tools.get(failed_tool, scope=turn.scope),
            turn.text,
            excluded=self._failed_tools(decision_id) if decision_id else (),
            scope=turn.reach,
            where=settings_filter(self._settings.tools),
            k=k,
            likeness=self._settings.recovery.likeness,
        )
        return tuple(found)

    def guidance(self, turn: Turn, *, given: Sequence[str] = ()) -> Guidance:
        """Hint for an agent that is stuck, as `Crib.guidance`."""
        return self._turn_guidance(turn, given).guidance

    def _turn_guidance(self, turn: Turn, given: Sequence[str] = ()) -> TurnGuidance:
        from toolcrib.guidance.turns import guide_turn

        require_texts(given, "given")
        return guide_turn(turn, self._tool_and_alternates, given=given)

    def _tool_and_alternates(
        self, name: str, turn: Turn
    ) -> tuple[ToolSpec, Sequence[ToolHit]] | None:
        """The only tool in scope with a name, and its alternates."""
        tool = self._tools.by_name(name, scope=turn.reach)
        return tool and (tool, self.alternates(tool.id, turn))

    def _tool_id(self, name: str) -> str:
        """Id of the only tool with a name; the name itself if no tool or several have it."""
        with suppress(StoreError):
            if tool := self._tools.by_name(name):
                return tool.id
            logger.warning("%r means no tool of the index, or several: its id is not known", name)
        return name

    # -- outcomes and feedback ---------------------------------------------------------------

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """Keep and log a call's outcome; raises if a failure cannot be written to the log."""
        if outcome not in (known := get_args(Outcome)):
            raise QueryError(f"outcome is {outcome!r}; it must be one of {', '.join(known)}")
        require_text(decision_id, "id of the decision")
        require_text(tool, "tool")
        require_type(took_ms, float | int | None, "took_ms", "a number of milliseconds")
        if took_ms is not None and not took_ms >= 0:
            raise QueryError(f"took_ms is {took_ms}; no call takes less than 0 milliseconds")
        tool = self._tool_id(tool)
        self._failures.report(decision_id, tool, outcome)
        if outcome == "success" and (learner := self.collector) is not None:
            _attempt(lambda: learner.record_success(decision_id, tool), UNLEARNED_WARNING)
        if self._log is not None:
            record = outcome_record(decision_id, tool, outcome, at=time.time(), took_ms=took_ms)
            if isinstance(self._log, FailureLog):
                self._log.write(record)
            else:
                _attempt(partial(self._log.write, record), UNLOGGED_WARNING)

    def feedback(self, decision_id: str, given: Mapping[str, Any]) -> None:
        """Log the right answer to a decision and learn from it, as `Crib.feedback`."""
        require_text(decision_id, "id of the decision")
        learner = self.collector
        if self._log is None and learner is None:
            raise SettingsError(
                "feedback needs a decision log, and there is none: set telemetry.path, "
                "or learning.enabled to learn from it"
            )
        try:
            feedback = Feedback.model_validate(given)
        except ValidationError as error:
            raise FeedbackError(in_words(error, "")) from error
        if feedback.tools:
            ids = tuple(map(self._tool_id, feedback.tools))
            feedback = feedback.model_copy(update={"tools": ids})
        logged = self._log is not None and self._log.find(decision_id) is not None
        if not logged and not self.is_pending(decision_id):
            raise UnknownDecisionError(f"there is no decision {decision_id!r}")
        if self._log is not None and logged:
            text = self._settings.telemetry.text
            self._log.write(feedback_record(decision_id, feedback, text=text, at=time.time()))
        if learner is not None:
            right = right_options(feedback.model_dump())
            _attempt(lambda: learner.record_right(decision_id, right), UNLEARNED_WARNING)

    def _failed_tools(self, decision_id: str) -> tuple[str, ...]:
        """Tools that failed for a decision, also as reported to other processes."""
        failed = self._failures.of(decision_id)
        if isinstance(self._log, FailureLog):
            failed += self._log.failed_tools(decision_id)
        return failed

    # -- labels ------------------------------------------------------------------------------

    def has_fitted_labels(self) -> bool:
        """Check that turns need no fitting: the shipped or the stored context model applies.

        Raises:
            SettingsError: labels or cues cannot be read.
        """
        settings, dense = self._settings.context, self._tools.dense
        if settings.detector == "heuristic":
            return True
        from toolcrib.context.model import stored_context

        stored = self._stored_context()
        return stored is not None and stored_context(settings, dense, stored) is not None

    def _stored_context(self) -> bytes | None:
        kept = self._tools.store.read_meta().get(CONTEXT_MODEL_KEY)
        return None if kept is None else base64.b64decode(kept)

    def learn_labels(self) -> None:
        """Fit the settings' labels and store the model, as `Crib.learn_labels`."""
        from toolcrib.context.model import is_shipped, write_context

        with self._making:
            model = self._model()
            if model is not None and not is_shipped(model):
                written = write_context(model)
                text = base64.b64encode(written).decode("ascii")
                self._tools.store.write_meta({CONTEXT_MODEL_KEY: text})
                self._fitted_context = written, model

    def require_learner(self) -> UsageLearner:
        """Learner of this crib."""
        if self.learner is None:
            raise LearningOffError("learning is off: set learning.enabled")
        return self.learner

    def close(self) -> None:
        """Close the log and the learner."""
        try:
            if self._log is not None:
                self._log.close()
        finally:
            if self.learner is not None:
                self.learner.close()

    # -- the router --------------------------------------------------------------------------

    def _router(self) -> Router:
        """Router over the current tools and collections."""
        with self._making:
            # Read first, so that a change while the router is made is seen next time.
            version = self._tools.version, self._knowledge and self._knowledge.version
            made = self._versioned_router
            # Without a model of turns cues read this turn, and the next turn tries again.
            if made is None or made[0] != version or self._fitted_context is None:
                made = version, replace(self._make_router(), version=version)
                self._versioned_router = made
            return made[1]

    def _make_router(self) -> Router:
        from toolcrib.context.model import make_detector
        from toolcrib.router.budget import Costs
        from toolcrib.router.collections import CollectionIndex
        from toolcrib.router.router import Router
        from toolcrib.router.tools import ToolSelector, ToolStage

        tools, settings = self._tools, self._settings
        try:
            model = self._model()
        except EncoderError:
            logger.warning("no model of turns could be fitted", exc_info=True)
            model = self._fitted_context = None
        records = [r.payload for r in tools.store.scroll(fields=("name", "server"))]
        names = (each["name"] for each in records if _is_identifier(each["name"]))
        servers = sorted({each["server"] for each in records if each["server"]})
        detector = make_detector(settings.context, model, tools.dense, names, servers)
        return Router(
            ToolStage(
                tools.retriever, ToolSelector(tools.store, settings.tools), settings.interleave
            ),
            detector,
            public_detector=make_detector(settings.context, model, tools.dense, ()),
            dense=tools.dense,
            limits=settings.limits,
            clock=self._clock,
            catalogue=self._knowledge.catalogue if self._knowledge else CollectionIndex((), ()),
            knowledge=self._knowledge_router(detector),
            gate_decides=settings.gate.decides,
            costs=self._versioned_router[1].costs if self._versioned_router else Costs(),
            agents=self._agent_router(),
            reader=self._reader,
            conversation=self._conversation,
            learned_choices=self.learned_choices,
        )

    def _agent_router(self) -> AgentRouter | None:
        """Router of agents, made once; None if no targets are configured."""
        if self._agents is None and self._make_agents is not None:
            self._agents = replace(self._make_agents(), learned_choices=self.learned_choices)
        return self._agents

    def _knowledge_router(self, detector: HeuristicDetector) -> KnowledgeRouter | None:
        knowledge, settings, reranker = self._knowledge, self._settings, self._tools.reranker
        if knowledge is None or not knowledge.exists or not settings.knowledge.enabled:
            return None
        from toolcrib.retrieval.rerank import ModelReranker, PassageReranker
        from toolcrib.router.knowledge import KnowledgeRouter

        second = None
        if reranker is not None and not isinstance(reranker, ModelReranker):
            second = PassageReranker(reranker, settings.rerank, self._clock)
        return KnowledgeRouter(
            knowledge.retriever(),
            knowledge.catalogue,
            settings.knowledge,
            detector.aliases,
            second,
            self.learned_choices,
        )

    def _model(self) -> ContextModel | None:
        """Context model, made once, and again after another process stored a new model."""
        from toolcrib.context.model import make_context_model

        stored = self._stored_context()
        if self._fitted_context is None or self._fitted_context[0] != stored:
            model = make_context_model(self._settings.context, self._tools.dense, stored)
            self._fitted_context = stored, model
        return self._fitted_context[1]


def _attempt(work: Callable[[], object], failure: str) -> None:
    """Log or learn; a failure loses the record, and the answer still goes out."""
    try:
        work()
    except Exception:  # A log of the caller may raise anything.
        logger.warning(failure, exc_info=True)


def _session(turn: Turn) -> str | None:
    """Session of a turn, by its metadata or its thread."""
    session = turn.metadata.get("session", turn.thread_id)
    return None if session is None else str(session)


def _is_identifier(name: str) -> bool:
    """Tell an identifier (`web_search`) from a word of a sentence (`search`)."""
    return not name.isalpha() or not (name.islower() or name.istitle())
