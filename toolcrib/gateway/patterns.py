"""Regular expressions that a server wrote, used only where they surely end soon."""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf, prod

__all__ = ["matches_pattern"]

MAX_STEPS = 2_000_000
"""A few hundredths of a second's work."""

MAX_PATTERN_CHARS = 1_000

ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An escaped character or a class: one step, whatever stands in it."""

REFERENCE = re.compile(r"\\[1-9]")
UNBOUNDED_IN_TIME = re.compile(r"\)[*+?{]|\(\?(?:[=!<(]|P=)")
"""A repeated group, a look around, a condition, a reference back: their work multiplies."""

REPEAT = re.compile(r"[*+?]\??|\{(\d*)(,?)(\d*)\}\??")


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text; True where that cannot be told in short time.

    The engine holds the whole process while it works, and a few characters are enough to keep
    it busy for years.
    """
    if _steps(pattern, len(text)) > MAX_STEPS:
        return True
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        # Other dialects of regular expressions are the server's own business.
        return None


def _steps(pattern: str, length: int) -> float:
    """How many steps a search may take at most: every choice multiplies those of the others."""
    if len(pattern) > MAX_PATTERN_CHARS or REFERENCE.search(pattern):
        return inf
    bare = ATOM.sub("a", pattern)
    if UNBOUNDED_IN_TIME.search(bare):
        return inf
    size = length + 1
    repeats = prod(_choices(found, size) for found in REPEAT.finditer(bare))
    groups, branches = bare.count("(") + 1, bare.count("|")
    return size * repeats * (1 + branches / groups) ** groups


def _choices(found: re.Match[str], size: int) -> int:
    """In how many ways a repeat can be carried out."""
    repeat, least, comma, most = found[0], found[1], found[2], found[3]
    if repeat[0] == "?":
        return 2
    if repeat[0] in "*+" or (comma and not most):
        return size
    return 1 if not comma else min(size, int(most or 0) - int(least or 0) + 1)
