"""Chunking: text becomes parts of a bounded size, cut where the author cut it.

Markdown is cut at its headings first: no part crosses one of the first three levels. What is
between two headings, and any other text, is cut by semantic-text-splitter between blocks, then
sentences, then words, so that parts are as large as the capacity lets them be.

Tokens are counted by weighing bytes, not by a tokenizer: over Markdown the weights cut like
BERT's word pieces (passages of at most 200 have 143 on average and 269 at most, where exact
counting has 130 and 200), seven times as fast; over plain text, fifty times.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_letters, digits, whitespace
from typing import Any, Literal, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

from toolcrib.extras import import_extra

TextKind: TypeAlias = Literal["markdown", "text", "pages"]
"""Kind of a text; each page of `pages` ends with a form feed."""

CUTTING_LEVEL = 3
"""Headings down to this level begin a new part; deeper ones only name what is below them."""

PAGE_LEVEL = CUTTING_LEVEL + 1
"""Level of a page's number as a heading: sentences go on on the next page."""

TABLE_LEVEL = 7
"""Level of the first row of a table as a heading: below all headings of Markdown."""

MAX_HEADING_CHARS = 300
"""A longer heading is a paragraph that happens to stand above a line of dashes."""

_FENCE = re.compile(r"\A\s*(?:`{3,}|~{3,})[^`\n]*(?:\n\s*)?\Z").match
"""A code block that is too large is cut into its lines, the one that opens it included."""

WINDOW_CHARS = 32_768
"""Characters for the splitter at once: its time grows with the square of a line's length."""

_TENTHS_BY_BYTE: dict[int, int] = {
    **dict.fromkeys(ascii_letters.encode(), 2),
    **dict.fromkeys(digits.encode(), 5),
    **dict.fromkeys(whitespace.encode(), 1),
    # What follows the first byte of a character beyond ASCII.
    **dict.fromkeys(range(0x80, 0xC0), 0),
}
_WEIGHTS = bytes(_TENTHS_BY_BYTE.get(byte, 10) for byte in range(256))
"""The tenths of a token that each byte stands for."""


def approximate_tokens(text: str) -> int:
    """Estimate the word pieces of a text: five letters are one, and so is any sign."""
    return -(-sum(text.encode().translate(_WEIGHTS)) // 10)


@dataclass(frozen=True, slots=True)
class Part:
    """A slice of a text: `source[start : start + len(text)] == text`.

    `title` holds the headings above it, outermost first, then the number of its page, or the
    first row of the table in which it begins.
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


@dataclass(frozen=True, slots=True)
class _Section:
    """Text below a heading that cuts, up to the next such heading."""

    head: _Heading
    deeper: Sequence[_Heading]
    end: int


def require_docs() -> Any:
    """Import the splitter, which the extra `docs` brings."""
    return import_extra("semantic_text_splitter", "reading documents", "docs")


def split(text: str, kind: TextKind, capacity: int, *, title: str = "") -> Iterator[Part]:
    r"""Yield the parts of a text in their order, each of at most `capacity` tokens.

    `text` has no line ends but `\n`. `title` is the document's own; the first heading of level
    1 takes its place. A heading of level 1 to 3 is in the title of what is below it and not in
    its text; so is the number of the page on which a part begins, or the first row of a table
    whose later rows it begins with. What has neither letters nor digits, or only headings, is
    left out. Form feeds of pages become line ends.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
        ValueError: `capacity` is less than 1.
    """
    if capacity < 1:
        raise ValueError(f"a part must hold at least one token, not {capacity}")
    library = require_docs()
    markdown = kind == "markdown"
    splitter = library.MarkdownSplitter if markdown else library.TextSplitter
    chunks = splitter.from_callback(approximate_tokens, capacity).chunk_indices
    path: list[_Heading] = []
    # As though the document began with its own title.
    headings = [_Heading(1, title, 0, 0), *_headings(text, kind)]
    text = text.replace("\f", "\n") if kind == "pages" else text
    for section in _sections(headings, len(text)):
        deeper = deque(section.deeper)
        path = _path_to(path, section.head)
        for start, end in _windows(text, section.head.end, section.end):
            for offset, chunk in chunks(text[start:end]):
                begin = start + offset
                while deeper and deeper[0].start < begin:
                    path = _path_to(path, deeper.popleft())
                if _has_words(chunk, begin, deeper) and not (markdown and _FENCE(chunk)):
                    yield Part(chunk, tuple(h.title for h in path if h.title), begin)


def _sections(headings: Sequence[_Heading], end: int) -> Iterator[_Section]:
    cuts = [i for i, heading in enumerate(headings) if heading.level <= CUTTING_LEVEL]
    for cut, following in zip(cuts, [*cuts[1:], len(headings)], strict=True):
        until = headings[following].start if following < len(headings) else end
        yield _Section(headings[cut], headings[cut + 1 : following], until)


def _path_to(path: Sequence[_Heading], heading: _Heading) -> list[_Heading]:
    """Give the headings that are above what follows `heading`, itself the last."""
    return [*(above for above in path if above.level < heading.level), heading]


def _windows(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of slices of at most `WINDOW_CHARS`, cut after a line or a space."""
    while end - start > WINDOW_CHARS:
        ends = (text.rfind(mark, start, start + WINDOW_CHARS) + 1 for mark in ("\n\n", "\n", " "))
        cut = next((after for after in ends if after > start), start + WINDOW_CHARS)
        yield start, cut
        start = cut
    yield start, end


def _has_words(chunk: str, begin: int, headings: Iterable[_Heading]) -> bool:
    """Tell whether a chunk has letters or digits outside its headings."""
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
    return _page_numbers(text) if kind == "pages" else []


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
        if opening.type == "heading_open" and len(content.content) <= MAX_HEADING_CHARS:
            title = _plain(parser.parseInline(content.content))
            found.append(_Heading(int(opening.tag[1:]), title, start, end))
        elif opening.type == "paragraph_open" and (row := _first_row(content.content)):
            # The row stays in the text, and names nothing behind the table.
            title = _plain(parser.parseInline(row))
            found.append(_Heading(TABLE_LEVEL, title, start, start))
            found.append(_Heading(TABLE_LEVEL, "", end - 1, end - 1))
    return found


def _first_row(paragraph: str) -> str:
    """Give the first row of a table, without its outer bars; nothing for any other paragraph."""
    row, _, rest = paragraph.partition("\n")
    rule = rest.partition("\n")[0]
    is_table = "|" in row and "-" in rule and not rule.strip("|:- \t")
    cells = " ".join(row.split()).strip("| ")
    return cells if is_table and len(cells) <= MAX_HEADING_CHARS else ""


def _page_numbers(text: str) -> list[_Heading]:
    """Give the number of each page as a heading that stands on the form feed before the page."""
    ends = [-1, *(found.start() for found in re.finditer("\f", text))]
    return [_Heading(PAGE_LEVEL, f"page {n}", end, end) for n, end in enumerate(ends, start=1)]


def _plain(tokens: Iterable[Token]) -> str:
    """Give the words of parsed inline Markdown in one line."""
    words: list[str] = []
    for token in tokens:
        if token.children:
            words.append(_plain(token.children))
        elif token.type in {"text", "code_inline", "text_special"}:
            words.append(token.content)
        elif token.type.endswith("break"):
            words.append(" ")
    return " ".join("".join(words).split())
