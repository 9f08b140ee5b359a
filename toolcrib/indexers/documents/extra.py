"""The extra `docs`: its packages are imported when the first document asks for them."""

from __future__ import annotations

import importlib
from typing import Any

from toolcrib.errors import MissingExtraError

__all__ = ["import_docs", "missing_docs"]


def import_docs(module: str) -> Any:
    """Import a module of the extra; untyped, as its packages bring few types.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise missing_docs() from missing


def missing_docs() -> MissingExtraError:
    """Make the error that names the extra, to raise."""
    return MissingExtraError("reading documents", "docs")
