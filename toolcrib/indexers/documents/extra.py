"""The extra `docs`: its packages are imported when the first document asks for them."""

from __future__ import annotations

from typing import Any

from toolcrib.errors import MissingExtraError
from toolcrib.extras import import_extra

__all__ = ["import_docs", "missing_docs"]

FEATURE, EXTRA = "reading documents", "docs"


def import_docs(module: str) -> Any:
    """Import a module of the extra; untyped, as its packages bring few types.

    Raises:
        MissingExtraError: it is not installed.
    """
    return import_extra(module, FEATURE, EXTRA)


def missing_docs() -> MissingExtraError:
    """Make the error that names the extra, to raise."""
    return MissingExtraError(FEATURE, EXTRA)
