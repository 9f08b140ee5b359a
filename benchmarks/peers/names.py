"""Names of tools as words, and unique ones for libraries that know a tool by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count

from toolcrib.records import ToolSpec

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINT = re.compile(r"[_\-./:]+")


def spaced(identifier: str) -> str:
    """An identifier as words: `getUser_by-id` becomes `get User by id`."""
    return _HUMP.sub(" ", _JOINT.sub(" ", identifier)).strip()


def unique_names(tools: Sequence[ToolSpec]) -> list[str]:
    """A name a tool, each once, for libraries that know a tool by its name.

    A name that several servers have is prefixed with its server, `github_search`, as FastMCP
    does when it mounts servers; the id stands in where that is taken too.
    """
    counts = Counter(spec.name for spec in tools)
    taken = {name for name, times in counts.items() if times == 1}
    names: list[str] = []
    for spec in tools:
        name = spec.name
        if counts[name] > 1:
            mounted = [f"{spec.server}_{name}"] if spec.server else []
            wishes = chain(mounted, [spec.id], (f"{spec.id}_{n}" for n in count(2)))
            name = next(wish for wish in wishes if wish not in taken)
            taken.add(name)
        names.append(name)
    return names
