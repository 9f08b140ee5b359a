"""Fine-tuning of encoders and rerankers on a registry's own tools and queries (extra `train`)."""

from __future__ import annotations

from typing import Any

from toolcrib.extras import import_extra

__all__ = ["import_train"]


def import_train(module: str) -> Any:
    """Import a module of the extra `train`; untyped, as its packages bring few types.

    Raises:
        MissingExtraError: the extra is not installed.
    """
    return import_extra(module, "training", "train")
