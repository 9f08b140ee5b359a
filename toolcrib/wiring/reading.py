"""What turns are read by, as the settings say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from toolcrib.encoders.base import DenseEncoder
from toolcrib.router.context.detector import Detector
from toolcrib.router.context.model import ContextModel
from toolcrib.settings import Settings

__all__ = ["is_shipped", "make_context_model", "make_detector"]


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
    from toolcrib.router.context.labels import label_sets
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
    from toolcrib.router.context.detector import SemanticDetector
    from toolcrib.router.context.entities import EntityFinder
    from toolcrib.router.context.rules import HeuristicDetector

    chosen = settings.context
    given = {"service": tuple(services), **chosen.gazetteers}
    finder = EntityFinder(given, names, region=chosen.region)
    by_cues = HeuristicDetector(load_cues(Path(chosen.cues) if chosen.cues else None), finder)
    return by_cues if model is None else SemanticDetector(model, finder, by_cues)
