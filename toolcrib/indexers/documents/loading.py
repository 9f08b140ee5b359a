"""The bytes of a document become its text, by the kind that its name or its server tells."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias, cast

from pydantic_core import from_json

from toolcrib.errors import SourceError
from toolcrib.indexers.documents.loading import (
    declared_charset,
    docx_to_markdown,
    html_to_markdown,
    pdf_to_text,
    rst_to_markdown,
)
from toolcrib.indexers.documents.chunking import TextKind
from toolcrib.indexers.readers.parsing import parse_yaml

__all__ = ["Document", "Kind", "is_binary", "kind_of_name", "kind_of_type", "load"]

Kind: TypeAlias = Literal["markdown", "rst", "html", "text", "pdf", "docx", "notebook", "source"]

_SUFFIXES: dict[Kind, str] = {
    "markdown": ".md .markdown .mdx",
    "rst": ".rst",
    "html": ".html .htm .xhtml",
    "text": ".txt .text .log .adoc",
    "pdf": ".pdf",
    "docx": ".docx",
    "notebook": ".ipynb",
    "source": (
        ".py .pyi .js .mjs .cjs .jsx .ts .tsx .go .rs .java .kt .kts .c .h .cc .cpp .hpp .cs "
        ".rb .php .swift .scala .dart .lua .r .pl .ex .exs .erl .hs .clj .vue .svelte .css "
        ".sh .bash .zsh .ps1 .sql .graphql .proto .tf .yaml .yml .toml .json .ini .cfg"
    ),
}
_KIND_OF_SUFFIX: dict[str, Kind] = {
    suffix: kind for kind, all_ in _SUFFIXES.items() for suffix in all_.split()
}

_OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
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
    _OFFICE: "docx",
}

_MARKS = (
    # The longer mark first: that of UTF-16 begins it.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_LEGACY = [
    *("cp1252", "cp1251", "cp1250", "cp1253", "koi8_r"),
    *("cp932", "gb18030", "euc_kr", "euc_jp", "big5"),
]
"""What files that are not Unicode are written in; among all that there are, guesses go astray."""

FEW_BYTES = 16
"""With fewer bytes beyond ASCII no guess is better than the most frequent answer."""

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_WHOLE = re.compile(r"[^\x00-\x7f\ufffd]")
_BACKTICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Document:
    """What is split: `title` is what the document calls itself, else the name of its file."""

    text: str
    kind: TextKind
    title: str


def kind_of_name(name: str) -> Kind | None:
    """Give the kind of a file or URL path by its ending, None for one that is not known."""
    return _KIND_OF_SUFFIX.get(PurePosixPath(name).suffix.lower())


def kind_of_type(content_type: str, path: str) -> Kind | None:
    """Give the kind of what a server calls `content_type`; where that says little, by `path`."""
    plain: Kind | None = "text" if content_type.startswith("text/") else None
    return _KIND_OF_TYPE.get(content_type) or kind_of_name(path) or plain


def is_binary(content: bytes) -> bool:
    """Whether this is no text: it has NUL bytes, and no mark that explains them."""
    return b"\0" in content and not content.startswith(tuple(mark for mark, _ in _MARKS))


def load(content: bytes, name: str, kind: Kind, charset: str | None = None) -> Document:
    r"""Make text of a document; its lines end in `\n`, and it holds no NUL and no half character.

    `name` is the file's or the URL's path; `charset` what a server says that it is written in.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
        SourceError: it cannot be read as what it is named; its source is `name`.
    """
    path = PurePosixPath(name)
    try:
        text, title = _text_and_title(content, kind, charset)
    except ValueError as error:
        raise SourceError(name, "", str(error)) from error
    text = _in_lines(text.replace("\0", "").encode(errors="replace").decode())
    if kind in {"text", "pdf", "source"}:
        return Document(text, "text", path.name if kind == "source" else path.stem)
    return Document(text, "markdown", title or path.stem)


def _text_and_title(content: bytes, kind: Kind, charset: str | None) -> tuple[str, str]:
    """Give Markdown or text, and the title that a document has beside its headings."""
    if kind == "pdf":
        return pdf_to_text(content), ""
    if kind == "docx":
        return docx_to_markdown(content), ""
    text = _decode(content, charset or (declared_charset(content) if kind == "html" else None))
    if kind == "html":
        return html_to_markdown(text)
    if kind == "rst":
        return rst_to_markdown(text)
    if kind == "notebook":
        return _notebook(text), ""
    return _front_matter(text) if kind == "markdown" else (text, "")


def _in_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(content: bytes, declared: str | None) -> str:
    if is_binary(content):
        raise ValueError("holds NUL bytes, so this is a binary file, whatever it is named")
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _in_lines(content.decode(encoding, errors="replace"))
    # What is valid UTF-8 is UTF-8, also where a server or a page says something else.
    for encoding in ("utf-8", declared or "utf-8"):
        try:
            return _in_lines(content.decode(encoding))
        except (LookupError, ValueError):
            continue
    return _in_lines(_guess(content))


def _guess(content: bytes) -> str:
    """Decode what is in no encoding that anyone named."""
    patched = content.decode(errors="replace")
    if len(_WHOLE.findall(patched)) > patched.count("\ufffd"):
        return patched  # UTF-8 that was damaged somewhere
    western = content.decode("cp1252", errors="replace")
    if len(content.translate(None, bytes(range(128)))) < FEW_BYTES:
        return western
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return western
    best = from_bytes(content, cp_isolation=_LEGACY).best()
    return western if best is None else str(best)


def _front_matter(text: str) -> tuple[str, str]:
    """Give Markdown without its front matter, and the title that was in it."""
    block = _FRONT_MATTER.match(text)
    try:
        data = parse_yaml(block[1]) if block else None
    except ValueError:
        data = None
    if block is None or not isinstance(data, dict):
        return text, ""
    title = cast("dict[str, Any]", data).get("title")
    return text[block.end() :], title.strip() if isinstance(title, str) else ""


def _notebook(text: str) -> str:
    """Give the Markdown cells of a notebook as they are, and its code between fences."""
    try:
        data = from_json(text)
    except ValueError as error:
        raise ValueError(f"not a notebook: not valid JSON: {error}") from None
    if not isinstance(cells := _at(data, "cells"), list):
        raise ValueError("not a notebook of format 4: it has no cells; save it with Jupyter anew")  # noqa: TRY004
    language = _at(data, "metadata", "language_info", "name") or ""
    texts: list[str] = []
    for cell in cast("list[Any]", cells):
        source = _at(cell, "source") or ""
        code = source if isinstance(source, str) else "".join(map(str, source))
        if _at(cell, "cell_type") == "markdown":
            texts.append(code)
        elif _at(cell, "cell_type") == "code" and code.strip():
            fence = "`" * max(3, *(len(run) + 1 for run in _BACKTICKS.findall(code)), 0)
            texts.append(f"{fence}{language}\n{code}\n{fence}")
    return "\n\n".join(texts)


def _at(data: Any, *keys: str) -> Any:
    for key in keys:
        data = cast("dict[str, Any]", data).get(key) if isinstance(data, dict) else None
    return data
