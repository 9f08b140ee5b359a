"""Pydantic-AI integration: the tools that each run needs, and a search for deferred tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Generic, TypeAlias

from toolcrib.errors import MissingExtraError

try:
    from pydantic_ai.messages import ModelMessage, TextPart, UserPromptPart
    from pydantic_ai.tools import AgentDepsT, RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
except ImportError as missing:
    raise MissingExtraError("toolsets of Pydantic-AI", "pydantic-ai") from missing

from toolcrib.integrations.selection import AnyCrib, any_of, known_tools, tools_for_turn
from toolcrib.records import Message, Scope, ToolSpec, Turn
from toolcrib.retrieval.legs import has_words
from toolcrib.retrieval.options import MAX_NEEDS

RunScope: TypeAlias = Scope | Callable[[RunContext[Any]], Scope | None] | None
"""Scope of the caller, or a function of the run, whose `deps` identify the caller."""


def tool_spec(tool: ToolDefinition) -> ToolSpec:
    """Convert a tool of Pydantic-AI to a specification."""
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.parameters_json_schema,
    )


@dataclass
class ToolcribToolset(WrapperToolset[AgentDepsT], Generic[AgentDepsT]):
    """Toolset that gives a run the wrapped tools that its prompt needs.

    The tools are chosen once a run, with the conversation as history. Tools unknown to the index
    stay, as do tools in `always_include`. `k` replaces `tools.k`.

    Raises:
        SettingsError: the toolset has no tool of a name in `always_include`.
        StoreError: a store does not answer.
    """

    crib: AnyCrib
    _: KW_ONLY
    k: int | None = None
    always_include: Sequence[str] = ()
    scope: RunScope = None
    _chosen: dict[frozenset[str], tuple[str, ...]] = field(
        default_factory=dict[frozenset[str], tuple[str, ...]], init=False, repr=False
    )

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Copy of the toolset for one run, which keeps the run's choice."""
        return replace(self, wrapped=await self.wrapped.for_run(ctx))

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Tools of the run, the always included first."""
        tools = await self.wrapped.get_tools(ctx)
        have = frozenset(tools)
        if have not in self._chosen:
            found = await asyncio.to_thread(
                tools_for_turn,
                self.crib,
                _turn(ctx, self.scope(ctx) if callable(self.scope) else self.scope),
                list(tools),
                k=self.k,
                always=self.always_include,
            )
            self._chosen[have] = found.names
        return {name: tools[name] for name in self._chosen[have]}


def tool_search(
    crib: AnyCrib, *, k: int = 10, scope: RunScope = None
) -> Callable[[RunContext[Any], Sequence[str], Sequence[ToolDefinition]], Any]:
    """Strategy for Pydantic-AI's `ToolSearch`, which finds deferred tools.

    Each of the model's queries is searched as a separate need.
    """

    def search(
        ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        known = known_tools(crib, [tool.name for tool in tools])
        named = {spec.id: name for name, specs in known.items() for spec in specs}
        where = any_of({tool_id.casefold() for tool_id in named})
        needs = [query for query in queries if has_words(query)][:MAX_NEEDS]
        if where is None or not needs:
            return []
        reach = scope(ctx) if callable(scope) else scope
        found = crib.find_tools(needs=needs, k=k, scope=reach, where=where)
        return list(dict.fromkeys(named[hit.id] for hit in found.tools if hit.id in named))

    async def asearch(
        ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        return await asyncio.to_thread(search, ctx, queries, tools)

    return asearch


def _turn(ctx: RunContext[Any], scope: Scope | None) -> Turn:
    """Turn of the run's prompt, with the messages before as history."""
    history = list(_history(ctx.messages))
    now = _text(ctx.prompt)
    users = [at for at, message in enumerate(history) if message.role == "user"]
    if users and (not now or history[users[-1]].content == now):
        now = history[users[-1]].content
        history = history[: users[-1]]
    return Turn(text=now, history=tuple(history), scope=scope)


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
