"""Crib: the library's main class; joins a tool index, a knowledge base and a turn router."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from toolcrib.awaitable import in_thread, run_in_thread
from toolcrib.errors import (
    UnknownQuestionError,
    nearest,
    require_all,
    require_text,
    require_texts,
)
from toolcrib.records import (
    Collection,
    Context,
    Decision,
    FindResult,
    Guidance,
    KnowledgeResult,
    Outcome,
    Passage,
    Scope,
    ToolHit,
    ToolLinks,
    ToolSpec,
    Turn,
)
from toolcrib.records.knowledge import require_passages
from toolcrib.retrieval.options import KnowledgeOptions, SearchKeywords, search_options

if TYPE_CHECKING:
    from toolcrib.build import Models
    from toolcrib.clock import Clock
    from toolcrib.encoders.base import DenseEncoder
    from toolcrib.indexers.enrichment import Enrichments
    from toolcrib.indexers.readers.registry import ToolSource
    from toolcrib.indexers.sync import ReadSources, Screen
    from toolcrib.indexers.writer import Listener
    from toolcrib.knowledge_base import KnowledgeBase
    from toolcrib.records.reports import Facets, IndexReport, LearningStatus, ToolReadiness
    from toolcrib.records.turns import CapabilitySelection, Classification
    from toolcrib.retrieval.rerank import ToolRerankers
    from toolcrib.router.choices.capabilities import CapabilitySelector
    from toolcrib.router.choices.flow import LoopState
    from toolcrib.router.choices.questions import QuestionClassifier
    from toolcrib.router.decision_log import DecisionLog, FeedbackKeywords
    from toolcrib.router.recovery import RecoveryPolicy
    from toolcrib.settings import Settings
    from toolcrib.store.base import Identity, Store, StoreInfo
    from toolcrib.store.filters import Filter
    from toolcrib.store.folder import LazyStore
    from toolcrib.store.records_db import RecordsDb
    from toolcrib.tool_index import ToolIndex
    from toolcrib.turn_router import TurnRouter

_TOOLS_PER_READ = 256
"""Tools that `alist_tools` reads at once."""


class Crib:
    """Tools and passages, indexed and found for turns of a conversation.

    `Crib.open` opens a folder or a Qdrant server; `RemoteCrib` connects to a service. `tools`,
    `knowledge` and `turns` are the parts, each usable alone. Every method has an asynchronous
    twin, named `a...`. Safe for several threads; one process at a time holds a folder. A context
    manager.
    """

    def __init__(
        self,
        tools: ToolIndex,
        knowledge: KnowledgeBase,
        turns: Callable[[], TurnRouter],
        *,
        models: Models | None = None,
        decides: bool = False,
    ) -> None:
        self.tools = tools
        self.knowledge = knowledge
        self._make_turns = turns
        self._turns: TurnRouter | None = None
        self._making = threading.Lock()
        self._models = models or {}
        self._classifiers: dict[str, QuestionClassifier] = {}
        self._selector: CapabilitySelector | None = None
        if decides:
            self._turns = turns()

    @property
    def turns(self) -> TurnRouter:
        """Part that decides turns; made at its first use, or at once with a log or a learner."""
        with self._making:
            if self._turns is None:
                self._turns = self._make_turns()
            return self._turns

    @classmethod
    def open(
        cls,
        location: str | Path | None = None,
        *,
        settings: Settings | None = None,
        dense: DenseEncoder | None = None,
        reranker: ToolRerankers | None = None,
        log: DecisionLog | None = None,
        models: Models | None = None,
        rebuild: bool = False,
        progress: Listener | None = None,
    ) -> Self:
        """Open a folder (made if missing; `~` is the home), a Qdrant server's URL, or `:memory:`.

        `location`, `dense`, `reranker` and `log` default to the settings. `models` replace the
        settings' language models, by use; the settings decide which steps call a model. `rebuild`
        builds a new index beside the old index and swaps them at the end; `progress` is called
        during the rebuild.

        Raises:
            StoreLockedError: another process has the folder open.
            StoreUnavailableError: the server does not answer.
            IndexMismatchError: other models, settings or format made the index.
            QueryError: `location` is empty, or neither a text nor a path; `settings` are no
                `Settings`, `dense` is no `DenseEncoder`, `reranker` no `Reranker`, or a value of
                `models` no `LanguageModel`.
        """
        from toolcrib import build  # engines and models, which `import` alone does not need

        parts = build.open_parts(
            location,
            settings,
            dense=dense,
            reranker=reranker,
            log=log,
            models=models or {},
            rebuild=rebuild,
            progress=progress,
        )
        learns = parts[0].settings.learning.enabled
        return cls(*parts, models=models, decides=log is not None or learns)

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
        """Make a crib over an open store; without `passages` it takes no documents.

        `records` are the database and the namespace of what is learned from use.
        """
        from toolcrib import build

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
        return cls(*parts, decides=log is not None or records is not None)

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
        """Bring the index up to date with the sources; unchanged tools are not encoded again.

        `server` overrides every tool's server. `format` forces a reader. `prune` removes tools
        that no source has (of `server` only, if given). Wrong entries are refused in the report;
        good entries beside them are indexed. `screen` admits or refuses entries, as
        `Quarantine.screen_entries` does; a refused tool's indexed version is removed. Without
        `screen` no entry is audited. `overlays` are files with an operator's additions to tools.
        `enrichments` are files of search texts, in place of those in the index; without
        `enrichments`, tools with an unchanged text keep theirs. Entries of either that apply to no
        tool are `dropped` in the report.

        Raises:
            QueryError: `prune`, and the sources hold no entry.
            SourceError: the sources hold no readable entry, or a file cannot be read.
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
            UnknownToolError: an id is unknown; no tool is removed then.
        """
        self.tools.remove(*ids)

    def find_tools(
        self,
        query: str | None = None,
        k: int | Literal["auto"] = 5,
        **options: Unpack[SearchKeywords],
    ) -> FindResult:
        """The `k` tools that fit the query best, ranked, with the gate's verdict on them.

        `needs` are descriptions of wanted tools, each searched and judged by itself: `needs` of
        the answer have the verdicts, `needs` of each tool the needs it serves. The best tool of
        each need comes first, as far as `k` has room. Tools for the query fill the remaining
        places; `k="auto"` then applies to each need by itself.

        `options` are the fields of `SearchOptions`. `scope` is what the caller may use; `where`
        narrows further. Both apply inside every leg; only the scope decides over which tools word
        frequencies are counted. `explain` adds each leg's contribution and the words without a
        match. Tools of a probability below `least` are left out, but never the first tool. Without
        `gate` the ranking is returned as is, whatever `gate` and `tools.least` in the settings.
        `k="auto"` returns as many tools as hold all needed tools with the probability `coverage`,
        if the query is like the queries that `calibrate` saw.

        Raises:
            QueryError: an empty query or need, too many needs, an impossible `k` or `least`, or an
                unknown field in `where`.
            CalibrationError: `k="auto"` or the gate needs a calibration, and there is none.
            StoreError: the store does not answer.
        """
        return self.tools.find(query, search_options(k, options))

    def get_tool(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """Specification of a tool; a tool outside of `scope` is unknown.

        Raises:
            UnknownToolError: no tool in scope has this id; the nearest ids are named.
        """
        return self.tools.get(tool_id, scope=scope)

    def tool_links(self, tool_id: str, *, scope: Scope | None = None) -> ToolLinks:
        """Tools in scope linked to a tool: prerequisites, dependents and replacements.

        Raises:
            UnknownToolError: there is no such tool; the nearest ids are named.
        """
        return self.tools.links(tool_id, scope=scope)

    def check_tools(
        self, *ids: str, scope: Scope | None = None, held: Iterable[ToolSpec] = ()
    ) -> tuple[ToolReadiness, ...]:
        """Check that each tool can be called, and give the reason if not.

        Tools outside the caller's `scope` are `out_of_scope`; tools among `held`, as `Quarantine`
        lists them, are `quarantined`.

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
        """All tools in scope, disabled tools too, in the store's order.

        The list starts behind the tool with the id `after`, which may have been removed.
        """
        return self.tools.scroll(scope=scope, where=where, after=after)

    def facets(self, *, scope: Scope | None = None) -> Facets:
        """Number of tools in scope by server, category, tag and sensitivity."""
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

        Unchanged documents are not encoded again. `prune` removes documents of the collection
        that no source has. Unreadable documents are refused in the report; the others are indexed.

        Raises:
            MissingExtraError: the extra `docs` is not installed.
            QueryError: `prune`, and the sources hold no entry.
            SourceError: the sources hold no readable document.
            StoreError: the store refused; passages reported to `progress` before are durable.
        """
        return self.knowledge.index(*sources, collection=collection, prune=prune, progress=progress)

    def index_passages(
        self, passages: Iterable[Passage], *, progress: Listener | None = None
    ) -> IndexReport:
        """Bring the knowledge base up to date with passages that the caller has split.

        Raises:
            QueryError: something is no `Passage`, or a field of one has another type.
        """
        given = require_passages(passages)
        return self.knowledge.put([("", passage) for passage in given], progress=progress)

    def remove_docs(self, collection: str, *documents: str) -> int:
        """Remove documents, or without names the collection; return the number of passages.

        Raises:
            QueryError: the name of a document is no text.
            UnknownCollectionError: there is no such collection.
        """
        return self.knowledge.remove(collection, documents)

    def add_collections(self, *collections: Collection) -> None:
        """Add collections, or replace their descriptions.

        Raises:
            QueryError: something is no `Collection`, or two different ones have one name.
        """
        self.knowledge.define(require_all(collections, Collection, "collections"))

    def list_collections(self, *, scope: Scope | None = None) -> list[tuple[Collection, int]]:
        """Collections in scope by name, each with its number of passages.

        Raises:
            QueryError: the scope is of another type.
        """
        return self.knowledge.passage_counts(scope=scope)

    def find_knowledge(
        self,
        query: str,
        k: int | None = None,
        *,
        collections: Sequence[str] | None = None,
        token_budget: int | None = None,
        scope: Scope | None = None,
        context: Context | None = None,
    ) -> KnowledgeResult:
        """Passages that answer a question, from the collections that fit the question.

        At most `k` passages and `token_budget` tokens in all, from the named `collections`; each
        option defaults to the settings (`knowledge`). The first passage may exceed the budget. With
        a `context`, as `detect` gives it, the settings' map holds as in `route`.

        Raises:
            QueryError: a query without words, a limit below 1, a scope of another type, or a
                collection that is unknown or not in scope.
            StoreError: the store does not answer.
        """
        options = KnowledgeOptions(k, collections, token_budget)
        return self.turns.find_knowledge(query, options, scope=scope, context=context)

    # -- turns -------------------------------------------------------------------------------

    def detect(self, turn: Turn | str) -> Context:
        """Context of a turn, without a decision; nothing is called or logged."""
        return self.turns.detect(Turn.of(turn))

    def learn_labels(self) -> None:
        """Fit a context model to the settings' own labels and cues, and store it with the index.

        Without a stored model every crib fits a model for its first turn. With the bundled
        encoder and no labels or cues in the settings, the shipped model is used, and not stored.

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

        `k` and `budget_ms` override the settings. `passages` is the number of passages at most;
        `token_budget` and `collections` limit them as in `find_knowledge`. `shown` are ids of
        tools that the conversation's earlier turns had, for an append-only order.

        Raises:
            QueryError: an impossible number, a value of another type, or a collection that is
                unknown or not in scope.
            CalibrationError: `k="auto"` needs a calibration, and there is none.
            StoreError: a store does not answer.
        """
        require_texts(shown, "shown")
        options = KnowledgeOptions(passages, collections, token_budget)
        return self.turns.route(
            Turn.of(turn), k=k, budget_ms=budget_ms, shown=shown, passages=options
        )

    def classify(
        self,
        question: str,
        turn: Turn | str,
        *,
        variables: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> Classification:
        """Class of a turn, by a question that the settings name (`questions`).

        `variables` fill in the question's template. `outputs` of earlier nodes of an agent's
        graph, by node, decide the question's `run_if`.

        Raises:
            UnknownQuestionError: the settings name no such question.
            QuestionError: the question's file is wrong, or its template cannot be filled in.
            EncoderError: no language model answers, and the encoder fails.
        """
        require_text(question, "question")
        if question not in self._classifiers:
            known = self.tools.settings.questions
            if question not in known:
                raise UnknownQuestionError(question, nearest(question, known))
            from toolcrib.build import question_classifier
            from toolcrib.retrieval.learned import QUESTIONS

            self._classifiers[question] = question_classifier(
                known[question],
                self.tools.settings,
                dense=self.tools.dense,
                models=self._models,
                name=QUESTIONS + question,
                learned_choices=self.turns.learned_choices,
            )
            self.turns.register_choice(QUESTIONS + question, self._classifiers[question].rank)
        chosen, turn = self._classifiers[question], Turn.of(turn)
        shown = chosen.shown_turn(turn, variables or {}, outputs or {})
        by_model = self.turns.may_show_to_model(shown)
        made = chosen.classify(turn, variables=variables, outputs=outputs, by_model=by_model)
        return replace(made, id=self.turns.remember_choice(turn, chosen.name))

    def select_capabilities(
        self, turn: Turn | str, *, bypass: bool | None = None, state: LoopState | None = None
    ) -> CapabilitySelection:
        """Capabilities that a turn needs, among those of the settings (`capabilities`).

        `bypass` overrides the conversation and the settings: True activates all capabilities.
        `state` is that of an agent's loop; after a failure the capabilities are selected anew.

        Raises:
            CapabilityError: the description of a capability is wrong.
        """
        from toolcrib.retrieval.learned import CAPABILITIES

        if self._selector is None:
            from toolcrib.build import capability_selector

            self._selector = capability_selector(
                settings=self.tools.settings,
                dense=self.tools.dense,
                models=self._models,
                learned_choices=self.turns.learned_choices,
            )
            self.turns.register_choice(CAPABILITIES, self._selector.rank)
        turn = Turn.of(turn)
        by_model = self.turns.may_show_to_model(turn)
        made = self._selector.select(turn, bypass=bypass, state=state, by_model=by_model)
        return replace(made, id=self.turns.remember_choice(turn, CAPABILITIES))

    def alternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """Next best tools for the purpose of a failed tool; tools that failed before are left out.

        `decision_id` is the turn's, if outcomes were reported for it.

        Raises:
            UnknownToolError: `failed_tool` is no id, or name of one tool, in the turn's scope.
            StoreError: the store does not answer.
        """
        return self.turns.alternates(failed_tool, Turn.of(turn), decision_id=decision_id, k=k)

    def guidance(self, turn: Turn | str, *, given: Sequence[str] = ()) -> Guidance:
        """The most useful hint for a stuck agent, by the turn's trajectory; usually none.

        `given` are the keys of hints that the conversation had before. The hint is for this turn
        alone: keep it out of the history.
        """
        return self.turns.guidance(Turn.of(turn), given=given)

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """Log the outcome of a call; `alternates` then avoids tools that failed.

        `tool` is an id, or a name that means one tool alone, as `export` gives it; any other name
        is logged as it is, with a warning. An unknown decision's id is no error here; a service
        refuses it.

        Raises:
            QueryError: there is no such outcome, or `took_ms` is below 0.
        """
        self.turns.report_outcome(decision_id, tool, outcome, took_ms=took_ms)

    def feedback(self, decision_id: str, **given: Unpack[FeedbackKeywords]) -> None:
        """Log the right answer to a decision, in the fields of `Feedback`, and learn from it.

        The decision is one of `route`; with learning on, `classify` or `select_capabilities` too.

        Raises:
            SettingsError: there is no log (`telemetry.path`), and learning is off.
            UnknownDecisionError: there is no such decision.
            FeedbackError: a field is unknown, or no field is given.
        """
        self.turns.feedback(decision_id, given)

    @property
    def recovery(self) -> RecoveryPolicy:
        """Policy of retries and replacements after a failed call; the caller does the waiting."""
        from toolcrib.router.recovery import RecoveryPolicy

        return RecoveryPolicy(self.tools.settings.recovery)

    # -- learning from use -------------------------------------------------------------------

    def learning_status(self) -> LearningStatus:
        """Learned examples of each tool and their origins; LearningOffError if learning is off."""
        return self.turns.require_learner().status()

    def replay_learning(self) -> LearningStatus:
        """Replay past requests, and use the learned examples of servers where they help."""
        return self.turns.require_learner().learn()

    def undo_learning(self, what: str) -> int:
        """Remove examples of a day (`2026-01-31`), key, tool or choice; return their number."""
        return self.turns.require_learner().undo(what)

    def switch_learning(self, *, on: bool) -> None:
        """Re-order answers by learned examples or not; the examples are kept."""
        self.turns.require_learner().switch(on=on)

    # -- life --------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read again what another process may have changed; the stores stay open.

        Raises:
            IndexMismatchError: the other process built the index anew, by other models.
        """
        self.knowledge.refresh()
        self.tools.refresh()
        self._relearn()

    def _relearn(self) -> None:
        """Apply the learned examples of tools that did not change after they were learned."""
        if self._turns is not None and self._turns.learner is not None:
            self._turns.learner.apply()

    def info(self) -> tuple[StoreInfo, Identity]:
        """Description of the store, and the fingerprint of its index."""
        return self.tools.info()

    def close(self) -> None:
        """Flush and close the stores; a second call does nothing."""
        # The turns close first; a part that fails keeps no other part open.
        with closing(self.tools), closing(self.knowledge):
            if self._turns is not None:
                self._turns.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    # -- asynchronous twins ------------------------------------------------------------------

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
        """As `list_tools`, to iterate with `async for`."""
        found = self.list_tools(scope=scope, where=where, after=after)
        while page := await run_in_thread(lambda: list(islice(found, _TOOLS_PER_READ))):
            for tool in page:
                yield tool
