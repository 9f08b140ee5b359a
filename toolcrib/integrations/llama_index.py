"""LlamaIndex integration: an agent's tools for a turn and its steps, and passages as nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from toolcrib.extras import needs_extra

with needs_extra("retrievers of LlamaIndex", "llama-index"):
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.objects import ObjectRetriever, SimpleToolNodeMapping
    from llama_index.core.objects.base_node_mapping import BaseObjectNodeMapping
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.tools import (
        AsyncBaseTool,
        BaseTool,
        FunctionTool,
        ToolMetadata,
        ToolOutput,
        adapt_to_async_tool,
    )

from toolcrib.integrations.formats import fitting_definition, restore_arguments
from toolcrib.integrations.selection import (
    DEFAULT_STEPS,
    SEARCH,
    AgentTools,
    AnyCrib,
    RunStep,
    ShownTools,
    may_call,
    passage_metadata,
    refusal,
    report_outcome,
    tools_for_turn,
    turn_of_messages,
)
from toolcrib.records import Message, Scope, ToolSpec, Turn


def tool_spec(tool: BaseTool) -> ToolSpec:
    """Convert a tool of LlamaIndex to a specification."""
    described: Any = tool.metadata
    schema: dict[str, Any] = described.get_parameters_dict()
    name: str = described.get_name()
    return ToolSpec(name=name, description=described.description, input_schema=schema)


@dataclass
class _FitMetadata(ToolMetadata):
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])

    def get_parameters_dict(self) -> dict[str, Any]:
        return self.parameters


class _FitTool(FunctionTool):
    """Tool whose schema all providers take; a call gets the names of its own schema back."""

    def __init__(self, tool: BaseTool, spec: ToolSpec, shown: Mapping[str, Any]) -> None:
        self._tool, self._spec = adapt_to_async_tool(tool), spec
        own: Any = tool
        metadata = _FitMetadata(
            shown["description"],
            own.metadata.get_name(),
            own.metadata.fn_schema,
            own.metadata.return_direct,
            parameters=shown["input_schema"],
        )
        super().__init__(self._tool.call, metadata, self._tool.acall)
        # An agent hands the run's context to functions that take it.
        self.requires_context = getattr(own, "requires_context", False)
        self.ctx_param_name = getattr(own, "ctx_param_name", None)

    def call(self, *_: Any, **given: Any) -> ToolOutput:
        return self._tool.call(**restore_arguments(self._spec, given))

    async def acall(self, *_: Any, **given: Any) -> ToolOutput:
        return await self._tool.acall(**restore_arguments(self._spec, given))


def _fit_tool(tool: BaseTool) -> BaseTool:
    """The tool, with a schema that all providers accept."""
    shown = fitting_definition(spec := tool_spec(tool))
    return tool if shown is None else _FitTool(tool, spec, shown)


class ToolcribObjectRetriever(ObjectRetriever[BaseTool]):
    """Retriever of tools for the user's message: `FunctionAgent(tool_retriever=...)`.

    `tools` are all tools; the index chooses by name, and tools unknown to the index are always
    included. A query that is a tool's name retrieves only this tool, as agents look tools up for
    calls. `k` replaces the settings' `tools.k`. Schemas are converted to the form that all
    providers accept, and calls back to the tool's own names.

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
        tools = list(map(_fit_tool, tools))
        nodes: BaseObjectNodeMapping[BaseTool] = mapping.from_objects(tools)
        retriever = _ToolRetriever(crib, tools, nodes, k, scope)
        super().__init__(retriever, nodes, list(node_postprocessors))


class _ToolRetriever(BaseRetriever):
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
        if (name := query_bundle.query_str) in self._nodes:
            # Agents look a called tool up by its name.
            in_scope = may_call(self._crib, name, self._scope)
            return [NodeWithScore(node=self._nodes[name])] if in_scope else []
        turn = Turn(text=query_bundle.query_str, scope=self._scope)
        found = tools_for_turn(self._crib, turn, self._nodes, k=self._k)
        scores = {hit.id: hit.score for hit in found.decision.tools.tools}
        return [
            NodeWithScore(node=self._nodes[name], score=scores.get(found.ids.get(name, "")))
            for name in found.names
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


SHOWN, FOUND = "toolcrib_shown", "toolcrib_found"
"""Keys of the run's state: the tools shown to the model, and the tools that its search found."""


class ToolcribFunctionAgent(FunctionAgent):
    """Function agent whose model gets only those of its `tools` that each turn and step needs.

    The tools are chosen by their names in the index: for the user's message, then by the model's
    last text, as `steps` say. Tools unknown to the index stay, as do tools in `always_include` and
    the `initial_tool_choice`. `k` replaces `tools.k`. Schemas are converted to the form that all
    providers accept, and calls back to the tool's own names. Calls of tools outside the turn are
    refused, and outcomes of calls are reported to the crib; in an `AgentWorkflow` of several agents
    neither is done.

    Raises:
        SettingsError: a name in `always_include` is no tool of the agent.
        StoreError: a store does not answer.
    """

    crib: Any
    k: int | None = None
    always_include: Sequence[str] = Field(default=())
    scope: Any = None
    steps: Any = DEFAULT_STEPS
    _search: FunctionTool = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Give the tools fitting schemas, and the agent its search."""
        super().model_post_init(context)

        async def find_tools(ctx: Any, **arguments: Any) -> str:
            return await self._find_tools(ctx, arguments)

        metadata = _FitMetadata(
            SEARCH.description, SEARCH.name, parameters=dict(SEARCH.input_schema)
        )
        self._search = FunctionTool(async_fn=find_tools, metadata=metadata)
        # The call gets the run's context, also in a workflow of several agents.
        self._search.requires_context, self._search.ctx_param_name = True, "ctx"
        agent: Any = self
        search = [self._search] if agent.steps.search else []
        agent.tools = [*map(_fit_tool, agent.tools or ()), *search]

    @property
    def _choice(self) -> AgentTools:
        return AgentTools(self.crib, self.k, tuple(self.always_include), self.steps)

    async def take_step(self, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> Any:
        """Take a step with the tools of the turn and the step."""
        written: list[ChatMessage] = await ctx.store.get(self.scratchpad_key, default=[])
        before: ShownTools | None = await ctx.store.get(SHOWN, default=None)
        own = {tool.metadata.get_name(): tool for tool in tools if tool is not self._search}
        if written and before is not None:
            step = replace(self._step(written), found=tuple(await ctx.store.get(FOUND, default=())))
            now = await self._choice.afor_step(before, step, self.scope)
        else:
            turn, known = _turn(llm_input, self.scope), before["shown"] if before else ()
            forced = [name for name in own if name == self.initial_tool_choice]
            now = await self._choice.afor_turn(turn, own, always=forced, shown=known)
        await ctx.store.set(FOUND, [])
        await ctx.store.set(SHOWN, now)
        named = {**own, SEARCH.name: self._search}
        given = [named.pop(name) for name in now["names"] if name in named]
        # Tools that were added meanwhile, such as a handoff to another agent, stay.
        hidden = {*now["hidden"], SEARCH.name}
        given += [tool for name, tool in named.items() if name not in hidden]
        return await super().take_step(ctx, llm_input, given, memory)

    async def _find_tools(self, ctx: Any, arguments: Mapping[str, Any]) -> str:
        """Answer a search of the model, and keep the found tools for the next step."""
        shown: ShownTools = await ctx.store.get(SHOWN)
        called = self._step(await ctx.store.get(self.scratchpad_key, default=[])).called
        text, found = await self._choice.asearch(shown, arguments, called, self.scope)
        async with ctx.store.edit_state() as state:
            state[FOUND] = [*state.get(FOUND, ()), *found]
        return text

    async def _call_tool(self, ctx: Any, tool: AsyncBaseTool, tool_input: Any) -> ToolOutput:
        """Call a tool of the turn and report the outcome."""
        shown: ShownTools | None = await ctx.store.get(SHOWN, default=None)
        name = tool.metadata.get_name()
        if text := refusal(shown, name):
            return ToolOutput(name, text, raw_input=tool_input, raw_output=text, is_error=True)
        began = perf_counter()
        agent: Any = super()
        output: ToolOutput = await agent._call_tool(ctx, tool, tool_input)  # noqa: SLF001
        if shown is not None and (tool_id := shown["ids"].get(name)):
            took_ms, failed = (perf_counter() - began) * 1000, output.is_error
            report = partial(report_outcome, self.crib, shown["decision"], tool_id, took_ms)
            await asyncio.to_thread(report, failed=failed)
        return output

    def _step(self, messages: Sequence[ChatMessage]) -> RunStep:
        llm: Any = self.llm
        answers = [each for each in messages if each.role == "assistant"]
        calls = [
            llm.get_tool_calls_from_response(
                ChatResponse(message=each), error_on_no_tool_call=False
            )
            for each in answers
        ]
        names = [[call.tool_name for call in made] for made in calls]
        return RunStep.of((answers[-1].content or "") if answers else "", names)


def _turn(messages: Sequence[ChatMessage], scope: Scope | None) -> Turn:
    said = [
        Message.model_validate({"role": each.role.value, "content": each.content})
        for each in messages
        if each.role in {"user", "assistant"} and each.content
    ]
    return turn_of_messages(said, scope)


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
        found = self._crib.find_knowledge(query_bundle.query_str, self._k, scope=self._scope)
        return [
            NodeWithScore(
                node=TextNode(id_=hit.id, text=hit.text, metadata=passage_metadata(hit)),
                score=hit.score,
            )
            for hit in found.passages
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
