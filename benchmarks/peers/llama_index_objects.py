"""LlamaIndex: an `ObjectIndex` of tools over a `VectorStoreIndex`, as its agents retrieve them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.peers.names import unique_names
from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.systems.base import Baseline
from toolcrib.records import ToolSpec

_BATCH = 256


class LlamaIndexObjects(Baseline):
    """Each tool is a node of name, description and parameter schema; the score is its cosine."""

    name = "llama-index"
    package = "llama-index-core"
    modules = ("llama_index", "llama_index.core")

    def __init__(self, encoder: DenseEncoder) -> None:
        super().__init__(encoder)
        self._objects: Any = None
        self._ids: dict[str, str] = {}

    def _build(self, tools: Sequence[ToolSpec]) -> None:
        from llama_index.core import VectorStoreIndex
        from llama_index.core import objects as library

        names = unique_names(tools)
        self._ids = {name: spec.id for name, spec in zip(names, tools, strict=True)}
        objects = [_tool(name, spec) for name, spec in zip(names, tools, strict=True)]
        mapping: Any = library.SimpleToolNodeMapping
        index: Any = library.ObjectIndex
        embedding = _wrapped(self._encoder)
        self._objects = index.from_objects(
            objects,
            object_mapping=mapping.from_objects(objects),
            index_cls=VectorStoreIndex,
            embed_model=embedding,
            # Nodes are given, nothing is split: the default would load a tokeniser for nothing.
            transformations=[embedding],
        )

    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        # `as_retriever` would give tools without their scores; this is what it wraps.
        retriever = self._objects.as_node_retriever(similarity_top_k=depth)
        found = retriever.retrieve(query)
        return ((self._ids[each.node.metadata["name"]], each.score) for each in found)

    def close(self) -> None:
        """Drop the index."""
        super().close()
        self._objects, self._ids = None, {}


def _tool(name: str, spec: ToolSpec) -> Any:
    from llama_index.core.tools import FunctionTool, ToolMetadata
    from pydantic import BaseModel

    class Parameters(BaseModel):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return spec.input_schema

    described = ToolMetadata(
        name=name,
        description=spec.description,
        fn_schema=Parameters if spec.input_schema else None,
    )
    return FunctionTool(fn=_never_called, metadata=described)


def _never_called() -> None:
    """Tools are only found here."""


def _wrapped(encoder: DenseEncoder) -> Any:
    """The encoder as the library's own kind."""
    from llama_index.core.base.embeddings.base import BaseEmbedding

    class Wrapped(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return encoder.encode_query(query).tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return encoder.encode_documents(texts).tolist()

    return Wrapped(model_name=encoder.name, embed_batch_size=_BATCH)
