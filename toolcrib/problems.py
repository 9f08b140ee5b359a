"""Problems: one table from error class to HTTP status and exit code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from toolcrib import errors

EXIT_NOT_CLEAN = 1
"""Exit code of a command that finished, with refusals (`--strict`) or faults (`doctor`)."""

EXIT_REQUEST, EXIT_STORE, EXIT_INDEX, EXIT_MODEL = 2, 3, 4, 5
"""Exit codes: a mistake in the request; an unusable store or service; an index by other models;
an unusable model or package."""


@dataclass(frozen=True, slots=True)
class ProblemType:
    """Row of the table.

    `title` names the problem in a few words; `status` is the HTTP status. Callers get the title
    unless the error's text is `public`. `retry_after_s` is for errors that state no time; None if
    a retry does not help.
    """

    title: str
    status: int
    exit_code: int = EXIT_REQUEST
    retry_after_s: float | None = None
    public: bool = True


_internal = partial(ProblemType, public=False)

PROBLEMS: dict[type[errors.ToolcribError], ProblemType] = {
    errors.UnauthenticatedError: ProblemType("No API key, or an invalid key", 401),
    errors.ForbiddenError: ProblemType("Not allowed to this key", 403),
    errors.QuarantinedError: ProblemType("The tool is held back", 403),
    errors.UnknownToolError: ProblemType("There is no such tool", 404),
    errors.UnknownCollectionError: ProblemType("There is no such collection", 404),
    errors.UnknownDecisionError: ProblemType("There is no such decision", 404),
    errors.UnknownQuestionError: ProblemType("There is no such question", 404),
    errors.CalibrationError: ProblemType("There is no usable calibration", 409),
    errors.ToolChangedError: ProblemType("The held tool has changed", 409),
    errors.LearningOffError: ProblemType("Learning is off", 409),
    errors.TooLargeError: ProblemType("The request is too large", 413),
    errors.QueryError: ProblemType("The request cannot be answered as it is", 422),
    errors.QuestionRenderError: ProblemType("The question cannot be filled in", 422),
    errors.SpecError: ProblemType("The specification is wrong", 422),
    errors.SourceError: ProblemType("The source cannot be read", 422),
    errors.FeedbackError: ProblemType("The feedback cannot be read", 422),
    errors.TrainingError: ProblemType("No model can be trained from this", 422),
    errors.RateLimitedError: ProblemType("Too many requests of this key", 429, EXIT_STORE, 1.0),
    errors.OverloadedError: ProblemType("Too many requests at once", 503, EXIT_STORE, 1.0),
    errors.ServiceUnavailableError: ProblemType("The service is down", 503, EXIT_STORE, 1.0),
    errors.StoreUnavailableError: _internal("The store is down", 503, EXIT_STORE, 1.0),
    errors.StoreLockedError: _internal("Another process holds the store", 503, EXIT_STORE, 5.0),
    errors.StoreReadOnlyError: _internal("The store is read-only", 503, EXIT_STORE, 60.0),
    errors.IndexMismatchError: _internal("Other models made the index", 503, EXIT_INDEX, 60.0),
    errors.EncoderError: _internal("The model cannot be used", 503, EXIT_MODEL, 5.0),
    errors.LanguageModelError: _internal("No language model answers", 503, EXIT_MODEL, 5.0),
    errors.LanguageModelLateError: _internal("The language model is late", 504, EXIT_MODEL, 1.0),
    errors.DeadlineError: ProblemType("The answer took too long", 504, EXIT_STORE),
    errors.MissingExtraError: ProblemType("An extra is not installed", 501, EXIT_MODEL),
    errors.StoreWriteError: _internal("The store cannot be written", 507, EXIT_STORE),
    errors.StoreError: _internal("The store failed", 500, EXIT_STORE),
    errors.ServiceError: ProblemType("The service failed", 500, EXIT_STORE),
    errors.QuestionError: _internal("The question is wrong", 500),
    errors.CapabilityError: _internal("A capability is wrong", 500),
    errors.SettingsError: _internal("A setting of the service is wrong", 500),
    errors.ToolcribError: _internal("It failed", 500),
}
"""Rows by error class; a class without a row has its nearest parent's."""

INTERNAL = _internal("Internal error; the service's log has the cause", 500, EXIT_STORE)
"""Row of an error of another package."""


def problem_of(error: BaseException) -> ProblemType:
    """Row of an error."""
    return next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), INTERNAL)


def public_text(error: BaseException) -> str:
    """Text of an error for callers; the title if the text is internal."""
    problem = problem_of(error)
    return str(error) if problem.public else problem.title


def retry_after(error: BaseException) -> float | None:
    """Seconds after which to retry; None if a retry does not help."""
    own = error.retry_after_s if isinstance(error, errors.ServiceError) else None
    return problem_of(error).retry_after_s if own is None else own


def slug_of(kind: type[BaseException]) -> str:
    """Name of a problem in `urn:toolcrib:problem:...`: `unknown-tool` of UnknownToolError.

    A class of another package has the name of its nearest parent here, or `internal`.
    """
    own = next((each for each in kind.__mro__ if each.__module__ == errors.__name__), None)
    if own is None:
        return "internal"
    words = re.findall(r"[A-Z][a-z]*", own.__name__.removesuffix("Error"))
    return "-".join(word.lower() for word in words)


def exit_code(error: Exception) -> int:
    """Exit code of a command that ended with an error."""
    return problem_of(error).exit_code
