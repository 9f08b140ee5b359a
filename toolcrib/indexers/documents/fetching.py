"""One document from a web server: bounded in time and size, and never anything but HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any, Protocol, cast
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit

from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import SourceError

__all__ = ["Fetched", "fetch", "is_url"]

TIMEOUT_SECONDS = 20
"""For connecting, for whatever is waited for, and for all of the content together."""

MAX_BYTES = 20_000_000

_CHUNK = 65_536

_ASKED_FOR = "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5"

_ADVICE = {
    401: "it wants a sign-in: save the document as a file and name that",
    403: "it wants a sign-in: save the document as a file and name that",
    404: "check the address",
    410: "check the address",
    429: "wait a while and try again",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server sent: `path` is that of the address that redirects ended at."""

    content: bytes
    content_type: str
    charset: str | None
    path: str


class _Answer(Protocol):
    headers: Message
    url: str

    def read1(self, size: int) -> bytes: ...


def is_url(name: str) -> bool:
    """Whether a source is named by a web address."""
    return name.lower().startswith(("http://", "https://"))


def fetch(url: str, clock: Clock | None = None) -> Fetched:
    """Get what a URL stands for, following redirects.

    Raises:
        SourceError: no answer in time, an answer that is no document, or one that is too large.
    """
    try:
        with _web().open(_asking(url), timeout=TIMEOUT_SECONDS) as opened:
            answer = cast("_Answer", opened)
            return Fetched(
                _read(answer, clock or SystemClock()),
                answer.headers.get_content_type() if "Content-Type" in answer.headers else "",
                answer.headers.get_content_charset(),
                unquote(urlsplit(answer.url).path),
            )
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(url, "", _reason(error)) from error


def _asking(url: str) -> request.Request:
    # Letters beyond ASCII and spaces are as people write them; the rest is the server's.
    written = quote(url, safe="%/:=&?~#+!$,;'@()*[]|")
    headers = {"User-Agent": "toolcrib", "Accept": _ASKED_FOR}
    return request.Request(written, headers=headers)  # noqa: S310 -- the opener speaks only HTTP


def _web() -> request.OpenerDirector:
    """Give an opener without the handlers for files and FTP that a redirect could reach."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _read(answer: _Answer, clock: Clock) -> bytes:
    until = clock() + TIMEOUT_SECONDS
    content = bytearray()
    while chunk := answer.read1(_CHUNK):
        content += chunk
        if len(content) > MAX_BYTES:
            raise ValueError(
                f"larger than {MAX_BYTES:,} bytes, which is the most that is fetched: save it as "
                "a file and name that",
            )
        if clock() > until:
            raise TimeoutError
    # Reading piece by piece, a connection that broke looks like one that ended.
    promised = answer.headers.get("Content-Length", "")
    if promised.isdecimal() and len(content) < int(promised):
        raise ValueError(f"broke off after {len(content):,} of {int(promised):,} bytes; try again")
    return bytes(content)


def _reason(error: Exception) -> str:
    """Say what went wrong and what to do, in a line."""
    if isinstance(error, HTTPError):
        error.close()
        advice = _ADVICE.get(error.code, "try again later, or save it as a file and name that")
        return f"the server answered {error.code} {' '.join(error.reason.split())}; {advice}"
    cause: Any = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"not here within {TIMEOUT_SECONDS} s; try again, or save it as a file and name that"
    if isinstance(error, OSError):
        return f"cannot be reached: {cause}; check the address and the network"
    if isinstance(error, HTTPException | UnicodeError):
        return f"cannot be fetched: {error or type(error).__name__}; check the address"
    return str(error)
