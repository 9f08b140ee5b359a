"""Loading: converts the bytes of a document to text or Markdown, by the kind that its name states.

Conversions take a whole document. They raise ValueError with the reason if a document cannot be
read, and MissingExtraError without the extra `docs`. docutils reports unknown directives and roles
as errors and drops their text; Sphinx and its extensions have hundreds. Here every name is known:
an unknown directive becomes its arguments and body, an unknown role its text.
"""

from __future__ import annotations

import codecs
import csv
import re
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import PurePosixPath
from threading import Lock
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree as ET

from pydantic_core import from_json

from toolcrib.documents.chunking import CUTTING_LEVEL, TextKind, require_docs
from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.extras import quiet_loggers
from toolcrib.indexers.readers.base import is_list, is_object
from toolcrib.parsing import parse_front_matter, parse_toml
from toolcrib.records.codec import list_of

Kind: TypeAlias = Literal[
    "markdown", "rst", "html", "text", "pdf", "docx", "notebook", "table", "source"
]

_SUFFIXES: dict[Kind, str] = {
    "markdown": ".md .markdown .mdx",
    "rst": ".rst",
    "html": ".html .htm .xhtml",
    "text": ".txt .text .log .adoc",
    "pdf": ".pdf",
    "docx": ".docx",
    "notebook": ".ipynb",
    "table": ".csv .tsv",
    "source": (
        ".py .pyi .js .mjs .cjs .jsx .ts .tsx .go .rs .java .kt .kts .c .h .cc .cpp .hpp .cs "
        ".rb .php .swift .scala .dart .lua .r .pl .ex .exs .erl .hs .clj .vue .svelte .css "
        ".sh .bash .zsh .ps1 .sql .graphql .proto .tf .yaml .yml .toml .json .ini .cfg"
    ),
}
_KIND_OF_SUFFIX: dict[str, Kind] = {
    suffix: kind for kind, all_ in _SUFFIXES.items() for suffix in all_.split()
}

DOCUMENT_ENDINGS = " ".join(
    suffixes.split()[0] for kind, suffixes in _SUFFIXES.items() if kind != "source"
)
"""First suffix of each kind but source files, for messages."""

_KIND_OF_TYPE: dict[str, Kind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/x-rst": "rst",
    "text/prs.fallenstein.rst": "rst",
    "application/json": "source",
    "application/yaml": "source",
    "application/pdf": "pdf",
    "application/x-ipynb+json": "notebook",
    "text/csv": "table",
    "text/tab-separated-values": "table",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}

_BYTE_ORDER_MARKS = (
    # The longer mark first: it starts with the mark of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_LEGACY_ENCODINGS = [
    *("cp1252", "cp1251", "cp1250", "cp1253", "koi8_r"),
    *("cp932", "gb18030", "euc_kr", "euc_jp", "big5"),
    *("cp1255", "cp1256", "cp874"),
]
"""Candidate encodings of files that are not Unicode; among all encodings, guesses fail."""

_ISO_2022_ESCAPE = b"\x1b$"
"""Escape to two-byte characters in ISO 2022."""

MIN_GUESS_BYTES = 16
"""With fewer bytes beyond ASCII, the most frequent encoding is the best guess."""

_FRONT_MATTER = re.compile(
    r"\A(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE
)
_FENCE_OR_COMMENT = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>[^\n]*)|^ {0,3}(?P<comment><!--|\{/\*)",
    re.MULTILINE,
)
_COMMENT_ENDS = {
    "<!--": re.compile(r"-->[ \t]*\n?"),
    "{/*": re.compile(r"\*/\}[ \t]*\n?"),
}

_DOT_LEADER = re.compile(r"(?:\.[ \t\n]*){4,}")
"""Dots from a title to its page number."""

_NON_ASCII = re.compile(r"[^\x00-\x7f\ufffd]")
_BACKTICKS = re.compile(r"`+")
_QUOTED_CELL = re.compile(r'"[^"]*"')
_WHITE_SPACE_RUN = re.compile(r"[ \t\r\n]{2,}")
_WEB = re.compile(r"\A(?:https?|file):", re.IGNORECASE).match
_HEADING_MARK = re.compile(r"^(?=#{1,6}\s)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """Text to split; `title` is the document's own title, or else the name of its file."""

    text: str
    kind: TextKind
    title: str


def kind_of_name(name: str) -> Kind | None:
    """Kind of a file or URL path by its suffix; None for an unknown suffix."""
    return _KIND_OF_SUFFIX.get(PurePosixPath(name).suffix.lower())


def kind_of_type(content_type: str, path: str) -> Kind | None:
    """Kind of a document by `content_type`, or by `path` if the content type is generic."""
    plain: Kind | None = "text" if content_type.startswith("text/") else None
    return _KIND_OF_TYPE.get(content_type) or kind_of_name(path) or plain


def is_binary(content: bytes) -> bool:
    """True if the content is binary: it has NUL bytes, and no byte order mark."""
    return b"\0" in content and not content.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS))


def load(content: bytes, name: str, kind: Kind, charset: str | None = None) -> Document:
    r"""Convert a document to text with `\n` as line end, without NUL and lone surrogates.

    `name` is the path of the file or URL; `charset` the encoding that a server states.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
        SourceError: the document is not of this kind; the error's source is `name`.
    """
    path = PurePosixPath(name)
    try:
        text, title = _text_and_title(content, kind, charset)
    except ValueError as error:
        raise SourceError(name, "", str(error)) from error
    text = _in_lines(text.replace("\0", "").encode(errors="replace").decode())
    if kind in {"text", "pdf", "source"}:
        title = path.name if kind == "source" else path.stem
        return Document(text, "pages" if kind == "pdf" else "text", title)
    return Document(text, "markdown", title or path.stem)


def _text_and_title(content: bytes, kind: Kind, charset: str | None) -> tuple[str, str]:
    """Markdown or text, and the title of a document outside its headings."""
    if convert := _BINARY_CONVERSIONS.get(kind):
        return convert(content)
    if kind == "html" and not charset:
        detector = require_docs("bs4.dammit").EncodingDetector
        charset = detector.find_declared_encoding(content, is_html=True)
    text = _in_lines(_decode(content, charset))
    if kind == "html":
        return _html_to_markdown(text)
    if kind == "rst":
        return _rst_to_markdown(text)
    if kind == "notebook":
        return _notebook(text), ""
    if kind == "table":
        return _table(text), ""
    return _markdown_and_title(text) if kind == "markdown" else (text, "")


def _in_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(content: bytes, declared: str | None) -> str:
    if is_binary(content):
        raise ValueError("holds NUL bytes, so this is a binary file, whatever it is named")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace")
    # Valid UTF-8 is UTF-8, even if a server or a page states another encoding. 7-bit Japanese is
    # valid UTF-8 too, and is recognised by its escapes.
    first = ["iso2022_jp_2"] if _ISO_2022_ESCAPE in content else []
    for encoding in (*first, "utf-8", declared or "utf-8"):
        with suppress(LookupError, ValueError):
            return content.decode(encoding)
    return _guess(content)


def _guess(content: bytes) -> str:
    """Decode content without a stated encoding."""
    patched = content.decode(errors="replace")
    if len(_NON_ASCII.findall(patched)) > patched.count("\ufffd"):
        return patched  # slightly damaged UTF-8
    western = content.decode("cp1252", errors="replace")
    if len(content.translate(None, bytes(range(128)))) < MIN_GUESS_BYTES:
        return western
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return western
    best = from_bytes(content, cp_isolation=_LEGACY_ENCODINGS).best()
    return western if best is None else str(best)


def _without_comments(text: str) -> str:
    """Markdown without comments of Markdown and MDX; in a code block there are none."""
    kept, at, fence = list[str](), 0, ""
    ends = dict(_COMMENT_ENDS)
    for found in _FENCE_OR_COMMENT.finditer(text):
        mark = found["fence"] or found["comment"]
        if found.start() < at:
            continue
        if found["fence"]:
            is_end = fence and mark.startswith(fence) and not found["info"].strip()
            fence = "" if is_end else fence or mark
        elif not fence and mark in ends:
            if (end := ends[mark].search(text, found.end())) is None:
                del ends[mark]  # no later comment ends either
            else:
                kept.append(text[at : found.start()])
                at = end.end()
    return "".join([*kept, text[at:]])


def _markdown_and_title(text: str) -> tuple[str, str]:
    """Markdown without comments and front matter, and the title in the front matter."""
    text = _without_comments(text)
    if block := _FRONT_MATTER.match(text):
        with suppress(ValueError):
            parse = parse_toml if block[1] == "+++" else parse_front_matter
            if is_object(data := parse(block[2])):
                title = data.get("title")
                return text[block.end() :], title.strip() if isinstance(title, str) else ""
    return text, ""


def _notebook(text: str) -> str:
    """Markdown of a notebook: Markdown cells unchanged, code between fences."""
    try:
        data = from_json(text)
    except ValueError as error:
        raise ValueError(f"not a notebook: not valid JSON: {error}") from None
    if not is_list(cells := _value_at(data, "cells")):
        raise ValueError("not a notebook of format 4: it has no cells; save it again with Jupyter")
    language = _value_at(data, "metadata", "language_info", "name") or ""
    texts: list[str] = []
    for cell in cells:
        source = _value_at(cell, "source") or ""
        code = source if isinstance(source, str) else "".join(map(str, list_of(source)))
        if _value_at(cell, "cell_type") == "markdown":
            texts.append(code)
        elif _value_at(cell, "cell_type") == "code" and code.strip():
            fence = "`" * max(3, *(len(run) + 1 for run in _BACKTICKS.findall(code)), 0)
            texts.append(f"{fence}{language}\n{code}\n{fence}")
    return "\n\n".join(texts)


MAX_HEAD_CHARS = 10_000
"""Begin of a table of values in which its first row is searched for the separator."""


def _table(text: str) -> str:
    """Markdown table of values between commas, semicolons, tabs or bars; first row: the head."""
    head = _QUOTED_CELL.sub("", text[:MAX_HEAD_CHARS]).partition("\n")[0]
    separator = max(",;\t|", key=head.count)
    try:
        found = csv.reader(StringIO(text), delimiter=separator)
        rows = [[" ".join(cell.replace("|", r"\|").split()) for cell in row] for row in found]
    except csv.Error as error:
        raise ValueError(f"not a table of values: {error}") from error
    rows = [row for row in rows if any(row)]
    rows[1:1] = [["---"] * len(rows[0])] if rows else []
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _value_at(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if is_object(data) else None
    return data


# -- conversions -----------------------------------------------------------------------------------

MAX_UNPACKED_BYTES = 64 * 2**20
"""Most unpacked bytes of the texts of a DOCX; a small file may unpack to any size."""


_SKIPPED_ELEMENTS = (
    "script, style, template, noscript, nav, footer, pre button, "
    "[role=navigation], [role=search], [role=contentinfo], [id^=breadcrumb], #footer, "
    ".page-metadata, ac\\:task-id, ac\\:parameter:not([ac\\:name=title])"
)
"""Elements outside the page's content, by their names, the landmarks of ARIA, and the ids and
classes that Confluence and others give them."""

_CONFLUENCE_ELEMENTS = {
    "ac:parameter": "p",
    "ac:plain-text-body": "pre",
    "ac:task-list": "ul",
    "ac:task": "li",
    "ac:task-status": "p",
    "ac:task-body": "p",
}
"""Elements of HTML for those of Confluence's storage format."""

MAX_REPEATED_CHARS = 200
"""Longest cell that is repeated in each row that it spans; a longer one is left empty there."""

MAX_REPEATED_CELLS = 50
"""Most cells that are repeated in one row: a malformed table may have one more in each row."""

_PARTS_OF_TABLE = ["caption", "thead", "tbody", "tfoot", "tr", "td", "th"]

_HEADINGS = [f"h{level}" for level in range(1, 7)]
_CLOSED_BY = {
    "p": ("p",),
    "li": ("li", "p"),
    **dict.fromkeys(("dt", "dd"), ("dt", "dd", "p")),
    **dict.fromkeys(("td", "th"), ("td", "th", "p")),
    "tr": ("td", "th", "tr", "p"),
}
"""Open elements that each element closes where it begins."""

MAX_DEFINITION_CHARS = 600
"""Longest definition that stands in one part with its term, whatever its language."""

_LISTS_OF_SECTIONS = "ul:has(a[href^='#']), ol:has(a[href^='#'])"


def _html_to_markdown(html: str, *, first_row_is_head: bool = False) -> tuple[str, str]:
    """Markdown of a page's main part, and the page's title.

    `first_row_is_head` applies to tables without a marked head row.
    """
    with _conversion_errors("HTML"):
        library = require_docs("bs4")
        soup = _soup_class(library.BeautifulSoup)(html, "html.parser")
        title = soup.title.get_text() if soup.title else ""
        mains = soup.find_all("main") or soup.select("[role=main]")
        body = mains[0] if len(mains) == 1 else soup.body or soup
        for element in body.select(_SKIPPED_ELEMENTS):
            element.decompose()
        _head_definitions(body)
        # A link without text is a heading's anchor to itself.
        for link in body.select(f":is({','.join(_HEADINGS)}) a"):
            if not (link.find("img") or any(map(str.isalnum, link.get_text()))):
                link.decompose()
        for element in filter(_is_contents, body.select(_LISTS_OF_SECTIONS)):
            element.extract()
        for element in body.find_all(list(_CONFLUENCE_ELEMENTS)):
            element.name = _CONFLUENCE_ELEMENTS[element.name]
        _fit_tables(body)
        for string in body.find_all(string=_WHITE_SPACE_RUN):
            if type(string) is library.NavigableString and string.find_parent("pre") is None:
                spaced = _WHITE_SPACE_RUN.sub(lambda r: "\n" if "\n" in r[0] else " ", string)
                string.replace_with(spaced)
        return _markdown(body, first_row_is_head=first_row_is_head), title.strip()


def _soup_class(base: Any) -> Any:
    """Class of parsed HTML that closes elements without an end tag, which HTML allows."""

    class Soup(base):
        def handle_starttag(self, name: str, *rest: Any, **more: Any) -> Any:
            self.endData()
            while self.currentTag.name in _CLOSED_BY.get(name, ()):
                self.popTag()
            return base.handle_starttag(self, name, *rest, **more)

    return Soup


def _head_definitions(body: Any) -> None:
    """Make sections of long definitions, so that each part is named by its term.

    A list stays where text is behind it before the next heading: the last term would name the text.
    """
    definitions = body.find_all("dd")
    if max((len(each.get_text()) for each in definitions), default=0) <= MAX_DEFINITION_CHARS:
        return
    above, levels = CUTTING_LEVEL, dict[int, int]()
    for element in body.find_all([*_HEADINGS, "dl"]):
        if element.name != "dl":
            above = max(CUTTING_LEVEL, int(element.name[1]))
        levels[id(element)] = min(above + 1 + len(element.find_parents("dl")), 6)
    ends_section = True
    for node in reversed([*body.descendants]):
        if node.name == "dl" and ends_section:
            for each in node.find_all(["dt", "dd"], recursive=False):
                each.name = f"h{levels[id(node)]}" if each.name == "dt" else "div"
        elif node.name is None and not (node.PREFIX or node.isspace() or node.find_parent("dl")):
            # A string that is no comment.
            ends_section = node.find_parent(_HEADINGS) is not None


def _is_contents(element: Any) -> bool:
    """True for a table of contents: all its words are links to the page's own sections."""
    linked = "".join(link.get_text() for link in element.select("a[href^='#']"))
    return "".join(linked.split()) == "".join(element.get_text().split())


def _fit_tables(body: Any) -> None:
    """Reduce tables to what Markdown has: rows of cells, the first of them the head."""
    for table in body.select("table:has(td.linenos)"):
        # Line numbers and code, as Sphinx and MkDocs write code blocks; no table around one.
        numbers = table.select("td.linenos")
        if len(numbers) == 1 and not table.find("table"):
            numbers[0].decompose()
            _unwrap(table)
    # The innermost first.
    for table in reversed(body.select("td table, th table")):
        _put_on_one_line(table)
    for element in body.select("table > caption, table > colgroup"):
        # Before the first row either would hide that it is the first.
        if element.name == "caption":
            element.name = "p"
            element.parent.insert_before(element)
        else:
            element.decompose()
    spanning: dict[int, dict[int, tuple[int, Any]]] = {}
    for row in body.find_all("tr"):
        group = id(row.parent)
        spanning[group] = _fill_row(row, spanning.get(group, {}))


def _put_on_one_line(table: Any) -> None:
    """Replace a table in a cell by its cells on one line, as a cell of Markdown has one line."""
    rows = table.find_all("tr")
    for row in rows:
        for cell in row.find_all(["td", "th"], recursive=False)[:-1]:
            cell.append(", ")
    for row in rows[:-1]:
        row.append("; ")
    table.insert_before(" ")
    _unwrap(table)


def _unwrap(table: Any) -> None:
    for element in [*table.find_all(_PARTS_OF_TABLE), table]:
        element.unwrap()


def _fill_row(row: Any, spanning: dict[int, tuple[int, Any]]) -> dict[int, tuple[int, Any]]:
    """Repeat in a row the cells above that span it, and return the cells that span the next row.

    Each is given by its column, with the number of rows that it still spans.
    """
    below: dict[int, tuple[int, Any]] = {}
    column = 0
    for cell in [*row.find_all(["td", "th"], recursive=False), None]:
        while column in spanning:
            left, above = spanning[column]
            repeated = copy(above)
            del repeated["rowspan"]
            if len(above.get_text()) > MAX_REPEATED_CHARS:
                repeated.clear()
            row.append(repeated) if cell is None else cell.insert_before(repeated)
            if left > 1:
                below[column] = left - 1, above
            column += _span(above, "colspan")
        if cell is not None:
            if (span := _span(cell, "rowspan")) > 1 and len(below) < MAX_REPEATED_CELLS:
                below[column] = span - 1, cell
            column += _span(cell, "colspan")
    return below


def _span(cell: Any, direction: str) -> int:
    stated = str(cell.get(direction, ""))
    return max(1, int(stated[:4])) if stated.isdecimal() else 1


def _markdown(element: Any, *, first_row_is_head: bool) -> str:
    """Markdown of parsed HTML; plain text if it is nested too deeply."""
    library = require_docs("markdownify")
    # No escapes: `get_user` must be found and quoted as `get_user`.
    as_written = {"escape_asterisks": False, "escape_underscores": False}
    converter = _markdown_converter(library.MarkdownConverter)(
        heading_style=library.ATX, table_infer_header=first_row_is_head, **as_written
    )
    try:
        return converter.convert_soup(element).strip()
    except RecursionError:
        return element.get_text("\n", strip=True)


def _markdown_converter(base: Any) -> Any:
    """Converter class that keeps links to the web, and replaces pictures by their names.

    A target within the site leads nowhere for who reads a passage.
    """

    class Converter(base):
        def convert_a(self, el: Any, text: str, parent_tags: AbstractSet[str]) -> str:
            el["href"] = el.get("href", "").strip().replace(" ", "%20")
            return base.convert_a(self, el, text, parent_tags) if _WEB(el["href"]) else text

        def convert_img(self, el: Any, text: str, **_more: Any) -> str:  # noqa: ARG002
            name = el.get("alt", "").replace("\n", " ")
            sources = el.get("src", ""), el.get("data-src", "")
            return next((f"![{name}]({source})" for source in sources if _WEB(source)), name)

        def escape(self, text: str, parent_tags: AbstractSet[str]) -> str:
            return _HEADING_MARK.sub(r"\\", base.escape(self, text, parent_tags))

        def convert_td(self, el: Any, text: str, parent_tags: AbstractSet[str]) -> str:
            return base.convert_td(self, el, text.replace("|", r"\|"), parent_tags)

        convert_th = convert_td

        def convert_input(self, el: Any, text: str, **_more: Any) -> str:  # noqa: ARG002
            box = "[x] " if el.has_attr("checked") else "[ ] "
            return box if el.get("type") == "checkbox" else ""

    return Converter


def _rst_to_markdown(text: str) -> tuple[str, str]:
    """Markdown of reStructuredText, and no title, as the text has it; no other file is read."""
    core = require_docs("docutils.core")
    with _conversion_errors("reStructuredText"):
        with _docutils_lock, _any_directive_known():
            tree = core.publish_doctree(text, settings_overrides=_SETTINGS)
        _keep_words(tree)
        html = core.publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    return _html_to_markdown(html)[0], ""


_WORD_TITLE = re.compile(r'<p class="title">((?:(?!<p ).)*?)</p>', re.DOTALL)
_HEADING_TAG = re.compile(r"(</?h)([1-5])>")


def _docx_to_markdown(content: bytes) -> tuple[str, str]:
    """Markdown of a Word document, and no title; headings are those of Word's own styles.

    The style Title is the heading above all others.
    """
    with _conversion_errors("DOCX"):
        mammoth = require_docs("mammoth")
        html = mammoth.convert_to_html(
            _with_equations(content),
            # Pictures are dropped, and their alternative texts kept.
            convert_image=mammoth.images.img_element(_without_picture),
            style_map="p[style-name='Title'] => p.title:fresh",
        ).value
        if _WORD_TITLE.search(html):
            lower = _HEADING_TAG.sub(lambda tag: f"{tag[1]}{int(tag[2]) + 1}>", html)
            html = _WORD_TITLE.sub(r"<h1>\1</h1>", lower)
        # Word marks a head row only if it is repeated on each page.
        return _html_to_markdown(html, first_row_is_head=True)[0], ""


def _without_picture(_image: object) -> dict[str, str]:
    return {"src": ""}


def _with_equations(content: bytes) -> BytesIO:
    """Word document with only its texts, and LaTeX in place of equations."""
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as packed, zipfile.ZipFile(made, "w") as plain:
        texts = [e for e in packed.infolist() if e.filename.endswith((".xml", ".rels"))]
        if (size := sum(each.file_size for each in texts)) > MAX_UNPACKED_BYTES:
            raise ValueError(f"unpacks to {size:,} bytes; {MAX_UNPACKED_BYTES:,} are read at most")
        for each in texts:
            part = packed.read(each)
            repaired = _repair_part(part) if _NEEDS_REPAIR.search(part) else part
            plain.writestr(each.filename, repaired)
    made.seek(0)
    return made


_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OFFICE_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_NEEDS_REPAIR = re.compile(rb"oMath>|dstrike|<w:style |<w:style>")


def _repair_part(part: bytes) -> bytes:
    """Part of a Word document, changed so that mammoth can read it."""
    root = ET.fromstring(part)  # noqa: S314 -- expat expands no entity without bounds
    for element in list(root.iter()):
        if element.tag == f"{_WORD}dstrike":
            element.tag = f"{_WORD}strike"
        elif element.tag == f"{_WORD}style":
            # Styles may lack these attributes, which mammoth requires.
            for name, default in (("type", "paragraph"), ("styleId", "")):
                element.attrib.setdefault(f"{_WORD}{name}", default)
        elif element.tag == f"{_OFFICE_MATH}oMath":
            latex = f"${_latex(element)}$"
            element.clear()
            element.tag = f"{_WORD}r"
            ET.SubElement(element, f"{_WORD}t").text = latex
    return ET.tostring(root)


_EQUATIONS = {
    "f": r"\frac{{{num}}}{{{den}}}",
    "rad": r"\sqrt{{{e}}}",
    "sSup": "{e}^{{{sup}}}",
    "sSub": "{e}_{{{sub}}}",
    "sSubSup": "{e}_{{{sub}}}^{{{sup}}}",
    "sPre": "_{{{sub}}}^{{{sup}}}{e}",
    "nary": "{chr}_{{{sub}}}^{{{sup}}}{e}",
    "limLow": "{e}_{{{lim}}}",
    "limUpp": "{e}^{{{lim}}}",
    "func": "{fName}({e})",
    "bar": r"\overline{{{e}}}",
    "acc": "{e}{chr}",
    "d": "{begChr}{all}{endChr}",
    "m": r"\begin{{matrix}}{all}\end{{matrix}}",
    "eqArr": r"\begin{{matrix}}{all}\end{{matrix}}",
}
"""LaTeX of an element of an equation; other elements are their parts in order."""

_SEPARATORS = {"d": "|", "mr": "&", "m": r"\\", "eqArr": r"\\"}

_DEFAULT_SIGNS = {
    "d": {"begChr": "(", "endChr": ")"},
    "nary": {"chr": "∫"},
    "acc": {"chr": "\u0302"},
}
"""Symbols of elements of an equation that state none."""


def _latex(element: ET.Element) -> str:
    """LaTeX of an Office equation, with its symbols unchanged."""
    kind = element.tag.removeprefix(_OFFICE_MATH)
    if kind == "t":
        return element.text or ""
    said = {
        each.tag.removeprefix(_OFFICE_MATH): each.get(f"{_OFFICE_MATH}val", "")
        for each in element.findall(f"{_OFFICE_MATH}{kind}Pr/*")
    }
    children = [each for each in element if not each.tag.endswith("Pr")]
    tags = [each.tag.removeprefix(_OFFICE_MATH) for each in children]
    written = [_latex(each) for each in children]
    parts = {**_DEFAULT_SIGNS.get(kind, {}), **said, **dict(zip(tags, written, strict=True))}
    parts["all"] = said.get("sepChr", _SEPARATORS.get(kind, "")).join(written)
    if kind == "rad" and parts.get("deg"):
        return rf"\sqrt[{parts['deg']}]{{{parts.get('e', '')}}}"
    return _EQUATIONS.get(kind, "{all}").format_map(defaultdict(str, parts))


def _pdf_to_text(content: bytes) -> tuple[str, str]:
    """Text of a PDF, with a form feed after each page, and no title; empty for a scanned PDF."""
    with _conversion_errors("PDF"):
        # Not markitdown, which mistakes the prose of many PDFs for tables and joins words.
        text = require_docs("pdfminer.high_level").extract_text(BytesIO(content))
        return _DOT_LEADER.sub("... ", text), ""


_BINARY_CONVERSIONS: dict[Kind, Callable[[bytes], tuple[str, str]]] = {
    "pdf": _pdf_to_text,
    "docx": _docx_to_markdown,
}

BINARY_KINDS = frozenset(_BINARY_CONVERSIONS)
"""Kinds whose files are binary; binary files of other kinds are no documents."""


@contextmanager
def _conversion_errors(what: str) -> Generator[None]:
    """Silence the libraries, and turn all their errors into ValueError."""
    try:
        with quiet_loggers("pdfminer", "bs4", "mammoth"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MissingExtraError, MemoryError):
        raise
    except Exception as error:
        # Parsers of untrusted files may raise any error, and the next file must still be read.
        kind = type(error).__name__
        if kind == "PDFPasswordIncorrect":
            raise ValueError("is protected by a password; save it without one") from error
        said = " ".join(str(error).split())
        raise ValueError(f"cannot be read as {what}: {kind}{': ' if said else ''}{said}") from error


# -- reStructuredText ------------------------------------------------------------------------------

_SETTINGS: dict[str, Any] = {
    # Read no other file, and print nothing.
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "warning_stream": False,
    "report_level": 5,
    "halt_level": 6,
    "traceback": True,
    # A lone first section would become a subtitle instead of a heading.
    "doctitle_xform": False,
    "initial_header_level": 1,
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "math_output": "LaTeX",
    "syntax_highlight": "none",
    "output_encoding": "unicode",
}

MIN_DROPPED_LEVEL = 3
"""Least level of a message for which docutils drops the affected text."""

_SILENT_DIRECTIVES = frozenset({"toctree", "index", "highlight", "currentmodule", "default-domain"})
"""Directives of Sphinx that contain file names and options, not text."""

_docutils_lock = Lock()
"""Lock of docutils' directives, one table for the whole process."""


def _keep_words(tree: Any) -> None:
    """Replace nodes that the writer would drop, or read files for, by their text."""
    nodes = require_docs("docutils.nodes")
    for message in list(tree.findall(nodes.system_message)):
        quoted = [child for child in message.children if isinstance(child, nodes.literal_block)]
        if message["level"] >= MIN_DROPPED_LEVEL and quoted and message.parent is not None:
            message.parent.replace(message, quoted)
    for broken in list(tree.findall(nodes.problematic)):
        broken.parent.replace(broken, nodes.Text(broken.astext()))
    # The file of an embedded image would be read despite the settings.
    for image in list(tree.findall(nodes.image)):
        image.parent.replace(image, nodes.Text(image.get("alt", "")))


@contextmanager
def _any_directive_known() -> Generator[None]:
    """Let docutils accept every directive, every role, and every option of a directive."""
    rst = require_docs("docutils.parsers.rst")
    directives, roles = rst.directives, rst.roles
    find_directive, find_role = directives.directive, roles.role
    any_directive = _any_directive()

    def directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
        found = find_directive(name, language, document)[0] or any_directive
        # Unknown options are text; without any known option docutils would refuse them.
        options = defaultdict(lambda: str, {"": str, **(found.option_spec or {})})
        return type(found.__name__, (found,), {"option_spec": options}), []

    def role(name: str, language: Any, line: int, reporter: Any) -> tuple[Any, list[Any]]:
        return find_role(name, language, line, reporter)[0] or _any_role, []

    directives.directive, roles.role = directive, role
    try:
        yield
    finally:
        directives.directive, roles.role = find_directive, find_role


def _any_directive() -> Any:
    nodes = require_docs("docutils.nodes")
    base: Any = require_docs("docutils.parsers.rst").Directive

    class AnyDirective(base):
        optional_arguments = 1
        final_argument_whitespace = True
        has_content = True

        def run(self) -> list[Any]:
            if self.name.lower() in _SILENT_DIRECTIVES:
                return []
            body = nodes.container()
            body += [nodes.paragraph("", argument) for argument in self.arguments]
            self.state.nested_parse(self.content, self.content_offset, body, match_titles=True)
            return body.children

    return AnyDirective


def _any_role(_name: str, _raw: str, text: str, *_where: Any, **_more: Any) -> Any:
    """Text of a role: the title of `title <target>`, the name of `~name`."""
    nodes = require_docs("docutils.nodes")
    plain = nodes.unescape(text)
    title, opening, target = plain.rpartition("<")
    is_titled = title.strip() and opening and target.find(">") == len(target) - 1
    return [nodes.inline("", title.rstrip() if is_titled else plain.lstrip("~!"))], []
