"""Whoever called: the conversation that a call came over, and how to ask something back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from fastmcp.server.context import Context
from mcp import MCPError
from mcp.server.session import ServerSession
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    METHOD_NOT_FOUND,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitResult,
    ErrorData,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    LoggingMessageNotification,
    RequestId,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = ["ANYONE", "LEVELS", "Answer", "Front", "front_key", "weighs"]

ANYONE = ""
"""Who calls where nobody can be told from another."""

Answer: TypeAlias = InputResponse | ErrorData

NAMES = {
    CreateMessageRequest: "sampling",
    ElicitRequest: "elicitation",
    ListRootsRequest: "roots",
}

TOKENS = ("progress_token", "progressToken")
"""How a request names what its progress is told under: as a field, and as it was sent."""

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""How much log entries weigh, the lightest first."""


@dataclass(frozen=True, slots=True)
class Front:
    """A request of a client's.

    `key` is the same for all requests of one conversation. `least` is the lightest level of log
    entries that the client wants, None for no entries. `wants_progress` says whether the client
    asked to be told how far the call is.
    """

    key: str
    session: ServerSession
    request_id: RequestId
    least: str | None = None
    wants_progress: bool = False

    @classmethod
    def of(cls, context: Context, key: str, least: str) -> Front:
        """The request that is being answered; `least` was said for the whole conversation."""
        asked = context.request_context
        said = (asked.meta or {}) if asked is not None else {}
        level: str | None = least
        if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Since 2026 a client says so with each request.
            wanted = said.get(LOG_LEVEL_META_KEY)
            level = wanted if wanted in LEVELS else None
        told = any(said.get(name) is not None for name in TOKENS)
        return cls(key, context.session, context.request_id, level, told)

    @property
    def is_asked_back(self) -> bool:
        """Whether questions go out by themselves; since 2026 they come as the call's answer."""
        return self.session.can_send_request

    def refusal(self, request: InputRequest) -> ErrorData | None:
        """Why the client cannot be asked this, None where it can."""
        name = NAMES[type(request)]
        able = self.session.client_capabilities
        if able is not None and getattr(able, name) is not None:
            return None
        return ErrorData(
            code=METHOD_NOT_FOUND,
            message=f"the client in front of the gateway does not support {name}",
        )

    async def ask(self, request: InputRequest) -> Answer:
        """Send a question out, and wait for its answer."""
        about = ServerMessageMetadata(related_request_id=self.request_id)
        result: type[ElicitResult | ListRootsResult | CreateMessageResult]
        result = ElicitResult if isinstance(request, ElicitRequest) else ListRootsResult
        try:
            if isinstance(request, CreateMessageRequest):
                if request.params.tools or request.params.tool_choice:
                    return await self.session.send_request(
                        request, CreateMessageResultWithTools, metadata=about
                    )
                result = CreateMessageResult
            return await self.session.send_request(request, result, metadata=about)
        except NoBackChannelError:
            return ErrorData(code=INVALID_REQUEST, message="the caller is gone")
        except MCPError as refused:
            return refused.error

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell how far the call is, if the client wants to know."""
        await self.session.report_progress(progress, total, message)

    async def hear(self, note: Any) -> None:
        """Hand on what a server lets the client know, as it is."""
        if isinstance(note, LoggingMessageNotification) and not weighs(
            note.params.level, self.least
        ):
            return
        await self.session.send_notification(note, self.request_id)


def weighs(level: str, least: str | None) -> bool:
    """Whether a log entry of this level is wanted by whom `least` is the lightest."""
    return least is not None and LEVELS.index(level) >= LEVELS.index(least)


def front_key(context: Context, principal: str | None) -> str:
    """What tells one conversation from another: the session, or who holds the key."""
    if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return f"session {context.session_id}"
    return f"key {principal}" if principal else ANYONE
