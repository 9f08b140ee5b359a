"""Learning over HTTP: status, switch, replay and undo of a namespace's lessons."""

from __future__ import annotations

from starlette.responses import Response

from toolcrib.errors import ForbiddenError, LearningOffError
from toolcrib.http.context import RequestContext
from toolcrib.http.routing import Body, Endpoint, Identifier, answer, documented
from toolcrib.records import Scope
from toolcrib.records.learning import LearningStatus, Undone


class SwitchBody(Body):
    """Switch of learning: on if lessons re-order answers."""

    on: bool


class UndoBody(Body):
    """Lessons to undo: of a day (`2026-01-31`), of a key or of a tool, by id."""

    model_config = documented(examples=[{"what": "mail/send_mail"}])

    what: Identifier


async def get_learning(context: RequestContext) -> Response:
    """Show the lessons, their keys and their worth; for keys that may write everything."""
    _require_all(context)
    return answer(await context.read(lambda crib: crib.learning_status()))


async def switch_learning(context: RequestContext, body: SwitchBody) -> None:
    """Switch the use of lessons on or off; the lessons stay."""
    _require_all(context)
    await context.write(lambda crib: crib.switch_learning(on=body.on))


async def replay_learning(context: RequestContext) -> Response:
    """Replay past requests; lessons of a server that help go live, the others into shadow."""
    _require_all(context)
    return answer(await context.write(lambda crib: crib.replay_learning()))


async def undo_learning(context: RequestContext, body: UndoBody) -> Response:
    """Undo the lessons of a day, a key or a tool."""
    _require_all(context)
    return answer(Undone(await context.write(lambda crib: crib.undo_learning(body.what))))


def _require_all(context: RequestContext) -> None:
    """Require a key that may write and see all tools: lessons name keys and tools.

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
