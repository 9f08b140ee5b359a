"""Why a live MCP server could not be listed, in one line that says what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from pydantic import ValidationError

from toolcrib.indexers.readers.mcp_session import EndlessListError, Talk, is_closed
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget

if TYPE_CHECKING:
    from mcp import MCPError

__all__ = ["explain", "explain_silence", "last_line"]

MAX_QUOTE_CHARS = 200
"""Longer quotes of what a server wrote are cut: a refusal is one line."""

STDERR_TAIL_BYTES = 8192

REDIRECTION, CLIENT_ERROR, SERVER_ERROR = 300, 400, 500
"""Where the classes of HTTP status begin."""

PATH_HINTS = {False: "which often ends in /mcp", True: "which often ends in /sse"}


def explain_silence(talk: Talk, timeout_s: float, last_words: str) -> str:
    """Give the reason for a server that did not finish within `timeout_s` seconds."""
    reason = f"gave no answer to {talk.asked} within {timeout_s:g} s"
    return _with_context(reason, talk, last_words)


def explain(talk: Talk, error: Exception, last_words: str) -> str:
    """Give the reason for `error`, which ended the conversation; `last_words` are from stderr."""
    from mcp import MCPError

    cause = next(_leaves(error))
    if isinstance(cause, EndlessListError):
        reason = f"lists tools without end: {cause}"
    elif isinstance(cause, ValidationError):
        reason = f"answered {talk.asked} with something that is not MCP: {_first_fault(cause)}"
    elif isinstance(talk.target, HttpTarget) and _is_stranger(talk, cause):
        reason = _stranger(talk, talk.target)
    elif isinstance(cause, MCPError):
        reason = _refused(talk, cause)
    elif isinstance(talk.target, HttpTarget):
        reason = _not_reached(cause)
    else:
        reason = _not_started(talk, talk.target, cause)
    return _with_context(reason, talk, last_words)


def last_line(stderr: TextIO) -> str:
    """Give the last line that is not blank, cut to be quoted; empty when there is none."""
    descriptor = stderr.fileno()
    # By descriptor: the text layer seeks only to places that it told, and a talkative
    # server may have written more than should be read.
    end = os.lseek(descriptor, 0, os.SEEK_END)
    os.lseek(descriptor, max(0, end - STDERR_TAIL_BYTES), os.SEEK_SET)
    lines = os.read(descriptor, STDERR_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    return next((_cut(line) for line in reversed(lines) if line.strip()), "")


def _is_stranger(talk: Talk, cause: Exception) -> bool:
    """Tell whether what answered the first request is some web server, not an MCP server."""
    from httpx2 import HTTPStatusError, SSEError
    from mcp import MCPError
    from mcp.types import PARSE_ERROR

    if talk.server or not talk.status or REDIRECTION <= talk.status < CLIENT_ERROR:
        return False
    if isinstance(cause, (HTTPStatusError, SSEError)):
        return True
    if not isinstance(cause, MCPError):
        return False
    if talk.content_type not in ("application/json", "text/event-stream"):
        return True
    # The SDK puts these words in for an answer without a JSON-RPC error of the server's own.
    made_up = ("Server returned an error response", "Not Found")
    return cause.code == PARSE_ERROR or (talk.status >= CLIENT_ERROR and cause.message in made_up)


def _stranger(talk: Talk, target: HttpTarget) -> str:
    if talk.status in (401, 403):
        return (
            f"asks for authorization (HTTP {talk.status}): "
            'put a token under "headers" of its entry in an mcp.json'
        )
    said = f"HTTP {talk.status}" + (f" ({talk.content_type})" if talk.content_type else "")
    if talk.status >= SERVER_ERROR:
        return f"is out of order: it answered {talk.asked} with {said}; try again later"
    hint = f"check the path, {PATH_HINTS[target.sse]}"
    if talk.status in (404, 405) and not target.sse:
        hint += ', or give it "type": "sse" in an mcp.json if it speaks that older transport'
    return f"is no MCP endpoint: it answered {talk.asked} with {said}; {hint}"


def _refused(talk: Talk, error: MCPError) -> str:
    from mcp.types import METHOD_NOT_FOUND

    if is_closed(error):
        what = "process ended" if isinstance(talk.target, StdioTarget) else "connection closed"
        return f"its {what} before it answered {talk.asked}"
    if error.code == METHOD_NOT_FOUND and talk.asked == "tools/list":
        return f"offers no tools: it answered tools/list with {_cut(error.message)!r}"
    return f"answered {talk.asked} with the error {_cut(error.message)!r} (code {error.code})"


def _not_reached(cause: Exception) -> str:
    from httpx2 import ConnectError

    hint = "; is it running there?" if isinstance(cause, ConnectError) else ""
    return f"cannot be reached: {_words(cause)}{hint}"


def _not_started(talk: Talk, target: StdioTarget, cause: Exception) -> str:
    if talk.asked != "initialize" or not isinstance(cause, (OSError, ValueError)):
        return f"failed at {talk.asked}: {_words(cause)}"
    if isinstance(cause, OSError) and target.cwd is not None and cause.filename == target.cwd:
        return f"its folder {target.cwd!r} cannot be entered: {cause.strerror}; correct 'cwd'"
    if isinstance(cause, FileNotFoundError):
        return f"there is no command {target.command!r}: install it, or write its full path"
    return f"the command {target.command!r} cannot be started: {_words(cause)}"


def _with_context(reason: str, talk: Talk, last_words: str) -> str:
    """Add what helps to understand the reason: what the server wrote, what was saved."""
    parts = [reason]
    if last_words:
        parts.append(f"its last words were {last_words!r}")
    if talk.noise:
        parts.append(f"among its answers was something that is not MCP: {_noise(talk.noise[0])!r}")
    if talk.tools:
        parts.append(f"tools kept from before that: {len(talk.tools):,}")
    return "; ".join(parts)


def _noise(error: Exception) -> str:
    if isinstance(error, ValidationError):
        received: Any = error.errors(include_url=False)[0]["input"]
        return _cut(str(received))
    return _cut(str(error))


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"])
    return f"{place}: {fault['msg']}" if place else fault["msg"]


def _leaves(error: Exception) -> Iterator[Exception]:
    """Yield the errors inside the groups that task groups wrap them in."""
    if isinstance(error, ExceptionGroup):
        for inner in cast("ExceptionGroup[Exception]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _words(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _cut(said).rstrip(".") or type(error).__name__


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_QUOTE_CHARS else line[: MAX_QUOTE_CHARS - 1] + "…"
