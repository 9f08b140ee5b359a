"""Allowlist: the tables and columns that a decision may name, and how texts name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast
from unicodedata import combining, normalize

import yaml
from pydantic import BaseModel, ConfigDict, field_validator

from toolcrib.errors import SourceError
from toolcrib.extras import import_extra
from toolcrib.records.codec import read_yaml
from toolcrib.router.context.phrases import PhraseIndex
from toolcrib.text import TextWords, singular

__all__ = ["EMBEDDED", "Allowlist", "fold", "load_allowlist", "reflect"]

EMBEDDED = Path(__file__).parent / "presets" / "allowlist.yaml"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTES = str.maketrans("", "", '`"[]')


def fold(word: str) -> str:
    """A word as it is compared: without accents and the ending of a plural."""
    if word.isascii():
        return singular(word)
    bare = "".join(each for each in normalize("NFKD", word) if not combining(each))
    return singular(bare)


class AllowedTable(BaseModel):
    """One table: its columns, what it holds, and other words for it, in any language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: tuple[str, ...] = ()
    description: str = ""
    aliases: tuple[str, ...] = ()


class Allowlist(BaseModel):
    """Tables by name; what is none of these is dropped from decisions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tables: dict[str, AllowedTable] = {}

    @field_validator("tables", mode="before")
    @classmethod
    def _columns_alone(cls, given: Any) -> Any:
        """A list stands for a table of these columns."""
        if not isinstance(given, Mapping):
            return given
        tables = cast("Mapping[Any, Any]", given)
        made: dict[str, Any] = {
            str(name): told if isinstance(told, Mapping | AllowedTable) else {"columns": told or ()}
            for name, told in tables.items()
        }
        return made

    @cached_property
    def _indexes(self) -> tuple[PhraseIndex, PhraseIndex]:
        return (
            PhraseIndex(self._named(), fold),
            PhraseIndex(
                ((said, column) for column in self.columns for said in _spoken(column)), fold
            ),
        )

    def _named(self) -> Iterator[tuple[str, str]]:
        for name, table in self.tables.items():
            yield from ((said, name) for said in _spoken(name))
            yield from ((alias, name) for alias in table.aliases)
            yield from (
                (said, name) for said in nouns().get(fold(name.casefold().rpartition("_")[2]), ())
            )

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns of all tables."""
        return frozenset(each for table in self.tables.values() for each in table.columns)

    def named_in(self, words: TextWords) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tables and the columns that a text names, as whole words, in its order."""
        tables, columns = self._indexes
        return (
            tuple(dict.fromkeys(label for m in tables.find(words) for label in m.labels)),
            tuple(dict.fromkeys(label for m in columns.find(words) for label in m.labels)),
        )

    def kept(
        self, tables: Iterable[str], columns: Iterable[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What of these is allowed, written as the list has it; a column may be `table.column`."""
        known = {name.casefold(): name for name in self.tables}
        known |= {name.casefold().rpartition(".")[2]: name for name in self.tables}
        own = {name.casefold(): name for name in self.columns}
        found = (_named(known, _plain(each)) for each in tables)
        said = (own.get(_plain(each).rpartition(".")[2]) for each in columns)
        return (
            tuple(dict.fromkeys(each for each in found if each)),
            tuple(dict.fromkeys(each for each in said if each)),
        )

    def as_file(self) -> dict[str, Any]:
        """What a file of it holds: a list of columns where nothing else is said of a table."""
        return {
            "tables": {
                name: table.model_dump(mode="json", exclude_defaults=True)
                if table.description or table.aliases
                else list(table.columns)
                for name, table in self.tables.items()
            }
        }

    def described(self) -> str:
        """The list for a prompt: a line a table."""
        return "\n".join(
            f"- {name}({', '.join(table.columns)})"
            + (f": {table.description}" if table.description else "")
            for name, table in self.tables.items()
        )


def _spoken(name: str) -> Iterator[str]:
    """How an identifier may be said: as it is, and in words."""
    bare = name.rpartition(".")[2]
    yield bare
    words = _CAMEL.sub(" ", bare).replace("_", " ").strip()
    if words and words != bare:
        yield words


@cache
def nouns() -> dict[str, tuple[str, ...]]:
    """Words of Portuguese and Spanish for what business tables are mostly called in English."""
    file = EMBEDDED.with_name("nouns.yaml")
    told = cast("dict[str, list[str]]", yaml.safe_load(file.read_text(encoding="utf-8")))
    return {fold(name): tuple(words) for name, words in told.items()}


def load_allowlist(file: str | Path = EMBEDDED) -> Allowlist:
    """Read an allowlist from YAML or JSON.

    Raises:
        SettingsError: the file cannot be read, or is none.
    """
    return read_yaml(file, Allowlist, "the allowlist")


def reflect(url: str, schema: str | None = None) -> Allowlist:
    """The tables and views of a database, with their columns and comments.

    Raises:
        MissingExtraError: SQLAlchemy is not installed.
        SourceError: the database does not answer, its driver is missing, or the URL is none.
    """
    alchemy = import_extra("sqlalchemy", "reading a database's schema", "sql")
    try:
        engine = alchemy.create_engine(url)
        try:
            return _reflected(alchemy.inspect(engine), schema)
        finally:
            engine.dispose()
    except (alchemy.exc.SQLAlchemyError, ImportError) as error:
        # Neither its text nor its cause: they may hold the URL with its password.
        raise SourceError(
            "the database",
            type(error).__name__,
            "its schema cannot be read: check the URL, its driver's package, and that it answers",
        ) from None


def _reflected(inspector: Any, schema: str | None) -> Allowlist:
    names = [*inspector.get_table_names(schema), *inspector.get_view_names(schema)]
    return Allowlist(
        tables={
            name: AllowedTable(
                columns=tuple(each["name"] for each in inspector.get_columns(name, schema)),
                description=_comment(inspector, name, schema),
            )
            for name in names
        }
    )


def _comment(inspector: Any, name: str, schema: str | None) -> str:
    try:
        return (inspector.get_table_comment(name, schema).get("text") or "").strip()
    except NotImplementedError:  # SQLite keeps none
        return ""


def _plain(name: str) -> str:
    """A name without the quotes that SQL puts around it or around its parts."""
    return name.casefold().translate(_QUOTES)


def _named(known: Mapping[str, str], name: str) -> str | None:
    """A table as the list has it, with or without its schema in front."""
    return known.get(name) or known.get(name.rpartition(".")[2])
