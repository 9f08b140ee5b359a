"""Sources of documents: reads passages of files, folders and URLs."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, cast
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit

from toolcrib.clock import Clock, SystemClock
from toolcrib.documents.chunking import require_docs
from toolcrib.documents.loading import (
    BINARY_KINDS,
    DOCUMENT_ENDINGS,
    Kind,
    is_binary,
    kind_of_name,
    kind_of_type,
)
from toolcrib.documents.processes import DEFAULT_CONVERSION_LIMITS, ConversionLimits, Converters
from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.indexers.sync import PassageEntry, ReadSources
from toolcrib.records import Passage, Refusal

logger = logging.getLogger(__name__)

MINIFIED_LINE_BYTES = 500
"""A script with longer lines on average is minified, or a generated search index."""

_SCRIPTS = (".js", ".mjs", ".cjs", ".css")

MAX_DOCUMENT_BYTES = 50_000_000

_READ_KINDS = f"documents ({DOCUMENT_ENDINGS}) and source files are read"

_EMPTY_REASONS: dict[Kind, str] = {
    "markdown": "holds no text beside its headings",
    "pdf": "holds no text; if it was scanned, run text recognition over it first",
}


@dataclass(frozen=True, slots=True)
class RawDocument:
    """Unconverted document of `source`; `path` gives its title, `document` its identity."""

    source: str
    document: str
    path: str
    content: bytes
    kind: Kind
    charset: str | None = None

    def passages(
        self,
        collection: str,
        converters: Converters,
        *,
        max_tokens: int,
        timeout_s: float | None = None,
    ) -> Iterator[Passage | Refusal]:
        """Yield the passages, of at most `max_tokens`, or a refusal.

        `timeout_s` replaces the converters' time limit if it is lower.
        """
        given = {"name": self.path, "kind": self.kind, "charset": self.charset}
        given |= {"max_tokens": max_tokens}
        try:
            parts = converters.convert(self.content, given, timeout_s=timeout_s)
        except (SourceError, MissingExtraError) as error:
            reason = error.reason if isinstance(error, SourceError) else str(error)
            yield refused_document(self.document, reason)
            return
        for position, part in enumerate(parts):
            yield Passage(collection, self.document, part.text, part.title, position, part.start)
        if not parts:
            reason = _EMPTY_REASONS.get(self.kind, "holds no text")
            yield refused_document(self.document, reason)


def passages(
    *sources: str | Path | ReadSources,
    collection: str,
    max_tokens: int,
    limits: ConversionLimits = DEFAULT_CONVERSION_LIMITS,
) -> Iterator[PassageEntry]:
    """Yield the passages of files, folders and URLs, each with its source.

    In a folder, hidden and binary files, files of unknown kinds, `node_modules`, minified scripts
    and empty source files are skipped; a file that is named itself is read or refused. A passage's
    document is the path of the file as named, or the URL. A document that cannot be read, exceeds
    the `limits`, or has no text, is yielded as a refusal, and the other documents are still read.
    No passage has more than about `max_tokens` tokens.

    Raises:
        MissingExtraError: the extra `docs` is not installed. If only the library for one kind of
            document is missing, documents of this kind are refused.
        ValueError: `max_tokens` is less than 1.
    """
    require_docs()
    if max_tokens < 1:
        raise ValueError(f"a passage must hold at least one token, not {max_tokens}")
    with Converters(limits) as converters:
        for source in sources:
            if isinstance(source, ReadSources):
                yield from cast("Iterable[PassageEntry]", source.entries)
                continue
            if not isinstance(cast("object", source), str | os.PathLike):
                reason = f"is a {type(source).__name__}; name each file, folder and URL by itself"
                yield str(source), _refusal(str(source), reason)
                continue
            for raw in _read_source(str(source)):
                if isinstance(raw, Refusal):
                    yield raw.source, raw
                else:
                    parts = raw.passages(collection, converters, max_tokens=max_tokens)
                    yield from ((raw.source, part) for part in parts)


def _read_source(name: str) -> Iterator[RawDocument | Refusal]:
    """Yield the documents of a file, folder or URL; raises nothing."""
    # Unlike pathlib, os.path says no to names that nothing can have, instead of raising.
    if name.lower().startswith(("http://", "https://")):
        yield fetch(name)
    elif "://" in name and not os.path.lexists(name):
        yield Refusal(name, "", "only addresses that begin with http:// or https:// are fetched")
    elif os.path.isdir(name):  # noqa: PTH112
        yield from _walk_folder(Path(name))
    else:
        yield _read_file(Path(name))


def _walk_folder(folder: Path) -> Iterator[RawDocument | Refusal]:
    """Yield all documents below a folder, sorted; links out of the folder are refused."""
    inside = os.path.realpath(folder)
    empty = True
    skipped: Counter[str] = Counter()
    unreadable: list[OSError] = []
    for path in _paths_below(folder, inside, unreadable.append):
        empty = False
        if _leads_out(path, inside):
            reason = "a link out of the folder; name what it leads to by itself"
            found: RawDocument | Refusal = refused_document(_document_of(path), reason)
        else:
            found = _read_file(path)
        if _is_skipped(found):
            skipped[path.suffix] += 1
        else:
            yield found
    _log_left_out(folder, "binary, minified or empty files", skipped)
    for error in unreadable:
        yield _refusal(error.filename, f"cannot be read: {error.strerror}")
    if empty and not unreadable:
        yield _refusal(folder, f"the folder holds nothing that is read; {_READ_KINDS}")


def _paths_below(
    folder: Path, inside: str, on_error: Callable[[OSError], object]
) -> Iterator[Path]:
    """Yield files of known kinds below a folder, and links to folders outside it."""
    others: Counter[str] = Counter()
    for parent, folders, files in os.walk(folder, onerror=on_error):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "node_modules")
        # Links to folders are not followed: a target inside is found at its own path.
        for path in (Path(parent, name) for name in folders):
            if path.is_symlink() and _leads_out(path, inside):
                yield path
        shown = sorted(name for name in files if not name.startswith("."))
        known = [name for name in shown if kind_of_name(name) is not None]
        others.update(Path(name).suffix or "no ending" for name in {*shown} - {*known})
        yield from (Path(parent, name) for name in known)
    _log_left_out(folder, "files of no known kind", others)


def _log_left_out(folder: Path, what: str, by_ending: Mapping[str, int]) -> None:
    """Log the numbers of files that a folder's walk left out, if there are any."""
    if by_ending:
        counts = ", ".join(f"{ending} ({count})" for ending, count in sorted(by_ending.items()))
        logger.info("%s: %s left out: %s", folder, what, counts)


def _leads_out(path: Path, inside: str) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(inside)


def _is_skipped(found: RawDocument | Refusal) -> bool:
    """True for a file of a folder that is skipped: binary, a minified script, or empty source."""
    if isinstance(found, Refusal) or found.kind in BINARY_KINDS:
        return False
    content = found.content
    lines = content.count(b"\n") + 1
    is_minified = found.path.endswith(_SCRIPTS) and len(content) > lines * MINIFIED_LINE_BYTES
    is_empty = found.kind == "source" and not content.strip()
    return is_minified or is_empty or is_binary(content)


def _read_file(path: Path) -> RawDocument | Refusal:
    kind = kind_of_name(path.name)
    document = _document_of(path)
    try:
        # Reading a pipe or a device might never end.
        if not os.path.isfile(path):  # noqa: PTH113
            if os.path.lexists(path):
                return refused_document(document, "not a file")
            return _refusal(path, "there is no such file or folder")
        if kind is None:
            return _refusal(path, f"a file of no known kind; {_READ_KINDS}")
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        return refused_document(document, f"cannot be read: {error.strerror or error}")
    if len(content) > MAX_DOCUMENT_BYTES:
        most = f"larger than {MAX_DOCUMENT_BYTES:,} bytes, the most that is read"
        return refused_document(document, most)
    return RawDocument(_printable_path(path), document, document, content, kind)


def refused_document(document: str, reason: str) -> Refusal:
    """Refusal that stands for this document alone, which has the document as source and place."""
    return Refusal(document, document, reason)


def _refusal(path: str | Path, reason: str) -> Refusal:
    return Refusal(_printable_path(path), "", reason)


def _document_of(path: Path) -> str:
    """Name of a file's document, which is the same for all spellings of the path."""
    return _printable_path(Path(os.path.normpath(path)).as_posix())


def _printable_path(path: str | Path) -> str:
    """Printable name of a file, whose bytes may be no text."""
    return os.fsencode(path).decode(errors="replace")


# -- web addresses ---------------------------------------------------------------------------------

PAGE_TIMEOUT_S = 20
"""Timeout of connecting, of each read, and of the whole content."""

MAX_FETCHED_BYTES = 20_000_000

_CHUNK_BYTES = 65_536

_HEADERS = {
    "User-Agent": "toolcrib",
    "Accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5",
}

_ADVICE_BY_STATUS = {
    **dict.fromkeys((401, 403), "it wants a sign-in: save the document as a file and name that"),
    **dict.fromkeys((404, 410), "check the address"),
    429: "wait a while and try again",
}


def fetch(url: str, clock: Clock | None = None) -> RawDocument | Refusal:
    """Fetch the document of a URL without its fragment, following redirects."""
    # Without the fragment, a place in the page: two fragments would be one document twice.
    url = url.partition("#")[0]
    # People write spaces and letters beyond ASCII unquoted; all other characters stay.
    written = quote(url, safe="%/:=&?~#+!$,;'@()*[]|")
    try:
        asked = request.Request(written, headers=_HEADERS)  # noqa: S310 -- the opener speaks HTTP
        with _web().open(asked, timeout=PAGE_TIMEOUT_S) as opened:
            answer = cast("HTTPResponse", opened)
            content = _read_body(answer, clock or SystemClock())
            headers = answer.headers
            # After redirects, the final address may tell the kind.
            path = unquote(urlsplit(answer.url).path)
    except (OSError, HTTPException, ValueError) as error:
        return Refusal(url, "", _reason(error))
    content_type = headers.get_content_type() if "Content-Type" in headers else ""
    kind = kind_of_type(content_type, path)
    if kind is None:
        what = content_type or "something of a kind that it does not name"
        return Refusal(url, "", f"the server sent {what}; {_READ_KINDS}")
    return RawDocument(url, url, path, content, kind, headers.get_content_charset())


def _web() -> request.OpenerDirector:
    """Opener without the handlers for files and FTP, which a redirect could reach."""
    opener = request.OpenerDirector()
    for handler in (
        *(request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler),
        *(request.HTTPDefaultErrorHandler, request.HTTPRedirectHandler),
        *(request.HTTPErrorProcessor, request.UnknownHandler),
    ):
        opener.add_handler(handler())
    return opener


def _read_body(answer: HTTPResponse, clock: Clock) -> bytes:
    until = clock() + PAGE_TIMEOUT_S
    content = bytearray()
    while chunk := answer.read1(_CHUNK_BYTES):
        content += chunk
        if len(content) > MAX_FETCHED_BYTES:
            size = f"larger than {MAX_FETCHED_BYTES:,} bytes, the most that is fetched"
            raise ValueError(f"{size}: save it as a file and name that")
        if clock() > until:
            raise TimeoutError
    # Reads in pieces do not raise if the connection breaks, so the length is compared.
    promised = answer.headers.get("Content-Length", "")
    if promised.isdecimal() and len(content) < int(promised):
        raise ValueError(f"broke off after {len(content):,} of {int(promised):,} bytes; try again")
    return bytes(content)


def _reason(error: Exception) -> str:
    """Cause and remedy of an error in one line."""
    if isinstance(error, HTTPError):
        error.close()
        otherwise = "try again later, or save it as a file and name that"
        advice = _ADVICE_BY_STATUS.get(error.code, otherwise)
        return f"the server answered {error.code} {' '.join(error.reason.split())}; {advice}"
    cause: Any = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"not here within {PAGE_TIMEOUT_S} s; try again, or save it as a file and name that"
    if isinstance(error, OSError):
        return f"cannot be reached: {cause}; check the address and the network"
    if isinstance(error, HTTPException | UnicodeError):
        return f"cannot be fetched: {error or type(error).__name__}; check the address"
    return str(error)
