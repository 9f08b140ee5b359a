"""Passwords, keys and tokens: by the format of their issuer, or behind a word that names one."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from toolcrib.records.context import Entity

__all__ = ["secrets"]

PLUGINS = (
    "artifactory.ArtifactoryDetector",
    "aws.AWSKeyDetector",
    "azure_storage_key.AzureStorageKeyDetector",
    "discord.DiscordBotTokenDetector",
    "github_token.GitHubTokenDetector",
    "gitlab_token.GitLabTokenDetector",
    "mailchimp.MailchimpDetector",
    "pypi_token.PypiTokenDetector",
    "sendgrid.SendGridDetector",
    "slack.SlackDetector",
    "square_oauth.SquareOAuthDetector",
    "stripe.StripeDetector",
    "telegram_token.TelegramBotTokenDetector",
    "twilio.TwilioKeyDetector",
)
"""Those of detect-secrets whose formats are used; what stands behind a key word is judged here."""

MAX_KEY_CHARS = 2_000
"""Some formats cost the square of a run's length; no key is longer."""

_RUN = re.compile(r"(?<!\S)\S{12,}")
"""A run without white space that may hold a key: few words of prose are as long."""

_REST = re.compile(r"[\w+/=~-]*(?:\.[\w+/=~-]+)*")
"""What belongs to a key beyond the part that makes it known, as a token's signature does."""

_IN_URL = re.compile(r"://[^\s:/@]{1,64}:([^\s@/]{1,128})@")

_PREFIXED = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{20,200}|github_pat_\w{22,200}|AIza[\w-]{35}|hf_[A-Za-z]{30,40}"
    r"|npm_[A-Za-z0-9]{36}|xapp-\d-[\w-]{20,200}|shpat_[0-9a-f]{32}|dop_v1_[0-9a-f]{64}"
    r"|sk_test_[A-Za-z0-9]{16,100}|ya29\.[\w-]{20,200}"
    r"|eyJ[\w-]{8,2000}={0,2}\.[\w-]{4,4000}={0,2}(?:\.[\w-]{0,2000})?)(?![\w-])"
)
"""Formats that the plugins do not know, and JSON web tokens, which cost theirs a square."""

_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d")

_KEY_WORDS = ("pass", "pwd", "secret", "token", "credential", "key")
_NAMED = re.compile(
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])(?:db_)?pass|pwd|secret|token|credential"
    r"|(?:api|access|private|auth|account|service|client|db)[_-]?key|(?<![a-z])api key)"
    r"[\w-]{0,24}(?:\[\d{0,4}\])?[\"'\]]{0,2}"
    r"(?P<sign>[ \t]{0,3}(?:=>|:=|[!=]={1,2}|=|:)[ \t]{0,3}|\(|[ \t](?=[\"'])"
    r"|(?:[ \t](?:for|of|to)[ \t][\w ./-]{1,30}?)?[ \t]is[ \t:]{1,3})@?"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\n]{4,200}?)(?P=quote)|(?P<plain>[^\s\"'`,;]{4,200}))",
    re.IGNORECASE,
)
"""A word for a secret, a sign or `is`, and a value."""

_PLACEHOLDER = re.compile(
    r"[$<%{(\[]|\*{3}|x{4}|\.{3}|(?:your|my|the|insert|change|example|placeholder|dummy|some|not"
    r"|os|process|env|self|config|settings|get|none|null|true|false|undefined|string|str|http)"
    r"(?![a-z0-9]*\d)",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_MARK = re.compile(r"[^\w\s.,:;?!-]")
MIN_SECRET_CHARS = 6
MIN_ENTROPY = 2.5
"""Bits a character: `required` has 2.5, `hunter2!` 3.0, a random key of 20 about 4."""


def secrets(text: str) -> Iterator[Entity]:
    """Every secret of a text, without the word that names it."""
    for found in itertools.chain(_BLOCK.finditer(text), _PREFIXED.finditer(text)):
        yield Entity("secret", found[0], found.start(), found.end())
    for found in _IN_URL.finditer(text):
        yield Entity("secret", found[1], found.start(1), found.end(1))
    yield from _known_formats(text)
    lower = text.lower()
    if not any(word in lower for word in _KEY_WORDS):
        return
    for found in _NAMED.finditer(text):
        group = "quoted" if found["quoted"] else "plain"
        value = found[group] if found["quoted"] else found[group].rstrip(".,:;?")
        if _looks_secret(value, in_prose=" is" in found["sign"]):
            start = found.start(group)
            yield Entity("secret", value, start, start + len(value))


def _known_formats(text: str) -> Iterator[Entity]:
    runs = list(_RUN.finditer(text))
    joined = " ".join(run[0][:MAX_KEY_CHARS] for run in runs)
    # Where each run begins in what was joined: one search for each format, not one for each run.
    begins = [0, *itertools.accumulate(min(len(run[0]), MAX_KEY_CHARS) + 1 for run in runs)]
    for pattern in _formats() if runs else ():
        for found in pattern.finditer(joined):
            key = found[0].strip(' "=:')
            begin = found.start() + found[0].index(key)
            run = bisect.bisect_right(begins, begin) - 1
            start = runs[run].start() + begin - begins[run]
            end = _REST.match(text, start + len(key)).end()  # pyright: ignore[reportOptionalMemberAccess]
            yield Entity("secret", text[start:end], start, end)


@cache
def _formats() -> tuple[re.Pattern[str], ...]:
    from importlib import import_module

    patterns: list[re.Pattern[str]] = []
    for name in PLUGINS:
        module, _, kind = name.partition(".")
        plugin: Any = getattr(import_module(f"detect_secrets.plugins.{module}"), kind)
        patterns += plugin.denylist
    return tuple(patterns)


def _looks_secret(value: str, *, in_prose: bool) -> bool:
    """Whether a value is no placeholder, no word and no code: mixed signs without an order."""
    if len(value) < MIN_SECRET_CHARS or value.count(" ") > 1 or value.endswith(")"):
        return False
    if _PLACEHOLDER.match(value):
        return False
    digit = _DIGIT.search(value) is not None
    mixed = digit or (not in_prose and _MARK.search(value) is not None)
    return mixed and _LETTER.search(value) is not None and _entropy(value) >= MIN_ENTROPY


def _entropy(value: str) -> float:
    """Shannon's, in bits a character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
