"""What must hold before anything is measured; whatever does not is left out, and said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.leaks import name_leak
from toolcrib.evaluation.loaders.rows import Located
from toolcrib.records import Refusal, ToolSpec

__all__ = ["STRICTNESS", "Findings", "checked"]

STRICTNESS = ("train", "dev", "test")
"""Where a text stays that stands in several splits: in the last of these, others come first."""

SHOWN = 3
"""Examples of a kind in a note; the count says how many there are."""


@dataclass(slots=True)
class Findings:
    """What the checks found, gathered by kind."""

    _places: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, kind: str, place: str) -> None:
        """Remember that `kind` happened at `place`."""
        self._places.setdefault(kind, []).append(place)

    def notes(self) -> tuple[str, ...]:
        """One line a kind: how often, and the first `SHOWN` places."""
        return tuple(
            f"{kind}: {len(places):,} ({'; '.join(places[:SHOWN])}{'; …' * (len(places) > SHOWN)})"
            for kind, places in self._places.items()
        )


def checked(
    name: str,
    tools: Iterable[ToolSpec | Refusal],
    queries: Iterable[Located | Refusal],
    kind: Literal["tools", "intents"] = "tools",
) -> DataSet:
    """Put a data set together from what the checks let through; `notes` say what they did not.

    Left out are: refusals, ids that are taken (the first stays), tools that are switched off,
    labels that name no tool with the queries that then have none left, and every text that
    stands in a stricter split as well.

    Raises:
        SourceError: no tool or no query is left; it says why the first one was left out.
    """
    findings = Findings()
    kept = _Tools(name, findings).keep(tools)
    known = {tool.id for tool in kept}
    located = _Queries(name, findings, known).keep(queries)
    good = tuple(_without_repeats(located, findings))
    leak = name_leak(good, kept).note
    return DataSet(name, kept, good, kind, findings.notes() + ((leak,) if leak else ()))


@dataclass(slots=True)
class _Tools:
    """The checks of single tools."""

    name: str
    findings: Findings

    def keep(self, tools: Iterable[ToolSpec | Refusal]) -> tuple[ToolSpec, ...]:
        """Those that can be found, first come first served."""
        kept: dict[str, ToolSpec] = {}
        refused: list[Refusal] = []
        for tool in tools:
            if isinstance(tool, Refusal):
                refused.append(tool)
                self.findings.add("tools left out", _shown(tool))
            elif tool.id in kept:
                self.findings.add("tools left out, their id is taken", repr(tool.id))
            elif not tool.enabled:
                # No system may return it; one that does not know the switch would seem worse.
                self.findings.add("tools left out, they are switched off", repr(tool.id))
            else:
                kept[tool.id] = tool
        if not kept:
            raise _nothing_left(self.name, "tools", refused, self.findings)
        return tuple(kept.values())


@dataclass(slots=True)
class _Queries:
    """The checks of single queries against the ids of all tools."""

    name: str
    findings: Findings
    known: set[str]

    def keep(self, queries: Iterable[Located | Refusal]) -> list[Located]:
        """Those that can be judged, their labels reduced to tools that exist."""
        kept: dict[str, Located] = {}
        refused: list[Refusal] = []
        for item in queries:
            if isinstance(item, Refusal):
                refused.append(item)
                self.findings.add("queries left out", _shown(item))
            elif item.query.id in kept:
                place = f"{item.place}: id: {item.query.id!r}"
                self.findings.add("queries left out, their id is taken", place)
            elif query := self._known_labels(item):
                kept[query.id] = Located(item.place, query)
        if not kept:
            raise _nothing_left(self.name, "queries", refused, self.findings)
        return list(kept.values())

    def _known_labels(self, item: Located) -> LabelledQuery | None:
        query, labels = item.query, _labels(item.query)
        if self.known.issuperset(label for ids in labels.values() for label in ids):
            return query
        for named, ids in labels.items():
            for unknown in [label for label in ids if label not in self.known]:
                place = f"{item.place}: {named}: {unknown!r}"
                self.findings.add("labels left out, no tool has such an id", place)
        query = replace(
            query,
            relevant={i: grade for i, grade in query.relevant.items() if i in self.known},
            forbidden=query.forbidden & self.known,
            candidates=query.candidates and tuple(i for i in query.candidates if i in self.known),
        )
        if any(ids and not left for ids, left in _before_and_after(item.query, query)):
            self.findings.add("queries left out, none of their tools exists", item.place)
            return None
        return query


def _labels(query: LabelledQuery) -> Mapping[str, Iterable[str]]:
    return {
        "relevant": query.relevant,
        "forbidden": sorted(query.forbidden),
        "candidates": query.candidates or (),
    }


def _before_and_after(before: LabelledQuery, after: LabelledQuery) -> list[tuple[bool, bool]]:
    """Of the labels that a query cannot lose: whether there were any, and whether there are."""
    return [
        (bool(before.relevant), bool(after.relevant)),
        (bool(before.candidates), bool(after.candidates)),
    ]


def _without_repeats(located: list[Located], findings: Findings) -> Iterable[LabelledQuery]:
    """Yield the queries whose text stands in no stricter split, whatever its case and spaces."""
    home: dict[str, str] = {}
    texts = [" ".join(item.query.text.casefold().split()) for item in located]
    for text, item in zip(texts, located, strict=True):
        split = item.query.split
        if _strictness(split) > _strictness(home.setdefault(text, split)):
            home[text] = split
    for text, item in zip(texts, located, strict=True):
        if home[text] == item.query.split:
            yield item.query
        else:
            place = f"{item.place}: {item.query.split} and {home[text]}"
            findings.add("queries left out, their text stands in another split", place)


def _strictness(split: str) -> int:
    return STRICTNESS.index(split) if split in STRICTNESS else -1


def _shown(refusal: Refusal) -> str:
    """A refusal in one line, the file without the folders that only its owner has."""
    parts = (Path(refusal.source).name, refusal.place, refusal.reason)
    return ": ".join(part for part in parts if part)


def _nothing_left(name: str, what: str, refused: list[Refusal], findings: Findings) -> SourceError:
    if refused:
        first = refused[0]
        return SourceError(first.source, first.place, f"holds no {what} to use; {first.reason}")
    return SourceError(name, "", "; ".join((f"holds no {what} to use", *findings.notes())))
