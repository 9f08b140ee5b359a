"""Rows of labelled data: read, validated and checked; whatever is left out is said."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from toolcrib.encoders.lexical import split_identifier
from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery, UnanswerableScope
from toolcrib.indexers.readers.entries import entries
from toolcrib.indexers.readers.source import Source, build_spec
from toolcrib.records import Refusal, ToolSpec

__all__ = [
    "NOTED_ABOVE",
    "STRICTNESS",
    "FileRow",
    "Findings",
    "IntentRow",
    "LeakReport",
    "Located",
    "QueryRow",
    "checked",
    "intent_tool",
    "name_leak",
    "read_intents",
    "read_queries",
    "read_rows",
    "validated",
    "with_shots",
]

SPLIT_NAMES = {"val": "dev", "valid": "dev", "validation": "dev", "eval": "test"}
"""Other people's names for the three splits."""

Filled = Annotated[str, Field(min_length=1)]
_Grade = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Split = Annotated[Filled, BeforeValidator(lambda value: SPLIT_NAMES.get(value, value))]


class FileRow(BaseModel):
    """What every row has in common: null means "not given", unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if value is not None}


class QueryRow(FileRow):
    """A labelled query as it stands in a file.

    `relevant` maps tool ids to grades above 0. `answerable` follows from it unless given.
    """

    id: Filled
    text: str
    split: _Split = "test"
    relevant: dict[str, _Grade] = Field(default_factory=dict[str, float])
    answerable: bool | None = None
    unanswerable_scope: UnanswerableScope = ""
    forbidden: frozenset[str] = frozenset()
    candidates: tuple[str, ...] | None = None

    @field_validator("text")
    @classmethod
    def _says_something(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("empty")
        return text

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> QueryRow:
        if self.answerable is False and self.relevant:
            raise ValueError("answerable: false, although relevant names tools")
        if self.answerable and not self.relevant:
            raise ValueError("answerable: true, although relevant names no tool")
        if both := sorted(self.forbidden & self.relevant.keys()):
            raise ValueError(f"forbidden: {both[0]!r} is relevant as well")
        return self

    def as_query(self) -> LabelledQuery:
        """The row as the evaluator knows it."""
        return LabelledQuery(
            id=self.id,
            text=self.text,
            split=self.split,
            relevant=self.relevant,
            answerable=bool(self.relevant),
            unanswerable_scope=self.unanswerable_scope,
            forbidden=self.forbidden,
            candidates=self.candidates,
        )


class IntentRow(FileRow):
    """An intent as it stands in a file; its id is its name unless one is given."""

    id: str = ""
    name: Filled
    description: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """A query, and where it stands: `queries.jsonl: line 7`."""

    place: str
    query: LabelledQuery


RowT = TypeVar("RowT", bound=FileRow)
Placed: TypeAlias = tuple[str, RowT]
"""A row, after where in its file it stands."""


def validated(
    source: str, place: str, fields: Mapping[str, Any], kind: type[RowT]
) -> RowT | Refusal:
    """Validate one row, or say in one line which field is wrong and why."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        first = details[0]
        steps = [*map(str, first["loc"]), first["msg"].removeprefix("Value error, ")]
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        return Refusal(source, place, ": ".join(steps) + more)


def read_rows(path: Path, kind: type[RowT]) -> Iterator[Placed[RowT] | Refusal]:
    """Yield every row of JSON Lines or of a JSON list, gzip-compressed or not, and every refusal.

    Raises:
        SourceError: the file cannot be read (on).
    """
    for entry in entries(Source.named(str(path))):
        if isinstance(entry, Refusal):
            yield entry
            continue
        place, fields = entry
        row = validated(str(path), place, fields, kind)
        yield row if isinstance(row, Refusal) else (place, row)


def read_queries(path: Path) -> Iterator[Located | Refusal]:
    """Yield every query of a file and every refusal; raises SourceError as `read_rows` does."""
    for item in read_rows(path, QueryRow):
        if isinstance(item, Refusal):
            yield item
        else:
            place, row = item
            yield Located(f"{path.name}: {place}", row.as_query())


def read_intents(path: Path) -> Iterator[ToolSpec | Refusal]:
    """Yield every intent of a file as a tool; raises SourceError as `read_rows` does."""
    for item in read_rows(path, IntentRow):
        yield item if isinstance(item, Refusal) else intent_tool(str(path), item[0], item[1])


def intent_tool(source: str, place: str, intent: IntentRow) -> ToolSpec | Refusal:
    """An intent as a tool: the words of its name describe it when nothing else does."""
    fields = {
        "id": intent.id or intent.name,
        "name": intent.name,
        "description": intent.description or " ".join(split_identifier(intent.name)).lower(),
        "category": intent.domain,
    }
    return build_spec(source, place, fields)


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


NOTED_ABOVE = 0.01
"""Smaller shares cannot move a mean by more than a hundredth; they are not worth a note."""


@dataclass(frozen=True, slots=True)
class LeakReport:
    """Shares, in [0, 1], of the answerable queries that spell the name of a relevant tool.

    `literal`: the name as it stands, whatever its case, not inside a longer word. `as_words`:
    its words in a row, so that `get_stock_price` is found in "get stock price for ACME"; what
    is literal nearly always counts here as well.
    """

    literal: float
    as_words: float

    @property
    def note(self) -> str:
        """One line for a reader of results; empty when both shares are at most `NOTED_ABOVE`."""
        if max(self.literal, self.as_words) <= NOTED_ABOVE:
            return ""
        return (
            f"name leak: {self.literal:.1%} of the answerable queries spell a relevant tool's "
            f"name, {self.as_words:.1%} spell it as words"
        )


def name_leak(queries: Iterable[LabelledQuery], tools: Iterable[ToolSpec]) -> LeakReport:
    """Count the answerable queries that spell the name of a relevant tool.

    Labels that name none of `tools` are passed over; without answerable queries both are 0.
    """
    names = {tool.id: _Name.of(tool.name) for tool in tools}
    answerable = [query for query in queries if query.answerable]
    literal = as_words = 0
    for query in answerable:
        gold = [names[tool_id] for tool_id in query.relevant if tool_id in names]
        text, words = query.text.casefold(), _words(query.text)
        literal += any(name.is_in(text) for name in gold)
        as_words += any(name.words in words for name in gold)
    total = max(len(answerable), 1)
    return LeakReport(literal / total, as_words / total)


@dataclass(frozen=True, slots=True)
class _Name:
    """A tool's name, prepared for looking it up in many queries."""

    folded: str
    pattern: re.Pattern[str]
    words: str

    @classmethod
    def of(cls, name: str) -> _Name:
        folded = name.casefold()
        return cls(folded, re.compile(rf"(?<!\w){re.escape(folded)}(?!\w)"), _words(name))

    def is_in(self, text: str) -> bool:
        # The plain search comes first, as nearly every query ends there, at a tenth of the price.
        return self.folded in text and self.pattern.search(text) is not None


def _words(text: str) -> str:
    """The words with a space on either side of each, so that `in` finds whole words only."""
    return f" {' '.join(split_identifier(text))} ".casefold()


def with_shots(data: DataSet, shots: int, seed: int = 0) -> DataSet:
    """The data set with up to `shots` training queries as examples of each intent.

    Queries that became examples are queries no more. Only intents are taught, and only from
    queries of the split `train` that one intent answers.
    """
    if data.kind != "intents" or shots == 0:
        return data
    pools: defaultdict[str, list[str]] = defaultdict(list)
    for query in data.split("train"):
        if len(query.relevant) == 1:
            pools[next(iter(query.relevant))].append(query.text)
    rng = random.Random(seed)  # noqa: S311 -- a seeded choice, nothing secret
    chosen = {
        tool.id: tuple(rng.sample(pools[tool.id], min(shots, len(pools[tool.id]))))
        for tool in data.tools
    }
    taken = {text for texts in chosen.values() for text in texts}
    return replace(
        data,
        tools=tuple(
            tool.model_copy(update={"success_examples": tool.success_examples + chosen[tool.id]})
            for tool in data.tools
        ),
        queries=tuple(query for query in data.queries if query.text not in taken),
        notes=(*data.notes, f"up to {shots} training queries are examples of each intent"),
    )
