"""What an encoder is: queries and documents are encoded apart, since models differ there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClauseEncoder", "DenseEncoder", "FloatArray", "Reranker", "SparseVector"]

FloatArray: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """Non-zero entries of a sparse vector.

    `indices`: uint32 [n], strictly ascending. `values`: float32 [n], finite.
    """

    indices: NDArray[np.uint32]
    values: FloatArray


class DenseEncoder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """Identity of model and weights; two encoders of one name give the same vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def encode_query(self, text: str) -> FloatArray:
        """Encode one query: float32 [dimensions], L2-normalised."""
        ...

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Encode documents in their order: float32 [n, dimensions], rows L2-normalised."""
        ...


@runtime_checkable
class ClauseEncoder(DenseEncoder, Protocol):
    """A dense encoder that also sees the parts of a query that asks for several things."""

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses: float32 [1 + clauses, dimensions], L2-normalised.

        The first row is what `encode_query` gives; it is alone where there is one clause.
        """
        ...


class Reranker(Protocol):
    """Scores a query against whole texts, dearer and better than the first stage."""

    @property
    def name(self) -> str:
        """Identity of the model."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """Relevance of each text: float32 [n], any scale, higher is better."""
        ...
