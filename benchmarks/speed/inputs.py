"""What is searched and with what: tools, queries and vectors, the same for everybody."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpora import rows, specs
from rich.progress import track

from speed.generate import generated_queries, generated_tools
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.indexers.points import clean, dense_text
from toolcrib.records import ToolSpec

SEED = 7
ENCODED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one size, those that are added later, and where they come from."""

    specs: list[ToolSpec]
    extra: list[ToolSpec]
    origin: dict[str, Any]


def read_tools(file: Path | None, size: int, extra: int) -> Tools:
    """`size + extra` tools: of the file in a seeded order, and generated ones for the rest."""
    found: dict[str, ToolSpec] = {}
    for spec in specs(file) if file is not None else ():
        found.setdefault(spec.id, spec)
    wanted = size + extra
    chosen = random.Random(SEED).sample(list(found.values()), min(len(found), wanted))
    generated = [tool for tool in generated_tools(0, wanted - len(chosen)) if tool.id not in found]
    everything = [*chosen, *generated]
    if len(everything) < wanted:
        raise SystemExit("the file holds ids that the generator gives too")
    origin = {"from_file": min(len(chosen), size), "generated": max(0, size - len(chosen))}
    if file is not None:
        origin |= {"file_sha256": _digest(file.read_bytes())}
    return Tools(everything[:size], everything[size:], origin)


def read_queries(file: Path | None, count: int) -> list[str]:
    """Queries of a file, the `text` of its rows; generated ones without it."""
    if file is None:
        return generated_queries(count)
    texts = [row["text"] for row in rows(file)]
    return random.Random(SEED).sample(texts, min(count, len(texts)))


def all_texts(specs: Sequence[ToolSpec]) -> list[str]:
    """Every text that the index of these tools encodes, tool by tool."""
    return [
        text
        for spec in specs
        for text in (
            dense_text(spec),
            *(clean(hint) for hint in (*spec.success_examples, *spec.anti_patterns)),
        )
    ]


class KnownVectors:
    """The bundled encoder, with the vectors of known documents looked up.

    Queries, and documents that are not known, are encoded for real. The vectors are either the
    encoder's own, made once beforehand, or random unit vectors: an engine does not read them.
    It has the real encoder's name, so that its index opens without it.
    """

    def __init__(self, real: BundledEncoder, rows: Mapping[str, int], matrix: FloatArray) -> None:
        self._real = real
        self._rows = rows
        self._matrix = matrix

    @property
    def name(self) -> str:
        """The real encoder's."""
        return self._real.name

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self._real.dimensions

    def encode_query(self, text: str) -> FloatArray:
        """Encode for real: float32 [dimensions], L2-normalised."""
        return self._real.encode_query(text)

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Look up what is known, encode the rest: float32 [n, dimensions], L2-normalised."""
        if not any(text in self._rows for text in texts):
            return self._real.encode_documents(texts)
        unknown = [text for text in dict.fromkeys(texts) if text not in self._rows]
        fresh = dict(zip(unknown, self._real.encode_documents(unknown), strict=True))
        return np.stack([fresh[t] if t in fresh else self._matrix[self._rows[t]] for t in texts])


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything a run needs. `query_vectors`: float32 [queries, d], always the encoder's own."""

    tools: Tools
    queries: list[str]
    query_vectors: FloatArray
    encoder: BundledEncoder
    known: KnownVectors

    @classmethod
    def make(cls, tools: Tools, queries: list[str], kind: str, cache: Path | None) -> Inputs:
        """Encode tools (or draw vectors, when `kind` is "random") and queries."""
        encoder = BundledEncoder()
        texts = sorted(set(all_texts(tools.specs)), key=lambda text: (len(text), text))
        if kind == "random":
            matrix = _random(len(texts), encoder.dimensions)
        else:
            matrix = encoded(texts, encoder, cache)
        known = KnownVectors(encoder, {text: row for row, text in enumerate(texts)}, matrix)
        vectors = np.stack([encoder.encode_query(query) for query in queries])
        return cls(tools, queries, vectors, encoder, known)

    def save(self, folder: Path) -> None:
        """Write what the peers' processes read; row i of `vectors.npy` is tool i's own text."""
        with (folder / "tools.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{spec.model_dump_json()}\n" for spec in self.tools.specs)
        texts = [dense_text(spec) for spec in self.tools.specs]
        np.save(folder / "vectors.npy", self.known.encode_documents(texts))
        np.save(folder / "query_vectors.npy", self.query_vectors)
        (folder / "queries.json").write_text(json.dumps(self.queries), encoding="utf-8")


def _random(count: int, dimensions: int) -> FloatArray:
    matrix = np.random.default_rng(SEED).standard_normal((count, dimensions), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix


def encoded(texts: list[str], encoder: BundledEncoder, cache: Path | None) -> FloatArray:
    """The encoder's vectors, each page from the cache where it was made before."""
    starts = range(0, len(texts), ENCODED_AT_ONCE)
    return np.concatenate(
        [
            _page(texts[start : start + ENCODED_AT_ONCE], encoder, cache)
            for start in track(starts, f"encoding {len(texts):,} texts", transient=True)
        ]
    )


def _page(texts: list[str], encoder: BundledEncoder, cache: Path | None) -> FloatArray:
    if cache is None:
        return encoder.encode_documents(texts)
    digest = _digest("\0".join((encoder.name, *texts)).encode("utf-8", "surrogatepass"))
    path = cache / f"vectors-{digest}.npy"
    if path.is_file():
        return np.load(path)
    made = encoder.encode_documents(texts)
    cache.mkdir(parents=True, exist_ok=True)
    # A run that is stopped leaves no half of a page.
    with tempfile.NamedTemporaryFile(dir=cache, delete=False) as file:
        np.save(file, made)
    Path(file.name).rename(path)
    return made


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
