"""What a call to the service is, and how several of them make one piece of work."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from toolcrib.errors import QueryError
from toolcrib.records import Scope
from toolcrib.store.filters import Filter, filter_to_json, validate

__all__ = ["DONE", "Call", "Steps", "as_json", "filter_as_json", "given", "quoted", "scope_as_json"]

Answer = TypeVar("Answer")
Answered_co = TypeVar("Answered_co", covariant=True)

OK = 200
DONE = 204
"""What a good answer without a body has for its status."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Answered_co]):
    """One request.

    `read` makes records of the answer's JSON, of None where there is no body. `about` is the
    tool or collection that an error may be about. `status` is that of a good answer. What is
    not `repeatable` would be there twice if it were done twice.
    """

    method: str
    path: str
    read: Callable[[Any], Answered_co]
    body: Mapping[str, Any] | None = None
    about: str = ""
    status: int = OK
    repeatable: bool = True


Steps: TypeAlias = Generator[Call[Any], Any, Answer]
"""Work of several calls: yields each, is sent its answer or thrown its error, and returns."""


def as_json(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent.

    Raises:
        QueryError: it holds what JSON has no word for.
    """
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise QueryError(f"the request holds a value that JSON cannot: {error}") from error


def quoted(name: str) -> str:
    """A name as one step of a path."""
    if name in {".", ".."}:
        # They mean "here" and "above" in a path, and would be taken out of it.
        return name.replace(".", "%2E")
    return quote(name, safe="", errors="surrogatepass")


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def scope_as_json(scope: Scope | None) -> dict[str, Any] | None:
    """A scope as the service takes it."""
    if scope is None:
        return None
    named = given(**{each.name: getattr(scope, each.name) for each in fields(scope)})
    return {k: v if k == "max_sensitivity" else sorted(v) for k, v in named.items()}


def filter_as_json(where: Filter | None) -> dict[str, Any] | None:
    """A filter as the service takes it.

    Raises:
        QueryError: it names an unknown field, or points by their number.
    """
    if where is None:
        return None
    validate(where)
    return filter_to_json(where)
