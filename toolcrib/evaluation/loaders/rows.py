"""One row of a file of queries or intents: validated, or refused with its line and field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

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
from toolcrib.evaluation.dataset import LabelledQuery, UnanswerableScope
from toolcrib.indexers.readers.base import entries
from toolcrib.indexers.readers.base import Source, build_spec
from toolcrib.records import Refusal, ToolSpec

__all__ = [
    "IntentRow",
    "Located",
    "QueryRow",
    "Row",
    "intent_tool",
    "read_intents",
    "read_queries",
    "read_rows",
    "validated",
]

SPLIT_NAMES = {"val": "dev", "valid": "dev", "validation": "dev", "eval": "test"}
"""Other people's names for the three splits."""

Text = Annotated[str, Field(min_length=1)]
Grade = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Split = Annotated[Text, BeforeValidator(lambda value: SPLIT_NAMES.get(value, value))]


class Row(BaseModel):
    """What every row has in common: null means "not given", unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if value is not None}


class QueryRow(Row):
    """A labelled query as it stands in a file.

    `relevant` maps tool ids to grades above 0. `answerable` follows from it unless given.
    """

    id: Text
    text: str
    split: Split = "test"
    relevant: dict[str, Grade] = Field(default_factory=dict[str, float])
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


class IntentRow(Row):
    """An intent as it stands in a file; its id is its name unless one is given."""

    id: str = ""
    name: Text
    description: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """A query, and where it stands: `queries.jsonl: line 7`."""

    place: str
    query: LabelledQuery


RowT = TypeVar("RowT", bound=Row)
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
