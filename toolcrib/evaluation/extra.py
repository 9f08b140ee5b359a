"""The extra `eval`: its packages are imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from toolcrib.errors import MissingExtraError

__all__ = ["import_eval"]


def import_eval(module: str, feature: str, extra: str = "eval") -> Any:
    """Import a module of an extra; untyped, as its packages bring few types.

    Raises:
        MissingExtraError: the extra is not installed; `feature` is what needed it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtraError(feature, extra) from missing
