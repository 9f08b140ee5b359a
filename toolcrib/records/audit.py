"""Audit: findings in the texts of tools, and the tools held back for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

from toolcrib.records.tools import ToolSpec

Severity: TypeAlias = Literal["info", "warning", "block"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding in a text of a tool, ready to be shown.

    `tool` is the tool's id, `place` the way to the text within its specification, such as
    `input_schema.properties.path.description`.
    """

    severity: Severity
    rule: str
    tool: str
    place: str
    excerpt: str
    why: str


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _unix(at: Any) -> Any:
    return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else at


@dataclass(frozen=True, slots=True)
class Held:
    """Tool held back: the reason, the findings, and the time since when.

    `since` is Unix time, in JSON ISO 8601 in UTC. `was_digest` is that of what was
    approved under its id before, None for a new tool. `written_by` is the id of the key that
    first sent it so, empty where no key did.
    """

    tool_id: str
    server: str
    digest: str
    was_digest: str | None
    reason: str
    findings: tuple[Finding, ...]
    since: Annotated[float, BeforeValidator(_unix), PlainSerializer(_iso, return_type=str)]
    spec: ToolSpec
    written_by: str = ""


@dataclass(frozen=True, slots=True)
class HeldTools:
    """Held tools in the caller's reach."""

    held: tuple[Held, ...]
