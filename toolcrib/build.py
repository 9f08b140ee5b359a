"""Composition root: chooses engines and models, and builds the parts of a crib."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from toolcrib.clock import Clock, SystemClock
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.registry import open_encoder, open_reranker
from toolcrib.errors import QueryError, SettingsError, StoreError, require_text, require_type
from toolcrib.indexers.points import layout, passage_layout
from toolcrib.knowledge_base import KnowledgeBase
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.retrieval.learned import LearnedChoices
from toolcrib.retrieval.rerank import ModelReranker, ToolRerankers, load_reranker
from toolcrib.router.settings import PRESET
from toolcrib.settings import Settings, load_settings, secret_text
from toolcrib.store.base import Layout, Store
from toolcrib.store.folder import LazyStore, holds_store, temporary_folder
from toolcrib.tool_index import ToolIndex

if TYPE_CHECKING:
    from toolcrib.context.by_model import ContextReader
    from toolcrib.indexers.writer import Listener
    from toolcrib.language_models import LanguageModel
    from toolcrib.learning.learner import UsageLearner
    from toolcrib.records.turns import ModelUse
    from toolcrib.router.choices.agents import AgentRouter
    from toolcrib.router.choices.capabilities import CapabilityRegistry, CapabilitySelector
    from toolcrib.router.choices.questions import QuestionClassifier, QuestionConfig
    from toolcrib.router.decision_log import DecisionLog
    from toolcrib.store.records_db import RecordsDb
    from toolcrib.turn_router import TurnRouter

logger = logging.getLogger(__name__)

Models: TypeAlias = "Mapping[ModelUse, LanguageModel]"
"""Language models by use; they replace the models of the settings."""

NO_MODELS: Models = MappingProxyType({})

Parts: TypeAlias = "tuple[ToolIndex, KnowledgeBase, Callable[[], TurnRouter]]"
"""Parts of a crib; the turn router is made for the first turn."""

MEMORY = ":memory:"
LIBRARY = "library"
TENANTS = "tenants"
"""Part with all namespaces except the default one, in one store."""
RECORDS = "ledger"


# -- the parts of a crib ---------------------------------------------------------------------


def open_parts(  # noqa: PLR0913 -- all by name
    location: str | Path | None,
    settings: Settings | None,
    *,
    dense: DenseEncoder | None = None,
    reranker: ToolRerankers | None = None,
    log: DecisionLog | None = None,
    models: Models = NO_MODELS,
    rebuild: bool = False,
    progress: Listener | None = None,
    ends_with_process: bool = False,
    tools_only: bool = False,
) -> Parts:
    """Open or make the index and the knowledge base of a location, by default the settings' store.

    `ends_with_process`: this is the process' last store. `tools_only`: the knowledge base is left
    empty, even if passages are stored.

    Raises:
        QueryError: an argument has another type, or the location is empty.
    """
    settings = settings or load_settings()
    require_type(settings, Settings, "settings", "Settings")
    wanted = "a DenseEncoder (the setting encoder.dense takes a name)"
    require_type(dense, DenseEncoder | None, "encoder `dense`", wanted)
    wanted = "a Reranker (the setting encoder.reranker takes a name)"
    require_type(reranker, ToolRerankers | None, "reranker", wanted)
    if not isinstance(location, Path | None):
        require_text(location, "location")
    location = fixed_location(str(settings.store if location is None else location))
    dense = dense or make_dense(settings)
    width, library = dense.dimensions, part_of(location, settings, LIBRARY)
    ends = ends_with_process
    store = open_store(location, settings, layout(width), ends_with_process=ends)
    passages = LazyStore(
        lambda: open_store(*library, passage_layout(width), ends_with_process=ends),
        lambda: not tools_only and has_store(*library),
    )
    try:
        second = load_reranker(reranker or make_reranker(settings, models), settings.rerank)
        tools = ToolIndex(store, dense, settings, reranker=second)
        tools.claim(rebuild=rebuild, progress=progress)
        knowledge = KnowledgeBase(passages, dense, settings, rebuild=rebuild)
        # No error: the caller may be about to index the missing tool or collection.
        known = knowledge.settings_warnings() if knowledge.exists else ()
        for warning in (*tools.settings_warnings(), *known):
            logger.warning("%s", warning)
        learner = None
        if settings.learning.enabled:
            learner = make_learner(
                tools, lambda: open_records_db(location, settings), DEFAULT_NAMESPACE
            )
        turns = _router_maker(tools, knowledge, models, log=log, learner=learner)
    except BaseException:
        passages.close()
        store.close()
        raise
    return tools, knowledge, turns


def make_parts(
    store: Store,
    dense: DenseEncoder,
    settings: Settings,
    *,
    passages: LazyStore | None = None,
    reranker: ToolRerankers | None = None,
    clock: Clock | None = None,
    log: DecisionLog | None = None,
    records: tuple[RecordsDb, str] | None = None,
) -> Parts:
    """Make the parts over open stores; their fingerprints are not checked."""
    tools = ToolIndex(store, dense, settings, reranker=reranker or make_reranker(settings))
    knowledge = KnowledgeBase(passages or LazyStore(_no_passages, lambda: False), dense, settings)
    learner = None
    if records is not None and settings.learning.enabled:
        learner = make_learner(tools, lambda: records[0], records[1], owns=False)
    turns = _router_maker(tools, knowledge, {}, clock=clock, log=log, learner=learner)
    return tools, knowledge, turns


def _router_maker(
    tools: ToolIndex, knowledge: KnowledgeBase, models: Models, **given: Any
) -> Callable[[], TurnRouter]:
    """Function that makes the turn router, as a search needs none; wrong settings raise now."""
    settings = tools.settings
    given["reader"] = make_reader(settings, models)
    if "conversation" in {*models, *settings.llm.uses}:
        from toolcrib.router.conversation import ConversationReader

        model = _require_model(settings, "conversation", models, "llm.uses names it")
        given["conversation"] = ConversationReader(model)
    if settings.agents.targets is not None:
        given["agents"] = partial(make_agents, settings, models)

    def make() -> TurnRouter:
        from toolcrib.turn_router import TurnRouter

        return TurnRouter(tools, knowledge, **given)

    return make


def make_agents(settings: Settings, models: Models = NO_MODELS) -> AgentRouter:
    """Router to the agents of the settings, else to the package's own; it needs no index.

    Raises:
        SettingsError: targets, allowlist or cues cannot be read; or as `language_model`.
        MissingExtraError: as `language_model`.
    """
    from toolcrib.context.cues import load_cues
    from toolcrib.router.choices.agent_model import AgentClassifier
    from toolcrib.router.choices.agents import AgentRouter, DecisionCache
    from toolcrib.router.choices.allowlist import Allowlist, load_allowlist
    from toolcrib.router.choices.evidence import EvidenceReader
    from toolcrib.router.choices.targets import load_targets

    own = settings.agents
    is_preset = own.targets in {None, PRESET}
    targets = load_targets(None if is_preset else own.targets)
    if own.allowlist is not None:
        allowlist = load_allowlist(own.allowlist)
    else:
        allowlist = load_allowlist() if is_preset else Allowlist()
    reader = EvidenceReader(targets, allowlist, load_cues(settings.context.cues))
    model = language_model(settings, "agents", models)
    if model is None:
        return AgentRouter(reader, targets, own)
    size, ttl_s, near = own.cache_size, own.cache_ttl_s, own.cache_similarity
    cache = DecisionCache(SystemClock(), size=size, ttl_s=ttl_s, similarity=near) if size else None
    classifier = AgentClassifier(model, targets, allowlist, own)
    return AgentRouter(reader, targets, own, classifier, cache, model.time_s("agents"))


def make_learner(
    tools: ToolIndex, open_db: Callable[[], RecordsDb], namespace: str, *, owns: bool = True
) -> UsageLearner:
    """Learner of an index; stored examples re-order answers from now on."""
    from toolcrib.learning.learner import UsageLearner
    from toolcrib.learning.observations import ObservationTable
    from toolcrib.learning.runs import RunTable

    settings = tools.settings
    table = ObservationTable(open_db, namespace, owns=owns)
    learner = UsageLearner(
        tools,
        table,
        RunTable(table.database, namespace),
        collects=settings.learning.enabled,
        text=settings.telemetry.text,
        orders_steps=settings.learning.runs,
    )
    learner.apply()
    return learner


def _no_passages() -> Store:
    raise StoreError("this crib was made without a knowledge base; use Crib.open")


# -- stores ----------------------------------------------------------------------------------


def fixed_location(location: str) -> str:
    """Location without `~`, which a later change of the current folder (`%cd`) does not move.

    Raises:
        QueryError: the location is empty, as of an unset variable.
    """
    if not location:
        raise QueryError("the location of the index is empty: name a folder or a URL")
    if is_url(location) or location == MEMORY:
        return location
    return str(Path(os.path.expanduser(location)).absolute())  # noqa: PTH111


def is_url(location: str) -> bool:
    """Tell the URL of a server from a folder."""
    return location.startswith(("http://", "https://"))


def has_store(location: str, settings: Settings) -> bool:
    """Check for stored tools or passages at a location."""
    if not is_url(location):
        return location != MEMORY and holds_store(Path(location))
    from toolcrib.store.qdrant_client import has_collection

    server = settings.server
    return has_collection(
        location,
        server.collection,
        api_key=secret_text(server.api_key),
        timeout_s=server.timeout_s,
    )


def part_of(location: str, settings: Settings, part: str) -> tuple[str, Settings]:
    """Location and settings of a part: a subfolder, or another collection on the same server."""
    if location == MEMORY:
        return MEMORY, settings
    if not is_url(location):
        return str(Path(location) / part), settings
    beside = {"collection": f"{settings.server.collection}-{part}"}
    server = settings.server.model_copy(update=beside)
    return location, settings.model_copy(update={"server": server})


def open_records_db(location: str, settings: Settings) -> RecordsDb:
    """Open the records database of a location, even while another process holds its points."""
    if is_url(location):
        from toolcrib.store.records_db.qdrant import QdrantRecordsDb

        server = part_of(location, settings, RECORDS)[1].server
        return QdrantRecordsDb.open(
            location,
            api_key=secret_text(server.api_key),
            collection=server.collection,
            timeout_s=server.timeout_s,
            replicas=server.replicas,
        )
    from toolcrib.store.records_db.sqlite import SqliteRecordsDb

    if location == MEMORY:
        folder, remove = temporary_folder()
        return SqliteRecordsDb(folder / f"{RECORDS}.db", on_close=remove)
    return SqliteRecordsDb(Path(location) / f"{RECORDS}.db")


def has_index(location: str) -> bool:
    """True for a folder with an index, and for any server."""
    return is_url(location) or holds_store(Path(location))


def open_store(
    location: str,
    settings: Settings,
    layout: Layout,
    *,
    shared: bool = False,
    ends_with_process: bool = False,
) -> Store:
    """Open the store at a location: a folder, a server's URL, or `:memory:`; `shared` by tenants.

    Raises:
        SettingsError: `server.tenant_shards` has a name that no namespace with a shard can have.
    """
    if is_url(location):
        from toolcrib.store.namespaced import check_shards
        from toolcrib.store.qdrant_server import CollectionPlan, ServerStore

        server = settings.server
        check_shards(server.tenant_shards or ())
        plan = CollectionPlan(**{f.name: getattr(server, f.name) for f in fields(CollectionPlan)})
        return ServerStore.open(
            location,
            layout,
            api_key=secret_text(server.api_key),
            collection=server.collection,
            timeout_s=server.timeout_s,
            plan=plan if shared else replace(plan, tenant_shards=None),
        )
    from toolcrib.store.qdrant_edge import EdgeStore

    if location == MEMORY:
        folder, remove = temporary_folder()
        return EdgeStore.open(folder, layout, survives_power_cut=False, on_close=remove)
    return EdgeStore.open(
        Path(location),
        layout,
        survives_power_cut=settings.durability == "disk",
        ends_with_process=ends_with_process,
    )


# -- models ----------------------------------------------------------------------------------


def make_dense(settings: Settings) -> DenseEncoder:
    """The dense encoder that the settings name."""
    return open_encoder(settings.encoder.dense, settings.encoder.threads)


def make_reranker(settings: Settings, models: Models = NO_MODELS) -> ToolRerankers | None:
    """The reranker of the settings, if any; `llm` stands for the language model."""
    if settings.encoder.reranker is None:
        return None
    if settings.encoder.reranker == "llm":
        asked = _require_model(settings, "rerank", models, "encoder.reranker is llm")
        return ModelReranker(asked, settings.rerank)
    return open_reranker(settings.encoder.reranker, settings.encoder.threads)


def make_reader(settings: Settings, models: Models = NO_MODELS) -> ContextReader | None:
    """Reader of turns by a language model, if `context.detector` is `llm`."""
    if settings.context.detector != "llm":
        return None
    from toolcrib.context.by_model import ContextReader
    from toolcrib.context.labels import label_sets

    model = _require_model(settings, "context", models, "context.detector is llm")
    return ContextReader(model, label_sets(settings.context.labels))


# -- language models ------------------------------------------------------------------------


def language_model(
    settings: Settings,
    use: ModelUse,
    models: Models = NO_MODELS,
    *,
    max_tokens: int | None = None,
) -> LanguageModel | None:
    """The language model for a use: from `models`, else from the settings; None without either.

    Raises:
        QueryError: the entry of `models` is no `LanguageModel`.
        SettingsError: a server is set without a model, or the key's file cannot be read.
        MissingExtraError: the extra `llm` is not installed.
    """
    from toolcrib.language_models import LanguageModel

    if use in models:
        require_type(models[use], LanguageModel, f"model for {use!r}", "a LanguageModel")
        return models[use]
    llm = settings.llm
    own = llm.uses.get(use)
    model = (own.model if own else None) or llm.model
    if model is None:
        if llm.base_url is not None and not llm.uses:
            raise SettingsError("llm.base_url is set, and llm.model is not: set llm.model too")
        return None
    from toolcrib.language_models.anthropic import AnthropicChatModel
    from toolcrib.language_models.openai import OpenAIChatModel

    providers = {"openai": OpenAIChatModel, "anthropic": AnthropicChatModel}
    chat_model = providers[llm.protocol](
        model,
        base_url=llm.base_url,
        api_key=llm.key(),
        temperature=llm.temperature,
        max_tokens=max_tokens,
    )
    return LanguageModel(
        chat_model,
        timeouts_s={use: own.timeout_s} if own and own.timeout_s else {},
        parallel=llm.parallel,
        attempts=llm.attempts,
        price=llm.prices.get(model),
        log_text=llm.log_text,
    )


def _require_model(settings: Settings, use: ModelUse, models: Models, why: str) -> LanguageModel:
    model = language_model(settings, use, models)
    if model is None:
        raise SettingsError(f"{why}, and there is no language model: set llm.model")
    return model


# -- choices ---------------------------------------------------------------------------------


def question_classifier(
    source: str | Path | Mapping[str, Any] | QuestionConfig,
    settings: Settings | None = None,
    *,
    dense: DenseEncoder | None = None,
    models: Models = NO_MODELS,
    name: str = "",
    learned_choices: LearnedChoices | None = None,
) -> QuestionClassifier:
    """Classifier of turns by a question, given as a file, a mapping or a `QuestionConfig`.

    `learned_choices` of the choice `name` count too.

    Raises:
        QuestionError: something in it is wrong.
        MissingExtraError: an extra is not installed: `questions`, or `llm` where a model is set.
    """
    from toolcrib.router.choices.questions import QuestionClassifier, load_question

    question = load_question(source)
    settings = settings or load_settings()
    model = models.get("questions") or _model_of(question, settings)
    dense = dense or make_dense(settings)
    return QuestionClassifier(question, dense, model, name, learned_choices or LearnedChoices())


def capability_selector(
    source: str | Path | CapabilityRegistry | None = None,
    settings: Settings | None = None,
    *,
    dense: DenseEncoder | None = None,
    models: Models = NO_MODELS,
    learned_choices: LearnedChoices | None = None,
) -> CapabilitySelector:
    """Selector of the capabilities of a source, of `capabilities.file`, or of installed packages.

    Raises:
        CapabilityError: something in them is wrong.
        MissingExtraError: a model is set, and the extra `llm` is not installed.
    """
    from toolcrib.router.choices.capabilities import CapabilityRegistry, CapabilitySelector

    settings = settings or load_settings()
    return CapabilitySelector(
        CapabilityRegistry.of(settings.capabilities.file if source is None else source),
        dense or make_dense(settings),
        language_model(settings, "capabilities", models),
        settings=settings.capabilities,
        limits=settings.recovery,
        mode=settings.orchestration_mode,
        learned_choices=learned_choices or LearnedChoices(),
    )


def _model_of(question: QuestionConfig, settings: Settings) -> LanguageModel | None:
    """The model of a question, at its own server or at that of the settings; None without either.

    `llm.uses.questions.model` wins over the question's model, unless the question has its own
    server, which may not know that model.
    """
    llm = settings.llm
    use = llm.uses.get("questions")
    changed: dict[str, Any] = {"temperature": question.temperature}
    if question.api_base is not None:
        # The key of the settings is for another server.
        changed |= {"protocol": "openai", "base_url": question.api_base, "api_key_file": None}
        unnamed = {} if use is None else {"questions": use.model_copy(update={"model": None})}
        changed |= {"uses": {**llm.uses, **unnamed}}
    if question.api_base is not None or question.api_key is not None:
        changed |= {"api_key": question.api_key, "api_key_file": None}
    elif llm.base_url is None and llm.model is None and (use is None or use.model is None):
        return None
    own = llm.model_copy(update={**changed, "model": question.model})
    settings = settings.model_copy(update={"llm": own})
    return language_model(settings, "questions", max_tokens=question.answer_tokens)
