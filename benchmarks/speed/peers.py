"""The peers, each driven as its documentation says, over the same tools, queries and vectors.

A peer is made from `Prepared` and answers query number `at` with the ids of its best five tools.
What it is given (a query as text, as vector, as tokens) is ready before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import TOOL_TERMS, FieldWeights, draft
from toolcrib.records import ToolSpec
from toolcrib.store.base import Point

TOP = 5
DEPTH = 50
PAGE = 1000


class Prepared:
    """The inputs as a peer's process reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def specs(self) -> list[ToolSpec]:
        """The tools."""
        with (self._folder / "tools.jsonl").open(encoding="utf-8") as lines:
            return [ToolSpec.model_validate_json(line) for line in lines]

    @cached_property
    def ids(self) -> list[str]:
        """The tools' ids."""
        return [spec.id for spec in self.specs]

    @cached_property
    def vectors(self) -> FloatArray:
        """One row a tool: float32 [tools, d], of unit length."""
        return np.load(self._folder / "vectors.npy")

    @cached_property
    def queries(self) -> list[str]:
        """The queries as texts."""
        return json.loads((self._folder / "queries.json").read_text(encoding="utf-8"))

    @cached_property
    def query_vectors(self) -> FloatArray:
        """The queries as the encoder has them: float32 [queries, d]."""
        return np.load(self._folder / "query_vectors.npy")

    @cached_property
    def texts(self) -> list[str]:
        """What FastMCP reads of a tool: name, description, parameters and what is said of them."""
        return [_text(spec) for spec in self.specs]


def _text(spec: ToolSpec) -> str:
    parts = [spec.name, spec.description]
    for name, inner in spec.input_schema.get("properties", {}).items():
        parts += [name, inner.get("description") or "" if isinstance(inner, dict) else ""]
    return " ".join(map(str, parts))


def words(text: str) -> list[str]:
    """Words in lower case, for the peers that bring no tokeniser."""
    return re.findall(r"[^\W_]{2,}", text.lower())


class Peer(Protocol):
    """Something that finds tools."""

    def search(self, at: int) -> Sequence[str]:
        """Ids of the best five tools for query `at`."""
        ...


class QdrantLocal:
    """`QdrantClient(":memory:")`: our dense and sparse vectors and payloads, 50 a leg, fused."""

    def __init__(self, prepared: Prepared) -> None:
        from qdrant_client import QdrantClient, models

        self._client = QdrantClient(":memory:")
        self._client.create_collection(
            "tools",
            vectors_config={
                "dense": models.VectorParams(
                    size=prepared.vectors.shape[1],
                    distance=models.Distance.COSINE,
                ),
            },
            sparse_vectors_config={
                "lexical": models.SparseVectorParams(modifier=models.Modifier.IDF),
            },
        )
        points = _points(prepared)
        for start in range(0, len(points), PAGE):
            page = [
                models.PointStruct(
                    id=point.id,
                    payload=dict(point.payload),
                    vector={
                        "dense": point.dense["dense"].tolist(),
                        "lexical": models.SparseVector(
                            indices=point.sparse["lexical"].indices.tolist(),
                            values=point.sparse["lexical"].values.tolist(),
                        ),
                    },
                )
                for point in points[start : start + PAGE]
            ]
            self._client.upsert("tools", page)
        self._prefetches = [
            [
                models.Prefetch(query=dense.tolist(), using="dense", limit=DEPTH),
                models.Prefetch(
                    query=models.SparseVector(
                        indices=sparse.indices.tolist(),
                        values=sparse.values.tolist(),
                    ),
                    using="lexical",
                    limit=DEPTH,
                ),
            ]
            for dense, sparse in zip(
                prepared.query_vectors,
                map(LexicalEncoder().encode_query, prepared.queries),
                strict=True,
            )
        ]
        self._fusion = models.FusionQuery(fusion=models.Fusion.RRF)

    def search(self, at: int) -> Sequence[str]:
        """One request with two prefetches and rank fusion."""
        found = self._client.query_points(
            "tools",
            prefetch=self._prefetches[at],
            query=self._fusion,
            limit=TOP,
            with_payload=True,
        )
        return [(point.payload or {})["id"] for point in found.points]


def _points(prepared: Prepared) -> list[Point]:
    lexical, weights = LexicalEncoder(), FieldWeights()
    drafts = [draft(spec, lexical, weights, ()) for spec in prepared.specs]
    return [
        # Examples are not part of this comparison: the tool's own text stands for all.
        each.point(np.repeat(row[None], len(each.texts), axis=0), lexical, TOOL_TERMS)
        for each, row in zip(drafts, prepared.vectors, strict=True)
    ]


class FastMcp:
    """FastMCP's `BM25SearchTransform`: a search over a listed catalogue, without the protocol."""

    def __init__(self, prepared: Prepared) -> None:
        from fastmcp.server.transforms.search import BM25SearchTransform
        from fastmcp.tools.base import Tool

        # One catalogue has every name once; ours has it once a server.
        self._tools = [
            Tool(name=_mcp_name(i), description=d.description, parameters=d.input_schema)
            for i, d in zip(prepared.ids, prepared.specs, strict=True)
        ]
        self._ids = dict(zip(map(_mcp_name, prepared.ids), prepared.ids, strict=True))
        self._transform = BM25SearchTransform(max_results=TOP)
        self._queries = prepared.queries
        self._loop = asyncio.new_event_loop()
        self._ask(self._queries[0])  # it builds its index at the first question

    def _ask(self, query: str) -> Sequence[Any]:
        # The public way in is a whole MCP call, which would cost FastMCP more.
        answer = self._transform._search(self._tools, query)  # noqa: SLF001
        return self._loop.run_until_complete(answer)

    def search(self, at: int) -> Sequence[str]:
        """What its `search_tools` does between listing the catalogue and writing the answer."""
        return [self._ids[tool.name] for tool in self._ask(self._queries[at])]


class FastMcpIndex(FastMcp):
    """The index inside FastMCP's transform, asked directly."""

    def __init__(self, prepared: Prepared) -> None:
        super().__init__(prepared)
        self._places = prepared.ids
        self._index = self._transform._index  # noqa: SLF001

    def search(self, at: int) -> Sequence[str]:
        """Positions to ids; the check whether the catalogue has changed is left out."""
        return [self._places[position] for position in self._index.query(self._queries[at], TOP)]


def _mcp_name(tool_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", tool_id)


class RankBm25:
    """`BM25Okapi.get_scores` and the best five of them."""

    def __init__(self, prepared: Prepared) -> None:
        from rank_bm25 import BM25Okapi

        self._ids = prepared.ids
        self._index = BM25Okapi([words(text) for text in prepared.texts])
        self._queries = [words(query) for query in prepared.queries]

    def search(self, at: int) -> Sequence[str]:
        """Scores of all tools, then the best."""
        return [self._ids[i] for i in _best(self._index.get_scores(self._queries[at]))]


class Bm25s:
    """`bm25s` on numpy: scores are computed when indexing and only summed when searching."""

    def __init__(self, prepared: Prepared) -> None:
        import bm25s

        self._ids = prepared.ids
        self._index: Any = bm25s.BM25()
        self._index.index([words(text) for text in prepared.texts], show_progress=False)
        self._queries = [words(query) for query in prepared.queries]

    def search(self, at: int) -> Sequence[str]:
        """One query, as a batch of one."""
        found, _ = self._index.retrieve([self._queries[at]], k=TOP, show_progress=False)
        return [self._ids[position] for position in found[0]]


class SemanticRouter:
    """semantic-router's `LocalIndex`: a route a tool, with the same vectors."""

    def __init__(self, prepared: Prepared) -> None:
        from semantic_router.index.local import LocalIndex

        self._index = LocalIndex()
        names = [spec.name for spec in prepared.specs]
        rows: Any = list(prepared.vectors)
        self._index.add(embeddings=rows, routes=prepared.ids, utterances=names)
        self._queries = prepared.query_vectors

    def search(self, at: int) -> Sequence[str]:
        """The best routes."""
        return self._index.query(self._queries[at], top_k=TOP)[1]


class Numpy:
    """The least that can be done: `vectors @ query`, then the best five."""

    def __init__(self, prepared: Prepared) -> None:
        self._ids, self._vectors = prepared.ids, prepared.vectors
        self._queries = prepared.query_vectors

    def search(self, at: int) -> Sequence[str]:
        """Cosines of all tools, then the best."""
        return [self._ids[i] for i in _best(self._vectors @ self._queries[at])]


def _best(scores: Any) -> list[int]:
    found = np.argpartition(scores, -TOP)[-TOP:]
    return found[np.argsort(-scores[found])].tolist()


@dataclass(frozen=True, slots=True)
class Description:
    """A peer, the package whose version counts, and what an answer of it holds."""

    make: Callable[[Prepared], Peer]
    package: str
    does: str


_HYBRID = "dense + BM25, fused, payload"
PEERS: dict[str, Description] = {
    "qdrant-client local mode": Description(QdrantLocal, "qdrant-client", _HYBRID),
    "FastMCP search": Description(FastMcp, "fastmcp", "BM25, whole tools"),
    "FastMCP index alone": Description(FastMcpIndex, "fastmcp", "BM25, ids"),
    "rank-bm25": Description(RankBm25, "rank-bm25", "BM25, ids"),
    "bm25s": Description(Bm25s, "bm25s", "BM25, ids"),
    "semantic-router LocalIndex": Description(SemanticRouter, "semantic-router", "dense, ids"),
    "numpy": Description(Numpy, "numpy", "dense, ids"),
}
