"""Errors: one family, drawn here.

ToolcribError
├── SettingsError            (ValueError)    a setting is unknown or impossible
├── MissingExtraError        (ImportError)   a feature needs an extra that is not installed
├── SpecError                (ValueError)    one tool specification is wrong
├── SourceError              (ValueError)    a whole source cannot be read
│   └── UnknownFormatError                   no reader recognises the source
├── QueryError               (ValueError)    a query cannot be answered as asked
├── QuestionError            (ValueError)    a question to classify turns by is wrong
│   └── QuestionRenderError                  the question's template cannot be filled in
├── CapabilityError          (ValueError)    a capability's description is wrong
├── CalibrationError         (ValueError)    a calibration cannot be made, read or used
├── FeedbackError            (ValueError)    feedback on a decision cannot be read
├── TrainingError            (ValueError)    a model cannot be trained from these examples
├── UnknownToolError         (LookupError)   no tool has this id
├── UnknownCollectionError   (LookupError)   no collection has this name
├── UnknownDecisionError     (LookupError)   no decision has this id
├── UnknownQuestionError     (LookupError)   the settings have no question of this name
├── EncoderError             (RuntimeError)  a model cannot be loaded, or gave no usable vector
├── LanguageModelError       (RuntimeError)  a language model gave no usable answer
│   ├── LanguageModelLateError (TimeoutError) the model did not answer before the timeout
│   ├── LanguageModelRefusedError            the model's server is down, or refuses the request
│   └── LanguageModelAnswerError             the model's answer cannot be read
├── ServiceError             (RuntimeError)  a service refused a request, or failed
│   ├── UnauthenticatedError                 no API key, or an invalid key
│   ├── ForbiddenError                       the key does not allow this
│   ├── QuarantinedError                     the tool is held back until somebody approves it
│   ├── ToolChangedError                     the held tool changed after the reviewer saw it
│   ├── LearningOffError                     learning is off in the settings
│   ├── TooLargeError        (ValueError)    the request is larger than the service takes
│   ├── RateLimitedError                     the key made more requests than its rate allows
│   ├── OverloadedError                      more requests at once than the service takes
│   ├── DeadlineError        (TimeoutError)  no answer before the deadline
│   └── ServiceUnavailableError              the service, or a server behind it, does not answer
└── StoreError               (RuntimeError)  the store cannot do what was asked
    ├── StoreLockedError                     another process holds the folder
    ├── StoreUnavailableError                the server does not answer
    ├── StoreDamagedError                    the folder cannot be read
    ├── StoreWriteError                      disk full, or read-only
    ├── StoreReadOnlyError                   the server's key may not write
    ├── IndexMismatchError                   built by other models or another format
    └── BadPointError        (ValueError)    a vector or payload that must not reach the engine
"""

from __future__ import annotations

from collections.abc import Collection as AbstractCollection
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Known names that resemble an unknown name, at most three; case is ignored."""
    spelt: dict[str, str] = {}
    for each in known:
        spelt.setdefault(each.casefold(), each)
    return tuple(spelt[each] for each in get_close_matches(name.casefold(), spelt, n=3))


MAX_DECIMALS = 17
"""Most decimals tried; numbers that look equal with these are written by `repr`."""


def distinct_numbers(first: float, second: float, decimals: int = 2) -> tuple[str, str]:
    """Write two numbers with enough decimals to tell different numbers apart."""
    texts = f"{first:.{decimals}f}", f"{second:.{decimals}f}"
    if texts[0] != texts[1] or first == second:
        return texts
    if decimals == MAX_DECIMALS:
        return repr(first), repr(second)
    return distinct_numbers(first, second, decimals + 1)


def did_you_mean(names: Sequence[str]) -> str:
    """End of a message about an unknown name: the names that resemble it, if any."""
    return f"; did you mean {', '.join(map(repr, names))}?" if names else ""


class ToolcribError(Exception):
    """Root of everything that toolcrib raises on purpose.

    Its text says what was wrong, where, and what to do about it.
    """

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle the attributes: a constructor may take other arguments than the message."""
        if isinstance(self, OSError):
            # `OSError` is made in another way, and its classes here take the message.
            return super().__reduce__()
        return Exception.__new__, (type(self),), {**vars(self), "args": self.args}


class SettingsError(ToolcribError, ValueError):
    """A setting is unknown or has a value that cannot be used."""


class MissingExtraError(ToolcribError, ImportError):
    """A feature needs optional dependencies that are not installed."""

    def __init__(self, feature: str, extra: str, note: str = "") -> None:
        self.extra = extra
        super().__init__(
            f"{feature} needs the extra {extra!r}: pip install 'toolcrib[{extra}]'{note}",
        )


class SpecError(ToolcribError, ValueError):
    """One tool specification is wrong; the others beside it are not affected."""


class SourceError(ToolcribError, ValueError):
    """A source as a whole cannot be read.

    Attributes:
        source: the file, URL or object.
        place: line, JSON path or server name in the source; empty for the whole source.
        reason: what is wrong and what to do.
    """

    def __init__(self, source: str, place: str, reason: str) -> None:
        self.source = source
        self.place = place
        self.reason = reason
        where = f"{source}: {place}" if place else source
        super().__init__(f"{where}: {reason}")


class UnknownFormatError(SourceError):
    """No reader recognises the source."""


class QueryError(ToolcribError, ValueError):
    """A query is empty or asks for something impossible."""


class QuestionError(ToolcribError, ValueError):
    """A question to classify turns by cannot be read, or something in it is wrong."""


class QuestionRenderError(QuestionError):
    """A question's template cannot be filled in from a turn."""


class CapabilityError(ToolcribError, ValueError):
    """Capabilities cannot be read, or the description of a capability is wrong."""


class CalibrationError(ToolcribError, ValueError):
    """A calibration cannot be made from these queries, cannot be read, or does not hold here."""


class FeedbackError(ToolcribError, ValueError):
    """Feedback on a decision has an unknown field, or is empty."""


class TrainingError(ToolcribError, ValueError):
    """A model cannot be trained from the examples, or its exported file differs from it."""


class UnknownToolError(ToolcribError, LookupError):
    """No tool has this id; `nearest` holds ids that look like it."""

    def __init__(self, tool_id: str, nearest: tuple[str, ...] = ()) -> None:
        self.tool_id = tool_id
        self.nearest = nearest
        super().__init__(f"no tool has the id {tool_id!r}{did_you_mean(nearest)}")


class UnknownCollectionError(ToolcribError, LookupError):
    """No collection has this name; `nearest` holds names that look like it."""

    def __init__(self, name: str, nearest: tuple[str, ...] = ()) -> None:
        self.name = name
        self.nearest = nearest
        super().__init__(f"there is no collection {name!r}{did_you_mean(nearest)}")


class UnknownQuestionError(ToolcribError, LookupError):
    """The settings have no question of this name; `nearest` holds names that look like it."""

    def __init__(self, name: str, nearest: tuple[str, ...] = ()) -> None:
        self.name = name
        self.nearest = nearest
        super().__init__(f"there is no question {name!r}{did_you_mean(nearest)}")


class UnknownDecisionError(ToolcribError, LookupError):
    """No decision has this id, or the decision is no longer kept."""


class EncoderError(ToolcribError, RuntimeError):
    """A model cannot be loaded, or returned something that is not a usable vector."""


class LanguageModelError(ToolcribError, RuntimeError):
    """A language model gave no usable answer; steps without a language model still work."""


class LanguageModelLateError(LanguageModelError, TimeoutError):
    """A language model did not answer before the timeout."""


class LanguageModelRefusedError(LanguageModelError):
    """A language model's server is down or refuses a request; `retry_after_s` if it is stated."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class LanguageModelAnswerError(LanguageModelError):
    """A language model's answer cannot be read, nor the answer to a second request."""


class ServiceError(ToolcribError, RuntimeError):
    """A service refused a request, or failed; `retry_after_s` until the next try, if known."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class UnauthenticatedError(ServiceError):
    """The request has no API key, or one that is unknown, expired or revoked.

    `key_id`: id of an expired or revoked key.
    """

    def __init__(
        self, message: str, *, key_id: str = "", retry_after_s: float | None = None
    ) -> None:
        self.key_id = key_id
        super().__init__(message, retry_after_s=retry_after_s)


class ForbiddenError(ServiceError):
    """The API key does not allow this."""


class QuarantinedError(ServiceError):
    """The tool is new, changed or suspicious, and nobody has approved it yet."""


class ToolChangedError(ServiceError):
    """The held tool has another digest than the approval names."""


class LearningOffError(ServiceError):
    """Learning from use is off in the settings."""


class TooLargeError(ServiceError, ValueError):
    """The request is larger than the service takes."""


class RateLimitedError(ServiceError):
    """The key made more requests than its rate allows."""


class OverloadedError(ServiceError):
    """More requests are under way than the service takes at once."""


class DeadlineError(ServiceError, TimeoutError):
    """There was no answer before the deadline."""


class ServiceUnavailableError(ServiceError):
    """A service, or a server behind it, does not answer."""


class StoreError(ToolcribError, RuntimeError):
    """The store cannot carry out a request."""


class StoreLockedError(StoreError):
    """Another process, or another crib of this process, holds the store's folder."""


class StoreUnavailableError(StoreError):
    """The server does not answer; no write was done in part."""


class StoreDamagedError(StoreError):
    """The folder exists but its content cannot be read."""


class StoreWriteError(StoreError):
    """A write was refused by the disk: full, or read-only."""


class StoreReadOnlyError(StoreError):
    """The key or token of the server may not write."""


class IndexMismatchError(StoreError):
    """The index was built by other models, settings or format than those in use."""


class BadPointError(StoreError, ValueError):
    """A point that would crash the engine was refused before the write."""


def require_text(value: object, name: str) -> None:
    """Require a text."""
    require_type(value, str, name, "a text")


def require_positive(value: object, name: str) -> None:
    """Require at least 1 of a whole number; other values pass."""
    if isinstance(value, int) and value < 1:
        raise QueryError(f"{name} is {value}; it must be at least 1")


def require_texts(values: object, name: str) -> None:
    """Require a list of texts; a single text is refused."""
    if isinstance(values, str) or not isinstance(values, AbstractCollection):
        raise QueryError(f"{name} must be a list of texts, not {values!r:.80}")
    for each in cast("AbstractCollection[object]", values):
        require_text(each, f"entry of {name}")


def require_all(values: Iterable[Any], kind: type[_T], name: str) -> list[_T]:
    """Require values of a type, and return them as a list."""
    require_type(values, Iterable, name, f"a list of {kind.__name__}")
    found = list(values)
    for each in found:
        require_type(each, kind, f"entry of {name}", f"a {kind.__name__}")
    return found


def require_type(value: object, kind: type | UnionType, name: str, expected: str) -> None:
    """Require a value of a type, `expected` in words; a class passes for no object of a protocol.

    Raises:
        QueryError: the value is of another type.
    """
    if not isinstance(value, kind) or isinstance(value, type):
        found = f"{type(value).__name__}: {value!r:.80}"
        raise QueryError(f"the {name} must be {expected}, not {found}")
