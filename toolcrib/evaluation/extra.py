"""The extra `eval`: its packages are imported when they are first needed."""

from __future__ import annotations

from typing import Any

from toolcrib.extras import import_extra

__all__ = ["import_eval"]


def import_eval(module: str, feature: str) -> Any:
    """Import a module of the extra `eval`; untyped, as its packages bring few types.

    Raises:
        MissingExtraError: the extra is not installed; `feature` is what needed it.
    """
    return import_extra(module, feature, "eval")
