"""SQL in a text: whether there is a statement, of which kind, and what it names."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["find_sql"]

LOOKED_AT = 8_000
PARSED = 4_000
"""Characters of a statement that are parsed: a longer one is known by its shape alone."""

_NAME = r'[`"\[]?(?P<table>[A-Za-z_][\w.$]*+)'
_SHAPE = re.compile(
    rf"""\b(?:
      (?:with\s++\w++\s++as\s*+\([^;]{{1,400}}?)?(?P<select>select)\s[^;]{{1,400}}?\sfrom\s++{_NAME}
    | (?P<insert>insert|replace|merge)\s++into\s++{_NAME.replace("table", "table2")}
    | (?P<update>update)\s++{_NAME.replace("table", "table3")}[`"\]]?\s++set\s++[\w.`"]++\s*+=
    | (?P<delete>delete)\s++from\s++{_NAME.replace("table", "table4")}
    | (?P<ddl>create|alter|drop|truncate)\s++(?:table|view)\s++
      (?:if\s++(?:not\s++)?+exists\s++)?+{_NAME.replace("table", "table5")}
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKS = re.compile(
    r"[*=<>`;]|\(\s*+\w|\b\w++\.\w++|\b(?:SELECT|INSERT|UPDATE|DELETE|DROP|ALTER)\b"
)
_BLANK = re.compile(r"\n[^\S\n]*+\n|;|```")

_PROSE = (
    "a all an and any each every for her his in it its last latest me my next of one ones our that "
    "the their them these this those to us what which with your"
)
PROSE = frozenset(_PROSE.split())
"""`Select one from the list` is a sentence: no table has such a name."""

KINDS = ("select", "insert", "update", "delete", "ddl")


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """The first statement of a text: its kind, span, and names, as far as they can be told.

    `kind` is `select`, `insert`, `update`, `delete` or `ddl`. Characters `start` to `end`, as
    Python slices.
    """

    kind: str
    start: int
    end: int
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def find_sql(text: str) -> SqlStatement | None:
    """The first statement of a text; None where there is none, or only a sentence like one.

    With the extra `sql` all tables and columns are told, else the first table.
    """
    head = text[:LOOKED_AT]
    for found in _SHAPE.finditer(head):
        kind = next(name for name in KINDS if found[name])
        table = next(
            name for name in (found[f"table{n}"] for n in ("", "2", "3", "4", "5")) if name
        )
        if table.casefold() in PROSE:
            continue
        ended = _BLANK.search(head, found.end())
        end = ended.start() if ended else len(head)
        names = _parsed(head[found.start() : end])
        begins = (
            not head[: found.start()].rstrip(" \t") or head[: found.start()].rstrip()[-1] in ":`"
        )
        if not _MARKS.search(head[found.start() : end]) and not (
            begins and (names or kind == "ddl")
        ):
            continue
        tables, columns = names or ((table,), ())
        return SqlStatement(kind, found.start(), end, tables or (table,), columns)
    return None


def _parsed(statement: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The names of tables and columns; None where it cannot be parsed, or nothing can parse it."""
    sqlglot = _sqlglot()
    if sqlglot is None or len(statement) > PARSED:
        return None
    # A parser that meets what it was not made for also raises errors that are not its own.
    with suppress(Exception):
        tree = sqlglot.parse_one(statement)
        expressions = sqlglot.exp
        if tree is None or isinstance(tree, expressions.Command):
            return None
        ctes = {each.alias_or_name for each in tree.find_all(expressions.CTE)}
        tables = [each.name for each in tree.find_all(expressions.Table)]
        columns = [each.name for each in tree.find_all(expressions.Column)]
        if any(name.casefold() in PROSE for name in tables):
            return None
        kept = dict.fromkeys(name for name in tables if name and name not in ctes)
        return tuple(kept), tuple(dict.fromkeys(filter(None, columns)))
    return None


@cache
def _sqlglot() -> Any:
    try:
        found = import_module("sqlglot")
    except ImportError:
        return None
    # It warns of statements that it does not know, and those are what users wrote.
    logging.getLogger("sqlglot").addFilter(lambda record: record.levelno > logging.WARNING)
    return found
