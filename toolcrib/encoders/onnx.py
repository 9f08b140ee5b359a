"""ONNX models in our own folder format: the bundled encoder, and rerankers.

A model is a folder with `model.onnx`, `tokenizer.json` and `card.json`, run straight on
onnxruntime: fastembed could run the same files, and costs 1.2 s of imports where this costs 0.2 s.
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
    Translating,
    finite_scores,
    readable,
    readable_all,
    unit_rows,
)
from toolcrib.encoders.language import is_english, is_likely_english
from toolcrib.encoders.registry import DIGEST_DIGITS, LoadOnce, open_session
from toolcrib.encoders.wordpiece import WordPiece, is_wordpiece
from toolcrib.errors import EncoderError, SettingsError

DEFAULT_MODEL = "toolcrib-encoder"
MODELS = Path(__file__).parent / "models"

VECTOR_OUTPUT, TOKENS_OUTPUT = "sentence_embedding", "token_embeddings"
MIN_CLAUSES = 2
MIN_CLAUSE_TOKENS = 3
"""A text's first and last mark, and one token between them; shorter clauses are left out."""

MAX_CLAUSES = 6
"""Each clause costs a search of the dense leg; of more, the longest are kept."""

_CLAUSE_END = re.compile(
    # One mark and one space at a time: runs of either must not cost the square of their length.
    r"[.;:?!,]\s|\n|\s(?=(?:and|then|also|after|afterwards|before|but|so|plus|finally)\s)",
    re.IGNORECASE,
)

_Found = TypeVar("_Found")


class _BundledModel:
    """A model folder whose texts run one by one: the base of encoder and reranker.

    Every text runs alone, on one core, and several texts run on `threads` cores at once (0: all
    that this process may use). Nothing is padded, and no result can depend on its neighbours,
    as it does where int8 is scaled by a whole batch: a tool that is indexed again gets the
    vector that it had.
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._threads = threads or usable_cores()
        self._folder = folder
        self._card = read_card(folder)
        self._model = LoadOnce(lambda: open_model(folder, self._card))

    @property
    def name(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return self._card.identity

    @property
    def folder(self) -> Path:
        """Folder of the model."""
        return self._folder

    def _map(self, work: Callable[[str], _Found], texts: Sequence[str]) -> Iterable[_Found]:
        if len(texts) <= 1 or self._threads == 1:
            return map(work, texts)
        with ThreadPoolExecutor(self._threads, "toolcrib-encode") as pool:
            return pool.map(work, texts)


class BundledEncoder(_BundledModel, ClauseEncoder, LanguageBound, SpaceSharing):
    """A `DenseEncoder` from a model folder; the one that ships in the package without one.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) and gives
    `sentence_embedding` (float32 [1, dimensions]); where it gives `token_embeddings` (float32
    [1, tokens, dimensions]) too, queries of several clauses are seen clause by clause.
    `threads`: cores that several texts run on (0: all that this process may use).

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    def __init__(self, folder: Path | None = None, threads: int = 0) -> None:
        super().__init__(folder or MODELS / DEFAULT_MODEL, threads)

    @classmethod
    def from_setting(cls, model: str, threads: int) -> BundledEncoder:
        """Open the model in a folder, or the one that ships where `model` is empty."""
        return cls(Path(model) if model else None, threads)

    @property
    def dimensions(self) -> int:
        return self._card.dimensions

    @property
    def space(self) -> str:
        return self._card.space or self.name

    def reads(self, text: str) -> bool:
        return not self._card.english or is_english(text)

    def encode_query(self, text: str) -> FloatArray:
        return self._encode(readable(text))

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses in one pass.

        A clause's vector is the mean of its tokens as the whole query shapes them (late chunking,
        Guenther et al. 2024).
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

        Tokens have the length that the graph gives them.
        """
        model = self._model()
        ids = model.tokenizer.encode(readable(text)).ids
        whole, tokens = model.run(ids, [VECTOR_OUTPUT, TOKENS_OUTPUT])
        return unit_rows(whole, 1, self.dimensions, self.name)[0], tokens[0]

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        documents = readable_all(texts)
        vectors = np.empty((len(documents), self.dimensions), dtype=np.float32)
        for row, vector in enumerate(self._map(self._encode, documents)):
            vectors[row] = vector
        return vectors

    def _encode(self, text: str) -> FloatArray:
        model = self._model()
        (vectors,) = model.run(model.tokenizer.encode(text).ids, [VECTOR_OUTPUT])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]


class MultilingualEncoder(ClauseEncoder, LanguageBound, SpaceSharing, Translating):
    """The encoder of the package `toolcrib-multilingual`, for texts in twelve languages.

    Its model, `other`, was taught to give the vectors of the encoder that ships, which encodes the
    English texts here: English queries and tools are as they are without the package. A lexicon
    has English words for a text, to be searched for.

    Raises:
        EncoderError: it was taught another encoder's vectors, or a file cannot be read.
    """

    cosine_factor = 0.8
    """Its vectors are nearer to every tool than those of the English encoder; chosen on the
    development split of `data/multilingual`."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._english = BundledEncoder(threads=threads)
        self.other = BundledEncoder(folder, threads)
        if self.other.space != self._english.name:
            raise EncoderError(
                f"{folder} was taught the vectors of {self.other.space}, and those of this version "
                f"are {self._english.name}: install the toolcrib-multilingual of this version"
            )
        from toolcrib.encoders.lexicon import Lexicon

        self._lexicon = Lexicon(folder / "lexicon.json")

    @classmethod
    def from_setting(cls, model: str, threads: int) -> MultilingualEncoder:
        """Open the installed model."""
        if model:
            raise SettingsError(
                "encoder.dense: multilingual takes no model; for a folder write bundled:./FOLDER"
            )
        from toolcrib.extras import import_extra

        feature, extra = "the multilingual encoder", "multilingual"
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
        return self._encoder_of(text).reads(text)

    def translate(self, text: str) -> str | None:
        encoder = self._encoder_of(text)
        return None if encoder is self._english else self._lexicon.english(readable(text))

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
        """The text alone decides, so that it has the same vector wherever it stands."""
        return self._english if is_likely_english(readable(text)) else self.other


class BundledReranker(_BundledModel, Reranker):
    """A `Reranker` from a model folder, as `toolcrib train reranker` makes it.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) of a query and a text,
    and gives `logit` (float32 [1]).

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    @classmethod
    def from_setting(cls, model: str, threads: int) -> BundledReranker:
        """Open the model in a folder."""
        if not model:
            raise SettingsError(
                "encoder.reranker: no reranker ships; name a folder, as in bundled:./my-reranker"
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

    `book a table, then text Ann` asks for two things. Cut at punctuation followed by white space
    and before conjunctions: no grammar, which would cost more than the encoder. What a cut tears
    apart is still whole in the query's own vector.
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
    """Tokens of each clause; clauses of next to no tokens, such as `Hi,`, are left out."""
    inside = range(1, len(offsets) - 1)  # the first and the last are marks, not text
    found = [
        [token for token in inside if start <= offsets[token][0] and offsets[token][1] <= end]
        for start, end in spans
    ]
    return [rows for rows in found if len(rows) >= MIN_CLAUSE_TOKENS]


@dataclass(frozen=True, slots=True)
class Card:
    """Facts of a model in its `card.json`; `digest` is the SHA-256 of its weights.

    `english`: its `languages` are English alone. A card may lack them: nothing is known then.
    `space`: identity of the encoder whose vectors it was taught to give, if any.
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
    """A model that is loaded: its tokenizer, which truncates, and its onnxruntime session."""

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
        except Exception as error:  # onnxruntime's own classes share no base
            raise EncoderError(f"{self.folder / 'model.onnx'} cannot be run: {error}") from error


def open_model(folder: Path, card: Card) -> Model:
    """Load tokenizer and graph."""
    # One thread a run: a short query gains nothing from a second, which spins between nodes.
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
            f"{path} lacks something or has it in another form ({error}); it must hold name, "
            "dimensions, max_tokens and sha256 with model.onnx"
        ) from error
    if read.dimensions < 1 or read.max_tokens < MIN_CLAUSE_TOKENS:
        raise EncoderError(
            f"{path} says {read.dimensions} dimensions and {read.max_tokens} tokens; at least 1 "
            f"and {MIN_CLAUSE_TOKENS} are needed"
        )
    return read


def _open_tokenizer(path: Path, max_tokens: int) -> Any:
    """Open our tokenizer for a BERT's WordPiece, the package `tokenizers` for other kinds."""
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
