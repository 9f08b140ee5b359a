"""Personal data and secrets of a turn, and its sensitivity by entities and phrases."""

from __future__ import annotations

import bisect
import ipaddress
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from toolcrib.context.phrases import Match, word_lists
from toolcrib.records import Entity
from toolcrib.records.scope import SENSITIVITIES, Sensitivity
from toolcrib.text import UNSPACED_SCRIPTS

MAX_KEY_CHARS = 2_000
"""Characters of a run without white space that are searched; no key is longer."""

_UNSPACED_RUN = re.compile(r"(?<!\S)\S{12,}")
"""Run without white space that may hold a key: few words of prose are as long."""

_KEY_REST = re.compile(r"[\w+/=~-]*(?:\.[\w+/=~-]+)*")
"""Rest of a key behind its identifying prefix, such as the signature of a token."""

_FORMATS = re.compile("|".join(word_lists()["secret_formats"]))

_IN_URL = re.compile(r"://[^\s:/@]{1,64}:([^\s@/]{1,128})@")

# `\w` is of ASCII in patterns of numbers and keys: Japanese, Chinese and Korean write their words
# right behind one (`090-1234-5678です`).
_PREFIXED_SECRET = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{20,200}|github_pat_\w{22,200}|AIza[\w-]{35}|hf_[A-Za-z0-9]{30,40}"
    r"|npm_[A-Za-z0-9]{36}|xapp-\d-[\w-]{20,200}|shpat_[0-9a-f]{32}|dop_v1_[0-9a-f]{64}"
    r"|sk_test_[A-Za-z0-9]{16,100}|ya29\.[\w-]{20,200}"
    r"|eyJ[\w-]{8,2000}={0,2}\.[\w-]{4,4000}={0,2}(?:\.[\w-]{0,2000})?)(?![\w-])",
    re.ASCII,
)
"""Keys that occur within prose, and JSON web tokens."""

_KEY_LABEL = r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_BLOCK = re.compile(
    rf"-----BEGIN {_KEY_LABEL}"
    rf"(?:(?:[^-]|-(?!-))*+-----END {_KEY_LABEL}|(?:(?:\s|\\n)*+[\w+/=]{{16,}}+)*+)"
    r"|PuTTY-User-Key-File-\d(?:(?:[^P]|P(?!uTTY-|rivate-MAC:))*+Private-MAC: ?\w+)?"
)
"""Private key: the whole block, or what there is of one that is cut off."""

_CREDENTIALS = re.compile(r"(?<!\w)(?:bearer|basic) {1,4}([\w+/=.~-]{16,2000})", re.IGNORECASE)
"""Value of a header `Authorization`."""

_KEY_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_NAMED_SECRET = re.compile(
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])(?:db_)?pass|pwd|secret|token|credential"
    r"|(?:api|access|private|auth|account|service|client|db)[_-]?key|(?<![a-z])api key)"
    r"[\w-]{0,24}(?:\[\d{0,4}\])?[\"'\]]{0,2}"
    r"(?P<sign>[ \t]{0,3}(?:=>|:=|[!=]={1,2}|=|:)[ \t]{0,3}|\(|[ \t](?=[\"'])"
    r"|(?:[ \t](?:for|of|to)[ \t][\w ./-]{1,30}?)?[ \t]is[ \t:]{1,3})@?"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\n]{4,200}?)(?P=quote)|(?P<plain>[^\s\"'`,;]{4,200}))",
    re.IGNORECASE,
)
"""A word for a secret, a sign or `is`, and a value."""

SECRET_NAME = re.compile(
    r"(?<!max_)token|secret|pass(?:w|phrase|code)|pwd|credential|auth(?!ors?(?:_|$))|cookie|private|api_?-?key"
    r"|mnemonic|(?:seed|recovery)_?-?phrase"
    r"|(?:^|[_-])(?:key|pat|pass|dsn|pin|otp|cv[cv])(?:$|[_-])|(?:database|postgres|mongo|redis|connection)\w{0,9}ur[il]",
    re.IGNORECASE,
)
"""Name of a variable, header, option or parameter whose value is a secret."""

_PLACEHOLDER = re.compile(
    r"\A(?:[$<%{(\[]|\*{3}|x{4}|\.{3}|-default\}|(?:your|my|the|insert|change|example|placeholder|dummy|some"
    r"|not|os|process|env|self|config|settings|get|none|null|true|false|undefined|string|str|http)"
    r"(?![a-z0-9]*\d))",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_PUNCTUATION = re.compile(r"[^\w\s.,:;?!-]")
MIN_SECRET_CHARS = 6
MIN_ENTROPY = 2.5
"""Entropy in bits a character: `required` has 2.5, `hunter2!` 3.0, a random key of 20 about 4."""


def secrets(text: str) -> Iterator[Entity]:
    """Secrets of a text, without the words that name them."""
    for pattern, group in ((_BLOCK, 0), (_PREFIXED_SECRET, 0), (_IN_URL, 1)):
        yield from (entity_of("secret", found, group) for found in pattern.finditer(text))
    yield from _known_formats(text)
    for found in _CREDENTIALS.finditer(text):
        if _looks_secret(found[1], in_prose=True):
            yield entity_of("secret", found, 1)
    lower = text.lower()
    if not any(word in lower for word in _KEY_WORDS):
        return
    for found in _NAMED_SECRET.finditer(text):
        group = "quoted" if found["quoted"] else "plain"
        value = found[group] if found["quoted"] else found[group].rstrip(".,:;?")
        if _looks_secret(value, in_prose=" is" in found["sign"]):
            start = found.start(group)
            yield Entity("secret", value, start, start + len(value))


def without_secrets(text: str) -> str:
    """Text with asterisks in place of its secrets."""
    return hide_secrets(text, {found.text for found in secrets(text)})


def hide_secrets(text: str, found: Iterable[str]) -> str:
    """Text with asterisks in place of these secrets; one secret may be the start of another."""
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _known_formats(text: str) -> Iterator[Entity]:
    runs = list(_UNSPACED_RUN.finditer(text))
    joined = " ".join(run[0][:MAX_KEY_CHARS] for run in runs)
    # Start of each run in the joined text: one search for each format instead of one for each run.
    begins = [0, *itertools.accumulate(min(len(run[0]), MAX_KEY_CHARS) + 1 for run in runs)]
    end = 0
    for found in _FORMATS.finditer(joined):
        run = bisect.bisect_right(begins, found.start()) - 1
        start = runs[run].start() + found.start() - begins[run]
        if start < end:
            continue  # inside the previous key
        end = _KEY_REST.match(text, start + len(found[0])).end()  # pyright: ignore[reportOptionalMemberAccess]
        yield Entity("secret", text[start:end], start, end)


def _looks_secret(value: str, *, in_prose: bool) -> bool:
    """True for a value of mixed characters without order: no placeholder, word or code."""
    if len(value) < MIN_SECRET_CHARS or value.count(" ") > 1 or value.endswith(")"):
        return False
    if _PLACEHOLDER.match(value):
        return False
    digit = _DIGIT.search(value) is not None
    mixed = digit or (not in_prose and _PUNCTUATION.search(value) is not None)
    return mixed and _LETTER.search(value) is not None and _entropy(value) >= MIN_ENTROPY


def _entropy(value: str) -> float:
    """Shannon entropy of a text, in bits a character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


PERSONAL = frozenset({"email", "phone", "card", "iban", "ssn", "national_id", "address"})
"""Types of entities that are personal data in any context."""

MAX_PHONE_CANDIDATES = 40
"""Candidates that are checked: a table of figures has many, a turn a few."""

_WORD_CHAR = f"[^\\W{UNSPACED_SCRIPTS}]"
_LETTER_OR_DIGIT = f"[^\\W_{UNSPACED_SCRIPTS}]"
_EMAIL = re.compile(
    rf"(?:(?<![\w.+%-])|(?<=[{UNSPACED_SCRIPTS}]))"
    rf"{_LETTER_OR_DIGIT}(?:{_WORD_CHAR}|[.+%'-]){{0,63}}@"
    rf"(?:{_LETTER_OR_DIGIT}(?:(?:{_WORD_CHAR}|-){{0,61}}{_LETTER_OR_DIGIT})?\.){{1,6}}"
    rf"[^\W\d_{UNSPACED_SCRIPTS}]{{2,24}}(?!{_WORD_CHAR})(?!:[\w~])"
)
"""Mail addresses; not `git@host.com:group/project`, which is a repository."""

_CARD = re.compile(r"(?<![\w.+-])(?:\d[ -]?){11,18}\d(?![\w-])", re.ASCII)
_CARD_LENGTHS = {"1": (15,), "2": (15, 16), "3": (14, 15, 16), "4": (13, 16, 19)}
_MAESTRO_LENGTHS = range(12, 20)

_IBAN = re.compile(
    r"(?<!\w)[a-z]{2}\d{2}(?:[ -]?[a-z0-9]{4}){2,7}(?:[ -]?[a-z0-9]{1,3})?(?!\w)",
    re.IGNORECASE | re.ASCII,
)
_IBAN_LENGTHS: dict[str, int] = word_lists()["iban_lengths"]
_SSN = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])", re.ASCII)
_SSN_NAMED = re.compile(
    r"\b(?:ssn|social security)[^\d\n]{0,20}(\d{3}[ -]?\d{2}[ -]?\d{4})(?![\w-])", re.IGNORECASE
)
_VALID_SSN = re.compile(r"(?!000|666|9|078051120|457555462|219099999)\d{3}(?!00)\d{2}(?!0000)\d{4}")
"""Social security numbers with areas, groups and serials that are issued, without three that are
known from advertisements."""

_NATIONAL_IDS: dict[str, tuple[str, list[str]]] = word_lists()["national_ids"]
_NATIONAL_ID = {
    module: re.compile(
        rf"(?:(?<![a-z])(?P<name>{'|'.join(map(re.escape, names))})(?![a-z])[^\d\n]{{0,20}}?)?"
        rf"(?<![a-z0-9.-])(?P<number>{form})(?![a-z0-9_-])",
        re.IGNORECASE,
    )
    for module, (form, names) in _NATIONAL_IDS.items()
}

_IPV4 = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?![\w-]|\.\d)", re.ASCII)
_IPV6 = re.compile(
    r"(?<![\w:.])(?:::1|(?:[0-9a-f]{1,4}:{1,2}){2,7}[0-9a-f]{0,4}(?:/\d{1,3})?)(?![\w:]|\.\d)",
    re.IGNORECASE | re.ASCII,
)
_VERSION_WORD = re.compile(r"(?:version|release|ver\.?)\s$", re.IGNORECASE)

_PHONE = re.compile(
    r"(?<![\w.,:/#$€£-])(?:\+|\(\+?)?\d(?:[ ().\-/]{0,3}\d){5,16}(?![\w%€$]|[.,:/-]\d)",
    re.ASCII,
)
_PHONE_CUE = re.compile(
    r"\b(?:phone|mobile|cell|tel|telephone|fax|call|dial|ring|reach|contact|whatsapp|sms|text|"
    r"hotline|landline|extension|messages? to|(?:my|his|her|your|their) number|"
    r"handynummer|t[eé]l[eé]phone|tel[eé]fono|m[oó]vil|celular|cellulare|telefon[aeu]?|telefoon|"
    r"телефона?|тел)\b[^\d\n]{0,24}$|(?:電話|携帯|电话|手机|전화|휴대폰)[^\d\n]{0,24}$",
    re.IGNORECASE,
)
_PHONE_CUE_AFTER = re.compile(
    r"[ -]{0,2}\(?(?:office|fax|mobile|cell|home|work|phone)\b", re.IGNORECASE
)
_DIGIT_GROUPS = re.compile(r"\d[ ().\-/]+\d")
_NATIONAL = re.compile(r"\(?0\d{1,4}\)?[ /-](?:\d[ -]?){5,9}")
"""Telephone number without a country code: the trunk digit of many countries, a group, and the
rest."""

NORTH_AMERICA = frozenset({"US", "CA"})
"""Regions whose numbers are known by their form."""

_AMERICAN = re.compile(r"\(?[2-9]\d{2}\)?[ .-]{0,2}[2-9]\d{2}[ .-]?\d{4}")
_MIN_INTERNATIONAL_DIGITS, _MIN_UNGROUPED_DIGITS = 9, 11
_MIN_PHONE_DIGITS, _MAX_PHONE_DIGITS = 7, 15

_STREET = "|".join(word_lists()["streets"])
_STREET_ENDING = "|".join(word_lists()["street_endings"])
_NAME = r"[^\W\d_][\w'.-]{0,20}"
_CAPITAL = r"(?-i:(?![a-z]))"
_ADDRESS = re.compile(
    r"(?<!\w)(?:"
    rf"(?<![.#-])\d{{1,5}}[a-z]?,? (?:{_CAPITAL}{_NAME} ){{1,3}}(?:{_STREET})\b"
    rf"|[^\W\d_][\w-]{{2,30}}(?:{_STREET_ENDING}) \d{{1,4}}[a-z]?(?!\w)"
    # `via` is also English: a street of Italy has a capital, or `in` before it.
    r"|(?:rue|calle|rua|ulica|ul\.|avenida|(?-i:Via|(?<=in )via|Piazza|Plaza)) "
    rf"(?:{_NAME},? ){{1,4}}\d{{1,5}}(?!\w)"
    r"|\d{1,4}(?: ?bis| ?ter)?,? (?:rue|avenue|boulevard|place|quai|all[ée]e|chemin|impasse) "
    rf"(?:(?:de|du|des|d'|la|l') ?){{0,2}}{_CAPITAL}{_NAME}"
    r"|(?:apt\.?|apartment|suite|flat|p\.? ?o\.? box) \d{1,5}(?!\w))",
    re.IGNORECASE,
)
"""A house number with a street, in the form of several countries; a town is not needed."""


def personal_entities(text: str, region: str | None) -> Iterator[Entity]:
    """Personal data of a text; `region` is the country of numbers without a country code."""
    digits = any(map(str.isdigit, text))
    if "@" in text:
        yield from (entity_of("email", found) for found in _EMAIL.finditer(text))
    if digits:
        yield from _cards(text)
        yield from _ibans(text)
        yield from _social_security(text)
        yield from _national_ids(text)
        yield from _ip_addresses(text)
        yield from _phones(text, region)
        yield from (entity_of("address", found) for found in _ADDRESS.finditer(text))


def _cards(text: str) -> Iterator[Entity]:
    """Payment cards: an issuer's first digits, one of its lengths, and the right check digit."""
    for found in _CARD.finditer(text):
        number = re.sub(r"\D", "", found[0])
        lengths = _CARD_LENGTHS.get(number[0], _MAESTRO_LENGTHS if number[0] in "56" else ())
        if len(number) in lengths and _has_check_digit(number):
            yield entity_of("card", found)


def _has_check_digit(number: str) -> bool:
    """Luhn check: every second digit from the right doubled, the sum of all digits ends in 0."""
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return (sum(map(int, number[-1::-2])) + sum(doubled)) % 10 == 0


def _ibans(text: str) -> Iterator[Entity]:
    for found in _IBAN.finditer(text):
        # The next word may look like the last group: try without that word.
        for end in {found.end(), found.start() + found[0].rfind(" ")}:
            span = text[found.start() : end]
            if end > found.start() and _is_iban(span):
                yield Entity("iban", span, found.start(), end)
                break


def _is_iban(text: str) -> bool:
    """Check an IBAN's length by its country, and its remainder 1 modulo 97 (ISO 13616)."""
    number = text.replace(" ", "").replace("-", "").upper()
    if not number.isascii() or len(number) != _IBAN_LENGTHS.get(number[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1


def _social_security(text: str) -> Iterator[Entity]:
    for found in itertools.chain(_SSN.finditer(text), _SSN_NAMED.finditer(text)):
        group = found.re.groups
        if _VALID_SSN.fullmatch(re.sub(r"\D", "", found[group])):
            yield entity_of("ssn", found, group)


def _national_ids(text: str) -> Iterator[Entity]:
    """National and tax numbers with the right check digit; mere digits need a word for them.

    Without the extra `context` such a word and the number's form suffice.
    """
    for module, pattern in _NATIONAL_ID.items():
        for found in pattern.finditer(text):
            number = found["number"]
            is_named, is_valid = found["name"] is not None, _has_national_check(module, number)
            is_plain = number.replace(" ", "").isdigit()
            if (is_named and is_valid is not False) or (is_valid and not is_plain):
                yield entity_of("national_id", found, "number")


def _has_national_check(module: str, number: str) -> bool | None:
    """Validity by the rules of the number's country; None without them, as without the extra.

    The rules of China fail where their list of counties has a gap.
    """
    try:
        rules: Any = import_module(f"stdnum.{module}")
        return bool(rules.is_valid(number))
    except (ImportError, KeyError):
        return None


def _ip_addresses(text: str) -> Iterator[Entity]:
    """IP addresses and networks that `ipaddress` parses."""
    for found in itertools.chain(_IPV4.finditer(text), _IPV6.finditer(text)):
        if _VERSION_WORD.search(text, max(0, found.start() - 12), found.start()):
            continue
        with suppress(ValueError):
            ipaddress.ip_interface(found[0])
            yield entity_of("ip", found)


def _phones(text: str, region: str | None) -> Iterator[Entity]:
    """Telephone numbers: valid in the region or with a country code, or named as such.

    Without the extra `context` a number is valid by its form. A run of digits needs a word before
    it, because it may be any id.
    """
    for found in itertools.islice(_PHONE.finditer(text), MAX_PHONE_CANDIDATES):
        number = found[0]
        digits = sum(map(str.isdigit, number))
        if not _MIN_PHONE_DIGITS <= digits <= _MAX_PHONE_DIGITS:
            continue
        before = text[max(0, found.start() - 40) : found.start()]
        named = _PHONE_CUE.search(before) or _PHONE_CUE_AFTER.match(text, found.end())
        grouped = "+" in number or _DIGIT_GROUPS.search(number) is not None
        if named or (grouped and _is_valid_phone(number, region)) or _NATIONAL.fullmatch(number):
            yield entity_of("phone", found)


def _is_valid_phone(number: str, region: str | None) -> bool:
    try:
        import phonenumbers
    except ImportError:
        return _has_phone_form(number, region)
    found = phonenumbers.PhoneNumberMatcher(number, region)
    return any(match.raw_string.strip() == number for match in found)


def _has_phone_form(number: str, region: str | None) -> bool:
    """True for the form of a number with a country code, or of North America."""
    digits = re.sub(r"\D", "", number)
    if "+" not in number:
        return region in NORTH_AMERICA and _AMERICAN.fullmatch(number) is not None
    if digits.startswith("1"):
        return _AMERICAN.fullmatch(digits[1:]) is not None
    least = _MIN_INTERNATIONAL_DIGITS if _DIGIT_GROUPS.search(number) else _MIN_UNGROUPED_DIGITS
    return not digits.startswith("0") and len(digits) >= least


def entity_of(kind: str, found: re.Match[str], group: str | int = 0) -> Entity:
    """Entity of a match, or of one of its groups."""
    return Entity(kind, found[group], *found.span(group))


_LEVEL_OF: dict[str, Sensitivity] = {
    **dict.fromkeys(PERSONAL, "pii"),
    "secret": "pii",
    "ip": "internal",
    "tool": "internal",
}
MAX_SENSITIVITY_SIGNALS = 5


def grade_sensitivity(
    entities: Iterable[Entity], matches: Iterable[Match]
) -> tuple[Sensitivity, tuple[str, ...], bool]:
    """Sensitivity of a text with these entities and phrases, its signals, and if an entity decided.

    The highest level counts. A signal names the type of an entity, never its text: signals are
    logged.
    """
    # A tool name of letters alone, such as `find`, is mostly an everyday word.
    known = (each for each in entities if each.type != "tool" or not each.text.isalpha())
    held = [(_LEVEL_OF[e.type], f"holds {e.type}") for e in known if e.type in _LEVEL_OF]
    phrases = [
        (level, f"says {match.phrase!r}")
        for match in matches
        for level in SENSITIVITIES
        if level in match.labels
    ]
    levels = {level for level, _ in (*held, *phrases)}
    highest = SENSITIVITIES[max(map(SENSITIVITIES.index, levels), default=0)]
    signals = dict.fromkeys(signal for level, signal in (*held, *phrases) if level == highest)
    by_entity = highest in {level for level, _ in held}
    return highest, tuple(signals)[:MAX_SENSITIVITY_SIGNALS], by_entity
