"""Spans that lead to a person: mail, telephone, card, account, social security, address."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterator

from toolcrib.records.context import Entity

__all__ = ["PERSONAL", "personal_entities"]

PERSONAL = frozenset({"email", "phone", "card", "iban", "ssn", "address"})
"""Types of entities that are data of a person wherever they stand."""

MAX_PHONE_CANDIDATES = 40
"""A table of figures is full of what might be a number; a turn has a few."""

_EMAIL = re.compile(
    r"(?<![\w.+%-])[^\W_][\w.+%'-]{0,63}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,6}"
    r"[^\W\d_]{2,24}\b(?!:[\w~])"
)
"""Not `git@host.com:group/project`, which is a repository."""

_CARD = re.compile(r"(?<![\w.+-])(?:\d[ -]?){11,18}\d(?![\w-])")
_CARD_LENGTHS = {"1": (15,), "2": (15, 16), "3": (14, 15, 16), "4": (13, 16, 19)}
_MAESTRO_LENGTHS = range(12, 20)

_IBAN = re.compile(
    r"(?<!\w)[a-z]{2}\d{2}(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?(?!\w)", re.IGNORECASE
)
_SSN = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_SSN_NAMED = re.compile(
    r"\b(?:ssn|social security)[^\d\n]{0,20}(\d{3}[ -]?\d{2}[ -]?\d{4})(?![\w-])", re.IGNORECASE
)

_IPV4 = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?![\w-]|\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:::1|(?:[0-9a-f]{1,4}:{1,2}){2,7}[0-9a-f]{0,4}(?:/\d{1,3})?)(?![\w:]|\.\d)",
    re.IGNORECASE,
)
_VERSION_WORD = re.compile(r"(?:version|release|ver\.?)\s$", re.IGNORECASE)

_PHONE = re.compile(
    r"(?<![\w.,:/#$€£-])(?:\+|\(\+?)?\d(?:[ ().\-/]{0,3}\d){5,16}(?![\w%€$]|[.,:/-]\d)"
)
_PHONE_CUE = re.compile(
    r"\b(?:phone|mobile|cell|tel|telephone|fax|call|dial|ring|reach|contact|whatsapp|sms|text|"
    r"hotline|landline|extension|messages? to|(?:my|his|her|your|their) number)\b[^\d\n]{0,24}$",
    re.IGNORECASE,
)
_PHONE_CUE_AFTER = re.compile(
    r"[ -]{0,2}\(?(?:office|fax|mobile|cell|home|work|phone)\b", re.IGNORECASE
)
_GROUPED = re.compile(r"\d[ ().\-/]+\d")
_NATIONAL = re.compile(r"\(?0\d{1,4}\)?[ /-](?:\d[ -]?){5,9}")
"""The trunk digit of many countries, a group, and the rest."""

_MIN_PHONE_DIGITS, _MAX_PHONE_DIGITS = 7, 15

_STREET = (
    r"street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|square|terrace|crescent|"
    r"close|parkway|highway"
)
_STREET_ENDING = (
    r"straße|strasse|straat|gasse|gatan|gaten|vägen|veien|laan|platz|allee|katu|gade|vej|utca"
)
_NAME = r"[^\W\d_][\w'.-]{0,20}"
_CAPITAL = r"(?-i:(?![a-z]))"
_ADDRESS = re.compile(
    r"(?<!\w)(?:"
    rf"(?<![.#-])\d{{1,5}}[a-z]?,? (?:{_CAPITAL}{_NAME} ){{1,3}}(?:{_STREET})\b"
    rf"|[^\W\d_][\w-]{{2,30}}(?:{_STREET_ENDING}) \d{{1,4}}[a-z]?(?!\w)"
    r"|(?:rue|via|calle|ulica|ul\.|avenida|piazza|plaza) "
    rf"(?:{_NAME},? ){{1,4}}\d{{1,4}}(?!\w)"
    r"|(?:apt\.?|apartment|suite|flat|p\.? ?o\.? box) \d{1,5}(?!\w))",
    re.IGNORECASE,
)
"""A house number with a street as it is written in several countries: it needs no town."""


def personal_entities(text: str, region: str | None) -> Iterator[Entity]:
    """Every such span of a text; `region` is the country of numbers without a country's code."""
    digits = any(map(str.isdigit, text))
    if "@" in text:
        yield from (_entity("email", found) for found in _EMAIL.finditer(text))
    if digits:
        yield from _cards(text)
        yield from _ibans(text)
        yield from _social_security(text)
        yield from _machines(text)
        yield from _phones(text, region)
        yield from (_entity("address", found) for found in _ADDRESS.finditer(text))


def _cards(text: str) -> Iterator[Entity]:
    """Payment cards: an issuer's first digits, a length that it uses, and the right check digit."""
    from stdnum import luhn

    for found in _CARD.finditer(text):
        number = re.sub(r"\D", "", found[0])
        lengths = _CARD_LENGTHS.get(number[0], _MAESTRO_LENGTHS if number[0] in "56" else ())
        if len(number) in lengths and luhn.is_valid(number):
            yield _entity("card", found)


def _ibans(text: str) -> Iterator[Entity]:
    from stdnum import iban

    for found in _IBAN.finditer(text):
        # A word may follow that looks like the last group: try without it.
        for end in {found.end(), found.start() + found[0].rfind(" ")}:
            span = text[found.start() : end]
            if end > found.start() and iban.is_valid(span, check_country=False):
                yield Entity("iban", span, found.start(), end)
                break


def _social_security(text: str) -> Iterator[Entity]:
    from stdnum.us import ssn

    for found in itertools.chain(_SSN.finditer(text), _SSN_NAMED.finditer(text)):
        group = found.re.groups
        if ssn.is_valid(re.sub(r"\D", "", found[group])):
            yield Entity("ssn", found[group], found.start(group), found.end(group))


def _machines(text: str) -> Iterator[Entity]:
    """IP addresses and networks, as `ipaddress` reads them."""
    for found in itertools.chain(_IPV4.finditer(text), _IPV6.finditer(text)):
        if _VERSION_WORD.search(text, max(0, found.start() - 12), found.start()):
            continue
        try:
            ipaddress.ip_interface(found[0])
        except ValueError:
            continue
        yield _entity("ip", found)


def _phones(text: str, region: str | None) -> Iterator[Entity]:
    """Telephone numbers: valid ones of the region or with a country's code, or named as such.

    A bare run of digits is one only where a word before it says so: it may be any id.
    """
    for found in itertools.islice(_PHONE.finditer(text), MAX_PHONE_CANDIDATES):
        number = found[0]
        digits = sum(map(str.isdigit, number))
        if not _MIN_PHONE_DIGITS <= digits <= _MAX_PHONE_DIGITS:
            continue
        before = text[max(0, found.start() - 40) : found.start()]
        named = _PHONE_CUE.search(before) or _PHONE_CUE_AFTER.match(text, found.end())
        grouped = "+" in number or _GROUPED.search(number) is not None
        if named or (grouped and _is_valid_phone(number, region)) or _NATIONAL.fullmatch(number):
            yield _entity("phone", found)


def _is_valid_phone(number: str, region: str | None) -> bool:
    import phonenumbers

    found = phonenumbers.PhoneNumberMatcher(number, region)
    return any(match.raw_string.strip() == number for match in found)


def _entity(kind: str, found: re.Match[str]) -> Entity:
    return Entity(kind, found[0], found.start(), found.end())
