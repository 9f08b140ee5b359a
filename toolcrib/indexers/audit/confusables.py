"""Letters that look like those of English: what they pretend to be, and who mixes scripts."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

__all__ = ["LookAlikes", "fold_letter", "mixes_scripts", "skeleton"]

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
"""Letters of other scripts by the letter of English that a reader takes them for."""

_LATIN_NAME = re.compile(
    r"(?:LATIN|MODIFIER|REGIONAL INDICATOR|SQUARED|CIRCLED|PARENTHESIZED)\b.*?"
    r"\b(?:LETTER|SYMBOL LETTER|SMALL CAPITAL) (?:SMALL )?(?:CAPITAL )?([A-Z])\b"
)

_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
"""Those that have letters in common shapes; others cannot be taken for each other."""

_WORD = re.compile(r"[^\W\d_]{2,}")

_SAME_SHAPE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s"})


class LookAlikes(dict[int, str]):
    """A table for `str.translate` that learns each character when it first meets it."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = fold_letter(chr(code))
        return folded


def fold_letter(letter: str) -> str:
    """The letter of English that this one looks like, without its accents; or the letter itself."""
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
    """What a name looks like at a glance: two names with one skeleton are taken for each other."""
    plain = unicodedata.normalize("NFKC", name).translate(_TABLE).lower()
    return plain.translate(_SAME_SHAPE).replace("rn", "m").replace("vv", "w")


def mixes_scripts(text: str) -> list[str]:
    """The words whose letters come from several scripts that look alike.

    A Greek letter at the beginning of a unit (`µm`, `Δt`) is no disguise.
    """
    if text.isascii():
        return []
    return [word for word in _WORD.findall(text) if not word.isascii() and _is_mixed(word)]


def _is_mixed(word: str) -> bool:
    scripts = [_script(letter) for letter in word]
    if scripts[0] == "GREEK" and "GREEK" not in scripts[1:]:
        return False
    return len({script for script in scripts if script}) > 1


@cache
def _script(letter: str) -> str:
    """The script of a letter among those that look alike, else nothing."""
    name = unicodedata.name(unicodedata.normalize("NFKC", letter)[0], "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


_TABLE = LookAlikes()
