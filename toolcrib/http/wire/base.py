"""What all bodies and answers have in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

__all__ = ["AS_WHOLE", "MAX_K", "Answer", "Body", "Count", "Text", "Words"]

MAX_K = 1000
"""More tools than any turn can use; embedded, there is no such limit."""


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


AS_WHOLE = BeforeValidator(_whole)
"""Stands behind the bounds of a whole number: JSON has one kind of numbers, so 5.0 is one too."""

Count = Annotated[int, Field(ge=1, le=MAX_K), AS_WHOLE]

Words = Annotated[
    str, Field(pattern=r"[^\W_]"), WithJsonSchema({"type": "string", "pattern": r"[\p{L}\p{N}]"})
]
"""Text with at least one letter or digit; where a pattern is documented apart, that is how others
than Python write the same."""

Text = Annotated[str, Field(pattern=r"[^\s\x1c-\x1f\x85\ufeff]")]
"""Text with more than white space, as Python and as JavaScript have it."""


class Body(BaseModel):
    """A body: what is unknown or of another type is refused, not guessed at."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, frozen=True, regex_engine="python-re"
    )


class Answer(BaseModel):
    """What an answer looks like; for the document, since answers are written as they are made."""

    model_config = ConfigDict(extra="forbid")
