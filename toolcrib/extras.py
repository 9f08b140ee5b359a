"""Packages of extras: imported when they are first needed, and missed by the extra's name."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from toolcrib.errors import MissingExtraError

__all__ = ["import_extra", "require_extra"]


def import_extra(module: str, feature: str, extra: str) -> Any:
    """Import a module of an extra; untyped, as such packages bring few types.

    Raises:
        MissingExtraError: the extra is not installed; `feature` is what needed it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtraError(feature, extra) from missing


def require_extra(package: str, feature: str, extra: str) -> None:
    """Check that a package is there, without the cost of importing it.

    Raises:
        MissingExtraError: it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(feature, extra)
