"""Downstream: the clients of the gateway, what they ask, and what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, TypeVar

from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    DiscoverResult,
    ElicitRequest,
    ElicitResult,
    ErrorData,
    InitializeRequest,
    InitializeResult,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PromptListChangedNotification,
    PromptsCapability,
    RequestId,
    ResourceListChangedNotification,
    ResourcesCapability,
    ServerCapabilities,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolListChangedNotification,
    ToolsCapability,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.caches import BoundedMap
from toolcrib.gateway.auth import grant

__all__ = [
    "MAX_CONVERSATIONS",
    "SHARED",
    "ClientRequest",
    "Handshake",
    "InputAnswer",
    "Level",
    "Notifications",
    "Reporter",
    "conversation_key",
]

MAX_CONVERSATIONS = 10_000
"""Conversations that something is remembered of; the longest unused are forgotten."""

SHARED = ""
"""The key of those who cannot be told from one another."""

Hello = TypeVar("Hello", InitializeResult, DiscoverResult)

InputAnswer: TypeAlias = InputResponse | ErrorData

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Reporter: TypeAlias = Callable[[Level, str], None]
"""Tells the operator in one line that something happened; may be called from any thread."""

CAPABILITIES = {
    CreateMessageRequest: "sampling",
    ElicitRequest: "elicitation",
    ListRootsRequest: "roots",
}

PROGRESS_TOKENS = ("progress_token", "progressToken")
"""How a request names what its progress is reported under: as a field, and as it was sent."""

LISTS = {
    "tools": (ToolListChangedNotification, ToolsListChanged),
    "prompts": (PromptListChangedNotification, PromptsListChanged),
    "resources": (ResourceListChangedNotification, ResourcesListChanged),
}
"""What clients are told of a list that changed, before 2026 and since."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The lightest first."""


def conversation_key(context: Context) -> str:
    """What tells one conversation from another: the session, or else who holds the API key."""
    if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return f"session {context.session_id}"
    token = get_access_token()
    return f"key {token.client_id}" if token is not None and token.client_id else SHARED


def _reaches(level: str, least: str | None) -> bool:
    return least is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request, and the way back to who sent it.

    `key` is the same for all requests of one conversation. `least_level` is the lightest level
    of log entries that the client wants, None for no entries.
    """

    key: str
    session: ServerSession
    request_id: RequestId
    least_level: str | None = None
    wants_progress: bool = False

    @classmethod
    def of(cls, context: Context, least_level: str) -> Self:
        """The request that is being answered; `least_level` is the conversation's."""
        asked = context.request_context
        meta = (asked.meta or {}) if asked is not None else {}
        level: str | None = least_level
        if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Since 2026 a client says so with each request.
            wanted = meta.get(LOG_LEVEL_META_KEY)
            level = wanted if wanted in LOG_LEVELS else None
        wants_progress = any(meta.get(name) is not None for name in PROGRESS_TOKENS)
        key = conversation_key(context)
        return cls(key, context.session, context.request_id, level, wants_progress)

    @property
    def can_be_asked(self) -> bool:
        """Whether the client takes requests; since 2026 they come as the result of its call."""
        return self.session.can_send_request

    def refusal(self, request: InputRequest) -> ErrorData | None:
        """Why the client cannot be asked this, None where it can."""
        name = CAPABILITIES[type(request)]
        able = self.session.client_capabilities
        if able is not None and getattr(able, name) is not None:
            return None
        return ErrorData(
            code=METHOD_NOT_FOUND,
            message=f"the client in front of the gateway does not support {name}",
        )

    async def ask(self, request: InputRequest) -> InputAnswer:
        """Send a server's question to the client, and wait for the answer."""
        about = ServerMessageMetadata(related_request_id=self.request_id)
        expected: Any = ElicitResult if isinstance(request, ElicitRequest) else ListRootsResult
        if isinstance(request, CreateMessageRequest):
            with_tools = request.params.tools or request.params.tool_choice
            expected = CreateMessageResultWithTools if with_tools else CreateMessageResult
        try:
            return await self.session.send_request(request, expected, metadata=about)
        except NoBackChannelError:
            return ErrorData(code=INVALID_REQUEST, message="the caller is gone")
        except MCPError as refused:
            return refused.error

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far the call is, if the client wants to know."""
        await self.session.report_progress(progress, total, message)

    async def notify(self, note: Any) -> None:
        """Pass a server's notification on as it is."""
        if isinstance(note, LoggingMessageNotification) and not _reaches(
            note.params.level, self.least_level
        ):
            return
        await self.session.send_notification(note, self.request_id)


class Handshake(Middleware):
    """Handshake: what a client is told of this server when it comes.

    `instructions` gives them for a conversation, by its key. Tools, prompts and resources are
    announced whatever there is of them: a server may come later, and a client that goes by what is
    announced would never ask again. FastMCP announces more, which is not served.
    """

    def __init__(self, instructions: Callable[[str], Awaitable[str]]) -> None:
        self._instructions = instructions

    async def on_initialize(
        self,
        context: MiddlewareContext[InitializeRequest],
        call_next: CallNext[InitializeRequest, InitializeResult | None],
    ) -> InitializeResult | None:
        """The answer to a client of the handshake era."""
        result = await call_next(context)
        return None if result is None else await self._told(context, result)

    async def on_discover(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """The answer to a client since 2026."""
        result = await call_next(context)
        return await self._told(context, result) if isinstance(result, DiscoverResult) else result

    async def _told(self, context: MiddlewareContext[Any], result: Hello) -> Hello:
        asked, able = context.fastmcp_context, result.capabilities
        key = SHARED if asked is None else conversation_key(asked)
        served = ServerCapabilities(
            tools=ToolsCapability(list_changed=True),
            logging=able.logging,
            prompts=PromptsCapability(list_changed=True),
            resources=ResourcesCapability(list_changed=True),
        )
        update = {"capabilities": served, "instructions": await self._instructions(key)}
        return result.model_copy(update=update)


class Audience:
    """Audience: the clients of one grant, who are `shown` the same lists; `token` is one's."""

    def __init__(self, token: AccessToken | None, shown: Mapping[str, object]) -> None:
        self.token, self.shown = token, shown
        self.sessions: dict[str, ServerSession] = {}
        self.listening = 0
        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)

    async def tell(self, shown: Mapping[str, object]) -> None:
        """Tell of each list that is another than it was."""
        before, self.shown = self.shown, shown
        for kind in (kind for kind in LISTS if shown[kind] != before[kind]):
            notification, event = LISTS[kind]
            for session in list(self.sessions.values()):
                await session.send_notification(notification())
            await self._bus.publish(event())


class Notifications(Middleware):
    """Notifications to clients: that a list which they see has changed, and the gateway's own log.

    `left` is called with the key of a conversation that is over; `shown` has by list what the
    holder of a key is shown.
    """

    def __init__(
        self,
        left: Callable[[str], Awaitable[None]],
        shown: Callable[[AccessToken | None], Awaitable[Mapping[str, object]]],
    ) -> None:
        self._left, self._shown = left, shown
        self._audiences: dict[str | None, Audience] = {}
        self._levels: BoundedMap[str, str] = BoundedMap(MAX_CONVERSATIONS)

    def join(self, server: FastMCP) -> None:
        """Serve this server's clients; since 2026 they subscribe to what they want to know."""
        server.add_middleware(self)
        server._mcp_server.add_request_handler(  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            "subscriptions/listen", SubscriptionsListenRequestParams, self._listen
        )

    async def on_initialize(
        self,
        context: MiddlewareContext[InitializeRequest],
        call_next: CallNext[InitializeRequest, InitializeResult | None],
    ) -> InitializeResult | None:
        """Remember a session until it is over."""
        result = await call_next(context)
        if context.fastmcp_context is not None:
            self._remember(context.fastmcp_context, await self._audience())
        return result

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Remember the level of log entries that a client asks for."""
        result = await call_next(context)
        if context.method == "logging/setLevel" and context.fastmcp_context is not None:
            level = context.message.get("level")
            if level in LOG_LEVELS:
                self._levels[conversation_key(context.fastmcp_context)] = level
        return result

    def level(self, key: str) -> str:
        """The lightest log entries that a conversation wants."""
        return self._levels.get(key, LOG_LEVELS[0])

    async def _audience(self) -> Audience:
        """Those who are shown the same as the caller."""
        token = get_access_token()
        if grant(token) not in self._audiences:
            audience = Audience(token, await self._shown(token))
            self._audiences.setdefault(grant(token), audience)
        return self._audiences[grant(token)]

    async def _listen(
        self, context: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        audience = await self._audience()
        audience.listening += 1
        try:
            return await audience.streams(context, params)
        finally:
            audience.listening -= 1

    def _remember(self, context: Context, audience: Audience) -> None:
        key, session = conversation_key(context), context.session
        audience.sessions[key] = session

        async def forget() -> None:
            audience.sessions.pop(key, None)
            self._levels.pop(key, None)
            await self._left(key)

        connection = session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        connection.exit_stack.push_async_callback(forget)

    async def follow(self, changed: asyncio.Event) -> None:
        """Tell clients whenever a list that they are shown is another."""
        while True:
            await changed.wait()
            changed.clear()
            here = {g: one for g, one in self._audiences.items() if one.sessions or one.listening}
            self._audiences = here
            for audience in list(here.values()):
                await audience.tell(await self._shown(audience.token))

    async def log(self, level: Level, text: str) -> None:
        """Log to clients of the handshake era; since 2026 there is no way to."""
        entry = LoggingMessageNotificationParams(level=level, data=text, logger="toolcrib")
        sessions = [each for one in self._audiences.values() for each in one.sessions.items()]
        for key, session in sessions:
            if _reaches(level, self.level(key)):
                await session.send_notification(LoggingMessageNotification(params=entry))

    def close(self) -> None:
        """End the streams of those who listen."""
        for audience in self._audiences.values():
            audience.streams.close()
