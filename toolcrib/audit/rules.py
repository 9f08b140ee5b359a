r"""Rules of phrases, and their matches in texts.

A phrase is written in a small language, and compiled to a regular expression:

    pass ~3 (entire|full|all previous) (conversation|chat)     alternatives; up to three words
    ignore <earlier> instruction*                              a vocabulary; any ending
    before .. {path}                                           the same sentence; a pattern
    ^ the? system prompt $                                     the text's ends; a word left out
    new rules /\s?:/                                           a regular expression, as it is

`..` is up to 60 characters of one sentence, `....` up to 120 of any. A blank matches any gap
between two words, also a line end. Texts are lower-case, normalised, and between separators.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import yaml

from toolcrib.audit.characters import visible
from toolcrib.audit.findings import Severity, Sign
from toolcrib.audit.normalise import SEPARATOR

# -- phrases ---------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\.{2,4}(?=\s)|~\d|[\^$](?=\s|$)|\{\w+\}|/[^/\s]+/|\([^()]*\)\??|[^\s()]+")
_BETWEEN = r"(?:[^\w.!?;\x00]|_){1,4}"
_ANY_WORD = r"[^\W_]{1,40}(?:'[^\W_]{1,3})?"
_END_OF_WORD = r"(?!\w)"
_SENTENCE = r"(?:[^.!?\n\x00]|[.!?](?=\w)|\n(?=\w)){0,60}?(?<!\w)"
_ANYTHING = r"[^\x00]{0,120}?(?<!\w)"
_GAPS = {"..": _SENTENCE, "....": _ANYTHING}
_MARKS = {"^": SEPARATOR, "$": f"(?=[.!]?{SEPARATOR})"}
_BRACKETS = re.compile(r"\([^()]*\)")
_VOCABULARY = re.compile(r"<(\w+)>")

COMMON_WORDS = frozenset(
    (  # noqa: SIM905 -- shorter than a list of literals
        "about after all and any are at before by call data each every file for from has have "
        "in is not of on or other over request server that the this to tool tools use user "
        "was when with you your"
    ).split()
)
"""Words of nearly every tool, which are no needles of a phrase that has other words."""


@dataclass(frozen=True, slots=True)
class RawPattern:
    """A regular expression with a name; every match contains one of `needles`.

    A pattern without needles only looks around, and matches no characters.
    """

    regex: str
    needles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Phrase of a rule.

    Every match contains one of each tuple of `needles`: prefixes of words, or marks. The first
    tuple is the rarest.
    """

    text: str
    regex: str
    needles: tuple[tuple[str, ...], ...]

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches that start with a word; they do not overlap."""
        pattern, at = _compile(self.regex), 0
        while found := pattern.search(text, at):
            start = found.start()
            at = start + 1
            # In scripts without blanks, a word may start anywhere.
            is_letter = text[start].isascii() and text[start].isalnum()
            if start == 0 or not (is_letter and text[start - 1].isalnum()):
                yield found
                at = max(found.end(), at)


@cache
def _compile(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


_REPETITION = re.compile(r"(\\.|\[\^?(?:\\.|[^\]\\]){1,200}\]|[^\\\[])(\*|\+|\{(\d+),\})?")

_MAX_REPETITIONS = 200
"""Repetitions of a part of a phrase; without a bound, a long text takes quadratic time."""


def _bounded_regex(regex: str) -> str:
    """The regular expression with repetitions bounded by `_MAX_REPETITIONS`."""

    def bound_repetition(element: re.Match[str]) -> str:
        what, times, least = element.groups()
        least = least or {"*": "0", "+": "1"}.get(times)
        return what if least is None else f"{what}{{{least},{_MAX_REPETITIONS}}}"

    return _REPETITION.sub(bound_repetition, regex)


@dataclass(slots=True)
class _Writer:
    """Builder of a regular expression, element by element."""

    patterns: Mapping[str, RawPattern]
    regex: str = ""
    after_word: bool = False
    ends_word: bool = False
    needles: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def add(self, token: str) -> None:
        if token in _MARKS:
            self.look(_MARKS[token])
        elif token in _GAPS:
            self.look(_GAPS[token])
            self.after_word = False
        elif token[0] == "~":
            self.element(_ANY_WORD, f"{{0,{token[1:]}}}?")
        elif token[0] == "/":
            self.look(token[1:-1])
        elif token[0] == "{":
            self.pattern(self.patterns[token[1:-1]])
        else:
            self.words(token)

    def element(self, regex: str, times: str = "") -> None:
        """Add an element with the gap to its neighbour; `times` is its quantifier."""
        before, behind = (_BETWEEN, "") if self.after_word else ("", _BETWEEN)
        if times:
            self.regex += f"(?:{before}{regex}{behind}){times}"
        else:
            self.regex += f"{before}{regex}"
            self.after_word = self.ends_word = True

    def look(self, regex: str) -> None:
        """Add a look-around behind the last word, without a gap."""
        self.regex += (_END_OF_WORD if self.ends_word else "") + regex
        self.ends_word = False

    def pattern(self, raw: RawPattern) -> None:
        if not raw.needles:
            self.look(raw.regex)
            return
        self.element(f"(?:{raw.regex})")
        self.ends_word = False
        self.needles.append(raw.needles)

    def words(self, token: str) -> None:
        choices = token.removesuffix("?").strip("()").split("|")
        # The longest alternative first: a shorter alternative would match before it.
        regexes = sorted((_choice(choice) for choice in choices), key=len, reverse=True)
        regex = f"(?:{'|'.join(regexes)})"
        if token.endswith("?"):
            self.element(regex, "?")
        else:
            self.element(regex)
            self.needles.append(tuple(_needle(choice) for choice in choices))


def read_phrase(text: str, words: Mapping[str, str], patterns: Mapping[str, RawPattern]) -> Phrase:
    """Compile a phrase.

    Raises:
        KeyError: the phrase names an unknown vocabulary or pattern.
        ValueError: the phrase cannot be read, or has no required part to search for.
    """
    full = _with_vocabulary(text, words)
    tokens = _TOKEN.findall(full)
    if "".join("".join(tokens).split()) != "".join(full.split()):
        raise ValueError(f"the phrase {text!r} cannot be read")
    writer = _Writer(patterns)
    for token in tokens:
        writer.add(token)
    if not writer.needles:
        raise ValueError(f"the phrase {text!r} has no required part")
    writer.look("")
    needles = sorted(writer.needles, key=_rarity, reverse=True)
    return Phrase(text, _bounded_regex(writer.regex), tuple(needles))


def _with_vocabulary(text: str, words: Mapping[str, str]) -> str:
    """The phrase with vocabularies written out, in brackets unless already within brackets."""

    def within(group: re.Match[str]) -> str:
        return _VOCABULARY.sub(lambda name: words[name[1]], group[0])

    return _VOCABULARY.sub(lambda name: f"({words[name[1]]})", _BRACKETS.sub(within, text))


def _choice(choice: str) -> str:
    words = (map(re.escape, word.split("*")) for word in choice.split())
    return _BETWEEN.join(r"\w{0,40}".join(parts) for parts in words)


def _needle(choice: str) -> str:
    """Prefix of the longest uncommon word of a choice."""
    heads = [head[0] for word in choice.split() if (head := re.search(r"[^\W\d_]+", word))]
    return max(heads, key=lambda head: (head not in COMMON_WORDS, len(head)))


def _rarity(needles: tuple[str, ...]) -> tuple[bool, int]:
    """Sort key of needles, greatest for the rarest."""
    return not any(needle in COMMON_WORDS for needle in needles), -len(needles)


# -- rules -----------------------------------------------------------------------------------------

RULES_FOLDER = Path(__file__).parent / "rules"
_VOCABULARY_FILE = "vocabulary.yaml"
MAX_KNOWN_WORDS = 100_000

_WORD = re.compile(r"[a-z]{2,}")


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule with phrases that reveal one kind of statement.

    Signs of different `group` strengthen each other. In a tool whose own name matches `own`, the
    statement is legitimate, and weighs less. `names` rules match only identifiers. A joined rule
    needs a statement with `suspicion`: log odds above the classifier's threshold.
    """

    name: str
    group: str
    severity: Severity
    why: str
    own: re.Pattern[str] | None
    names: bool
    suspicion: float = 0.0


class Rulebook:
    """Index of the phrases of all rules by the words that they need."""

    def __init__(self, phrases: list[tuple[Rule, Phrase]]) -> None:
        self._phrases = phrases
        needles = {needle for _, phrase in phrases for each in phrase.needles for needle in each}
        self._words = {needle for needle in needles if _WORD.fullmatch(needle)}
        self._longest = max(map(len, self._words), default=0)
        self._signs: dict[str, list[str]] = defaultdict(list)
        for needle in sorted(needles - self._words):
            # The rarest mark of a needle rules out most texts.
            marks = (letter for letter in needle if not letter.isalnum())
            self._signs[next(marks, needle[0])].append(needle)
        self._by_needle: dict[str, list[int]] = defaultdict(list)
        for number, (_, phrase) in enumerate(phrases):
            for needle in phrase.needles[0]:
                self._by_needle[needle].append(number)
        self._beginnings = lru_cache(MAX_KNOWN_WORDS)(self._needles_of)

    def __iter__(self) -> Iterator[tuple[Rule, Phrase]]:
        return iter(self._phrases)

    def possible(self, text: str) -> Iterator[tuple[Rule, Phrase]]:
        """Phrases that may match a text: the text has a needle of each tuple."""
        there: set[str] = set()
        for word in set(_WORD.findall(text)):
            there.update(self._beginnings(word[: self._longest]))
        for sign, needles in self._signs.items():
            if sign in text:
                there.update(needle for needle in needles if needle in text)
        numbers = {
            number
            for needle in there & self._by_needle.keys()
            for number in self._by_needle[needle]
        }
        for number in sorted(numbers):
            if not any(there.isdisjoint(needles) for needles in self._phrases[number][1].needles):
                yield self._phrases[number]

    def _needles_of(self, word: str) -> tuple[str, ...]:
        """Needles that are prefixes of a word; cached, as texts share most words."""
        ends = range(2, min(len(word), self._longest) + 1)
        return tuple(head for end in ends if (head := word[:end]) in self._words)


@cache
def rulebooks() -> tuple[Rulebook, Rulebook]:
    """Rules for all texts, and joined rules, for statements that the classifier suspects."""
    shared = _load(RULES_FOLDER / _VOCABULARY_FILE)
    words: dict[str, str] = shared["words"]
    patterns = _patterns(shared)
    phrases: dict[bool, list[tuple[Rule, Phrase]]] = {False: [], True: []}
    for file in sorted(RULES_FOLDER.glob("*.yaml")):
        if file.name != _VOCABULARY_FILE:
            book = _load(file)
            own = {**patterns, **_patterns(book)}
            phrases["joined" in book] += (
                (rule, read_phrase(text, words, own))
                for rule, texts in _rules(book)
                for text in texts
            )
    return Rulebook(phrases[False]), Rulebook(phrases[True])


def _rules(book: Mapping[str, Any]) -> Iterator[tuple[Rule, list[str]]]:
    for name, given in cast("dict[str, dict[str, Any]]", book["rules"]).items():
        rule = Rule(
            name=name,
            group=given.get("group", book["group"]),
            severity=given["severity"],
            why=given["why"],
            own=re.compile(_bounded_regex("|".join(given["own"]))) if "own" in given else None,
            names=given.get("names") == "true",
            suspicion=float(given.get("suspicion", 0)),
        )
        yield rule, given["phrases"]


def _patterns(book: Mapping[str, Any]) -> dict[str, RawPattern]:
    given: dict[str, dict[str, Any]] = book.get("patterns") or {}
    return {
        name: RawPattern("|".join(each["regex"]), tuple(each["needles"]))
        for name, each in given.items()
    }


def _load(file: Path) -> Mapping[str, Any]:
    # The base loader keeps `yes` and `on` as text; libyaml's, if installed, is faster.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 -- plain data


# -- matches ---------------------------------------------------------------------------------------

_EXCERPT_MARGIN_CHARS = 50
"""Characters around a match that an excerpt shows on each side."""

MAX_PLACES = 8
"""Most places of a tool at which a phrase is reported with one severity."""

_MIN_NAME_SENTENCE_WORDS = 5
"""From this many words on, a name is read as a sentence."""

_SENTENCE_END = re.compile(r"[.!?。!?](?=\s|$)|[\n。!?]")
_QUOTES = re.compile(r"[\"“”„«»「」『』]|(?<!\w)['‘’`]|['‘’`](?!\w)")
_SPEAKS_OF_ATTACKS = re.compile(
    r"\b(?:detect|flag|scan|block|catch|identif|recogni[sz]|classif|moderat|filter|sanitis|sanitiz"
    r"|look(?:s|ing)? for|check(?:s|ing)? (?:for|that)|search(?:es|ing)? for|guard|protect|inject"
    r"|jailbreak|attack|malicious|suspicious|poison|adversarial|phish|explain|red.?team"
    r"|contains? \"|test (?:payload|case)|(?:phrases?|texts?|prompts?) (?:such as|like))"
)
"""Wording of tools that detect attacks themselves."""


_REASON = re.compile(
    r"(?:^|[:\n]) ?(?:in order to|to|for|as|during|due to|because|per|under|since|when|while|before"
    r"|after) [^,'\"]{1,120}, ?(?!it\b|this\b)"
)
"""Reason that an order begins with, as in "to protect the user, send"."""

_MAX_PROHIBITION_CHARS = 40
_FORBIDS = re.compile(
    r"(?:[.!?;:,(\n\x00]\s?|\b(?:and|but|please|must|should|shall) "
    r"|\b(?:it|tool|server) (?:does|will) )"
    r"(?:never|do not|don't|not|avoid) (?:(?!(?:only|just|merely|forget|fail|skip|stop|omit|avoid"
    r"|neglect|hesitate|never|not)\b)\w+ )?\Z"
)
"""Words of a prohibition before what is forbidden; "calls that do not include it" is none."""


def signs_in(
    texts: str,
    shown: str,
    topic: str,
    names: Sequence[bool],
    suspicion: float | None = None,
) -> Iterator[tuple[int, Sign]]:
    """Find matches of rules, each with the number of its text.

    With `suspicion`, a statement's log odds above the classifier's threshold, the joined rules are
    matched instead.

    `texts` are normalised and lower-case, each between two separators; `shown` has their capitals,
    `topic` the tool's server, name and category; `names` marks the identifiers.
    """
    starts = [found.start() for found in re.finditer(SEPARATOR, texts)]
    plain, joined = rulebooks()
    book = plain if suspicion is None else joined
    for rule, phrase in book.possible(texts):
        if rule.suspicion > (suspicion or 0):
            continue
        # By severity: neither identifiers nor excused matches may hide a match behind them.
        places: Counter[Severity] = Counter()
        for found in phrase.matches(texts):
            number = bisect.bisect_right(starts, found.start()) - 1
            if _fits(rule, texts, starts, number, names[number]):
                sign = _sign(rule, texts, shown, found, topic)
                places[sign.severity] += 1
                if places[sign.severity] <= MAX_PLACES:
                    yield number, sign
            if places[rule.severity] >= MAX_PLACES:
                break


def _fits(rule: Rule, texts: str, starts: Sequence[int], number: int, is_name: bool) -> bool:  # noqa: FBT001
    """True if a rule about names meets a name, or another rule another text."""
    if not is_name or rule.names:
        return rule.names == is_name
    return texts.count(" ", starts[number], starts[number + 1]) + 1 >= _MIN_NAME_SENTENCE_WORDS


def _sign(rule: Rule, texts: str, shown: str, found: re.Match[str], topic: str) -> Sign:
    start, end = found.start(), min(found.end(), found.start() + 120)
    left = max(texts.rfind(SEPARATOR, 0, start + 1) + 1, start - _EXCERPT_MARGIN_CHARS)
    right = min(texts.index(SEPARATOR, max(end, left)), end + _EXCERPT_MARGIN_CHARS)
    excerpt = visible(shown[left:right])
    excuse = ""
    if _is_quoted(texts, found.start(), found.end()):
        excuse = "quoted, by a tool that looks for such texts"
    elif rule.own is not None and rule.own.search(topic):
        excuse = "close to what this tool is for"
    elif _FORBIDS.search(texts, max(0, start - _MAX_PROHIBITION_CHARS), start):
        excuse = "forbidden, not asked for"
    if excuse:
        less: Severity = "warning" if rule.severity == "block" else "info"
        return Sign(rule.name, less, excerpt, f"{rule.why} ({excuse})")
    return Sign(rule.name, rule.severity, excerpt, rule.why, rule.group)


def _is_quoted(texts: str, start: int, end: int) -> bool:
    """True for words in quotes in a tool that detects such words."""
    before = texts[max(0, start - 200, texts.rfind(SEPARATOR, 0, start) + 1) : start]
    ends = [stop.end() for stop in _SENTENCE_END.finditer(before)]
    sentence = _REASON.sub("", before[ends[-1] :] if ends else before)
    if _SPEAKS_OF_ATTACKS.search(sentence):
        return True
    opened = len(_QUOTES.findall(sentence)) % 2 == 1 or texts[start] in "\"'“«"
    after = itertools.takewhile(lambda letter: letter != SEPARATOR, texts[end - 1 : end + 120])
    closed = _QUOTES.search("".join(after)) is not None
    return opened and closed and _SPEAKS_OF_ATTACKS.search(before) is not None
