"""What rules find in texts that were made plain: where, how bad, and whether it is excused."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence

from toolcrib.indexers.audit.characters import visible
from toolcrib.indexers.audit.findings import Severity, Sign
from toolcrib.indexers.audit.rules import Phrase
from toolcrib.indexers.audit.normalise import SEPARATOR
from toolcrib.indexers.audit.rules import Rule, rulebook

__all__ = ["signs_in"]

AROUND = 50
"""So much of the text is shown on each side of what was found."""

MAX_PLACES = 8
"""One phrase is reported at so many places of a tool, and no more."""

MIN_WORDS = 5
"""A name of so many words is a sentence, and read as one."""

_SENTENCE_END = re.compile(r"[.!?。!?](?=\s|$)|[\n。!?]")
_QUOTES = re.compile(r"[\"“”„«»「」『』]|(?<!\w)['‘’`]|['‘’`](?!\w)")
_SPEAKS_OF_ATTACKS = re.compile(
    r"\b(?:detect|flag|scan|block|catch|identif|recogni[sz]|classif|moderat|filter|sanitis|sanitiz"
    r"|look(?:s|ing)? for|check(?:s|ing)? (?:for|that)|search(?:es|ing)? for|guard|protect|inject"
    r"|jailbreak|attack|malicious|suspicious|poison|adversarial|phish|explain|red.?team"
    r"|contains? \"|test (?:payload|case)|(?:phrases?|texts?|prompts?) (?:such as|like))"
)
"""How a tool talks that is made to find what these rules look for."""


def signs_in(
    texts: str, shown: str, topic: str, names: Sequence[bool]
) -> Iterator[tuple[int, Sign]]:
    """What rules find, each with the number of its text.

    `texts` are plain and lower-case, each between two separators, `shown` the same with their
    capitals, `topic` what the tool is called; `names` says which texts are identifiers.
    """
    starts = list(_separators(texts))
    for rule, phrase in rulebook().possible(texts):
        for found in _matches(phrase, texts):
            number = bisect.bisect_right(starts, found.start()) - 1
            if _fits(rule, texts, starts, number, names[number]):
                yield number, _sign(rule, texts, shown, found, topic)


def _separators(texts: str) -> Iterator[int]:
    at = texts.find(SEPARATOR)
    while at >= 0:
        yield at
        at = texts.find(SEPARATOR, at + 1)


def _matches(phrase: Phrase, texts: str) -> Iterator[re.Match[str]]:
    at = 0
    for _ in range(MAX_PLACES):
        found = phrase.search(texts, at)
        if found is None:
            return
        yield found
        at = max(found.end(), found.start() + 1)


def _fits(rule: Rule, texts: str, starts: Sequence[int], number: int, is_name: bool) -> bool:  # noqa: FBT001
    """Whether a rule is for this text: those of names for names, others for what is no name."""
    if not is_name or rule.names:
        return rule.names == is_name
    return texts.count(" ", starts[number], starts[number + 1]) + 1 >= MIN_WORDS


def _sign(rule: Rule, texts: str, shown: str, found: re.Match[str], topic: str) -> Sign:
    start, end = found.start(), min(found.end(), found.start() + 120)
    left = max(texts.rfind(SEPARATOR, 0, start + 1) + 1, start - AROUND)
    right = min(texts.index(SEPARATOR, max(end, left)), end + AROUND)
    excerpt = visible(shown[left:right])
    excuse = _excuse(rule, texts, found, topic)
    if excuse:
        less: Severity = "warning" if rule.severity == "block" else "info"
        return Sign(rule.name, less, excerpt, f"{rule.why} ({excuse})")
    return Sign(rule.name, rule.severity, excerpt, rule.why, rule.group)


def _excuse(rule: Rule, texts: str, found: re.Match[str], topic: str) -> str:
    if _is_quoted(texts, found.start(), found.end()):
        return "quoted, by a tool that looks for such texts"
    if rule.own is not None and rule.own.search(topic):
        return "close to what this tool is for"
    return ""


def _is_quoted(texts: str, start: int, end: int) -> bool:
    """Whether the words at a place are what a tool looks for, not what it says itself."""
    before = texts[max(0, start - 200, texts.rfind(SEPARATOR, 0, start) + 1) : start]
    ends = [stop.end() for stop in _SENTENCE_END.finditer(before)]
    sentence = before[ends[-1] :] if ends else before
    if _SPEAKS_OF_ATTACKS.search(sentence):
        return True
    opened = len(_QUOTES.findall(sentence)) % 2 == 1 or texts[start] in "\"'“«"
    after = itertools.takewhile(lambda letter: letter != SEPARATOR, texts[end - 1 : end + 120])
    closed = _QUOTES.search("".join(after)) is not None
    return opened and closed and _SPEAKS_OF_ATTACKS.search(before) is not None
