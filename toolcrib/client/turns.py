"""Turns: read, decided, and what came of them; and questions to the collections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError

from toolcrib.client.answers import (
    context_of,
    decision_of,
    read_hits,
    read_knowledge,
    read_nothing,
)
from toolcrib.client.calls import DONE, Call, given, scope_as_json
from toolcrib.errors import FeedbackError, QueryError, UnknownToolError
from toolcrib.records import (
    Context,
    Decision,
    KnowledgeResult,
    Outcome,
    Scope,
    ToolHit,
    Turn,
)
from toolcrib.retrieval.hybrid import has_words
from toolcrib.router.decision_log import Feedback

__all__ = ["alternates", "detect", "feedback", "find_knowledge", "report_outcome", "route"]


def find_knowledge(query: str, *, scope: Scope | None = None) -> Call[KnowledgeResult]:
    """The passages that answer a question.

    Raises:
        QueryError: a query without words.
    """
    if not has_words(query):
        raise QueryError("the question is empty: say in a few words what is to be known")
    body = given(query=query, scope=scope_as_json(scope))
    return Call("POST", "/v1/knowledge/search", read_knowledge, body)


def detect(turn: Turn | str) -> Call[Context]:
    """What kind of turn it is."""
    body = _turn_as_json(turn)
    return Call("POST", "/v1/detect", partial(context_of, body["text"]), body)


def route(
    turn: Turn | str,
    *,
    k: int | None = None,
    budget_ms: float | None = None,
    shown: Sequence[str] = (),
) -> Call[Decision]:
    """A turn's decision.

    Raises:
        QueryError: an impossible `k`.
    """
    _check(k)
    body = _turn_as_json(turn)
    how = given(k=k, budget_ms=budget_ms, shown=list(shown), shape="full")
    return Call("POST", "/v1/route", partial(decision_of, body["text"]), body | how)


def alternates(
    failed_tool: str, turn: Turn | str, *, decision_id: str | None = None, k: int = 3
) -> Call[tuple[ToolHit, ...]]:
    """The next best tools for what a failed one was to do.

    Raises:
        UnknownToolError: no tool has the id of the failed one.
        QueryError: an impossible `k`.
    """
    if not failed_tool:
        raise UnknownToolError(failed_tool)
    _check(k)
    turn_json = _turn_as_json(turn)
    body = given(failed_tool=failed_tool, turn=turn_json, decision_id=decision_id, k=k)
    body["shape"] = "full"
    return Call("POST", "/v1/alternates", read_hits, body, about=failed_tool)


def report_outcome(
    decision_id: str, tool: str, outcome: Outcome, *, took_ms: float | None = None
) -> Call[None]:
    """How a call of a tool ended."""
    body = given(decision_id=decision_id, tool=tool, outcome=outcome, took_ms=took_ms)
    return Call("POST", "/v1/outcomes", read_nothing, body, status=DONE, repeatable=False)


def feedback(decision_id: str, **said: Any) -> Call[None]:
    """What would have been right for a decision.

    Raises:
        FeedbackError: a field is unknown, or nothing is said.
    """
    try:
        checked = Feedback.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "feedback"
        raise FeedbackError(f"{place}: {first['msg']}") from error
    body = {"decision_id": decision_id, **checked.model_dump(mode="json", exclude_none=True)}
    return Call("POST", "/v1/feedback", read_nothing, body, status=DONE, repeatable=False)


def _turn_as_json(turn: Turn | str) -> dict[str, Any]:
    asked = Turn(text=turn) if isinstance(turn, str) else turn
    try:
        told = asked.model_dump(mode="json", exclude={"scope"}, exclude_defaults=True)
    except ValueError as error:
        raise QueryError(f"the turn holds a value that JSON cannot: {error}") from error
    return told | given(text=asked.text, scope=scope_as_json(asked.scope))


def _check(k: int | None) -> None:
    if k is not None and k < 1:
        raise QueryError(f"k is {k}; at least one tool must be asked for")
