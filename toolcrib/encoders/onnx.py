"""ONNX models in our own folder format: the bundled encoder, and rerankers.

A model is a folder with `model.onnx`, `tokenizer.json` and `card.json`. It runs on onnxruntime
itself, which takes 0.2 s to import; fastembed, which could run the same files, takes 1.2 s.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from toolcrib.encoders.base import (
    ClauseEncoder,
    FloatArray,
    LanguageBound,
    Reranker,
    SpaceSharing,
    SpellingBound,
    Translating,
    finite_scores,
    readable,
    readable_all,
    unit_rows,
)
from toolcrib.encoders.language import (
    Lexicon,
    is_english,
    is_in_encoded_script,
    is_likely_english,
)
from toolcrib.encoders.registry import DIGEST_DIGITS, LoadOnce, open_session
from toolcrib.encoders.wordpiece import WordPiece, is_wordpiece
from toolcrib.errors import EncoderError, SettingsError

DEFAULT_MODEL = "toolcrib-encoder"
MODELS_FOLDER = Path(__file__).parent / "models"

VECTOR_OUTPUT, TOKENS_OUTPUT = "sentence_embedding", "token_embeddings"
MIN_CLAUSES = 2
MIN_CLAUSE_TOKENS = 3
"""Start token, one token of text, and end token; shorter clauses are left out."""

MAX_CLAUSES = 6
"""Each clause costs a search of the dense leg; the longest clauses are kept."""

MAX_TYPED_CHARS = 400
"""Longer texts are not corrected: they are pasted, and full of names and code."""

_CLAUSE_END = re.compile(
    # One mark and one space only: longer runs would take quadratic time.
    r"[.;:?!,]\s|\n|\s(?=(?:and|then|also|after|afterwards|before|but|so|plus|finally)\s)",
    re.IGNORECASE,
)

_Found = TypeVar("_Found")


class _BundledModel:
    """A model folder; base of the bundled encoder and reranker.

    Every text runs alone on one core, and up to `threads` texts at once (0: all cores that this
    process may use). There is no padding, and no int8 scale of a whole batch: a text always gets
    the same vector.
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._threads = threads or usable_cores()
        self.folder = folder
        self._card = read_card(folder)
        self._model = LoadOnce(partial(open_model, folder, self._card))

    @property
    def name(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return self._card.identity

    def _map(self, work: Callable[[str], _Found], texts: Sequence[str]) -> Iterable[_Found]:
        if len(texts) <= 1 or self._threads == 1:
            return map(work, texts)
        with ThreadPoolExecutor(self._threads, "toolcrib-encode") as pool:
            return pool.map(work, texts)


class BundledEncoder(_BundledModel, ClauseEncoder, LanguageBound, SpaceSharing, SpellingBound):
    """A `DenseEncoder` from a model folder; without a folder, the model in the package.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) and gives
    `sentence_embedding` (float32 [1, dimensions]). If it also gives `token_embeddings` (float32
    [1, tokens, dimensions]), the clauses of a query are encoded too. `threads`: texts that run at
    once, each on one core (0: all cores that this process may use).

    Raises:
        EncoderError: `card.json` cannot be read, or lacks a field.
    """

    def __init__(self, folder: Path | None = None, threads: int = 0) -> None:
        super().__init__(folder or MODELS_FOLDER / DEFAULT_MODEL, threads)

    @classmethod
    def from_setting(cls, model: str, threads: int) -> BundledEncoder:
        """Open the model in a folder; the package's own model if `model` is empty."""
        return cls(Path(model) if model else None, threads)

    @property
    def dimensions(self) -> int:
        return self._card.dimensions

    @property
    def space(self) -> str:
        return self._card.space or self.name

    def reads(self, text: str) -> bool:
        return not self._card.english or is_english(text)

    def unknown_words(self, text: str) -> list[str]:
        if not self._card.english or len(text) > MAX_TYPED_CHARS or not self.reads(text):
            return []
        tokenizer = self._model().tokenizer
        return tokenizer.unknown_words(text) if isinstance(tokenizer, WordPiece) else []

    def common_word(self, word: str) -> str:
        return self._model().tokenizer.common_word(word)

    def encode_query(self, text: str) -> FloatArray:
        return self._encode(readable(text))

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses in one pass.

        A clause's vector is the mean of its tokens in the context of the whole query (late
        chunking, Guenther et al. 2024).
        """
        query = readable(text)
        spans, model = clauses(query), self._model()
        if len(spans) < MIN_CLAUSES or TOKENS_OUTPUT not in model.outputs:
            return self._encode(query)[np.newaxis]
        encoded = model.tokenizer.encode(query)
        whole, tokens = model.run(encoded.ids, [VECTOR_OUTPUT, TOKENS_OUTPUT])
        pooled = [tokens[0, rows].mean(axis=0) for rows in _clause_tokens(encoded.offsets, spans)]
        if len(pooled) < MIN_CLAUSES:
            pooled = []
        rows = np.vstack([whole, *pooled])
        return unit_rows(rows, len(rows), self.dimensions, self.name)

    def encode_tokens(self, text: str) -> tuple[FloatArray, FloatArray]:
        """Encode a text and each of its tokens: float32 [dimensions] and [tokens, dimensions].

        Token vectors are not normalised.
        """
        model = self._model()
        ids = model.tokenizer.encode(readable(text)).ids
        whole, tokens = model.run(ids, [VECTOR_OUTPUT, TOKENS_OUTPUT])
        return unit_rows(whole, 1, self.dimensions, self.name)[0], tokens[0]

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        documents = readable_all(texts)
        row: Any = np.dtype((np.float32, self.dimensions))
        return np.fromiter(self._map(self._encode, documents), row, len(documents))

    def _encode(self, text: str) -> FloatArray:
        model = self._model()
        (vectors,) = model.run(model.tokenizer.encode(text).ids, [VECTOR_OUTPUT])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]


class MultilingualEncoder(ClauseEncoder, LanguageBound, SpaceSharing, SpellingBound, Translating):
    """The encoder of the package `toolcrib-multilingual`, for texts in twelve languages.

    Its model, `other`, was trained to give the vectors of the bundled encoder. The bundled encoder
    still encodes English texts, so they are ranked as without the package. A lexicon translates
    the words of other texts for the lexical leg.

    Raises:
        EncoderError: `other` has another encoder's vectors, or a file cannot be read.
    """

    cosine_factor = 0.8
    """Vectors of `other` are nearer to all tools than those of the English encoder; chosen on the
    development split of `data/multilingual`."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._english = BundledEncoder(threads=threads)
        self.other = BundledEncoder(folder, threads)
        if self.other.space != self._english.name:
            raise EncoderError(
                f"{folder} has the vectors of {self.other.space}, and this version those of "
                f"{self._english.name}: install the toolcrib-multilingual of this version"
            )
        self._lexicon = Lexicon(folder / "lexicon.json")

    @classmethod
    def from_setting(cls, model: str, threads: int) -> MultilingualEncoder:
        """Open the installed model."""
        if model:
            raise SettingsError(
                "encoder.dense: multilingual takes no model; for a folder write bundled:./FOLDER"
            )
        from toolcrib.extras import import_extra

        feature = "the multilingual encoder (first `pip install ./packages/toolcrib-multilingual`)"
        extra = "multilingual"
        package = import_extra("toolcrib_multilingual", feature, extra)
        import_extra("py3langid", feature, extra)
        return cls(package.FOLDER, threads)

    @property
    def name(self) -> str:
        """Identities of both models."""
        return f"{self._english.name}+{self.other.name}"

    @property
    def dimensions(self) -> int:
        return self._english.dimensions

    @property
    def space(self) -> str:
        return self._english.name

    def reads(self, text: str) -> bool:
        return is_in_encoded_script(text)

    def unknown_words(self, text: str) -> list[str]:
        is_english = self._encoder_of(text) is self._english
        return self._english.unknown_words(text) if is_english else []

    def common_word(self, word: str) -> str:
        return self._english.common_word(word)

    def translate(self, text: str) -> str | None:
        if self._encoder_of(text) is self._english or not self.reads(text):
            return None
        return self._lexicon.english(readable(text))

    def encode_query(self, text: str) -> FloatArray:
        return self._encoder_of(text).encode_query(text)

    def encode_clauses(self, text: str) -> FloatArray:
        return self._encoder_of(text).encode_clauses(text)

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        chosen = [self._encoder_of(text) for text in readable_all(texts)]
        vectors = np.empty((len(chosen), self.dimensions), dtype=np.float32)
        for encoder in (self._english, self.other):
            rows = [row for row, each in enumerate(chosen) if each is encoder]
            vectors[rows] = encoder.encode_documents([texts[row] for row in rows])
        return vectors

    def _encoder_of(self, text: str) -> BundledEncoder:
        """Encoder by the text alone, so that a text always has the same vector."""
        return self._english if is_likely_english(readable(text)) else self.other


class BundledReranker(_BundledModel, Reranker):
    """A `Reranker` from a model folder that `toolcrib train reranker` made.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) of a query and a text,
    and gives `logit` (float32 [1]).

    Raises:
        EncoderError: `card.json` cannot be read, or lacks a field.
    """

    @classmethod
    def from_setting(cls, model: str, threads: int) -> BundledReranker:
        """Open the model in a folder."""
        if not model:
            raise SettingsError(
                "encoder.reranker: toolcrib ships no reranker; name a folder, as in "
                "bundled:./my-reranker"
            )
        return cls(Path(model), threads)

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        question, documents = readable(query), readable_all(texts)
        scores = list(self._map(partial(self._score, question), documents))
        return finite_scores(scores, len(documents), self.name)

    def _score(self, query: str, text: str) -> float:
        model = self._model()
        (logits,) = model.run(model.tokenizer.encode(query, text).ids, ["logit"])
        return float(logits[0])


def clauses(text: str) -> list[tuple[int, int]]:
    """Start and end of each clause, in order, without the white space around it.

    `book a table, then text Ann` has two clauses. Clauses end at punctuation before white space
    and before conjunctions; parsing would cost more than the encoder. A wrong cut does little
    harm, as the whole query has a vector too.
    """
    ends = [found.end() for found in _CLAUSE_END.finditer(text)]
    spans = [
        (start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
        for start, end in zip([0, *ends], [*ends, len(text)], strict=True)
        if (part := text[start:end]).strip()
    ]
    if len(spans) <= MAX_CLAUSES:
        return spans
    longest = sorted(spans, key=lambda span: span[0] - span[1])[:MAX_CLAUSES]
    return sorted(longest)


def _clause_tokens(
    offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> list[list[int]]:
    """Tokens of each clause; very short clauses, such as `Hi,`, are left out."""
    inside = range(1, len(offsets) - 1)  # without the start token and the end token
    found = [
        [token for token in inside if start <= offsets[token][0] and offsets[token][1] <= end]
        for start, end in spans
    ]
    return [rows for rows in found if len(rows) >= MIN_CLAUSE_TOKENS]


@dataclass(frozen=True, slots=True)
class Card:
    """Facts of a model in its `card.json`; `digest` is the SHA-256 of its weights.

    `english`: `languages` in the card is English alone; False if the card has no `languages`.
    `space`: identity of the encoder whose vectors the model was trained to give, if any.
    """

    name: str
    dimensions: int
    max_tokens: int
    digest: str
    english: bool = False
    space: str | None = None

    @property
    def identity(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return f"{self.name}@{self.digest[:DIGEST_DIGITS]}"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A loaded model: its tokenizer, which truncates, and its onnxruntime session."""

    folder: Path
    tokenizer: Any
    session: Any
    outputs: frozenset[str]

    def run(self, tokens: Sequence[int], outputs: Sequence[str]) -> list[FloatArray]:
        """Outputs of the graph for one text's tokens, each with a first dimension of 1."""
        ids = np.array([tokens], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        try:
            return self.session.run(outputs, feeds)
        except Exception as error:  # onnxruntime's errors share no base class
            raise EncoderError(f"{self.folder / 'model.onnx'} cannot be run: {error}") from error


def open_model(folder: Path, card: Card) -> Model:
    """Load tokenizer and graph."""
    # One thread for each run: a second thread only spins between nodes for a short query.
    one = {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    session = open_session(folder / "model.onnx", **one)
    outputs = frozenset(str(output.name) for output in session.get_outputs())
    tokenizer = _open_tokenizer(folder / "tokenizer.json", card.max_tokens)
    return Model(folder, tokenizer, session, outputs)


def read_card(folder: Path) -> Card:
    """Read `card.json`."""
    path = folder / "card.json"
    try:
        card: dict[str, Any] = json.loads(path.read_bytes())
        read = Card(
            name=str(card["name"]),
            dimensions=int(card["dimensions"]),
            max_tokens=int(card["max_tokens"]),
            digest=str(card["sha256"]["model.onnx"]),
            english=card.get("languages") == ["en"],
            space=card.get("space"),
        )
    except (OSError, ValueError, OverflowError) as error:
        raise EncoderError(
            f"{folder} is not a model folder: card.json cannot be read ({error}); "
            "it must hold card.json, model.onnx and tokenizer.json"
        ) from error
    except (KeyError, TypeError) as error:
        raise EncoderError(
            f"{path} lacks a field, or has one of another type ({error}); it must have name, "
            "dimensions, max_tokens, and sha256 with model.onnx"
        ) from error
    if read.dimensions < 1 or read.max_tokens < MIN_CLAUSE_TOKENS:
        raise EncoderError(
            f"{path} says {read.dimensions} dimensions and {read.max_tokens} tokens; at least 1 "
            f"and {MIN_CLAUSE_TOKENS} are needed"
        )
    return read


def _open_tokenizer(path: Path, max_tokens: int) -> Any:
    """Open our own tokenizer for BERT's WordPiece; the package `tokenizers` for other kinds."""
    try:
        document = json.loads(path.read_bytes())
        if is_wordpiece(document):
            return WordPiece(document, max_tokens)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EncoderError(f"{path} cannot be loaded: {error}") from error
    feature = f"a model with a {document['model']['type']} tokenizer ({path.parent})"
    from toolcrib.extras import import_extra

    tokenizers = import_extra("tokenizers", feature, "tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise EncoderError(f"{path} cannot be loaded: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
