"""OpenAI integration: an agent with the tools of a turn, and a search for deferred tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from toolcrib.extras import needs_extra

with needs_extra("agents of OpenAI's SDK", "openai-agents"):
    from agents import Agent, AgentHooks, FunctionTool, ItemHelpers, ModelResponse, Tool
    from openai.types.responses import (
        FunctionToolParam,
        ResponseToolSearchCall,
        ResponseToolSearchOutputItemParamParam,
        ToolSearchToolParam,
    )

from toolcrib.integrations.formats import (
    Definitions,
    ToolNames,
    fitting_definition,
    restore_arguments,
)
from toolcrib.integrations.providers import Definition, Provider, refusals
from toolcrib.integrations.selection import (
    DEFAULT_STEPS,
    SEARCH,
    AgentTools,
    AnyCrib,
    RunStep,
    ShownTools,
    StepOptions,
    tools_wanted,
    turn_of_messages,
)
from toolcrib.records import Message, Scope, ToolSpec, Turn
from toolcrib.records.codec import is_object

_Context = TypeVar("_Context")

SEARCH_TOOL: ToolSearchToolParam = {
    "type": "tool_search",
    "execution": "client",
    "description": SEARCH.description,
    "parameters": dict(SEARCH.input_schema),
}
"""Search tool for a request to the Responses API; `search_output` answers its calls."""


# -- Agents SDK ------------------------------------------------------------------------------------


def tool_spec(tool: FunctionTool) -> ToolSpec:
    """Convert a tool of the Agents SDK to a specification."""
    schema = tool.params_json_schema
    return ToolSpec(name=tool.name, description=tool.description, input_schema=schema)


async def agent_for_turn(
    agent: Agent[_Context],
    said: str | Sequence[Any],
    crib: AnyCrib,
    *,
    k: int | None = None,
    always_include: Sequence[str] = (),
    scope: Scope | None = None,
    steps: StepOptions = DEFAULT_STEPS,
) -> Agent[_Context]:
    """Copy an agent for one run, with the functions that fit `said`, the input of `Runner.run`.

    After each answer of the model, the functions of the next step are added, as `steps` say. Hosted
    tools, functions unknown to the index, MCP servers and the function that `tool_choice` names
    stay. A schema that is not strict, or that OpenAI refuses, is converted to the form that all
    providers accept. `k` replaces the settings' `tools.k`.

    Raises:
        SettingsError: a name in `always_include` is no function of the agent.
        StoreError: a store does not answer.
    """
    choice = AgentTools(crib, k, tuple(always_include), steps)
    names = [tool.name for tool in agent.tools if isinstance(tool, FunctionTool)]
    forced = [name for name in names if name == agent.model_settings.tool_choice]
    shown = await choice.afor_turn(turn_of(said, scope), names, always=forced)
    return _FollowedRun(choice, scope, shown, agent).agent


class _FollowedRun:
    """Run of an agent whose functions are chosen again after each answer of its model."""

    def __init__(
        self, choice: AgentTools, scope: Scope | None, shown: ShownTools, agent: Agent[Any]
    ) -> None:
        self._choice, self._scope, self._shown_tools = choice, scope, shown
        self._calls, self._changing = list[list[str]](), asyncio.Lock()
        self._functions = {
            SEARCH.name: self._search_tool(),
            **{tool.name: tool for tool in agent.tools if isinstance(tool, FunctionTool)},
        }
        self._fitted_tools: dict[str, FunctionTool] = {}
        self._hosted_tools = [tool for tool in agent.tools if not isinstance(tool, FunctionTool)]
        self._own_hooks: Any = agent.hooks or AgentHooks[Any]()
        hooks = AgentHooks[Any]()
        for name in dir(self._own_hooks):
            if name.startswith("on_"):
                setattr(hooks, name, getattr(self._own_hooks, name))
        vars(hooks)["on_llm_end"] = self._on_llm_end
        self.agent = replace(agent, tools=self._tools(), hooks=hooks)

    def _tools(self) -> list[Tool]:
        for name in self._shown_tools["names"]:
            if name not in self._fitted_tools:
                self._fitted_tools[name] = _fit_function(self._functions[name])
        return [
            *(self._fitted_tools[name] for name in self._shown_tools["names"]),
            *self._hosted_tools,
        ]

    async def _on_llm_end(self, context: Any, agent: Agent[Any], response: ModelResponse) -> None:
        await self._own_hooks.on_llm_end(context, agent, response)
        output = response.output
        self._calls.append([item.name for item in output if item.type == "function_call"])
        said = "\n".join(filter(None, map(ItemHelpers.extract_text, output)))
        self.agent = agent
        await self._follow(RunStep.of(said, self._calls))

    async def _follow(self, step: RunStep) -> None:
        async with self._changing:
            self._shown_tools = await self._choice.afor_step(self._shown_tools, step, self._scope)
            self.agent.tools = self._tools()

    def _search_tool(self) -> FunctionTool:
        async def search(_: Any, arguments: str) -> str:
            step = RunStep.of("", self._calls)
            text, found = await self._choice.asearch(
                self._shown_tools, _read_arguments(arguments), step.called, self._scope
            )
            await self._follow(RunStep("", step.called, (), tuple(found)))
            return text

        return FunctionTool(SEARCH.name, SEARCH.description, dict(SEARCH.input_schema), search)


def _fit_function(tool: FunctionTool) -> FunctionTool:
    """Function with a schema that OpenAI accepts; calls are converted back to its own names."""
    shown = fitting_definition(spec := tool_spec(tool))
    given = Definition(spec.name, spec.description, spec.input_schema)
    keeps_strict = tool.strict_json_schema and not any(refusals(Provider.OPENAI, given))
    if keeps_strict or shown is None:
        return tool

    async def invoke(context: Any, arguments: str) -> Any:
        given = _read_arguments(arguments)
        own = json.dumps(restore_arguments(spec, given)) if is_object(given) else arguments
        return await tool.on_invoke_tool(context, own)

    return replace(
        tool,
        description=shown["description"],
        params_json_schema=shown["input_schema"],
        strict_json_schema=False,
        on_invoke_tool=invoke,
    )


def _read_arguments(text: str) -> object:
    """Arguments of a call; None for broken JSON."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None


def turn_of(said: str | Sequence[Any], scope: Scope | None = None) -> Turn:
    """Turn of an input: the user's last message, with the messages before as history."""
    if isinstance(said, str):
        return Turn(text=said, scope=scope)
    messages = [
        Message.model_validate({"role": item["role"], "content": item.get("content")})
        for item in said
        if is_object(item) and item.get("role")
    ]
    return turn_of_messages(messages, scope)


# -- Responses API ---------------------------------------------------------------------------------


def turn_tools(
    crib: AnyCrib, turn: Turn | str, *, k: int | None = None
) -> tuple[list[FunctionToolParam], ToolNames]:
    """Return the `tools=` of a turn for `responses.create`, and the ids by their names.

    `names.call(name, arguments)` gives the id and the arguments of a call.

    Raises:
        StoreError: a store does not answer.
    """
    made = Definitions.of(crib.route(turn, k=k).tools.tools, "openai")
    functions = [{"type": "function", "strict": False, **each["function"]} for each in made.tools]
    return cast("list[FunctionToolParam]", functions), made.names


def search_output(
    crib: AnyCrib, call: ResponseToolSearchCall, *, k: int = 5, scope: Scope | None = None
) -> tuple[ResponseToolSearchOutputItemParamParam | None, ToolNames]:
    """Answer a client-side search with an item, and the ids of the loaded tools.

    A namespaced function is `namespace.name`. The item is None for a server-side search.

    Raises:
        StoreError: the store does not answer.
    """
    if call.execution != "client":
        return None, ToolNames(())
    made = Definitions.of(tools_wanted(crib, call.arguments, k=k, scope=scope), "openai-namespaces")
    item = {
        "type": "tool_search_output",
        "call_id": call.call_id,
        "execution": "client",
        "status": "completed",
        "tools": made.tools,
    }
    output = cast("ResponseToolSearchOutputItemParamParam", item)
    return output, made.names
