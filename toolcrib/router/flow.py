"""Flow: the next step of an agent's loop, told from its state alone.

`plan_first`: a task, capabilities, a plan, then its steps one after the other. `reactive`: the
orchestrator chooses one step at a time. Nothing here waits, calls or counts: the loop does, and
hands in what it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolcrib.router.recovery import ErrorClass
from toolcrib.router.settings import OrchestrationMode, RecoverySettings

__all__ = ["LAST_STEPS", "MAX_ITERATIONS", "FlowStep", "LoopState", "NextNode", "next_node"]

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
"""Where the loop goes: answer without tools; do the same again, when the policy's wait is over;
find out what is wanted; select capabilities; plan; do a step of the plan; choose the next step;
tell the user what failed; raise; stop."""

LAST_STEPS = frozenset({"respond", "clarify"})
"""A plan ends in an answer, or in a question to the user."""

MAX_ITERATIONS = 100
"""Of a reactive loop."""


@dataclass(frozen=True, slots=True)
class LoopState:
    """What a loop knows of a turn.

    `capabilities`: those selected, None before that (none selected is a selection). `plan`: names
    of steps; `step`: how many are done. `error`: the class of the last failure, None where nothing
    failed since; `failure` says it in words, for prompts. `attempts`: failures of the same step so
    far. `reclassifications`, `replans` and `iterations` are counted over the turn.
    """

    task: str | None = None
    capabilities: tuple[str, ...] | None = None
    plan: tuple[str, ...] | None = None
    step: int = 0
    direct_chat: bool = False
    error: ErrorClass | None = None
    failure: str = ""
    attempts: int = 0
    reclassifications: int = 0
    replans: int = 0
    iterations: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True)
class FlowStep:
    """Where the loop goes next, which step of the plan that is (empty for none), and why."""

    node: NextNode
    step: str = ""
    reason: str = ""


def next_node(
    state: LoopState,
    mode: OrchestrationMode = "plan_first",
    limits: RecoverySettings | None = None,
) -> FlowStep:
    """The next step of a loop; `limits`: how often things are tried again."""
    limits = limits or RecoverySettings()
    return _reactive(state, limits) if mode == "reactive" else _plan_first(state, limits)


def _plan_first(state: LoopState, limits: RecoverySettings) -> FlowStep:
    if state.direct_chat:
        return FlowStep("direct_chat", reason="the user only talks")
    if state.error is not None:
        return _after_error(state, state.error, limits)
    if state.finished:
        return FlowStep("end", reason="it is finished")
    return _before_plan(state) or _of_plan(state, limits)


def _after_error(state: LoopState, error: ErrorClass, limits: RecoverySettings) -> FlowStep:
    if error == "fatal":
        return FlowStep("abort", reason="a fatal error")
    if error == "retriable" and state.attempts < limits.max_attempts:
        return _retry(state)
    if error == "reclassify" and state.reclassifications < limits.reclassifications:
        return FlowStep("capabilities", reason="other capabilities are needed")
    if error == "replan" and state.replans < limits.replans:
        return FlowStep("plan", reason="another plan is needed")
    return FlowStep("error", reason=f"{error}, and nothing is left to try")


def _retry(state: LoopState) -> FlowStep:
    plan = state.plan or ()
    name = plan[state.step] if state.step < len(plan) else ""
    return FlowStep("retry", name, "it may work later")


def _before_plan(state: LoopState) -> FlowStep | None:
    if state.task is None:
        return FlowStep("task", reason="it is not known what is wanted")
    if state.capabilities is None:
        return FlowStep("capabilities", reason="none were selected yet")
    return None


def _of_plan(state: LoopState, limits: RecoverySettings) -> FlowStep:
    if state.plan is None:
        return FlowStep("plan", reason="there is no plan")
    if not state.plan or state.plan[-1] not in LAST_STEPS:
        if state.replans < limits.replans:
            return FlowStep("plan", reason="the plan ends in no answer and no question")
        return FlowStep("error", reason="no plan ends in an answer or a question")
    if state.step >= len(state.plan):
        return FlowStep("end", reason="every step of the plan is done")
    return FlowStep("step", state.plan[state.step], "the next step of the plan")


def _reactive(state: LoopState, limits: RecoverySettings) -> FlowStep:
    if state.finished:
        return FlowStep("end", reason="it is finished")
    if state.iterations >= MAX_ITERATIONS:
        return FlowStep("error", reason=f"it took {MAX_ITERATIONS} iterations")
    if state.direct_chat:
        return FlowStep("direct_chat", reason="the user only talks")
    if state.error is not None:
        return _to_orchestrator(state, state.error, limits)
    return _before_plan(state) or _chosen(state)


def _to_orchestrator(state: LoopState, error: ErrorClass, limits: RecoverySettings) -> FlowStep:
    if error == "fatal":
        return FlowStep("abort", reason="a fatal error")
    if error == "retriable" and state.attempts < limits.max_attempts:
        return _retry(state)
    return FlowStep("orchestrator", reason=f"{error}: it decides what to do")


def _chosen(state: LoopState) -> FlowStep:
    if state.plan is not None and state.step < len(state.plan):
        return FlowStep("step", state.plan[state.step], "the step that was chosen")
    return FlowStep("orchestrator", reason="the next step is to be chosen")
