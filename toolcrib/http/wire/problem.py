"""What went wrong, over the wire."""

from __future__ import annotations

from pydantic import Field

from toolcrib.http.wire.base import Answer

__all__ = ["FaultAnswer", "ProblemAnswer"]


class FaultAnswer(Answer):
    """One place of a request that is wrong."""

    place: str
    reason: str


class ProblemAnswer(Answer):
    """A problem, as RFC 9457 has it.

    `nearest` are ids or names that look like an unknown one, within the key's scope. `errors`
    are the places of a request that are wrong. After `retry_after_s` seconds it may be asked
    again.
    """

    type: str = Field(pattern=r"^urn:toolcrib:problem:[a-z-]+$")
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str = Field(pattern=r"^urn:toolcrib:request:.+$")
    nearest: list[str] = Field(default=[])
    errors: list[FaultAnswer] = Field(default=[])
    retry_after_s: float | None = None
