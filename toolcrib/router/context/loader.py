"""Loader of the context detector: the shipped model, a kept one, or one fitted to own labels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from toolcrib.encoders.protocols import DenseEncoder
from toolcrib.router.context.detector import Detector
from toolcrib.router.context.model import ContextModel
from toolcrib.router.context.settings import ContextSettings

__all__ = ["is_shipped", "make_context_model", "make_detector"]


def make_context_model(
    settings: ContextSettings, dense: DenseEncoder, kept: bytes | None = None
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

    if settings.detector == "heuristic":
        return None
    cues = load_cues(Path(settings.cues) if settings.cues else None)
    shipped = shipped_context(cues)
    is_default = not settings.labels and not settings.cues
    if is_default and shipped.identity["encoder"] == dense.name:
        return shipped
    sets = label_sets({field: Path(file) for field, file in settings.labels.items()})
    if kept is not None:
        own = read_context(kept, cues)
        if own.identity == identity_of(sets, cues, dense):
            return own
    return fit_context(sets, cues, EntityFinder(settings.gazetteers), dense, shipped)


def is_shipped(model: ContextModel) -> bool:
    """Whether a model is the one that comes with the package."""
    from toolcrib.router.context.cues import load_cues
    from toolcrib.router.context.model import shipped_context

    return model.identity == shipped_context(load_cues()).identity


def make_detector(
    settings: ContextSettings,
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

    given = {"service": tuple(services), **settings.gazetteers}
    finder = EntityFinder(given, names, region=settings.region)
    by_cues = HeuristicDetector(load_cues(Path(settings.cues) if settings.cues else None), finder)
    return by_cues if model is None else SemanticDetector(model, finder, by_cues)
