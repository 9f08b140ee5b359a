"""Flow: the next step of an agent's loop, from the loop's state alone.

`plan_first`: find the task, select capabilities, plan, then run the plan's steps in order.
`reactive`: the orchestrator chooses one step at a time. Nothing here waits, calls or counts: the
loop does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolcrib.router.recovery import ErrorClass
from toolcrib.router.settings import OrchestrationMode, RecoverySettings

NextNode: TypeAlias = Literal[
    "direct_chat",
    "retry",
    "task",
    "capabilities",
    "plan",
    "step",
    "orchestrator",
    "error",
    "abort",
    "end",
]
"""Next node of the loop: answer without tools; repeat the step after a wait; find the task;
select capabilities; plan; run a step; choose the next step; report the failure to the user;
raise; stop."""

LAST_STEPS = frozenset({"respond", "clarify"})
"""Steps that may end a plan: an answer, or a question to the user."""

Count: TypeAlias = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class LoopState:
    """State of an agent's loop in a turn.

    `capabilities`: those selected, None before the selection. `plan`: names of steps; `step`:
    number of finished steps. `error`: class of the last failure, None after a success; `failure`:
    its text, for prompts. `direct_chat`: True for a chat without tools, or the name of the
    capability that the user chats with. `attempts`: failures of the same step. `reclassifications`,
    `replans` and `iterations` are counted over the turn.
    """

    task: str | None = None
    capabilities: tuple[str, ...] | None = None
    plan: tuple[str, ...] | None = None
    step: Count = 0
    direct_chat: bool | str = False
    error: ErrorClass | None = None
    failure: str = ""
    attempts: Count = 0
    reclassifications: Count = 0
    replans: Count = 0
    iterations: Count = 0
    finished: bool = False

    def after_plan(self, plan: Sequence[str]) -> LoopState:
        """State after planning; a second plan counts as a replan.

        `plan` is empty if the planner failed.
        """
        again = self.replans + (self.plan is not None)
        begun = replace(self, plan=tuple(plan), step=0, replans=again)
        return replace(begun, error=None, failure="", attempts=0)


@dataclass(frozen=True, slots=True)
class FlowStep:
    """Next node of the loop, its step, and the reason.

    `step`: step of the plan, or capability of a direct chat; empty without one.
    """

    node: NextNode
    step: str = ""
    reason: str = ""


def next_node(
    state: LoopState,
    mode: OrchestrationMode = "plan_first",
    limits: RecoverySettings | None = None,
) -> FlowStep:
    """Choose the next step of a loop; `limits` sets the number of repetitions."""
    limits = limits or RecoverySettings()
    found = _step_in_any_mode(state, limits)
    if found is not None:
        return found
    return _reactive(state) if mode == "reactive" else _plan_first(state, limits)


def _step_in_any_mode(state: LoopState, limits: RecoverySettings) -> FlowStep | None:
    if state.finished:
        return FlowStep("end", reason="the loop is finished")
    if state.direct_chat:
        name = "" if state.direct_chat is True else state.direct_chat
        return FlowStep("direct_chat", name, "the user only talks")
    if state.error == "fatal":
        return FlowStep("abort", reason="a fatal error")
    if state.iterations >= limits.iterations:
        return FlowStep("error", reason=f"the loop took {limits.iterations} iterations")
    if state.error == "retriable" and state.attempts < limits.max_attempts:
        plan = state.plan or ()
        name = plan[state.step] if state.step < len(plan) else ""
        return FlowStep("retry", name, "the step may work later")
    return None


def _plan_first(state: LoopState, limits: RecoverySettings) -> FlowStep:
    if state.error is None:
        return _step_before_plan(state) or _step_of_plan(state, limits)
    if state.error == "reclassify" and state.reclassifications < limits.reclassifications:
        return FlowStep("capabilities", reason="other capabilities are needed")
    if state.error == "replan" and state.replans < limits.replans:
        return FlowStep("plan", reason="another plan is needed")
    return FlowStep("error", reason=f"{state.error}, and no repetitions are left")


def _step_before_plan(state: LoopState) -> FlowStep | None:
    if not (state.task or "").strip():
        return FlowStep("task", reason="the task is unknown")
    if state.capabilities is None:
        return FlowStep("capabilities", reason="no capabilities were selected yet")
    return None


def _step_of_plan(state: LoopState, limits: RecoverySettings) -> FlowStep:
    """Next step of a plan; without a usable plan, another call of the planner within limits."""
    if state.plan is None and state.replans <= limits.replans:
        return FlowStep("plan", reason="there is no plan")
    plan = state.plan or ()
    fault = _fault_of(plan, state.capabilities or (), limits)
    if fault:
        again = state.replans < limits.replans
        return FlowStep("plan" if again else "error", reason=fault)
    if state.step >= len(plan):
        return FlowStep("end", reason="every step of the plan is done")
    return FlowStep("step", plan[state.step], "the next step of the plan")


def _fault_of(plan: Sequence[str], capabilities: Sequence[str], limits: RecoverySettings) -> str:
    if not plan:
        return "the planner gave no plan"
    if len(plan) > limits.iterations:
        return f"the plan has more than {limits.iterations} steps"
    if unknown := [step for step in plan if step not in {*capabilities, *LAST_STEPS}]:
        return f"the plan has the step {unknown[0]!r}, which is no selected capability"
    return "" if plan[-1] in LAST_STEPS else "the plan ends in no answer and no question"


def _reactive(state: LoopState) -> FlowStep:
    if state.error is not None:
        return FlowStep("orchestrator", reason=f"{state.error}: the orchestrator decides")
    if (before := _step_before_plan(state)) is not None:
        return before
    if state.plan is not None and state.step < len(state.plan):
        return FlowStep("step", state.plan[state.step], "the step that was chosen")
    return FlowStep("orchestrator", reason="the next step is to be chosen")
