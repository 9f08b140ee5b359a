"""What a text says once it is decoded: letters swapped, turned round, or written as numbers."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Iterator
from urllib.parse import unquote

from toolcrib.indexers.audit.characters import (
    SELECTORS,
    TAGS,
    ZERO_WIDTH,
    decode_selectors,
    decode_tags,
    decode_zero_width,
)

__all__ = ["decoded", "may_be_coded"]

MIN_CHARS = 24
"""Nothing shorter can be an order in code."""

MAX_BLOB_CHARS = 20_000
MAX_BLOBS = 8
"""Of one text so many are decoded: certificates and pictures are long, and few."""

_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_=-])(?=[A-Za-z+/_-]{0,40}\d)(?=[a-z0-9+/_-]{0,40}[A-Z])(?=[A-Z0-9+/_-]{0,40}[a-z])"
    r"[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])"
)
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}[ :]?){20,}(?![0-9A-Za-z])")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2}){4,}")
_ESCAPED = re.compile(r"(?:\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})\\?){3,}")
_ONE_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_LEET_HINT = re.compile(r"[013457@$!][a-z]")
_LEET_WORD = re.compile(r"(?<![\w])(?=[\w@$!]*[A-Za-z])(?=[\w@$!]*[013457@$!])[A-Za-z0-9@$!]{2,}")
_LEET = str.maketrans("013457@$!", "oieastasi")
_SELECTED = re.compile(f"[{SELECTORS}]{{3,}}")
_NO_WIDTH = re.compile(f"[{ZERO_WIDTH}]{{16,}}")

_TELLING = frozenset(
    {
        *("always", "assistant", "before", "conversation", "credentials", "history", "ignore"),
        *("instruction", "instructions", "key", "keys", "password", "previous", "prior", "prompt"),
        *("read", "rules", "secret", "secrets", "send", "system", "tell", "the", "user", "your"),
    }
)
_TURNED = frozenset(word[::-1] for word in _TELLING)
_ROTATED = frozenset(codecs.encode(word, "rot13") for word in _TELLING)
_WORD = re.compile(r"[a-z]{3,}")
AT_LEAST = 2
"""So many telling words must come out before a text counts as turned round: one is chance."""


def may_be_coded(text: str) -> bool:
    """Whether anything in a text may be code; for nearly all texts this is the end of it."""
    return (
        not text.isascii()
        or ("\\" in text and _ESCAPED.search(text) is not None)
        or ("%" in text and _PERCENT.search(text) is not None)
        or _HEX.search(text) is not None
        or _BASE64.search(text) is not None
        or any(True for _ in _swapped(text.lower()))
    )


def decoded(text: str) -> Iterator[tuple[str, str]]:
    """Every reading of a text that it may be meant to have besides the plain one, with its name."""
    if not text.isascii():
        yield from _from_hidden(text)
    if "\\" in text and _ESCAPED.search(text):
        yield "escaped characters", _ONE_ESCAPED.sub(lambda at: chr(int(at[1] or at[2], 16)), text)
    if "%" in text and _PERCENT.search(text):
        yield "percent-encoding", unquote(text, errors="replace")
    if len(text) >= MIN_CHARS:
        yield from _from_blobs(text)
        yield from _swapped(text.lower())


def _from_hidden(text: str) -> Iterator[tuple[str, str]]:
    tags = re.findall(f"[{TAGS}]+", text)
    if tags:
        yield "tag characters", decode_tags("".join(tags))
    for run in _SELECTED.findall(text)[:MAX_BLOBS]:
        yield "variation selectors", decode_selectors(run)
    for run in _NO_WIDTH.findall(text)[:MAX_BLOBS]:
        yield "characters of no width", decode_zero_width(run)


def _from_blobs(text: str) -> Iterator[tuple[str, str]]:
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
    """Bytes as prose: empty unless nearly all of them are letters, signs and blanks of ASCII."""
    text = octets.decode("ascii", "replace")
    plain = sum(letter.isprintable() or letter in "\n\t" for letter in text if letter != "\ufffd")
    return text if text and plain >= 0.95 * len(text) and " " in text else ""


def _swapped(text: str) -> Iterator[tuple[str, str]]:
    words = set(_WORD.findall(text))
    if len(words & _ROTATED) >= AT_LEAST:
        yield "rotated letters (ROT13)", codecs.decode(text, "rot13")
    if len(words & _TURNED) >= AT_LEAST:
        yield "letters in reverse", text[::-1]
    if len(_LEET_HINT.findall(text)) >= AT_LEAST:
        read = _LEET_WORD.sub(lambda word: word[0].translate(_LEET), text)
        gained = set(_WORD.findall(read)) - words
        if len(gained & _TELLING) >= AT_LEAST:
            yield "digits for letters", read
