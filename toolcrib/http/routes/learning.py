"""Learning over HTTP: what use taught of a namespace's tools, from whom, and taking it back."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from toolcrib.errors import ForbiddenError, LearningOffError
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import Body, Endpoint, answer, documented
from toolcrib.records import Scope
from toolcrib.records.learning import LearningStatus, Undone

__all__ = ["ENDPOINTS"]


class SwitchBody(Body):
    """Whether what was learned re-orders answers."""

    on: bool


class UndoBody(Body):
    """What to take back: a day (`2026-01-31`), the id of a key, or that of a tool."""

    model_config = documented(examples=[{"what": "mail/send_mail"}])

    what: Annotated[str, Field(min_length=1, max_length=1100)]


async def get_learning(context: RequestContext) -> Response:
    """Show what was learned, from whom, and what it is worth; for keys that write everywhere."""
    _require_all(context)
    return answer(await context.read(lambda crib: crib.learning_status()))


async def switch_learning(context: RequestContext, body: SwitchBody) -> None:
    """Let what was learned re-order answers, or leave it aside; nothing is lost."""
    _require_all(context)
    await context.write(lambda crib: crib.switch_learning(on=body.on))


async def replay_learning(context: RequestContext) -> Response:
    """Ask past requests again; what of each server helps goes live, the rest into shadow."""
    _require_all(context)
    return answer(await context.write(lambda crib: crib.replay_learning()))


async def undo_learning(context: RequestContext, body: UndoBody) -> Response:
    """Take back what was learned on a day, from a key, or of a tool."""
    _require_all(context)
    return answer(Undone(await context.write(lambda crib: crib.undo_learning(body.what))))


def _require_all(context: RequestContext) -> None:
    """Stop who may not see all of the namespace: it tells of its keys and all of its tools.

    Raises:
        ForbiddenError: the key only reads, or has a scope.
    """
    context.require_write()
    if context.scope() != Scope():
        raise ForbiddenError("what was learned tells of all tools, and this key sees some only")


PATH = "/v1/learning"
ERRORS = (LearningOffError,)

ENDPOINTS = (
    Endpoint("GET", PATH, get_learning, "learning", LearningStatus, ERRORS),
    Endpoint("POST", PATH, switch_learning, "learning", None, ERRORS, writes=True),
    Endpoint(
        "POST", PATH + "/replay", replay_learning, "learning", LearningStatus, ERRORS, writes=True
    ),
    Endpoint("POST", PATH + "/undo", undo_learning, "learning", Undone, ERRORS, writes=True),
)
