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
    r"[*=<>`]|\w\(\s*+[\w*]|\b\w++\.\w++|\b(?:SELECT|FROM|INSERT|UPDATE|DELETE|DROP|ALTER)\b"
)
_PROSE_ITEM = re.compile(r"\s*+(?:distinct\s++)?+(?!case\b)\w++\s++(?!as\b)[\w(]", re.IGNORECASE)
"""An item of a select list in several words: `two cities`, `the best`."""

_SUBQUERY = re.compile(r"\(\s*+select\b", re.IGNORECASE)
_SELECT_GOES_ON = r"""\s++(?:(?:as\s++)?\w++\s++)?(?:
      where | limit\s++\d | having | union | intersect | except | (?:group | order)\s++by
    | (?:(?:inner | left | right | full | cross | natural)\s++(?:outer\s++)?+)?+join
    )\b"""
_GOES_ON = {
    verb: re.compile(shape, re.IGNORECASE | re.VERBOSE)
    for verb, shape in {
        "select": _SELECT_GOES_ON,
        "insert": r"\s*+(?:\(|(?:values|select|default|using)\b)",
        "replace": r"\s*+(?:\(|(?:values|select|default)\b)",
        "merge": r"\s++(?:(?:as\s++)?\w++\s++)?using\b",
        "update": "",
        "delete": r"\s++(?:\w++\s++)?(?:where|using|returning)\b",
        "create": r"\s*+(?:\(|(?:as|like)\b)",
        "alter": r"\s++(?:add|drop|rename|modify|alter|set|change|owner)\b",
        "drop": r"\s++(?:cascade|restrict)\b",
        "truncate": r"\s++(?:cascade|restart)\b",
    }.items()
}
"""How a statement goes on behind the name of its table, where a sentence would not."""

_ENDS = re.compile(r"[^\S\n]*+(?:\n|$|[;)`]|[.?!]\s*+$)")
_MAY_END = frozenset({"select", "delete", "drop", "truncate"})
"""What is whole with the name of a table; the others say more."""
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
        place = next(f"table{n}" for n in ("", "2", "3", "4", "5") if found[f"table{n}"])
        ended = _BLANK.search(head, found.end())
        end = ended.start() if ended else len(head)
        if not _is_statement(head[:end], found, kind, place):
            continue
        names = _parsed(head[found.start() : end])
        table = found[place].rstrip(".")
        tables, columns = names or ((table,), ())
        return SqlStatement(kind, found.start(), end, tables or (table,), columns)
    return None


def _is_statement(text: str, found: re.Match[str], kind: str, place: str) -> bool:
    """Whether what looks like a statement, up to the end of the text, is no sentence."""
    table, tail = found[place].rstrip("."), text[found.end(place) :].lstrip('`"]')
    verb = (found[0].split(None, 1)[0] if kind == "ddl" else found[kind]).casefold()
    if table.casefold() in PROSE or (kind == "select" and _is_prose(text, found)):
        return False
    if _GOES_ON[verb].match(tail):
        return True
    marked = _MARKS.search(text[found.start() : found.start(place)] + tail) is not None
    if verb not in _MAY_END or not (_ENDS.match(tail) or (marked and kind == "select")):
        return False
    return marked or (_begins(text, found.start()) and not _is_titled(found[0], table))


def _begins(text: str, at: int) -> bool:
    """Whether a line begins there, or what a colon or a code mark announces."""
    before = text[:at].rstrip(" \t")
    return not before or before[-1] in "\n:`"


def _is_prose(text: str, found: re.Match[str]) -> bool:
    """Whether the items of a select list are words of a sentence."""
    items = text[found.end("select") : found.start("table")].rsplit(None, 1)[0]
    if _SUBQUERY.search(items):
        return False
    return any(map(_PROSE_ITEM.match, items.split(","))) or items.strip().casefold() in PROSE - {
        "a"
    }


def _is_titled(statement: str, table: str) -> bool:
    """Whether capitals are those of a sentence: `Select songs`, `from Rome`."""
    verb = statement.split(None, 1)[0]
    return verb.istitle() or (table.istitle() and verb.islower())


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
