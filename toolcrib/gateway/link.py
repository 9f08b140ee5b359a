"""One conversation with a server behind the gateway, from its handshake to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol, cast

import anyio
from mcp import ClientSession, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    METHOD_NOT_FOUND,
    CallToolResult,
    ErrorData,
    Implementation,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib import __version__
from toolcrib.errors import ServiceUnavailableError
from toolcrib.gateway.last_words import LastWords
from toolcrib.gateway.session import RelayingSession, Watched, know_headers
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget, Target
from toolcrib.indexers.readers.mcp_session import (
    Talk,
    connect,
    explain,
    explain_silence,
    is_closed,
    shake_hands,
    turn_pages,
)

__all__ = ["Ears", "Link"]

CLOSING_S = 3.0
"""How long a server may take to end by itself, before it is ended."""

MAX_PAGES = 10_000
MAX_ROUNDS = 20
BETWEEN_ROUNDS_S = 0.25

MADE_UP = ("Server returned an error response", "Not Found", "Session terminated")
"""What the SDK says for a server that answers with an HTTP status instead of an error."""

logger = logging.getLogger(__name__)


class Ears(Protocol):
    """Who hears what a server says of its own accord."""

    async def answer(self, request: InputRequest) -> InputResponse | ErrorData:
        """Answer a question of the server's: elicitation, sampling, roots."""
        ...

    async def hear(self, note: Any) -> None:
        """Take notice of a notification."""
        ...


class Link:
    """A session with one server that stays open; made to be opened once.

    `changed` is set when the server says that its tools are others; `ended` when the
    conversation is over, and then `reason` says why.
    """

    def __init__(self, target: Target, ears: Ears) -> None:
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.reason = ""
        self._ears = ears
        self._talk = Talk(target)
        self._words = LastWords()
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._listing = asyncio.Lock()
        self._hears = False

    # -- life ----------------------------------------------------------------------------------

    async def open(self, timeout_s: float) -> None:
        """Connect and shake hands.

        Raises:
            ServiceUnavailableError: the server cannot be reached; the text says why.
        """
        self._task = asyncio.create_task(self._live())
        try:
            await _first_of(timeout_s, self._ready, self.ended)
        except BaseException:
            await self.close()
            raise
        if self._ready.is_set():
            return
        if not self.ended.is_set():
            self.reason = explain_silence(self._talk, timeout_s, self._words.line)
        await self.close()
        raise ServiceUnavailableError(self.reason)

    async def close(self) -> None:
        """End the conversation, and the server if it is a process that we started."""
        if self._task is None:
            return
        self._stop.set()
        if self._ready.is_set():
            await asyncio.wait({self._task}, timeout=CLOSING_S)
        self._scope.cancel()
        # The SDK's own ending of a process is shielded, and bounded.
        await asyncio.wait({self._task})

    async def _live(self) -> None:
        target = self._talk.target
        try:
            with self._scope, self._words:
                async with (
                    connect(self._talk, self._words.file) as (incoming, outgoing),
                    RelayingSession(
                        Watched(incoming, self._talk, self._stop),
                        outgoing,
                        self._ears,
                        self._notice,
                        Implementation(name="toolcrib", version=__version__),
                    ) as session,
                ):
                    await shake_hands(session)
                    self._session = session
                    self._ready.set()
                    await self._until_stopped(session)
                what = "process ended" if isinstance(target, StdioTarget) else "connection closed"
                words = f"; its last words were {self._words.line!r}" if self._words.line else ""
                self.reason = self.reason or f"its {what}{words}"
        except Exception as error:
            logger.debug("a conversation failed", exc_info=True)
            self.reason = self.reason or explain(self._talk, error, self._words.line)
        finally:
            self.ended.set()

    async def _until_stopped(self, session: ClientSession) -> None:
        async with anyio.create_task_group() as beside:
            if session.protocol_version in MODERN_PROTOCOL_VERSIONS and self._says_changes:
                beside.start_soon(self._listen, session)
            else:
                self._hears = self._says_changes
            await self._stop.wait()
            beside.cancel_scope.cancel()

    async def _listen(self, session: ClientSession) -> None:
        """Hear of changes where the protocol has them asked for."""
        try:
            async with listen(session, tools_list_changed=True) as changes:
                self._hears = True
                async for _ in changes:
                    self.changed.set()
        except (MCPError, SubscriptionLost):
            logger.debug("changes are not told", exc_info=True)
        self._hears = False

    async def _notice(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.changed.set()
        elif not isinstance(message, Exception):
            await self._ears.hear(message)

    # -- what is asked of the server ---------------------------------------------------------

    @property
    def tells_changes(self) -> bool:
        """Whether a change of its tools is surely heard of; it is asked now and then if not.

        Over HTTP the stream of notifications may break without anybody noticing.
        """
        return self._hears and isinstance(self._talk.target, StdioTarget)

    @property
    def _says_changes(self) -> bool:
        offered = self._live_session.server_capabilities
        return bool(offered and offered.tools and offered.tools.list_changed)

    @property
    def _live_session(self) -> ClientSession:
        if self._session is None or self.is_over:
            raise ServiceUnavailableError(self.reason or "the conversation is over")
        return self._session

    async def tools(self) -> list[Any]:
        """All tools, as they came: what is wrong with one does not hide the others.

        Raises:
            MCPError, ServiceUnavailableError: the server failed.
        """
        session = self._live_session
        async with self._listing:
            self.changed.clear()
            self._talk.tools.clear()
            try:
                await turn_pages(session, self._talk, MAX_PAGES)
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
            found = list(self._talk.tools)
            self._talk.tools.clear()
        know_headers(session, found)
        return found

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
    ) -> CallToolResult:
        """Call a tool, and answer what the server wants to know meanwhile.

        Raises:
            MCPError, ServiceUnavailableError: the server failed, or refused the call.
        """
        session = self._live_session
        answers: dict[str, InputResponse] | None = None
        state: str | None = None
        for _ in range(MAX_ROUNDS):
            result = await session.call_tool(
                name,
                arguments,
                progress_callback=progress,
                input_responses=answers,
                request_state=state,
                meta=cast("Any", dict(meta) if meta else None),
                allow_input_required=True,
            )
            if not isinstance(result, InputRequiredResult):
                return result
            state = result.request_state
            asked = result.input_requests or {}
            answers = {key: await self._answered(request) for key, request in asked.items()} or None
            if answers is None:
                await asyncio.sleep(BETWEEN_ROUNDS_S)
        raise ServiceUnavailableError(f"it asks for more input after {MAX_ROUNDS} rounds")

    async def _answered(self, request: InputRequest) -> InputResponse:
        answer = await self._ears.answer(request)
        if isinstance(answer, ErrorData):
            raise MCPError.from_error_data(answer)
        return answer

    async def is_alive(self, timeout_s: float) -> bool:
        """Whether the server answers anything at all."""
        try:
            session = self._live_session
            async with asyncio.timeout(timeout_s):
                if (version := session.protocol_version) in MODERN_PROTOCOL_VERSIONS:
                    await session.send_discover(str(version))
                else:
                    await session.send_ping()
        except MCPError as error:
            over_http = isinstance(self._talk.target, HttpTarget)
            return not is_closed(error) and not (over_http and error.message in MADE_UP)
        except (TimeoutError, ServiceUnavailableError):
            return False
        return True

    @property
    def is_over(self) -> bool:
        """Whether the conversation has ended, or is about to."""
        return self.ended.is_set() or self._stop.is_set()

    def give_up(self, reason: str) -> None:
        """End it for a reason that the server itself has not given."""
        self.reason = self.reason or reason
        self._stop.set()


async def _first_of(timeout_s: float, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, or for so long."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
