"""What the baselines share: their version, their answer, and the tools as text."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from itertools import chain, count
from typing import Any, cast

from toolcrib.extras import require_extra
from toolcrib.evaluation.systems.protocol import Answer, Ranked
from toolcrib.records import ToolSpec

__all__ = [
    "Baseline",
    "documents",
    "parameters",
    "spaced",
    "unique_names",
]

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINT = re.compile(r"[_\-./:]+")


class Baseline(ABC):
    """A library as a `System`: it ranks, and what was not asked for is left out here.

    The scores and the order are the library's own. `package` is what pip installs, `modules`
    what is imported of it.

    Raises:
        MissingExtraError: one of the modules is not installed.
    """

    name: str
    package: str
    modules: tuple[str, ...]

    def __init__(self) -> None:
        for module in self.modules:
            require_extra(module, f"the baseline {self.name!r}", "peers")
        self._size = 0

    @property
    def version(self) -> str:
        """The library and its version, `bm25s 0.3.16`."""
        return f"{self.package} {metadata.version(self.package)}"

    def index(self, tools: Sequence[ToolSpec]) -> None:
        """Take in the tools; called once."""
        self._size = len(tools)
        if tools:
            self._build(tools)

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        """The best `k` tools or fewer; with `among`, the whole ranking without all others.

        A blank query finds nothing: some libraries fail on it, and others list anything.
        """
        if not self._size or k < 1 or not query.strip():
            return Answer(())
        if among is None:
            found = self._rank(query, min(k, self._size))
        else:
            wanted = frozenset(among)
            found = (pair for pair in self._rank(query, self._size) if pair[0] in wanted)
        return Answer(tuple(Ranked(tool_id, float(score)) for tool_id, score in found)[:k])

    def close(self) -> None:
        """Free what `index` took."""
        self._size = 0

    @abstractmethod
    def _build(self, tools: Sequence[ToolSpec]) -> None:
        """Index at least one tool."""

    @abstractmethod
    def _rank(self, query: str, depth: int) -> Iterable[tuple[str, float]]:
        """The best `depth` tools or fewer, best first; `depth` is at most the number of tools."""


def parameters(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    """Name and description of each parameter, whatever else the schema holds."""
    properties = spec.input_schema.get("properties")
    if not isinstance(properties, dict):
        return
    for name, inner in cast("dict[str, Any]", properties).items():
        said = cast("dict[str, Any]", inner).get("description") if isinstance(inner, dict) else ""
        yield name, said if isinstance(said, str) else ""


def documents(tools: Iterable[ToolSpec]) -> list[str]:
    """A text a tool: name, description, parameters and what is said of them, examples."""
    return [
        " ".join(
            [
                spec.name,
                spec.description,
                *(part for pair in parameters(spec) for part in pair if part),
                *spec.success_examples,
            ],
        )
        for spec in tools
    ]


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
