"""The lexical leg: our tokens, BM25 weights as sparse vectors, the engine's IDF.

A document's weight for a term is BM25's saturated term frequency (Robertson and Zaragoza 2009),

    tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average_length)),

a query's weight is the term's count, and the engine multiplies each product by
`ln(1 + (N - n + 0.5) / (n + 0.5))`. `rank-bm25` uses the same saturation with an IDF of
`ln((N - n + 0.5) / (n + 0.5))`, floored where that is negative: very frequent terms weigh a
little here, and a constant there. All else is equal.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import Stemmer

from toolcrib.caches import cached_texts
from toolcrib.encoders.base import SparseVector
from toolcrib.errors import SettingsError

__all__ = ["LexicalEncoder", "LexicalSettings", "split_identifier", "tokenise"]

snowball: Any = Stemmer

TOKENS_VERSION = 2
"""Raise it when `tokenise` changes: indexes of another version are refused."""

MAX_TERM_CHARS = 64
"""Longer terms are cut: an encoded file in a description is no word, and terms are cached."""

LETTERS_BEFORE_DIGITS = 3

WHOLE_RUN_PARTS = 3
"""Up to how many parts a run is also a term as it stands: `GitHub`, `OAuth2`, `PostgreSQL`."""

_ASCII_RUNS = re.compile(r"[A-Za-z0-9]+")
_ASCII_PARTS = re.compile(r"[A-Z]{2,}s(?![a-z0-9])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_ABBREVIATIONS = re.compile(r"\A[A-Z]{2,}s")
"""The plural of an abbreviation: `VMs`, `URLs`."""

_MARKS = re.compile(
    r"[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652\u0670]+"
)
"""Accents of Latin, Greek and Cyrillic, and the optional vowel points of Hebrew and Arabic."""

_CONSONANTS_AND_S = re.compile(r"\A[b-df-hj-np-tv-xz]{2,}[b-df-hj-np-rtv-xz]s")
"""`pdfs`, `csvs`: abbreviations in the plural, which Snowball leaves as words without a vowel."""

_SPACELESS = re.compile(
    r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003134f]+)"
)
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han."""

_STOPWORDS = (
    "a an and are as at be by can could do does for from have how i if in into is it its me my "
    "of on or our please s so some such t that the their them then there these they this to us "
    "was we were what when which will with would you your"
)
STOPWORDS = frozenset(_STOPWORDS.split())
"""`s` and `t` are what an apostrophe leaves: `team's`, `don't`."""


def split_identifier(text: str) -> list[str]:
    """Cut `getUserById`, `slack_post-message`, `v2.items` into their words, case kept.

    Digits stay with up to three letters before them: `s3`, `v2`, `mp3` are words of their own.
    `URLs` becomes `URL`.
    """
    return [part for run in _letter_runs(text) for part in _parts(run)]


def _letter_runs(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_RUNS.findall(text)
    return "".join(map(_in_a_run, text)).split()


def _in_a_run(letter: str) -> str:
    kind = unicodedata.category(letter)
    # Vowel signs (Devanagari, Thai) are marks, which `\w` leaves out: they belong to the word.
    if kind[0] in "LMN":
        return letter
    # A soft hyphen or a joiner stands within a word; nobody sees that it does.
    return "" if kind == "Cf" else " "


def _parts(run: str) -> list[str]:
    parts: list[str] = []
    for piece in _ASCII_PARTS.findall(run) if run.isascii() else _case_pieces(run):
        if piece.isdigit() and parts and len(parts[-1]) <= LETTERS_BEFORE_DIGITS:
            parts[-1] += piece
        else:
            parts.append(piece[:-1] if _ABBREVIATIONS.fullmatch(piece) else piece)
    return parts


def _case_pieces(run: str) -> list[str]:
    """As `_ASCII_PARTS`, for letters that a regular expression knows no case of."""
    pieces = [run[0]]
    for before, letter in itertools.pairwise(run):
        new_word = letter.isupper() and not before.isupper()
        if new_word or letter.isdigit() != before.isdigit():
            pieces.append(letter)
        else:
            pieces[-1] += letter
    return pieces


def tokenise(text: str, language: str = "english") -> list[str]:
    """Cut a text into index terms: identifiers split, folded, stemmed, stop words dropped.

    A run of two or three parts is a term as a whole besides, so that `github` finds `GitHub`.
    Letters of scripts without spaces become one term each, and one for every two neighbours.
    A text of stop words only keeps them, so that no query is emptied. Any string is accepted,
    lone surrogates and control characters too, and no term is ever empty.
    """
    runs = _letter_runs(unicodedata.normalize("NFKC", text))
    words = [word for run in runs for word in _cut_words(run)]
    kept = [word for word in words if word not in STOPWORDS] or words
    return [_stem(word, language) for word in kept]


# Most runs of letters come again and again, and cutting one costs ten times a look here.
@cached_texts(200_000, MAX_TERM_CHARS)
def _cut_words(run: str) -> tuple[str, ...]:
    return tuple(word[:MAX_TERM_CHARS] for word in _cut(run))


def _cut(run: str) -> Iterable[str]:
    parts = _parts(run)
    for part in parts:
        # With its one group, `split` puts what is spaceless at the odd places.
        for place, stretch in enumerate(_SPACELESS.split(_fold(part))):
            if place % 2:
                yield from stretch
                yield from map("".join, itertools.pairwise(stretch))
            elif stretch:
                yield stretch
    if 1 < len(parts) <= WHOLE_RUN_PARTS and not _SPACELESS.search(run):
        yield _fold(run)


def _fold(word: str) -> str:
    """Lower case without accents, so that `Böschung` and `boschung` meet."""
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    # Elsewhere (Devanagari, Thai) marks tell words apart.
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", lowered)))


@lru_cache(maxsize=4)
def _stemmer(language: str) -> Any:
    return snowball.Stemmer(language)


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str) -> str:
    if language == "none":
        return word
    if language == "english" and _CONSONANTS_AND_S.fullmatch(word):
        return word[:-1]
    return _stemmer(language).stemWord(word)


@lru_cache(maxsize=200_000)
def _dimension(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class LexicalSettings:
    """What the weights rest on; part of the index identity.

    `k1` >= 0 saturates term frequency, `b` in [0, 1] corrects for length, `language` is a
    Snowball stemmer's name or "none".

    Raises:
        SettingsError: one of them is not so.
    """

    k1: float = 1.5
    b: float = 0.75
    language: str = "english"

    def __post_init__(self) -> None:
        """Refuse what would give scores without a meaning, or none."""
        if not 0 <= self.k1 < math.inf:
            raise SettingsError(f"lexical.k1 is {self.k1}; it must be a number from 0 on")
        if not 0 <= self.b <= 1:
            raise SettingsError(f"lexical.b is {self.b}; it must be from 0 to 1")
        languages: tuple[str, ...] = ("none", *snowball.algorithms())
        if self.language not in languages:
            raise SettingsError(
                f"lexical.language is {self.language!r}; known are {', '.join(languages)}"
            )


class LexicalEncoder:
    """Turns terms into sparse vectors whose inner product is BM25 without the IDF."""

    def __init__(self, settings: LexicalSettings | None = None) -> None:
        self.settings = settings or LexicalSettings()

    @property
    def name(self) -> str:
        """Identity of tokens and weights."""
        s = self.settings
        return f"bm25-t{TOKENS_VERSION}-{s.language}-k{s.k1:g}-b{s.b:g}"

    def terms(self, text: str) -> list[str]:
        """The index terms of a text, in order, with repeats."""
        return tokenise(text, self.settings.language)

    def encode_document(self, counts: Mapping[str, float], average_length: float) -> SparseVector:
        """BM25 weights of a document given its term frequencies (which may be field-weighted).

        `average_length` is the mean over the corpus of the sum of a document's frequencies;
        0 stands for a corpus of which nothing is known, whose lengths are not corrected for.
        """
        k1, b = self.settings.k1, self.settings.b
        length = sum(counts.values())
        norm = k1 * (1 - b + b * length / average_length) if average_length else k1
        return _sparse((term, tf * (k1 + 1) / (tf + norm)) for term, tf in counts.items())

    def encode_query(self, text: str) -> SparseVector:
        """A query's weights: how often each term occurs."""
        return self.encode_terms(self.terms(text))

    def encode_terms(self, terms: Iterable[str]) -> SparseVector:
        """As `encode_query`, for terms that are cut already."""
        return _sparse(Counter(terms).items())


def _sparse(weights: Iterable[tuple[str, float]]) -> SparseVector:
    # Two terms may share one of the 2^32 dimensions: their weights add up, as the engine must
    # never see an index twice.
    merged: dict[int, float] = {}
    for term, weight in weights:
        slot = _dimension(term)
        merged[slot] = merged.get(slot, 0.0) + weight
    slots = sorted(merged)
    return SparseVector(
        np.array(slots, dtype=np.uint32),
        np.array([merged[slot] for slot in slots], dtype=np.float32),
    )
