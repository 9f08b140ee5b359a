"""Activity: records and counts calls, lists of tools, and the state of the servers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from toolcrib.gateway.auth import granted_scope
from toolcrib.gateway.catalog import CALL_TOOLS, CatalogEntry
from toolcrib.gateway.guidance import text_of_content
from toolcrib.gateway.index import GatewayIndex
from toolcrib.gateway.upstream import Upstream, UpstreamPool
from toolcrib.guidance.results import has_failed
from toolcrib.integrations.formats import RESERVED_NAMES, OwnTool
from toolcrib.records import Scope
from toolcrib.records.definitions import CHARS_A_MARK, definition_tokens, estimated_tokens
from toolcrib.records.history import GatewayCall, GatewayServer, ServerState
from toolcrib.settings import GatewaySettings
from toolcrib.store.records_db import RecordsDb
from toolcrib.telemetry import MetricsRegistry

CALLING = frozenset({OwnTool.CALL_TOOL, *CALL_TOOLS})
"""Tools of the gateway that call a server's tool, which is recorded in their place."""

MAX_AGENT_CHARS = 100
MAX_TOOL_CHARS = 200
MAX_COUNTED_TOOLS = 20_000
"""Tools whose tokens are cached."""

_CALLS_WITHIN: ContextVar[list[str]] = ContextVar("calls_within")
"""Names of the calls that were made within the current call."""

logger = logging.getLogger(__name__)


class GatewayRecorder(Middleware):
    """Recorder of calls and lists in a records database. `scope` is the gateway's."""

    def __init__(
        self,
        records_db: RecordsDb,
        index: GatewayIndex,
        pool: UpstreamPool,
        scope: Callable[[], Scope],
        settings: GatewaySettings,
    ) -> None:
        self._log, self._scope = ActivityLog(records_db), scope
        self._index, self._pool = index, pool
        self._is_on = settings.activity != "off"
        self._keeps_arguments = settings.activity == "arguments"
        self._tokens: BoundedMap[str, int] = BoundedMap(MAX_COUNTED_TOOLS)

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
        entry, token = self._index.catalog.named(name), get_access_token()
        client = session.client_params and session.client_params.client_info
        agent = f"{client.name} {client.version}".strip() if client else ""
        self._log.record(
            GatewayCall(
                at="",
                agent=agent[:MAX_AGENT_CHARS],
                server=entry.spec.server if entry else "",
                tool=entry.spec.id if entry else name[:MAX_TOOL_CHARS],
                by=(token and token.client_id) or None,
                arguments=shown_arguments(arguments or {}) if self._keeps_arguments else None,
                **about,
            )
        )

    async def record_list(self, session: ServerSession, listed: Sequence[McpTool]) -> None:
        """Record the tokens of the definitions that a list left out, if any."""
        shown = {tool.name: tool for tool in listed}
        offered = self._index.catalog.within(granted_scope(get_access_token(), self._scope()))
        left_out = [entry for entry in offered if entry.name not in shown]
        if not left_out or not self._is_on:
            return
        saved = await asyncio.to_thread(self._saved, left_out)
        own = [tool for name, tool in shown.items() if self._index.catalog.named(name) is None]
        saved[""] = -sum(
            estimated_tokens(tool.model_dump_json(by_alias=True, exclude_none=True), CHARS_A_MARK)
            for tool in own
        )
        about = {"outcome": "success", "took_ms": 0.0, "saved": dict(saved), "kind": "list"}
        self._record(session, "tools/list", about)

    def _saved(self, left_out: Sequence[CatalogEntry]) -> Counter[str]:
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
        unready = health.unready
        if state == "down" and unready in ("needs_authorisation", "authorisation_expired"):
            state = unready
        tools, held = len(self._index.catalog.of(name)), self._index.held_of(name)
        return GatewayServer(name, state, health.reason, tools, held)

    def close(self) -> None:
        """Write what is left, and take the state of the servers back."""
        try:
            self._log.close()
        except StoreError as error:
            logger.warning("the activity cannot be kept: %s", error)


def _facts(result: ToolResult | None, began: float) -> dict[str, Any]:
    """Outcome, time and tokens of a call that ended now; None for a call that raised."""
    facts: dict[str, Any] = {"outcome": "failure", "took_ms": 1000 * (monotonic() - began)}
    if result is None:
        return facts
    text = text_of_content(result.content)
    if not has_failed(text, success=False if result.is_error else None, error=None):
        facts["outcome"] = "success"
    chars = sum(len(part.text) for part in result.content if isinstance(part, TextContent))
    return facts | {"tokens": -(-chars // CHARS_A_MARK)}


# -- metrics ---------------------------------------------------------------------------------

CALL_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SERVER_TOOLS_LABEL = "server"
"""Label of all tools of servers in metrics, so that labels are few and reveal no name."""


class CallMetrics(Middleware):
    """Counts calls and their durations."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        text = "Calls: of the gateway's own tools by name, of servers' tools together."
        self._calls = metrics.counter("gateway_calls", text, "tool", "outcome")
        self._duration = metrics.histogram(
            "gateway_call_seconds", "Time of a call.", "tool", CALL_BUCKETS_S
        )

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Count a call at its end, successful or not."""
        name, began, outcome = context.message.name, monotonic(), "failure"
        try:
            result = await call_next(context)
            outcome = "failure" if result.is_error else "success"
        finally:
            tool = name if name in RESERVED_NAMES else SERVER_TOOLS_LABEL
            self._calls(tool, outcome).inc()
            self._duration(tool).observe(monotonic() - began)
        return result
