"""Models that were trained without some data sets, as the command line names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from toolcrib.encoders.onnx import BundledEncoder

USAGE = "FOLDER=set,set..."


def models(given: Iterable[str]) -> dict[str, str]:
    """The model folder of each data set that one was named for."""
    return {
        name: folder
        for folder, _, names in (one.partition("=") for one in given)
        for name in names.split(",")
    }


def encoder(models: Mapping[str, str], name: str) -> BundledEncoder:
    """The model that was trained without a data set, or the one that ships."""
    return BundledEncoder(Path(models[name]) if name in models else None)
