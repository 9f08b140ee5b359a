"""Tool calls and searches for tools, in a form for comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from toolcrib.guidance.results import as_json, has_failed, is_acknowledgement, is_empty, text_of
from toolcrib.text import LETTERS_OR_DIGITS, jaccard, name_words

MAX_CALL_NAME_CHARS, MAX_PARAMETERS, MAX_KEPT_CHARS = 200, 100, 1_000
"""Limits of a stored call: characters of a name, number of parameters, characters of a value."""

MAX_COMPARED_VALUES, MAX_COMPARED_PARAMETER_CHARS, MAX_COMPARED_MESSAGE_CHARS = 1_000, 8_000, 4_000
"""Limits of a compared call: values, characters of parameters, characters of a message."""

MIN_REQUEST_LIKENESS, MIN_ANSWER_LIKENESS, MIN_ERROR_LIKENESS = 0.6, 0.8, 0.8
"""Minimum Jaccard index of the words of two equal requests, answers or errors."""

MIN_NEW_SHARE = 0.1
"""Minimum share of new words in an answer with new content."""

ERROR_WORDS = 14
"""Words of an error that are compared, with digits masked."""

_LAST_FRAME = re.compile(r"^[ \t][^\n]*\n(?=\S)", re.MULTILINE)
"""Line of a traceback before its error; frames are indented."""

_COUNT = re.compile(
    r"\b\d{1,9} (?:\w{1,20} )?(?:passed|failed|failing|failures?|errors?|problems?)\b"
    r"|\b(?:failures|errors)=\d{1,9}",
    re.IGNORECASE,
)
"""Count in a report of tests or of a compiler."""

_NUMBER = re.compile(r"\d{1,30}(?:[.,]\d{1,30})?")
_NAME_TOKEN = re.compile(r"[^\W_][\w./@:?&=%#~+-]*+")
_NAME_CHARACTER = re.compile(r"[\d_./@:?&=%#~+-]")
"""Character of a name, such as a path, an id or a date, in a longer text."""

_UNDER_WAY = re.compile(
    r"\b(?:pending|running|queued|in[ _-]?progress|processing|converting|not yet|scheduled"
    r"|waiting|building|deploying)\b|\d%",
    re.IGNORECASE,
)
MAX_STATUS_CHARS = 400
"""Length of an answer that may be the status of running work."""

SEARCH_VERBS = frozenset({"find", "grep", "lookup", "query", "rg", "search"})
QUERY_KEYS = frozenset(
    {"keyword", "keywords", "pattern", "q", "query", "regex", "search", "term", "terms"}
)
"""Parameters that hold a query in free text."""

PROGRAM_KEYS = frozenset({"cmd", "code", "command", "script"})
"""Parameters that hold a program: a success of such a tool says nothing of another program."""

THOUGHTS = frozenset(
    {"memo", "note", "notes", "plan", "reflect", "sequential", "think", "thinking", "thought"}
)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Outcome of a call; `message` is the first part of its text of `chars` characters."""

    success: bool
    message: str
    chars: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Position of an event in its trajectory; `number` counts from 0, `at` is in seconds.

    `turn` counts the user's messages; `goal`: last message or search before the event.
    `has_waited`: a pause precedes the event.
    """

    at: float
    number: int
    turn: int = 0
    goal: str = ""
    has_waited: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Call of a tool; `parameters` are cut, and lists and objects among them are JSON.

    `request` and `answer_form` are hashes of the parameters, and of the answer with digits masked.
    `words`: of the parameters; `names`: words that name one thing (a path, an id, a date);
    `places`: names outside of a search's query. `answer` and `error`: words of the answer;
    `counts`: its counts of failures; `new_share`: share of its words that no stored answer has.
    """

    tool_name: str
    parameters: Mapping[str, Any]
    result: ToolResult
    moment: Moment
    request: int
    words: frozenset[str]
    names: frozenset[str]
    places: frozenset[str]
    answer_form: int
    answer: frozenset[str]
    error: frozenset[str]
    counts: tuple[str, ...]
    new_share: float
    is_search: bool
    is_program: bool
    is_thought: bool

    @property
    def success(self) -> bool:
        """True if the call worked."""
        return self.result.success

    @property
    def message(self) -> str:
        """Text of the result, or of the error."""
        return self.result.message

    @property
    def is_under_way(self) -> bool:
        """True if the answer is the status of running work."""
        is_status = self.success and self.result.chars < MAX_STATUS_CHARS
        return is_status and _UNDER_WAY.search(self.message) is not None

    @property
    def is_idle(self) -> bool:
        """True if the call failed, or its answer is empty or has hardly a new word."""
        is_known = self.new_share < MIN_NEW_SHARE and not is_acknowledgement(self.message)
        return is_known or is_empty(self.message) or not self.success

    @property
    def is_vain_search(self) -> bool:
        """True for a successful search without new results."""
        return self.success and self.is_search and self.is_idle


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """Search for tools; `found`: names of the found tools, if known."""

    found: tuple[str, ...]
    topics: frozenset[str]
    moment: Moment


def make_call(
    name: Any,
    parameters: Mapping[str, Any] | None,
    *,
    success: bool | None,
    error: Any,
    result: Any,
    known: Mapping[str, int],
    moment: Moment,
) -> ToolCall:
    """Create a call, parsed once for all comparisons; `known`: words of earlier answers."""
    given: Mapping[Any, Any] = parameters if isinstance(parameters, Mapping) else {}
    error_text = text_of(error)
    text = text_of(result) or error_text
    message = text[:MAX_COMPARED_MESSAGE_CHARS]
    tool_name = text_of(name)[:MAX_CALL_NAME_CHARS]
    words, names, places = _read_parameters(given)
    answer = _words(message)
    new_words = sum(word not in known for word in answer)
    failed = has_failed(text, success=success, error=error_text or None)
    verbs, keys = name_words(tool_name), {str(key).lower() for key in given}
    return ToolCall(
        tool_name=tool_name,
        parameters=_keep(given),
        result=ToolResult(not failed, message, len(text)),
        moment=moment,
        request=hash(as_json(given)),
        words=words,
        names=names,
        places=places,
        answer_form=hash(_NUMBER.sub("#", message)),
        answer=answer,
        error=_error_words(message),
        counts=tuple(_COUNT.findall(text[-MAX_COMPARED_MESSAGE_CHARS:])) if failed else (),
        new_share=new_words / len(answer) if answer else 0.0,
        is_search=not SEARCH_VERBS.isdisjoint(verbs) or not QUERY_KEYS.isdisjoint(keys),
        is_program=not PROGRAM_KEYS.isdisjoint(keys),
        is_thought=bool(verbs) and verbs <= THOUGHTS,
    )


def repeats(call: ToolCall, other: ToolCall) -> bool:
    """True if a call has the same request and the same answer, except for numbers.

    Names that differ on both sides make another request: another file, id, date or number.
    """
    if call.tool_name != other.tool_name or call.answer_form != other.answer_form:
        return False
    if call.request != other.request:
        is_other = call.names - other.names and other.names - call.names
        if is_other or not is_near_request(call, other) or is_acknowledgement(call.message):
            return False
    return jaccard(call.answer, other.answer) >= MIN_ANSWER_LIKENESS


def is_near_request(call: ToolCall, other: ToolCall) -> bool:
    """True if two calls of one tool have nearly the same words."""
    is_near = jaccard(call.words, other.words) >= MIN_REQUEST_LIKENESS
    return is_near and call.tool_name == other.tool_name


def fails_alike(call: ToolCall, other: ToolCall) -> bool:
    """True if two failed calls have nearly the same error, and report as many failures.

    Reports of tests begin alike, whichever tests failed.
    """
    is_near = jaccard(call.error, other.error) >= MIN_ERROR_LIKENESS
    return is_near and call.counts == other.counts


def _error_words(message: str) -> frozenset[str]:
    """First words of an error; frames of a Python traceback quote code and are left out."""
    if "Traceback" in message:
        message = message[max((each.end() for each in _LAST_FRAME.finditer(message)), default=0) :]
    return _words(" ".join(_NUMBER.sub("#", message).split()[:ERROR_WORDS]))


def _words(text: str) -> frozenset[str]:
    return frozenset(LETTERS_OR_DIGITS.findall(text.lower()))


def _read_parameters(
    parameters: Mapping[Any, Any],
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Words of all parameters, the names among them, and the names outside of a query."""
    words, names, places = set[str](), set[str](), set[str]()
    for key, text in _values(parameters):
        words |= _words(text)
        is_phrase = len(text.split()) > 1
        tokens = (token.rstrip(".:-?") for token in _NAME_TOKEN.findall(text.lower()))
        found = {token for token in tokens if not is_phrase or _NAME_CHARACTER.search(token)}
        names |= found
        if key.lower() not in QUERY_KEYS:
            places |= found
    return frozenset(words), frozenset(names), frozenset(places)


def _values(parameters: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Texts and numbers in the parameters, each with its key."""
    waiting: list[tuple[str, Any]] = [("", parameters)]
    for _ in range(MAX_COMPARED_VALUES):
        if not waiting:
            return
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            nested = cast("Mapping[Any, Any]", value).items()
            waiting += ((str(inner), each) for inner, each in islice(nested, MAX_PARAMETERS))
        elif isinstance(value, list | tuple):
            waiting += ((key, each) for each in islice(cast("list[Any]", value), MAX_PARAMETERS))
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield key, str(value)[:MAX_COMPARED_PARAMETER_CHARS]


def _keep(parameters: Mapping[Any, Any]) -> dict[str, Any]:
    """Copy of the first part of the parameters."""
    return {
        str(key)[:MAX_CALL_NAME_CHARS]: value
        if isinstance(value, int | float | None)
        else text_of(value)[:MAX_KEPT_CHARS]
        for key, value in islice(parameters.items(), MAX_PARAMETERS)
    }
