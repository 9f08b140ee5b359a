"""What an error means to the outside: one table from error class to slug, status and codes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from toolcrib import errors

EXIT_NOT_CLEAN = 1
"""The command did its work, and something was refused (`--strict`) or is wrong (`doctor`)."""

ASKED, STORE, INDEX, MODEL = 2, 3, 4, 5
"""Exit codes: a mistake in what was asked; a store or service that cannot be used; an index that
other models made; a model or package that cannot be used."""

INVALID, FAULT, BUSY = -32602, -32603, -32000
"""MCP error codes: what was asked is wrong; something here is; ask again later."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One row of the table.

    `title` is the problem in a few words, `status` HTTP's. Where `tells` is False, an error's
    own text speaks of the inside, and callers are given the title instead. `retry_after_s` holds
    where the error itself does not know; None where asking again does not help.
    """

    title: str
    status: int
    exit_code: int = ASKED
    mcp_code: int = INVALID
    retry_after_s: float | None = None
    tells: bool = True


def _busy(title: str, status: int, exit_code: int, after: float | None, *, tells: bool) -> Problem:
    return Problem(title, status, exit_code, BUSY, after, tells)


def _fault(title: str, status: int, exit_code: int, *, tells: bool) -> Problem:
    return Problem(title, status, exit_code, FAULT, None, tells)


PROBLEMS: dict[type[errors.ToolcribError], Problem] = {
    errors.UnauthenticatedError: Problem("No key, or none that holds", 401),
    errors.ForbiddenError: Problem("Not allowed to this key", 403),
    errors.QuarantinedError: Problem("The tool is held back", 403),
    errors.UnknownToolError: Problem("There is no such tool", 404),
    errors.UnknownCollectionError: Problem("There is no such collection", 404),
    errors.UnknownDecisionError: Problem("There is no such decision", 404),
    errors.UnknownQuestionError: Problem("There is no such question", 404),
    errors.CalibrationError: Problem("No calibration tells that", 409),
    errors.ToolChangedError: Problem("It is no longer what was shown", 409),
    errors.LearningOffError: Problem("Nothing is learned here", 409),
    errors.TooLargeError: Problem("The request is too large", 413),
    errors.QueryError: Problem("The request cannot be answered as it is", 422),
    errors.QuestionRenderError: Problem("The question cannot be filled in", 422),
    errors.SpecError: Problem("The specification is wrong", 422),
    errors.SourceError: Problem("The source cannot be read", 422),
    errors.FeedbackError: Problem("The feedback cannot be understood", 422),
    errors.TrainingError: Problem("No model can be trained from this", 422),
    errors.RateLimitedError: _busy("Too many requests of this key", 429, STORE, 1.0, tells=True),
    errors.OverloadedError: _busy("Too many requests at once", 503, STORE, 1.0, tells=True),
    errors.ServiceUnavailableError: _busy("The service is away", 503, STORE, 1.0, tells=True),
    errors.StoreUnavailableError: _busy("The store is away", 503, STORE, 1.0, tells=False),
    errors.StoreLockedError: _busy("The store is in use elsewhere", 503, STORE, 5.0, tells=False),
    errors.IndexMismatchError: _busy("Other models made it", 503, INDEX, 60.0, tells=False),
    errors.EncoderError: _busy("The model cannot be used", 503, MODEL, 5.0, tells=False),
    errors.LanguageModelError: _busy("No language model answers", 503, MODEL, 5.0, tells=False),
    errors.LanguageModelLateError: _busy("No answer in time", 504, MODEL, 1.0, tells=False),
    errors.DeadlineError: _busy("The answer took too long", 504, STORE, None, tells=True),
    errors.MissingExtraError: _fault("It is not installed here", 501, MODEL, tells=True),
    errors.StoreWriteError: _fault("The store takes no more", 507, STORE, tells=False),
    errors.StoreError: _fault("The store failed", 500, STORE, tells=False),
    errors.ServiceError: _fault("The service failed", 500, STORE, tells=True),
    errors.QuestionError: _fault("The question is wrong", 500, ASKED, tells=False),
    errors.CapabilityError: _fault("A capability is wrong", 500, ASKED, tells=False),
    errors.SettingsError: _fault("The service is not set up for it", 500, ASKED, tells=False),
    errors.ToolcribError: _fault("It failed", 500, ASKED, tells=False),
}
"""By class; a class that is not here is as the nearest one above it."""

INTERNAL = _fault("Something went wrong here; the service's log says what", 500, STORE, tells=False)
"""What is no error of ours."""


def problem_of(error: BaseException) -> Problem:
    """The row of an error."""
    return next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), INTERNAL)


def told(error: BaseException) -> str:
    """What callers are told of an error: its text, unless that speaks of the inside."""
    problem = problem_of(error)
    return str(error) if problem.tells else problem.title


def retry_after(error: BaseException) -> float | None:
    """Seconds after which to ask again, None where that does not help."""
    own = error.retry_after_s if isinstance(error, errors.ServiceError) else None
    return problem_of(error).retry_after_s if own is None else own


@cache
def slug_of(kind: type[BaseException]) -> str:
    """What a problem is called in `urn:toolcrib:problem:...`: `UnknownToolError: unknown-tool`.

    A class of elsewhere is called as the nearest one of ours above it, or `internal`.
    """
    own = next((each for each in kind.__mro__ if each.__module__ == errors.__name__), None)
    if own is None:
        return "internal"
    words = re.findall(r"[A-Z][a-z]*", own.__name__.removesuffix("Error"))
    return "-".join(word.lower() for word in words)


def exit_code(error: errors.ToolcribError) -> int:
    """The exit code of a command that ended with this error."""
    return problem_of(error).exit_code
