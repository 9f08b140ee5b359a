"""`toolcrib doctor`: installed packages, and problems of models, settings and the index."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from toolcrib import build
from toolcrib.cli.opening import remote_crib, service_of
from toolcrib.cli.options import Json, StoreOption, Url
from toolcrib.cli.output import print_either, print_health
from toolcrib.context.labels import label_sets, map_labels, unknown_labels
from toolcrib.crib import Crib
from toolcrib.encoders.registry import RUNTIMES
from toolcrib.errors import (
    CalibrationError,
    IndexMismatchError,
    MissingExtraError,
    StoreDamagedError,
    StoreLockedError,
    StoreUnavailableError,
    StoreWriteError,
    ToolcribError,
    did_you_mean,
    nearest,
)
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.retrieval.rerank import ModelReranker
from toolcrib.settings import Settings, load_settings
from toolcrib.store.base import StoreInfo
from toolcrib.store.folder import require_space
from toolcrib.tenants import count_shared

INDEX_COMMAND = "toolcrib index SOURCE... --store {}"
REBUILD_COMMAND = INDEX_COMMAND.format("NEW_FOLDER")

PACKAGES = ("toolcrib", "qdrant-edge-py", "onnxruntime", "numpy", "pydantic")
EXTRAS = ("mcp", "tokenizers", "qdrant-client", "langchain-core")

MAX_REPORTED_FAULTS = 50
"""Most faults of an index that are listed."""


@dataclass(slots=True)
class Health:
    """Facts by section, and problems, each with its remedy."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    problems: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def problem(self, what: str, mend: str) -> None:
        """Add a problem and its remedy."""
        self.problems.append({"what": what, "mend": mend})


def doctor(
    context: typer.Context,
    store: StoreOption = None,
    url: Url = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Encode everything again, and compare with the store.")
    ] = False,
    json: Json = False,
) -> None:
    """Check engine, models and index, and list problems; exit with 1 if there are any."""
    health = Health()
    health.facts["versions"] = {"python": platform.python_version(), **_versions()}
    try:
        settings = load_settings(context.obj)
    except ToolcribError as error:
        health.problem(str(error), "correct toolcrib.yaml or the variable")
    else:
        _check_context(settings, health)
        service = service_of(settings, store, url)
        if service is not None:
            _check_service(service, settings, health)
        elif usable := _check_models(settings, health):
            _check_index(store or settings.store, usable, health, deep=deep)
            _check_records(store or settings.store, settings, health)
        _check_files(settings, health)
    value = {"healthy": not health.problems, "problems": health.problems, **health.facts}
    print_either(value, partial(print_health, health.facts, health.problems), json=json)
    if health.problems:
        raise typer.Exit(EXIT_NOT_CLEAN)


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    runtimes = (runtime.package for runtime in RUNTIMES.values() if runtime.package)
    for name in (*PACKAGES, *EXTRAS, *runtimes):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _check_service(url: str, settings: Settings, health: Health) -> None:
    facts: dict[str, Any] = {"url": url}
    health.facts["service"] = facts
    try:
        with remote_crib(url, settings) as crib:
            info, identity = crib.info()
            collections = {each.name: passages for each, passages in crib.list_collections()}
    except ToolcribError as error:
        others = "toolcrib serve, another --url, or another TOOLCRIB_API_KEY"
        health.problem(str(error), _install(error) or others)
        return
    facts |= {"engine": info.engine, "tools": info.points, "collections": collections, **identity}
    if not info.points and not any(collections.values()):
        space = f"the namespace {settings.namespace!r}" if settings.namespace else "its namespace"
        what = f"the service at {url} has no tool and no passage for this key in {space}"
        others = "or TOOLCRIB_NAMESPACE=NAME for another namespace"
        health.problem(what, f"toolcrib index SOURCE... --url {url}, {others}")


def _check_models(settings: Settings, health: Health) -> Settings | None:
    """Settings for opening the index, without a failing reranker; None if the encoder fails."""
    facts: dict[str, Any] = {"dense": settings.encoder.dense, "reranker": settings.encoder.reranker}
    health.facts["models"] = facts
    try:
        dense = build.make_dense(settings)
        dense.encode_query("is this model usable?")
        facts |= {"dense": dense.name, "dimensions": dense.dimensions}
    except ToolcribError as error:
        health.problem(str(error), _model_remedy(error, "encoder.dense: bundled"))
        return None
    try:
        reranker = build.make_reranker(settings)
        if reranker is not None:
            if isinstance(reranker, ModelReranker):
                reranker.order("is this model usable?", ["yes", "no"])
            else:
                reranker.score("is this model usable?", ["yes"])
            facts["reranker"] = reranker.name
    except ToolcribError as error:
        health.problem(str(error), _model_remedy(error, "encoder.reranker: null"))
        return settings.without_reranker()
    return settings


def _model_remedy(error: ToolcribError, without: str) -> str:
    return f"{_install(error) or 'name an existing model'}, or set {without}"


def _install(error: ToolcribError) -> str:
    """Command that installs a missing extra; empty for another error."""
    return f"pip install 'toolcrib[{error.extra}]'" if isinstance(error, MissingExtraError) else ""


READS_MORE = {
    "phonenumbers": ("telephone numbers", "by every country's rules", "by their form"),
    "py3langid": ("language of a turn", "told", "not told"),
    "stdnum": ("national and tax numbers", "by their check digits", "by the word beside them"),
}
"""Modules of the extra `context`: what each detects, with the module and without."""


def _check_context(settings: Settings, health: Health) -> None:
    from toolcrib.context.entities import EntityFinder

    facts = health.facts["context"] = {}
    for module, (what, there, off) in READS_MORE.items():
        facts[what] = there if find_spec(module) else f"{off} (pip install 'toolcrib[context]')"
    try:
        EntityFinder(region=settings.context.region)
    except MissingExtraError as error:
        health.problem(str(error), "pip install 'toolcrib[context]', or leave the region out")


def _check_files(settings: Settings, health: Health) -> None:
    """Check the files that settings name, which are else read only at first use."""
    from toolcrib.router.choices.capabilities import CapabilityRegistry
    from toolcrib.router.choices.questions import load_question

    named: list[Callable[[], object]] = [settings.llm.key]
    named += [partial(load_question, file) for file in settings.questions.values()]
    if settings.agents.targets is not None:
        named.append(partial(build.make_agents, settings))
    if settings.capabilities.file is not None:
        named.append(partial(CapabilityRegistry.load, settings.capabilities.file))
    for read in named:
        try:
            read()
        except ToolcribError as error:
            health.problem(str(error), "correct that file, or take it out of the settings")


def _check_calibration(crib: Crib, health: Health) -> None:
    facts: dict[str, Any] = {"calibration": "none for these models and settings"}
    health.facts["confidence"] = facts
    try:
        found = crib.tools.calibration()
    except CalibrationError as error:
        health.problem(str(error), "toolcrib calibrate --queries FILE, or --reset")
        return
    if found is not None:
        facts |= {
            "calibration": found.method,
            "queries": found.queries,
            "threshold": found.threshold,
            "expected calibration error": round(found.figures.ece, 4),
            "head": found.head is not None,
        }


def _check_knowledge(crib: Crib, health: Health) -> None:
    known = crib.knowledge
    passages = {each.name: known.count(each.name) for each in known.catalogue.collections}
    if passages:
        health.facts["library"] = {"collections": passages, "passages": known.count()}
    for name in (name for name, count in passages.items() if not count):
        health.problem(
            f"the collection {name!r} holds no passages",
            f"toolcrib index-docs PATH... --collection {name}",
        )


def _check_settings(crib: Crib, settings: Settings, health: Health) -> None:
    """Check accepted settings that name something missing."""
    tools, known = settings.tools, crib.knowledge.catalogue
    servers = crib.facets().servers
    for name in sorted((tools.servers or frozenset[str]()) - servers.keys()):
        hint = did_you_mean(nearest(name, servers))
        health.problem(
            f"tools.servers allows {name!r}, but the index has no such server{hint}",
            f"index the tools of {name}, or correct tools.servers",
        )
    for what in crib.tools.settings_warnings():
        health.problem(what, "index that tool, or name another in gate.fallback")
    for what in crib.knowledge.settings_warnings():
        mend = "toolcrib index-docs PATH... --collection NAME, or correct knowledge.map"
        health.problem(what, mend)
    own = settings.context
    try:
        label_sets(own.labels)
        labels = map_labels(own.labels, own.cues)
    except ToolcribError as error:
        health.problem(str(error), "correct that file, or take it out of the settings (context)")
        return
    pairs = [(f"the collection {c.name!r}", pair) for c in known.collections for pair in c.answers]
    for what, kind in unknown_labels(pairs, labels):
        health.problem(what, f"correct its `answers`, or add to context.labels.{kind}")
    if (own.labels or own.cues) and not crib.turns.has_fitted_labels():
        what = "the labels or cues of the settings are not fitted yet, so first turns are slow"
        health.problem(what, "toolcrib calibrate --labels")


REMEDIES: dict[type[ToolcribError], str] = {
    StoreLockedError: "stop the other process, or name another folder with --store",
    StoreUnavailableError: "start the Qdrant server, or correct `store` and `server.api_key`",
    StoreDamagedError: REBUILD_COMMAND,
    StoreWriteError: "free space on the disk, and give this user the right to write to the folder",
    IndexMismatchError: "toolcrib index --rebuild --store {location}",
}


def _check_faults(crib: Crib, health: Health) -> None:
    for kind, found, mend in (
        ("tool", crib.tools.faults(), REBUILD_COMMAND),
        ("passage", crib.knowledge.faults(), "toolcrib index-docs PATH... --store NEW_FOLDER"),
    ):
        faults = list(found)
        for name, why in faults[:MAX_REPORTED_FAULTS]:
            health.problem(f"the {kind} {name!r}: {why}", mend)
        if len(faults) > MAX_REPORTED_FAULTS:
            health.problem(f"{len(faults) - MAX_REPORTED_FAULTS} more faults: {kind}", mend)


def _check_records(location: str, settings: Settings, health: Health) -> None:
    """Check keys, approvals and decisions, which are outside the index."""
    try:
        with closing(build.open_records_db(location, settings)) as records_db:
            records_db.tables()
            # A file without the right to write is found by a write alone.
            records_db.delete("", "")
    except (MissingExtraError, StoreUnavailableError):
        return  # the check of the index reports this
    except ToolcribError as error:
        full = isinstance(error, StoreWriteError)
        health.problem(str(error), REMEDIES[StoreWriteError] if full else "toolcrib docs backup")


def _check_space(location: str, health: Health) -> None:
    """Check the free space of a folder's disk: without space writes are refused."""
    if build.is_url(location):
        return
    from toolcrib.store.qdrant_edge import MIN_FREE_BYTES

    try:
        require_space(Path(location), MIN_FREE_BYTES)
    except StoreWriteError as error:
        health.problem(str(error), REMEDIES[StoreWriteError])


def _check_index(location: str, settings: Settings, health: Health, *, deep: bool) -> None:
    health.facts["index"] = {"location": location}
    if not build.has_index(location):
        health.problem(f"there is no index in {location}", INDEX_COMMAND.format(location))
        return
    try:
        with Crib.open(location, settings=settings) as crib:
            info, identity = crib.info()
            if not health.problems:
                _check_calibration(crib, health)
            _check_knowledge(crib, health)
            _check_settings(crib, settings, health)
            if deep:
                _check_faults(crib, health)
        shared = count_shared(location, settings)
    except ToolcribError as error:
        kinds = (mend for kind, mend in REMEDIES.items() if isinstance(error, kind))
        mend = next(kinds, "correct the cause that it names, then run toolcrib doctor again")
        health.problem(str(error), mend.format(location=location))
        return
    health.facts["index"] |= {
        "engine": info.engine,
        "tools": info.points,
        "optimised": info.optimised,
        "identity": identity,
    }
    if any(shared):
        health.facts["other namespaces"] = dict(zip(("tools", "passages"), shared, strict=True))
    _check_space(location, health)
    passages = health.facts.get("library", {}).get("passages", 0)
    if not any((info.points, passages, *shared)):
        health.problem(f"the index in {location} is empty", INDEX_COMMAND.format(location))
    elif not info.optimised:
        health.problem("the graph is not built yet, so searches are slower", "toolcrib index")
    _check_filters(info, health)


def _check_filters(info: StoreInfo, health: Health) -> None:
    if fields := ", ".join(info.unindexed_fields):
        health.problem(
            f"filters scan every point, as these fields lack a payload index: {fields}",
            "free space on the disk, then run toolcrib doctor: opening the index makes them",
        )
