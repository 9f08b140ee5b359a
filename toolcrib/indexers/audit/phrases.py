r"""A small language for phrases: how rules say what they look for, and what it compiles to.

    pass ~3 (entire|full|all previous) (conversation|chat)     alternatives; up to three words
    ignore <earlier> instruction*                              a vocabulary; any ending
    before .. {path}                                           the same sentence; a pattern
    ^ the? system prompt $                                     the text's ends; a word left out
    new rules /\s?:/                                           a regular expression, as it is

`..` is up to 60 characters of one sentence, `....` up to 120 of any. A blank is what may stand
between two words, a line's end too. Texts are lower-case, have been made plain, and stand
between separators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from toolcrib.indexers.audit.normalise import SEPARATOR

__all__ = ["Phrase", "RawPattern", "read_phrase"]

_TOKEN = re.compile(r"\.{2,4}(?=\s)|~\d|[\^$](?=\s|$)|\{\w+\}|/[^/\s]+/|\([^()]*\)\??|[^\s()]+")
_BETWEEN = r"(?:[^\w.!?;\x00]|_){1,4}"
_WORD = r"[\w'-]+"
_END_OF_WORD = r"(?!\w)"
_SENTENCE = r"(?:[^.!?\n\x00]|[.!?](?=\w)|\n(?=\w)){0,60}?(?<!\w)"
_ANYTHING = r"[^\x00]{0,120}?(?<!\w)"
_GAPS = {"..": _SENTENCE, "....": _ANYTHING}
_MARKS = {"^": SEPARATOR, "$": f"(?=[.!]?{SEPARATOR})"}
_BRACKETS = re.compile(r"\([^()]*\)")
_VOCABULARY = re.compile(r"<(\w+)>")

COMMON = frozenset(
    {
        *(
            "about",
            "after",
            "all",
            "and",
            "any",
            "are",
            "at",
            "before",
            "by",
            "call",
            "data",
            "each",
        ),
        *(
            "every",
            "file",
            "for",
            "from",
            "has",
            "have",
            "in",
            "is",
            "not",
            "of",
            "on",
            "or",
            "other",
        ),
        *("over", "request", "server", "that", "the", "this", "to", "tool", "tools", "use", "user"),
        *("was", "when", "with", "you", "your"),
    }
)
"""Words of nearly every tool: a phrase is not looked for by these if it has others."""


@dataclass(frozen=True, slots=True)
class RawPattern:
    """A regular expression with a name; one of `needles` stands wherever it matches.

    One without needles takes no room: it only looks around.
    """

    regex: str
    needles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """What to look for.

    Of each tuple of `needles` one must be there: beginnings of words, or signs. The first tuple
    is the one that fewest texts hold.
    """

    text: str
    regex: str
    needles: tuple[tuple[str, ...], ...]

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The next match at or after a place that begins where a word does."""
        pattern = _compiled(self.regex)
        while found := pattern.search(text, start):
            at = found.start()
            # Scripts without blanks between words have no such places.
            if at == 0 or not (_is_letter(text[at]) and text[at - 1].isalnum()):
                return found
            start = at + 1
        return None


def _is_letter(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


@dataclass(slots=True)
class _Writer:
    """Puts a regular expression together, element by element."""

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
            self.element(_WORD, f"{{0,{token[1:]}}}?")
        elif token[0] == "/":
            self.look(token[1:-1])
        elif token[0] == "{":
            self.pattern(self.patterns[token[1:-1]])
        else:
            self.words(token)

    def element(self, regex: str, times: str = "") -> None:
        """Something and what parts it from its neighbours; `times` where it may be missing."""
        before, behind = (_BETWEEN, "") if self.after_word else ("", _BETWEEN)
        if times:
            self.regex += f"(?:{before}{regex}{behind}){times}"
        else:
            self.regex += f"{before}{regex}"
            self.after_word = self.ends_word = True

    def look(self, regex: str) -> None:
        """Something behind the last word, without a gap."""
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
        # The longest first: a shorter one would hide what follows it.
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
        KeyError: it names an unknown vocabulary or pattern.
        ValueError: it cannot be read, or nothing in it must be there, so that it could not be
            looked for.
    """
    full = _with_vocabulary(text, words)
    tokens = _TOKEN.findall(full)
    if "".join("".join(tokens).split()) != "".join(full.split()):
        raise ValueError(f"the phrase {text!r} cannot be read")
    writer = _Writer(patterns)
    for token in tokens:
        writer.add(token)
    if not writer.needles:
        raise ValueError(f"nothing in the phrase {text!r} has to be there")
    writer.look("")
    needles = sorted(writer.needles, key=_rarity, reverse=True)
    return Phrase(text, writer.regex, tuple(needles))


def _with_vocabulary(text: str, words: Mapping[str, str]) -> str:
    """The phrase with vocabularies written out, in brackets unless they stand in some."""

    def within(group: re.Match[str]) -> str:
        return _VOCABULARY.sub(lambda name: words[name[1]], group[0])

    return _VOCABULARY.sub(lambda name: f"({words[name[1]]})", _BRACKETS.sub(within, text))


def _choice(choice: str) -> str:
    return _BETWEEN.join(_word(word) for word in choice.split())


def _word(word: str) -> str:
    return r"\w*".join(re.escape(part) for part in word.split("*"))


def _needle(choice: str) -> str:
    """The beginning of the longest word of a choice that is not common."""
    heads = [head[0] for word in choice.split() if (head := re.search(r"[^\W\d_]+", word))]
    return max(heads, key=lambda head: (head not in COMMON, len(head)))


def _rarity(needles: tuple[str, ...]) -> tuple[bool, int]:
    """How well a phrase is looked for by these: few texts should hold any."""
    return not any(needle in COMMON for needle in needles), -len(needles)
