"""What is behind the gateway, in a few words: an agent does not search where it expects nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from toolcrib.encoders.lexical import split_identifier
from toolcrib.records import ToolSpec

__all__ = ["summary"]

MAX_SERVERS = 15
MAX_WORDS = 6

WORD = re.compile(r"[a-z]{3,16}")
"""Single plain words: they come from servers that nobody vouches for."""

PLAIN = re.compile(r"[^\w .-]+")

_VERBS = (
    "add all and are batch call can cancel check clear close convert copy count create "
    "current data delete describe disable download edit enable end execute export fetch file "
    "find for from generate get has help import info init insert into item items list load "
    "make manage many move multiple new not open parse patch ping post put query read remove "
    "rename reset resource result results retrieve return returns run save search send set "
    "show start status stop submit sync test that the this tool tools update upload use user "
    "using validate value view with write you your"
)
TOO_COMMON = frozenset(_VERBS.split())
"""What tools do is no news; what they do it to is."""


def summary(tools: Iterable[ToolSpec]) -> str:
    """The servers, how many tools each has, and what they are about; the same for the same tools.

    Of what servers say of themselves only single words come in.
    """
    ordered = sorted(tools, key=lambda tool: (tool.server, tool.id))
    groups = [(name, list(group)) for name, group in groupby(ordered, lambda tool: tool.server)]
    groups.sort(key=lambda group: (-len(group[1]), group[0]))
    shown = [_server(name, group) for name, group in groups[:MAX_SERVERS]]
    if len(groups) > MAX_SERVERS:
        shown.append(f"and {len(groups) - MAX_SERVERS} more servers")
    return "; ".join(shown)


def _server(name: str, tools: list[ToolSpec]) -> str:
    own = set(_words(name))
    counted = Counter(word for tool in tools for word in set(_topics(tool)) - own)
    told = Counter(word for tool in tools for word in set(_words(tool.description)))
    best = _best(sorted(counted, key=lambda word: (-counted[word], -told[word], word)))
    about = f": {', '.join(best)}" if best else ""
    many = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
    plain = " ".join(PLAIN.sub(" ", name).split())
    return f"{plain[:40]} ({many}{about})"


def _best(words: list[str]) -> list[str]:
    """The first few, each in one number only."""
    chosen: dict[str, str] = {}
    for word in words:
        chosen.setdefault(word.removesuffix("s"), word)
    return list(chosen.values())[:MAX_WORDS]


def _topics(tool: ToolSpec) -> Iterator[str]:
    """The words of a tool's name and category that say what it is about."""
    return (word for word in (*_words(tool.name), *_words(tool.category)) if word not in TOO_COMMON)


def _words(text: str) -> Iterator[str]:
    lowered = (word.lower() for word in split_identifier(text))
    return (word for word in lowered if WORD.fullmatch(word))
