"""Queries: what one must be to be answered, and what one without words gets."""

from __future__ import annotations

from typing import Literal

from toolcrib.errors import QueryError
from toolcrib.records import FindResult
from toolcrib.store.filters import Filter, validate

__all__ = ["check_query", "has_words", "wordless"]


def has_words(text: str) -> bool:
    """Whether there is anything to search by: a letter or a digit of any script."""
    return any(letter.isalnum() for letter in text)


def wordless(query: str) -> FindResult:
    """The answer to a query that holds no words: nothing can be searched by."""
    return FindResult(
        query=query,
        tools=(),
        took_ms={"total": 0.0},
        verdict="abstain",
        reason="the query holds no words",
        degraded=("no-words",),
    )


def check_query(query: str, k: int | Literal["auto"], where: Filter | None) -> None:
    """Stop what cannot be answered.

    Raises:
        QueryError: an empty query, an impossible `k`, or a filter on an unknown field.
    """
    if not query.strip():
        raise QueryError("the query is empty: say in a few words what the tool must do")
    if k != "auto" and k < 1:
        raise QueryError(f"k is {k}; at least one tool must be asked for")
    if where is not None:
        validate(where)
