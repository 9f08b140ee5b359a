"""Activity: records and counts calls, lists of tools, and the state of the servers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from time import monotonic
from typing import Any

from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.server.session import ServerSession
from mcp.types import CallToolRequestParams, TextContent
from mcp.types import Tool as McpTool

from toolcrib.access.activity import STATE_EVERY_S, ActivityLog, shown_arguments
from toolcrib.caches import BoundedMap
from toolcrib.errors import StoreError
from toolcrib.gateway.catalog import CALL_TOOLS, CatalogEntry
from toolcrib.gateway.connection import TOOL_ERROR, error_name
from toolcrib.gateway.guidance import outcome_of
from toolcrib.gateway.index import GatewayIndex
from toolcrib.gateway.upstream import Upstream, UpstreamPool
from toolcrib.records.definitions import (
    CHARS_A_MARK,
    RESERVED_NAMES,
    OwnTool,
    definition_tokens,
    estimated_tokens,
)
from toolcrib.records.log import GatewayCall, GatewayServer, ServerState
from toolcrib.settings import ActivityMode
from toolcrib.store.records_db import RecordsDb
from toolcrib.telemetry import EXECUTE_TOOL, OTHER_LABEL, TOOL_CALL_METHOD, MetricsRegistry

CALLING = frozenset({OwnTool.CALL_TOOL, *CALL_TOOLS})
"""Tools of the gateway that call a server's tool, which is recorded in their place."""

MAX_AGENT_CHARS = 100
MAX_UNKNOWN_NAME_CHARS = 200
MAX_CACHED_TOKEN_COUNTS = 20_000
"""Tools whose tokens are cached."""

_CALLS_WITHIN: ContextVar[list[str]] = ContextVar("calls_within")
"""Names of the calls that were made within the current call."""

logger = logging.getLogger(__name__)


class GatewayRecorder(Middleware):
    """Recorder of calls and lists in a records database."""

    def __init__(
        self, records_db: RecordsDb, index: GatewayIndex, pool: UpstreamPool, mode: ActivityMode
    ) -> None:
        self._log, self._index, self._pool = ActivityLog(records_db), index, pool
        self._is_on, self._keeps_arguments = mode != "off", mode == "arguments"
        self._tokens: BoundedMap[str, int] = BoundedMap(MAX_CACHED_TOKEN_COUNTS)

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Record a call at its end, or when its server asks the client something."""
        name, arguments = context.message.name, context.message.arguments or {}
        is_calling = name in CALLING
        if is_calling:
            name = str(arguments.get("name"))
        client, began = context.fastmcp_context, monotonic()
        result: ToolResult | None = None
        outer, inner = _CALLS_WITHIN.get([]), list[str]()
        calls_within = _CALLS_WITHIN.set(inner)
        try:
            result = await call_next(context)
            return result
        finally:
            _CALLS_WITHIN.reset(calls_within)
            outer.append(name)
            # A call that waits for its client's answer is recorded at its end, and a server's tool
            # in place of the tool that called it.
            is_over = not isinstance(result, InputRequiredToolResult)
            if client is not None and self._is_on and is_over and not (is_calling and inner):
                self._record(client.session, name, _facts(result, began), arguments)

    def _record(
        self,
        session: ServerSession,
        name: str,
        about: Mapping[str, Any],
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        entry, token = self._index.catalog.find(name), get_access_token()
        client = session.client_params and session.client_params.client_info
        agent = f"{client.name} {client.version}".strip() if client else ""
        self._log.record(
            GatewayCall(
                at="",
                agent=agent[:MAX_AGENT_CHARS],
                server=entry.spec.server if entry else "",
                tool=entry.spec.id if entry else name[:MAX_UNKNOWN_NAME_CHARS],
                by=(token and token.client_id) or None,
                arguments=shown_arguments(arguments or {}) if self._keeps_arguments else None,
                **about,
            )
        )

    async def record_list(self, session: ServerSession, listed: Sequence[McpTool]) -> None:
        """Record the tokens of the definitions that a list left out, if any."""
        shown = {tool.name: tool for tool in listed}
        offered = self._index.catalog.within(self._index.scope_of(get_access_token()))
        left_out = [entry for entry in offered if entry.name not in shown]
        if not left_out or not self._is_on:
            return
        saved = await asyncio.to_thread(self._saved_tokens, left_out)
        own = [tool for name, tool in shown.items() if self._index.catalog.find(name) is None]
        saved[""] = -sum(
            estimated_tokens(tool.model_dump_json(by_alias=True, exclude_none=True), CHARS_A_MARK)
            for tool in own
        )
        about = {"outcome": "success", "took_ms": 0.0, "saved": dict(saved), "kind": "list"}
        self._record(session, "tools/list", about)

    def _saved_tokens(self, left_out: Sequence[CatalogEntry]) -> Counter[str]:
        """Tokens of definitions, by server."""
        saved = Counter[str]()
        for entry in left_out:
            spec = entry.spec
            saved[spec.server] += self._tokens.get_or_make(
                spec.digest, lambda spec=spec: definition_tokens(spec, "schema")
            )
        return saved

    # -- state of the servers ------------------------------------------------------------------

    async def follow_state(self, poll_s: float) -> None:
        """Write the state of the servers when it changes, and from time to time."""
        last: list[GatewayServer] = []
        written_at = float("-inf")
        while self._is_on:
            now = [self._state(each) for each in self._pool]
            if now != last or monotonic() - written_at > STATE_EVERY_S:
                try:
                    await self._index.work(self._log.write_state, now)
                except StoreError as error:
                    logger.warning("the state of the servers cannot be kept: %s", error)
                last, written_at = now, monotonic()
            await asyncio.sleep(poll_s)

    def _state(self, upstream: Upstream) -> GatewayServer:
        health, name = upstream.health, upstream.name
        state: ServerState = health.state
        if state == "down" and health.unready in ("needs_authorisation", "authorisation_expired"):
            state = health.unready
        tools, held = len(self._index.catalog.of(name)), self._index.held_count_of(name)
        return GatewayServer(name, state, health.reason, tools, held)

    def close(self) -> None:
        """Write what is left, and take the state of the servers back."""
        try:
            self._log.close()
        except StoreError as error:
            logger.warning("the activity cannot be kept: %s", error)


def _facts(result: ToolResult | None, began: float) -> dict[str, Any]:
    """Outcome, time and tokens of a call that ended now; None for a call that raised."""
    took_ms = 1000 * (monotonic() - began)
    if result is None:
        return {"outcome": "failure", "took_ms": took_ms}
    chars = sum(len(part.text) for part in result.content if isinstance(part, TextContent))
    tokens = -(-chars // CHARS_A_MARK)
    return {"outcome": outcome_of(result), "took_ms": took_ms, "tokens": tokens}


# -- metrics ---------------------------------------------------------------------------------

OPERATION_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""As OpenTelemetry's conventions have them."""

OPERATION_LABELS = (
    "mcp_method_name",
    "gen_ai_operation_name",
    "gen_ai_tool_name",
    "network_transport",
    "error_type",
)

_IS_WITHIN: ContextVar[bool] = ContextVar("is_within", default=False)
"""True within a client's request, which may call a tool in turn."""


class OperationMetrics(Middleware):
    """Durations of clients' requests, and of the calls that the gateway sends to servers.

    Names of servers' tools are in no label, so that labels are few and reveal nothing.
    """

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._received, self._sent = (
            metrics.histogram(
                f"mcp_{side}_operation_duration_seconds",
                says,
                OPERATION_BUCKETS_S,
                *OPERATION_LABELS,
            )
            for side, says in (
                ("server", "Time of a client's request."),
                ("client", "Time of a server's tool."),
            )
        )

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Observe a request at its end, successful or not."""
        if _IS_WITHIN.get():
            return await call_next(context)
        began, error_type, within = monotonic(), "", _IS_WITHIN.set(True)
        try:
            result = await call_next(context)
        except BaseException as error:
            error_type = error_name(error)
            raise
        else:
            error_type = TOOL_ERROR if getattr(result, "is_error", False) else ""
            return result
        finally:
            _IS_WITHIN.reset(within)
            method, operation, tool = context.method or OTHER_LABEL, "", ""
            if method == TOOL_CALL_METHOD:
                name = context.message.name
                operation, tool = EXECUTE_TOOL, name if name in RESERVED_NAMES else OTHER_LABEL
            labels = method, operation, tool, "tcp", error_type
            self._received(*labels).observe(monotonic() - began)

    def observe_call(self, transport: str, took_s: float, error_type: str) -> None:
        """Observe a call that a server has answered, or not."""
        labels = TOOL_CALL_METHOD, EXECUTE_TOOL, OTHER_LABEL, transport, error_type
        self._sent(*labels).observe(took_s)
