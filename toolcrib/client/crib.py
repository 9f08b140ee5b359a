"""Remote crib: the methods of an embedded crib, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from pydantic import ValidationError

from toolcrib.awaitable import in_thread
from toolcrib.client.transport import CLIENT_EXTRA, CLIENT_FEATURE, Transport, path_segment
from toolcrib.errors import (
    FeedbackError,
    QueryError,
    UnknownCollectionError,
    UnknownToolError,
    nearest,
    require_all,
    require_positive,
    require_text,
    require_texts,
    require_type,
)
from toolcrib.extras import import_extra
from toolcrib.indexers.readers.registry import ToolSource, tool_entries
from toolcrib.indexers.sync import ReadSources, Screen, require_entries
from toolcrib.indexers.writer import Listener
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
from toolcrib.records.answers import Alternates, ToolPage
from toolcrib.records.codec import as_json, in_words
from toolcrib.records.knowledge import CollectionList, require_passages
from toolcrib.records.log import DecisionPage, GatewayActivity
from toolcrib.records.reports import (
    CheckedTools,
    Held,
    HeldTools,
    LearningStatus,
    Removed,
    ServiceInfo,
    ToolReadiness,
    Undone,
)
from toolcrib.records.turns import CapabilitySelection, Classification
from toolcrib.retrieval.legs import check_question
from toolcrib.retrieval.options import (
    KnowledgeOptions,
    SearchKeywords,
    check_search,
    search_options,
)
from toolcrib.router.choices.flow import LoopState
from toolcrib.router.collections import preset
from toolcrib.router.decision_log import Feedback, FeedbackKeywords
from toolcrib.router.recovery import RecoveryPolicy
from toolcrib.store.base import Identity, StoreInfo
from toolcrib.store.filters import Equals, Filter, filter_to_json, validate
from toolcrib.store.payload import FACET_FIELDS, count_facets

if TYPE_CHECKING:
    from toolcrib.indexers.enrichment import Enrichments

PAGE_DECISIONS = 200
PAGE_TOOLS = 500
"""Tools on a page of a list: the service's maximum."""


async def _run(work: Callable[[], Any]) -> Any:
    """Run work in a thread; a cancelled caller does not wait until it ends."""
    threads = import_extra("anyio.to_thread", CLIENT_FEATURE, CLIENT_EXTRA)
    return await threads.run_sync(work, abandon_on_cancel=True)


class RemoteCrib:
    """A crib behind a service's URL, with the methods and errors of an embedded crib.

    The client reads sources of tools and documents itself. `timeout_s` is for one attempt; a
    harmless retry is made up to `attempts` times in all, after the pause that the service states.
    Every method has an asynchronous twin, named `a...`, and raises `ServiceError` or a subclass if
    the service fails. Safe for several threads. A context manager.

    Raises:
        SettingsError: `url` is no URL of a service, or `api_key` has characters that no key has.
        MissingExtraError: the extra `client` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        namespace: str | None = None,
        timeout_s: float = 10.0,
        attempts: int = 4,
    ) -> None:
        self._transport = Transport(url, api_key, namespace, timeout_s=timeout_s, attempts=attempts)

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
        """As `Crib.index_tools`; tools that the service holds for approval are refused too."""
        from toolcrib.indexers.enrichment import prepare_entries

        read = [entry for source in sources for entry in tool_entries(source, server, format)]
        found, dropped = prepare_entries(
            require_entries(read, prune=prune), screen, overlays, enrichments
        )
        query = {"prune": "true" if prune else None, "server": server if prune else None}
        report = self._transport.upload("/v1/tools", found, query, progress)
        return replace(report, dropped=dropped)

    def remove_tools(self, *ids: str) -> None:
        """As `Crib.remove_tools`."""
        for tool_id in ids:
            self.get_tool(tool_id)
        for tool_id in ids:
            # It may be removed already, by an attempt whose answer was lost.
            with suppress(UnknownToolError):
                self._transport.ask(NoneType, "DELETE", _tool_path(tool_id), about=tool_id)

    def find_tools(
        self,
        query: str | None = None,
        k: int | Literal["auto"] = 5,
        **options: Unpack[SearchKeywords],
    ) -> FindResult:
        """As `Crib.find_tools`, within the key's grant; numbers have six decimals."""
        search = search_options(k, options)
        check_search(query, search)
        coverage = search.coverage
        if k == "auto" and coverage is not None and not 0 <= coverage <= 1:
            raise QueryError(f"coverage is {coverage}; it must be between 0 and 1")
        # Ignored without k="auto", as by an embedded crib.
        search = replace(search, coverage=coverage if k == "auto" else None)
        body = _body(shape="full", query=query, **as_json(search))
        return self._transport.ask(FindResult, "POST", "/v1/tools/search", body)

    def get_tool(self, tool_id: str, *, scope: Scope | None = None) -> ToolSpec:
        """As `Crib.get_tool`."""
        if scope is None:
            return self._transport.ask(ToolSpec, "GET", _tool_path(tool_id), about=tool_id)
        for tool in self.list_tools(scope=scope, where=Equals("name_key", tool_id.casefold())):
            if tool.id == tool_id:
                return tool
        known = [tool.id for tool in self.list_tools(scope=scope)]
        raise UnknownToolError(tool_id, nearest(tool_id, known))

    def tool_links(self, tool_id: str, *, scope: Scope | None = None) -> ToolLinks:
        """As `Crib.tool_links`."""
        body = _body(id=tool_id, scope=scope)
        return self._transport.ask(ToolLinks, "POST", "/v1/tools/links", body, about=tool_id)

    def check_tools(
        self, *ids: str, scope: Scope | None = None, held: Iterable[ToolSpec] = ()
    ) -> tuple[ToolReadiness, ...]:
        """As `Crib.check_tools`; a tool that the key may not see is `unknown`."""
        require_texts(ids, "ids")
        known = {each.id for each in held}
        body = _body(ids=list(dict.fromkeys(ids)), scope=scope)
        found = self._transport.ask(CheckedTools, "POST", "/v1/tools/check", body).tools
        return tuple(
            replace(each, reason="quarantined")
            if each.reason == "unknown" and each.id in known
            else each
            for each in found
        )

    def list_tools(
        self, *, scope: Scope | None = None, where: Filter | None = None, after: str | None = None
    ) -> Iterator[ToolSpec]:
        """As `Crib.list_tools`; pages are requested while iterating."""
        require_type(after, str | None, "id `after`", "a text")
        if where is not None:
            validate(where)
        accepted = where and filter_to_json(where)
        while True:
            body = _body(limit=PAGE_TOOLS, cursor=after, where=accepted, scope=scope)
            page = self._transport.ask(ToolPage, "POST", "/v1/tools/list", body)
            yield from page.tools
            if page.next is None:
                return
            after = page.next

    def facets(self, *, scope: Scope | None = None) -> Facets:
        """As `Crib.facets`; with a scope, the tools are listed and counted here."""
        if scope is None:
            return self._transport.ask(Facets, "GET", "/v1/facets")
        tools = self.list_tools(scope=scope)
        return count_facets({name: getattr(tool, name) for name in FACET_FIELDS} for tool in tools)

    # -- knowledge ---------------------------------------------------------------------------

    def index_docs(
        self,
        *sources: str | Path | ReadSources,
        collection: str,
        prune: bool = False,
        progress: Listener | None = None,
    ) -> IndexReport:
        """As `Crib.index_docs`."""
        # The loaders import parsers of every format, which other methods do not need.
        from toolcrib.documents.sources import passages
        from toolcrib.settings import DocumentSettings

        preset(collection)
        how = DocumentSettings()
        found = list(
            passages(*sources, collection=collection, max_tokens=how.max_tokens, limits=how.limits)
        )
        query = {"prune": collection if prune else None}
        return self._transport.upload(
            "/v1/documents", require_entries(found, prune=prune), query, progress
        )

    def index_passages(
        self, passages: Iterable[Passage], *, progress: Listener | None = None
    ) -> IndexReport:
        """As `Crib.index_passages`."""
        found = [("", passage) for passage in require_passages(passages)]
        for name in {passage.collection for _, passage in found}:
            preset(name)
        return self._transport.upload("/v1/documents", found, {}, progress)

    def remove_docs(self, collection: str, *documents: str) -> int:
        """As `Crib.remove_docs`."""
        require_texts(documents, "documents")
        counts = {each.name: count for each, count in self.list_collections()}
        if collection not in counts:
            raise UnknownCollectionError(collection, nearest(collection, counts))
        if documents:
            body = {"collection": collection, "documents": list(documents)}
            path = "/v1/documents"
            return self._transport.ask(Removed, "DELETE", path, body, about=collection).removed
        try:
            path = f"/v1/collections/{path_segment(collection)}"
            self._transport.ask(NoneType, "DELETE", path, about=collection)
        except UnknownCollectionError:
            # Removed already: perhaps by an attempt whose answer was lost.
            return 0
        return counts[collection]

    def add_collections(self, *collections: Collection) -> None:
        """As `Crib.add_collections`."""
        given = require_all(collections, Collection, "collections")
        body = {"collections": [each.model_dump(mode="json") for each in given]}
        self._transport.ask(CollectionList, "POST", "/v1/collections", body)

    def list_collections(self, *, scope: Scope | None = None) -> list[tuple[Collection, int]]:
        """As `Crib.list_collections`."""
        require_type(scope, Scope | None, "scope", "a Scope")
        known = self._transport.ask(CollectionList, "GET", "/v1/collections").collections
        return [
            (Collection.model_validate(each.model_dump(exclude={"passages"})), each.passages)
            for each in known
            if scope is None or scope.allows_collection(each.name, each.sensitivity)
        ]

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
        """As `Crib.find_knowledge`."""
        check_question(query, scope, context)
        options = asdict(KnowledgeOptions(k, collections, token_budget))
        body = _body(query=query, scope=scope, context=context, **options)
        return self._transport.ask(KnowledgeResult, "POST", "/v1/knowledge/search", body)

    # -- turns -------------------------------------------------------------------------------

    def detect(self, turn: Turn | str) -> Context:
        """As `Crib.detect`."""
        body = _turn_json(turn)
        return replace(self._transport.ask(Context, "POST", "/v1/detect", body), text=body["text"])

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
        """As `Crib.route`; the service's log has the id of the key."""
        require_positive(k, "k")
        require_texts(shown, "shown")
        options = asdict(KnowledgeOptions(passages, collections, token_budget))
        options["passages"] = options.pop("k")
        named = _body(k=k, budget_ms=budget_ms, shape="full", shown=list(shown) or None, **options)
        body = _turn_json(turn) | named
        made = self._transport.ask(Decision, "POST", "/v1/route", body)
        # The service does not repeat the texts of a request.
        return replace(
            made,
            context=replace(made.context, text=body["text"]),
            tools=replace(made.tools, query=made.search_text),
        )

    def classify(
        self,
        question: str,
        turn: Turn | str,
        *,
        variables: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> Classification:
        """As `Crib.classify`, by a question of the service's settings."""
        require_text(question, "question")
        body = _turn_json(turn) | _body(question=question, variables=variables, outputs=outputs)
        return self._transport.ask(Classification, "POST", "/v1/classify", body, about=question)

    def select_capabilities(
        self, turn: Turn | str, *, bypass: bool | None = None, state: LoopState | None = None
    ) -> CapabilitySelection:
        """As `Crib.select_capabilities`, of the capabilities of the service's settings."""
        body = _turn_json(turn) | _body(bypass=bypass, state=state and asdict(state))
        return self._transport.ask(CapabilitySelection, "POST", "/v1/capabilities", body)

    def alternates(
        self, failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
    ) -> tuple[ToolHit, ...]:
        """As `Crib.alternates`."""
        require_text(failed_tool, "tool")
        if not failed_tool:
            raise UnknownToolError(failed_tool)
        require_positive(k, "k")
        named = {"failed_tool": failed_tool, "turn": _turn_json(turn), "decision_id": decision_id}
        path, body = "/v1/alternates", _body(**named, k=k, shape="full")
        return self._transport.ask(Alternates, "POST", path, body, about=failed_tool).tools

    def guidance(self, turn: Turn | str, *, given: Sequence[str] = ()) -> Guidance:
        """As `Crib.guidance`; patterns have only the fields that all patterns share."""
        require_texts(given, "given")
        body = _turn_json(turn) | _body(given=list(given) or None)
        return self._transport.ask(Guidance, "POST", "/v1/guidance", body)

    def report_outcome(
        self, decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
    ) -> None:
        """As `Crib.report_outcome`; no retry if the service may have logged the outcome."""
        body = _body(decision_id=decision_id, tool=tool, outcome=outcome, took_ms=took_ms)
        self._transport.ask(NoneType, "POST", "/v1/outcomes", body, repeatable=False)

    def feedback(self, decision_id: str, **given: Unpack[FeedbackKeywords]) -> None:
        """As `Crib.feedback`; no retry if the service may have logged the feedback."""
        try:
            checked = Feedback.model_validate(given)
        except ValidationError as error:
            raise FeedbackError(in_words(error, "")) from error
        body = {"decision_id": decision_id, **checked.model_dump(mode="json", exclude_none=True)}
        self._transport.ask(NoneType, "POST", "/v1/feedback", body, repeatable=False)

    @property
    def recovery(self) -> RecoveryPolicy:
        """Recovery policy for an agent's loop; the caller does the waiting."""
        return RecoveryPolicy()

    def logged_records(self) -> list[dict[str, Any]]:
        """Decisions that the key may see, with feedback and outcomes, as logged, oldest first."""
        records: list[dict[str, Any]] = []
        first = path = f"/v1/decisions?limit={PAGE_DECISIONS}&reports=true"
        while True:
            page = self._transport.ask(DecisionPage, "GET", path)
            records += map(as_json, (*page.decisions, *page.feedback, *page.outcomes))
            if page.next is None:
                return sorted(records, key=itemgetter("at"))
            path = f"{first}&cursor={page.next}"

    def gateway_activity(self, limit: int = 50) -> GatewayActivity:
        """Activity of the gateway that the service reads; empty unless the key sees everything."""
        return self._transport.ask(GatewayActivity, "GET", f"/v1/activity?limit={limit}")

    # -- learning from use --------------------------------------------------------------------

    def learning_status(self) -> LearningStatus:
        """As `Crib.learning_status`, for a key that sees and writes everything."""
        return self._transport.ask(LearningStatus, "GET", "/v1/learning")

    def replay_learning(self) -> LearningStatus:
        """As `Crib.replay_learning`."""
        return self._transport.ask(LearningStatus, "POST", "/v1/learning/replay")

    def undo_learning(self, what: str) -> int:
        """As `Crib.undo_learning`."""
        return self._transport.ask(Undone, "POST", "/v1/learning/undo", {"what": what}).removed

    def switch_learning(self, *, on: bool) -> None:
        """As `Crib.switch_learning`."""
        self._transport.ask(NoneType, "POST", "/v1/learning", {"on": on})

    # -- quarantine -------------------------------------------------------------------

    def held_tools(self) -> tuple[Held, ...]:
        """Held tools in scope, oldest first."""
        return self._transport.ask(HeldTools, "GET", "/v1/quarantine").held

    def approve_tool(self, tool_id: str, digest: str) -> None:
        """Approve a held tool, if its digest is still the reviewed digest.

        Raises:
            UnknownToolError: nothing is held under this id.
            ToolChangedError: the held tool has another digest.
            ForbiddenError: the key sent the tool itself, or may not write.
        """
        self._post_verdict(tool_id, {"verdict": "approve", "digest": digest})

    def reject_tool(self, tool_id: str) -> None:
        """Drop a held tool; if a source has it again, it is screened again.

        Raises:
            UnknownToolError: nothing is held under this id.
        """
        self._post_verdict(tool_id, {"verdict": "reject"})

    def _post_verdict(self, tool_id: str, verdict: dict[str, str]) -> None:
        path = _tool_path(tool_id, under="/v1/quarantine")
        # A second attempt would fail, as the tool is no longer held.
        self._transport.ask(NoneType, "POST", path, verdict, about=tool_id, repeatable=False)

    # -- asynchronous methods ----------------------------------------------------------------

    aindex_tools = in_thread(index_tools, _run)
    aremove_tools = in_thread(remove_tools, _run)
    afind_tools = in_thread(find_tools, _run)
    aget_tool = in_thread(get_tool, _run)
    atool_links = in_thread(tool_links, _run)
    acheck_tools = in_thread(check_tools, _run)
    afacets = in_thread(facets, _run)
    aindex_docs = in_thread(index_docs, _run)
    aindex_passages = in_thread(index_passages, _run)
    aremove_docs = in_thread(remove_docs, _run)
    aadd_collections = in_thread(add_collections, _run)
    alist_collections = in_thread(list_collections, _run)
    afind_knowledge = in_thread(find_knowledge, _run)
    adetect = in_thread(detect, _run)
    aroute = in_thread(route, _run)
    aclassify = in_thread(classify, _run)
    aselect_capabilities = in_thread(select_capabilities, _run)
    aalternates = in_thread(alternates, _run)
    aguidance = in_thread(guidance, _run)
    alogged_records = in_thread(logged_records, _run)
    agateway_activity = in_thread(gateway_activity, _run)
    areport_outcome = in_thread(report_outcome, _run)
    afeedback = in_thread(feedback, _run)

    alearning_status = in_thread(learning_status, _run)
    areplay_learning = in_thread(replay_learning, _run)
    aundo_learning = in_thread(undo_learning, _run)
    aswitch_learning = in_thread(switch_learning, _run)
    aheld_tools = in_thread(held_tools, _run)
    aapprove_tool = in_thread(approve_tool, _run)
    areject_tool = in_thread(reject_tool, _run)

    async def alist_tools(
        self, *, scope: Scope | None = None, where: Filter | None = None, after: str | None = None
    ) -> AsyncIterator[ToolSpec]:
        """As `list_tools`, for `async for`."""
        tools = self.list_tools(scope=scope, where=where, after=after)
        while page := await _run(lambda: list(islice(tools, PAGE_TOOLS))):
            for tool in page:
                yield tool

    # -- life --------------------------------------------------------------------------------

    def info(self) -> tuple[StoreInfo, Identity]:
        """The service's engine, number of tools, encoder, and digest of the index."""
        ready = self._transport.ask(ServiceInfo, "GET", "/readyz")
        tools = self.facets().tools
        store = StoreInfo(ready.engine, self._transport.url, tools, optimised=True)
        return store, {"dense": ready.encoder, "digest": ready.index}

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._transport.close()

    ainfo = in_thread(info, _run)
    aclose = in_thread(close, _run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"RemoteCrib({self._transport.url!r})"


def _body(**fields: Any) -> dict[str, Any]:
    """Body of a request, without the fields that are None."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {k: as_json(value) if is_dataclass(value) else value for k, value in given.items()}


def _tool_path(tool_id: str, under: str = "/v1/tools") -> str:
    require_text(tool_id, "id")
    if not tool_id:
        raise UnknownToolError(tool_id)
    return f"{under}/{'/'.join(map(path_segment, tool_id.split('/')))}"


def _turn_json(turn: Turn | str) -> dict[str, Any]:
    turn = Turn.of(turn)
    try:
        body = turn.model_dump(mode="json", exclude={"scope"}, exclude_defaults=True)
    except ValueError as error:
        raise QueryError(f"the turn holds a value that JSON cannot: {error}") from error
    return body | _body(text=turn.text, scope=turn.scope)
