"""Chunking: splits text into parts of bounded size, at the author's own boundaries.

Markdown is first split at headings: no part crosses a heading of the first three levels. Sections
and other texts are split by semantic-text-splitter between blocks, then sentences, then words, so
that parts are as large as the capacity allows (`DocumentSettings.max_tokens` of `settings.py`).

Tokens are estimated from bytes, without a tokenizer. With a capacity of 200 on Markdown, parts have
143 of BERT's word pieces on average and 269 at most (with exact counts: 130 and 200), seven times
as fast; on plain text fifty times.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from string import ascii_letters, digits, whitespace
from typing import Any, Literal, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

from toolcrib.extras import import_extra

TextKind: TypeAlias = Literal["markdown", "text", "pages"]
"""Kind of a text; each page of `pages` ends with a form feed."""


CUTTING_LEVEL = 3
"""Headings down to this level start a new part; deeper headings only go into titles."""

PAGE_LEVEL = CUTTING_LEVEL + 1
"""Level of a page's number as a heading: no cut, as sentences continue on the next page."""

TABLE_LEVEL = 7
"""Level of the first row of a table as a heading: below all headings of Markdown."""

MAX_HEADING_CHARS = 300
"""A longer heading is really a paragraph above a line of dashes."""

_FENCE = re.compile(r"\A\s*(?:`{3,}|~{3,})[^`\n]*(?:\n\s*)?\Z").match
"""Opening line of a code block; a block that is too large is cut into lines, this one too."""

_LEAD_IN = re.compile(
    r"\n[ \t]*\n(?=(?:[^\n]{0,299}[:?：？][*_]*|\*\*[^\n]{1,300}\*\*|\#{4,6}[ ][^\n]+)\Z)"
)
"""Blank line before a last line that announces what follows: a question, a caption, a heading."""

_ATTRIBUTES = re.compile(r"(?<=\S)(?:\s+#+)?\s*\{:?\s*[#.][^{}]*\}\s*\Z")
"""Id and classes behind a heading, as Docusaurus, Hugo, Kramdown and MkDocs write them."""

WINDOW_CHARS = 32_768
"""Characters given to the splitter at once, whose time is quadratic in a line's length."""

_TENTHS_BY_BYTE: dict[int, int] = {
    **dict.fromkeys(ascii_letters.encode(), 2),
    **dict.fromkeys(digits.encode(), 5),
    **dict.fromkeys(whitespace.encode(), 1),
    # Later bytes of a character beyond ASCII.
    **dict.fromkeys(range(0x80, 0xC0), 0),
}
_WEIGHTS = bytes(_TENTHS_BY_BYTE.get(byte, 10) for byte in range(256))
"""Tenths of a token for each byte."""


def approximate_tokens(text: str) -> int:
    """Estimate the word pieces of a text: one for five letters, and one for each mark."""
    return -(-sum(text.encode().translate(_WEIGHTS)) // 10)


@dataclass(frozen=True, slots=True)
class Part:
    """A slice of a text: `source[start : start + len(text)] == text`.

    `title` has the headings above the part, outermost first, then the number of its page, or the
    first row of the table in which it starts.
    """

    text: str
    title: tuple[str, ...]
    start: int


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    start: int
    end: int


DOCUMENTS_EXTRA = "reading documents", "docs"
"""Feature, and the extra that it needs."""


def require_docs(module: str = "semantic_text_splitter") -> Any:
    """Import a module of the extra `docs`, by default the splitter."""
    return import_extra(module, *DOCUMENTS_EXTRA)


def split(text: str, kind: TextKind, capacity: int, *, title: str = "") -> Iterator[Part]:
    r"""Yield the parts of a text in their order, each of at most `capacity` tokens.

    `text` has only `\n` as line ends. `title` is the document's own; the first heading of level 1
    replaces it. Headings of level 1 to 3 are in the titles of the parts below them, not in the
    texts; so is the number of the page on which a part starts, and the first row of a table that
    a part continues. A deeper heading with which a part starts is in both. Parts without letters
    and digits, or with only headings, are left out. Form feeds of pages become line ends.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
    """
    library = require_docs()
    markdown = kind == "markdown"
    splitter = library.MarkdownSplitter if markdown else library.TextSplitter
    chunks = splitter.from_callback(approximate_tokens, capacity).chunk_indices
    path: list[_Heading] = []
    # The document's title is treated as a heading at its start.
    headings = [_Heading(1, title, 0, 0), *_headings(text, kind)]
    text = text.replace("\f", "\n") if kind == "pages" else text
    for head, below, section_end in _sections(headings, len(text)):
        deeper = deque(below)
        path = _path_to(path, head)
        for start, end in _windows(text, head.end, section_end):
            for begin, chunk in _chunks(chunks, text, start, end):
                while deeper and deeper[0].start < begin:
                    path = _path_to(path, deeper.popleft())
                is_text = _has_words(chunk, begin, deeper) and not (markdown and _FENCE(chunk))
                if deeper and deeper[0].start == begin:
                    path = _path_to(path, deeper.popleft())
                if is_text:
                    # Exports repeat a page's title as its first heading.
                    titles = tuple(title for title, _ in groupby(h.title for h in path if h.title))
                    yield Part(chunk, titles, begin)


def _sections(
    headings: Sequence[_Heading], end: int
) -> Iterator[tuple[_Heading, Sequence[_Heading], int]]:
    """Yield each cutting heading, the deeper headings below it, and the end of its text."""
    cuts = [i for i, heading in enumerate(headings) if heading.level <= CUTTING_LEVEL]
    for cut, following in pairwise([*cuts, len(headings)]):
        until = headings[following].start if following < len(headings) else end
        yield headings[cut], headings[cut + 1 : following], until


def _path_to(path: Sequence[_Heading], heading: _Heading) -> list[_Heading]:
    """Headings above the text below `heading`, which is the last of them."""
    return [*(above for above in path if above.level < heading.level), heading]


def _windows(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of slices of at most `WINDOW_CHARS`, cut after a line or a space."""
    while end - start > WINDOW_CHARS:
        ends = (text.rfind(mark, start, start + WINDOW_CHARS) + 1 for mark in ("\n\n", "\n", " "))
        cut = next((after for after in ends if after > start), start + WINDOW_CHARS)
        yield start, cut
        start = cut
    yield start, end


def _chunks(
    splitter: Callable[[str], list[tuple[int, str]]], text: str, start: int, end: int
) -> Iterator[tuple[int, str]]:
    """Yield start and text of each chunk of a slice; none ends with a lead-in to the next.

    A lead-in stays where it is if nothing of what it announces fits beside it.
    """
    rest = deque(splitter(text[start:end]))
    while rest:
        offset, chunk = rest.popleft()
        begin = start + offset
        if rest and (lead_in := _LEAD_IN.search(chunk)):
            cut = begin + lead_in.end()
            after = splitter(text[cut:end])
            if len(after[0][1]) > len(chunk) - lead_in.end():
                chunk, start, rest = chunk[: lead_in.start()], cut, deque(after)
        yield begin, chunk


def _has_words(chunk: str, begin: int, headings: Iterable[_Heading]) -> bool:
    """True if a chunk has letters or digits outside its headings."""
    kept, last = "", 0
    for heading in headings:
        if heading.start >= begin + len(chunk):
            break
        kept += chunk[last : max(0, heading.start - begin)]
        last = heading.end - begin
    return any(character.isalnum() for character in kept + chunk[last:])


def _headings(text: str, kind: TextKind) -> list[_Heading]:
    if kind == "markdown":
        return _markdown_headings(text)
    # A page's number is a heading at the form feed before the page.
    ends = [-1, *(found.start() for found in re.finditer("\f", text))] if kind == "pages" else []
    return [_Heading(PAGE_LEVEL, f"page {n}", end, end) for n, end in enumerate(ends, start=1)]


def _markdown_headings(text: str) -> list[_Heading]:
    parser = MarkdownIt("commonmark")
    lines = [0, *(found.end() for found in re.finditer("\n", text)), len(text)]
    # The texts of paragraphs are not needed, and parsing them takes three quarters of the time.
    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    found: list[_Heading] = []
    for opening, content in pairwise(tokens):
        if opening.level or not opening.map:
            continue
        start, end = (lines[line] for line in opening.map)
        is_short = len(content.content) <= MAX_HEADING_CHARS
        if opening.type == "heading_open" and (is_short or opening.markup.startswith("#")):
            title = _plain_text(parser.parseInline(_ATTRIBUTES.sub("", content.content)))
            title = title[:MAX_HEADING_CHARS]
            found.append(_Heading(int(opening.tag[1:]), title, start, end))
        elif opening.type == "paragraph_open" and (row := _first_row(content.content)):
            # The row stays in the text, and is no title of the text after the table.
            title = _plain_text(parser.parseInline(row))
            found.append(_Heading(TABLE_LEVEL, title, start + 1, start + 1))
            found.append(_Heading(TABLE_LEVEL, "", end - 1, end - 1))
    return found


def _first_row(paragraph: str) -> str:
    """First row of a table, without its outer bars; empty for any other paragraph."""
    row, _, rest = paragraph.partition("\n")
    rule = rest.partition("\n")[0]
    is_table = "|" in row and "-" in rule and not rule.strip("|:- \t")
    cells = " ".join(row.split()).strip("| ")
    return cells if is_table and len(cells) <= MAX_HEADING_CHARS else ""


def _plain_text(tokens: Iterable[Token]) -> str:
    """Plain text of parsed inline Markdown in one line."""
    words: list[str] = []
    for token in tokens:
        if token.children:
            words.append(_plain_text(token.children))
        elif token.type in {"text", "code_inline", "text_special"}:
            words.append(token.content)
        elif token.type.endswith("break"):
            words.append(" ")
    return " ".join("".join(words).split())
