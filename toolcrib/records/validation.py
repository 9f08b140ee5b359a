"""Validation errors in words: which place of what was handed in is wrong, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

__all__ = ["faults", "in_words"]

TYPE_NAME = re.compile(r"[-\[(']|^(str|TurnBody)$|Json$")
"""What pydantic puts into the way to a field for each type of a union that it tried."""


def faults(error: ValidationError, whole: str = "the whole") -> list[tuple[str, str]]:
    """Place and reason of everything that is wrong; `whole` stands for no place of its own."""
    details = error.errors(include_url=False, include_input=False)
    return [(_place(each) or whole, _reason(each)) for each in details]


def in_words(error: ValidationError, whole: str = "the whole", *, most: int | None = 1) -> str:
    """The first things that are wrong, all of them with None: `place: reason; ...`."""
    return "; ".join(": ".join(each) for each in faults(error, whole)[:most])


def _place(detail: Mapping[str, Any]) -> str:
    """The way to a field, without the names of the types that were tried on it."""
    steps: Sequence[int | str] = detail["loc"]
    # The last step to what is unknown is the caller's own word.
    own = steps[-1:] if detail["type"] in {"extra_forbidden", "unexpected_keyword_argument"} else ()
    tried = steps[: len(steps) - len(own)]
    way = [step for step in tried if isinstance(step, int) or not TYPE_NAME.search(step)]
    return ".".join(map(str, (*way, *own)))


def _reason(detail: Mapping[str, Any]) -> str:
    return str(detail["msg"]).removeprefix("Value error, ")
