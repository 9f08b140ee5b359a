"""WordPiece tokenizer: texts to the tokens of a BERT, as its `tokenizer.json` describes them.

The package `tokenizers` does this too, and would save 0.1 ms for each text; but it installs eleven
other packages, a hub's client among them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from string import ascii_lowercase
from typing import Any, TypeAlias

MAX_WORD_CHARS = 100
MAX_CACHED_WORDS = 2**16
CONTINUATION_PREFIX = "##"
"""Beginning of a token that continues a word."""

_CHINESE = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
"""Ranges of Chinese characters in BERT, with BERT's gaps."""

_ASCII_MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_REMOVED_CATEGORIES = frozenset({"Cc", "Cf", "Co"})
"""Categories that BERT removes; it keeps unassigned characters as unknown words."""

_MODEL = {
    "type": "WordPiece",
    "continuing_subword_prefix": CONTINUATION_PREFIX,
    "max_input_chars_per_word": MAX_WORD_CHARS,
}
_NORMALIZER = {"type": "BertNormalizer", "clean_text": True}
_PARTS = ("normalizer", "pre_tokenizer", "post_processor")
_WORD = re.compile(r"[^ ]+")
TYPED_WORD = re.compile(
    r"(?:\A[A-Z]|(?<![\w@#$/.:\\'’`{-])[a-z])[a-z]{4,30}(?![\w@(/:\\'’`}-]|\.\w)"
)
"""Word of at least five letters that is no name, identifier, path or part of an address."""

COMMON_WORDS_END = 10_000
"""End of the ids of common words: BERT's vocabulary is sorted by frequency."""

_INFLECTION = re.compile(r"(?:e?s|ed|ers?|ing|ly)\Z")
_PREFIX = re.compile(
    r"(?:auto|back|co|de|dis|down|inter|mis|multi|non|off|out|over|pre|re|sub|un|under|up)(.{4,})"
)
_PLAIN_TOKEN_OPTIONS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}

_Token: TypeAlias = tuple[int, int, int]
"""Id of a token, and its start and end in the text."""


def is_wordpiece(document: Mapping[str, Any]) -> bool:
    """True if this module implements all that a `tokenizer.json` states."""
    parts: list[Mapping[str, Any]] = [document[part] or {} for part in _PARTS]
    normalizer, words, processor = parts
    return (
        document["model"].items() >= _MODEL.items()
        and normalizer.items() >= _NORMALIZER.items()
        and words.get("type") == "BertPreTokenizer"
        and _edge_tokens(processor) is not None
        and all(each.items() >= _PLAIN_TOKEN_OPTIONS.items() for each in document["added_tokens"])
    )


def _edge_tokens(processor: Mapping[str, Any]) -> tuple[int, int] | None:
    """Start and end token around a text; None if a model has others, or more."""
    if processor.get("type") == "BertProcessing":
        return processor["cls"][1], processor["sep"][1]
    if processor.get("type") != "TemplateProcessing":
        return None
    pieces = [next(iter(piece.values()))["id"] for piece in processor["pair"]]
    if len(pieces) != 5 or pieces[1::2] != ["A", "B"] or pieces[2] != pieces[4]:  # noqa: PLR2004
        return None
    known = processor["special_tokens"]
    first, last = (known[pieces[place]]["ids"] for place in (0, 2))
    return (first[0], last[0]) if len(first) == len(last) == 1 else None


class _Characters(dict[int, str]):
    """Replacement of each character: cleaned, folded, spaces around marks and Chinese."""

    def __init__(self, *, chinese: bool, accents: bool, cased: bool) -> None:
        super().__init__()
        self._chinese = chinese
        self._accents = accents
        self._is_cased = cased

    def __missing__(self, code: int) -> str:
        self[code] = made = self._replacement(chr(code))
        return made

    def _replacement(self, char: str) -> str:
        if char not in "\t\n\r" and (
            char == "\ufffd" or unicodedata.category(char) in _REMOVED_CATEGORIES
        ):
            return ""
        if char.isspace():
            return " "
        alone = self._chinese and any(first <= ord(char) <= last for first, last in _CHINESE)
        if not self._accents:
            parts = unicodedata.normalize("NFD", char)
            char = "".join(part for part in parts if unicodedata.category(part) != "Mn")
        if not self._is_cased:
            char = "".join(map(str.lower, char))
        return f" {char} " if alone else "".join(map(_set_apart, char))


def _set_apart(char: str) -> str:
    is_mark = char in _ASCII_MARKS or unicodedata.category(char).startswith("P")
    return f" {char} " if is_mark else char


@dataclass(frozen=True, slots=True)
class WordPieceTokens:
    """A text's tokens, with start and end in the text; both are 0 for start and end tokens."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class WordPiece:
    """Cuts texts into at most `max_tokens` tokens, start and end token included (None: all).

    Raises:
        KeyError, TypeError: the document is not as `is_wordpiece` requires.
    """

    def __init__(self, document: Mapping[str, Any], max_tokens: int | None) -> None:
        normalizer, model = document["normalizer"], document["model"]
        cased = not normalizer["lowercase"]
        strips = normalizer["strip_accents"]
        self._characters = _Characters(
            chinese=normalizer["handle_chinese_chars"],
            accents=cased if strips is None else not strips,
            cased=cased,
        )
        self._ids: dict[str, int] = model["vocab"]
        self._unknown = self._ids[model["unk_token"]]
        self._longest = max(map(len, self._ids))
        self._added_ids = {each["content"]: each["id"] for each in document["added_tokens"]}
        longest_first = sorted(self._added_ids, key=len, reverse=True)
        self._names = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")
        self._first, self._last = _edge_tokens(document["post_processor"]) or (0, 0)
        self._max_tokens = max_tokens
        self._pieces = lru_cache(MAX_CACHED_WORDS)(self._cut)

    def unknown_words(self, text: str) -> list[str]:
        """Words in lower case, each once; no names, and no token without ending or prefix."""
        words = dict.fromkeys(found[0].lower() for found in TYPED_WORD.finditer(text))
        return [word for word in words if not self._knows(word)]

    def common_word(self, word: str) -> str:
        """Common English word one slip from an unknown one, by BERT's vocabulary; else empty.

        Two letters exchanged, a letter within the word left out, a letter doubled. A letter
        replaced by another is no slip, as it makes common words of technical terms (`login`).
        """
        cuts = [(word[:at], word[at:]) for at in range(1, len(word))]
        meant = {f"{head}{tail[1::-1]}{tail[2:]}" for head, tail in cuts if len(tail) > 1}
        meant |= {f"{head}{tail[1:]}" for head, tail in cuts if head[-1] == tail[0]}
        meant |= {f"{head}{more}{tail}" for head, tail in cuts for more in ascii_lowercase}
        found = min(meant, key=lambda each: self._ids.get(each, COMMON_WORDS_END), default="")
        return found if self._ids.get(found, COMMON_WORDS_END) < COMMON_WORDS_END else ""

    def _knows(self, word: str) -> bool:
        base, prefix = _INFLECTION.sub("", word), _PREFIX.match(word)
        forms = (word, base, f"{base}e", *(prefix.groups() if prefix else ()))
        return not self._ids.keys().isdisjoint(forms)

    def encode(self, text: str, pair: str | None = None) -> WordPieceTokens:
        """Tokens of a text or a pair; a long text is truncated, of a pair the longer text."""
        room = None if self._max_tokens is None else self._max_tokens - (2 if pair is None else 3)
        if pair is None:
            parts = [list(islice(self._tokens(text), room))]
        else:
            parts = _truncate_pair(list(self._tokens(text)), list(self._tokens(pair)), room)
        found: list[_Token] = [(self._first, 0, 0)]
        for part in parts:
            found += [*part, (self._last, 0, 0)]
        return WordPieceTokens([token[0] for token in found], [token[1:] for token in found])

    def _tokens(self, text: str) -> Iterator[_Token]:
        end = 0
        for part in self._names.split(text):
            start, end = end, end + len(part)
            if part in self._added_ids:
                yield self._added_ids[part], start, end
            else:
                yield from self._tokens_of_words(part, start)

    def _tokens_of_words(self, text: str, start: int) -> Iterator[_Token]:
        made = text.translate(self._characters)
        # Place in the text that each character of the normalised text came from.
        origin = range(start, start + len(text))
        if len(made) != len(text) or not text.isascii():
            lengths = (len(self._characters[ord(char)]) for char in text)
            origin = [start + at for at, length in enumerate(lengths) for _ in range(length)]
        for word in _WORD.finditer(made):
            at = word.start()
            # A run that is too long for a word is not cached: it may be as long as the text.
            cut = self._pieces if len(word[0]) <= MAX_WORD_CHARS else self._unknown_piece
            for token, length in cut(word[0]):
                yield token, origin[at], origin[at + length - 1] + 1
                at += length

    def _cut(self, word: str) -> tuple[tuple[int, int], ...]:
        """Tokens of a word and their lengths, the longest match first; or the unknown token."""
        found: list[tuple[int, int]] = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION_PREFIX if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                token = self._ids.get(prefix + word[start:end])
                if token is not None:
                    break
            else:
                return self._unknown_piece(word)
            found.append((token, end - start))
            start = end
        return tuple(found)

    def _unknown_piece(self, word: str) -> tuple[tuple[int, int], ...]:
        return ((self._unknown, len(word)),)


def _truncate_pair(
    first: list[_Token], second: list[_Token], room: int | None
) -> list[list[_Token]]:
    """Cut a pair to `room` tokens in all: the longer text, or both texts to halves."""
    if room is None:
        return [first, second]
    short, long = sorted((len(first), len(second)))
    long = min(long, max(short, room - short))
    if short + long > room:
        short, long = room // 2, room - room // 2
    if len(first) > len(second):
        short, long = long, short
    return [first[:short], second[:long]]
