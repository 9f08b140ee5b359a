"""MCP session: connects to a live server, reads all pages of a list, and explains failures."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from toolcrib.extras import quiet_loggers
from toolcrib.indexers.readers.base import MAX_SOURCE_BYTES
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget, Target
from toolcrib.records.codec import in_words
from toolcrib.text import shorten

if TYPE_CHECKING:
    import httpx2
    from mcp import ClientSession, MCPError
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp.types import Implementation, PaginatedRequestParams, PaginatedResult

    Connection: TypeAlias = AbstractAsyncContextManager[TransportStreams]

SessionT = TypeVar("SessionT", bound="ClientSession")

# -- sessions --------------------------------------------------------------------------------------


class ListError(Exception):
    """The server's list cannot be read; the text is the reason."""


@dataclass(slots=True)
class SessionState:
    """State of a session, filled during the session and read after a failure.

    `auth` authorises requests over HTTP; `request` is the request in flight. `unreadable` has
    received data that is not JSON-RPC. `status` and `content_type` are those of the last HTTP
    answer (status 0 without one). `failure` is the reason why `tools` is incomplete, else empty.
    `others`: unparsed items of other lists that are being read, by the name of the list.
    """

    target: Target
    auth: httpx2.Auth | None = None
    request: str = "initialize"
    server: str = ""
    tools: list[Any] = field(default_factory=list[Any])
    others: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    complete: bool = False
    unreadable: list[Exception] = field(default_factory=list[Exception])
    status: int = 0
    content_type: str = ""
    failure: str = ""


def _no_login(_target: Target) -> httpx2.Auth | None:
    pass


class Authorisation:
    """Authorisation of readers' requests by kept logins; `of` is its look-up by target."""

    of: Callable[[Target], httpx2.Auth | None] = staticmethod(_no_login)


Follow: TypeAlias = Callable[[SessionState, TextIO, int], Awaitable[None]]
"""Function that connects to a server and collects every page of a list."""


async def follow(state: SessionState, stderr: TextIO, max_pages: int) -> None:
    """Connect and collect every page into `state`; the server's stderr goes to `stderr`."""
    from mcp import ClientSession

    def start(incoming: Any, outgoing: Any) -> ClientSession:
        return ClientSession(Tap(incoming, state), outgoing, client_info=implementation())

    async with open_session(state, stderr, start) as session:
        state.server = session.server_info.name if session.server_info else ""
        await list_pages(session, state, max_pages)
        state.complete = True


@asynccontextmanager
async def open_session(
    state: SessionState, stderr: TextIO, start: Callable[[Any, Any], SessionT]
) -> AsyncGenerator[SessionT]:
    """Open an initialized session with the server of `state`; `start` makes it of two streams.

    If a URL without a type refuses a POST, server-sent events are tried.
    """

    async def enter() -> SessionT:
        async with AsyncExitStack() as attempt:
            incoming, outgoing = await attempt.enter_async_context(connect(state, stderr))
            session = await attempt.enter_async_context(start(incoming, outgoing))
            await initialize(session)
            stack.push_async_exit(attempt.pop_all())
        return session

    async with AsyncExitStack() as stack:
        try:
            session = await enter()
        except Exception:
            target, status, kind = state.target, state.status, state.content_type
            is_refused = status in CLIENT_ERRORS and status not in UNAUTHORISED_STATUSES
            if not (is_refused and isinstance(target, HttpTarget) and target.sse is None):
                raise
            state.target, session = replace(target, sse=True), None
            with suppress(Exception):
                session = await enter()
            if session is None:
                # If both transports are refused, the first refusal is more useful.
                state.target, state.status, state.content_type = target, status, kind
                raise
        yield session


async def initialize(session: ClientSession) -> None:
    """Agree on a version of the protocol, by the old handshake first, which all servers accept."""
    from mcp import MCPError

    # Not in the SDK's order: many servers (such as rmcp before 3.0) exit on any first message other
    # than `initialize`, and so would exit on the SDK's probe with `server/discover`.
    try:
        await session.initialize()
    except MCPError as refusal:
        if is_closed(refusal):
            raise
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValueError):
            # Both handshakes failed: the refusal of the old one, which all servers know, counts.
            raise refusal from None


def is_closed(error: MCPError) -> bool:
    """True if the SDK itself raised this error because the connection ended.

    Its code, -32000, is no sign: most servers use it for their own errors too.
    """
    from mcp.types import CONNECTION_CLOSED

    words = ("Connection closed", "SSE stream ")
    return error.code == CONNECTION_CLOSED and error.message.startswith(words)


async def list_pages(session: ClientSession, state: SessionState, max_pages: int) -> None:
    """Request every page of tools; a `Tap` on the session's stream puts them into `state`."""
    await follow_cursors("tools/list", lambda p: session.list_tools(params=p), state, max_pages)


async def follow_cursors(
    method: str,
    ask: Callable[[PaginatedRequestParams], Awaitable[PaginatedResult]],
    state: SessionState,
    max_pages: int,
) -> None:
    """Request every page of a list.

    Raises:
        ListError: a cursor was repeated, or there are more than `max_pages`.
    """
    from mcp.types import PaginatedRequestParams

    endless = "lists tools without end: after"
    seen: set[str] = set()
    cursor: str | None = None
    for page in range(1, max_pages + 1):
        state.request = method if page == 1 else f"{method} (page {page})"
        answer = await ask(PaginatedRequestParams(cursor=cursor))
        cursor = answer.next_cursor
        # Some servers end the list with an empty cursor.
        if not cursor:
            return
        if cursor in seen:
            raise ListError(f"{endless} page {page} it gave the cursor {cursor!r} again")
        seen.add(cursor)
    raise ListError(f"{endless} {max_pages:,} pages it still names a next one")


class Tap:
    """A read stream that takes the items out of every page before the session reads it.

    The session would refuse a whole page for one invalid item. Here each item is validated by
    itself, so that valid items beside it are kept.
    """

    def __init__(self, inner: ReadStream[SessionMessage | Exception], state: SessionState) -> None:
        self._inner = inner
        self._state = state

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or an error in its place."""
        return self._look_at(await self._inner.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._look_at(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.aclose()

    def _look_at(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        from mcp.types import JSONRPCResponse

        if isinstance(item, Exception):
            item = _without_half_characters(item)
        if isinstance(item, Exception):
            self._state.unreadable.append(item)
            return item
        message = item.message
        result = message.result if isinstance(message, JSONRPCResponse) else {}
        lists = {"tools": self._state.tools, **self._state.others}
        emptied = {name: list[Any]() for name in lists if isinstance(result.get(name), list)}
        if not emptied:
            return item
        for name in emptied:
            lists[name].extend(result[name])
        return replace(item, message=message.model_copy(update={"result": result | emptied}))


def _without_half_characters(error: Exception) -> SessionMessage | Exception:
    """Message of a line that only lone surrogates make unreadable, or the error of another line.

    Servers in JavaScript send them where they cut a text within an emoji.
    """
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    if isinstance(error, ValidationError):
        line = error.errors(include_url=False)[0]["input"]
        with suppress(TypeError, ValueError, RecursionError):
            text = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    return error


def connect(state: SessionState, stderr: TextIO) -> Connection:
    """Streams to the server of `state`; the server's stderr goes to `stderr`."""
    target = state.target
    if isinstance(target, StdioTarget):
        from mcp import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=target.command,
            args=list(target.args),
            env=dict(target.env),
            cwd=target.cwd,
            # An invalid byte in a log line must not end the session.
            encoding_error_handler="replace",
        )
        return stdio_client(parameters, errlog=stderr)
    return _sse(target, state) if target.sse else _streamable(target, state)


@asynccontextmanager
async def _streamable(target: HttpTarget, state: SessionState) -> AsyncGenerator[TransportStreams]:
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _http_client(state, dict(target.headers)) as client,
        # A list comes in one event; the SDK's 1 MiB is too little for a few thousand tools.
        streamable_http_client(
            target.url, http_client=client, max_sse_event_size=MAX_SOURCE_BYTES
        ) as streams,
    ):
        yield streams


def _sse(target: HttpTarget, state: SessionState) -> Connection:
    from mcp.client.sse import sse_client

    # Headers have the tokens, and the whole session has a timeout: other arguments are ignored.
    def client(headers: dict[str, str] | None = None, *_: Any, **_more: Any) -> httpx2.AsyncClient:
        return _http_client(state, headers)

    return sse_client(target.url, headers=dict(target.headers), httpx_client_factory=client)


MAX_ANSWER_BYTES = MAX_SOURCE_BYTES
"""Size of an answer over HTTP; a stream of events may be longer, since it is read by events."""


async def _bound(response: httpx2.Response) -> None:
    """Fail for a body that is too large, compressed (so of any size), or cut off.

    The SDK ends the request for a `StreamError` alone; other errors leave it without an answer.
    """
    import httpx2

    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return
    body = cast("httpx2.AsyncByteStream", response.stream)

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            if "content-encoding" in response.headers:
                raise httpx2.StreamError("the answer is compressed, which is not read")
            size = 0
            try:
                async for chunk in body:
                    size += len(chunk)
                    if size > MAX_ANSWER_BYTES:
                        most = f"{MAX_ANSWER_BYTES:,} bytes, the most that is read"
                        raise httpx2.StreamError(f"the answer has more than {most}")
                    yield chunk
            except httpx2.TransportError as error:
                raise httpx2.StreamError(
                    "the connection ended within the answer; the request may have taken effect"
                ) from error

        async def aclose(self) -> None:
            await body.aclose()

    response.stream = Bounded()


def _http_client(state: SessionState, headers: dict[str, str] | None) -> httpx2.AsyncClient:
    import httpx2

    async def note(response: httpx2.Response) -> None:
        # The GET stream beside the POSTs is optional, so its refusal does not count; nor does a
        # form, which renews a login at another server.
        if "form" in response.request.headers.get("content-type", ""):
            return
        if response.request.method == "POST" or (state.status == 0 and not state.server):
            state.status = response.status_code
            state.content_type = response.headers.get("content-type", "").partition(";")[0]

    # No timeout here: the whole session has one.
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **(headers or {})},
        auth=state.auth,
        timeout=None,
        event_hooks={"response": [note, _bound]},
    )


def quiet_sdk() -> AbstractContextManager[None]:
    """Keep the SDK's tracebacks off the screen of an application that configured no logging."""
    return quiet_loggers("mcp", "client")


def implementation() -> Implementation:
    """Our name and version for servers."""
    from mcp.types import Implementation

    try:
        return Implementation(name="toolcrib", version=version("toolcrib"))
    except PackageNotFoundError:  # a checkout that is not installed
        return Implementation(name="toolcrib", version="unknown")


# -- reasons of failure ----------------------------------------------------------------------------

MAX_QUOTE_CHARS = 200
"""Most characters quoted of a server's text, as a refusal is one line."""

STDERR_TAIL_BYTES = 8192

REDIRECTIONS, CLIENT_ERRORS = range(300, 400), range(400, 500)

PATH_HINTS = {False: "/mcp", True: "/sse", None: "/mcp or /sse"}


def explain_timeout(state: SessionState, timeout_s: float, stderr_line: str) -> str:
    """Reason for a server that did not finish within `timeout_s` seconds."""
    reason = f"gave no answer to {state.request} within {timeout_s:g} s"
    return _with_context(reason, state, stderr_line)


def explain(state: SessionState, error: Exception, stderr_line: str) -> str:
    """Reason for `error`, which ended the session; `stderr_line` is the last line of stderr."""
    from mcp import MCPError

    cause = error
    # Task groups wrap errors.
    while isinstance(cause, ExceptionGroup):
        cause = cast("ExceptionGroup[Exception]", cause).exceptions[0]
    if isinstance(cause, ListError):
        reason = str(cause)
    elif isinstance(cause, ValidationError):
        wrong = in_words(cause, "its answer")
        reason = f"answered {state.request} with something that is not MCP: {wrong}"
    elif isinstance(state.target, HttpTarget) and _is_no_mcp_server(state, cause):
        reason = _no_mcp_reason(state, state.target)
    elif isinstance(cause, MCPError):
        reason = _error_reason(state, cause)
    elif isinstance(state.target, HttpTarget):
        reason = _unreachable_reason(cause)
    else:
        reason = _start_reason(state, state.target, cause)
    return _with_context(reason, state, stderr_line)


def last_line(stderr: TextIO) -> str:
    """Last line that is not blank, shortened; empty if there is none."""
    descriptor = stderr.fileno()
    # By descriptor, as a text file cannot seek to any place, and stderr may be too long to read.
    end = os.lseek(descriptor, 0, os.SEEK_END)
    os.lseek(descriptor, max(0, end - STDERR_TAIL_BYTES), os.SEEK_SET)
    lines = os.read(descriptor, STDERR_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    return next((_quote(line) for line in reversed(lines) if line.strip()), "")


def _is_no_mcp_server(state: SessionState, cause: Exception) -> bool:
    """True if the first request was answered by a web server that is no MCP server."""
    from httpx2 import HTTPStatusError, SSEError
    from mcp import MCPError
    from mcp.types import PARSE_ERROR

    if state.server or not state.status or state.status in REDIRECTIONS:
        return False
    if isinstance(cause, (HTTPStatusError, SSEError)):
        return True
    if not isinstance(cause, MCPError):
        return False
    if state.content_type not in ("application/json", "text/event-stream"):
        return True
    # The SDK's own words for an answer without a JSON-RPC error.
    made_up = ("Server returned an error response", "Not Found")
    is_error = state.status >= CLIENT_ERRORS.start
    return cause.code == PARSE_ERROR or (is_error and cause.message in made_up)


UNAUTHORISED_STATUSES = (401, 403)


def _no_mcp_reason(state: SessionState, target: HttpTarget) -> str:
    if state.status in UNAUTHORISED_STATUSES:
        if target.has_authorization:
            return (
                f"refuses the header Authorization of its entry (HTTP {state.status}): "
                "put a valid token there"
            )
        return (
            f'asks for authorization (HTTP {state.status}): put a token under "headers" of its '
            "entry in an mcp.json, or log in with `toolcrib gateway login NAME`"
        )
    said = f"HTTP {state.status}" + (f" ({state.content_type})" if state.content_type else "")
    if state.status >= CLIENT_ERRORS.stop or state.status == HTTPStatus.TOO_MANY_REQUESTS:
        return f"is out of order: it answered {state.request} with {said}; try again later"
    hint = f"check the path, which often ends in {PATH_HINTS[target.sse]}"
    if state.status in (404, 405) and target.sse is False:
        hint += ', or give it "type": "sse" in an mcp.json if it speaks that older transport'
    return f"is no MCP endpoint: it answered {state.request} with {said}; {hint}"


def _error_reason(state: SessionState, error: MCPError) -> str:
    from mcp.types import METHOD_NOT_FOUND

    if is_closed(error):
        what = "process ended" if isinstance(state.target, StdioTarget) else "connection closed"
        return f"its {what} before it answered {state.request}"
    if error.code == METHOD_NOT_FOUND and state.request == "tools/list":
        return f"offers no tools: it answered tools/list with {_quote(error.message)!r}"
    return f"answered {state.request} with the error {_quote(error.message)!r} (code {error.code})"


def _unreachable_reason(cause: Exception) -> str:
    from httpx2 import ConnectError
    from mcp.client.auth import OAuthFlowError

    if isinstance(cause, OAuthFlowError):
        words = _error_words(cause)
        return f'gave no login: {words}; a token may stand under "headers" of its entry'
    hint = "; is it running there?" if isinstance(cause, ConnectError) else ""
    return f"cannot be reached: {_error_words(cause)}{hint}"


def _start_reason(state: SessionState, target: StdioTarget, cause: Exception) -> str:
    if state.request != "initialize" or not isinstance(cause, (OSError, ValueError)):
        return f"failed at {state.request}: {_error_words(cause)}"
    if isinstance(cause, OSError) and target.cwd is not None and cause.filename == target.cwd:
        return f"its folder {target.cwd!r} cannot be entered: {cause.strerror}; correct 'cwd'"
    if isinstance(cause, FileNotFoundError):
        hint = ", or put its arguments under 'args'" if len(target.command.split()) > 1 else ""
        return f"there is no command {target.command!r}: install it, or write its full path{hint}"
    return f"the command {target.command!r} cannot be started: {_error_words(cause)}"


def _with_context(reason: str, state: SessionState, stderr_line: str) -> str:
    """Add the server's stderr, unreadable output, and the number of tools read before."""
    parts = [reason]
    if stderr_line:
        parts.append(f"stderr ended with {stderr_line!r}")
    for first in state.unreadable[:1]:
        wrong = isinstance(first, ValidationError)
        said: Any = first.errors(include_url=False)[0]["input"] if wrong else first
        parts.append(f"among its answers was something that is not MCP: {_quote(str(said))!r}")
    if state.tools:
        parts.append(f"tools kept from before that: {len(state.tools):,}")
    return "; ".join(parts)


def _error_words(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _quote(said).rstrip(".") or type(error).__name__


def _quote(text: str) -> str:
    return shorten(" ".join(text.split()), MAX_QUOTE_CHARS)
