"""Fingerprints: the models and settings that made an index or a calibration."""

from __future__ import annotations

from dataclasses import asdict

from toolcrib.encoders.base import DenseEncoder, space_of
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import PASSAGE_VERSION, RENDER_VERSION
from toolcrib.retrieval.calibration import FEATURES_VERSION, differences
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.rerank import ModelReranker, ToolRerankers
from toolcrib.settings import Settings
from toolcrib.store.base import Identity

_POINT_FORMAT_VERSION = 1
"""Version of the layout of points; an index of another version is refused."""


def tool_fingerprint(dense: DenseEncoder, lexical: LexicalEncoder, settings: Settings) -> Identity:
    """Models, weights and versions that every tool of an index was made with."""
    fields = {"version": RENDER_VERSION, **asdict(settings.fields)}
    return {**_encoders(dense, lexical), "fields": fields}


def passage_fingerprint(dense: DenseEncoder, lexical: LexicalEncoder) -> Identity:
    """Models and versions that every passage of a knowledge base was made with."""
    return {**_encoders(dense, lexical), "passages": PASSAGE_VERSION}


def _encoders(dense: DenseEncoder, lexical: LexicalEncoder) -> Identity:
    return {
        "format": _POINT_FORMAT_VERSION,
        "dense": dense.name,
        "dimensions": dense.dimensions,
        "lexical": lexical.name,
    }


def calibration_fingerprint(
    index: Identity,
    dense: DenseEncoder,
    settings: Settings,
    reranker: ToolRerankers | None,
) -> Identity:
    """Models and settings whose scores a calibration maps to probabilities."""
    second = None
    # A language model changes the order of tools, and leaves each place its score.
    if reranker is not None and not isinstance(reranker, ModelReranker):
        second = {"name": reranker.name, "weight": settings.rerank.weight}
    return {
        **{key: index[key] for key in ("lexical", "fields")},
        "dense": space_of(dense),
        "features": FEATURES_VERSION,
        "fusion": _fusion(settings.fusion),
        "reranker": second,
    }


def _fusion(weights: FusionWeights) -> dict[str, object]:
    """Settings of fusion that scores depend on; the legs' weights as shares of their sum."""
    share = round(weights.dense / (weights.dense + weights.lexical), 3)
    constants = {"rrf_k": weights.rrf_k} if weights.method == "rrf" else {}
    kept = ("method", "bm25_scale", "clauses", "examples", "anti_patterns", "head")
    return {"dense": share, **{name: getattr(weights, name) for name in kept}, **constants}


def mismatch_message(found: Identity, wanted: Identity) -> str:
    """Message about an index by other settings: the differences, and two remedies."""
    return (
        f"the index was built with {differences(found, wanted)}; rebuild the index with "
        "`toolcrib index --rebuild` and its `--store`, or restore those settings"
    )
