"""The session with a server behind the gateway: it relays, and judges nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from mcp import ClientSession
from mcp.client.session import ClientRequestContext, MessageHandlerFnT
from mcp.shared.inbound import x_mcp_header_map
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestParams,
    ErrorData,
    Implementation,
    InputRequest,
    InputResponse,
    ListRootsRequest,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.indexers.readers.base import is_object
from toolcrib.indexers.readers.mcp_session import Talk, Tap

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

__all__ = ["RelayingSession", "Watched", "know_headers"]


class Answering(Protocol):
    """Who answers what a server asks."""

    async def answer(self, request: InputRequest) -> InputResponse | ErrorData:
        """Answer one question."""
        ...


class RelayingSession(ClientSession):
    """A session whose questions are handed on as they are, and its results unchecked.

    Whether a result fits its schema is for whoever called to say, who is told both.
    """

    def __init__(
        self,
        incoming: ReadStream[SessionMessage | Exception],
        outgoing: WriteStream[SessionMessage],
        asked: Answering,
        notice: MessageHandlerFnT,
        us: Implementation,
    ) -> None:
        async def sample(context: ClientRequestContext, params: CreateMessageRequestParams) -> Any:
            del context
            return await asked.answer(CreateMessageRequest(params=params))

        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> Any:
            del context
            return await asked.answer(ElicitRequest(params=params))

        async def roots(context: ClientRequestContext) -> Any:
            del context
            return await asked.answer(ListRootsRequest())

        super().__init__(
            incoming,
            outgoing,
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=roots,
            message_handler=notice,
            client_info=us,
            log_level="debug",
        )

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Leave the result as it is."""


def know_headers(session: ClientSession, tools: list[Any]) -> None:
    """Tell the session which arguments go into headers: it has not seen the tools itself."""
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    for tool in filter(is_object, tools):
        schema = tool.get("inputSchema")
        if is_object(schema) and isinstance(name := tool.get("name"), str):
            session._x_mcp_header_maps[name] = x_mcp_header_map(schema)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


class Watched(Tap):
    """A tapped stream that says when it is over: `closed` is set at its end."""

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        talk: Talk,
        closed: asyncio.Event,
    ) -> None:
        super().__init__(inner, talk)
        self._closed = closed

    async def __anext__(self) -> SessionMessage | Exception:
        """The next message; what is no MCP is kept for a failure's reason, and one is enough."""
        try:
            item = await super().__anext__()
        except BaseException:
            self._closed.set()
            raise
        del self._talk.noise[1:]
        return item
