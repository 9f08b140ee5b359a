"""`toolcrib doctor`: what is in use, what is wrong, and the command that mends it."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from toolcrib import wiring
from toolcrib.cli.opening import Json, Store
from toolcrib.cli.screen import print_health, print_json
from toolcrib.crib import Crib
from toolcrib.errors import CalibrationError, IndexMismatchError, ToolcribError
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.settings import Settings, load_settings

__all__ = ["Health", "doctor"]

PACKAGES = ("toolcrib", "qdrant-edge-py", "onnxruntime", "tokenizers", "numpy", "pydantic")
EXTRAS = ("mcp", "qdrant-client", "fastembed", "sentence-transformers", "langchain-core")


@dataclass(slots=True)
class Health:
    """What was found: facts by section, and problems, each with the command that mends it."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    problems: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def problem(self, what: str, mend: str) -> None:
        """Note something wrong."""
        self.problems.append({"what": what, "mend": mend})


def doctor(context: typer.Context, store: Store = None, json: Json = False) -> None:
    """Check engine, models and index, and say what is wrong; exits with 1 when something is."""
    health = Health()
    health.facts["versions"] = {"python": platform.python_version(), **_versions()}
    settings = _settings(context, health)
    if settings is not None:
        location = store or settings.store
        _check_models(settings, health)
        _check_index(location, settings, health)
    if json:
        print_json({"healthy": not health.problems, "problems": health.problems, **health.facts})
    else:
        print_health(health.facts, health.problems)
    if health.problems:
        raise typer.Exit(EXIT_NOT_CLEAN)


def _settings(context: typer.Context, health: Health) -> Settings | None:
    try:
        return load_settings(context.obj)
    except ToolcribError as error:
        health.problem(str(error), "mend toolcrib.yaml or the variable")
        return None


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in (*PACKAGES, *EXTRAS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _check_models(settings: Settings, health: Health) -> None:
    facts: dict[str, Any] = {"dense": settings.encoder.dense, "reranker": settings.encoder.reranker}
    health.facts["models"] = facts
    try:
        dense = wiring.make_dense(settings)
        dense.encode_query("is this model usable?")
        facts |= {"dense": dense.name, "dimensions": dense.dimensions}
        reranker = wiring.make_reranker(settings)
        if reranker is not None:
            reranker.score("is this model usable?", ["yes"])
            facts["reranker"] = reranker.name
    except ToolcribError as error:
        health.problem(str(error), "pip install what is missing, or set encoder.dense: bundled")


def _check_calibration(crib: Crib, health: Health) -> None:
    facts: dict[str, Any] = {"calibration": "none for these models and settings"}
    health.facts["confidence"] = facts
    try:
        found = crib.calibration()
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


def _check_library(crib: Crib, health: Health) -> None:
    library = crib.library
    passages = {each.name: library.count(each.name) for each in library.catalogue.collections}
    health.facts["library"] = {"collections": passages, "passages": library.count()}
    for name in (name for name, count in passages.items() if not count):
        health.problem(
            f"the collection {name!r} holds no passages",
            f"toolcrib index-docs PATH... --collection {name}",
        )


def _check_index(location: str, settings: Settings, health: Health) -> None:
    health.facts["index"] = {"location": location}
    if not wiring.has_index(location):
        health.problem(f"there is no index in {location}", "toolcrib index SOURCE...")
        return
    try:
        with Crib.open(location, settings=settings) as crib:
            info, identity = crib.info()
            _check_calibration(crib, health)
            if wiring.has_library(location, settings):
                _check_library(crib, health)
    except IndexMismatchError as error:
        health.problem(str(error), "toolcrib index --rebuild")
        return
    except ToolcribError as error:
        health.problem(str(error), "see the message")
        return
    health.facts["index"] |= {
        "engine": info.engine,
        "tools": info.points,
        "optimised": info.optimised,
        "identity": identity,
    }
    if not info.points:
        health.problem(f"the index in {location} is empty", "toolcrib index SOURCE...")
    elif not info.optimised:
        health.problem("the graph is not built yet, so searches are slower", "toolcrib index")
