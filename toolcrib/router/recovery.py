"""Recovery: the class of an error, and the next step of an agent's loop.

The loop asks for one step at a time; nothing here waits.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from toolcrib import errors
from toolcrib.router.settings import RecoverySettings

Failure: TypeAlias = BaseException | int | str | Mapping[str, Any]
"""Error of a call: an exception, a status or code, a text, or an object as a server sends it."""

ErrorClass: TypeAlias = Literal["retriable", "critical", "reclassify", "replan", "fatal"]
"""Class of an error. `retriable`: the same call may work later. `critical`: end the turn.
`reclassify`: another tool is needed. `replan`: other arguments are needed. `fatal`: end the
program; only the raiser can set it."""

USER_MESSAGES: Mapping[ErrorClass, str] = {
    "retriable": "Something that is needed does not answer. Please try again in a while.",
    "critical": "This cannot be done.",
    "reclassify": "This cannot be done in that way. Please say in other words what you need.",
    "replan": "This did not work out. Please say a little more about what you need.",
    "fatal": "Something went wrong, and the work has stopped.",
}
"""Message for a user, if the error has no `user_message`."""

MAX_CLASSIFIED_ERROR_CHARS = 4_000
MAX_CAUSES = 8

EXCEPTIONS: Mapping[ErrorClass, tuple[type[BaseException], ...]] = {
    "critical": (
        *(asyncio.CancelledError, KeyboardInterrupt, SystemExit, MemoryError, PermissionError),
        *(errors.UnauthenticatedError, errors.ForbiddenError, errors.QuarantinedError),
    ),
    "retriable": (
        *(TimeoutError, ConnectionError, errors.StoreUnavailableError),
        *(errors.RateLimitedError, errors.OverloadedError, errors.ServiceUnavailableError),
    ),
    "reclassify": (errors.UnknownToolError, NotImplementedError, ImportError),
}
"""Exceptions by class; the first match counts. `ValueError` and others are classified by text."""

_HTTP = range(400, 600)
_JSON_RPC = range(-32768, -31999)
_SERVER_SIDE = frozenset((*range(500, 600), *range(-32099, -31999)))

STATUSES: dict[int, ErrorClass] = {
    **dict.fromkeys((401, 402, 403, 407, 451, 511, -32042), "critical"),
    **dict.fromkeys((404, 405, 410, 501, 505, -32601, -32022, -32021, -32002), "reclassify"),
    **dict.fromkeys((408, 423, 425, 429, -32000, -32001, -32603), "retriable"),
    **dict.fromkeys((-32020, -32600, -32602, -32700), "replan"),
}
"""Class by HTTP status, or by error code of JSON-RPC and MCP. Other server errors are `retriable`,
other codes `replan`."""

VAGUE_CODES = frozenset({400, 404, 422, 500, -32000, -32600, -32602, -32603})
"""Codes that servers send for any failure: the error's text counts before these."""

FORBIDDEN_STATUS = 403
"""Status that some servers, such as GitHub, also send for a rate limit; their text says so."""

REFUSED_CODES = frozenset({425, 429})
"""Codes of calls refused before any work: a retry cannot do the work twice."""


class TextRule(NamedTuple):
    """Class of errors with `pattern` in their text; `says` describes the pattern."""

    says: str
    kind: ErrorClass
    pattern: re.Pattern[str]


WRONG_ARGUMENT_CODES = frozenset({400, 422, -32602})
"""Statuses and codes of wrong arguments."""

WRONG_ARGUMENTS = "that the arguments are wrong"

_RATE_LIMIT = r"rate[ _-]?limit|too many requests"


def _rule(says: str, kind: ErrorClass, *patterns: str) -> TextRule:
    return TextRule(says, kind, re.compile("|".join(patterns), re.IGNORECASE))


TEXT_RULES: tuple[TextRule, ...] = (
    _rule(
        "that it is not allowed",
        "critical",
        r"unauthori[sz]ed|forbidden|not authori[sz]ed|authentication|invalid credentials",
        r"(permission|access)[ _]?denied|(invalid|expired|missing|incorrect) (api[ _-]?key|token)",
        r"(missing|insufficient|lacks)[ _](the )?(scope|permission|privilege)|invalid[ _]auth\b",
        # "It does not exist or you do not have permission": the id may be wrong.
        r"(?<!\bor you )do(es)?( not|n't) have (the )?(permission|authori[sz]ation)",
        r"bad credentials|(no|locate) credentials|expired_?token|(session|token) has been revoked",
        r"(security|access|bearer|session|refresh) token\b.{0,60}\bexpired|session has expired",
    ),
    _rule(
        "that it is not safe",
        "critical",
        r"safety (system|filter|polic|check|setting|violation|guideline|reason)|unsafe",
        r"content[ _-]?(policy|filter)|policy violation|violates .{0,40}policy",
        r"blocked by .{0,40}(policy|guard|filter)",
    ),
    _rule(
        "that there is no such tool",
        "reclassify",
        r"(unknown|no such|unsupported|undefined)[ _](tool|function|method|operation)",
        r"no tool has the id|(tool|function|method|operation)_?not_?found",
        # A colon ends the tool's part: "calling the StopInstances operation: i-7 does not exist".
        r"(tool|function|method|operation)\b[^:]{0,80}(\bnot|n't) (be )?"
        r"(found|exist|available|supported|implemented|registered|enabled)",
    ),
    _rule(
        WRONG_ARGUMENTS,
        "replan",
        r"validation[ _]?error|bad[ _]?request|malformed|unprocessable",
        r"invalid[ _](arguments?|param|input|value|request|type|json|format|schema|date)",
        r"missing (\d+ )?(required|argument|param|field|property)|(field|property) required",
        r"required (argument|param|field|property|positional)|unexpected keyword",
        r"not of type|must be (a|an|one|at|in|of)\b|should be (a|an|one)\b|syntax error",
        r"(column|table|relation|view|schema)\b.{0,80}(\bnot|n't) (be )?(found|exist)",
        r"(unknown|no such|undefined) (column|table|relation|view|schema)",
    ),
    # The tool exists, and what its arguments name does not.
    _rule(
        "that a thing was not found",
        "replan",
        r"(?<=[\w'\"`)\]])(?<!\b404) not[ _]?found|\w[._]not_?found|does not exist",
    ),
    _rule(
        "that it was not found",
        "reclassify",
        r"\bnot[ _]?found|no longer (available|exists)|not (supported|implemented)",
    ),
    _rule(
        "that it may work later",
        "retriable",
        rf"time[ _-]?out|timed[ _-]?out|deadline exceeded|{_RATE_LIMIT}|throttl",
        r"quota exceeded|overloaded|unavailable|temporar|try again|unreachable",
        r"connect(ion)?[ _]?(error|refused|reset|closed|abort|lost)|bad gateway|broken pipe",
        r"connection to .{0,80}refused|closed the connection|no healthy upstream",
        r"internal[ _]?(server|error)|too many (clients|connections)|request limit exceeded",
        r"deadlock|could not serialize|\b(econn\w{5,7}|etimedout|enotfound|eai_again)\b",
    ),
)
"""Rules by text; the first match counts. Wrong arguments come before retriable errors: their texts
name fields, and a field may be called `timeout`."""

_CODE = re.compile(
    r"(?:\b(?:http(?:/[\d.]+)?|status(?:[ _]?code)?|\w{0,30}error(?:[ _]?code)?)[\s:=#('\"]{0,4}"
    r"|['\"]code['\"]\s?:\s?['\"]?)([45]\d\d|-32\d{3})(?!\d)",
    re.IGNORECASE,
)
_RETRY_AFTER = re.compile(
    r"retry[ _-]after[\s:=\"']{0,4}(\d+(?:\.\d+)?)(?![\d.]|\s*m)"
    r"|(?:try again|retry) (?:in|after) (\d+(?:\.\d+)?) ?s(?:ec(?:ond)?s?)?\b",
    re.IGNORECASE,
)
_STATUS_AT = ("status_code", "response.status_code", "status", "code", "error.code")
_HEADERS_AT = ("response.headers", "headers")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Class of an error and the rule that matched, without words of the error itself.

    `status`: code of the error; `retry_after_s`: wait that its sender requests. `user_message`: the
    error's own message for users, or that of its class.
    """

    kind: ErrorClass
    why: str
    status: int | None = None
    retry_after_s: float | None = None
    user_message: str = field(default="", compare=False)

    @property
    def blames_arguments(self) -> bool:
        """True if the same call with other arguments may work."""
        return WRONG_ARGUMENTS in self.why or self.status in WRONG_ARGUMENT_CODES


def diagnose(
    error: Failure,
    *,
    severity: ErrorClass | None = None,
    in_classification: bool = False,
) -> Diagnosis:
    """Diagnose an error by its type, code, text, or causes.

    `severity`, given or an attribute of the error, overrides all rules. `in_classification`:
    `ValueError` and `TypeError` are critical, as they show a mistake in a program or a setting. An
    error without a rule is `replan`: the agent reads the message.
    """
    diagnoses = [_diagnose_one(link) for link in _chain(error)]
    found = next(
        (each for each in diagnoses if each.why), replace(diagnoses[0], why="no rule matches")
    )
    own = getattr(error, "severity", None)
    if severity is None:
        severity = next((each for each in USER_MESSAGES if each == own), None)
    if severity is not None:
        found = replace(found, kind=severity, why="declared by the error or the caller")
    elif in_classification and isinstance(error, ValueError | TypeError):
        found = replace(found, kind="critical", why=f"{type(error).__name__} in classification")
    message = getattr(error, "user_message", None)
    if not isinstance(message, str) or not message:
        message = USER_MESSAGES[found.kind]
    return replace(found, user_message=message)


def _chain(error: Failure) -> Iterator[Failure]:
    """Error and its causes; a group stands for its first member."""
    link: Failure | None = error
    for _ in range(MAX_CAUSES):
        while isinstance(link, BaseExceptionGroup):
            link = cast("BaseExceptionGroup[BaseException]", link).exceptions[0]
        if link is None:
            return
        yield link
        link = link.__cause__ if isinstance(link, BaseException) else None


def _diagnose_one(error: Failure) -> Diagnosis:
    """Diagnosis of one error without its causes; `why` is empty without a rule."""
    text = _text(error)[:MAX_CLASSIFIED_ERROR_CHARS]
    given = [error] if isinstance(error, int) else [_at(error, path) for path in _STATUS_AT]
    codes = [each for each in given if type(each) is int and (each in _HTTP or each in _JSON_RPC)]
    codes += map(int, _CODE.findall(text))
    kind, why = _kind(error, codes, text)
    return Diagnosis(kind, why, codes[-1] if codes else None, _retry_after(error, text))


def _kind(error: Failure, codes: list[int], text: str) -> tuple[ErrorClass, str]:
    for kind, types in EXCEPTIONS.items():
        if expected := next((each for each in types if isinstance(error, each)), None):
            return kind, expected.__name__
    if FORBIDDEN_STATUS in codes and re.search(_RATE_LIMIT, text, re.IGNORECASE):
        return "retriable", f"status {FORBIDDEN_STATUS} for a rate limit"
    for code in codes:
        if code not in VAGUE_CODES:
            return _kind_of_status(code), f"status {code}"
    for rule in TEXT_RULES:
        if rule.pattern.search(text):
            return rule.kind, f"the error says {rule.says}"
    # The innermost code comes last: "MCP error -32603: request failed with status code 422".
    return (_kind_of_status(codes[-1]), f"status {codes[-1]}") if codes else ("replan", "")


def _kind_of_status(code: int) -> ErrorClass:
    return STATUSES.get(code, "retriable" if code in _SERVER_SIDE else "replan")


def _text(error: Failure) -> str:
    """Text of an error, with the names of an exception's classes."""
    if not isinstance(error, BaseException):
        return str(error) if isinstance(error, str | Mapping) else ""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins"]
    return f"{' '.join(names)}: {error}"


def _retry_after(error: Failure, text: str) -> float | None:
    """Seconds to wait, by the error's attribute or header, or else by its text."""
    stated = getattr(error, "retry_after_s", None)
    if isinstance(stated, int | float) and stated >= 0:
        return stated
    for path in _HEADERS_AT:
        headers = _at(error, path)
        if headers is not None and hasattr(headers, "items"):
            named = {str(name).lower(): str(value) for name, value in headers.items()}
            if "retry-after" in named:
                return _seconds(named["retry-after"], named.get("date", ""))
    found = _RETRY_AFTER.search(text)
    return float(found[1] or found[2]) if found else None


def _seconds(value: str, sent: str) -> float | None:
    """Seconds of a header; a date counts from the response's own date."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            until, since = parsedate_to_datetime(value), parsedate_to_datetime(sent)
            seconds = (until - since).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _at(error: object, path: str) -> Any:
    found: Any = error
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


Action: TypeAlias = Literal["retry", "alternate", "reclassify", "replan", "stop"]
"""Next action: repeat the call; call an equivalent tool; search again; let the agent read the error
and plan again; end the turn."""


@dataclass(frozen=True, slots=True)
class Step:
    """Next step, the wait before it, and the reason in words fit for a log.

    `user_message`: for the user, if nothing more can be done.
    """

    action: Action
    after_s: float
    reason: str
    user_message: str = field(default="", compare=False)


class RecoveryPolicy:
    """Policy of the steps after a failed call; holds only settings and a random generator."""

    def __init__(
        self, settings: RecoverySettings | None = None, random: Random | None = None
    ) -> None:
        self._settings = settings or RecoverySettings()
        self._random = random or Random()  # noqa: S311 jitter is no secret

    def next_step(
        self,
        error: Failure | Diagnosis,
        attempt: int,
        *,
        alternates: bool = True,
        repeatable: bool = True,
        severity: ErrorClass | None = None,
        in_classification: bool = False,
    ) -> Step:
        """Step after the failure of an attempt; the first attempt is 1.

        `error`: an exception, an HTTP status or MCP error code, the error's text, or a `Diagnosis`.
        `alternates`: an equivalent tool exists. `repeatable`: running the call twice does no harm;
        otherwise a call that may have run is neither repeated nor given to another tool. `severity`
        and `in_classification`: as for `diagnose`.
        """
        found = (
            error
            if isinstance(error, Diagnosis)
            else diagnose(error, severity=severity, in_classification=in_classification)
        )
        step = self._after(found, attempt, alternates=alternates, repeatable=repeatable)
        return replace(step, user_message=found.user_message)

    def _after(self, found: Diagnosis, attempt: int, *, alternates: bool, repeatable: bool) -> Step:
        most, elsewhere = self._settings.max_attempts, "alternate" if alternates else "stop"
        summary = f"{found.kind} ({found.why}), attempt {attempt} of {most}"
        if found.kind in ("critical", "fatal"):
            return Step("stop", 0.0, summary)
        if found.kind == "retriable" and not repeatable and found.status not in REFUSED_CODES:
            reason = f"{summary}: the call may have run, and must not run twice"
            return Step("replan" if attempt < most else "stop", 0.0, reason)
        if attempt >= most:
            return Step(elsewhere, 0.0, f"{summary}: no attempts are left")
        if found.kind != "retriable":
            return Step(found.kind, 0.0, summary)
        asked_s = found.retry_after_s or 0.0
        if asked_s > self._settings.cap_s:
            return Step(
                elsewhere, 0.0, f"{summary}: the requested wait of {asked_s:g} s is too long"
            )
        return Step("retry", max(asked_s, self._wait(attempt)), summary)

    def _wait(self, attempt: int) -> float:
        chosen = self._settings
        if chosen.first_at_once:
            if attempt <= 1:
                return 0.0
            attempt -= 1
        try:
            wait = chosen.base_s * chosen.factor ** max(0, attempt - 1)
        except OverflowError:
            wait = chosen.cap_s
        spread = 1 + chosen.jitter * self._random.uniform(-1, 1)
        return min(chosen.cap_s, min(chosen.cap_s, wait) * spread)
