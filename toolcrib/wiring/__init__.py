"""The only chooser: settings in, encoders, detectors and stores out."""

from __future__ import annotations

from toolcrib.wiring.encoders import make_dense, make_reranker
from toolcrib.wiring.places import (
    MEMORY,
    has_index,
    has_library,
    has_tools,
    is_url,
    open_ledger,
    open_library,
    open_store,
    tenants_place,
)
from toolcrib.wiring.reading import is_shipped, make_context_model, make_detector

__all__ = [
    "MEMORY",
    "has_index",
    "has_library",
    "has_tools",
    "is_shipped",
    "is_url",
    "make_context_model",
    "make_dense",
    "make_detector",
    "make_reranker",
    "open_ledger",
    "open_library",
    "open_store",
    "tenants_place",
]
