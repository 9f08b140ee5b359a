"""Downstream: the gateway's clients, their requests, and notifications to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, TypeVar

from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import MCPError, types
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
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.access.keys import Grant
from toolcrib.caches import BoundedMap
from toolcrib.gateway.auth import grant_of

MAX_CONVERSATIONS = 10_000
"""Conversations with state; the least recently used are evicted."""

SHARED_KEY = ""
"""Key of all clients without a session or an API key."""

HandshakeResult = TypeVar("HandshakeResult", types.InitializeResult, types.DiscoverResult)

InputAnswer: TypeAlias = types.InputResponse | types.ErrorData

Level: TypeAlias = Literal["info", "warning", "error"]
Reporter: TypeAlias = Callable[[Level, str], None]
"""Function that reports an event to the operator in one line; thread-safe."""

CLIENT_REQUESTS: Mapping[type, tuple[str, Any]] = {
    types.CreateMessageRequest: ("sampling", types.CreateMessageResult),
    types.ElicitRequest: ("elicitation", types.ElicitResult),
    types.ListRootsRequest: ("roots", types.ListRootsResult),
}
"""Capability that a request to a client needs, and the kind of its result."""

PROGRESS_TOKENS = ("progress_token", "progressToken")
"""Spellings of the progress token in a request's `_meta`."""

LISTS = {
    "tools": (types.ToolListChangedNotification, ToolsListChanged),
    "prompts": (types.PromptListChangedNotification, PromptsListChanged),
    "resources": (types.ResourceListChangedNotification, ResourcesListChanged),
}
"""Notification and event of a changed list: for clients before 2026, and since 2026."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels, the least severe first."""


def conversation_key(context: Context) -> str:
    """Key of a conversation: its session, or else the API key of its client."""
    if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return f"session {context.session_id}"
    token = get_access_token()
    return f"key {token.client_id}" if token is not None and token.client_id else SHARED_KEY


def _is_severe_enough(level: str, minimum: str | None) -> bool:
    return minimum is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(minimum)


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A client's request, and the session for its answer.

    `key`: equal for all requests of one conversation. `min_level`: minimum severity of log entries
    that the client wants, None for no entries.
    """

    key: str
    session: ServerSession
    request_id: types.RequestId
    min_level: str | None = None
    wants_progress: bool = False

    @classmethod
    def of(cls, context: Context, min_level: str) -> Self:
        """Current request; `min_level` is the conversation's."""
        request = context.request_context
        meta = (request.meta or {}) if request is not None else {}
        level: str | None = min_level
        if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Since 2026 each request carries the level.
            requested = meta.get(types.LOG_LEVEL_META_KEY)
            level = requested if requested in LOG_LEVELS else None
        wants_progress = any(meta.get(name) is not None for name in PROGRESS_TOKENS)
        key = conversation_key(context)
        return cls(key, context.session, context.request_id, level, wants_progress)

    def refusal(self, request: types.InputRequest) -> types.ErrorData | None:
        """Error for a question that the client does not support; None if supported."""
        name, _ = CLIENT_REQUESTS[type(request)]
        capabilities = self.session.client_capabilities
        if capabilities is not None and getattr(capabilities, name) is not None:
            return None
        return types.ErrorData(
            code=types.METHOD_NOT_FOUND,
            message=f"the client in front of the gateway does not support {name}",
        )

    async def send(self, request: types.InputRequest) -> InputAnswer:
        """Send a server's question to the client, and wait for the answer."""
        metadata = ServerMessageMetadata(related_request_id=self.request_id)
        _, result = CLIENT_REQUESTS[type(request)]
        sampling = request.params if isinstance(request, types.CreateMessageRequest) else None
        if sampling is not None and (sampling.tools or sampling.tool_choice):
            result = types.CreateMessageResultWithTools
        try:
            return await self.session.send_request(request, result, metadata=metadata)
        except NoBackChannelError:
            return types.ErrorData(
                code=types.INVALID_REQUEST, message="the client has disconnected"
            )
        except MCPError as refused:
            return refused.error

    async def notify(self, notification: Any) -> None:
        """Forward a server's notification unchanged."""
        if isinstance(notification, types.LoggingMessageNotification) and not _is_severe_enough(
            notification.params.level, self.min_level
        ):
            return
        await self.session.send_notification(notification, self.request_id)


class GrantClients:
    """Clients of one grant, who see the same `lists`; `token` is that of one client."""

    def __init__(self, token: AccessToken | None, lists: Mapping[str, object]) -> None:
        self.token, self.lists = token, lists
        self.sessions: dict[str, ServerSession] = {}
        self.listening = 0
        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)

    async def update(self, lists: Mapping[str, object]) -> None:
        """Notify the clients of each list that has changed."""
        before, self.lists = self.lists, lists
        for kind in (kind for kind in LISTS if lists[kind] != before[kind]):
            notification, event = LISTS[kind]
            for session in list(self.sessions.values()):
                await session.send_notification(notification())
            await self._bus.publish(event())


class Clients(Middleware):
    """Clients of the gateway: their handshake, changes of their lists, and the gateway's own log.

    `instructions` makes those of a new conversation, by its key; `leave` is called with the key of
    an ended one. `lists_of` gives the lists that a key's holder sees. Setting `changed` makes
    `follow` compare these with the previous ones. `extensions` are for clients since 2026.
    """

    def __init__(
        self,
        instructions: Callable[[str], Awaitable[str]],
        leave: Callable[[str], Awaitable[None]],
        lists_of: Callable[[AccessToken | None], Awaitable[Mapping[str, object]]],
        extensions: dict[str, dict[str, Any]],
    ) -> None:
        self.changed = asyncio.Event()
        self._instructions, self._extensions = instructions, extensions
        self._leave, self._lists_of = leave, lists_of
        self._clients_by_grant: dict[Grant | None, GrantClients] = {}
        self._levels: BoundedMap[str, str] = BoundedMap(MAX_CONVERSATIONS)

    def join(self, server: FastMCP) -> None:
        """Serve this server's clients; since 2026 clients subscribe to lists."""
        server.add_middleware(self)
        server._mcp_server.add_request_handler(  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            "subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen
        )

    async def on_initialize(
        self,
        context: MiddlewareContext[types.InitializeRequest],
        call_next: CallNext[types.InitializeRequest, types.InitializeResult | None],
    ) -> types.InitializeResult | None:
        """Answer a client from before 2026, and register its session until it ends."""
        result = await call_next(context)
        answer = None if result is None else await self._with_instructions(result, None)
        client, audience = get_context(), await self._grant_clients()
        key = conversation_key(client)
        audience.sessions[key] = client.session

        async def unregister() -> None:
            audience.sessions.pop(key, None)
            self._levels.pop(key, None)
            await self._leave(key)

        connection = client.session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        connection.exit_stack.push_async_callback(unregister)
        return answer

    async def on_discover(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Answer a client since 2026."""
        result = await call_next(context)
        if isinstance(result, types.DiscoverResult):
            return await self._with_instructions(result, self._extensions)
        return result

    async def _with_instructions(
        self, result: HandshakeResult, extensions: dict[str, dict[str, Any]] | None
    ) -> HandshakeResult:
        # Clients do not use unannounced capabilities, and a server may connect later. FastMCP
        # announces more, which is not served.
        served = types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=True),
            logging=result.capabilities.logging,
            prompts=types.PromptsCapability(list_changed=True),
            resources=types.ResourcesCapability(list_changed=True),
            experimental=result.capabilities.experimental,
            extensions=extensions,
        )
        instructions = await self._instructions(conversation_key(get_context()))
        return result.model_copy(update={"capabilities": served, "instructions": instructions})

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Record the level of log entries that a client sets."""
        result = await call_next(context)
        if context.method == "logging/setLevel":
            level = context.message.get("level")
            if level in LOG_LEVELS:
                self._levels[conversation_key(get_context())] = level
        return result

    def level(self, key: str) -> str:
        """Minimum severity of log entries that a conversation wants."""
        return self._levels.get(key, LOG_LEVELS[0])

    async def _grant_clients(self) -> GrantClients:
        token = get_access_token()
        grant = grant_of(token)
        if grant not in self._clients_by_grant:
            audience = GrantClients(token, await self._lists_of(token))
            self._clients_by_grant.setdefault(grant, audience)
        return self._clients_by_grant[grant]

    async def _listen(
        self,
        context: ServerRequestContext[Any, Any],
        params: types.SubscriptionsListenRequestParams,
    ) -> types.SubscriptionsListenResult:
        audience = await self._grant_clients()
        audience.listening += 1
        try:
            return await audience.streams(context, params)
        finally:
            audience.listening -= 1

    async def follow(self) -> None:
        """Notify clients whenever a list that they see has changed."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            here = {
                g: one for g, one in self._clients_by_grant.items() if one.sessions or one.listening
            }
            self._clients_by_grant = here
            for audience in list(here.values()):
                await audience.update(await self._lists_of(audience.token))

    async def log(self, level: Level, text: str) -> None:
        """Log to clients from before 2026; the later protocol has no such message."""
        entry = types.LoggingMessageNotificationParams(level=level, data=text, logger="toolcrib")
        sessions = [
            each for one in self._clients_by_grant.values() for each in one.sessions.items()
        ]
        for key, session in sessions:
            if _is_severe_enough(level, self.level(key)):
                await session.send_notification(types.LoggingMessageNotification(params=entry))

    def close(self) -> None:
        """End the streams of subscribers."""
        for audience in self._clients_by_grant.values():
            audience.streams.close()
