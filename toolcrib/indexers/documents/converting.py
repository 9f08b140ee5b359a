"""What is no plain text becomes some: HTML, reStructuredText and DOCX as Markdown, PDF as text.

Each function takes a whole document and raises ValueError, saying why, for one that cannot be
read, and MissingExtraError where the extra `docs` is not installed.
"""

from __future__ import annotations

import logging
import re
import warnings
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from toolcrib.errors import MissingExtraError
from toolcrib.indexers.documents.extra import import_docs, missing_docs
from toolcrib.indexers.documents.loading import rst_to_html

__all__ = [
    "declared_charset",
    "docx_to_markdown",
    "html_to_markdown",
    "pdf_to_text",
    "rst_to_markdown",
]

MAX_UNPACKED_BYTES = 500_000_000
"""What a DOCX may hold once unpacked; a small file can ask for any amount."""

_LOGGERS = ("pdfminer", "bs4", "mammoth", "markitdown")

_AROUND = ("script", "style", "template", "noscript", "nav", "footer")
"""Elements that say nothing about the page's subject."""

_IN_HEADING = ",".join(f"h{level} a" for level in range(1, 7))

_AS_WRITTEN = {"escape_asterisks": False, "escape_underscores": False}
"""`get_user` is to be found and quoted as `get_user`."""


def declared_charset(content: bytes) -> str | None:
    """Give the encoding that an HTML page says that it is written in."""
    detector: Any = import_docs("bs4.dammit").EncodingDetector
    return detector.find_declared_encoding(content, is_html=True)


def html_to_markdown(html: str) -> tuple[str, str]:
    """Give the Markdown of a page's main part, and the page's title."""
    with _reading("HTML"):
        soup = import_docs("bs4").BeautifulSoup(html, "html.parser")
        title = soup.title.get_text() if soup.title else ""
        mains = soup.find_all("main")
        body = mains[0] if len(mains) == 1 else soup.body or soup
        links: list[Any] = [link for link in body.select(_IN_HEADING) if _is_permalink(link)]
        for element in [*links, *body.find_all(_AROUND)]:
            element.decompose()
        converter = import_docs("markitdown.converters").HtmlConverter()
        return converter.convert_string(str(body), **_AS_WRITTEN).markdown, title.strip()


def _is_permalink(link: Any) -> bool:
    return not (link.find("img") or any(map(str.isalnum, link.get_text())))


def rst_to_markdown(text: str) -> tuple[str, str]:
    """Give the Markdown of reStructuredText, and no title: it is in the text.

    Nothing is read but the text itself. What only Sphinx knows keeps its words: of a directive
    its arguments and what is below it, of a role the text it is given.
    """
    with _reading("reStructuredText"):
        html = rst_to_html(text)
    return html_to_markdown(html)[0], ""


def docx_to_markdown(content: bytes) -> str:
    """Give the Markdown of a Word document; its headings are those of Word's own styles."""
    with _reading("DOCX"):
        with zipfile.ZipFile(BytesIO(content)) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
        if size > MAX_UNPACKED_BYTES:
            raise ValueError(f"unpacks to {size:,} bytes; {MAX_UNPACKED_BYTES:,} are read at most")
        library = import_docs("markitdown")
        converter = import_docs("markitdown.converters").DocxConverter()
        try:
            made = converter.convert(BytesIO(content), library.StreamInfo(), **_AS_WRITTEN)
        except library.MissingDependencyException as missing:
            raise missing_docs() from missing
        return made.markdown


def pdf_to_text(content: bytes) -> str:
    """Give the text of a PDF, page after page; a scanned one has none."""
    with _reading("PDF"):
        # markitdown takes the prose of many PDFs for tables, and runs the words together.
        text: str = import_docs("pdfminer.high_level").extract_text(BytesIO(content))
        return text.replace("\f", "\n")


@contextmanager
def _reading(what: str) -> Generator[None]:
    """Keep the libraries off the screen, and make one error of all that they fail with.

    Python prints warnings of loggers without a handler to stderr; a handler that does nothing
    stops that, and an application with handlers of its own still gets every record.
    """
    handler = logging.NullHandler()
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except MissingExtraError:
        raise
    except Exception as error:
        # Parsers of what anyone may have written fail with anything, and the next file is to
        # be read all the same.
        said = re.sub(r"\s+", " ", str(error)).strip()
        kind = type(error).__name__
        raise ValueError(f"cannot be read as {what}: {kind}{': ' if said else ''}{said}") from error
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(handler)
