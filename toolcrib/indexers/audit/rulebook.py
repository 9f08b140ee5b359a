"""The rules about words, as they stand in `rules/`: read once, looked up by the words they need."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

import yaml

from toolcrib.indexers.audit.findings import Severity
from toolcrib.indexers.audit.rules import Phrase, RawPattern, read_phrase

__all__ = ["Rule", "Rulebook", "rulebook"]

FOLDER = Path(__file__).parent / "rules"
SHARED = "words.yaml"
MAX_KNOWN_WORDS = 100_000

_WORD = re.compile(r"[a-z]{2,}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of thing that a text may say.

    `group` is who strengthens it (see `judge`). In a tool whose own name matches `own` the same
    wish is its business, so that it weighs less. `names` rules look at identifiers alone.
    """

    name: str
    group: str
    severity: Severity
    why: str
    own: re.Pattern[str] | None
    names: bool


class Rulebook:
    """Phrases of all rules, found by the words of a text instead of one by one."""

    def __init__(self, phrases: list[tuple[Rule, Phrase]]) -> None:
        self._phrases = phrases
        needles = {needle for _, phrase in phrases for each in phrase.needles for needle in each}
        self._words = {needle for needle in needles if _WORD.fullmatch(needle)}
        self._longest = max(map(len, self._words), default=0)
        self._signs: dict[str, list[str]] = defaultdict(list)
        for needle in sorted(needles - self._words):
            self._signs[_rarest(needle)].append(needle)
        self._by_needle: dict[str, list[int]] = defaultdict(list)
        for number, (_, phrase) in enumerate(phrases):
            for needle in phrase.needles[0]:
                self._by_needle[needle].append(number)
        self._beginnings = lru_cache(MAX_KNOWN_WORDS)(self._needles_of)

    def __iter__(self) -> Iterator[tuple[Rule, Phrase]]:
        return iter(self._phrases)

    @property
    def names(self) -> frozenset[str]:
        """The names of all rules."""
        return frozenset(rule.name for rule, _ in self._phrases)

    def possible(self, text: str) -> Iterator[tuple[Rule, Phrase]]:
        """The phrases that a text may hold: of all that must be there something is."""
        there: set[str] = set()
        for word in set(_WORD.findall(text)):
            there.update(self._beginnings(word))
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
        """The needles that a word begins with; texts share most of their words."""
        ends = range(2, min(len(word), self._longest) + 1)
        return tuple(head for end in ends if (head := word[:end]) in self._words)


def _rarest(needle: str) -> str:
    """The sign of a needle by which most texts are passed over."""
    return next((letter for letter in needle if not letter.isalnum()), needle[0])


@cache
def rulebook() -> Rulebook:
    """The rules that ship."""
    shared = _load(FOLDER / SHARED)
    words: dict[str, str] = shared["words"]
    patterns = _patterns(shared)
    phrases: list[tuple[Rule, Phrase]] = []
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name != SHARED:
            book = _load(file)
            own = {**patterns, **_patterns(book)}
            phrases += (
                (rule, read_phrase(text, words, own))
                for rule, texts in _rules(book)
                for text in texts
            )
    return Rulebook(phrases)


def _rules(book: Mapping[str, Any]) -> Iterator[tuple[Rule, list[str]]]:
    for name, given in cast("dict[str, dict[str, Any]]", book["rules"]).items():
        rule = Rule(
            name=name,
            group=given.get("group", book["group"]),
            severity=given["severity"],
            why=given["why"],
            own=re.compile("|".join(given["own"])) if "own" in given else None,
            names=given.get("names") == "true",
        )
        yield rule, given["phrases"]


def _patterns(book: Mapping[str, Any]) -> dict[str, RawPattern]:
    given: dict[str, dict[str, Any]] = book.get("patterns") or {}
    return {
        name: RawPattern("|".join(each["regex"]), tuple(each["needles"]))
        for name, each in given.items()
    }


def _load(file: Path) -> Mapping[str, Any]:
    # The loader of plain texts, and the fast one where there is one: `yes` and `on` stay words.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 -- plain data
