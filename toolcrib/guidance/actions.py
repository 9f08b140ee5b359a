"""Tool calls as they are compared: what was asked of which tool, and what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from toolcrib.encoders.lexical import split_identifier, tokenise
from toolcrib.router.alternates import EFFECT_OF

__all__ = [
    "MANNERS",
    "Effect",
    "ToolCall",
    "are_alike",
    "make_call",
    "normal_error",
    "topics",
    "word_set",
]

Effect: TypeAlias = Literal["looks", "acts"]
"""What a call does to the world."""

FUZZY = 0.8
"""From this Jaccard index of their character trigrams on, two calls ask the same."""

REWORDED = 0.6
"""The same where the same came of them."""

PROSE = 3
"""Spaces in the parameters from which on a word may stand for another; a name or a path is
another thing with one letter changed."""

COUNT_DIGITS = 3

MAX_CHARS = 1_000
"""Of each parameter, of results and errors so much is kept and compared."""

MAX_NAME_CHARS, MAX_PARAMETERS = 200, 50

_STAMP = re.compile(
    r"(?<![\w.-])(?:1\d{9}(?:\d{3})?|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?Z?"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![\w.])"
    r"|[?&](?:_|cb|cache_?bust(?:er)?|nonce|rand(?:om)?|rnd|ts|timestamp)=[^&\s\"]{0,64}",
    re.IGNORECASE,
)
"""Times and random ids, which differ from call to call and mean nothing."""

_TOOK = re.compile(
    r"(?<![\w.])(?:\d{1,9}(?:\.\d{1,9})?[ ]?(?:ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?)"
    r"|(?=[a-z]{0,12}\d|\d{1,12}[a-z])[0-9a-f]{6,64}|\d{4,20}|\d\d?:\d\d(?::\d\d)?)(?![\w.])",
    re.IGNORECASE,
)
"""Durations, times of day, long numbers and hexadecimal ids."""

_WORD = re.compile(r"[^\W_]++")
_PATH = re.compile(r"(?<![\w.~-])(?:[A-Za-z]:)?(?:[\w.~-]*+[/\\])++")
_RUN = re.compile(r"\w++")
_DIGIT = re.compile(r"\d")
_DONE = re.compile(r"(?:ok|okay|done|success|[a-z]{2,15}ed)\b[^\n]{0,40}", re.IGNORECASE)
"""Results of those that did something: `ok`, `locked`, `saved as v2`."""

_NEGATIVE = re.compile(
    r"\b(?:no|not|none|nothing|never|cannot|unable|error|fail\w*|invalid|wrong|missing|denied"
    r"|refused|rejected|conflict\w*|unchanged|still|same|empty|null)\b|n't\b",
    re.IGNORECASE,
)

_NOTHING = re.compile(
    r"(?:0|no|none|nothing|null|empty|\[\]|\{\}|not found)\b[^\n]{0,60}",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"\b(?:pending|running|queued|in[ _-]?progress|processing|starting|building|provisioning"
    r"|creating|waiting|not (?:yet )?ready|not yet|still|scheduled|accepted|uploading|deploying"
    r"|initiali[sz]ing|active|syncing|indexing|rendering|transcoding)\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(
    r"\s*+(?:|\[\]|\{\}|null|none|0|ok|done|true|success(?:ful(?:ly)?)?|sent|saved|updated|clicked"
    r"|written|created|moved|copied|deleted|added)[.!]?\s*+",
    re.IGNORECASE,
)
"""Results that say no more than that the call was made."""


def word_set(words: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(words.split())


ONCE = word_set(
    "_ cache_bust cachebust correlation_id idempotency_key nonce request_id requestid session_id "
    "time timestamp trace_id ts uuid"
)
"""Parameters that are another each time, and mean nothing."""

MANNERS = word_set(
    "attempt attempts count delay depth force k limit max max_results n offset_x offset_y per_page "
    "retries retry size timeout timeout_ms timeout_s top verbose wait x y"
)
"""Parameters that say how, not what: where the same came of it, they made no difference."""

COMMANDS = ("cmd", "command", "args", "script", "code", "query", "sql", "q", "action", "operation")
"""Parameters that say what a tool of many uses is to do."""

MORE_ACTS = word_set(
    "accept activate add answer append apply approve bind build call click close comment commit "
    "compile confirm copy dispatch drag draw edit enter escalate execute export fill fix format "
    "generate import insert install join label link load login merge modify mount move navigate "
    "notify offer patch pause press push put quote reject remind rename render reply replace reset "
    "resize resolve respond restart restore resume rollback rotate run save scale scroll share "
    "sign sort split squash start stop switch sync tag test toggle translate type unlock upsert "
    "wait"
)
MORE_LOOKS = word_set(
    "browse capture cat curl diff dir dump explain grep head help history info log logs ls man "
    "open ping print ps scan screenshot select snapshot stat status tail text tree watch wget "
    "which who zoom"
)
NOUNS = word_set(
    "answer book build call charge comment commit deploy export file format help import invite "
    "label link log man order place post quote register report request reserve run scale share "
    "sign start stop tag test text transfer tree watch"
)
"""Verbs that are as often nouns: `order_get`, `build_status`."""

QUERIES = word_set(
    "expression filter jql keywords q query search search_query search_term term text"
)
"""Parameters whose words may be said otherwise, be they few."""

STEPS = word_set(
    "cursor down hover keyboard keypress keystroke mouse next press redo scroll swipe type undo"
)
"""What is rightly done again and again, and says nothing each time."""

SEARCHES = word_set("find lookup query search")

THOUGHTS = word_set(
    "memo note notes plan reflect reflection scratchpad sequential think thinking thought todo"
)
"""What an agent tells only itself."""

WORDS = word_set("answer ask message reply respond say speak tell")
"""What speaks to the user."""

WAITS = word_set("await delay idle monitor pause poll sleep wait watch")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `number` counts the events of its trajectory from 0, `at` is in seconds.

    `result` is the first part of what came, of `result_chars` characters. `words` are those of
    the parameters, each with the parameter's name; `outcome` is the result or the error without
    what differs from call to call. `is_told`: a result was handed in. `is_news`: it did, or
    told, what no call of the window had; `paused`: it came after a wait, not at once.
    """

    name: str
    parameters: Mapping[str, Any]
    success: bool
    error: str | None
    result: str
    result_chars: int
    at: float
    number: int
    paused: bool
    words: tuple[str, ...]
    manner: tuple[str, ...]
    trigrams: frozenset[str]
    spaces: int
    outcome: str
    effect: Effect
    verbs: frozenset[str]
    is_told: bool
    is_under_way: bool
    is_news: bool = True

    @property
    def says_little(self) -> bool:
        """Whether the outcome is but an acknowledgement, or nothing."""
        return self.success and _EMPTY.fullmatch(self.result) is not None

    @property
    def says_no(self) -> bool:
        """Whether it failed, or its result says that something did not come about."""
        return not self.success or _NEGATIVE.search(self.result) is not None

    @property
    def found_nothing(self) -> bool:
        """Whether it was a search that found nothing."""
        is_search = not (QUERIES.isdisjoint(self.parameters) and SEARCHES.isdisjoint(self.verbs))
        found_none = _NOTHING.fullmatch(self.result.lstrip()) is not None
        return is_search and self.effect == "looks" and found_none

    @property
    def is_step(self) -> bool:
        """Whether its tool is one to be used again and again: scrolling, pressing a key."""
        return not STEPS.isdisjoint(self.verbs)

    @property
    def waits(self) -> bool:
        """Whether it waits for something that is under way."""
        return self.is_under_way or not WAITS.isdisjoint(self.verbs)

    @property
    def waits_itself(self) -> bool:
        """Whether its tool does nothing but wait."""
        return not WAITS.isdisjoint(self.verbs)

    @property
    def is_word(self) -> bool:
        """Whether it but says something to somebody."""
        return not WORDS.isdisjoint(name_words(self.name))

    @property
    def is_thought(self) -> bool:
        """Whether the agent but tells itself something."""
        return name_words(self.name) <= THOUGHTS


def make_call(
    name: str,
    parameters: Mapping[str, Any] | None,
    *,
    success: bool | None,
    error: Any,
    result: Any,
    at: float,
    number: int,
    paused: bool,
) -> ToolCall:
    """A call, read once for all comparisons; without `success` an error says that it failed."""
    name, given = _as_text(name)[:MAX_NAME_CHARS], _kept(parameters)
    error = _as_text(error)[:MAX_CHARS] or None
    success = not error if success is None else bool(success)
    words, manner = _words_of(given)
    spaces = sum(value.count(" ") for value in given.values() if isinstance(value, str))
    spaces += PROSE * (not QUERIES.isdisjoint(given))
    text = _as_text(result)
    excerpt = text[:MAX_CHARS]
    said = normal_error(error, counts=True) if error else ""
    outcome = f"{success}|{said}|{_without_times(excerpt)}"
    joined = " ".join(words)
    effect = _effect(name, given) or ("acts" if _DONE.fullmatch(excerpt.lstrip()) else "looks")
    return ToolCall(
        name=name,
        parameters=given,
        success=success,
        error=error,
        result=excerpt,
        result_chars=len(text),
        at=at,
        number=number,
        paused=paused,
        words=words,
        manner=manner,
        trigrams=frozenset(map("".join, zip(joined, joined[1:], joined[2:], strict=False))),
        spaces=spaces,
        outcome=outcome,
        effect=effect,
        verbs=name_words(name) | name_words(_command(given)[:30]),
        is_told=result is not None or bool(error),
        is_under_way=success and effect == "looks" and bool(_UNDER_WAY.search(excerpt)),
    )


def are_alike(call: ToolCall, other: ToolCall) -> bool:
    """Whether two calls ask the same of the same tool, but for wording.

    One may say more than the other; a number or an id in place of another is another call.
    """
    came_the_same = call.outcome == other.outcome
    if call.name != other.name:
        return False
    if call.manner != other.manner and (call.says_little or not came_the_same):
        return False
    if call.words == other.words:
        return True
    return _say_the_same(call, other, REWORDED if call.is_told and came_the_same else FUZZY)


def _say_the_same(call: ToolCall, other: ToolCall, least: float) -> bool:
    """Whether the parameters mean the same, from so much likeness on."""
    mine, theirs = set(call.words), set(other.words)
    if mine <= theirs or theirs <= mine:
        return bool(mine and theirs)
    if call.effect == "acts" and call.success:
        # The same letter to somebody else is another letter.
        return False
    if call.spaces < PROSE or any(_DIGIT.search(word) for word in _apart(mine, theirs)):
        return False
    shared = len(call.trigrams & other.trigrams)
    return shared >= least * (len(call.trigrams) + len(other.trigrams) - shared)


@lru_cache(maxsize=256)
def _without_times(result: str) -> str:
    """A result without times, how long things took, and random ids."""
    return " ".join(_TOOK.sub("#", _STAMP.sub("#", result)).split())


def _apart(mine: set[str], theirs: set[str]) -> Iterator[str]:
    """The words that one of them lacks, without the names of their parameters."""
    return (word.partition(":")[2] for word in mine ^ theirs)


def _words_of(parameters: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of each parameter, without punctuation, case, times and random ids.

    Those that say how come apart.
    """
    found: list[str] = []
    manner: list[str] = []
    for key in sorted(parameters.keys() - ONCE):
        text = _as_text(parameters[key])
        said = _WORD.findall(_STAMP.sub(" ", text[:MAX_CHARS]).lower())
        kept = manner if key in MANNERS else found
        kept += [f"{key}:{word}" for word in said]
        if len(text) > MAX_CHARS:
            kept.append(f"{key}:#{hash(text)}")
    return tuple(found), tuple(manner)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    shown: tuple[Callable[[Any], str], ...] = (_as_json, str)
    for show in shown:
        # What an application's own object raises is not the agent's concern.
        with suppress(Exception):
            return show(value)
    return type(value).__name__


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _kept(parameters: object) -> Mapping[str, Any]:
    """A copy of parameters, of each so much as is compared."""
    if not isinstance(parameters, Mapping):
        return MappingProxyType({})
    given = islice(cast("Mapping[Any, Any]", parameters).items(), MAX_PARAMETERS)
    return MappingProxyType({_as_text(key)[:MAX_NAME_CHARS]: _kept_value(v) for key, v in given})


def _kept_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _as_text(value)
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]}#{hash(text)}"
    elif not isinstance(value, str):
        with suppress(ValueError):
            return json.loads(text)
    return text if isinstance(value, str) else (text,)


def normal_error(message: str, *, counts: bool = False) -> str:
    """An error without what differs from time to time: folders, numbers, times and ids.

    With `counts` small numbers stay: fewer failures than before are another outcome.
    """
    return _normal_error(message[:MAX_CHARS], counts)


@lru_cache(maxsize=1024)
def _normal_error(message: str, counts: bool) -> str:  # noqa: FBT001
    text = _PATH.sub("", _STAMP.sub("#", message))

    def shown(run: re.Match[str]) -> str:
        word = run[0]
        if not _DIGIT.search(word) or (counts and word.isdecimal() and len(word) <= COUNT_DIGITS):
            return word.lower()
        return "#"

    return " ".join(_RUN.sub(shown, text).split())


@lru_cache(maxsize=1024)
def name_words(name: str) -> frozenset[str]:
    """The words of a tool's name."""
    return frozenset(word.lower() for word in split_identifier(name))


def _effect(name: str, parameters: Mapping[str, Any]) -> Effect | None:
    """What a call does: by what a tool of many uses is told to do, else by the tool's name."""
    told = _command(parameters)
    return _effect_of(told[:80]) or _effect_of(name) or ("acts" if told else None)


def _command(parameters: Mapping[str, Any]) -> str:
    """What a tool of many uses is told to do."""
    told = (parameters[key] for key in COMMANDS if key in parameters)
    return next((each for each in told if isinstance(each, str)), "")


@lru_cache(maxsize=1024)
def _effect_of(text: str) -> Effect | None:
    """By the verb, which stands first, last or between; None where there is none.

    What may as well be a noun counts where there is no other.
    """
    words = [word.lower() for word in split_identifier(text)]
    ordered = [*words[:1], *words[-1:], *words[1:-1]]
    for verb in (*(word for word in ordered if word not in NOUNS), *ordered):
        if verb in MORE_LOOKS or EFFECT_OF.get(verb) == "reads":
            return "looks"
        if verb in MORE_ACTS or verb in EFFECT_OF:
            return "acts"
    return None


@lru_cache(maxsize=1024)
def topics(text: str) -> frozenset[str]:
    """What a text is about: its word stems without verbs and words that any search has."""
    words = (word for word in split_identifier(text) if word.lower() not in GENERIC)
    return frozenset(tokenise(" ".join(words)))


GENERIC = (
    word_set(
        "a about all an and another any api are as at be by can data do file files for from "
        "function how i id in information into is it item items me my need of on or other some "
        "something that the this to tool tools up using via want what with you your"
    )
    | frozenset(EFFECT_OF)
    | MORE_ACTS
    | MORE_LOOKS
)
"""Words that a search for anything may have."""
