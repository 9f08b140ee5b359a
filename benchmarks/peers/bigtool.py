"""langgraph-bigtool: tool descriptions in LangGraph's store, searched by their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.systems.base import Baseline
from toolcrib.records import ToolSpec

NAMESPACE = ("tools",)
"""Where its README keeps the tools in the store."""


class LangGraphBigtool(Baseline):
    """The search behind its `retrieve_tools`, over an `InMemoryStore` filled as in its README.

    `retrieve_tools` returns ids alone, so the store is asked as it asks it: the score is the
    cosine of query and `name: description`.
    """

    name = "langgraph-bigtool"
    package = "langgraph-bigtool"
    modules = ("langgraph_bigtool",)

    def __init__(self, encoder: DenseEncoder) -> None:
        super().__init__(encoder)
        self._store: Any = None

    @property
    def store(self) -> Any:
        """The `InMemoryStore` that `retrieve_tools` takes; None before `index`."""
        return self._store

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        from langgraph.store.base import PutOp
        from langgraph.store.memory import InMemoryStore

        self._store = InMemoryStore(
            index={
                "embed": _wrapped(self._encoder),
                "dims": self._encoder.dimensions,
                "fields": ["description"],
            },
        )
        # Batches instead of a `put` a tool: the same store, but texts are encoded together. A
        # batch must not hold a text twice: the store then counts its vectors wrongly and raises.
        batches: list[dict[str, PutOp]] = [{}]
        for spec in tools:
            text = f"{spec.name}: {spec.description}"
            batch = next((one for one in batches if text not in one), None)
            if batch is None:
                batches.append(batch := {})
            batch[text] = PutOp(NAMESPACE, spec.id, {"description": text})
        for batch in batches:
            self._store.batch(batch.values())

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        found = self._store.search(NAMESPACE, query=query, limit=depth)
        return ((item.key, item.score) for item in found)

    def close(self) -> None:
        """Drop the store."""
        super().close()
        self._store = None


def _wrapped(encoder: DenseEncoder) -> Any:
    """The encoder as LangChain's kind."""
    from langchain_core.embeddings import Embeddings

    class Wrapped(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            # Rows stay arrays: the store stacks them at every search, and lists are slow there.
            rows: Any = list(encoder.encode_documents(texts))
            return rows

        def embed_query(self, text: str) -> list[float]:
            return encoder.encode_query(text).tolist()

    return Wrapped()
