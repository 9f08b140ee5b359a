"""Fine-tuning of encoders and rerankers on a registry's own tools and queries (extra `train`)."""

from __future__ import annotations

from typing import Any

from toolcrib.errors import MissingExtraError
from toolcrib.extras import import_extra

CPU_BUILD = (
    "; without an NVIDIA GPU first `pip install torch --index-url "
    "https://download.pytorch.org/whl/cpu`, a far smaller download"
)


def import_train(module: str) -> Any:
    """Import a module of the extra `train`; untyped, as its packages bring few types."""
    try:
        return import_extra(module, "training", "train")
    except MissingExtraError as missing:
        raise MissingExtraError("training", missing.extra, CPU_BUILD) from missing
