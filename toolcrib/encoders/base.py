"""Encoder protocols, and the checks of input and output that all encoders share.

Queries and documents have separate methods, since many models encode them differently.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolcrib.errors import EncoderError
from toolcrib.text import FULL_WIDTH, LETTERS

FloatArray: TypeAlias = NDArray[np.float32]

LENGTH_ROUNDING = 1e-6
"""Largest rounding error in the length of a unit vector of float32."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """Non-zero entries of a sparse vector.

    `indices`: uint32 [n], strictly ascending. `values`: float32 [n], finite.
    """

    indices: NDArray[np.uint32]
    values: FloatArray


@runtime_checkable
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
        """Encode one query: float32 [dimensions], L2-normalised.

        Raises:
            TypeError: `text` is no text.
            EncoderError: the model cannot be loaded or fetched, or gives no usable vector.
        """
        ...

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Encode documents in their order: float32 [n, dimensions], rows L2-normalised.

        Raises:
            TypeError: `texts` is no list of texts.
            EncoderError: as `encode_query`.
        """
        ...


@runtime_checkable
class ClauseEncoder(DenseEncoder, Protocol):
    """A dense encoder that also encodes the clauses of a query with several wishes."""

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses: float32 [1 + clauses, dimensions], L2-normalised.

        The first row is that of `encode_query`; a query of one clause has no other row.
        """
        ...


@runtime_checkable
class LanguageBound(DenseEncoder, Protocol):
    """A dense encoder that detects texts in a language outside its training."""

    def reads(self, text: str) -> bool:
        """True if the model knows the text's language, and in case of doubt."""
        ...


@runtime_checkable
class SpellingBound(DenseEncoder, Protocol):
    """A dense encoder that reads words outside of its vocabulary in pieces without meaning."""

    def unknown_words(self, text: str) -> list[str]:
        """Words of a text that may be misspelt, in lower case: none of the vocabulary, no names."""
        ...

    def common_word(self, word: str) -> str:
        """Common word that an unknown word is one slip from; empty if there is none."""
        ...


@runtime_checkable
class Translating(DenseEncoder, Protocol):
    """A dense encoder that knows English words for the words of other languages.

    The cosines of a query in another language are multiplied by `cosine_factor`.
    """

    cosine_factor: float

    def translate(self, text: str) -> str | None:
        """English words for a text in another language; None for an English text."""
        ...


@runtime_checkable
class SpaceSharing(DenseEncoder, Protocol):
    """A dense encoder that may be trained to give another encoder's vectors."""

    @property
    def space(self) -> str:
        """Name of the encoder whose vectors this encoder gives, or its own name."""
        ...


def space_of(encoder: DenseEncoder) -> str:
    """Vector space of an encoder; encoders of one space share fitted models and calibrations."""
    return encoder.space if isinstance(encoder, SpaceSharing) else encoder.name


@runtime_checkable
class Reranker(Protocol):
    """Scores a query and each text together: slower and better than the first stage."""

    @property
    def name(self) -> str:
        """Identity of the model."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """Relevance of each text: float32 [n], logits, of which the sigmoid counts.

        Raises:
            TypeError: the query or an entry of `texts` is no text.
            EncoderError: the model cannot be loaded or fetched, or gives no usable score.
        """
        ...


def readable(text: str) -> str:
    """Text in plain letters: no lone surrogates, no full width, no capitals throughout.

    JSON allows lone surrogates, and tokenizers refuse them. Models have seen few texts in capitals,
    and give them other vectors.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] callers err
        raise TypeError(f"an encoder reads text, not {type(text).__name__}: {text!r:.80}")
    if not text.isascii():
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = whole.translate(FULL_WIDTH)
    return text.lower() if _is_in_capitals(text) else text


def _is_in_capitals(text: str) -> bool:
    """True if all words are in capitals; a single word may be an abbreviation."""
    words = LETTERS.findall(text) if text.isupper() else []
    return len(words) > 1 and all(map(str.isupper, words))


def readable_all(texts: Sequence[str]) -> list[str]:
    """As `readable`, for a list of texts; a single text is an error."""
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of texts, not one text: {texts!r:.80}")
    return [readable(text) for text in texts]


def unit_rows(vectors: Any, rows: int, dimensions: int, model: str) -> FloatArray:
    """A model's output as float32 [rows, dimensions], every row scaled to unit length.

    Raises:
        EncoderError: another shape, NaN or infinity, or a zero vector, which has no direction.
    """
    found = np.asarray(vectors, dtype=np.float32)
    if found.shape != (rows, dimensions):
        raise EncoderError(
            f"{model} gave an array of shape {found.shape} for {rows} texts; it must be "
            f"{(rows, dimensions)}: choose a model that gives one vector for each text"
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", found, found))
    usable = (lengths > 0) & (lengths < np.inf)
    if not usable.all():
        row = int(np.argmin(usable))
        fault = "a zero vector" if lengths[row] == 0 else "NaN, infinity or an overflow"
        raise EncoderError(f"{model} gave {fault} for text {row} of {rows}")
    # A unit vector keeps its last bit, so that a second call changes nothing.
    lengths[np.abs(lengths - 1) < LENGTH_ROUNDING] = 1
    return found / lengths[:, np.newaxis]


def finite_scores(scores: Any, count: int, model: str) -> FloatArray:
    """A reranker's output as float32 [count].

    Raises:
        EncoderError: another shape, NaN or infinity.
    """
    found = np.asarray(scores, dtype=np.float32)
    if found.shape != (count,):
        raise EncoderError(
            f"{model} gave an array of shape {found.shape} for {count} texts; it must be "
            f"{(count,)}: choose a model with one output, not a classifier of several classes"
        )
    if not np.isfinite(found).all():
        raise EncoderError(f"{model} gave NaN or infinity for one of {count} texts")
    return found


def query_rows(dense: DenseEncoder, text: str, clauses: ClauseEncoder | None = None) -> FloatArray:
    """Unit vectors of a query and, with an encoder of clauses, of these: float32 [1 + n, d].

    Raises:
        EncoderError: the encoder gives no usable vector.
    """
    rows = clauses.encode_clauses(text) if clauses else [dense.encode_query(text)]
    return unit_rows(rows, len(rows), dense.dimensions, dense.name)


def encode_groups(dense: DenseEncoder, groups: Sequence[Sequence[str]]) -> list[FloatArray]:
    """Encode groups of documents in one call: float32 [texts, dimensions] of each group."""
    texts = [text for group in groups for text in group]
    # An embedding server refuses an empty list.
    vectors = dense.encode_documents(texts) if texts else np.empty((0, dense.dimensions))
    rows = unit_rows(vectors, len(texts), dense.dimensions, dense.name)
    ends = itertools.accumulate(map(len, groups))
    return [rows[end - len(group) : end] for group, end in zip(groups, ends, strict=True)]


def to_text(vectors: FloatArray) -> str:
    """Rows of a matrix as base64 of float16, for JSON."""
    return base64.b64encode(vectors.astype("<f2").tobytes()).decode("ascii")


def from_text(text: str, dimensions: int) -> FloatArray:
    """The rows that `to_text` wrote: float32 [n, dimensions]."""
    raw = np.frombuffer(base64.b64decode(text), dtype="<f2")
    return raw.reshape(-1, dimensions).astype(np.float32)
