"""Normalising: reduces a text to the words that a model reads; removes or decodes disguises."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from toolcrib.audit.characters import (
    BIDI,
    CONTROLS,
    LOOK_ALIKES,
    SELECTORS,
    TAG_CHARACTERS,
    ZERO_WIDTH,
    decode_selectors,
    decode_tags,
    decode_zero_width,
)
from toolcrib.text import TWO_LETTERS

# -- plain texts -----------------------------------------------------------------------------------

SEPARATOR = "\x00"
"""Separator of texts that are normalised together; it is removed from the texts themselves."""

_INVISIBLE_CHARACTER = re.compile(
    f"[{TAG_CHARACTERS}{SELECTORS}{ZERO_WIDTH}{BIDI}{CONTROLS.replace(SEPARATOR, chr(1))}]"
)
_WHOLE_TERMINAL_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\x00]{0,200}\x07?")
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
_SPACED_LETTERS = re.compile(r"[\x00\n .\-_|/,(\"':][^\W_](?:[ .\-_|/,]{1,3}[^\W_](?![^\W_])){4,}")
_GAP = re.compile(r"(?<=[^\W_])[ .\-_|/,]{1,3}(?=[^\W_])")
_APOSTROPHES = str.maketrans("`‘’", "'''")
_ODD_BLANKS_RUN = re.compile(r"[^\S\n\x00]{2,}|[^\S\n\x00 ]")
_LINES = re.compile(r" ?\n[ \n]*")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+")


def normalise(texts: str) -> str:
    """Texts without hidden characters, markup, entities and odd shapes of letters.

    Letters of other scripts stay. Words written letter by letter are joined;
    blanks become one space, line ends stay.
    """
    if "&" in texts and _ENTITY.search(texts):
        texts = html.unescape(texts)
    if not texts.isascii():
        texts = unicodedata.normalize("NFKC", _ODD_BLANK.sub(" ", texts))
    if not texts.isascii() or not texts.isprintable():
        texts = _INVISIBLE_CHARACTER.sub("", _WHOLE_TERMINAL_ESCAPE.sub("", texts))
    if "<" in texts:
        texts = _LINE_TAG.sub("\n", _INLINE.sub("", texts))
    texts = _MARKUP.sub("", texts).translate(_APOSTROPHES)
    texts = _SPACED_LETTERS.sub(_joined_letters, texts)
    return _LINES.sub("\n", _ODD_BLANKS_RUN.sub(" ", texts))


def fold(texts: str) -> str:
    """Normalised texts, with look-alike letters replaced by English letters."""
    return texts if texts.isascii() else texts.translate(LOOK_ALIKES)


def words_of(name: str) -> str:
    """An identifier as words."""
    return _HUMPS.sub(" ", name)


def _joined_letters(run: re.Match[str]) -> str:
    """A run of single letters as words, which wider gaps separate."""
    letters = run[0][1:]
    widest = max(map(len, _GAP.findall(letters)))
    joined = _GAP.sub(lambda gap: " " if len(gap[0]) == widest > 1 else "", letters)
    return f"{run[0][0]}{joined}"


# -- encoded texts ---------------------------------------------------------------------------------

MIN_CHARS = 24
"""Least length of an encoded instruction."""

MAX_BLOB_CHARS = 20_000
MAX_BLOBS = 8
"""Most encoded parts of a text that are decoded; certificates and pictures are long, but few."""

_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?=[A-Za-z+/_-]{0,40}\d)(?=[a-z0-9+/_-]{0,40}[A-Z])(?=[A-Z0-9+/_-]{0,40}[a-z])"
    r"[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])"
)
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}[ :]?){20,}(?![0-9A-Za-z])")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2}){4,}")
_UNICODE_ESCAPE_RUN = re.compile(r"(?:\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})\\?){3,}")
_UNICODE_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_LEET_HINT = re.compile(r"[013457@$!][a-z]")
_LEET_WORD = re.compile(r"(?<![\w])(?=[\w@$!]*[A-Za-z])(?=[\w@$!]*[013457@$!])[A-Za-z0-9@$!]{2,}")
_LEET = str.maketrans("013457@$!", "oieastasi")
_SELECTOR_MESSAGE = re.compile(f"[{SELECTORS}]{{3,}}")
_ZERO_WIDTH_MESSAGE = re.compile(f"[{ZERO_WIDTH}]{{16,}}")

_INSTRUCTION_WORDS = frozenset(
    {
        *("always", "assistant", "before", "conversation", "credentials", "history", "ignore"),
        *("instruction", "instructions", "key", "keys", "password", "previous", "prior", "prompt"),
        *("read", "rules", "secret", "secrets", "send", "system", "tell", "the", "user", "your"),
    }
)
_REVERSED_WORDS = frozenset(word[::-1] for word in _INSTRUCTION_WORDS)
_ROT13_WORDS = frozenset(codecs.encode(word, "rot13") for word in _INSTRUCTION_WORDS)
_WORD = re.compile(r"[a-z]{3,}")
_MIN_INSTRUCTION_WORDS = 2
"""Least instruction words of a text that was really encoded; one may appear by chance."""


def may_be_encoded(text: str) -> bool:
    """True if a text may have encoded parts; a quick check that nearly all texts fail."""
    return (
        not text.isascii()
        or ("\\" in text and _UNICODE_ESCAPE_RUN.search(text) is not None)
        or ("%" in text and _PERCENT.search(text) is not None)
        or _HEX.search(text) is not None
        or _BASE64.search(text) is not None
        or any(True for _ in _swapped_letter_texts(text.lower()))
    )


def decodings(text: str) -> Iterator[tuple[str, str]]:
    """Decode a text by every possible encoding; yield the encoding's name and the text."""
    if not text.isascii():
        yield from _hidden_character_texts(text)
    if "\\" in text and _UNICODE_ESCAPE_RUN.search(text):
        said = _UNICODE_ESCAPE.sub(lambda at: chr(int(at[1] or at[2], 16)), text)
        yield "escaped characters", said
    if "%" in text and _PERCENT.search(text):
        yield "percent-encoding", unquote(text, errors="replace")
    if len(text) >= MIN_CHARS:
        yield from _blob_texts(text)
        yield from _swapped_letter_texts(text.lower())


def _hidden_character_texts(text: str) -> Iterator[tuple[str, str]]:
    tags = re.findall(f"[{TAG_CHARACTERS}]+", text)
    if tags:
        yield "tag characters", decode_tags("".join(tags))
    for run in _SELECTOR_MESSAGE.findall(text)[:MAX_BLOBS]:
        yield "variation selectors", decode_selectors(run)
    for run in _ZERO_WIDTH_MESSAGE.findall(text)[:MAX_BLOBS]:
        yield "characters of no width", decode_zero_width(run)


def _blob_texts(text: str) -> Iterator[tuple[str, str]]:
    for blob in _HEX.findall(text)[:MAX_BLOBS]:
        digits = re.sub(r"[ :]", "", blob)[:MAX_BLOB_CHARS]
        if said := _as_text(binascii.unhexlify(digits[: len(digits) // 2 * 2])):
            yield "hexadecimal digits", said
    for blob in _BASE64.findall(text)[:MAX_BLOBS]:
        letters = blob[:MAX_BLOB_CHARS].rstrip("=").replace("-", "+").replace("_", "/")
        letters = letters[: len(letters) - (len(letters) % 4 == 1)]
        if said := _as_text(base64.b64decode(letters + "=" * (-len(letters) % 4))):
            yield "base64", said


def _as_text(octets: bytes) -> str:
    """Bytes as text; empty unless nearly all are ASCII letters, marks and blanks."""
    text = octets.decode("ascii", "replace")
    plain = sum(letter.isprintable() or letter in "\n\t" for letter in text if letter != "\ufffd")
    return text if text and plain >= 0.95 * len(text) and " " in text else ""


def _swapped_letter_texts(text: str) -> Iterator[tuple[str, str]]:
    words = set(_WORD.findall(text))
    if len(words & _ROT13_WORDS) >= _MIN_INSTRUCTION_WORDS:
        yield "rotated letters (ROT13)", codecs.decode(text, "rot13")
    if len(words & _REVERSED_WORDS) >= _MIN_INSTRUCTION_WORDS:
        yield "letters in reverse", text[::-1]
    if len(_LEET_HINT.findall(text)) >= _MIN_INSTRUCTION_WORDS:
        read = _LEET_WORD.sub(lambda word: word[0].translate(_LEET), text)
        gained = set(_WORD.findall(read)) - words
        if len(gained & _INSTRUCTION_WORDS) >= _MIN_INSTRUCTION_WORDS:
            yield "digits for letters", read


# -- markup that is not shown ----------------------------------------------------------------------

_COMMENT = re.compile(r"<!--(?:-?>|(.*?)(?:-->|\Z))", re.DOTALL)
_LINK_COMMENT = re.compile(
    r"^\s{0,3}\[[^\]\n]{0,40}\]:\s*(?:#|<>)\s*[(\"'](.{0,2000})[)\"']\s*$", re.MULTILINE
)
_ELEMENT = re.compile(
    r"<(?P<tag>[a-z][a-z0-9]{0,10})\b(?P<attributes>[^<>]{0,300})>(?P<inside>[^<]{1,2000})</(?P=tag)>",
    re.IGNORECASE,
)
_HIDES = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*[01](?:px|pt|em|%)?\s*(?:[;\"']|$)"
    r"|opacity\s*:\s*0(?:\.0\d*)?\s*(?:[;\"']|$)|text-indent\s*:\s*-\d{3,}|(?:left|top)\s*:\s*-\d{4,}"
    r"|(?<![-\w])color\s*[:=]\s*[\"']?(?:white|transparent|#fff(?:fff)?\b|rgba?\(\s*255\s*,\s*255\s*,\s*255"
    r"|rgba\([^)]{0,60},\s*0\s*\))|(?:^|\s)hidden(?=\s|=|/|$)|height\s*:\s*0(?:px)?\s*[;\"']|\bsize\s*=\s*[\"']?0\b",
    re.IGNORECASE,
)
_MIN_HIDDEN_WORDS = 4
"""Least words of a reported hidden text; constants and labels have fewer."""


def hidden_markup(text: str) -> Iterator[tuple[str, str, int]]:
    """Find parts that a rendered page hides; yield the kind of markup, the part and its start."""
    for comment in _COMMENT.finditer(text):
        yield from _if_words("comment", comment[1] or "", comment.start())
    if "]:" in text:
        for comment in _LINK_COMMENT.finditer(text):
            yield from _if_words("comment", comment[1], comment.start())
    if "</" in text:
        for element in _ELEMENT.finditer(text):
            if _HIDES.search(element["attributes"]) and not _is_code(text, element.start()):
                yield from _if_words("element", element["inside"], element.start())


def _if_words(kind: str, text: str, start: int) -> Iterator[tuple[str, str, int]]:
    if len(TWO_LETTERS.findall(text)) >= _MIN_HIDDEN_WORDS:
        yield kind, text.strip(), start


def _is_code(text: str, start: int) -> bool:
    """True for a place within code: between back-ticks, or behind an open fence."""
    before = text[:start]
    line = before[before.rfind("\n") + 1 :]
    return line.count("`") % 2 == 1 or before.count("```") % 2 == 1
