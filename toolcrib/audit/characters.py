"""Hidden and confusable characters: decodes them, and finds hidden messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from toolcrib.audit.findings import Severity, Sign
from toolcrib.text import TWO_LETTERS, UNSPACED_SCRIPTS, shorten

# -- letters that look alike -----------------------------------------------------------------------

_CYRILLIC = (
    "аa еe оo рp сc уy хx ѕs іi јj һh ԁd ԛq ԝw ԍg ӏl кk гr пn тt вb нh мm ьb "
    "АA ВB ЕE КK МM НH ОO РP СC ТT УY ХX ЅS ІI ЈJ ҺH ԚQ ԜW ГT ЗE ӀI ҮY үy ҝk ӊh"
)
_GREEK = (
    "αa βb γy εe ηn ιi κk νv οo ρp σo τt υu χx ωw ϲc ϳj "
    "ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ϹC"
)
_OTHER = (
    "օo ոn սu հh ցg զq յj ւi ՏS ՕO Լl ԼL աw ｅe ℓl ıi ȷj ɑa ɡg ɩi ʋv ƽs ǀl ℮e ⅼl ⅰi ⅽc ⅾd ⅿm ⅴv ⅹx "
    "ᎪA ᏴB ᏟC ᎠD ᎬE ᏀG ᎻH ᎥI ᎫJ ᏦK ᏞL ᎷM ᏢP ᎡR ᏚS ᎢT ᏙV ᎳW ᏃZ ꓮA ꓐB ꓚC ꓓD ꓰE ꓖG ꓧH ꓲI ꓙJ ꓗK ꓡL ꓟM "
    "ꓠN ꓳO ꓑP ꓣR ꓢS ꓔT ꓴU ꓦV ꓪW ꓫX ꓬY ꓜZ ⲟo ⲣp ⲥc"
)

LOOK_ALIKE: dict[str, str] = {pair[0]: pair[1] for pair in f"{_CYRILLIC} {_GREEK} {_OTHER}".split()}
"""English letter that a reader sees, for each look-alike letter of another script."""

_LATIN_NAME = re.compile(
    r"(?:LATIN|MODIFIER|REGIONAL INDICATOR|SQUARED|CIRCLED|PARENTHESIZED)\b.*?"
    r"\b(?:LETTER|SYMBOL LETTER|SMALL CAPITAL) (?:SMALL )?(?:CAPITAL )?([A-Z])\b"
)

_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
"""Scripts with letters of common shapes, which can be confused."""

_SAME_SHAPE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s"})


class _LookAlikes(dict[int, str]):
    def __missing__(self, code: int) -> str:
        self[code] = folded = fold_letter(chr(code))
        return folded


LOOK_ALIKES = _LookAlikes()
"""Table for `str.translate`, computed character by character at first use."""


def fold_letter(letter: str) -> str:
    """English letter that a letter looks like, without accents; else the letter itself."""
    if letter.isascii():
        return letter
    if letter in LOOK_ALIKE:
        return LOOK_ALIKE[letter]
    name = unicodedata.name(letter, "")
    if unicodedata.category(letter) in ("Mn", "Me") and name.startswith("COMBINING"):
        return ""
    base = unicodedata.normalize("NFKD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    named = _LATIN_NAME.match(name)
    if named is None:
        return letter
    return named[1].lower() if "SMALL LETTER" in name else named[1]


def skeleton(name: str) -> str:
    """Shape of a name: two names with the same skeleton are confusable."""
    plain = unicodedata.normalize("NFKC", name).translate(LOOK_ALIKES).lower()
    return plain.translate(_SAME_SHAPE).replace("rn", "m").replace("vv", "w")


def mixes_scripts(text: str) -> list[str]:
    """Words with letters of several look-alike scripts.

    A Greek letter at the start of a unit (`µm`, `Δt`) is not counted.
    """
    if text.isascii():
        return []
    return [word for word in TWO_LETTERS.findall(text) if not word.isascii() and _is_mixed(word)]


def _is_mixed(word: str) -> bool:
    scripts = [_script(letter) for letter in word]
    if scripts[0] == "GREEK" and "GREEK" not in scripts[1:]:
        return False
    return len({script for script in scripts if script}) > 1


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Script of a letter, if it is one of the confusable scripts, else an empty text."""
    name = unicodedata.name(unicodedata.normalize("NFKC", letter)[0], "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


# -- hidden characters -----------------------------------------------------------------------------

MAX_EXCERPT_CHARS = 160

TAG_CHARACTERS = "\U000e0000-\U000e007f"
"""Invisible characters, each of which stands for an ASCII character."""

SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Variation selectors, which choose the shape of the character before: 16 + 240, enough for a
byte."""

ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    "\u3164\ufeff\uffa0"
)
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb"
PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U0010fffd"

HIDDEN_CHARACTERS = re.compile(
    f"[{TAG_CHARACTERS}{SELECTORS}{ZERO_WIDTH}{BIDI}{CONTROLS}{PRIVATE_USE}]"
)
_BLANKS = re.compile(r"(?:[^\S\x00]|[\u2800\u3164\u115f\u1160\uffa0\u200b]){40,}")

FIRST_TAG = 0xE0000
FIRST_SELECTOR, LOW_SELECTORS = 0xFE00, 16
SELECTOR_GAP = 0xE0100 - FIRST_SELECTOR - LOW_SELECTORS
"""Number of codes between the two ranges, which are numbered as one."""

_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING_SCRIPTS = "\u0590-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u18af\ufb1d-\ufdff\ufe70-\ufefc"
_IDEOGRAPH = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_LEGITIMATE_HIDDEN = re.compile(
    f"\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{{2,6}}\U000e007f"
    f"|(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])"
    f"|(?<=[#*0-9{_PICTURE}])[\ufe0e\ufe0f](?![{SELECTORS}])"
    f"|(?<=[{_IDEOGRAPH}])[{SELECTORS}](?![{SELECTORS}])"
    f"|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
    f"|(?<=[{_JOINING_SCRIPTS}])[\u200c\u200d]+|[\u200c\u200d](?=[{_JOINING_SCRIPTS}])"
    f"|(?<=[{UNSPACED_SCRIPTS}])[\u200b\u2060]|[\u200b\u2060](?=[{UNSPACED_SCRIPTS}])"
    r"|(?<=\w)\u00ad(?=\w)|\A\ufeff|\n\f|\f\n"
)
"""Flags and families of emoji, variants of ideographs, joiners of scripts that need them, breaks
of scripts without spaces, hyphens that show at a line's end, and the mark of a file's encoding."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202c\u2066-\u2069]")


def without_legitimate_hidden(text: str) -> str:
    """The text without hidden characters in legitimate places.

    Marks of direction are legitimate in a text with right-to-left letters; characters that reverse
    other letters never are.
    """
    if _RIGHT_TO_LEFT.search(text):
        text = _MARKS.sub("", text)
    return _LEGITIMATE_HIDDEN.sub("", text)


def visible(text: str, limit: int = MAX_EXCERPT_CHARS) -> str:
    """The text in one line with hidden characters spelled out, shortened."""
    shown = _BLANKS.sub(lambda run: f" ⟨blank ×{len(run[0])}⟩ ", text[: limit * 60])
    shown = re.sub(f"([{TAG_CHARACTERS}]+)", lambda run: f"⟨tags: {decode_tags(run[0])}⟩", shown)
    shown = re.sub(
        f"([{SELECTORS}{ZERO_WIDTH}{BIDI}{CONTROLS}{PRIVATE_USE}])\\1*",
        lambda run: _letter_text(run[1], len(run[0])),
        shown,
    )
    shown = "".join(
        letter if letter.isprintable() else _letter_text(letter, 1)
        for letter in " ".join(shown.split())
    )
    return shorten(shown, limit)


def _letter_text(letter: str, count: int) -> str:
    times = f" ×{count}" if count > 1 else ""
    return f"⟨U+{ord(letter):04X}{times}⟩"


def decode_tags(text: str) -> str:
    """Decode tag characters, each of which stands for an ASCII character."""
    letters = (chr(ord(letter) - FIRST_TAG) for letter in text)
    return "".join(filter(str.isprintable, letters))


def decode_selectors(run: str) -> str:
    """Decode variation selectors: each stands for a byte or half a byte."""
    codes = (ord(letter) - FIRST_SELECTOR for letter in run)
    numbers = [code if code < LOW_SELECTORS else code - SELECTOR_GAP for code in codes]
    if max(numbers, default=0) < LOW_SELECTORS:
        pairs = zip(numbers[::2], numbers[1::2], strict=False)
        numbers = [high * LOW_SELECTORS + low for high, low in pairs]
    return _readable(bytes(numbers))


def decode_zero_width(run: str) -> str:
    """Decode two kinds of zero-width characters: bits, eight a letter."""
    for ones in sorted(set(run)):
        bits = "".join("1" if letter == ones else "0" for letter in run)
        octets = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
        if text := _readable(octets):
            return text
    return ""


def _readable(octets: bytes) -> str:
    """Bytes as text; empty if they are no text."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    printable = sum(unicodedata.category(letter)[0] in "LNPSZ" for letter in text)
    return text if printable >= 0.9 * len(text) else ""


# -- rules about characters ------------------------------------------------------------------------

_MAX_STRAY_CHARS = 3
"""Odd characters that copying may leave behind; more are suspicious."""

_MIN_MESSAGE_CHARS = 8
"""Zero-width characters in a row that hold a message; copying leaves one or two."""

_MIN_WARNED_CHARS = 24
_MIN_BLANK_LINES = 30
_MIN_BLANKS = 400
"""The longest runs in real tools, within tables and indented code, are 17 lines and 350 blanks."""

_MIN_ODD_BLANKS = 40
"""Blanks outside of ASCII in a row that have no honest use."""

_MAX_TEXT_BEHIND_CHARS = 200

SUSPECT = re.compile(r"[^\x00\x09\x0a\x0d\x20-\x7e]|[^\S\x1c-\x1f]{40,}|\n[\r\n]{29,}")
"""Pattern that matches in every text with hidden characters."""

_BLANK_RUN = re.compile(r"(?:[^\S\x00]|[\u2800\u3164\u115f\u1160\uffa0\u200b]){30,}")
_TERMINAL_ESCAPE = re.compile(r"(?:\x1b|\x9b)(?:\[?[0-9;?]*[A-Za-z]|[\]PX^_][^\x07\x1b]{0,200}|.)?")
_COLOUR = re.compile(r"(?:\x1b\[|\x9b)([0-9;]*)m")
_SELECTOR_RUN = re.compile(f"[A-Za-z]?[{SELECTORS}]{{2,}}|[A-Za-z][{SELECTORS}]")
_ZERO_WIDTH_RUN = re.compile(f"[{ZERO_WIDTH}]+")
_TAG_RUN = re.compile(f"[{TAG_CHARACTERS}]+")
_OVERRIDE = re.compile("[\u202d\u202e]")
_BIDI_EMBEDDING = re.compile("[\u061c\u200e\u200f\u202a\u202b\u2066-\u2068]")
_ERASING_RUN = re.compile(r"\x08{3,}|\x7f{3,}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9a\x9c-\x9f]")
_ANNOTATION_MARK = re.compile("[\ufff9-\ufffb]")
_PRIVATE_USE_RUN = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]+")


def hidden_signs(text: str, *, is_name: bool) -> Iterator[Sign]:
    """Find hidden characters in one text; a name may have none."""
    yield from _blank_run_signs(text)
    rest = without_legitimate_hidden(text)
    if HIDDEN_CHARACTERS.search(rest):
        if is_name:
            why = "a name has invisible characters, and so looks like another name"
            yield Sign("hidden-in-name", "block", visible(text), why)
            return
        for signs in (
            _encoded_signs,
            _zero_width_signs,
            _direction_signs,
            _control_signs,
            _private_use_signs,
        ):
            yield from signs(rest)
    yield from _mixed_script_signs(text, is_name=is_name)


def _sign(rule: str, severity: Severity, text: str, at: re.Match[str], why: str) -> Sign:
    around = text[max(0, at.start() - 40) : at.end() + 40]
    return Sign(rule, severity, visible(around), why)


def _blank_run_signs(text: str) -> Iterator[Sign]:
    for run in _BLANK_RUN.finditer(text):
        after = text[run.end() : run.end() + _MAX_TEXT_BEHIND_CHARS].strip()
        many = run[0].count("\n") >= _MIN_BLANK_LINES or len(run[0]) >= _MIN_BLANKS
        odd = not run[0].isascii() and len(run[0]) >= _MIN_ODD_BLANKS
        if after and (many or odd):
            why = "a long run of blanks hides the text behind it"
            yield Sign("blank-run", "block", visible(f"⟨blank ×{len(run[0])}⟩ {after}"), why)
            return


def _encoded_signs(text: str) -> Iterator[Sign]:
    if tagged := _TAG_RUN.search(text):
        said = decode_tags("".join(_TAG_RUN.findall(text)))
        why = f"tag characters, which are invisible, spell {visible(said, 80)!r}"
        yield _sign("hidden-tags", "block", text, tagged, why)
    if selected := _SELECTOR_RUN.search(text):
        severity: Severity = "block" if len(selected[0]) > _MAX_STRAY_CHARS else "warning"
        why = "variation selectors follow characters without variants: each can carry a byte"
        yield _sign("hidden-selectors", severity, text, selected, why)


def _zero_width_signs(text: str) -> Iterator[Sign]:
    runs = list(_ZERO_WIDTH_RUN.finditer(text))
    if not runs:
        return
    longest = max(runs, key=lambda run: len(run[0]))
    total = sum(len(run[0]) for run in runs)
    severity: Severity = "info"
    why = "a zero-width character, perhaps left from copying"
    if len(longest[0]) >= _MIN_MESSAGE_CHARS:
        severity = "block"
        why = f"{len(longest[0])} zero-width characters in a row can only carry a message"
    elif total >= _MIN_WARNED_CHARS or len(longest[0]) > _MAX_STRAY_CHARS:
        severity = "warning"
        why = f"{total} zero-width characters in places where no script needs them"
    yield _sign("hidden-zero-width", severity, text, longest, why)


def _direction_signs(text: str) -> Iterator[Sign]:
    if override := _OVERRIDE.search(text):
        why = "the direction of letters is overridden: people and models read different texts"
        yield _sign("hidden-direction", "block", text, override, why)
    elif mark := _BIDI_EMBEDDING.search(text):
        why = "marks of writing direction in a text without right-to-left letters"
        severity: Severity = "info" if mark[0] in "\u061c\u200e\u200f" else "warning"
        yield _sign("hidden-direction", severity, text, mark, why)


def _control_signs(text: str) -> Iterator[Sign]:
    if escape := _TERMINAL_ESCAPE.search(text):
        hides = any(_hides(each[0]) for each in _TERMINAL_ESCAPE.finditer(text))
        why = (
            f"escape sequences for terminals {'hide, move or link' if hides else 'colour the'} text"
        )
        yield _sign("hidden-escapes", "block" if hides else "warning", text, escape, why)
    if rubbed := _ERASING_RUN.search(text):
        why = "backspaces erase text on a screen that a model still reads"
        yield _sign("hidden-controls", "block", text, rubbed, why)
        return
    if control := _CONTROL.search(text):
        why = "control characters have no place in a description"
        yield _sign("hidden-controls", "info", text, control, why)
    if annotated := _ANNOTATION_MARK.search(text):
        why = "marks of annotation hide the text that they enclose"
        yield _sign("hidden-controls", "warning", text, annotated, why)


def _hides(escape: str) -> bool:
    """True for a sequence that conceals, overwrites, moves, erases or links, not just colours."""
    colour = _COLOUR.fullmatch(escape)
    if colour is None:
        return len(escape) > 1
    codes = colour[1].split(";")
    on = {code[1] for code in codes if re.fullmatch(r"[39][0-7]", code)}
    under = {code[1] for code in codes if re.fullmatch(r"4[0-7]", code)}
    return "8" in codes[:1] or bool(on & under)


def _private_use_signs(text: str) -> Iterator[Sign]:
    if found := _PRIVATE_USE_RUN.search(text):
        severity: Severity = "warning" if len(found[0]) >= _MAX_STRAY_CHARS else "info"
        why = "private-use characters look different in each font, or are invisible"
        yield _sign("private-use", severity, text, found, why)


def _mixed_script_signs(text: str, *, is_name: bool) -> Iterator[Sign]:
    if words := mixes_scripts(text):
        severity: Severity = "warning" if is_name or len(words) >= _MAX_STRAY_CHARS else "info"
        kind = "name" if is_name else "word"
        why = f"letters of several scripts in one {kind}: it looks like another {kind}"
        yield Sign("mixed-scripts", severity, visible(", ".join(dict.fromkeys(words[:5]))), why)
