"""Pydantic-AI integration: the tools that each run needs, and a search for deferred tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Generic

from pydantic_core import SchemaValidator, core_schema, from_json

from toolcrib.extras import needs_extra

with needs_extra("toolsets of Pydantic-AI", "pydantic-ai"):
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.tools import AgentDepsT, RunContext, Tool, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from toolcrib.integrations.formats import fitting_definition, restore_arguments
from toolcrib.integrations.selection import (
    DEFAULT_STEPS,
    SEARCH,
    AgentTools,
    AnyCrib,
    RunStep,
    ScopeOf,
    ShownTools,
    StepOptions,
    known_tools,
    scope_in,
    turn_of_messages,
)
from toolcrib.records import Message, Scope, ToolSpec, Turn
from toolcrib.records.codec import is_object
from toolcrib.retrieval.legs import has_words
from toolcrib.retrieval.options import MAX_NEEDS
from toolcrib.store.payload import has_key


def tool_spec(tool: Tool[Any] | ToolDefinition) -> ToolSpec:
    """Convert a tool of Pydantic-AI, or its definition, to a specification."""
    given = tool.tool_def if isinstance(tool, Tool) else tool
    schema = given.parameters_json_schema
    return ToolSpec(name=given.name, description=given.description or "", input_schema=schema)


@dataclass
class ToolcribToolset(WrapperToolset[AgentDepsT], Generic[AgentDepsT]):
    """Toolset that gives a run the wrapped tools that its prompt, and each of its steps, needs.

    The tools are chosen for the prompt, with the conversation as history. At later steps the index
    is searched by the model's last text, and the list grows as `steps` say. Tools unknown to the
    index stay, as do tools in `always_include`. `k` replaces `tools.k`. Schemas are converted to
    the form that all providers accept, and calls back to the tool's own names.

    Raises:
        SettingsError: a name in `always_include` is no tool of the toolset.
        StoreError: a store does not answer.
    """

    crib: AnyCrib
    _: KW_ONLY
    k: int | None = None
    always_include: Sequence[str] = ()
    scope: ScopeOf = None
    steps: StepOptions = DEFAULT_STEPS
    _shown: dict[frozenset[str], ShownTools] = field(
        default_factory=dict[frozenset[str], ShownTools], init=False, repr=False
    )
    _found: list[str] = field(default_factory=list[str], init=False, repr=False)

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Copy of the toolset for one run, which keeps the tools chosen for it."""
        return replace(self, wrapped=await self.wrapped.for_run(ctx))

    async def for_run_step(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Toolset of the run, with the wrapped toolset of the step."""
        self.wrapped = await self.wrapped.for_run_step(ctx)
        return self

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Tools of the step: the search and always included tools first, new tools last."""
        tools = await self.wrapped.get_tools(ctx)
        shown = await asyncio.to_thread(self._choose, ctx, list(tools))
        given = {name: _fit_tool(tools[name]) for name in shown["names"] if name in tools}
        if SEARCH.name in given or SEARCH.name not in shown["names"]:
            return given
        search = ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=SEARCH.name,
                description=SEARCH.description,
                parameters_json_schema=dict(SEARCH.input_schema),
            ),
            max_retries=1,
            args_validator=SchemaValidator(core_schema.dict_schema()),
        )
        return {SEARCH.name: search, **given}

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: ToolsetTool[AgentDepsT],
    ) -> Any:
        """Call a wrapped tool, or search for tools that the next step then has."""
        if tool.toolset is not self:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        shown, called = list(self._shown.values())[-1], _step(ctx.messages).called
        scope = scope_in(ctx, self.scope)
        text, found = await self._choice.asearch(shown, tool_args, called, scope)
        self._found += found
        return text

    @property
    def _choice(self) -> AgentTools:
        return AgentTools(self.crib, self.k, tuple(self.always_include), self.steps)

    def _choose(self, ctx: RunContext[AgentDepsT], names: Sequence[str]) -> ShownTools:
        scope, have = scope_in(ctx, self.scope), frozenset(names)
        before = self._shown.pop(have, None)
        if before is None:
            now = self._choice.for_turn(_turn(ctx, scope), names)
        else:
            step = replace(_step(ctx.messages), found=tuple(self._found))
            now = self._choice.for_step(before, step, scope)
        self._found.clear()
        self._shown[have] = now
        return now


@dataclass(frozen=True, slots=True)
class _OwnNames:
    """Validator of calls that first converts arguments to the tool's own names."""

    spec: ToolSpec
    own: Any

    def validate_json(self, input: str | bytes | bytearray, **options: Any) -> Any:  # noqa: A002
        partial = options.get("allow_partial", False)
        return self.validate_python(from_json(input, allow_partial=partial), **options)

    def validate_python(self, input: Any, **options: Any) -> Any:  # noqa: A002
        given = restore_arguments(self.spec, input) if is_object(input) else input
        return self.own.validate_python(given, **options)


def _fit_tool(tool: ToolsetTool[AgentDepsT]) -> ToolsetTool[AgentDepsT]:
    """Tool with a schema that all providers accept; calls are converted back to its own names."""
    spec = tool_spec(tool.tool_def)
    if (shown := fitting_definition(spec)) is None:
        return tool
    definition = replace(tool.tool_def, parameters_json_schema=shown["input_schema"])
    return replace(tool, tool_def=definition, args_validator=_OwnNames(spec, tool.args_validator))


def tool_search(
    crib: AnyCrib, *, k: int = 10, scope: ScopeOf = None
) -> Callable[[RunContext[Any], Sequence[str], Sequence[ToolDefinition]], Any]:
    """Strategy for Pydantic-AI's `ToolSearch`, which finds deferred tools.

    Each of the model's queries is searched as a separate need.
    """

    def search(
        ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        known = known_tools(crib, [tool.name for tool in tools])
        named = {spec.id: name for name, specs in known.items() for spec in specs}
        where = has_key(tool_id.casefold() for tool_id in named)
        needs = [query for query in queries if has_words(query)][:MAX_NEEDS]
        if where is None or not needs:
            return []
        found = crib.find_tools(needs=needs, k=k, scope=scope_in(ctx, scope), where=where)
        return list(dict.fromkeys(named[hit.id] for hit in found.tools if hit.id in named))

    return partial(asyncio.to_thread, search)


def _turn(ctx: RunContext[Any], scope: Scope | None) -> Turn:
    """Turn of the run's prompt, with the messages before as history."""
    messages, prompt = list(_history(ctx.messages)), _text(ctx.prompt)
    last = next((each.content for each in reversed(messages) if each.role == "user"), "")
    if prompt not in {"", last}:
        messages.append(Message(role="user", content=prompt))
    return turn_of_messages(messages, scope)


def _step(messages: Sequence[ModelMessage]) -> RunStep:
    """Step after the user's last prompt: the model's last text, and its calls."""
    answers: list[ModelResponse] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            answers.append(message)
        elif any(isinstance(part, UserPromptPart) for part in message.parts):
            answers.clear()
    calls = [[call.tool_name for call in each.tool_calls] for each in answers]
    last = answers[-1].parts if answers else ()
    texts = [part.content for part in last if isinstance(part, TextPart)]
    return RunStep.of("\n".join(texts), calls)


def _history(messages: Sequence[ModelMessage]) -> Iterator[Message]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield Message(role="user", content=_text(part.content))
            elif isinstance(part, TextPart):
                yield Message(role="assistant", content=part.content)


def _text(content: Any) -> str:
    """Texts of a prompt, which may also hold files."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part for part in content if isinstance(part, str))
