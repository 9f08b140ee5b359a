"""Probes: facts of a turn that need no model: files, SQL, stack traces, code."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any

from toolcrib.records import Attachment, Turn
from toolcrib.records.turns import MAX_ATTACHMENTS
from toolcrib.text import LETTERS

MAX_PROBED_CHARS = 8_000
"""Characters of a text that are searched for SQL, stack traces and code."""

_TRACE = re.compile(
    r"^Traceback \(most recent call last\)|^[^\S\n]+at [\w.$<>]+\(|^panic: |\bCaused by: ",
    re.MULTILINE,
)
_FENCE = re.compile(r"^```", re.MULTILINE)


def text_signals(turn: Turn) -> tuple[str, ...]:
    """Short signals, each once: `attachment:csv`, `sql`, `stack-trace`, `code-block`."""
    return tuple(dict.fromkeys(_signals(turn)))


def _signals(turn: Turn) -> Iterator[str]:
    text = turn.text[:MAX_PROBED_CHARS]
    for each in turn.attachments[:MAX_ATTACHMENTS]:
        kind = file_suffix(each) or each.mime.rpartition("/")[2].casefold()
        yield f"attachment:{kind[:20] or 'unknown'}"
    if turn.unreadable:
        yield f"attachments-unreadable:{turn.unreadable}"
    if find_sql(text) is not None:
        yield "sql"
    for signal, shape in (("stack-trace", _TRACE), ("code-block", _FENCE)):
        if shape.search(text):
            yield signal


# -- files -------------------------------------------------------------------------------------

MAX_FILE_NAME_CHARS = 120
"""Characters of a file's name or MIME type that are read."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """Kind of an attachment: the words that tools use for it, and its fact for rules.

    `marks`: suffixes of file names, and words of MIME types.
    """

    words: str
    fact: str
    marks: frozenset[str]


FILE_KINDS = tuple(
    FileKind(words, fact, frozenset(marks.split()))
    for words, fact, marks in (
        ("PDF document", "attachment_document", "pdf"),
        ("CSV table", "attachment_table", "csv tsv"),
        ("Parquet table", "attachment_table", "parquet"),
        ("spreadsheet", "attachment_table", "xlsx xls ods spreadsheet spreadsheetml excel"),
        ("presentation", "", "pptx ppt odp presentation presentationml powerpoint"),
        ("Word document", "attachment_document", "docx doc odt rtf wordprocessingml msword"),
        ("Word document", "attachment_document", "opendocument"),
        ("image", "attachment_image", "png jpg jpeg heic webp gif tif tiff svg bmp image"),
        ("audio recording", "", "mp3 wav m4a ogg flac audio"),
        ("video recording", "", "mp4 mov mkv webm avi video"),
        ("text document", "attachment_document", "txt md markdown html"),
        ("e-mail message", "attachment_document", "eml msg"),
    )
)
"""The first matching kind counts; MIME types of other kinds also contain `opendocument`."""


def _file_name(attachment: Attachment) -> str:
    """Last part of an attachment's path, of any operating system."""
    return PurePosixPath(attachment.name.replace("\\", "/")).name


def file_words(attachment: Attachment) -> str:
    """Words in an attachment's file name, letters alone."""
    return " ".join(LETTERS.findall(_file_name(attachment)[:MAX_FILE_NAME_CHARS]))


def file_suffix(attachment: Attachment) -> str:
    """Suffix of an attachment's name in lower case, without the dot; empty if none."""
    return PurePosixPath(_file_name(attachment)).suffix.lstrip(".").casefold()


def file_kind(attachment: Attachment) -> FileKind | None:
    """Kind of an attachment by its suffix, else by its MIME type; None if both are unknown."""
    mime = attachment.mime[:MAX_FILE_NAME_CHARS].casefold()
    marks = {file_suffix(attachment)}, {*LETTERS.findall(mime)}
    return next((kind for own in marks for kind in FILE_KINDS if kind.marks & own), None)


# -- SQL ---------------------------------------------------------------------------------------

MAX_PARSED_CHARS = 4_000
"""Length up to which a statement is parsed; longer statements are matched by shape alone."""

_SHAPE = re.compile(
    r"""\b(?:
      (?:with\s++\w++\s++as\s*+\([^;]{1,400}?)?(?P<select>select)\s[^;]{1,400}?\sfrom
    | (?P<insert>insert|replace|merge)\s++into
    | (?P<update>update)
    | (?P<delete>delete)\s++from
    | (?P<ddl>create|alter|drop|truncate)\s++(?:table|view)(?:\s++if\s++(?:not\s++)?+exists)?+
    )\s++[`"\[]?(?P<table>[A-Za-z_][\w.$]*+)(?(update)[`"\]]?\s++set\s++[\w.`"]++\s*+=)""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKS = re.compile(
    r"[*=<>`]|\w\(\s*+[\w*]|\b\w++\.\w++|\b(?:SELECT|FROM|INSERT|UPDATE|DELETE|DROP|ALTER)\b"
)
_PROSE_ITEM = re.compile(r"\A\s*+(?:distinct\s++)?+(?!case\b)\w++\s++(?!as\b)[\w(]", re.IGNORECASE)
"""Item of a select list in several words: `two cities`, `the best`."""

_SUBQUERY = re.compile(r"\(\s*+select\b", re.IGNORECASE)
_SELECT_GOES_ON = r"""\s++(?:(?:as\s++)?\w++\s++)?(?:
      where | limit\s++\d | having | union | intersect | except | (?:group | order)\s++by
    | (?:(?:inner | left | right | full | cross | natural)\s++(?:outer\s++)?+)?+join
    )\b"""
_GOES_ON = {
    verb: re.compile(rf"\A{shape}", re.IGNORECASE | re.VERBOSE)
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
"""Words of a statement behind its table's name, which no sentence has there."""

_ENDS = re.compile(r"\A[^\S\n]*+(?:\n|$|[;)`]|[.?!]\s*+$)")
_MAY_END = frozenset({"select", "delete", "drop", "truncate"})
"""Verbs of statements that may end with the name of a table."""
_BLANK = re.compile(r"\n[^\S\n]*+\n|;|```")

_PROSE = (
    "a all an and any each every for her his in it its last latest me my next of one ones our that "
    "the their them these this those to us what which with your"
)
NO_TABLE_NAMES = frozenset(_PROSE.split())
"""Words that name no table: `select one from the list` is a sentence."""

STATEMENT_KINDS = ("select", "insert", "update", "delete", "ddl")


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """First statement of a text: its kind, its span, and the names in it as far as known.

    `kind` is `select`, `insert`, `update`, `delete` or `ddl`. `start` and `end` are character
    offsets, as in a Python slice.
    """

    kind: str
    start: int
    end: int
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def find_sql(text: str) -> SqlStatement | None:
    """First SQL statement of a text; None for a sentence that only resembles one.

    With the extra `sql` all tables and columns are read, otherwise the first table.
    """
    head = text[:MAX_PROBED_CHARS]
    for found in _SHAPE.finditer(head):
        kind = next(name for name in STATEMENT_KINDS if found[name])
        ended = _BLANK.search(head, found.end())
        end = ended.start() if ended else len(head)
        if not _is_statement(head[:end], found, kind):
            continue
        names = _parse_names(head[found.start() : end])
        table = found["table"].rstrip(".")
        tables, columns = names or ((table,), ())
        return SqlStatement(kind, found.start(), end, tables or (table,), columns)
    return None


def _is_statement(text: str, found: re.Match[str], kind: str) -> bool:
    """True if a match of `_SHAPE` is a statement, not a sentence; `text` ends with it."""
    table, tail = found["table"].rstrip("."), text[found.end("table") :].lstrip('`"]')
    verb = (found[0].split(None, 1)[0] if kind == "ddl" else found[kind]).casefold()
    if table.casefold() in NO_TABLE_NAMES or (kind == "select" and _is_prose(text, found)):
        return False
    if _GOES_ON[verb].match(tail):
        return True
    marked = _MARKS.search(text[found.start() : found.start("table")] + tail) is not None
    if verb not in _MAY_END or not (_ENDS.match(tail) or (marked and kind == "select")):
        return False
    return marked or (_begins(text, found.start()) and not _is_titled(found[0], table))


def _begins(text: str, at: int) -> bool:
    """True at the start of a line, or behind a colon or a code mark."""
    before = text[:at].rstrip(" \t")
    return not before or before[-1] in "\n:`"


def _is_prose(text: str, found: re.Match[str]) -> bool:
    """True if the items of a select list are words of a sentence."""
    items = text[found.end("select") : found.start("table")].rsplit(None, 1)[0]
    if _SUBQUERY.search(items):
        return False
    return any(
        map(_PROSE_ITEM.match, items.split(","))
    ) or items.strip().casefold() in NO_TABLE_NAMES - {"a"}


def _is_titled(statement: str, table: str) -> bool:
    """True if the capitals are those of a sentence: `Select songs`, `from Rome`."""
    verb = statement.split(None, 1)[0]
    return verb.istitle() or (table.istitle() and verb.islower())


def _parse_names(statement: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Names of tables and columns; None without a parser, or if parsing fails."""
    sqlglot = _sqlglot()
    if sqlglot is None or len(statement) > MAX_PARSED_CHARS:
        return None
    # The parser raises undocumented errors for unknown dialects.
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
    # The parser's warnings would log statements that users wrote.
    logging.getLogger("sqlglot").addFilter(lambda record: record.levelno > logging.WARNING)
    return found
