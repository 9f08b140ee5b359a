"""Words of a text, and the phrases in it.

Phrases are found by their hash: a hundred thousand cost a turn what ten do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from toolcrib.caches import cached_texts

__all__ = [
    "MAX_WORDS",
    "Match",
    "PhraseIndex",
    "TextWords",
    "listed",
    "lists",
    "singular",
    "split_words",
]

MAX_WORDS = 12
"""TextWords and marks of the longest phrase that is looked for; a longer one is never found."""

MAX_WORD_CHARS = 100
"""Longer words are not cached: an encoded file is one, too."""

_WORD = re.compile(r"\w+|[^\w\s]")
_ONE_S = re.compile(r"(?<=[^s'])s\Z")


@cache
def lists() -> dict[str, Any]:
    """What entities are told by, from `presets/entities.yaml`."""
    text = (Path(__file__).with_name("presets") / "entities.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def listed(name: str) -> list[str]:
    """One of these that is a list."""
    return lists()[name]


@dataclass(frozen=True, slots=True)
class TextWords:
    """A text's words and marks in lower case: where each lies, and what stands before it.

    `glued` has each of them with a space in front where white space stands there, so that
    `next.js` is not found in `what comes next. JS is`. `raised` says which began with a capital.
    """

    bare: list[str]
    glued: list[str]
    spans: list[tuple[int, int]]
    raised: list[bool]


@dataclass(frozen=True, slots=True)
class Match:
    """A phrase that was found: its words `first` to `last`, excluding, and its labels."""

    phrase: str
    labels: tuple[str, ...]
    first: int
    last: int


def split_words(text: str) -> TextWords:
    """Cut a text into words and marks; a typographer's apostrophe counts as the plain one."""
    spans = [found.span() for found in _WORD.finditer(text)]
    bare = [text[start:end].lower().replace("’", "'") for start, end in spans]
    ends = [-1, *(end for _, end in spans)]
    glued = [
        word if start == before else f" {word}"
        for word, (start, _), before in zip(bare, spans, ends, strict=False)
    ]
    return TextWords(bare, glued, spans, [text[start].isupper() for start, _ in spans])


@cached_texts(65_536, MAX_WORD_CHARS)
def singular(word: str) -> str:
    """The word without a plural's ending: crude, yet the same for a phrase and for a text."""
    if len(word) < 4 or not word.endswith("s"):  # noqa: PLR2004 - `is`, `bus` are no plurals
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return _ONE_S.sub("", word)


class PhraseIndex:
    """Labelled phrases, found on word borders whatever the case and the width of white space.

    `fold` is what a word becomes before it is compared, in phrases and in texts.
    """

    def __init__(
        self, phrases: Iterable[tuple[str, str]], fold: Callable[[str], str] = str
    ) -> None:
        self._fold = fold
        self._labels: dict[str, tuple[str, ...]] = {}
        lengths: dict[str, set[int]] = {}
        for phrase, label in phrases:
            words = split_words(phrase)
            if not 0 < len(words.bare) <= MAX_WORDS:
                continue
            key = self._key(words, 0, len(words.bare))
            known = self._labels.get(key, ())
            if label not in known:
                self._labels[key] = (*known, label)
            lengths.setdefault(fold(words.bare[0]), set()).add(len(words.bare))
        self._lengths = {first: sorted(all_, reverse=True) for first, all_ in lengths.items()}

    def find(self, words: TextWords) -> list[Match]:
        """The phrases in a text from left to right, none over another; the longest first."""
        found: list[Match] = []
        free = 0
        for at, word in enumerate(words.bare):
            lengths = self._lengths.get(self._fold(word))
            if lengths is None or at < free:
                continue
            match = self._longest(words, at, lengths)
            if match is not None:
                found.append(match)
                free = match.last
        return found

    def at(self, words: TextWords, first: int) -> Match | None:
        """The longest phrase that begins with this word; none is None."""
        lengths = self._lengths.get(self._fold(words.bare[first]))
        return None if lengths is None else self._longest(words, first, lengths)

    def _longest(self, words: TextWords, first: int, lengths: list[int]) -> Match | None:
        for length in lengths:
            last = first + length
            if last <= len(words.bare):
                key = self._key(words, first, last)
                labels = self._labels.get(key)
                if labels is not None:
                    return Match(key, labels, first, last)
        return None

    def _key(self, words: TextWords, first: int, last: int) -> str:
        fold = self._fold
        rest = words.glued[first + 1 : last]
        return fold(words.bare[first]) + "".join(
            f" {fold(word[1:])}" if word[0] == " " else fold(word) for word in rest
        )
