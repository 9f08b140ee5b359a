"""Tool calls in a form that can be compared: parameters, outcomes, and the news in them.

Progress shows as news. A call repeated with the same answer has no news; a call with other
parameters or another answer has. Knowledge expires when it may no longer hold: after a successful
act, and after a wait. Repetition that a user asked for never counts against the agent.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from toolcrib.caches import cached_texts
from toolcrib.router.alternates import EFFECT_OF
from toolcrib.text import (
    LETTERS_OR_DIGITS,
    WORD_CHARACTERS,
    likeness,
    name_words,
    split_identifier,
    tokenise,
)

FUZZY = 0.8
"""Lowest Jaccard index of words of two calls that fail alike and count as the same."""

REWORDED = 0.5
"""Lowest Jaccard index of word stems of two texts that ask the same, given equal answers."""

WAIT_S = 20.0
"""Seconds after which a repeated look counts as new, because things may have changed."""

_MAX_KEPT_CHARS = 1_000
"""Characters kept and compared of each parameter, result and error."""

MAX_NAME_CHARS, MAX_PARAMETERS, MAX_KNOWN = 200, 50, 5_000

MAX_CALL_CHARS, MAX_REWORDED = 10_000, 10
"""Characters of a call read word by word; differing parameters of a reworded call."""

ID_DIGITS = 4
"""Digits from which on a number in an error is an id, and no count."""

_USE_FIELDS = ("cmd", "command", "c", "args", "script", "code", "query", "sql", "q", "action")
"""Parameters that choose among the uses of a tool, such as a shell."""

SEARCHED = frozenset({"pattern", "term", "terms", "jql"})
"""Parameters that say what to look for."""

WORD_SETS = {
    key: frozenset(words.split())
    for key, words in tomllib.loads(
        Path(__file__).with_name("words.toml").read_text("utf-8")
    ).items()
}
ACTS, LOOKS = WORD_SETS["acts"], WORD_SETS["looks"]
GENERIC = WORD_SETS["generic"] | ACTS | LOOKS | frozenset(EFFECT_OF)

_STAMP = re.compile(
    r"(?<![\w.-])(?:\d{10}|\d{13}|\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![\w.])"
    r"|[?&](?:_|cb|nonce|rand(?:om)?|ts|timestamp)=[^&\s\"]{0,64}",
    re.IGNORECASE,
)
"""Times and random ids, which differ from call to call and mean nothing."""

_TOOK = re.compile(
    r"(?<![\w.])(?:\d{1,9}(?:\.\d{1,9})?[ ]?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)"
    r"|(?=[a-z_-]{0,12}\d)(?=\d{0,12}[a-z_-])[a-z]{0,4}[_-]?[0-9a-f]{4,64}|\d\d?:\d\d(?::\d\d)?)"
    r"(?![\w.])",
    re.IGNORECASE,
)
"""Durations, times of day and random ids in results."""

_DIGIT = re.compile(r"\d")
_PATH = re.compile(r"(?<![\w.~-])(?:[A-Za-z]:)?(?:[\w.~-]*+[/\\])++")
_ID = re.compile(r"(?=\D{0,63}\d)[\w.:/#-]{3,64}")
_CODE = re.compile(r"[=(){};<>|$\[\]]|(?<!\S)-")
_PLACE = re.compile(
    r"\b(line|char(?:acter)?|col(?:umn)?|position|pos|offset|byte|row)s?[ :#=]{1,3}\d{1,9}\b",
    re.IGNORECASE,
)
"""Position of an error in a text."""

_TRY = re.compile(r"\b(?:attempt|retry|retries|try|tries)\W{0,3}\d{1,4}\b", re.IGNORECASE)
_NOISE = (
    _STAMP,
    re.compile(r"/\*[^*]{0,500}\*/|(?:(?<!\S)--|(?<!\S)#|//)[ ][^\n]{0,500}"),
    _TRY,
    re.compile(r"(?<!\S)--?[A-Za-z][\w-]{0,40}"),
)
"""In a parameter: comments, the number of a try, and options of a command, which say how."""

_BARE = re.compile(r"\s*+(?:|\[\]|\{\}|null|ok|okay|done|true|success)[.!]?\s*+", re.IGNORECASE)
_DONE = re.compile(r"(?:ok|okay|done|success|[a-z]{2,15}(?:ed|ing))\b[^\n]{0,40}", re.IGNORECASE)
"""Results of successful acts: `ok`, `locked`, `saved as v2`."""

_IN_VAIN = re.compile(
    r"\b(?:no (?:change|effect)s?|nothing (?:changed|to do|happened)|unchanged"
    r"|not (?:changed|modified)|0 (?:replacements?|changes|rows affected))\b",
    re.IGNORECASE,
)
"""Results of acts without effect."""

_ERROR = re.compile(
    r"\s{0,9}(?:error|\w{1,40}(?:Error|Exception)|Traceback)\b[^\n:]{0,30}:", re.IGNORECASE
)
"""Results of failed calls, also of calls reported as successful."""

_RED = re.compile(
    r"\b(?:[1-9]\d{0,5} (?:tests? )?(?:failed|failing|failures?|errors?|problems?)"
    r"|(?:error|exception|traceback|failed|crash(?:ed)?)(?=[: ]))",
    re.IGNORECASE,
)
"""Results of checks that found faults."""

_EMPTY = re.compile(
    r"\W{0,9}(?:no(?:ne|thing)?|null|not found|0|zero|empty|total 0)(?:\b[^\n:]{0,60})?\W{0,9}"
    r"|[^\n]{0,60}\b0 (?:rows|hits|results|matches|messages|items|files|found)\b[^\n]{0,60}",
    re.IGNORECASE,
)
"""Results that report nothing found."""

# A value in JSON that is something; how long it took is none.
_VALUE = re.compile(r"(?<!took)\":\s?(?:\"[^\"]|[1-9]|true)|\[\s?(?:[\"\d]|\{\")")
_GREEN = re.compile(
    r"\b(?:pass(?:ed)?|ok|success(?:ful(?:ly)?)?|no problems|0 (?:errors|failed))\b", re.IGNORECASE
)
"""Results of checks that passed."""

_UNDER_WAY = re.compile(
    r"\b(?:pending|running|queued|in[ _-]?progress|processing|starting|building|provisioning"
    r"|creating|waiting|not (?:yet )?ready|not yet|scheduled|uploading|deploying|initiali[sz]ing"
    r"|syncing|indexing|rendering|transcoding)\b|\d%",
    re.IGNORECASE,
)

Effect: TypeAlias = Literal["looks", "acts", "unknown"]
"""Effect of a call, by its verb."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Call of a tool. `number` counts the events of its trajectory from 0, `at` is in seconds.

    `result` is the first part of what came, of `result_chars` characters. `asked` has the words
    of each parameter that says what, `words` those of all; `manner` and `part` say how, and which
    lines; `made` have ids that the act before it gave. `outcome` is the result or the error without
    what differs from call to call. `is_told`: a result was handed in. `says_little`: nothing, or
    the one word that it was done. `does`: it did something, and not only for the agent itself.
    `is_red`: it failed, or found failures.
    `paused`: it came after a wait; `is_reply`: after somebody spoke. `is_news`: it told or did
    what was not known; `changes`: it did something new that worked. `kind` is the number of the
    first call that it is again. `alarms` stand after it, as detectors are told.
    """

    name: str
    parameters: Mapping[str, Any]
    success: bool
    error: str | None
    result: str
    result_chars: int
    at: float
    number: int
    asked: Mapping[str, tuple[str, ...]]
    words: frozenset[str]
    manner: tuple[str, ...]
    part: tuple[str, ...]
    outcome: str
    effect: Effect
    verbs: frozenset[str]
    is_told: bool
    is_under_way: bool
    is_thought: bool
    says_little: bool
    does: bool
    is_red: bool
    made: frozenset[str] = frozenset()
    paused: bool = False
    is_reply: bool = False
    is_news: bool = True
    changes: bool = False
    kind: int = 0
    alarms: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)
    _stems: dict[str, frozenset[str]] = field(
        default_factory=dict[str, frozenset[str]], compare=False, repr=False
    )

    def about(self, key: str) -> frozenset[str]:
        """Topics of each parameter, cached because each call is compared with many."""
        if key not in self._stems:
            self._stems[key] = topics(" ".join(self.asked[key]))
        return self._stems[key]

    def is_one_of(self, verbs: str) -> bool:
        """True if the tool's verb is in a list, such as `waits` or `steps`."""
        return not WORD_SETS[verbs].isdisjoint(self.verbs)

    @property
    def tells_nothing(self) -> bool:
        """True for a look that found nothing."""
        text = self.result.strip()
        empty = _BARE.fullmatch(text) or _EMPTY.fullmatch(text)
        if text.startswith(("{", "[")) and not _VALUE.search(text):
            return self.success and self.effect == "looks"
        return self.success and self.is_told and self.effect == "looks" and empty is not None

    @property
    def is_search(self) -> bool:
        """True for a search."""
        by_key = self.effect != "acts" and not SEARCHED.isdisjoint(self.parameters)
        return self.success and self.is_told and (by_key or self.is_one_of("searches"))

    @property
    def is_open_check(self) -> bool:
        """True for a look or a check that did not pass."""
        checks = self.effect != "acts" or self.is_red or self.is_one_of("checks")
        return checks and not self.says_little and (self.is_red or not _GREEN.search(self.result))

    @property
    def waits(self) -> bool:
        """True for a wait, or a look at the state of running work."""
        return self.paused or self.is_under_way or self.is_one_of("waits")


def make_call(
    name: str,
    parameters: Mapping[str, Any] | None,
    *,
    success: bool | None,
    error: Any,
    result: Any,
    at: float,
    number: int,
) -> ToolCall:
    """Create a call, parsed once for all comparisons; an error means failure unless `success`."""
    name, given = _as_text(name)[:MAX_NAME_CHARS], _kept(parameters)
    error = _as_text(error)[:_MAX_KEPT_CHARS] or None
    success = not error if success is None else bool(success)
    text = _as_text(result)
    excerpt = text[:_MAX_KEPT_CHARS]
    success = success and _ERROR.match(excerpt) is None
    said = normal_error(error, counts=True) if error else ""
    is_told = result is not None or bool(error)
    is_under_way = success and _UNDER_WAY.search(excerpt) is not None
    is_done = _DONE.fullmatch(excerpt.strip()) is not None and not is_under_way
    effect = _effect(name, given) or ("acts" if is_done else "unknown")
    is_act, is_thought = effect == "acts", name_words(name) <= WORD_SETS["thoughts"]
    one_word = len(LETTERS_OR_DIGITS.findall(excerpt)) <= 1 and not _DIGIT.search(excerpt)
    return ToolCall(
        name=name,
        parameters=given,
        success=success,
        error=error,
        result=excerpt,
        result_chars=len(text),
        at=at,
        number=number,
        **_read(given),
        outcome=f"{success}|{said}|{_without_times(excerpt)}{_rest(text)}",
        effect=effect,
        verbs=name_words(name) | name_words(_command(given)[:30]),
        is_told=is_told,
        is_under_way=is_under_way and not is_act,
        is_thought=is_thought,
        says_little=success and is_told and bool(_BARE.fullmatch(excerpt) or (one_word and is_act)),
        does=success and is_act and not is_thought and not _IN_VAIN.search(excerpt),
        is_red=not success or _RED.search(excerpt) is not None,
    )


# -- the same again ------------------------------------------------------------------------------


def repeats(call: ToolCall, other: ToolCall) -> bool:
    """True if a call repeats another: the same request with the same outcome.

    With the same outcome, further parameters, other words or another amount make no difference.
    Another name or number is another request.
    """
    if call.name != other.name or call.outcome != other.outcome:
        return False
    if call.part != other.part or (call.manner != other.manner and call.says_little):
        return False
    if call.asked == other.asked or (call.asked and call.words == other.words):
        return True
    fewer, more = sorted((call.asked.keys(), other.asked.keys()), key=len)
    if not fewer <= more or (call.says_little and fewer != more):
        return False
    apart = [key for key in fewer if call.asked[key] != other.asked[key]]
    return len(apart) <= MAX_REWORDED and all(_says_the_same(call, other, key) for key in apart)


def _says_the_same(call: ToolCall, other: ToolCall, key: str) -> bool:
    """True if a parameter that differs in two calls of equal outcome means the same."""
    one, two = call.asked[key], other.asked[key]
    mine, theirs = set(one), set(two)
    if not call.success and likeness(mine, theirs) >= FUZZY:
        return True
    if key in call.made & other.made and not call.does:
        return True
    if min(len(mine), len(theirs)) <= 1 or any(_DIGIT.search(word) for word in mine ^ theirs):
        return False
    if mine <= theirs or theirs <= mine:
        return " " in str(call.parameters[key])
    # One word in place of another, and all else as it was, is another thing.
    slot = len(one) == len(two) and sum(a != b for a, b in zip(one, two, strict=True)) == 1
    if slot or likeness(call.about(key), other.about(key)) < REWORDED:
        return False
    return not any(_CODE.search(str(each.parameters[key])) for each in (call, other))


class Memory:
    """Knowledge since the last change of the world, by which a call is judged as news or not.

    `calls` are the last calls, oldest first, each with its judgement.
    """

    def __init__(self, window: int) -> None:
        self.calls: list[ToolCall] = []
        self._window = window
        self._acts: deque[int] = deque(maxlen=window)
        self._looks: deque[ToolCall] = deque(maxlen=window)
        self._known: set[str] = set()
        self._spoken = False

    def hear(self) -> None:
        """Take in a message, which may ask for the next call."""
        self._acts.clear()
        self._spoken = True

    def add(self, call: ToolCall, waited: float) -> ToolCall:
        """Judge a call, and return it with its news."""
        last = self.calls[-1] if self.calls else None
        if made := self._made(call):
            call = replace(call, made=made)
        kind = self._kind(call)
        paused = waited >= WAIT_S or (last is not None and last.is_one_of("waits"))
        changes = call.does and kind not in self._acts
        if changes or paused:
            self._looks.clear()
            self._known.clear()
        is_news = self._spoken or call.does or self._is_news(call, kind, last)
        call = replace(
            call,
            paused=paused,
            is_reply=self._spoken,
            is_news=is_news,
            changes=changes,
            kind=kind,
        )
        if changes:
            self._acts.append(kind)
        elif call.success and not call.does and (call.effect == "looks" or not call.says_little):
            self._looks.append(call)
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        self._known.update(_tokens(call))
        self.calls.append(call)
        del self.calls[: -self._window]
        self._spoken = False
        return call

    def _kind(self, call: ToolCall) -> int:
        again = (each.kind for each in reversed(self.calls) if repeats(call, each))
        return next(again, call.number)

    def _made(self, call: ToolCall) -> frozenset[str]:
        """Parameters with an id that the last act created, as such ids differ each time."""
        if not self.calls or not self.calls[-1].does:
            return frozenset()
        last, made = self.calls[-1], frozenset[str]()
        for key, value in call.parameters.items():
            text = str(value)
            if (
                _ID.fullmatch(text)
                and text in last.result
                and not last.words.issuperset(call.asked.get(key, ()))
            ):
                made |= {key}
                last = replace(last, outcome=last.outcome.replace(text, "#"))
        if made:
            del self.calls[-1]
            kind = self._kind(last)
            self.calls.append(replace(last, kind=kind, changes=kind == last.number))
        return made

    def _is_news(self, call: ToolCall, kind: int, last: ToolCall | None) -> bool:
        """True if a call without effect returned new knowledge.

        A wait, or a call with a near-empty answer, gets the benefit of the doubt.
        """
        if call.is_thought:
            return last is None or not last.is_thought
        in_vain = call.effect == "acts" and _IN_VAIN.search(call.result)
        if not call.success or in_vain or self._finds_nothing_again(call):
            return False
        is_polling = call.is_under_way and last is not None and last.name == call.name
        is_done = call.says_little and call.effect != "looks"
        if is_polling or is_done or call.is_one_of("waits") or not call.is_told:
            return True
        same = (each for each in self._looks if each.name == call.name)
        if not any(each.kind == kind or _same_target(call, each) for each in same):
            return not self._known.issuperset(_tokens(call))
        # What is answered otherwise at times is worth asking again.
        asked = (e for e in self.calls if e.name == call.name and e.parameters == call.parameters)
        return any(each.outcome != call.outcome for each in asked)

    def _finds_nothing_again(self, call: ToolCall) -> bool:
        """True if a search found nothing again; consecutive numbers are a batch."""
        is_again = call.tells_nothing and any(each.tells_nothing for each in self.calls[-2:])
        return is_again and any(map(str.isalpha, call.words))


def _same_target(call: ToolCall, other: ToolCall) -> bool:
    """True if a call looks at the target of an earlier call of its tool, in whole or in part."""
    if call.is_one_of("scrolls") and call.outcome == other.outcome:
        return True
    exactly = [[how for how in each.manner if "." in how] for each in (call, other)]
    is_within = not other.part or call.part == other.part
    return is_within and call.asked == other.asked and exactly[0] == exactly[1]


def _tokens(call: ToolCall) -> Iterator[str]:
    """Tokens known after a call: the tool, its parameters and the words of its answer."""
    yield f"{call.name}()"
    for key, words in call.asked.items():
        yield from (f"{key}:{word}" for word in words)
    yield from (word.lower() for word in WORD_CHARACTERS.findall(call.outcome))


# -- as it is compared ---------------------------------------------------------------------------


def _rest(text: str) -> str:
    """Digest of the part of a text that is not kept."""
    return f" {hash(text[_MAX_KEPT_CHARS:])}" if len(text) > _MAX_KEPT_CHARS else ""


@cached_texts(256, _MAX_KEPT_CHARS)
def _without_times(result: str) -> str:
    """Result without times, durations, numbers of attempts, and random ids."""
    return " ".join(_TRY.sub("#", _TOOK.sub("#", _STAMP.sub("#", result))).split())


def _read(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parse parameters into subject, manner and part, without random ids."""
    asked: dict[str, tuple[str, ...]] = {}
    how: list[str] = []
    part: list[str] = []
    left = MAX_CALL_CHARS
    for key in sorted(parameters.keys() - WORD_SETS["once"]):
        if not WORD_SETS["once"].isdisjoint(name_words(key)):
            continue
        value = parameters[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # A switch or a fraction says how.
        turns = isinstance(value, bool) or (is_number and value % 1 != 0)
        if key in WORD_SETS["amounts"] or turns:
            how.append(f"{key}:{value}")
        elif key in WORD_SETS["parts"] and is_number:
            part.append(f"{key}:{value}")
        else:
            text = _as_text(value)
            # What there is no room for is compared as a whole.
            asked[key] = _words(text) if len(text) <= left else (f"{hash(text)}",)
            left -= len(text)
    if not asked:
        asked, how = {word.partition(":")[0]: (word,) for word in how}, []
    return {
        "asked": MappingProxyType(asked),
        "words": frozenset(word for words in asked.values() for word in words),
        "manner": tuple(how),
        "part": tuple(part),
    }


def _words(text: str) -> tuple[str, ...]:
    with suppress(ValueError):
        return (f"{float(text):g}",)
    cut = text[:_MAX_KEPT_CHARS]
    for noise in _NOISE:
        cut = noise.sub(" ", cut)
    return tuple(LETTERS_OR_DIGITS.findall(cut.lower())) or tuple(text[:_MAX_KEPT_CHARS].split())


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
    """Copy of parameters, each cut to the compared length."""
    if not isinstance(parameters, Mapping):
        return MappingProxyType({})
    given = islice(cast("Mapping[Any, Any]", parameters).items(), MAX_PARAMETERS)
    return MappingProxyType({_as_text(key)[:MAX_NAME_CHARS]: _kept_value(v) for key, v in given})


def _kept_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = _as_text(value)
    if len(text) > _MAX_KEPT_CHARS:
        text = text[:_MAX_KEPT_CHARS] + _rest(text)
    elif not isinstance(value, str):
        with suppress(ValueError):
            return json.loads(text)
    return text if isinstance(value, str) else (text,)


def normal_error(message: str, *, counts: bool = False) -> str:
    """Error without folders, numbers, times and ids, which differ from time to time.

    With `counts` small numbers stay: fewer failures than before are another outcome.
    """
    return _normal_error(message[:_MAX_KEPT_CHARS], counts)


@lru_cache(maxsize=1024)
def _normal_error(message: str, counts: bool) -> str:  # noqa: FBT001
    text = _PATH.sub("", _PLACE.sub(r"\1 #", _without_times(message)))

    def shown(run: re.Match[str]) -> str:
        word = run[0]
        if not _DIGIT.search(word) or (counts and word.isdecimal() and len(word) < ID_DIGITS):
            return word.lower()
        return "#"

    return " ".join(WORD_CHARACTERS.sub(shown, text).split())


def _effect(name: str, parameters: Mapping[str, Any]) -> Effect | None:
    """Effect of a call: by the command to a tool of many uses, else by the tool's name."""
    told = _command(parameters)
    if not WORD_SETS["searches"].isdisjoint(name_words(name)):
        return "looks"
    return _effect_of(told[:80]) or _effect_of(name) or ("acts" if told else None)


def _command(parameters: Mapping[str, Any]) -> str:
    """Command to a tool of many uses."""
    told = (parameters[key] for key in _USE_FIELDS if key in parameters)
    return next((each for each in told if isinstance(each, str)), "")


@cached_texts(1024, _MAX_KEPT_CHARS)
def _effect_of(text: str) -> Effect | None:
    """Effect by the verb, at any place in a name; None without a verb.

    A word that may be a noun counts only without another verb.
    """
    words = [word.lower() for word in split_identifier(text)]
    ordered = [*words[:1], *words[-1:], *words[1:-1]]
    for verb in (*(word for word in ordered if word not in WORD_SETS["nouns"]), *ordered):
        if verb in LOOKS or EFFECT_OF.get(verb) == "reads":
            return "looks"
        if verb in ACTS or verb in EFFECT_OF:
            return "acts"
    return None


@cached_texts(1024, _MAX_KEPT_CHARS)
def topics(text: str) -> frozenset[str]:
    """Topics of a text: its word stems without verbs and common words of searches."""
    words = (word for word in split_identifier(text) if word.lower() not in GENERIC)
    return frozenset(tokenise(" ".join(words)))
