"""Results of calls: their text, and the only detector of failure, success and truncation."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

MAX_SHORT_CHARS, HEAD_CHARS, TAIL_CHARS = 400, 220, 300
"""Length of a short result, whose words may show a failure; first and last part that is read."""

MAX_LABEL_CHARS, MAX_RESULT_DEPTH = 80, 5
"""Characters between a word of failure and its colon; levels of a JSON result that are read."""

_ERROR_KEYS = (
    *("error", "isError", "is_error", "exception", "error_message", "errorMessage"),
    *("errorMessages", "errorSummary"),
)
_RESULT_KEYS = ("results", "result", "data", "content", "response", "output")
_FAILED_STATUS = frozenset({"error", "failed", "failure", "fail", "exception"})
_EXIT_CODE_KEYS = ("exit_code", "exitCode", "return_code", "returncode")
_HTTP_STATUS_KEYS, _PROBLEM_KEYS = ("status", "statusCode", "status_code"), ("message", "detail")
_HTTP_FAILURES = frozenset(map(str, range(400, 600)))

_BEGINS_WITH_FAILURE = re.compile(
    r"(?!(?-i:FAILED) )(?:\W{0,9}|[\w./-]{1,40}: )"
    r"(?:(?:an|unexpected|internal|fatal|http|api|mcp|tool|request|command|execution|validation"
    r"|input|runtime|server) ){0,3}"
    r"(?:error|\w{1,40}(?:Error|Exception)|traceback|failed|failure|exception|fatal|timeout"
    r"|timed out|cannot|could not|unable to|(?:unknown|invalid|unrecognized|unsupported) \w{1,40}"
    r"|(?:access|permission) denied|security violation"
    r"|no tool has the id|the arguments of '[^']{1,200}' (?:are not|must be)"
    r"|fehler|erreur|errore|erro|fout|błąd|ошибка|خطأ|त्रुटि)(?!\w)"
    r"|\W{0,9}(?:エラー|错误|錯誤|오류)(?=\W|が|\Z)",
    re.IGNORECASE,
)
"""Begin of a text that states a failure; the word for an error in twelve other languages too."""
_STATUS_LINE = re.compile(
    r"\W{0,9}(?:http(?:/[\d.]{1,3})?\W{1,3})?(?:"
    + "|".join(
        rf"{each.value}\W{{1,3}}{re.escape(each.phrase)}"
        for each in HTTPStatus
        if str(each.value) in _HTTP_FAILURES
    )
    + r")\b",
    re.IGNORECASE,
)
"""Status line of HTTP with its own phrase: `404 Main Street` is none."""

_HTML_TITLE = re.compile(r"\s{0,9}<(?:!doctype|html)\b.{0,200}?<title>", re.IGNORECASE | re.DOTALL)
"""Start of a page, up to its title: a gateway that fails answers with its status as title."""

_FAILURE_WORD = re.compile(
    r"(?<![\w-])(?:error(?:s|ed)?|\w{1,40}(?:Error|Exception)|failed|failure|exception|traceback"
    r"|not found|(?:does|did|do) not exist|(?:does|do)n't exist|not exist|no such|denied|forbidden"
    r"|unauthori[sz]ed|not (?:authori[sz]ed|permitted|allowed|supported|initiali[sz]ed"
    r"|recogni[sz]ed|available)|invalid|unsupported|unrecogni[sz]ed|timed? ?out|cannot|can't"
    r"|could not|couldn't|unable to|refused|rejected|(?:is|are|field) required"
    r"|missing (?:required|parameters?|arguments?)|(?:quota|limit) exceeded|must provide"
    r"|violation)(?![\w-])",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"\b\d{1,9} (?:tests? )?(?:passed|failed|failing|failures?|errors?|problems?)\b"
    r"|\b(?-i:FAILED) \S|\.[a-z]\w{0,5}:\d"
    r"|\(\d{1,9},\d{1,9}\)|\b(?:errors?|failed)\"?: ?(?:0|null|none|false|\[\]|\"\")"
    r"|\b(?:no|without|zero) (?:\w{1,40} ){0,2}(?:errors?|failures?|failed|exceptions?)\b"
    r"|\A\W?\d{4}-\d\d-\d\d|\A(?:<\w{1,20}>\s)?\d{1,6}[\t|→]",
    re.IGNORECASE,
)
"""Reports of tests, compilers and logs, and numbered lines of a file: the failure is their subject,
not the call's."""

_SOURCE = re.compile(
    r"^[ \t]{0,40}(?:from [\w.]{1,80} import|(?:async )?def \w{1,80}\(|class \w{1,80}[(:]"
    r"|#include\b|(?:raise|except|return|throw new) \w{1,80}(?:[(.:]| as )"
    r"|(?:const|let|var) \w{1,80} ?=|(?:export )?(?:async )?function \w{1,80}\("
    r"|(?:public|private|protected) [\w<>]{1,80} \w{1,80}\("
    r"|\[[^\]\n]{1,40}\]\s{1,9}[\w.-]{1,40} ?= )",
    re.MULTILINE,
)
"""Line of a program or of its settings."""
_RAISED = re.compile(r"^[\w.]{0,80}(?:Error|Exception)\b: ", re.MULTILINE)

_EXIT_CODE = re.compile(r"\b(?:return|exit) ?(?:code|status)\W{0,3}(-?\d{1,5})", re.IGNORECASE)
_FIRST_EXIT_CODE = re.compile(
    r"^\W{0,3}(?:\w{1,20} )?(?:return|exit)(?:ed with)?[ _]?(?:code|status)\W{0,3}(-?\d{1,5})"
    r"(?=\W{0,2}$|<)",
    re.IGNORECASE | re.MULTILINE,
)
"""Line of a harness before the output of a command; the output may speak of other exit codes."""

_REFUSAL = re.compile(
    r"\bplease [^.\n]{0,80}\b(?:retry|try again)\b|\bnot (?:been )?(?:applied|executed)\b"
    r"|\bno (?:edit|replacement)s? (?:(?:was|were) )?(?:made|performed)\b",
    re.IGNORECASE,
)
"""Words that refuse a call, such as an edit whose text is quoted after them."""
_SUCCESS = re.compile(
    r"\W{0,9}(?:success|ok\b|done\b|saved|created|updated|deleted|wrote|written|file written)"
    r"|[^\n]{0,80}\bsuccessfully\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"(?:\W{0,9}(?:result\W{1,9})?(?:no|none|nothing|null|0(?![.,:]\d)|zero|empty|found 0"
    r"|not found)\b|"
    r"[^\n]{0,80}\b0 (?:rows|hits|results|matches|messages|items|files|found|entries)\b"
    r"|\{\"total_count\": ?0|\W{0,9}\Z)",
    re.IGNORECASE,
)
_TRUNCATION = re.compile(
    r"\b(?:truncated|output (?:cut|too long)|too (?:long|large) to (?:show|display))\b"
    r"|\b(?:and|\.\.\.) \d{1,9} more\b|\bfirst \d{1,9} (?:rows|lines|results|items|records)\b"
    r"|\bshowing \d{1,9} of \d{1,9}\b",
    re.IGNORECASE,
)
_SHOWN_COUNT = re.compile(r"\b(?:first|showing) (\d{1,9})\b", re.IGNORECASE)
_TOTAL = re.compile(r"\b(?:total(?: \w{1,20})?:?|\d{1,9} of) (\d{1,9})\b", re.IGNORECASE)


def text_of(result: Any) -> str:
    """Text of a result, or of the parts of its content.

    A part of another type, such as an image, is a checksum there: megabytes of it say nothing, yet
    two screenshots are two answers.
    """
    if isinstance(result, str):
        return result
    if result is None:
        return ""
    parts = mappings_of(result)
    are_parts = all(isinstance(part.get("text", part.get("type")), str) for part in parts)
    if are_parts and any("text" in part for part in parts):
        return "\n".join(part["text"] if "text" in part else _checksum(part) for part in parts)
    return as_json(result)


def _checksum(part: Mapping[str, Any]) -> str:
    return f"[{part.get('type')} {zlib.crc32(as_json(part).encode()):08x}]"


def mappings_of(value: Any) -> list[Mapping[str, Any]]:
    """Mappings in a list; none in any other value."""
    items = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return [cast("Mapping[str, Any]", each) for each in items if isinstance(each, Mapping)]


def as_json(value: Any) -> str:
    """JSON of a value with sorted keys; the name of its type if it cannot be serialised."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str, sort_keys=True)
    except Exception:  # noqa: BLE001 -- foreign objects raise whatever they like
        return type(value).__name__


def has_failed(text: str, *, success: bool | None, error: str | None) -> bool:
    """True if a call failed, by its flag, its error, or the text of its result.

    Servers flag many failures as successes: a text that states a failure overrides the flag.
    Without a flag, a word of failure in a short text suffices.
    """
    if success is False or (error and success is None):
        return True
    return states_failure(text, is_flagged=success is True)


def states_failure(text: str, *, is_flagged: bool = False) -> bool:
    """True if a result states that its call failed; a long text about errors does not.

    `is_flagged`: the caller says that the call succeeded.
    """
    text = text.strip()
    if _JSON_BEGIN.match(text):
        return _states_failure_in_json(text)
    head = text[:HEAD_CHARS]
    codes = _FIRST_EXIT_CODE.findall(head)[:1] or _EXIT_CODE.findall(text[-TAIL_CHARS:])
    if codes:
        return int(codes[-1]) != 0
    page = _HTML_TITLE.match(text)
    if not is_flagged and (
        _STATUS_LINE.match(text, page.end() if page else 0) or _REFUSAL.search(head)
    ):
        return True
    begin = _BEGINS_WITH_FAILURE.match(head)
    if len(text) >= MAX_SHORT_CHARS or is_flagged:
        message = head[begin.end() : begin.end() + MAX_LABEL_CHARS] if begin else ""
        return ":" in message and not _REPORT.search(head)
    if begin is not None:
        return True
    is_source = _SOURCE.search(head) and not _RAISED.search(text)
    is_harmless = is_source or _SUCCESS.match(head) or _REPORT.search(head)
    return not is_harmless and _FAILURE_WORD.search(head) is not None


_JSON_BEGIN = re.compile(r"\{|\[\s{0,99}(?:[\[\]{\"'\d-]|true|false|null|none)", re.IGNORECASE)
"""Start of JSON; `[ERROR] no such row` is plain text."""

_UNPARSED_ERROR = re.compile(
    r"\{\s{0,9}([\"'])(?:(?:error|isError)\1\s{0,9}:\s{0,9}+(?!null|none|false|\1\1|\[\]|\{\})"
    r"|success\1\s{0,9}:\s{0,9}false)",
    re.IGNORECASE,
)
"""Start of a result that cannot be parsed: JSON that was cut off, or the text of a dictionary."""

_BETWEEN_DOCUMENTS = re.compile(r"[\s,]*+")


def _states_failure_in_json(text: str) -> bool:
    """True if each JSON document of a text is a failure; the last one may be cut off."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return at > 0 or _UNPARSED_ERROR.match(text) is not None
        if not _is_failure(document, 0):
            return False
        between = _BETWEEN_DOCUMENTS.match(text, at)
        at = between.end() if between else at
    return at > 0


def _is_failure(value: Any, depth: int) -> bool:
    """True if a JSON value is an error, has one as its result, or is a list of errors."""
    if depth >= MAX_RESULT_DEPTH:
        return False
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return bool(items) and all(_is_failure(each, depth + 1) for each in items)
    if not isinstance(value, dict):
        return False
    given = cast("Mapping[str, Any]", value)
    if given.get("type") == "text" and isinstance(given.get("text"), str):
        return states_failure(given["text"])
    if _has_failure_flag(given) or any(_is_error(given.get(key)) for key in _ERROR_KEYS):
        return True
    return any(_is_failure(given.get(key), depth + 1) for key in _RESULT_KEYS)


def _has_failure_flag(given: Mapping[str, Any]) -> bool:
    """True if a JSON object has a flag or a status of failure, or errors in place of its data.

    A status of HTTP counts only with a message: an object may report the status of a site.
    """
    if "false" in {str(given.get(key)).lower() for key in ("success", "ok")}:
        return True
    if str(given.get("status")).lower() in _FAILED_STATUS or given.get("object") == "error":
        return True
    if str(given.get("__type")).endswith("Exception"):
        return True
    places = (given, *mappings_of([given.get("metadata"), given.get("outcome")]))
    codes = (place.get(key) for place in places for key in _EXIT_CODE_KEYS)
    if any(isinstance(code, int) and code != 0 for code in codes):
        return True
    if given.get("errors") and ("errorMessages" in given or given.get("data", "") is None):
        return True
    has_message = any(isinstance(given.get(key), str) for key in _PROBLEM_KEYS)
    statuses = {str(given.get(key)) for key in _HTTP_STATUS_KEYS}
    return has_message and not _HTTP_FAILURES.isdisjoint(statuses)


def _is_error(value: Any) -> bool:
    """True for an error's text, object or flag; a number is a measure."""
    if isinstance(value, str):
        return value.strip().lower() not in {"", "none", "null", "false"}
    return bool(value) and (value is True or not isinstance(value, int | float))


def is_acknowledgement(text: str) -> bool:
    """True for a short text that only confirms the call."""
    return len(text) < HEAD_CHARS // 2 and _SUCCESS.match(text) is not None


def is_empty(text: str) -> bool:
    """True for a short text that says that nothing was found."""
    return len(text) < TAIL_CHARS and _EMPTY.match(text) is not None


def truncation(text: str) -> str:
    """Returned part of an answer, such as `5 of 720`, if the answer says that it was cut.

    Without numbers `a part`; empty for a whole answer.
    """
    ends = f"{text[:TAIL_CHARS]}\n{text[-TAIL_CHARS:]}"
    if not _TRUNCATION.search(ends):
        return ""
    shown, total = _SHOWN_COUNT.search(ends), _TOTAL.search(ends)
    if not shown or not total:
        return "a part"
    return f"{shown[1]} of {total[1]}" if int(shown[1]) < int(total[1]) else ""
