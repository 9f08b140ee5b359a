"""Crib: the face of the library, an index of tools, a knowledge base and a turn router in one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from toolcrib import build
from toolcrib.awaitable import in_thread
from toolcrib.clock import Clock
from toolcrib.encoders.base import DenseEncoder
from toolcrib.errors import SettingsError, UnknownQuestionError, nearest
from toolcrib.indexers.sync import ReadSources
from toolcrib.indexers.writer import Listener
from toolcrib.knowledge_base import KnowledgeBase
from toolcrib.records import (
    Collection,
    Context,
    Decision,
    Facets,
    FindResult,
    Guidance,
    IndexReport,
    KnowledgeResult,
    Outcome,
    Passage,
    Scope,
    ToolHit,
    ToolLinks,
    ToolSpec,
    Turn,
)
from toolcrib.records.choices import CapabilitySelection, Classification
from toolcrib.records.learning import LearningStatus
from toolcrib.records.reports import ToolReadiness
from toolcrib.retrieval.options import KnowledgeOptions, SearchKeywords, SearchOptions
from toolcrib.retrieval.rerank import ToolRerankers
from toolcrib.router.decision_log import DecisionLog, FeedbackKeywords
from toolcrib.settings import Settings, load_settings
from toolcrib.store.base import Identity, Store, StoreInfo
from toolcrib.store.filters import Filter
from toolcrib.store.lazy import LazyStore
from toolcrib.tool_index import ToolIndex
from toolcrib.turn_router import TurnRouter

if TYPE_CHECKING:
    from toolcrib.indexers.enrichment import Enrichments
    from toolcrib.indexers.readers.registry import ToolSource
    from toolcrib.indexers.sync import Screen
    from toolcrib.router.capabilities.selector import CapabilitySelector
    from toolcrib.router.flow import LoopState
    from toolcrib.router.questions.classifier import QuestionClassifier
    from toolcrib.router.recovery import RecoveryPolicy
    from toolcrib.store.records_db.base import RecordsDb

__all__ = ["Crib"]

PAGE = 256
"""Tools that `alist_tools` reads at once."""


class Crib:
    """Tools and passages: put them in, ask for what a turn needs.

    `tools`, `knowledge` and `turns` are its parts, each of which can be used alone. Every method
    has an `a...` one, to be awaited. Safe for several threads; one process at a time holds a
    folder. A context manager.
    """

    def __new__(cls, *parts: object, **_named: object) -> Self:
        """Stop who means a service or a folder."""
        if parts and isinstance(parts[0], str):
            place = parts[0]
            raise SettingsError(
                f"Crib({place!r}) opens nothing: a service is RemoteCrib({place!r}, api_key=...), "
                f"a folder or a Qdrant server is Crib.open({place!r})",
            )
        return super().__new__(cls)

    def __init__(  # pyright: ignore[reportInconsistentConstructor] -- __new__ takes all to say no
        self,
        tools: ToolIndex,
        knowledge: KnowledgeBase,
        turns: TurnRouter,
        *,
        models: build.Models = build.NO_MODELS,
    ) -> None:
        self.tools = tools
        self.knowledge = knowledge
        self.turns = turns
        self._models = models
        self._classifiers: dict[str, QuestionClassifier] = {}
        self._selector: CapabilitySelector | None = None

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        dense: DenseEncoder | None = None,
        reranker: ToolRerankers | None = None,
        log: DecisionLog | None = None,
        models: build.Models = build.NO_MODELS,
        rebuild: bool = False,
        progress: Listener | None = None,
    ) -> Self:
        """Open a folder (made if missing), a Qdrant server's URL, or `:memory:`.

        `location` defaults to the settings' `store`; `dense`, `reranker` and `log` to what they
        name. `models` are language models in place of theirs, by use; where one is asked is up to
        the settings. `rebuild` renews the index beside the old one and swaps them at the end;
        `progress` hears how far that is.

        Raises:
            StoreLockedError: another process has the folder open.
            StoreUnavailableError: the server does not answer.
            IndexMismatchError: other models, settings or format made the index.
        """
        settings = settings or load_settings()
        where = str(location if location is not None else settings.store)
        parts = build.open_parts(
            where,
            settings,
            dense=dense,
            reranker=reranker,
            log=log,
            models=models,
            rebuild=rebuild,
            progress=progress,
        )
        return cls(*parts, models=models)

    @classmethod
    def over(
        cls,
        store: Store,
        dense: DenseEncoder,
        settings: Settings,
        *,
        passages: LazyStore | None = None,
        reranker: ToolRerankers | None = None,
        clock: Clock | None = None,
        log: DecisionLog | None = None,
        records: tuple[RecordsDb, str] | None = None,
    ) -> Self:
        """A crib over a store that is open; without `passages` it takes no documents.

        `records` are where what use teaches is kept, and under which namespace.
        """
        parts = build.make_parts(
            store,
            dense,
            settings,
            passages=passages,
            reranker=reranker,
            clock=clock,
            log=log,
            records=records,
        )
        return cls(*parts)

    # -- tools -------------------------------------------------------------------------------

    def index_tools(
        self,
        *sources: ToolSource,
        server: str | None = None,
        format: str | None = None,
        prune: bool = False,
        screen: Screen | None = None,
        overlays: Sequence[str | Path] = (),
        enrichments: Sequence[str | Path | Enrichments] = (),
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring the index up to date with the sources; what is unchanged is not encoded again.

        `server` overrides every tool's server. `format` forces a reader. `prune` removes
        tools that no source names (of `server` only, when given). Wrong entries are
        refused in the report, and never keep the good ones out. `screen` says what of the
        entries may come in, as `Quarantine.screen_entries` does; without one nothing is audited.
        `overlays` are files in which an operator states more of the tools; `enrichments` are files
        of texts to find them by, in place of those that the index has. Without any, tools whose
        text is the same keep theirs. What was of no use in them is `dropped` in the report.

        Raises:
            SourceError: the sources hold nothing that could be read, or a file cannot be.
            StoreError: the store refused; tools reported to `progress` before are durable.
        """
        try:
            return self.tools.index(
                *sources,
                server=server,
                format=format,
                prune=prune,
                screen=screen,
                overlays=overlays,
                enrichments=enrichments,
                progress=progress,
            )
        finally:
            self._relearn()

    def remove_tools(self, *ids: str) -> None:
        """Remove tools by id.

        Raises:
            UnknownToolError: there is no such tool; none is removed then.
        """
        self.tools.remove(*ids)

    def find_tools(
        self,
        query: str | None = None,
        k: int | Literal["auto"] = 5,
        **options: Unpack[SearchKeywords],
    ) -> FindResult:
        """The `k` tools that fit the query best, ranked, with the gate's verdict on them.

        With `needs`, one line for each tool that is wished for, each is searched and judged by
        itself: `needs` of the answer have the verdicts, and `needs` of each tool say which it
        serves. Their best tools come first, where `k` has room for them. A query beside them
        fills up what they leave; `k="auto"` then holds for each by itself.

        `options` are the fields of `SearchOptions`. `scope` is what the caller may use; `where`
        narrows further. Both hold inside every leg; only the scope decides over which tools word
        frequencies are counted. `explain` adds what each leg contributed and which words matched
        nothing. Tools of a probability below `least` are left out, but never the first. Without
        `gate` comes the ranking as it is, whatever `gate` and `tools.least` say in the settings.
        With `k="auto"` come as many tools as hold all that are needed with the probability
        `coverage`, if the query is like those that `calibrate` saw.

        Raises:
            QueryError: an empty query or need, too many needs, an impossible `k` or `least`, or an
                unknown field in `where`.
            CalibrationError: `k="auto"` or the gate asks what no calibration tells.
            StoreError: the store does not answer.
        """
        return self.tools.find(query, SearchOptions(k=k, **options))

    def get_tool(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """The specification with this id; what a scope does not allow is as unknown as the rest.

        Raises:
            UnknownToolError: there is none; the nearest ids are named.
        """
        return self.tools.get(tool_id, scope=scope)

    def tool_links(self, tool_id: str, *, scope: Scope | None = None) -> ToolLinks:
        """Which tools in reach this one needs first, which need it, and what replaces it.

        Raises:
            UnknownToolError: there is no such tool; the nearest ids are named.
        """
        return self.tools.links(tool_id, scope=scope)

    def check_tools(
        self, *ids: str, scope: Scope | None = None, held: Iterable[ToolSpec] = ()
    ) -> tuple[ToolReadiness, ...]:
        """Whether each of these tools can be called, or why not, before an agent relies on it.

        `scope` is the caller's own: what it leaves out reads `out_of_scope`. `held` are tools that
        somebody holds back, as `Quarantine` does: those read `quarantined`.

        Raises:
            StoreError: the store does not answer.
        """
        return self.tools.readiness(ids, scope=scope, held=held)

    def list_tools(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        after: str | None = None,
    ) -> Iterator[ToolSpec]:
        """Every tool in reach, disabled ones too, in an order of the store's own.

        `after` begins behind the tool of this id, which need not be there any more.
        """
        return self.tools.scroll(scope=scope, where=where, after=after)

    def facets(self, *, scope: Scope | None = None) -> Facets:
        """How many tools there are in reach, by server, category, tag and sensitivity."""
        return self.tools.facets(scope=scope)

    # -- knowledge ---------------------------------------------------------------------------

    def index_docs(
        self,
        *sources: str | Path | ReadSources,
        collection: str,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """Bring a collection up to date with files, folders and URLs of documents.

        What is unchanged is not encoded again. `prune` removes documents of the collection that
        no source names. What cannot be read is refused in the report, and keeps nothing out.

        Raises:
            MissingExtraError: the extra `docs` is not installed.
            SourceError: the sources hold nothing that could be read.
            StoreError: the store refused; what was reported to `progress` before is durable.
        """
        return self.knowledge.index(*sources, collection=collection, prune=prune, progress=progress)

    def index_passages(
        self, passages: Iterable[Passage], *, progress: Listener | None = None
    ) -> IndexReport:
        """Bring the knowledge base up to date with passages that were split elsewhere."""
        return self.knowledge.put([("", passage) for passage in passages], progress=progress)

    def remove_docs(self, collection: str, *documents: str) -> int:
        """Remove documents of a collection; without any, the collection itself. Counts passages.

        Raises:
            UnknownCollectionError: there is no such collection.
        """
        return self.knowledge.remove(collection, documents)

    def add_collections(self, *collections: Collection) -> None:
        """Make collections known, or describe them anew."""
        self.knowledge.define(collections)

    def list_collections(self, *, scope: Scope | None = None) -> list[tuple[Collection, int]]:
        """The collections in reach by name, each with its number of passages."""
        return self.knowledge.counted(scope=scope)

    def find_knowledge(
        self,
        query: str,
        k: int | None = None,
        *,
        collections: Sequence[str] | None = None,
        token_budget: int | None = None,
        scope: Scope | None = None,
    ) -> KnowledgeResult:
        """The passages that answer a question, out of the collections that fit it.

        At most `k` passages and `token_budget` tokens in all, out of the `collections` of these
        names; each in place of what the settings say (`knowledge`). The first passage comes
        however long it is.

        Raises:
            QueryError: a query without words, no passage or token asked for, or a collection that
                is not there or not in scope.
            StoreError: the store does not answer.
        """
        options = KnowledgeOptions(k, collections, token_budget)
        return self.turns.find_knowledge(query, options, scope=scope)

    # -- turns -------------------------------------------------------------------------------

    def detect(self, turn: Turn | str) -> Context:
        """What kind of turn it is; nothing is called or written for it."""
        return self.turns.detect(_turn(turn))

    def learn_labels(self) -> None:
        """Fit the settings' own labels and cues, and keep what was fitted beside the index.

        Without that every process fits them anew for its first turn. There is nothing to keep
        where the settings name none of their own, and the encoder is the bundled one.

        Raises:
            SettingsError: labels or cues cannot be read.
        """
        self.turns.learn_labels()

    def route(
        self,
        turn: Turn | str,
        *,
        k: int | Literal["auto"] | None = None,
        passages: int | None = None,
        collections: Sequence[str] | None = None,
        token_budget: int | None = None,
        budget_ms: float | None = None,
        shown: Sequence[str] = (),
    ) -> Decision:
        """Decide a turn: what kind it is, which tools and which passages it needs.

        `k` tools, or `auto`, and `budget_ms` milliseconds in place of the settings'. At most so
        many `passages`, of `token_budget` tokens in all, out of the `collections` of these names,
        as in `find_knowledge`. `shown` are ids of tools that the conversation's earlier turns had,
        for an append-only order.

        Raises:
            QueryError: an impossible number, or a collection that is not there or not in scope.
            CalibrationError: `k="auto"` needs a calibration that is not there.
            StoreError: a store does not answer.
        """
        options = KnowledgeOptions(passages, collections, token_budget)
        return self.turns.route(
            _turn(turn), k=k, budget_ms=budget_ms, shown=shown, passages=options
        )

    def classify(
        self,
        question: str,
        turn: Turn | str,
        *,
        variables: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> Classification:
        """The class of a turn, by a question that the settings name (`questions`).

        `variables` are for its template; `outputs` are what earlier nodes of an agent's graph
        gave, by their names, for its `run_if`.

        Raises:
            UnknownQuestionError: the settings name no such question.
            QuestionError: its file is wrong, or its template cannot be filled in.
        """
        if question not in self._classifiers:
            known = self.tools.settings.questions
            if question not in known:
                raise UnknownQuestionError(question, nearest(question, known))
            self._classifiers[question] = build.question_classifier(
                known[question], self.tools.settings, dense=self.tools.dense, models=self._models
            )
        chosen, turn = self._classifiers[question], _turn(turn)
        by_model = self.turns.may_be_told(turn)
        return chosen.classify(turn, variables=variables, outputs=outputs, by_model=by_model)

    def select_capabilities(
        self, turn: Turn | str, *, bypass: bool | None = None, state: LoopState | None = None
    ) -> CapabilitySelection:
        """The capabilities that a turn needs, of those that the settings name (`capabilities`).

        `bypass`: whether all are active, in place of what the conversation or the settings say.
        `state`: of an agent's loop; where it says what failed, they are selected anew.

        Raises:
            CapabilityError: something in their descriptions is wrong.
        """
        if self._selector is None:
            self._selector = build.capability_selector(
                settings=self.tools.settings, dense=self.tools.dense, models=self._models
            )
        turn = _turn(turn)
        by_model = self.turns.may_be_told(turn)
        return self._selector.select(turn, bypass=bypass, state=state, by_model=by_model)

    def alternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """The next best tools for what a failed one was to do, never one that failed before.

        `decision_id` is that of the turn, where outcomes were reported for it.

        Raises:
            UnknownToolError: no tool has the id of the failed one.
            StoreError: the store does not answer.
        """
        return self.turns.alternates(failed_tool, _turn(turn), decision_id=decision_id, k=k)

    def guidance(self, turn: Turn | str, *, given: Sequence[str] = ()) -> Guidance:
        """The one useful hint for an agent that is stuck, by the turn's trajectory; mostly none.

        `given` are the keys of hints that the conversation had before. It is for this turn
        alone, and belongs into no history.
        """
        return self.turns.guidance(_turn(turn), given=given)

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """Say how a call of a tool ended: `alternates` avoids what failed, and it is logged.

        Raises:
            QueryError: there is no such outcome.
        """
        self.turns.report_outcome(decision_id, tool, outcome, took_ms=took_ms)

    def feedback(self, decision_id: str, **said: Unpack[FeedbackKeywords]) -> None:
        """Say what would have been right for a decision, in the fields of `Feedback`.

        Raises:
            SettingsError: no log is kept (`telemetry.path`).
            UnknownDecisionError: the log has no such decision.
            FeedbackError: a field is unknown, or nothing is said.
        """
        self.turns.feedback(decision_id, said)

    @property
    def recovery(self) -> RecoveryPolicy:
        """What an agent's loop asks after a failed call; it never waits by itself."""
        from toolcrib.router.recovery import RecoveryPolicy

        return RecoveryPolicy(self.tools.settings.recovery)

    # -- what use teaches --------------------------------------------------------------------

    def learning_status(self) -> LearningStatus:
        """What was learned of each tool, from whom; LearningOffError where nothing is learned."""
        return self.turns.require_learner().status()

    def replay_learning(self) -> LearningStatus:
        """Ask past requests again: what of each server helps goes live."""
        return self.turns.require_learner().learn()

    def undo_learning(self, what: str) -> int:
        """Take back what was learned on a day (`2026-01-31`), from a key, or of a tool."""
        return self.turns.require_learner().undo(what)

    def switch_learning(self, *, on: bool) -> None:
        """Let what was learned re-order answers, or leave it aside; nothing is lost."""
        self.turns.require_learner().switch(on=on)

    # -- life --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look again at what another process may have changed; what was open stays open.

        Raises:
            IndexMismatchError: it built the index anew, by other models.
        """
        self.knowledge.refresh()
        self.tools.refresh()
        self._relearn()

    def _relearn(self) -> None:
        """Look again at which tools that use taught of are still what they were."""
        if self.turns.learner is not None:
            self.turns.learner.apply()

    def info(self) -> tuple[StoreInfo, Identity]:
        """What the store is, and by what its index was built."""
        return self.tools.info()

    def close(self) -> None:
        """Flush and let go of the stores; a second call does nothing."""
        self.turns.close()
        self.knowledge.close()
        self.tools.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    # -- to be awaited -----------------------------------------------------------------------

    aindex_tools = in_thread(index_tools)
    aremove_tools = in_thread(remove_tools)
    afind_tools = in_thread(find_tools)
    aget_tool = in_thread(get_tool)
    atool_links = in_thread(tool_links)
    acheck_tools = in_thread(check_tools)
    afacets = in_thread(facets)
    aindex_docs = in_thread(index_docs)
    aindex_passages = in_thread(index_passages)
    aremove_docs = in_thread(remove_docs)
    aadd_collections = in_thread(add_collections)
    alist_collections = in_thread(list_collections)
    afind_knowledge = in_thread(find_knowledge)
    adetect = in_thread(detect)
    alearn_labels = in_thread(learn_labels)
    aroute = in_thread(route)
    aclassify = in_thread(classify)
    aselect_capabilities = in_thread(select_capabilities)
    aalternates = in_thread(alternates)
    aguidance = in_thread(guidance)
    areport_outcome = in_thread(report_outcome)
    afeedback = in_thread(feedback)
    alearning_status = in_thread(learning_status)
    areplay_learning = in_thread(replay_learning)
    aundo_learning = in_thread(undo_learning)
    aswitch_learning = in_thread(switch_learning)
    arefresh = in_thread(refresh)
    ainfo = in_thread(info)
    aclose = in_thread(close)

    async def alist_tools(
        self,
        *,
        scope: Scope | None = None,
        where: Filter | None = None,
        after: str | None = None,
    ) -> AsyncIterator[ToolSpec]:
        """As `list_tools`, to go through with `async for`."""
        found = self.list_tools(scope=scope, where=where, after=after)
        while page := await asyncio.to_thread(lambda: list(islice(found, PAGE))):
            for tool in page:
                yield tool


def _turn(turn: Turn | str) -> Turn:
    return Turn(text=turn) if isinstance(turn, str) else turn
