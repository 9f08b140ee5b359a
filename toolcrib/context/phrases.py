"""Phrases of a text, found by hash: the cost does not depend on their number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from toolcrib.text import TextWords, split_words

CJK_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")
"""Letters of Chinese, Japanese and Korean."""

MAX_PHRASE_WORDS = 12
"""Words and marks of the longest phrase in an index; longer phrases are never found."""


@cache
def word_lists() -> dict[str, Any]:
    """Words and patterns of entities, from `presets/entities.yaml`."""
    text = (Path(__file__).with_name("presets") / "entities.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


@dataclass(frozen=True, slots=True)
class Match:
    """Phrase found in a text: its labels, and its words from `first` to before `last`."""

    phrase: str
    labels: tuple[str, ...]
    first: int
    last: int


class PhraseIndex:
    """Labelled phrases, found on word borders in any case and with any white space.

    `fold` maps words of phrases and texts before a comparison. With `inside`, phrases in scripts
    without spaces are also found within a run of letters, which then counts as one word.
    """

    def __init__(
        self,
        phrases: Iterable[tuple[str, str]],
        fold: Callable[[str], str] = str,
        *,
        inside: bool = False,
    ) -> None:
        self._fold = fold
        self._spaceless: list[str] = []
        self._labels: dict[str, tuple[str, ...]] = {}
        lengths: dict[str, set[int]] = {}
        for phrase, label in phrases:
            words = split_words(phrase)
            if not 0 < len(words.bare) <= MAX_PHRASE_WORDS:
                continue
            key = _key(*words.folded_words(fold), 0, len(words.bare))
            known = self._labels.get(key, ())
            if label not in known:
                self._labels[key] = (*known, label)
            if inside and len(words.bare) == 1 and CJK_LETTER.match(phrase):
                self._spaceless.append(key)
            lengths.setdefault(fold(words.bare[0]), set()).add(len(words.bare))
        self._spaceless.sort(key=len, reverse=True)
        self._lengths = {first: sorted(all_, reverse=True) for first, all_ in lengths.items()}

    def find(self, words: TextWords) -> list[Match]:
        """Phrases of a text from left to right, without overlaps, the longest first."""
        found: list[Match] = []
        free = 0
        bare, spaced = words.folded_words(self._fold)
        for at, word in enumerate(bare):
            if word not in self._lengths:
                if self._spaceless and not word.isascii() and CJK_LETTER.search(word):
                    found += self._within(word, at)
                continue
            match = self._longest(bare, spaced, at) if at >= free else None
            if match is not None:
                found.append(match)
                free = match.last
        return found

    def _within(self, word: str, at: int) -> Iterator[Match]:
        """Phrases inside a run of letters, the longest first, without overlaps."""
        for phrase in self._spaceless:
            if phrase in word:
                word = word.replace(phrase, " ")
                yield Match(phrase, self._labels[phrase], at, at + 1)

    def at(self, words: TextWords, first: int) -> Match | None:
        """Longest phrase that begins with this word; None without one."""
        bare, spaced = words.folded_words(self._fold)
        return self._longest(bare, spaced, first) if bare[first] in self._lengths else None

    def _longest(self, bare: list[str], spaced: list[str], first: int) -> Match | None:
        for length in self._lengths[bare[first]]:
            last = first + length
            if last <= len(bare):
                key = _key(bare, spaced, first, last)
                labels = self._labels.get(key)
                if labels is not None:
                    return Match(key, labels, first, last)
        return None


def _key(bare: list[str], spaced: list[str], first: int, last: int) -> str:
    """Phrase of the words from `first` up to but not including `last`."""
    return bare[first] + "".join(spaced[first + 1 : last])
