"""What clients and the operator are told: that something else is shown, and what happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import (
    InitializeRequest,
    InitializeResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SubscriptionsListenRequestParams,
)

from toolcrib.gateway.front import LEVELS, front_key, weighs

__all__ = ["Level", "News", "Say", "lines", "quiet"]

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
LOGGER = "toolcrib"


class Say(Protocol):
    """Tells whoever looks that something happened."""

    def __call__(self, level: Level, text: str) -> None:
        """Say one line."""
        ...


def lines(*, as_json: bool) -> Say:
    """One line on standard error for each thing that happens; standard output is not ours."""

    def say(level: Level, text: str) -> None:
        if level == "debug":
            return
        line = json.dumps({"level": level, "text": text}, ensure_ascii=False)
        plain = "".join(letter if letter.isprintable() else "�" for letter in text)
        sys.stderr.write((line if as_json else f"toolcrib gateway: {plain}") + "\n")
        sys.stderr.flush()

    return say


def quiet(level: Level, text: str) -> None:
    """Say nothing."""


class News(Middleware):
    """Knows who is connected, and tells them when the list of tools is another.

    `left` is called with the key of a conversation that is over.
    """

    def __init__(self, left: Callable[[str], Any]) -> None:
        self._left = left
        self._sessions: dict[str, ServerSession] = {}
        self._levels: dict[str, str] = {}
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)

    def join(self, server: FastMCP) -> None:
        """Serve this server's clients; since 2026 they ask for what they want to be told."""
        server.add_middleware(self)
        server._mcp_server.add_request_handler(  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            "subscriptions/listen", SubscriptionsListenRequestParams, self._streams
        )

    async def on_initialize(
        self,
        context: MiddlewareContext[InitializeRequest],
        call_next: CallNext[InitializeRequest, InitializeResult | None],
    ) -> InitializeResult | None:
        """Remember a conversation until it is over."""
        result = await call_next(context)
        if context.fastmcp_context is not None:
            self._remember(context.fastmcp_context)
        return result

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Remember how much of what happens a client wants to hear."""
        result = await call_next(context)
        if context.method == "logging/setLevel" and context.fastmcp_context is not None:
            level = context.message.get("level")
            if level in LEVELS:
                self._levels[front_key(context.fastmcp_context, None)] = level
        return result

    def level(self, key: str) -> str:
        """The lightest log entries that a conversation wants."""
        return self._levels.get(key, LEVELS[0])

    def _remember(self, context: Context) -> None:
        key, session = front_key(context, None), context.session
        self._sessions[key] = session

        async def forget() -> None:
            self._sessions.pop(key, None)
            self._levels.pop(key, None)
            await self._left(key)

        connection = session._connection  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        connection.exit_stack.push_async_callback(forget)

    async def tools_changed(self) -> None:
        """Tell everybody that the list of tools is another."""
        for session in list(self._sessions.values()):
            await session.send_tool_list_changed()
        await self._bus.publish(ToolsListChanged())

    async def log(self, level: Level, text: str) -> None:
        """Tell clients what happens, in our own words; since 2026 there is no way to."""
        said = LoggingMessageNotificationParams(level=level, data=text, logger=LOGGER)
        for key, session in list(self._sessions.items()):
            if weighs(level, self.level(key)):
                await session.send_notification(LoggingMessageNotification(params=said))

    def close(self) -> None:
        """End the streams of those who listen."""
        self._streams.close()
