"""Anthropic integration: `tools=` for a turn, and a search for deferred tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from toolcrib.extras import needs_extra

with needs_extra("tools for Anthropic's models", "anthropic"):
    from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
    from anthropic.types.beta import (
        BetaRequestToolAdditionBlockParam,
        BetaRequestToolRemovalBlockParam,
    )

from toolcrib.integrations.formats import (
    Definitions,
    ToolNames,
    export,
    tool_addition,
    tool_removal,
)
from toolcrib.integrations.selection import (
    DEFAULT_STEPS,
    SEARCH,
    AnyCrib,
    StepOptions,
    nothing_found,
    tools_wanted,
)
from toolcrib.records import Scope, ToolSpec, Turn
from toolcrib.records.definitions import definition_tokens

ToolChangeBlock: TypeAlias = BetaRequestToolAdditionBlockParam | BetaRequestToolRemovalBlockParam


def turn_tools(
    crib: AnyCrib, turn: Turn | str, *, k: int | None = None
) -> tuple[list[ToolParam], ToolNames]:
    """Return the `tools=` of a turn, and the ids by their names.

    `names.call(block.name, block.input)` gives the id and the arguments of a call.

    Raises:
        StoreError: a store does not answer.
    """
    made = Definitions.of(crib.route(turn, k=k).tools.tools, "anthropic")
    return cast("list[ToolParam]", made.tools), made.names


def deferred_tools(
    crib: AnyCrib, *, scope: Scope | None = None
) -> tuple[list[ToolParam], ToolNames]:
    """Return all enabled tools in scope as deferred tools after the search tool, and their ids.

    The list is the same for every request, so that a prompt cache holds. You may add your own
    tools.

    Raises:
        StoreError: the store does not answer.
    """
    tools = sorted(
        (tool for tool in crib.list_tools(scope=scope) if tool.enabled), key=lambda tool: tool.id
    )
    search = {"name": SEARCH.name, "description": SEARCH.description}
    made = Definitions.of(tools, "anthropic-deferred")
    listed = [{**search, "input_schema": SEARCH.input_schema}, *made.tools]
    return cast("list[ToolParam]", listed), made.names


def search_result(
    crib: AnyCrib, call: ToolUseBlock, *, k: int = 5, scope: Scope | None = None
) -> ToolResultBlockParam | None:
    """Answer a call of the search with a `tool_result`; None for a call of another tool.

    Raises:
        StoreError: the store does not answer.
    """
    if call.name != SEARCH.name:
        return None
    tools = tools_wanted(crib, call.input, k=k, scope=scope)
    text = {"type": "text", "text": nothing_found(call.input)}
    content = export(tools, "tool_reference") or [text]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return cast("ToolResultBlockParam", result)


# -- tools in the middle of a conversation ---------------------------------------------------------

INLINE_TOOLS_BETA = "inline-tools-2026-09-15"
"""Beta of the Messages API that takes the blocks of `turn_blocks` and `step_blocks`."""

KEEP_TURNS = 3
"""Turns for which a tool stays offered after the last turn that needed the tool."""


@dataclass(slots=True)
class InlineTools:
    """Tools defined so far in a conversation, and the last turn that needed each tool.

    `called` has the calls in their order; a called tool stays offered. `tokens` estimates the
    definitions in the conversation.
    """

    turns: int = 0
    task: str = ""
    tokens: int = 0
    defined: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    offered: dict[str, int] = field(default_factory=dict[str, int])
    called: list[str] = field(default_factory=list[str])
    tools: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Note a call; return the id of its tool, and the arguments with the tool's own names.

        Raises:
            UnknownToolError: no tool of the conversation has the name.
        """
        found = ToolNames(self.tools.items()).call(name, arguments)
        self.called.append(name)
        return found

    def ids(self, names: Iterable[str]) -> list[str]:
        """Ids of tools by their names."""
        return [self.tools[name].id for name in names]

    def add(self, found: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Offer tools; return the blocks of tools that are new, changed or not offered yet."""
        made, specs = Definitions.of(found, "anthropic"), {tool.id: tool for tool in found}
        blocks: list[dict[str, Any]] = []
        for definition in made.tools:
            name = definition["name"]
            is_known = self.defined.get(name) == definition
            self.tools[name] = specs[made.names[name]]
            if not is_known:
                self.tokens += definition_tokens(self.tools[name], "schema")
            if not is_known or name not in self.offered:
                blocks.append(tool_addition(name if is_known else definition))
            self.defined[name], self.offered[name] = definition, self.turns
        return blocks


def turn_blocks(
    crib: AnyCrib,
    turn: Turn | str,
    state: InlineTools,
    *,
    k: int | None = None,
    keep_turns: int = KEEP_TURNS,
) -> list[ToolChangeBlock]:
    """Return the content of a `system` message that changes the tools for a turn; updates `state`.

    The message comes after the user's; without blocks it is not needed. A new or changed tool is
    defined, a known tool is referred to, and a tool that neither the last `keep_turns` turns nor a
    call needed is removed. `tools=` and all earlier messages do not change, so that a prompt cache
    holds.

    Raises:
        StoreError: a store does not answer.
    """
    decision = crib.route(turn, k=k, shown=state.ids(state.offered))
    state.turns += 1
    state.task = turn if isinstance(turn, str) else turn.text
    blocks = state.add([hit.tool for hit in decision.tools.tools])
    for name, last in list(state.offered.items()):
        if last <= state.turns - keep_turns - 1 and name not in state.called:
            del state.offered[name]
            blocks.append(tool_removal(name))
    return cast("list[ToolChangeBlock]", blocks)


def step_blocks(
    crib: AnyCrib,
    said: str,
    state: InlineTools,
    *,
    scope: Scope | None = None,
    steps: StepOptions = DEFAULT_STEPS,
) -> list[ToolChangeBlock]:
    """Return the content of a `system` message with the next step's new tools; updates `state`.

    `said` is the model's text beside its last calls; the message comes after their results. As in
    the other integrations, tools are added only if one of the first few found is not offered. No
    tool is removed, and no earlier message changes.

    Raises:
        StoreError: the store does not answer.
    """
    called = state.ids(state.called)
    task = state.task.strip() or said
    found = crib.find_tools(said, steps.added, scope=scope, called=called, task=task)
    tools = [hit.tool for hit in found.tools]
    offered = set(state.ids(state.offered))
    is_shown = all(tool.id in offered for tool in tools[: steps.first])
    return cast("list[ToolChangeBlock]", [] if is_shown else state.add(tools))
