"""Allowlist: tables and columns that a decision may name, and the words for them in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, cast
from unicodedata import combining, normalize

import yaml
from pydantic import BeforeValidator, Field

from toolcrib.context.phrases import PhraseIndex
from toolcrib.errors import SourceError
from toolcrib.extras import import_extra
from toolcrib.records.codec import FrozenModel, read_yaml
from toolcrib.text import TextWords, singular

ALLOWLIST_FILE = Path(__file__).parent / "presets" / "allowlist.yaml"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTES = str.maketrans("", "", '`"[]')

MAX_STATEMENT_CHARS = 10_000
"""Longest statement: its check takes half a second, and grows with the square of the length."""

_AMBIGUOUS_SYNTAX = re.compile(r"""\\['"]|/\*|\{#|--(?!\s|$)""")
"""MySQL escapes a quote by a backslash, runs `/*! ... */`, and subtracts by `--1`. sqlglot passes
over `{# ... #}`, of which MySQL passes over the first line alone."""

_PURE_FUNCTION = re.compile(
    "age|curdate|date(?:_format|_part|add|name|part)|eomonth|every|from_unixtime|getdate|isnull"
    "|julianday|listagg|make_date|now|octet_length|printf|strftime|to_date|to_timestamp|total"
    "|unixepoch|weekday",
    re.IGNORECASE,
)
"""Functions that only compute and that sqlglot does not know; others may read other data."""


def fold(word: str) -> str:
    """Word without accents and plural ending, for comparison."""
    if word.isascii():
        return singular(word)
    bare = "".join(each for each in normalize("NFKD", word) if not combining(each))
    return singular(bare)


class AllowedTable(FrozenModel):
    """Table: its columns, a description, and other words for the table, in any language."""

    columns: tuple[str, ...] = ()
    description: str = ""
    aliases: tuple[str, ...] = ()


_Name = Annotated[str, BeforeValidator(str)]


def _of_columns(given: Any) -> Any:
    """Read a list as a table's columns."""
    columns: Any = given or ()
    return {"columns": columns} if isinstance(given, list | tuple | None) else given


class Allowlist(FrozenModel):
    """Allowed tables by name; decisions drop other tables."""

    tables: dict[_Name, Annotated[AllowedTable, BeforeValidator(_of_columns)]] = Field(
        default_factory=dict[str, AllowedTable]
    )

    @cached_property
    def _indexes(self) -> tuple[PhraseIndex, PhraseIndex]:
        return (
            PhraseIndex(self._table_phrases(), fold),
            PhraseIndex(((text, name) for name in self.columns for text in _phrases(name)), fold),
        )

    def _table_phrases(self) -> Iterator[tuple[str, str]]:
        for name, table in self.tables.items():
            noun = fold(name.casefold().rpartition("_")[2])
            for phrase in (*_phrases(name), *table.aliases, *nouns().get(noun, ())):
                yield phrase, name

    @cached_property
    def columns(self) -> frozenset[str]:
        """Columns of all tables."""
        return frozenset(each for table in self.tables.values() for each in table.columns)

    def named_in(self, words: TextWords) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tables and columns that a text names as whole words, in the order of the text."""
        tables, columns = self._indexes
        return (
            tuple(dict.fromkeys(label for m in tables.find(words) for label in m.labels)),
            tuple(dict.fromkeys(label for m in columns.find(words) for label in m.labels)),
        )

    def keep(
        self, tables: Iterable[str], columns: Iterable[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Allowed tables and columns, spelled as listed; a column may be `table.column`."""
        known = {name.casefold(): name for name in self.tables}
        own = {name.casefold(): name for name in self.columns}
        plain = [_without_quotes(each) for each in tables]
        found = (known.get(each) or _without_schema(each, known) for each in plain)
        found_columns = (own.get(_without_quotes(each).rpartition(".")[2]) for each in columns)
        return (
            tuple(dict.fromkeys(filter(None, found))),
            tuple(dict.fromkeys(filter(None, found_columns))),
        )

    def unlisted_names(self, tables: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
        """Tables and columns of a plan that are not on the list, spelled as given."""
        unlisted_tables = (each for each in tables if not self.keep((each,), ())[0])
        unlisted_columns = (each for each in columns if not self.keep((), (each,))[1])
        return (*unlisted_tables, *unlisted_columns)

    def statement_faults(self, statement: str) -> tuple[str, ...]:
        """Faults of an SQL statement; empty if the statement only reads listed columns.

        A column is listed for its own table alone; `*` stands for all columns of its table.

        Raises:
            MissingExtraError: sqlglot is not installed.
        """
        if len(statement) > MAX_STATEMENT_CHARS:
            return (f"the statement has more than {MAX_STATEMENT_CHARS:,} characters: shorten it",)
        if _AMBIGUOUS_SYNTAX.search(statement):
            return ("databases read `\\'`, `/*`, `{#` and `--1` differently: write none of them",)
        try:
            return self._tree_faults(statement)
        except RecursionError:
            return ("the statement is nested too deep",)

    def _tree_faults(self, statement: str) -> tuple[str, ...]:
        sql, scopes, qualified = (
            import_extra(name, "the check of a statement", "sql")
            for name in ("sqlglot", "sqlglot.optimizer.scope", "sqlglot.optimizer.qualify")
        )
        kinds = sql.exp
        try:
            trees = sql.parse(statement)
        except sql.errors.SqlglotError:
            return ("the statement is no SQL",)
        writing = (kinds.Insert, kinds.Update, kinds.Delete, kinds.Create, kinds.Into, kinds.Lock)
        # The qualification does not check columns in a lateral subquery.
        writing = (*writing, kinds.Lateral)
        is_query = len(trees) == 1 and isinstance(trees[0], kinds.Query)
        if not is_query or trees[0].find(*writing):
            return ("give one statement that only reads",)
        (tree,) = trees
        if faults := _reach_faults(tree, kinds):
            return faults
        sources = (each for scope in scopes.traverse_scope(tree) for each in scope.sources.values())
        found = (each for each in sources if isinstance(each, kinds.Table))
        tables = sorted({".".join(part.name for part in each.parts) for each in found})
        if unknown := self.unlisted_names(tables, ()):
            return tuple(f"the table {name!r} is not on the list" for name in unknown)
        schema: dict[str, dict[str, str]] = {}
        for name in self.keep(tables, ())[0]:
            # Of two tables of one name, in two schemas, the columns that both list.
            bare, own = name.rpartition(".")[2], self.tables[name].columns
            shared = [each for each in own if each in schema.get(bare, own)]
            schema[bare] = dict.fromkeys(shared or ("",), "TEXT")
        try:
            qualified.qualify(tree, schema=schema, expand_alias_refs=False)
            # The qualification leaves names in HAVING and QUALIFY that it does not know.
            left = (each for each in tree.find_all(kinds.Column) if not each.table)
            listed = all(
                each.name in each.find_ancestor(kinds.Query).named_selects for each in left
            )
        except sql.errors.SqlglotError:
            listed = False
        return () if listed else ("the statement names a column that its tables do not list",)

    def as_file(self) -> dict[str, Any]:
        """Content of an allowlist file; a list stands for a table of columns alone."""
        return {
            "tables": {
                name: table.model_dump(mode="json", exclude_defaults=True)
                if table.description or table.aliases
                else list(table.columns)
                for name, table in self.tables.items()
            }
        }

    def describe(self) -> str:
        """Describe the tables for a prompt, one a line."""
        return "\n".join(
            f"- {name}({', '.join(table.columns)})"
            + (f": {table.description}" if table.description else "")
            for name, table in self.tables.items()
        )


def _without_schema(given: str, listed: dict[str, str]) -> str | None:
    """Listed table of a name, where one of both leaves out the schema."""
    for low, name in listed.items():
        if f".{given}".endswith(f".{low}") or f".{low}".endswith(f".{given}"):
            return name
    return None


def _reach_faults(tree: Any, kinds: Any) -> tuple[str, ...]:
    """Faults of a statement that reaches beyond columns: by `*`, places or a function."""
    if any(not isinstance(each.parent, kinds.Count) for each in tree.find_all(kinds.Star)):
        return ("the statement reads all columns: name the columns",)
    if any(each.alias_column_names for each in tree.find_all(kinds.Table)):
        return ("the statement renames columns by their place: write their names",)
    called = {each.name for each in tree.find_all(kinds.Anonymous, kinds.Columns)}
    return tuple(
        f"the function {name!r} may read other data: leave it out"
        for name in sorted(called)
        if not _PURE_FUNCTION.fullmatch(name)
    )


def _phrases(name: str) -> Iterator[str]:
    """Phrases for an identifier: the identifier, and its words."""
    bare = name.rpartition(".")[2]
    yield bare
    words = _CAMEL.sub(" ", bare).replace("_", " ").strip()
    if words and words != bare:
        yield words


@cache
def nouns() -> dict[str, tuple[str, ...]]:
    """Portuguese and Spanish words by the usual English name of a business table."""
    file = ALLOWLIST_FILE.with_name("nouns.yaml")
    known = cast("dict[str, list[str]]", yaml.safe_load(file.read_text(encoding="utf-8")))
    return {fold(name): tuple(words) for name, words in known.items()}


def load_allowlist(file: str | Path = ALLOWLIST_FILE) -> Allowlist:
    """Read an allowlist from YAML or JSON.

    Raises:
        SettingsError: the file cannot be read, or is no allowlist.
    """
    return read_yaml(file, Allowlist, "the allowlist")


def reflect(url: str, schema: str | None = None) -> Allowlist:
    """Read the tables and views of a database, with their columns and comments.

    Raises:
        MissingExtraError: SQLAlchemy is not installed.
        SourceError: the database does not answer or has no tables, its driver is missing, or the
            URL is wrong.
    """
    alchemy = import_extra("sqlalchemy", "reading a database's schema", "sql")
    try:
        engine = alchemy.create_engine(url)
        try:
            found = _read_tables(alchemy.inspect(engine), schema)
        finally:
            engine.dispose()
    except ImportError as error:
        raise SourceError(
            "the database", "", f"needs its driver, the Python module {error.name!r}: install it"
        ) from None
    except alchemy.exc.SQLAlchemyError as error:
        # The error's text and cause may hold the URL with its password.
        raise SourceError(
            "the database",
            type(error).__name__,
            "its schema cannot be read: check the URL, and that it answers",
        ) from None
    if not found.tables:
        raise SourceError("the database", "", "has no tables: check the URL, and --schema")
    return found


def _read_tables(inspector: Any, schema: str | None) -> Allowlist:
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


def _without_quotes(name: str) -> str:
    """Name in lower case, without SQL's quotes around the name or its parts."""
    return name.casefold().translate(_QUOTES)
