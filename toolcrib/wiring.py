"""The only chooser: settings in, encoders and stores out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from toolcrib.encoders.protocols import DenseEncoder, Reranker
from toolcrib.errors import SettingsError
from toolcrib.router.context.detector import Detector
from toolcrib.router.context.model import ContextModel
from toolcrib.settings import Settings
from toolcrib.store.protocol import Layout, Store

__all__ = [
    "has_index",
    "has_library",
    "is_shipped",
    "is_url",
    "make_context_model",
    "make_dense",
    "make_detector",
    "make_reranker",
    "open_library",
    "open_store",
]

MEMORY = ":memory:"
LIBRARY = "library"

Made = TypeVar("Made")


def make_dense(settings: Settings) -> DenseEncoder:
    """The dense encoder that the settings name.

    Raises:
        SettingsError: there is no such kind.
        MissingExtraError: its extra is not installed.
    """
    kind, _, model = settings.encoder.dense.partition(":")
    return _choose("encoder.dense", kind, _DENSE)(model, settings.encoder.threads)


def make_reranker(settings: Settings) -> Reranker | None:
    """The reranker that the settings name, if they name one.

    Raises:
        SettingsError: there is no such kind.
        MissingExtraError: its extra is not installed.
    """
    if settings.encoder.reranker is None:
        return None
    kind, _, model = settings.encoder.reranker.partition(":")
    return _choose("encoder.reranker", kind, _RERANKERS)(model, settings.encoder.threads)


def make_context_model(
    settings: Settings, dense: DenseEncoder, kept: bytes | None = None
) -> ContextModel | None:
    """What turns are read by: the shipped model, `kept` where it holds, or one fitted here.

    None where the settings want cues alone. Fitting takes some seconds for each field that has
    labels of its own, a minute or two for other cues or another encoder.

    Raises:
        SettingsError: labels or cues cannot be read.
    """
    from toolcrib.router.context.cues import load_cues
    from toolcrib.router.context.entities import EntityFinder
    from toolcrib.router.context.label_sets import label_sets
    from toolcrib.router.context.model import (
        fit_context,
        identity_of,
        read_context,
        shipped_context,
    )

    chosen = settings.context
    if chosen.detector == "heuristic":
        return None
    cues = load_cues(Path(chosen.cues) if chosen.cues else None)
    shipped = shipped_context(cues)
    is_default = not chosen.labels and not chosen.cues
    if is_default and shipped.identity["encoder"] == dense.name:
        return shipped
    sets = label_sets({field: Path(file) for field, file in chosen.labels.items()})
    if kept is not None:
        own = read_context(kept, cues)
        if own.identity == identity_of(sets, cues, dense):
            return own
    return fit_context(sets, cues, EntityFinder(chosen.gazetteers), dense, shipped)


def is_shipped(model: ContextModel) -> bool:
    """Whether a model is the one that comes with the package."""
    from toolcrib.router.context.cues import load_cues
    from toolcrib.router.context.model import shipped_context

    return model.identity == shipped_context(load_cues()).identity


def make_detector(
    settings: Settings,
    model: ContextModel | None,
    names: Iterable[str],
    services: Iterable[str] = (),
) -> Detector:
    """What reads turns by a model, or by cues alone.

    `names` are those of the registry's tools, `services` those of its servers.
    """
    from toolcrib.router.context.cues import load_cues
    from toolcrib.router.context.entities import EntityFinder
    from toolcrib.router.context.heuristic import HeuristicDetector
    from toolcrib.router.context.semantic import SemanticDetector

    chosen = settings.context
    given = {"service": tuple(services), **chosen.gazetteers}
    finder = EntityFinder(given, names, region=chosen.region)
    by_cues = HeuristicDetector(load_cues(Path(chosen.cues) if chosen.cues else None), finder)
    return by_cues if model is None else SemanticDetector(model, finder, by_cues)


def is_url(location: str) -> bool:
    """Whether a store's location is a server."""
    return location.startswith(("http://", "https://"))


def has_library(location: str, settings: Settings) -> bool:
    """Whether passages were ever kept beside the tools of a location.

    Raises:
        StoreError: the server does not answer.
    """
    if not is_url(location):
        return location != MEMORY and (Path(location) / LIBRARY / "current").is_file()
    from toolcrib.store.server_collections import has_collection

    server = settings.server
    return has_collection(
        location,
        _beside(server.collection),
        api_key=server.api_key.get_secret_value() if server.api_key else None,
        timeout_s=server.timeout_s,
    )


def open_library(location: str, layout: Layout, settings: Settings) -> Store:
    """The store of passages that belongs to a location: a folder in its folder, or beside it."""
    if location == MEMORY:
        return open_store(MEMORY, layout, settings)
    if not is_url(location):
        return open_store(str(Path(location) / LIBRARY), layout, settings)
    beside = _beside(settings.server.collection)
    server = settings.server.model_copy(update={"collection": beside})
    return open_store(location, layout, settings.model_copy(update={"server": server}))


def _beside(collection: str) -> str:
    """The collection of passages that belongs to one of tools."""
    return f"{collection}-{LIBRARY}"


def has_index(location: str) -> bool:
    """Whether there is something to open; a server is taken at its word until it is asked."""
    return is_url(location) or (Path(location) / "current").is_file()


def open_store(location: str, layout: Layout, settings: Settings) -> Store:
    """The store at a location: a folder, a server's URL, or `:memory:` for a passing folder."""
    if is_url(location):
        from toolcrib.store.server import ServerStore

        server = settings.server
        return ServerStore.open(
            location,
            layout,
            api_key=server.api_key.get_secret_value() if server.api_key else None,
            collection=server.collection,
            timeout_s=server.timeout_s,
            shards=server.shards,
            replicas=server.replicas,
        )
    from toolcrib.store.edge import EdgeStore

    if location == MEMORY:
        passing = tempfile.TemporaryDirectory(prefix="toolcrib-", ignore_cleanup_errors=True)
        return EdgeStore.open(Path(passing.name), layout, on_close=passing.cleanup)
    return EdgeStore.open(Path(location), layout)


def _bundled(model: str, threads: int) -> DenseEncoder:
    from toolcrib.encoders.bundled import BundledEncoder

    return BundledEncoder(Path(model) if model else None, threads)


def _deterministic(model: str, _threads: int) -> DenseEncoder:
    from toolcrib.encoders.deterministic import DeterministicEncoder

    return DeterministicEncoder(int(model)) if model else DeterministicEncoder()


def _fastembed(model: str, threads: int) -> DenseEncoder:
    from toolcrib.encoders.fastembed import FastEmbedEncoder

    return FastEmbedEncoder(model, threads)


def _sentence_transformers(model: str, _threads: int) -> DenseEncoder:
    from toolcrib.encoders.sentence_transformers import SentenceTransformersEncoder

    return SentenceTransformersEncoder(model)


def _bundled_reranker(model: str, threads: int) -> Reranker:
    from toolcrib.encoders.bundled_reranker import BundledReranker

    if not model:
        raise SettingsError(
            "encoder.reranker: no reranker ships; name a folder, as in bundled:./my-reranker",
        )
    return BundledReranker(Path(model), threads)


def _fastembed_reranker(model: str, threads: int) -> Reranker:
    from toolcrib.encoders.cross_encoder import FastEmbedReranker

    return FastEmbedReranker(model, threads)


def _sentence_transformers_reranker(model: str, _threads: int) -> Reranker:
    from toolcrib.encoders.cross_encoder import SentenceTransformersReranker

    return SentenceTransformersReranker(model)


_DENSE: dict[str, Callable[[str, int], DenseEncoder]] = {
    "bundled": _bundled,
    "deterministic": _deterministic,
    "fastembed": _fastembed,
    "sentence-transformers": _sentence_transformers,
}

_RERANKERS: dict[str, Callable[[str, int], Reranker]] = {
    "bundled": _bundled_reranker,
    "fastembed": _fastembed_reranker,
    "sentence-transformers": _sentence_transformers_reranker,
}


def _choose(setting: str, kind: str, known: dict[str, Made]) -> Made:
    if kind not in known:
        kinds = ", ".join(known)
        raise SettingsError(f"{setting}: there is no kind {kind!r}; known are {kinds}")
    return known[kind]
