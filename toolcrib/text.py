"""Text: words, identifiers, index terms and the jaccard of texts."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any

import Stemmer

from toolcrib.caches import cached_texts

_snowball: Any = Stemmer

STEMMED_LANGUAGES: tuple[str, ...] = ("none", *_snowball.algorithms())
"""Languages that `tokenise` takes; "none" leaves words as they are."""

TOKENS_VERSION = 2
"""Version of the terms of `tokenise`: an index of another version is refused."""

MAX_CACHED_CHARS = 100
"""Longer words are not cached: an encoded file is one word."""

MAX_CACHED_TEXT_CHARS = 2_500
"""Longer texts are not cached."""

MAX_TERM_CHARS = 64
"""Longer terms are cut: terms are cached, and an encoded file in a description is one term."""

LETTERS = re.compile(r"[^\W\d_]+")
"""A run of letters of any script."""

TWO_LETTERS = re.compile(r"[^\W\d_]{2,}")
"""A run of at least two letters of any script."""

LETTERS_OR_DIGITS = re.compile(r"[^\W_]++")
"""A run of letters and digits of any script."""

WORD_CHARACTERS = re.compile(r"\w++")
"""A run of letters, digits and underscores of any script."""

_MAX_PREFIX_LETTERS = 3
_MAX_WHOLE_RUN_PARTS = 3

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

_SPACELESS_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
SPACELESS = re.compile(f"([{_SPACELESS_SCRIPTS}]+)")
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Han."""

UNSPACED_SCRIPTS = f"{_SPACELESS_SCRIPTS}\u0f00-\u0fff\uac00-\ud7a3"
"""Ranges of scripts whose words touch: those of `SPACELESS`, Tibetan, and Korean, whose particles
follow a word without a space."""

FULL_WIDTH_OFFSET = 0xFEE0
FULL_WIDTH = {ord(sign) + FULL_WIDTH_OFFSET: sign for sign in ascii_letters + digits}
"""Letters and digits of ASCII by the code of their full-width form, as typed in Japanese and
Chinese; for `str.translate`."""

_STOPWORDS = (
    "a an and are as at be by can could do does for from have how i if in into is it its me my "
    "of on or our please s so some such t that the their them then there these they this to us "
    "was we were what when which will with would you your"
)
STOPWORDS = frozenset(_STOPWORDS.split())
"""English words that are no terms; `s` and `t` are what an apostrophe leaves: `team's`, `don't`."""

_EFFECTS: dict[str, str] = {
    "reads": "check count describe detect explain fetch find get identify inspect list look "
    "lookup preview query read recognize report retrieve search show track view",
    "makes": "accept activate add approve assign attach book buy charge connect create deploy "
    "enable encrypt follow forward give grant increase insert install invite launch lock make "
    "new open order pay pin place post publish put raise register reply reserve resume schedule "
    "send set start submit subscribe transfer unblock unmute update upload write",
    "ends": "archive block cancel clear close deactivate decline decrease decrypt delete destroy "
    "detach disable disconnect drop end erase kill lower mute pause purge reduce refund reject "
    "remove reverse revoke rm stop terminate trash undo unfollow uninstall unlock unpin unpublish "
    "unsubscribe",
}
EFFECT_OF = {verb: effect for effect, verbs in _EFFECTS.items() for verb in verbs.split()}
"""Effect of a verb: `reads`, `makes` or `ends`."""

_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
_PLURAL_S = re.compile(r"(?<=[^s'])s\Z")


# -- identifiers -----------------------------------------------------------------------------


def split_identifier(text: str) -> list[str]:
    """Cut `getUserById`, `slack_post-message`, `v2.items` into their words, case kept.

    Digits stay with up to three letters before them: `s3`, `v2`, `mp3` are words of their own.
    `URLs` becomes `URL`.
    """
    return [part for run in _letter_runs(text) for part in _parts(run)]


@cached_texts(1024, MAX_CACHED_CHARS)
def name_words(name: str) -> frozenset[str]:
    """Words of an identifier in lower case."""
    return frozenset(word.lower() for word in split_identifier(name))


def name_key(name: str) -> str:
    """Key by which names are equal: letters and digits of `create-Issue` and `create issue`.

    Composed and decomposed letters (NFKC) are equal, and letters of full and of half width.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in folded if letter.isalnum())


def _letter_runs(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_RUNS.findall(text)
    return "".join(map(_run_letter, text)).split()


def _run_letter(letter: str) -> str:
    kind = unicodedata.category(letter)
    # Vowel signs (Devanagari, Thai) are marks, which `\w` leaves out: they belong to the word.
    if kind[0] in "LMN":
        return letter
    # A soft hyphen or a joiner within a word is invisible.
    return "" if kind == "Cf" else " "


def _parts(run: str) -> list[str]:
    parts: list[str] = []
    for piece in _ASCII_PARTS.findall(run) if run.isascii() else _case_pieces(run):
        if piece.isdigit() and parts and len(parts[-1]) <= _MAX_PREFIX_LETTERS:
            parts[-1] += piece
        else:
            parts.append(piece[:-1] if _ABBREVIATIONS.fullmatch(piece) else piece)
    return parts


def _case_pieces(run: str) -> list[str]:
    """Pieces as by `_ASCII_PARTS`, for letters whose case `re` cannot test."""
    pieces = [run[0]]
    for before, letter in itertools.pairwise(run):
        new_word = letter.isupper() and not before.isupper()
        if new_word or letter.isdigit() != before.isdigit():
            pieces.append(letter)
        else:
            pieces[-1] += letter
    return pieces


# -- index terms -----------------------------------------------------------------------------


def tokenise(text: str, language: str = "english") -> list[str]:
    """Cut a text into index terms: identifiers split, folded, stemmed, stop words dropped.

    A run of two or three parts is also a term as a whole, so that `github` finds `GitHub`.
    Letters of scripts without spaces become one term each, and one for every two neighbours.
    A text of stop words only keeps them, so that no query is emptied. Any string is accepted,
    lone surrogates and control characters too, and no term is ever empty.
    """
    runs = _letter_runs(unicodedata.normalize("NFKC", text))
    words = [word for run in runs for word in _cut_run(run)]
    kept = [word for word in words if word not in STOPWORDS] or words
    return [_stem(word, language) for word in kept]


# Most runs of letters recur, and cutting a run costs ten cache look-ups.
@cached_texts(200_000, MAX_TERM_CHARS)
def _cut_run(run: str) -> tuple[str, ...]:
    return tuple(word[:MAX_TERM_CHARS] for word in _cut(run))


def _cut(run: str) -> Iterable[str]:
    parts = _parts(run)
    for part in parts:
        # `split` by a pattern with one group puts the matches at odd indexes.
        for place, stretch in enumerate(SPACELESS.split(_fold(part))):
            if place % 2:
                yield from stretch
                yield from map("".join, itertools.pairwise(stretch))
            elif stretch:
                yield stretch
    if 1 < len(parts) <= _MAX_WHOLE_RUN_PARTS and not SPACELESS.search(run):
        yield _fold(run)


def _fold(word: str) -> str:
    """Lower case without accents, so that `Böschung` and `boschung` are one term."""
    lowered = word.casefold()
    if lowered.isascii():
        return lowered
    # Marks of other scripts (Devanagari, Thai) distinguish words, and stay.
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", lowered)))


@lru_cache(maxsize=4)
def _stemmer(language: str) -> Any:
    return _snowball.Stemmer(language)


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str) -> str:
    if language == "none":
        return word
    if language == "english" and _CONSONANTS_AND_S.fullmatch(word):
        return word[:-1]
    return _stemmer(language).stemWord(word)


# -- words and marks -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TextWords:
    """Words and punctuation marks of a text in lower case, with their places (`spans`).

    `bare` has them alone; `spaced` with a space in front where the text has white space, so that
    `next.js` is not found in `what comes next. JS is`. `capitalised`: with a capital first.
    """

    bare: list[str]
    spaced: list[str]
    spans: list[tuple[int, int]]
    capitalised: list[bool]
    _folded: dict[Callable[[str], str], tuple[list[str], list[str]]] = field(
        default_factory=dict[Callable[[str], str], tuple[list[str], list[str]]], repr=False
    )

    def folded_words(self, fold: Callable[[str], str]) -> tuple[list[str], list[str]]:
        """`bare` and `spaced` with each word folded, once for all lists of phrases."""
        known = self._folded.get(fold)
        if known is None:
            bare = [fold(word) for word in self.bare]
            spaced = [
                f" {word}" if given[0] == " " else word
                for word, given in zip(bare, self.spaced, strict=True)
            ]
            known = self._folded[fold] = bare, spaced
        return known


# Entities, cues and features of a turn read the same text.
@cached_texts(32, MAX_CACHED_TEXT_CHARS)
def split_words(text: str) -> TextWords:
    """Cut a text into words and marks; a typographer's apostrophe counts as the plain one."""
    spans = [found.span() for found in _WORD_OR_MARK.finditer(text)]
    bare = [text[start:end].lower().replace("’", "'") for start, end in spans]
    ends = [-1, *(end for _, end in spans)]
    spaced = [
        word if start == before else f" {word}"
        for word, (start, _), before in zip(bare, spans, ends, strict=False)
    ]
    return TextWords(bare, spaced, spans, [text[start].isupper() for start, _ in spans])


@cached_texts(65_536, MAX_CACHED_CHARS)
def singular(word: str) -> str:
    """Word without a plural's ending; crude, but the same rule applies to phrases and texts."""
    if len(word) < 4 or not word.endswith("s"):  # noqa: PLR2004 - `is`, `bus` are no plurals
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return _PLURAL_S.sub("", word)


def unique(*groups: Iterable[str]) -> tuple[str, ...]:
    """Texts of several groups in their order, each once."""
    return tuple(dict.fromkeys(itertools.chain.from_iterable(groups)))


def jaccard(one: AbstractSet[str], two: AbstractSet[str]) -> float:
    """Jaccard index of two sets of words, in [0, 1]; 1 where both are empty."""
    return len(one & two) / len(one | two) if one or two else 1.0


def head_and_tail(text: str, max_chars: int, head_chars: int, tail_chars: int) -> str:
    """Head and tail of a text that is longer than `max_chars`; else the whole text."""
    if len(text) <= max_chars:
        return text
    return f"{text[:head_chars]}\n{text[-tail_chars:]}"


def shorten(text: str, max_chars: int) -> str:
    """Cut a longer text, and end it with an ellipsis."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def count_of(number: int, noun: str) -> str:
    """Count with its noun: 1 tool, 2,000 tools."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
