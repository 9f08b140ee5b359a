"""LlamaIndex integration: tools for an agent's `tool_retriever`, and passages as nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from toolcrib.errors import MissingExtraError

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.objects import ObjectRetriever, SimpleToolNodeMapping
    from llama_index.core.objects.base_node_mapping import BaseObjectNodeMapping
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.tools import BaseTool
except ImportError as missing:
    raise MissingExtraError("retrievers of LlamaIndex", "llama-index") from missing

from toolcrib.integrations.selection import AnyCrib, passage_metadata, tools_for_turn
from toolcrib.records import KnowledgeResult, Scope, ToolSpec, Turn


def tool_spec(tool: BaseTool) -> ToolSpec:
    """Convert a tool of LlamaIndex to a specification."""
    described: Any = tool.metadata
    schema: dict[str, Any] = described.get_parameters_dict()
    name: str = described.get_name()
    return ToolSpec(name=name, description=described.description, input_schema=schema)


class ToolcribObjectRetriever(ObjectRetriever[BaseTool]):
    """Retriever of tools for the user's message: `FunctionAgent(tool_retriever=...)`.

    `tools` are all tools; the index chooses by their names, and tools unknown to the index are
    always included. `k` replaces the settings' `tools.k`.

    Raises:
        StoreError: a store does not answer.
    """

    def __init__(
        self,
        crib: AnyCrib,
        tools: Sequence[BaseTool],
        *,
        k: int | None = None,
        scope: Scope | None = None,
        node_postprocessors: Sequence[BaseNodePostprocessor] = (),
    ) -> None:
        mapping: Any = SimpleToolNodeMapping
        nodes: BaseObjectNodeMapping[BaseTool] = mapping.from_objects(tools)
        retriever = _ToolRetriever(crib, tools, nodes, k, scope)
        super().__init__(retriever, nodes, list(node_postprocessors))


class _ToolRetriever(BaseRetriever):
    """Retriever of the nodes of a turn's tools."""

    def __init__(
        self,
        crib: AnyCrib,
        tools: Sequence[BaseTool],
        nodes: Any,
        k: int | None,
        scope: Scope | None,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._crib, self._k, self._scope = crib, k, scope
        self._nodes = {tool.metadata.get_name(): nodes.to_node(tool) for tool in tools}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        turn = Turn(text=query_bundle.query_str, scope=self._scope)
        found = tools_for_turn(self._crib, turn, self._nodes, k=self._k)
        scores = {hit.id: hit.score for hit in found.decision.tools.tools}
        return [
            NodeWithScore(node=self._nodes[name], score=scores.get(found.ids.get(name, "")))
            for name in found.names
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class ToolcribNodeRetriever(BaseRetriever):
    """Retriever of passages as nodes, best first; none if no collection fits.

    At most `k` if given. The metadata of a node have `collection`, `source`, `title`,
    `position` and `citation`.

    Raises:
        StoreError: a store does not answer.
    """

    def __init__(self, crib: AnyCrib, *, k: int | None = None, scope: Scope | None = None) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._crib, self._k, self._scope = crib, k, scope

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._crib.find_knowledge(query_bundle.query_str, self._k, scope=self._scope))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._crib.afind_knowledge(query_bundle.query_str, self._k, scope=self._scope)
        return _nodes(await found)


def _nodes(found: KnowledgeResult) -> list[NodeWithScore]:
    """Convert the passages of an answer to LlamaIndex's nodes."""
    return [
        NodeWithScore(
            node=TextNode(id_=hit.id, text=hit.text, metadata=passage_metadata(hit)),
            score=hit.score,
        )
        for hit in found.passages
    ]
