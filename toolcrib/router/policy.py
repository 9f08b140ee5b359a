"""What an agent's loop does after a failed call: asked for one step at a time, it never waits."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolcrib.errors import SettingsError
from toolcrib.router.error_rules import REFUSED, Diagnosis, ErrorClass, classify, diagnose

__all__ = ["Action", "ErrorClass", "RecoveryPolicy", "RecoverySettings", "Step", "classify"]

Action: TypeAlias = Literal["retry", "alternate", "reclassify", "replan", "stop"]
"""Call the same again; call another tool that does the same; search anew; let the agent think
again with the error before it; end the turn."""

AGAIN: dict[ErrorClass, Action] = {
    "retriable": "retry",
    "reclassify": "reclassify",
    "replan": "replan",
}

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """How often a call is tried, and how long is waited between.

    The wait before attempt n + 1 is `base_s * factor ** (n - 1)`, at most `cap_s`, give or take
    the share `jitter` of it. Nobody waits longer than `cap_s`, whatever a server asks.
    """

    max_attempts: Annotated[int, Field(ge=1)] = 3
    base_s: Seconds = 0.5
    factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    cap_s: Seconds = 30.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.1

    def __post_init__(self) -> None:
        if self.base_s > self.cap_s:
            raise SettingsError(
                f"recovery.base_s is {self.base_s:g}, above recovery.cap_s ({self.cap_s:g}); "
                "the first wait cannot be longer than the longest",
            )


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next, after how many seconds, and why, in words fit for a log."""

    action: Action
    after_s: float
    reason: str


class RecoveryPolicy:
    """Says what follows a failed call; holds nothing but settings and the source of jitter."""

    def __init__(
        self, settings: RecoverySettings | None = None, random: Random | None = None
    ) -> None:
        self._settings = settings or RecoverySettings()
        self._random = random or Random()  # noqa: S311 jitter is no secret

    def next_step(
        self,
        error: BaseException | int | str,
        attempt: int,
        *,
        alternates: bool = True,
        repeatable: bool = True,
    ) -> Step:
        """The step after the failure of an attempt, the first being 1.

        `error`: an exception, an HTTP status or MCP error code, or the error's text.
        `alternates`: whether there is another tool to turn to. `repeatable`: whether it does
        no harm if the call is carried out twice; where it does, a call that may have been
        carried out is neither repeated nor given to another tool.
        """
        found = diagnose(error)
        told = f"{found.kind} ({found.why}), attempt {attempt} of {self._settings.max_attempts}"
        if found.kind == "critical":
            return Step("stop", 0.0, told)
        if found.kind == "retriable" and not repeatable and found.status not in REFUSED:
            return self._once_only(attempt, told)
        if attempt >= self._settings.max_attempts:
            return _elsewhere(alternates, f"{told}: the last")
        if found.kind != "retriable":
            return Step(AGAIN[found.kind], 0.0, told)
        return self._retry(found, attempt, told, alternates=alternates)

    def _once_only(self, attempt: int, told: str) -> Step:
        action: Action = "replan" if attempt < self._settings.max_attempts else "stop"
        return Step(action, 0.0, f"{told}: it may have been carried out, and must not be twice")

    def _retry(self, found: Diagnosis, attempt: int, told: str, *, alternates: bool) -> Step:
        asked = found.retry_after_s or 0.0
        if asked > self._settings.cap_s:
            return _elsewhere(alternates, f"{told}: a wait of {asked:g} s is asked for, too long")
        return Step("retry", max(asked, self._wait(attempt)), told)

    def _wait(self, attempt: int) -> float:
        chosen = self._settings
        try:
            wait = chosen.base_s * chosen.factor ** max(0, attempt - 1)
        except OverflowError:
            wait = chosen.cap_s
        spread = 1 + chosen.jitter * self._random.uniform(-1, 1)
        return min(chosen.cap_s, min(chosen.cap_s, wait) * spread)


def _elsewhere(alternates: bool, reason: str) -> Step:  # noqa: FBT001
    return Step("alternate" if alternates else "stop", 0.0, reason)
