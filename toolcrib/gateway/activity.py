"""Activity: records and metrics of calls, lists of tools, and states of the servers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from time import monotonic
from typing import Any

from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp.server.session import ServerSession
from mcp.types import CallToolRequestParams, TextContent
from mcp.types import Tool as McpTool

from toolcrib.access.activity import STATE_EVERY_S, ActivityLog, redacted_arguments
from toolcrib.caches import BoundedMap
from toolcrib.errors import StoreError
from toolcrib.gateway.auth import has_tool
from toolcrib.gateway.catalog import CALL_TOOLS, CatalogEntry
from toolcrib.gateway.connection import observe_request
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

CALL_TOOL_NAMES = frozenset({OwnTool.CALL_TOOL, *CALL_TOOLS})
"""Gateway tools that call a server's tool: the record has the server's tool instead."""

MAX_AGENT_CHARS = 100
MAX_UNKNOWN_NAME_CHARS = 200
MAX_CACHED_TOKEN_COUNTS = 20_000
"""Tools whose number of tokens is cached."""

_NESTED_CALLS: ContextVar[list[str]] = ContextVar("calls_within")
"""Names of the calls that were made during a client's call; not set outside of one."""

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
        """Record a call at its end; a call that waits for its client is recorded later."""
        name, arguments = context.message.name, context.message.arguments or {}
        is_calling = name in CALL_TOOL_NAMES
        if is_calling:
            name = str(arguments.get("name"))
        began = monotonic()
        result: ToolResult | None = None
        outer, inner = _NESTED_CALLS.get([]), list[str]()
        calls_within = _NESTED_CALLS.set(inner)
        try:
            result = await call_next(context)
            return result
        finally:
            _NESTED_CALLS.reset(calls_within)
            outer.append(name)
            # Waiting calls are recorded at their end, and server tools instead of call tools.
            is_over = not isinstance(result, InputRequiredToolResult)
            if self._is_on and is_over and not (is_calling and inner):
                outcome = _call_outcome(result, began)
                self._record(get_context().session, name, arguments, **outcome)

    def _record(
        self, session: ServerSession, name: str, arguments: Mapping[str, Any], **about: Any
    ) -> None:
        token = get_access_token()
        # A refused call is recorded under the tool that it was meant for.
        entry = self._index.find(name, token) or self._index.catalog.find(name)
        client = session.client_params and session.client_params.client_info
        agent = f"{client.name} {client.version}".strip() if client else ""
        self._log.record(
            GatewayCall(
                at="",
                agent=agent[:MAX_AGENT_CHARS],
                server=entry.spec.server if entry else "",
                tool=entry.spec.id if entry else name[:MAX_UNKNOWN_NAME_CHARS],
                by=(token and token.client_id) or None,
                arguments=redacted_arguments(arguments) if self._keeps_arguments else None,
                **about,
            )
        )

    async def record_list(self, session: ServerSession, listed: Sequence[McpTool]) -> None:
        """Record the tokens of the definitions that a list omitted, if any."""
        shown = {tool.name: tool for tool in listed}
        token = get_access_token()
        offered = self._index.catalog.within(self._index.scope_of(token))
        left_out = [e for e in offered if e.name not in shown and has_tool(token, e.spec.id)]
        if not left_out or not self._is_on:
            return
        saved = await asyncio.to_thread(self._saved_tokens, left_out)
        own = [tool for name, tool in shown.items() if self._index.catalog.find(name) is None]
        saved[""] = -sum(
            estimated_tokens(tool.model_dump_json(by_alias=True, exclude_none=True), CHARS_A_MARK)
            for tool in own
        )
        about = {"outcome": "success", "took_ms": 0.0, "saved": dict(saved), "kind": "list"}
        self._record(session, "tools/list", {}, **about)

    def _saved_tokens(self, left_out: Sequence[CatalogEntry]) -> Counter[str]:
        saved = Counter[str]()
        for entry in left_out:
            spec = entry.spec
            saved[spec.server] += self._tokens.get_or_make(
                spec.digest, lambda spec=spec: definition_tokens(spec, "schema")
            )
        return saved

    # -- state of the servers ------------------------------------------------------------------

    async def follow_state(self, poll_s: float) -> None:
        """Write the state of the servers when it changes, and at intervals."""
        last: list[GatewayServer] = []
        written_at = float("-inf")
        while self._is_on:
            now = [self._state(each) for each in self._pool]
            if now != last or monotonic() - written_at > STATE_EVERY_S:
                try:
                    await self._index.work(self._log.write_state, now)
                except StoreError as error:
                    logger.warning("the state of the servers cannot be stored: %s", error)
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
        """Write the last records, and delete the state of the servers."""
        try:
            self._log.close()
        except StoreError as error:
            logger.warning("the activity cannot be stored: %s", error)


def _call_outcome(result: ToolResult | None, began: float) -> dict[str, Any]:
    """Outcome, time and tokens of a call that just ended; a call that raised has no result."""
    took_ms = 1000 * (monotonic() - began)
    if result is None:
        return {"outcome": "failure", "took_ms": took_ms}
    chars = sum(len(part.text) for part in result.content if isinstance(part, TextContent))
    tokens = -(-chars // CHARS_A_MARK)
    return {"outcome": outcome_of(result), "took_ms": took_ms, "tokens": tokens}


# -- metrics ---------------------------------------------------------------------------------

OPERATION_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Buckets of OpenTelemetry's conventions."""

OPERATION_LABELS = (
    "mcp_method_name",
    "gen_ai_operation_name",
    "gen_ai_tool_name",
    "network_transport",
    "error_type",
)


class OperationMetrics(Middleware):
    """Durations of clients' requests, and of the gateway's calls of servers.

    No label has the name of a server's tool: labels stay few and reveal nothing.
    """

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._received, self._sent = (
            metrics.histogram(name, says, OPERATION_BUCKETS_S, *OPERATION_LABELS)
            for name, says in (
                ("mcp_server_operation_duration_seconds", "Time of a client's request."),
                ("mcp_client_operation_duration_seconds", "Time of a server's tool."),
            )
        )

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Observe a request at its end, successful or not."""
        if _NESTED_CALLS.get(None) is not None:
            return await call_next(context)
        method, operation, tool = context.method or OTHER_LABEL, "", ""
        if method == TOOL_CALL_METHOD:
            name = getattr(context.message, "name", "")  # Malformed parameters are a dictionary.
            operation, tool = EXECUTE_TOOL, name if name in RESERVED_NAMES else OTHER_LABEL

        def observe(took_s: float, error_type: str) -> None:
            self._received(method, operation, tool, "tcp", error_type).observe(took_s)

        return await observe_request(call_next(context), observe)

    def observe_call(self, transport: str, took_s: float, error_type: str) -> None:
        """Observe the end of a call of a server, whether answered or not."""
        labels = TOOL_CALL_METHOD, EXECUTE_TOOL, OTHER_LABEL, transport, error_type
        self._sent(*labels).observe(took_s)
