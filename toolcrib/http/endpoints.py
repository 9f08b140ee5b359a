"""What an endpoint is to be known by: to the router, to the document, and to tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.responses import Response

from toolcrib.errors import ToolcribError

__all__ = ["NOTHING", "Endpoint", "answer", "nothing"]

NOTHING = 204


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: its docstring says what it does.

    `answer` is what a good answer looks like; None for one without a body, and for one that is no
    JSON but of `media_type`. `errors` are those
    that not every endpoint has. One that `writes` needs a key that may.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    call: Callable[..., Awaitable[Response]]
    tag: str
    answer: type[BaseModel] | None = None
    errors: tuple[type[ToolcribError], ...] = ()
    writes: bool = False
    media_type: str = "application/json"

    @property
    def is_empty(self) -> bool:
        """Whether a good answer has no body."""
        return self.answer is None and self.media_type == "application/json"


def answer(value: Any) -> Response:
    """A good answer; written as JSON once."""
    return Response(to_json(value), media_type="application/json")


def nothing() -> Response:
    """A good answer that has nothing to say."""
    return Response(status_code=NOTHING)
