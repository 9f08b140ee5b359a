"""Characters that show nothing: which they are, where they are at home, and how to show them."""

from __future__ import annotations

import re
import unicodedata

__all__ = [
    "BIDI",
    "HIDDEN",
    "SELECTORS",
    "TAGS",
    "ZERO_WIDTH",
    "decode_selectors",
    "decode_tags",
    "decode_zero_width",
    "strays",
    "visible",
]

MAX_EXCERPT_CHARS = 160

TAGS = "\U000e0000-\U000e007f"
"""Each stands for a character of ASCII, and no screen shows any."""

SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""They choose among the shapes of the character before them: 16 and 240, a byte's worth."""

ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    "\u3164\ufeff\uffa0"
)
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb"
PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010fffd"

HIDDEN = re.compile(f"[{TAGS}{SELECTORS}{ZERO_WIDTH}{BIDI}{CONTROLS}{PRIVATE}]")
_BLANKS = re.compile(r"(?:[^\S\x00]|[\u2800\u3164\u115f\u1160\uffa0\u200b]){40,}")

FIRST_TAG, LAST_TAG = 0xE0000, 0xE007F
FIRST_SELECTOR, FIRST_MORE_SELECTOR = 0xFE00, 0xE0100
FEW_SELECTORS = 16
"""There are so many in the first range; the second goes on counting."""

_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = "\u0590-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc"
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_IDEOGRAPH = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_AT_HOME = re.compile(
    f"\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{{2,6}}\U000e007f"
    f"|(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])"
    f"|(?<=[#*0-9{_PICTURE}])[\ufe0e\ufe0f](?![{SELECTORS}])"
    f"|(?<=[{_IDEOGRAPH}])[{SELECTORS}](?![{SELECTORS}])"
    f"|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
    f"|(?<=[{_JOINING}])[\u200c\u200d]+|[\u200c\u200d](?=[{_JOINING}])"
    f"|(?<=[{_UNSPACED}])[\u200b\u2060]|[\u200b\u2060](?=[{_UNSPACED}])"
    r"|(?<=\w)\u00ad(?=\w)|\A\ufeff|\n\f|\f\n"
)
"""Flags and families of emoji, variants of ideographs, joiners of scripts that need them, breaks
of scripts without spaces, hyphens that show at a line's end, and the mark of a file's encoding."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202c\u2066-\u2069]")


def strays(text: str) -> str:
    """The text without those hidden characters that are where they belong.

    Marks of direction belong wherever a text has letters that run from right to left; what
    turns other letters round does not.
    """
    if _RIGHT_TO_LEFT.search(text):
        text = _MARKS.sub("", text)
    return _AT_HOME.sub("", text)


def visible(text: str, limit: int = MAX_EXCERPT_CHARS) -> str:
    """The text on one line, hidden characters spelled out, cut to a readable length."""
    shown = _BLANKS.sub(lambda run: f" ⟨blank ×{len(run[0])}⟩ ", text[: limit * 60])
    shown = re.sub(f"([{TAGS}]+)", lambda run: f"⟨tags: {decode_tags(run[0])}⟩", shown)
    shown = re.sub(
        f"([{SELECTORS}{ZERO_WIDTH}{BIDI}{CONTROLS}{PRIVATE}])\\1*",
        lambda run: _spelled(run[1], len(run[0])),
        shown,
    )
    shown = "".join(map(_printable, " ".join(shown.split())))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else _spelled(letter, 1)


def _spelled(letter: str, count: int) -> str:
    times = f" ×{count}" if count > 1 else ""
    return f"⟨U+{ord(letter):04X}{times}⟩"


def decode_tags(text: str) -> str:
    """What is written in tag characters: each stands for one of ASCII."""
    codes = [ord(letter) - FIRST_TAG for letter in text if FIRST_TAG <= ord(letter) <= LAST_TAG]
    return "".join(chr(code) for code in codes if chr(code).isprintable())


def decode_selectors(run: str) -> str:
    """What is written in variation selectors: each stands for a byte, or two for one."""
    numbers = [_number(letter) for letter in run]
    if max(numbers, default=0) < FEW_SELECTORS:
        pairs = zip(numbers[::2], numbers[1::2], strict=False)
        numbers = [high * FEW_SELECTORS + low for high, low in pairs]
    return _readable(bytes(numbers))


def _number(selector: str) -> int:
    code = ord(selector)
    if code < FIRST_MORE_SELECTOR:
        return code - FIRST_SELECTOR
    return code - FIRST_MORE_SELECTOR + FEW_SELECTORS


def decode_zero_width(run: str) -> str:
    """What is written in two kinds of zero-width characters: bits, eight a letter."""
    for ones in sorted(set(run)):
        bits = "".join("1" if letter == ones else "0" for letter in run)
        octets = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
        if text := _readable(octets):
            return text
    return ""


def _readable(octets: bytes) -> str:
    """The bytes as text, empty where they are none."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    printable = sum(unicodedata.category(letter)[0] in "LNPSZ" for letter in text)
    return text if printable >= 0.9 * len(text) else ""
