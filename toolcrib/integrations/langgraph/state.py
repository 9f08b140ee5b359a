"""State and options of a routing graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs]

from toolcrib.integrations.langchain import ScopeOf
from toolcrib.records import Decision, ToolSpec
from toolcrib.records.codec import adapter
from toolcrib.router.alternates import effect

Update: TypeAlias = dict[str, Any]


class RoutingState(MessagesState, total=False):
    """What a routing graph knows.

    `turn` is the id of the user's message that all below is about; a later one begins anew, but
    for `shown`, the ids of tools that the conversation had. `decision` is a `Decision` as JSON.
    `tools` are the names that the model is given, `ids` their ids in the index, `passages` and
    `citations` what it may cite. `made` are the calls just made, `pending` those to be made again,
    `attempts` the failures of each tool, `failed` ids that are given no more, `needs` what was
    missed. `calls` and `spent_s` count against the caps; `step` is what reflection said last, and
    `notes` all that it said.
    """

    turn: str
    decision: dict[str, Any]
    tools: list[str]
    ids: dict[str, str]
    shown: list[str]
    passages: list[dict[str, Any]]
    plan: str
    made: list[ToolCall]
    pending: list[ToolCall]
    attempts: dict[str, int]
    failed: list[str]
    needs: list[str]
    calls: int
    spent_s: float
    step: dict[str, Any]
    notes: list[str]
    citations: list[dict[str, Any]]


def needs_approval(spec: ToolSpec) -> bool:
    """Whether a tool is one that a person should approve: what it does may not be undone."""
    return (
        spec.annotations.get("destructiveHint") is True
        or spec.sensitivity == "safety_critical"
        or "destructive" in spec.safety_tags
    )


def may_repeat(spec: ToolSpec) -> bool:
    """Whether a call does no harm if it is carried out twice: it only reads, or says so."""
    hints = spec.annotations
    if hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True:
        return True
    return hints.get("readOnlyHint") is None and effect(spec) == "reads"


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """How a graph routes.

    `k`, `always_include` and `scope` are as in `ToolcribMiddleware`. `prompt` stands before what
    `plan` writes. `approve` says of which tools a person must approve calls. At most `max_calls`
    calls a turn, and none begins after `limit_s` seconds of work; without, what the decision
    says, and no limit.
    """

    k: int | None = None
    always_include: tuple[str, ...] = ()
    scope: ScopeOf = None
    prompt: str = ""
    approve: Callable[[ToolSpec], bool] = needs_approval
    max_calls: int | None = None
    limit_s: float | None = None

    def cap(self, decision: Decision) -> int:
        """How many calls of tools a turn may have."""
        return decision.max_tool_calls if self.max_calls is None else self.max_calls


# -- what is in it ---------------------------------------------------------------------------------


def decision_of(state: RoutingState) -> Decision:
    """The decision of the turn."""
    return adapter(Decision).validate_python(state.get("decision"))


def last_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls that the model asks for, where it said the last."""
    last = messages[-1] if messages else None
    return list(last.tool_calls) if isinstance(last, AIMessage) else []


def last_results(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """The results of the last calls."""
    results = messages[len(before_results(messages)) :]
    return [message for message in results if isinstance(message, ToolMessage)]


def before_results(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """All up to what the model said last."""
    end = len(messages)
    while end and not isinstance(messages[end - 1], AIMessage):
        end -= 1
    return messages[:end]


def spent(state: RoutingState, began: float) -> float:
    """The seconds that the turn has taken, with what began at this reading of the clock."""
    return state.get("spent_s", 0.0) + perf_counter() - began
