"""Data sets: tools and labelled queries, and the rows of their files."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from toolcrib.errors import SettingsError, SourceError
from toolcrib.indexers.readers.base import Source, build_spec, entries
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import in_words
from toolcrib.text import split_identifier

UnanswerableScope = Literal["", "corpus", "candidates", "no_tool_needed"]
"""Reason why no tool answers: none in the corpus fits, none of the query's candidates fits (another
tool may), or the request needs no tool."""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """Query, and the grade (> 0) of every tool that answers it.

    `forbidden` tools count against a system that returns them. `candidates`: tools that the query
    was written for; they limit the search only if none of them fits.
    """

    id: str
    text: str
    split: str = "test"
    relevant: Mapping[str, float] = field(default_factory=dict[str, float])
    answerable: bool = True
    unanswerable_scope: UnanswerableScope = ""
    forbidden: frozenset[str] = frozenset()
    candidates: tuple[str, ...] | None = None

    @property
    def among(self) -> tuple[str, ...] | None:
        """Only tools that may be returned; None for all.

        A query without a fit among its candidates may have one elsewhere in the corpus. All other
        queries search the whole corpus, as is usual for retrieval.
        """
        return self.candidates if self.unanswerable_scope == "candidates" else None


@dataclass(frozen=True, slots=True)
class DataSet:
    """Tools and labelled queries; `notes`: findings of the checks."""

    name: str
    tools: tuple[ToolSpec, ...]
    queries: tuple[LabelledQuery, ...]
    kind: Literal["tools", "intents"] = "tools"
    notes: tuple[str, ...] = ()

    def split(self, *names: str) -> tuple[LabelledQuery, ...]:
        """Queries of these splits, in order; of all splits if none is named."""
        return tuple(query for query in self.queries if not names or query.split in names)

    def require_splits(self, *names: str) -> None:
        """Check that each of these splits has queries.

        Raises:
            SettingsError: one has none; the error names the splits that have.
        """
        known = {query.split for query in self.queries}
        for name in names:
            if name not in known:
                there = ", ".join(sorted(known)) or "none at all"
                raise SettingsError(
                    f"data set {self.name!r} has no queries in the split {name!r}; "
                    f"its splits are: {there}; name one with --split"
                )


def labels_digest(queries: Iterable[LabelledQuery]) -> str:
    """Digest of queries, in any order, and of their right tools."""
    labels = sorted((query.text, sorted(query.relevant)) for query in queries)
    return hashlib.blake2b(json.dumps(labels).encode(), digest_size=16).hexdigest()


SPLIT_NAMES = {"val": "dev", "valid": "dev", "validation": "dev", "eval": "test"}
"""Common names of the three splits."""

NonEmpty = Annotated[str, Field(min_length=1)]
_Grade = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
"""Grade of a label; trec_eval computes with 32-bit integers, a thousand for each unit."""
Split = Annotated[NonEmpty, AfterValidator(lambda value: SPLIT_NAMES.get(value, value))]
"""Split of a row, by the name that toolcrib has for it."""

MAX_NAMED_ROWS = 20
"""Wrong rows of a file that an error names; the error counts all."""


class FileRow(BaseModel):
    """Base of all rows: null means "not given", unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if value is not None}


class QueryRow(FileRow):
    """Labelled query in a file.

    `relevant` maps tool ids to grades above 0. `answerable` follows from `relevant` unless given.
    """

    id: NonEmpty
    text: str
    split: Split = "test"
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
        """Labelled query of the row."""
        fields: dict[str, Any] = {**dict(self), "answerable": bool(self.relevant)}
        return LabelledQuery(**fields)


class IntentRow(FileRow):
    """Intent in a file; its id is its name unless one is given."""

    id: str = ""
    name: NonEmpty
    description: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class LocatedQuery:
    """Query and its place: `queries.jsonl: line 7`."""

    place: str
    query: LabelledQuery


_Item = TypeVar("_Item")
RowT = TypeVar("RowT", bound=FileRow)
PlacedRow: TypeAlias = tuple[str, RowT]
"""Row, after its place in the file."""


def validate_row(
    source: str, place: str, fields: Mapping[str, Any], kind: type[RowT]
) -> RowT | Refusal:
    """Validate one row, or give the wrong field and the reason in one line."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return Refusal(source, place, in_words(error, "") + more)


def locate_query(
    source: str, place: str, fields: Mapping[str, Any], shown: str
) -> LocatedQuery | Refusal:
    """Query of a row with the place `shown: place`, or the reason why it is invalid."""
    row = validate_row(source, place, fields, QueryRow)
    return row if isinstance(row, Refusal) else LocatedQuery(f"{shown}: {place}", row.as_query())


def read_rows(path: Path, kind: type[RowT]) -> Iterator[PlacedRow[RowT] | Refusal]:
    """Yield every row and every refusal of JSON Lines or a JSON list, possibly gzip-compressed.

    Raises:
        SourceError: the file cannot be read (further).
    """
    for entry in entries(Source.by_name(str(path))):
        if isinstance(entry, Refusal):
            yield entry
            continue
        place, fields = entry
        row = validate_row(str(path), place, fields, kind)
        yield row if isinstance(row, Refusal) else (place, row)


def read_all(path: Path, kind: type[RowT]) -> list[RowT]:
    """Read rows by `read_rows`; wrong rows are errors.

    Raises:
        SourceError: the file cannot be read (further), or rows are wrong; the message names the
            rows.
    """
    return [row for _, row in without_refusals(path, read_rows(path, kind))]


def without_refusals(path: Path, items: Iterable[_Item | Refusal]) -> list[_Item]:
    """All items of a file, if none of them is a refusal.

    Raises:
        SourceError: some are refusals; the message names the first `MAX_NAMED_ROWS`.
    """
    found = list(items)
    wrong = [item for item in found if isinstance(item, Refusal)]
    if len(wrong) == 1:
        raise SourceError(wrong[0].source, wrong[0].place, wrong[0].reason)
    if wrong:
        named = "; ".join(f"{item.place}: {item.reason}" for item in wrong[:MAX_NAMED_ROWS])
        more = f"; and {len(wrong) - MAX_NAMED_ROWS} more" * (len(wrong) > MAX_NAMED_ROWS)
        raise SourceError(str(path), "", f"{len(wrong)} rows are wrong: {named}{more}")
    return [item for item in found if not isinstance(item, Refusal)]


def read_queries(path: Path) -> Iterator[LocatedQuery | Refusal]:
    """Yield every query and every refusal of a file; raises SourceError like `read_rows`."""
    for entry in entries(Source.by_name(str(path))):
        yield entry if isinstance(entry, Refusal) else locate_query(str(path), *entry, path.name)


def read_intents(path: Path) -> Iterator[ToolSpec | Refusal]:
    """Yield every intent of a file as a tool; raises SourceError like `read_rows`."""
    for item in read_rows(path, IntentRow):
        yield item if isinstance(item, Refusal) else intent_tool(str(path), item[0], item[1])


def intent_tool(source: str, place: str, intent: IntentRow) -> ToolSpec | Refusal:
    """Intent as a tool; without a description, the words of its name are the description."""
    fields = {
        "id": intent.id or intent.name,
        "name": intent.name,
        "description": intent.description or " ".join(split_identifier(intent.name)).lower(),
        "category": intent.domain,
    }
    return build_spec(source, place, fields)


STRICTNESS = ("train", "dev", "test")
"""Splits by increasing strictness; a text of several splits stays in the strictest one."""

MAX_NOTE_PLACES = 3
"""Places of each kind in a note; the count covers all."""

Findings: TypeAlias = dict[str, list[str]]
"""Places of each kind of finding."""


def checked_data_set(
    name: str,
    tools: Iterable[ToolSpec | Refusal],
    queries: Iterable[LocatedQuery | Refusal],
    kind: Literal["tools", "intents"] = "tools",
) -> DataSet:
    """Build a data set from all valid parts; `notes` list the omitted ones.

    Omitted are: refusals, duplicate ids (the first stays), disabled tools, labels without a tool
    and queries without any label then, and texts that also occur in a stricter split.

    Raises:
        SourceError: no tool or no query is left; the message gives the first reason.
    """
    findings: Findings = defaultdict(list)
    kept = _checked_tools(name, list(tools), findings)
    located = _checked_queries(name, list(queries), {tool.id for tool in kept}, findings)
    findings["queries of a split that is none of train, dev and test"] += (
        f"{item.place}: {item.query.split!r}"
        for item in located
        if strictness(item.query.split) < 0
    )
    examples = {tool.id: set(map(_plain, tool.success_examples)) for tool in kept}
    findings["queries whose text is an example of a right tool: figures are too good"] += (
        item.place
        for item in located
        if item.query.split != "train"
        and any(_plain(item.query.text) in examples[i] for i in item.query.relevant)
    )
    good = tuple(_without_repeats(located, findings))
    literal, as_words = name_leak(good, kept)
    notes = _notes(findings)
    if not any(query.answerable for query in good):
        notes = (*notes, "no query has `relevant`, so all count as unanswerable")
    if max(literal, as_words) > MIN_NOTED_SHARE:
        leak = (
            f"name leak: {literal:.1%} of the answerable queries of all splits spell a relevant "
            f"tool's name, {as_words:.1%} spell it as words"
        )
        notes = (*notes, leak)
    return DataSet(name, kept, good, kind, notes)


def strictness(split: str) -> int:
    """Position of a split in `STRICTNESS`; -1 for any other."""
    return STRICTNESS.index(split) if split in STRICTNESS else -1


def _notes(findings: Findings) -> tuple[str, ...]:
    """One line for each kind: its count, and the first `MAX_NOTE_PLACES` places."""
    return tuple(
        f"{kind}: {len(places):,} ({'; '.join(places[:MAX_NOTE_PLACES])}"
        f"{'; …' * (len(places) > MAX_NOTE_PLACES)})"
        for kind, places in findings.items()
        if places
    )


def _checked_tools(
    name: str, tools: Sequence[ToolSpec | Refusal], findings: Findings
) -> tuple[ToolSpec, ...]:
    """Enabled tools; the first one of each id."""
    kept: dict[str, ToolSpec] = {}
    for tool in tools:
        if isinstance(tool, Refusal):
            findings["tools left out"].append(_refusal_line(tool))
        elif tool.id in kept:
            findings["tools left out, their id is taken"].append(repr(tool.id))
        elif not tool.enabled:
            # No system may return disabled tools; one that ignores the flag would seem worse.
            findings["tools left out, they are switched off"].append(repr(tool.id))
        else:
            kept[tool.id] = tool
    if not tools:
        raise SourceError(name, "", "there are no tools for these queries; index some first")
    if not kept:
        raise _nothing_left(name, "tools", tools, findings)
    return tuple(kept.values())


def _checked_queries(
    name: str, queries: Sequence[LocatedQuery | Refusal], known: set[str], findings: Findings
) -> list[LocatedQuery]:
    """Queries with a judgement, their labels reduced to existing tools."""
    kept: dict[str, LocatedQuery] = {}
    for item in queries:
        if isinstance(item, Refusal):
            findings["queries left out"].append(_refusal_line(item))
        elif item.query.id in kept:
            place = f"{item.place}: id: {item.query.id!r}"
            findings["queries left out, their id is taken"].append(place)
        elif query := _known_labels(item, known, findings):
            kept[query.id] = LocatedQuery(item.place, query)
    if not kept:
        raise _nothing_left(name, "queries", queries, findings)
    return list(kept.values())


def _known_labels(item: LocatedQuery, known: set[str], findings: Findings) -> LabelledQuery | None:
    before = item.query
    labels: dict[str, Iterable[str]] = {
        "relevant": before.relevant,
        "forbidden": sorted(before.forbidden),
        "candidates": before.candidates or (),
    }
    unknown = [(named, i) for named, ids in labels.items() for i in ids if i not in known]
    if not unknown:
        return before
    findings["labels left out, no tool has such an id"] += (
        f"{item.place}: {named}: {label!r}" for named, label in unknown
    )
    query = replace(
        before,
        relevant={i: grade for i, grade in before.relevant.items() if i in known},
        forbidden=before.forbidden & known,
        candidates=before.candidates and tuple(i for i in before.candidates if i in known),
    )
    if (before.relevant and not query.relevant) or (before.candidates and not query.candidates):
        findings["queries left out, none of their tools exists"].append(item.place)
        return None
    return query


def _without_repeats(located: list[LocatedQuery], findings: Findings) -> Iterable[LabelledQuery]:
    """Queries whose text occurs in no stricter split, ignoring case and spaces."""
    texts = [_plain(item.query.text) for item in located]
    home: dict[str, str] = {}
    seen = set[str]()
    for text, item in zip(texts, located, strict=True):
        home[text] = max(home.get(text, item.query.split), item.query.split, key=strictness)
    for text, item in zip(texts, located, strict=True):
        if home[text] == item.query.split:
            if text in seen and item.query.split != "train":
                repeated = findings["queries with the text of another: intervals are too narrow"]
                repeated.append(item.place)
            seen.add(text)
            yield item.query
        else:
            place = f"{item.place}: {item.query.split} and {home[text]}"
            findings["queries left out, their text stands in another split"].append(place)


def _plain(text: str) -> str:
    """Text without case and spacing."""
    return " ".join(text.casefold().split())


def _refusal_line(refusal: Refusal) -> str:
    """Refusal in one line, with the file's name but not its folders."""
    return ": ".join(filter(None, (Path(refusal.source).name, refusal.place, refusal.reason)))


def _nothing_left(name: str, what: str, items: Sequence[object], findings: Findings) -> SourceError:
    if first := next((item for item in items if isinstance(item, Refusal)), None):
        return SourceError(first.source, first.place, f"holds no {what} to use; {first.reason}")
    return SourceError(name, "", "; ".join((f"holds no {what} to use", *_notes(findings))))


MIN_NOTED_SHARE = 0.01
"""Minimum share in a note: smaller ones change a mean by at most a hundredth."""


def name_leak(queries: Iterable[LabelledQuery], tools: Sequence[ToolSpec]) -> tuple[float, float]:
    """Shares of the answerable queries that spell the name of a relevant tool.

    First as written, in any case, not inside a longer word. Then as its words in a row, so that
    `get_stock_price` is found in "get stock price for ACME"; this includes nearly all of the first
    share. Labels without a tool in `tools` are ignored; without answerable queries both are 0.
    """
    names = {tool.id: tool.name.casefold() for tool in tools}
    in_words = {tool.id: _words(tool.name) for tool in tools}
    answerable = [query for query in queries if query.answerable]
    literal = as_words = 0
    for query in answerable:
        gold = [tool_id for tool_id in query.relevant if tool_id in names]
        text, words = query.text.casefold(), _words(query.text)
        # The plain search comes first: it decides nearly every query, at a tenth of the cost.
        named = [names[tool_id] for tool_id in gold if names[tool_id] in text]
        literal += any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in named)
        as_words += any(in_words[tool_id] in words for tool_id in gold)
    total = max(len(answerable), 1)
    return literal / total, as_words / total


def _words(text: str) -> str:
    """Words with a space on either side of each, so that `in` finds whole words only."""
    return f" {' '.join(split_identifier(text))} ".casefold()


def with_shots(data: DataSet, shots: int, seed: int = 0) -> DataSet:
    """Data set with up to `shots` training queries as examples of each intent.

    Only queries of the split `train` with one right intent become examples, and are then removed
    from the queries.
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
