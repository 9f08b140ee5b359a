"""Guidance: what an agent did, as events, and the short hints that are given for it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from toolcrib.records.codec import Score

EventKind: TypeAlias = Literal["tool", "prompt", "search", "other"]
"""A call of a tool, a message, a search for tools, or an unreadable event."""

FIELD_ALIASES = {
    "name": ("tool", "tool_name"),
    "parameters": ("arguments", "args", "input", "tool_input"),
    "success": ("ok",),
    "text": ("content",),
    "result": ("output", "tool_response"),
}
"""Names of an event's fields in other formats."""


class TrajectoryEvent(BaseModel):
    """Event of an agent's work; `at` is in seconds of any clock, None if unknown.

    Without `success`, the text of the result decides. `found` are the names of the tools that a
    search gave. Dictionaries of other shapes are read for their call or message, and their other
    fields kept. An unreadable dictionary becomes an event of type `other`, which guidance ignores.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    type: EventKind = "tool"
    at: float | None = Field(default=None, allow_inf_nan=False)
    name: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    success: bool | None = None
    error: str | None = None
    result: Any = None
    text: str = ""
    found: tuple[str, ...] = ()

    @model_validator(mode="wrap")
    @classmethod
    def _read_any_dictionary(cls, given: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(given, Mapping):
            return read(given)
        fields = cast("Mapping[str, Any]", given)
        try:
            return read(_with_own_names(fields))
        except ValidationError:
            return read({"type": "other", "given": dict(fields)})


def _with_own_names(given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in given.items() if key != "type"}
    kind = given.get("type")
    if kind == "other":
        return {**fields, "type": kind}
    for ours, others in FIELD_ALIASES.items():
        for theirs in others + (("query",) if (kind, ours) == ("search", "text") else ()):
            if ours not in fields and theirs in fields:
                fields[ours] = fields.pop(theirs)
    if fields.get("error") is not None:
        fields["error"] = str(fields["error"])
        fields.setdefault("success", False)
    if isinstance(fields.get("at"), str):
        fields["at"] = _seconds(fields["at"])
    if kind not in get_args(EventKind):
        kind = "tool" if fields.get("name") else "prompt" if "text" in fields else "other"
    return {**fields, "type": kind}


def _seconds(at: str) -> float | str:
    with suppress(ValueError):
        return datetime.fromisoformat(at).timestamp()
    return at


@dataclass(frozen=True, slots=True)
class TrajectoryPattern:
    """Pattern in a trajectory; detectors add fields of their own.

    `confidence` is from 0 to 1, and no probability. `first_seen` is the time of the first event,
    `occurrences` the number of repetitions, `evidence` a short description.
    """

    type: str
    confidence: Score
    evidence: str
    first_seen: float
    occurrences: int


class GuidanceInjection(BaseModel):
    """Short hint for an agent; the lowest `priority` comes first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    content: str = Field(min_length=1, max_length=500)
    priority: int = 100
    category: str = "recovery"


@dataclass(frozen=True, slots=True)
class Guidance:
    """The hints for a trajectory, and the patterns that it shows."""

    injections: tuple[GuidanceInjection, ...] = ()
    patterns: tuple[TrajectoryPattern, ...] = ()
