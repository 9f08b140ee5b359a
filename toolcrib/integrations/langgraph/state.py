"""State and options of a routing graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, TypeAlias, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.graph import MessagesState  # pyright: ignore[reportMissingTypeStubs]

from toolcrib.integrations.selection import DEFAULT_STEPS, ScopeOf, StepOptions
from toolcrib.records import Decision, ToolSpec
from toolcrib.records.codec import adapter
from toolcrib.router.alternates import effect

Update: TypeAlias = dict[str, Any]


class PlanStep(TypedDict):
    """Step of a plan: its goal, the name of its tool, and its state."""

    goal: str
    tool: str
    state: Literal["open", "done"]


class RoutingState(MessagesState, total=False):
    """State of a routing graph.

    `turn` is the id of the user's message; another message resets all fields but `shown`, the
    ids of the conversation's tools. `plan` is the text of the system message, `plan_steps` its
    steps. `decision` is a `Decision` as JSON. `tools` are the names of the model's tools, `ids`
    their ids in the index; `passages` and `citations` may be cited.
    `made` are the last calls, `pending` the calls to repeat, `attempts` the failures of each
    tool, `failed` the ids left out, `needs` descriptions of missing tools. `calls` and `spent_s`
    count against the caps; `step` is the last step of reflection, `notes` are all its notes.
    """

    turn: str
    decision: dict[str, Any]
    tools: list[str]
    ids: dict[str, str]
    shown: list[str]
    passages: list[dict[str, Any]]
    plan: str
    plan_steps: list[PlanStep]
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
    """True if a person should approve a tool's calls, as their effect may be irreversible."""
    return (
        spec.annotations.get("destructiveHint") is True
        or spec.sensitivity == "safety_critical"
        or "destructive" in spec.safety_tags
    )


def may_repeat(spec: ToolSpec) -> bool:
    """True if a call may be repeated: the tool only reads, or is declared idempotent."""
    hints = spec.annotations
    if hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True:
        return True
    return hints.get("readOnlyHint") is None and effect(spec) == "reads"


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Options of a routing graph.

    `k`, `always_include` and `scope` are as in `ToolcribMiddleware`. `prompt` precedes the text
    of `plan`. `model_plans`: the model makes the plan, by one more call a turn, not the order of
    prerequisites. `approve` selects tools whose calls a person must approve. At most `max_calls`
    calls a turn (default: the decision's), and none starts after `limit_s` seconds of work.
    `steps` set how tools are added in later steps; the graph has no tool `find_tools`.
    """

    k: int | None = None
    always_include: tuple[str, ...] = ()
    scope: ScopeOf = None
    prompt: str = ""
    model_plans: bool = False
    approve: Callable[[ToolSpec], bool] = needs_approval
    max_calls: int | None = None
    limit_s: float | None = None
    steps: StepOptions = DEFAULT_STEPS

    def cap(self, decision: Decision) -> int:
        """Number of tool calls that a turn may have."""
        return decision.max_tool_calls if self.max_calls is None else self.max_calls


# -- reading a state -------------------------------------------------------------------------------


def decision_of(state: RoutingState) -> Decision:
    """Decision of the turn."""
    return adapter(Decision).validate_python(state.get("decision"))


def last_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Calls in the last message, if it is the model's."""
    last = messages[-1] if messages else None
    return list(last.tool_calls) if isinstance(last, AIMessage) else []


def broken_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Calls in the last message whose arguments are no JSON, without the arguments."""
    last = messages[-1] if messages else None
    if not isinstance(last, AIMessage):
        return []
    calls = last.invalid_tool_calls
    return [ToolCall(name=call["name"] or "", args={}, id=call["id"]) for call in calls]


def last_results(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """Results of the last calls."""
    results = messages[len(before_results(messages)) :]
    return [message for message in results if isinstance(message, ToolMessage)]


def before_results(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """Messages up to the model's last."""
    end = len(messages)
    while end and not isinstance(messages[end - 1], AIMessage):
        end -= 1
    return messages[:end]


NO_RESULT = "Not carried out: the user wrote on before it was decided."


def with_all_results(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Messages with a result for each call, as providers refuse a call without one.

    A call has none if the user wrote a message while a person had to approve the call.
    """
    answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
    given: list[AnyMessage] = []
    for message in messages:
        calls = [*last_calls([message]), *broken_calls([message])]
        waiting = [call for call in calls if call["id"] not in answered]
        given += [message, *map(_no_result, waiting)]
    return given


def _no_result(call: ToolCall) -> ToolMessage:
    call_id = call["id"] or ""
    return ToolMessage(NO_RESULT, name=call["name"], tool_call_id=call_id, status="error")


def append_new(left: Iterable[str], right: Iterable[str]) -> list[str]:
    """Append new values, each once."""
    return list(dict.fromkeys((*left, *right)))


def seconds_spent(state: RoutingState, began: float) -> float:
    """Seconds that the turn has taken, with the work since the clock time `began`."""
    return state.get("spent_s", 0.0) + perf_counter() - began
