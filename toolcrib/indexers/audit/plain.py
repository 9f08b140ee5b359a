"""Texts as a model understands them: what disguises words is taken away, words stay."""

from __future__ import annotations

import html
import re
import unicodedata

from toolcrib.indexers.audit.characters import (
    BIDI,
    CONTROLS,
    SELECTORS,
    TAGS,
    ZERO_WIDTH,
)
from toolcrib.indexers.audit.characters import LookAlikes

__all__ = ["SEPARATOR", "fold", "plain", "words_of"]

SEPARATOR = "\x00"
"""Stands between texts that are made plain together; no text keeps one of its own."""

_DROPPED = re.compile(f"[{TAGS}{SELECTORS}{ZERO_WIDTH}{BIDI}{CONTROLS.replace(SEPARATOR, chr(1))}]")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\x00]{0,200}\x07?")
_ODD_BLANK = re.compile("[\u2800\u3164\u115f\u1160\uffa0]")
_ENTITY = re.compile(r"&(?:#|[A-Za-z]{2,8};)")
_INLINE = re.compile(
    r"</?(?:b|i|u|em|strong|span|font|code|tt|sub|sup|small|mark|big|s|wbr)(?:\s[^<>\x00]{0,200})?/?>",
    re.IGNORECASE,
)
_LINE_TAG = re.compile(
    r"</?(?:br|p|li|ul|ol|div|tr|td|table)(?:\s[^<>\x00]{0,200})?/?>", re.IGNORECASE
)
_MARKUP = re.compile(r"\*+|~~+|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])")
_SPACED = re.compile(r"[\x00\n .\-_|/,(\"':][^\W_](?:[ .\-_|/,]{1,3}[^\W_](?![^\W_])){4,}")
_GAP = re.compile(r"(?<=[^\W_])[ .\-_|/,]{1,3}(?=[^\W_])")
_APOSTROPHES = str.maketrans("`‘’", "'''")
_BLANKS = re.compile(r"[^\S\n\x00]{2,}|[^\S\n\x00 ]")
_LINES = re.compile(r" ?\n[ \n]*")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+")


def plain(texts: str) -> str:
    """Texts without hidden characters, markup, entities and odd shapes of letters.

    Letters of other scripts stay what they are. Words written letter by letter are joined;
    blanks become one space, line ends stay.
    """
    if "&" in texts and _ENTITY.search(texts):
        texts = html.unescape(texts)
    if not texts.isascii():
        texts = unicodedata.normalize("NFKC", _ODD_BLANK.sub(" ", texts))
    if not texts.isascii() or not texts.isprintable():
        texts = _DROPPED.sub("", _ESCAPES.sub("", texts))
    if "<" in texts:
        texts = _LINE_TAG.sub("\n", _INLINE.sub("", texts))
    texts = _MARKUP.sub("", texts).translate(_APOSTROPHES)
    texts = _SPACED.sub(_joined, texts)
    return _LINES.sub("\n", _BLANKS.sub(" ", texts))


def fold(texts: str) -> str:
    """Plain texts with every letter that looks like one of English turned into it."""
    return texts if texts.isascii() else texts.translate(_TABLE)


def words_of(name: str) -> str:
    """An identifier as words."""
    return _HUMPS.sub(" ", name)


def _joined(run: re.Match[str]) -> str:
    """A run of single letters as words: the wider gaps part them."""
    letters = run[0][1:]
    widest = max(map(len, _GAP.findall(letters)))
    joined = _GAP.sub(lambda gap: " " if len(gap[0]) == widest > 1 else "", letters)
    return f"{run[0][0]}{joined}"


_TABLE = LookAlikes()
