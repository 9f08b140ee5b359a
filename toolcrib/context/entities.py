"""Entities of a turn: typed spans, found by patterns and word lists."""

from __future__ import annotations

import errno
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from string import digits
from types import MappingProxyType

from toolcrib.context.phrases import PhraseIndex, word_lists
from toolcrib.context.pii import NORTH_AMERICA, entity_of, personal_entities, secrets
from toolcrib.errors import SettingsError
from toolcrib.extras import import_extra
from toolcrib.records import Entity
from toolcrib.text import FULL_WIDTH, FULL_WIDTH_OFFSET, UNSPACED_SCRIPTS, TextWords, split_words

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_ORDINAL = r"(?:st|nd|rd|th)"
_YEAR = r"(?:19|20)\d{2}"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SHORT_DAY = r"(?:mon|tue|wed|thu|thur|thurs|fri|sat|sun)"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|quarters?|years?)"
_NUMBER = (
    r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty)"
)
_COUNT = rf"(?:\d{{1,4}}|an?|{_NUMBER}|few|a few|a couple of|half an?|a quarter of an)"
_PERIOD = r"(?:hour|week|weekend|month|quarter|year|sprint|morning|afternoon|evening|night)"
_PREPOSITION = (
    r"(?:in|on|by|since|from|until|till|before|after|during|of|for|late|early|mid|between)"
)
_NAMED_MONTH = rf"(?!may\b){_MONTH}"
"""`may` alone is a verb more often than a month."""

_NUMERIC_DATE = re.compile(
    r"(?<![\w./-])(?:"
    r"(?P<iso>\d{4}-\d{2}-\d{2})"
    r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|(?P<ymd>\d{4}[/.]\d{1,2}[/.]\d{1,2})"
    r"|(?P<dmy>\d{1,2}(?:/\d{1,2}/(?:\d{4}|\d{2})|[.]\d{1,2}[.]\d{4}|-\d{1,2}-\d{4}))"
    r"|(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?: ?[ap]\.?m\b)?"
    rf"|(?:1[0-2]|0?[1-9]) ?[ap]\.?m\b"
    rf"|{_DAY}{_ORDINAL}?(?: of)? {_MONTH}(?:,? {_YEAR})?"
    rf"|\d{{1,4}} {_UNIT} (?:ago|from now|earlier|later)\b"
    r")(?![\w/-]|[.:]\d)",
    re.IGNORECASE | re.ASCII,
)
"""Dates, times and spans of time that begin with a digit."""

_DATE_WORDS = re.compile(
    r"(?<![\w./-])(?:"
    r"today|tonight|tomorrow|yesterday|midnight|noon|eod|eow"
    rf"|(?:(?:this|next|last|coming) )?{_WEEKDAY}s?(?: (?:morning|afternoon|evening|night))?"
    rf"|(?:this|next|last|coming|past) (?:{_PERIOD}|{_SHORT_DAY}|{_NAMED_MONTH})"
    rf"|(?:by|on|until|since|till) {_SHORT_DAY}"
    rf"|(?:the )?end of (?:the |this |next )?(?:day|week|month|quarter|year|sprint)"
    rf"|(?:in|within) (?:the (?:next|past|last) )?{_COUNT} {_UNIT}"
    rf"|(?:last|past|next) {_COUNT} {_UNIT}"
    rf"|(?:an?|{_NUMBER}|few) {_UNIT} (?:ago|from now)"
    rf"|{_NUMBER} (?:thirty )?[ap]\.?m"
    rf"|{_MONTH} {_DAY}{_ORDINAL}?(?:,? {_YEAR})?(?![\d.])"
    rf"|{_MONTH},? {_YEAR}"
    rf"|{_PREPOSITION} (?:the )?(?P<month>{_NAMED_MONTH})"
    rf"|(?:on|by|until|till|since|from|before) (?:the )?(?P<day>{_DAY}{_ORDINAL})"
    r"(?=\s*(?:$|[,.;:?!)]|(?:of|at|in|and|to|for|with|please)\b))"
    rf"|(?:{_PREPOSITION}|year|and) (?P<year>{_YEAR})"
    rf"|q[1-4](?: {_YEAR})?"
    r")(?!\w|[.-]\w)",
    re.IGNORECASE,
)
"""A named group is the date itself, which the preposition before it shows."""


def numeric_dates(text: str) -> Iterator[Entity]:
    """Dates, times, and spans of time that begin with a digit."""
    return (
        entity_of("date", each) for each in _NUMERIC_DATE.finditer(text) if _in_the_calendar(each)
    )


def _in_the_calendar(found: re.Match[str]) -> bool:
    written = found["iso"] or found["ymd"] or found["dmy"]
    if written is None:
        return True
    first, middle, last = map(int, re.split(r"[-/.]", written))
    # Day and month occur in both orders: one must be a date.
    options = (
        [(last, first, middle), (last, middle, first)] if found["dmy"] else [(first, middle, last)]
    )
    return any(map(_is_date, options))


def _is_date(parts: tuple[int, int, int]) -> bool:
    year, month, day = parts
    try:
        date(year + 2000 if year < 100 else year, month, day)  # noqa: PLR2004 - a year of two digits
    except ValueError:
        return False
    return True


_SCHEMES = "|".join(word_lists()["schemes"])
_TOP_LEVELS = "|".join(word_lists()["top_levels"])
"""Top-level domains, except those that are endings of file names too, such as `.py` and `.sh`."""
_URL_CHAR = rf"[^\s<>\"`{{}}|\\^{UNSPACED_SCRIPTS}]"
_URL = re.compile(
    rf"(?:(?<![\w+.-])|(?<=[{UNSPACED_SCRIPTS}]))(?:(?:{_SCHEMES})://|www\.(?=\w)){_URL_CHAR}{{1,2000}}"
    rf"|(?<![\w@./-])(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.){{1,4}}(?:{_TOP_LEVELS})"
    rf"(?::\d{{2,5}})?(?:/{_URL_CHAR}{{0,500}})?(?![\w@(-]|\.\w)",
    re.IGNORECASE,
)

_AMOUNT = r"\d{1,3}(?:[\d.,']{0,18}\d)?"
_MONEY = re.compile(
    rf"(?<![\w.])(?:(?:[$€£¥₹]|(?:us|ca|au)\$|(?:usd|eur|gbp|chf|jpy)(?= ?\d)) ?{_AMOUNT}"
    r"(?: ?(?:k|m|bn|million|billion|thousand)\b|(?!\w))"
    rf"|{_AMOUNT} ?(?:k |m |million |billion |thousand )?(?:[€£¥₹](?!\w)"
    r"|(?:usd|eur|gbp|chf|jpy|inr|dollars?|euros?|pounds?|francs?|cents|bucks)\b))",
    re.IGNORECASE | re.ASCII,
)

_NUMBERS = r"\d{1,5}(?:\.\d{1,6}){0,4}"
_SUFFIX = r"(?i:[-.+]?(?:alpha|beta|rc|a|b|dev|post|snapshot|preview|lts)[-.]?\d{0,4})?"
_PRODUCTS = "|".join(word_lists()["products"])
_VERSION = re.compile(
    r"(?<!\w)(?:"
    rf"(?<![.-])[vV]{_NUMBERS}{_SUFFIX}(?!\w|\.\d)"
    rf"|(?i:version|ver\.?|versions|release) (?P<named>[vV]?{_NUMBERS}{_SUFFIX})(?![\w:]|\.\d)"
    rf"|(?<!\.)(?i:{_PRODUCTS})[ /](?P<product>[vV]?{_NUMBERS}{_SUFFIX}(?:\.x)?)(?![\w:%$€]|\.\d)"
    r"|(?<!\.)(?!Table|Section|Figure|Chapter|Part|Step|Page)[A-Z][\w+#]{1,20} "
    r"(?P<titled>\d{1,3}\.\d{1,3}(?:\.x)?)(?![\w:%$€]|\.\d| (?:million|billion|percent))"
    rf"|(?<![./$€£-])\d{{1,4}}\.\d{{1,4}}\.\d{{1,6}}(?:\.\d{{1,4}})?{_SUFFIX}(?:[-+][\w.]{{1,24}})?"
    r"(?![\w/]|\.\d))"
)
"""Versions: with a `v`, behind the word `version` or a product, or of three parts."""

_EXTENSIONS = "|".join(word_lists()["extensions"])
_FRAMEWORKS = "|".join(word_lists()["frameworks"])
_NO_FILE = rf"(?!(?i:{_FRAMEWORKS})\.js\b|console\.log\b)"
_PATH_PART = r"[\w.@+$*{}~:-]{1,80}"
_PATH = re.compile(
    r"(?<![\w/.:@-])(?:"
    rf"(?<!<)(?:~|\.{{1,2}})?/(?=[\w.{{$@~]{{2}}){_PATH_PART}(?:/{_PATH_PART}){{0,20}}/?(?<![.:])"
    rf"|(?<!\$){_NO_FILE}\w[\w+@-]{{0,60}}(?:[./][\w@+-]{{1,60}}){{0,12}}"
    rf"\.(?:{_EXTENSIONS})(?![\w(/@-]|\.\w)"
    r"|[A-Za-z]:\\(?:[\w.@+$ ~()-]{1,60}\\){0,20}[\w.@+$~-]{1,60}"
    r"|(?:Dockerfile|Makefile|Jenkinsfile|Procfile|Gemfile|CODEOWNERS)(?![\w.])"
    r"|\.(?:env|gitignore|dockerignore|npmrc|bashrc|zshrc|editorconfig|htaccess)(?![\w/]))"
)
"""Paths and file names: with a slash, or with a file ending; `Node.js` is no file."""

_BRANDS = frozenset(word_lists()["brands"])
"""Product names with an inner capital, which would otherwise count as code."""

_WORD = r"[A-Za-z_]\w{0,60}"
_IDENTIFIER = re.compile(
    r"(?<!\w)(?:"
    r"`(?P<quoted>[^`\s]{1,80})`"
    rf"|(?<![.$@/-])[$@]?{_WORD}(?:(?:\.|::|->){_WORD}){{0,6}}\(\)"
    rf"|(?<![.$/-]){_WORD}(?:(?:::|->){_WORD}){{1,6}}"
    rf"|(?<![./$-]){_WORD}(?:\.{_WORD}){{2,6}}(?![\w(])"
    r"|(?<![./-])(?:"
    r"[$@]?_{0,2}[A-Za-z][A-Za-z0-9]{0,40}(?:_{1,2}[A-Za-z0-9]{1,40}){1,10}_{0,2}(?!\w)"
    r"|[a-z][a-z0-9]{0,40}(?:[A-Z]{1,5}[a-z0-9]{0,40}){1,8}(?!\w)"
    r"|[A-Z]{1,5}[a-z0-9]{1,40}(?:[A-Z]{1,5}[a-z0-9]{1,40}){1,8}[A-Z]{0,4}(?!\w)"
    rf"|\${_WORD}"
    r"|(?!(?:UTF|SHA|ISO|RFC|COVID|GPT|AES|RSA|PEP|IPV)-)[A-Z][A-Z0-9]{1,9}-\d{1,6}(?![\w-])))"
)
"""Identifiers: in backticks, called, joined by `_` or dots, or with an inner capital; and ticket
keys, `OPS-318`."""

_ERRNO = "|".join(sorted(errno.errorcode.values(), key=len, reverse=True))
# Signals of Linux on all systems; Windows knows six.
_SIGNALS = (
    "SIG(?:ABRT|ALRM|BUS|CHLD|CONT|FPE|HUP|ILL|INT|IO|KILL|PIPE|PROF|PWR|QUIT|RTMAX|RTMIN|SEGV|STKFLT"
    "|STOP|SYS|TERM|TRAP|TSTP|TTIN|TTOU|URG|USR1|USR2|VTALRM|WINCH|XCPU|XFSZ)"
)
_STATUS = r"[1-5](?:\d{2}|xx)"
_ERROR = re.compile(
    r"(?<!\w)(?:"
    r"(?<!\.)(?:[A-Za-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}"
    r"(?:Error|Exception|Warning|Fault|Interrupt|Failure)(?!\w)"
    rf"|(?<!-)(?:{_ERRNO}|{_SIGNALS}|OOMKilled|CrashLoopBackOff|ImagePullBackOff)(?![\w-])"
    r"|(?<!-)(?:ERR_[A-Z_]{3,40}|ORA-\d{5}|TS\d{4}|CVE-\d{4}-\d{4,7})(?!\w)"
    rf"|(?i:https?(?:/\d(?:\.\d)?)? (?:status |error |code ){{0,2}}{_STATUS}\b)"
    rf"|(?i:error:? {_STATUS}(?![\w.%-]))"
    r"|(?i:(?:error|status|exit|return|response) (?:code|status)s?:? (?:\dxx|-?\d{1,3})(?![\w.%-]))"
    r"|(?i:an?|the|with|returns?|returned|gives?|got|getting) (?P<status>[45](?:\d{2}|xx)(?=s?\b))"
    r"(?=s?\s*(?:$|[,.;:?!)]|(?:on|from|when|for|error|response|status|after|in|and|to|since|if)\b))"
    r"|(?i:segmentation fault|segfault|null ?pointer|out of memory|core dump(?:ed)?"
    r"|connection (?:refused|reset|timed out)|permission denied|no such file or directory)\b)"
)
"""Errors: names of exceptions, errno and signals, HTTP and exit codes, and well-known messages."""

_NAME = r"[A-Za-z0-9][\w.-]{0,60}[A-Za-z0-9]"
_KIND = "|".join(word_lists()["kinds_of_repositories"])
_REPOSITORY_SHAPE = (
    rf"(?!(?:[A-Za-z]+-)+(?:{_KIND})\b)(?=[A-Za-z]*+[-_.\d])[A-Za-z][\w.-]{{1,60}}(?<![.-])"
)
"""Name of a repository that is no plain word: `checkout-web`, `infra_v2`; not `third-party`."""

_REPO = r"(?:repo|repository|monorepo|fork)"
_REPOSITORY = re.compile(
    r"(?<![\w./@:-])(?:"
    rf"git@[\w.-]{{1,60}}:(?P<remote>{_NAME}/[\w-]{{1,60}})"
    rf"|(?i:{_REPO}|clone|fork of|upstream) [`'\"]?(?P<owned>{_NAME}/{_NAME})(?![\w/-])"
    rf"|(?i:ci|builds?|issues?|main|master|pipelines?|prs?|pull requests?|releases?|workflows?)"
    rf" (?:of|for|in|on|from) [`'\"]?(?!(?i:feat(?:ure)?|(?:bug|hot)?fix|release|chore)/)"
    rf"(?P<developed>{_NAME}/{_REPOSITORY_SHAPE})(?![\w/-])"
    rf"|(?P<before>{_NAME}/{_NAME})(?=[`'\"]? {_REPO}\b)"
    rf"|(?i:{_REPO}) [`'\"](?P<quoted>{_NAME})(?=[`'\"])"
    rf"|(?i:repo|repository|monorepo) (?P<named>{_REPOSITORY_SHAPE})(?![\w/(]|\.\w)"
    rf"|(?P<shaped>{_REPOSITORY_SHAPE})(?=[`'\"]? (?:repo|repository|monorepo)\b)"
    r")"
)
"""Repositories: owner and name, or one name beside a word such as `repo`. Owner and name also stand
behind parts of a repository, as in `the CI of`."""

_HASH = r"[0-9a-f]{7,40}"
_COMMIT = re.compile(
    r"(?<![\w./-])(?:"
    rf"(?i:commits?|sha|sha1|changeset|revision|rev) (?i:hash |id )?[`'\"#(]?(?P<told>{_HASH})"
    rf"|(?i:revert(?:ed|s|ing)?|cherry-?pick(?:ed|ing)?|check ?out|bisect(?:ed)?(?: to)?|deployed"
    rf"|rebased? (?:on|onto)|since|from|at|between|and) [`'\"]?"
    rf"(?P<named>(?=[a-f]*+\d)(?=\d*+[a-f]){_HASH})"
    r"|(?P<whole>[0-9a-f]{40})"
    r")(?![\w-]|\.\w)"
)
"""Commits: digits behind a word for a commit; letters and digits behind an ambiguous word; or all
forty."""

_SERVICE_ENDINGS = "|".join(word_lists()["service_endings"])
_NO_SERVICE = "|".join(word_lists()["no_services"])
_SERVICE = re.compile(
    rf"(?<![\w./@:-])(?!(?:{_NO_SERVICE})(?![\w-]))"
    rf"[a-z][a-z0-9]{{1,30}}(?:-[a-z0-9]{{1,30}}){{0,4}}-(?:{_SERVICE_ENDINGS})(?![\w/@:(-]|\.\w)"
)
"""Names of services as they are deployed: `checkout-api`, `mail-worker`."""

_PATTERNS = (
    ("date", _DATE_WORDS, ""),
    ("url", _URL, "./"),
    ("money", _MONEY, digits),
    ("version", _VERSION, digits),
    ("path", _PATH, "./\\f"),
    ("error", _ERROR, ""),
    ("identifier", _IDENTIFIER, ""),
    ("repository", _REPOSITORY, "of"),
    ("commit", _COMMIT, digits),
    ("service", _SERVICE, "-"),
)
"""Type, pattern, and signs: a pattern is tried only on texts with one of its signs."""

_CASED_PRODUCTS = frozenset((*word_lists()["brands"], *word_lists()["products_as_written"]))
_PRODUCT_INDEX = PhraseIndex(
    (name, "product") for name in (*_CASED_PRODUCTS, *word_lists()["products_any_case"])
)
_UNCASED_PRODUCTS = frozenset(word_lists()["products_any_case"])


def phrase_entities(index: PhraseIndex, text: str, words: TextWords) -> Iterator[Entity]:
    """Spans of the phrases of an index; the first label is the type."""
    for match in index.find(words):
        start, end = words.spans[match.first][0], words.spans[match.last - 1][1]
        yield Entity(match.labels[0], text[start:end], start, end)


def products(text: str, words: TextWords) -> Iterator[Entity]:
    """Well-known products; names that are everyday words only in their own spelling."""
    for each in phrase_entities(_PRODUCT_INDEX, text, words):
        uncased = " ".join(each.text.casefold().split())
        if each.text in _CASED_PRODUCTS or uncased in _UNCASED_PRODUCTS:
            yield each


def pattern_entities(text: str) -> Iterator[Entity]:
    """Spans of all types in a text; they may overlap."""
    for kind, pattern, signs in _PATTERNS:
        if signs and not any(sign in text for sign in signs):
            continue
        for found in pattern.finditer(text):
            group: str | int = found.lastgroup or 0
            span = found[group]
            if kind in {"url", "path"}:
                span = _without_punctuation(span)
            if span not in _BRANDS:
                yield Entity(kind, span, found.start(group), found.start(group) + len(span))


def _without_punctuation(span: str) -> str:
    """Span without the punctuation and closing bracket of the sentence around it."""
    span = span.rstrip(".,;:!?'*")
    while span.endswith(")") and span.count("(") < span.count(")"):
        span = span[:-1].rstrip(".,;:!?'*")
    return span


MAX_ENTITY_TEXT_CHARS = 8_000
"""Characters of a turn that are searched; a pasted log of 200 KB adds little to its head."""

_MIN_TOOL_NAME_CHARS = 3
"""Shorter tool names (`q`, `ls`) are mostly other words of a sentence."""

_WINNING_TYPES = frozenset({"secret", "card", "iban", "ssn", "national_id"})
"""Types that win over any longer span: a password within a URL matters more than the URL."""

_TYPE_ORDER = (
    "tool",
    "email",
    "url",
    "date",
    "ip",
    "phone",
    "money",
    "error",
    "path",
    "version",
    "repository",
    "commit",
    "identifier",
    "address",
    "service",
    "product",
)
"""Precedence of types for one span; gazetteers come before all of these."""

_RANKS = {kind: rank for rank, kind in enumerate(_TYPE_ORDER)}

_PLAIN_FORMS = {
    **FULL_WIDTH,
    **{ord(sign) + FULL_WIDTH_OFFSET: sign for sign in "+-.@_()"},
    **{ord(zero) + at: digits[at] for zero in "٠۰०" for at in range(10)},
    ord("￥"): "¥",
}
"""ASCII characters and `¥` by their full-width forms, and digits by Arabic, Persian and Devanagari
digits; each replaces one character, so that spans hold."""


def head_of(text: str) -> str:
    """First `MAX_ENTITY_TEXT_CHARS` characters, cut at white space: no entity is cut in two."""
    if len(text) <= MAX_ENTITY_TEXT_CHARS:
        return text
    parts = text[:MAX_ENTITY_TEXT_CHARS].rsplit(maxsplit=1)
    return parts[0] if parts else ""


class EntityFinder:
    """Finder of mail addresses, numbers, dates, code, errors, secrets, products and names.

    `gazetteers`: phrases by entity type; `names`: tools, packages and services, found as type
    `tool`. Both match on word borders, in any case. `region`: country (ISO 3166, `DE`) whose
    telephone numbers are known without a country code; None: only with a word for a telephone
    number.

    Raises:
        MissingExtraError: numbers of this region need the extra `context`.
        SettingsError: there is no such region.
    """

    def __init__(
        self,
        gazetteers: Mapping[str, Iterable[str]] = MappingProxyType({}),
        names: Iterable[str] = (),
        *,
        region: str | None = None,
    ) -> None:
        given = ((phrase, kind) for kind, phrases in gazetteers.items() for phrase in phrases)
        tools = ((name, "tool") for name in names if len(name) >= _MIN_TOOL_NAME_CHARS)
        self._gazetteers = PhraseIndex(given)
        self._names = PhraseIndex(tools)
        self._region = region
        if region is not None and region not in NORTH_AMERICA:
            phonenumbers = import_extra("phonenumbers", f"context.region: {region}", "context")
            if region not in phonenumbers.SUPPORTED_REGIONS:
                raise SettingsError(
                    f"context.region: there is no country {region!r}; write two capital letters "
                    "of ISO 3166, such as GB for the United Kingdom"
                )

    def find(self, text: str) -> tuple[Entity, ...]:
        """Entities of the text's head, ordered by their start, without overlaps.

        The longer of two overlapping entities wins; secrets, cards, accounts and social security
        numbers always win.
        """
        head = head_of(text)
        words, plain = split_words(head), head.translate(_PLAIN_FORMS)
        found = itertools.chain(
            phrase_entities(self._gazetteers, head, words),
            phrase_entities(self._names, head, words),
            products(head, words),
            secrets(plain),
            personal_entities(plain, self._region),
            numeric_dates(plain),
            pattern_entities(plain),
        )
        kept: list[Entity] = []
        taken = bytearray(len(head))
        for entity in sorted(found, key=_precedence):
            if not any(taken[entity.start : entity.end]):
                taken[entity.start : entity.end] = b"\1" * (entity.end - entity.start)
                kept.append(replace(entity, text=head[entity.start : entity.end]))
        return tuple(sorted(kept, key=lambda entity: entity.start))


def _precedence(entity: Entity) -> tuple[bool, int, int, int]:
    length = entity.end - entity.start
    return entity.type not in _WINNING_TYPES, -length, _RANKS.get(entity.type, -1), entity.start
