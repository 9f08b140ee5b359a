"""Whether the exported model says what the trained one says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.encoders.onnx import BundledReranker
from toolcrib.encoders.onnx import read_card
from toolcrib.errors import TrainingError
from toolcrib.training.examples import TrainingData
from toolcrib.extras import import_extra

__all__ = ["agreement"]

FEATURE = "comparing an export with its source"
TEXTS = 100
AT_LEAST = 0.98
"""Mean cosine of the vectors; correlation of the scores."""


def agreement(
    kind: Literal["encoder", "reranker"], trained: Path, exported: Path, data: TrainingData
) -> dict[str, float]:
    """Run both on texts of the training data: mean and least cosine, or the scores' correlation.

    Raises:
        TrainingError: they differ too much to trust the export.
    """
    compare = _encoders if kind == "encoder" else _rerankers
    found = compare(trained, exported, data)
    figure = next(iter(found.values()))
    if not figure >= AT_LEAST:
        raise TrainingError(
            f"the exported model does not agree with the trained one ({found}); the trained "
            f"weights are in {trained}, and can be used as sentence-transformers:{trained}",
        )
    return found


def _encoders(trained: Path, exported: Path, data: TrainingData) -> dict[str, float]:
    examples = data.examples[:TEXTS]
    texts = [text for e in examples for text in (e.query, data.documents[e.positive])]
    st = import_extra("sentence_transformers", FEATURE, "train")
    model: Any = st.SentenceTransformer(str(trained))
    model.max_seq_length = read_card(exported).max_tokens
    expected = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    encoder = BundledEncoder(exported)
    cosines = (encoder.encode_documents(texts) * expected).sum(axis=1)
    return {"cosine_mean": float(cosines.mean()), "cosine_min": float(cosines.min())}


def _rerankers(trained: Path, exported: Path, data: TrainingData) -> dict[str, float]:
    ce = import_extra("sentence_transformers.cross_encoder", FEATURE, "train")
    model: Any = ce.CrossEncoder(str(trained))
    model.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    model.max_seq_length = read_card(exported).max_tokens
    reranker = BundledReranker(exported)
    torch = import_extra("torch", FEATURE, "train")
    expected: list[float] = []
    given: list[float] = []
    for example in data.examples[:TEXTS]:
        texts = [data.documents[place] for place in (example.positive, *example.negatives)]
        pairs = [(example.query, text) for text in texts]
        logits = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        expected += [float(logit) for logit in logits]
        given += [float(score) for score in reranker.score(example.query, texts)]
    return {"correlation": float(np.corrcoef(expected, given)[0, 1])}
