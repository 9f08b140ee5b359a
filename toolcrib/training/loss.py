"""Losses. This module imports torch: import it only to start training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from toolcrib.encoders.base import FloatArray
from toolcrib.training.data import SAME_TEXT_COSINE, Example

CHUNK_TEXTS = 16
CHUNK_PAIRS = 32
"""Texts, and pairs of query and text, that run together: they have similar lengths, as otherwise
most of a batch is padding."""

INVERSE_TEMPERATURE = 20.0
"""Inverse temperature on cosines, as all-MiniLM-L6-v2 was trained with."""


class MaskedContrastiveLoss(nn.Module):
    """InfoNCE over every text of a batch (van den Oord et al. 2018), false negatives masked.

    A query's candidates are all positives and negatives of the batch, without other relevant texts
    and texts that the guide finds similar to the positive.

    `examples` are all rows of the training data in order; a row's label is its place there.
    `vectors`: the guide's vectors of all texts, float32 [texts, d].
    """

    def __init__(self, model: Any, examples: Sequence[Example], vectors: FloatArray) -> None:
        super().__init__()
        self.model = model
        self._examples = examples
        self._vectors = vectors

    def forward(self, sentence_features: Sequence[dict[str, Tensor]], labels: Any) -> Tensor:
        """The loss of a batch of (query, positive, negative...) rows."""
        queries, *texts = (self._encode(features) for features in sentence_features)
        rows: list[int] = labels.tolist()
        examples = [self._examples[row] for row in rows]
        columns = zip(*((e.positive, *e.negatives) for e in examples), strict=True)
        places = [place for column in columns for place in column]
        masked = self._false_negative_mask(rows, places).to(queries.device)
        scores = INVERSE_TEMPERATURE * queries @ torch.cat(texts).T
        scores = scores.masked_fill(masked, -torch.inf)
        target = torch.arange(len(rows), device=scores.device)
        return nn.functional.cross_entropy(scores, target)

    def _encode(self, features: dict[str, Any]) -> Tensor:
        """Unit vectors: float32 [texts, d]."""
        lengths = features["attention_mask"].sum(dim=1)
        tensors = {name: value for name, value in features.items() if isinstance(value, Tensor)}

        def encode(rows: list[int]) -> Tensor:
            longest = int(lengths[rows[-1]])
            chunk = {name: value[rows, :longest] for name, value in tensors.items()}
            return self.model(chunk)["sentence_embedding"].float()

        return nn.functional.normalize(_by_length(lengths, CHUNK_TEXTS, encode), dim=-1)

    def _false_negative_mask(self, rows: Sequence[int], places: Sequence[int]) -> Tensor:
        """Mask of candidates that are no negatives of a query: bool [rows, places]."""
        vectors = self._vectors[places]
        alike = vectors[: len(rows)] @ vectors.T >= SAME_TEXT_COSINE
        for row, number in enumerate(rows):
            relevant = self._examples[number].relevant
            alike[row] |= [place in relevant for place in places]
            alike[row, row] = False
        return torch.as_tensor(alike)


class ListwiseLoss(nn.Module):
    """Softmax over a query's texts, the first of which is right; for a cross-encoder."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Sequence[Any], _labels: Any = None, **_options: Any) -> Tensor:
        """The loss of a batch: queries, each with a list of texts, all lists of one length."""
        queries, lists = inputs
        pairs = [(q, text) for q, texts in zip(queries, lists, strict=True) for text in texts]

        def score(rows: list[int]) -> Tensor:
            features = self.model.preprocess([pairs[row] for row in rows])
            moved = {
                name: value.to(self.model.device)
                for name, value in features.items()
                if isinstance(value, Tensor)
            }
            return self.model(moved)["scores"].view(-1).float()

        lengths = torch.as_tensor([len(query) + len(text) for query, text in pairs])
        scores = _by_length(lengths, CHUNK_PAIRS, score).view(len(queries), -1)
        first = torch.zeros(len(queries), dtype=torch.long, device=scores.device)
        return nn.functional.cross_entropy(scores, first)


def _by_length(lengths: Tensor, size: int, run: Callable[[list[int]], Tensor]) -> Tensor:
    """Run `size` rows of similar length at a time; the results are in the rows' order."""
    order: Any = torch.argsort(lengths)
    chunks = [run(rows.tolist()) for rows in order.split(size)]
    return torch.cat(chunks)[torch.argsort(order)]
