"""One conversation with a live MCP server: connect, shake hands, follow the pages."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias

from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget, Target
from toolcrib.indexers.readers.base import MAX_SOURCE_BYTES

if TYPE_CHECKING:
    import httpx2
    from mcp import ClientSession, MCPError
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

    Connection: TypeAlias = AbstractAsyncContextManager[TransportStreams]

__all__ = [
    "EndlessListError",
    "Talk",
    "Tap",
    "connect",
    "follow",
    "is_closed",
    "quiet_sdk",
    "shake_hands",
    "turn_pages",
]


class EndlessListError(Exception):
    """The server hands out cursors that lead nowhere; its text says how that was noticed."""


@dataclass(slots=True)
class Talk:
    """What is known of a conversation so far; filled while it goes on, read when it fails.

    `asked` is the request in flight, `noise` what came over the wire that is not JSON-RPC,
    `status` and `content_type` are those of the last HTTP answer (0 when there was none).
    """

    target: Target
    asked: str = "initialize"
    server: str = ""
    tools: list[Any] = field(default_factory=list[Any])
    complete: bool = False
    noise: list[Exception] = field(default_factory=list[Exception])
    status: int = 0
    content_type: str = ""


async def follow(talk: Talk, stderr: TextIO, max_pages: int) -> None:
    """Connect and collect every page into `talk`; the server's stderr goes to `stderr`.

    Raises:
        EndlessListError: a cursor came back, or there are more than `max_pages`.
        Exception: whatever the transport, the SDK or the server's answer fails with.
    """
    from mcp import ClientSession
    from mcp.types import Implementation

    us = Implementation(name="toolcrib", version=_version())
    async with connect(talk, stderr) as (incoming, outgoing):
        tap = Tap(incoming, talk)
        async with ClientSession(tap, outgoing, client_info=us) as session:
            await shake_hands(session)
            talk.server = session.server_info.name if session.server_info else ""
            await turn_pages(session, talk, max_pages)
            talk.complete = True


async def shake_hands(session: ClientSession) -> None:
    """Agree on a version of the protocol, the old way first, which all servers survive.

    Raises:
        MCPError: the server refuses, or ended.
    """
    from mcp import MCPError

    # Many servers end themselves at any other first message than `initialize` (rmcp before 3.0
    # does), so the SDK's own order, to probe with `server/discover`, would lose them.
    try:
        await session.initialize()
    except MCPError as refusal:
        if is_closed(refusal):
            raise
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValueError):
            # Neither old nor new: what it said to the handshake that all speak is the reason.
            raise refusal from None


def is_closed(error: MCPError) -> bool:
    """Whether the SDK made this error up because the connection ended.

    Its code does not say so: -32000 is also the code that most servers choose for errors of
    their own.
    """
    from mcp.types import CONNECTION_CLOSED

    words = ("Connection closed", "SSE stream ")
    return error.code == CONNECTION_CLOSED and error.message.startswith(words)


async def turn_pages(session: ClientSession, talk: Talk, max_pages: int) -> None:
    """Ask for every page of tools; a `Tap` on the session's stream puts them into `talk`.

    Raises:
        EndlessListError: a cursor came back, or there are more than `max_pages`.
    """
    from mcp.types import PaginatedRequestParams

    seen: set[str] = set()
    cursor: str | None = None
    for page in range(1, max_pages + 1):
        talk.asked = "tools/list" if page == 1 else f"tools/list (page {page})"
        answer = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        cursor = answer.next_cursor
        # Some servers write an empty cursor for "no more".
        if not cursor:
            return
        if cursor in seen:
            raise EndlessListError(f"after page {page} it gave the cursor {cursor!r} again")
        seen.add(cursor)
    raise EndlessListError(f"after {max_pages:,} pages it still names a next one")


class Tap:
    """A read stream that takes the tools out of every page before the session sees it.

    The session refuses a whole page for one tool that does not fit its models. We judge
    tools one by one, so that a bad one loses no good one beside it.
    """

    def __init__(self, inner: ReadStream[SessionMessage | Exception], talk: Talk) -> None:
        self._inner = inner
        self._talk = talk

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or what came in its place."""
        return self._look_at(await self._inner.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._look_at(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    def _look_at(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        from mcp.types import JSONRPCResponse

        if isinstance(item, Exception):
            self._talk.noise.append(item)
            return item
        message = item.message
        if not isinstance(message, JSONRPCResponse) or not isinstance(
            message.result.get("tools"), list
        ):
            return item
        self._talk.tools.extend(message.result["tools"])
        emptied = message.model_copy(update={"result": {**message.result, "tools": []}})
        return replace(item, message=emptied)


def connect(talk: Talk, stderr: TextIO) -> Connection:
    """The streams to the server that `talk` is with; its stderr goes to `stderr`."""
    target = talk.target
    if isinstance(target, StdioTarget):
        from mcp import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=target.command,
            args=list(target.args),
            env=dict(target.env),
            cwd=target.cwd,
            # A stray byte in a log line must not end the conversation.
            encoding_error_handler="replace",
        )
        return stdio_client(parameters, errlog=stderr)
    return _sse(target, talk) if target.sse else _streamable(target, talk)


@asynccontextmanager
async def _streamable(target: HttpTarget, talk: Talk) -> AsyncGenerator[TransportStreams]:
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _http_client(talk, dict(target.headers)) as client,
        # Registries come in one event; the SDK's 1 MiB would cut a list of a few thousand tools.
        streamable_http_client(
            target.url, http_client=client, max_sse_event_size=MAX_SOURCE_BYTES
        ) as streams,
    ):
        yield streams


def _sse(target: HttpTarget, talk: Talk) -> Connection:
    from mcp.client.sse import sse_client

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        # Tokens come in the headers, and the limit around the whole conversation holds.
        del timeout, auth
        return _http_client(talk, headers)

    return sse_client(target.url, headers=dict(target.headers), httpx_client_factory=client)


def _http_client(talk: Talk, headers: dict[str, str] | None) -> httpx2.AsyncClient:
    import httpx2

    async def note(response: httpx2.Response) -> None:
        # The GET stream beside the POSTs is optional: that it was refused says nothing.
        if response.request.method == "POST" or (talk.status == 0 and not talk.server):
            talk.status = response.status_code
            talk.content_type = response.headers.get("content-type", "").partition(";")[0]

    # No time limit of its own: the one around the whole conversation holds.
    return httpx2.AsyncClient(headers=headers, timeout=None, event_hooks={"response": [note]})


@contextmanager
def quiet_sdk() -> Generator[None]:
    """Keep the SDK's tracebacks off the screen of an application that configured no logging.

    Python prints warnings of loggers without a handler to stderr; a handler that does nothing
    stops that, and an application with handlers of its own still gets every record.
    """
    loggers = [logging.getLogger(name) for name in ("mcp", "client")]
    handler = logging.NullHandler()
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def _version() -> str:
    try:
        return version("toolcrib")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
