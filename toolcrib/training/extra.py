"""The extra `train`: its packages are imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from toolcrib.errors import MissingExtraError

__all__ = ["import_train"]


def import_train(module: str, feature: str) -> Any:
    """Import a module of the extra `train`; untyped, as its packages bring few types.

    Raises:
        MissingExtraError: the extra is not installed; `feature` is what needed it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtraError(feature, "train") from missing
