"""Text that stands in a description and is never shown: comments, and elements that are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Unseen", "unseen"]

COMMENT_OPENS, COMMENT_CLOSES = "<!--", "-->"
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
    r"|rgba\([^)]*,\s*0\s*\))|(?:^|\s)hidden(?=\s|=|/|$)|height\s*:\s*0(?:px)?\s*[;\"']|\bsize\s*=\s*[\"']?0\b",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W\d_]{2,}")
ENOUGH_WORDS = 4
"""So many make a sentence; a lone constant or label is nobody's order."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Text that a page would not show; `kind` names how it is kept from sight."""

    kind: str
    text: str
    start: int


def unseen(text: str) -> Iterator[Unseen]:
    """What a text holds that a reader of the rendered page would not see."""
    yield from _comments(text)
    if "]:" in text:
        for comment in _LINK_COMMENT.finditer(text):
            yield from _if_words("comment", comment[1], comment.start())
    if "</" in text:
        for element in _ELEMENT.finditer(text):
            if _HIDES.search(element["attributes"]) and not _is_code(text, element.start()):
                yield from _if_words("element", element["inside"], element.start())


def _comments(text: str) -> Iterator[Unseen]:
    start = text.find(COMMENT_OPENS)
    while start >= 0:
        end = text.find(COMMENT_CLOSES, start)
        end = len(text) if end < 0 else end
        yield from _if_words("comment", text[start + len(COMMENT_OPENS) : end], start)
        start = text.find(COMMENT_OPENS, end)


def _if_words(kind: str, text: str, start: int) -> Iterator[Unseen]:
    if len(_WORDS.findall(text)) >= ENOUGH_WORDS:
        yield Unseen(kind, text.strip(), start)


def _is_code(text: str, start: int) -> bool:
    """Whether a place stands within code: between back-ticks, or behind an open fence."""
    before = text[:start]
    line = before[before.rfind("\n") + 1 :]
    return line.count("`") % 2 == 1 or before.count("```") % 2 == 1
