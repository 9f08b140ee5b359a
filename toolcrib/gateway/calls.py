"""Calls of upstream tools: check arguments, wait for results, turn failures into answers."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp import MCPError
from mcp.types import CallToolResult, InputRequiredResult, TextContent

from toolcrib.caches import BoundedMap
from toolcrib.errors import (
    DeadlineError,
    ForbiddenError,
    OverloadedError,
    ServiceError,
    ToolcribError,
)
from toolcrib.gateway.auth import profile_of
from toolcrib.gateway.catalog import CatalogEntry
from toolcrib.gateway.connection import PendingCall, UpstreamConnection
from toolcrib.gateway.downstream import MAX_CONVERSATIONS, ClientRequest, conversation_key
from toolcrib.gateway.flow import FlowPolicy
from toolcrib.gateway.guidance import GatewayGuidance, outcome_of, with_text
from toolcrib.gateway.index import GatewayIndex
from toolcrib.gateway.upstream import STATE_TEXTS, Upstream, UpstreamPool
from toolcrib.integrations.arguments import argument_errors, describe_parameters
from toolcrib.integrations.fastmcp import failure
from toolcrib.integrations.formats import restore_arguments
from toolcrib.records import Outcome, ToolHit
from toolcrib.records.definitions import parameters_schema
from toolcrib.retrieval.options import MAX_CALLED
from toolcrib.router.alternates import alternates
from toolcrib.router.decision_log import Failures
from toolcrib.router.recovery import diagnose
from toolcrib.store.filters import AnyOf, Not
from toolcrib.text import shorten

HOP_PREFIX = "io.modelcontextprotocol/"
"""`_meta` keys with this prefix apply to one hop and are not forwarded."""

HOP_KEYS = frozenset({"progressToken", "progress_token", "fastmcp"})
"""`_meta` keys that apply to one hop and have no prefix."""

MAX_PENDING_CALLS = 1_000
MAX_ALTERNATIVES = 3
MAX_ALTERNATIVE_CHARS = 100
"""Length of an alternative's description in an answer."""

MAX_QUOTED_SCHEMA_CHARS = 8_000
"""Longer schemas are described in words."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CallBudget:
    """Budget of calls between two searches: the query, the limit (None: none), the calls made."""

    query: str
    limit: int | None
    calls: int = 0
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def take(self) -> bool:
        """Count one call; False if the budget is used up."""
        self.calls += 1
        return self.limit is None or self.calls <= self.limit


class CallBudgets:
    """Budgets of conversations, by key; the least recently used are evicted."""

    def __init__(self, max_calls: int | None) -> None:
        self.max_calls = max_calls
        self._of: BoundedMap[str, CallBudget] = BoundedMap(MAX_CONVERSATIONS)
        self._called_tools: BoundedMap[str, BoundedMap[str, None]] = BoundedMap(MAX_CONVERSATIONS)

    def begin(self, key: str, query: str) -> CallBudget:
        """Begin a conversation's next budget, at a search."""
        own = profile_of(get_access_token()).max_calls
        self._of[key] = budget = CallBudget(query, self.max_calls if own is None else own)
        return budget

    def of(self, key: str) -> CallBudget:
        """A conversation's budget; a call before the first search begins it."""
        return self._of.get(key) or self.begin(key, "")

    def record_call(self, key: str, tool_id: str) -> None:
        """Record the id of a called tool, for the next searches of the conversation."""
        self._called_tools.get_or_make(key, lambda: BoundedMap(MAX_CALLED))[tool_id] = None

    def called_tools(self, key: str) -> tuple[str, ...]:
        """Ids of the tools that a conversation has called, in order of calls."""
        return tuple(self._called_tools.get(key, ()))

    def leave(self, key: str) -> None:
        """Forget an ended conversation."""
        self._of.pop(key, None)
        self._called_tools.pop(key, None)


class Alternatives:
    """Tools that may replace a failed tool, within the caller's scope.

    Searches the index directly: a crib would detect the turn's context, which is not needed here
    and takes minutes with an encoder other than the bundled one.
    """

    def __init__(self, index: GatewayIndex, pool: UpstreamPool, budgets: CallBudgets) -> None:
        self._index, self._pool, self._budgets = index, pool, budgets
        self._failures = Failures()

    async def as_text(self, failed: CatalogEntry, budget: CallBudget) -> str:
        """End of a message: the tools to try instead, or that there are none."""
        if not self._index.is_open.is_set():
            return " Try again later."
        try:
            entries = await self._find(failed, budget, budget.query)
        except Exception:
            # What became of the call is worth more than another tool.
            logger.warning("alternates could not be searched", exc_info=True)
            return ""
        if not entries:
            return " There is no similar tool; try again later, or go on without this tool."
        lines = ["\nOther tools that may do the same:"]
        for each in entries:
            about = shorten(" ".join(each.spec.description.split()), MAX_ALTERNATIVE_CHARS)
            lines.append(f"- {each.name}: {about}" if about else f"- {each.name}")
        return "\n".join(lines)

    async def _find(
        self, failed: CatalogEntry, budget: CallBudget, goal: str
    ) -> list[CatalogEntry]:
        tools, token = self._index.crib.tools, get_access_token()
        found: list[ToolHit] = await self._index.work(
            alternates,
            tools.find,
            failed.spec,
            goal or failed.spec.description or failed.spec.name,
            excluded=self._failures.of(budget.id),
            scope=self._index.scope_of(token),
            where=Not(AnyOf("server", self._pool.unavailable_servers())),
            k=MAX_ALTERNATIVES,
            likeness=tools.settings.recovery.likeness,
        )
        entries = (self._index.catalog.get(hit.id) for hit in found)
        is_granted = self._index.grants(token)
        return [entry for entry in entries if entry is not None and is_granted(entry)]

    async def names(self, name: str, goal: str, key: str) -> list[str]:
        """Names of offered tools to try instead of a tool, in the conversation of a key.

        `goal`: the search that led to the tool's call, empty if there was none.
        """
        failed = self._index.find(name, get_access_token())
        if failed is None or not self._index.is_open.is_set():
            return []
        return [each.name for each in await self._find(failed, self._budgets.of(key), goal)]

    async def report(
        self, budget: CallBudget, entry: CatalogEntry, outcome: Outcome, since: float
    ) -> None:
        """Record the outcome of a call that began at `since` (monotonic clock)."""
        took_ms = 1000 * (monotonic() - since)
        self._failures.report(budget.id, entry.spec.id, outcome)
        if not self._index.is_open.is_set():
            return
        report = self._index.crib.report_outcome
        try:
            await self._index.work(report, budget.id, entry.spec.id, outcome, took_ms=took_ms)
        except (ToolcribError, OSError):
            # A failed record must not lose the call's result.
            logger.warning("the outcome of a call could not be recorded", exc_info=True)


@dataclass(frozen=True, slots=True)
class _Call:
    """Call under way, with its tool, server, connection, budget, conversation and start."""

    entry: CatalogEntry
    upstream: Upstream
    connection: UpstreamConnection
    pending: PendingCall
    budget: CallBudget
    key: str
    since: float


class PendingInputs:
    """Calls that wait until their client has answered a question and calls again.

    Only the conversation that made a call can resume it, once, for the same tool. After `keep_s`
    the call is cancelled.
    """

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._calls: dict[str, _Call] = {}

    def put(self, call: _Call) -> str:
        """Store a call; return the state that its client must send to resume it.

        If too many wait, the conversation with the most of them loses its oldest one.
        """
        if len(self._calls) >= MAX_PENDING_CALLS:
            keys = Counter(each.key for each in (*self._calls.values(), call))
            fullest = max(keys, key=keys.__getitem__)
            self._cancel(next(s for s, each in self._calls.items() if each.key == fullest))
        state = secrets.token_urlsafe(16)
        self._calls[state] = call
        asyncio.get_running_loop().call_later(self._keep_s, self._cancel, state)
        return state

    def take(self, state: str, key: str, tool_id: str) -> _Call | None:
        """Remove and return the call of this state, key and tool; None without one."""
        call = self._calls.get(state)
        if call is None or (call.key, call.entry.spec.id) != (key, tool_id):
            return None
        return self._calls.pop(state)

    def leave(self, key: str) -> None:
        """Cancel the calls of an ended conversation."""
        self._cancel(*(state for state, call in self._calls.items() if call.key == key))

    def close(self) -> None:
        """Cancel all calls."""
        self._cancel(*self._calls)

    def _cancel(self, *states: str) -> None:
        for state in states:
            if (call := self._calls.pop(state, None)) is not None:
                call.pending.cancel()


class CallRunner:
    """Runner of clients' calls; turns a failure into an answer that helps the model to go on.

    `level` gives a conversation's minimum severity of log entries, by its key.
    """

    def __init__(
        self,
        pool: UpstreamPool,
        budgets: CallBudgets,
        alternatives: Alternatives,
        level: Callable[[str], str],
        guidance: GatewayGuidance,
        flow: FlowPolicy,
    ) -> None:
        self._pool, self._budgets, self._alternatives = pool, budgets, alternatives
        self._level, self._guidance, self._flow = level, guidance, flow
        self._checks: set[asyncio.Task[None]] = set()
        self._pending = PendingInputs(pool.intervals.idle_s)

    async def call(
        self, entry: CatalogEntry, arguments: dict[str, Any], context: Context
    ) -> ToolResult:
        """Call a tool, or resume a call that waits for the client's answer.

        Arguments may have the names of the tool's own schema, or of a provider's definition.
        """
        arguments = restore_arguments(entry.spec, arguments)
        result = await self._call(entry, arguments, context)
        key = conversation_key(context)
        return await self._guidance.after_call(key, entry.name, arguments, result)

    async def _call(
        self, entry: CatalogEntry, arguments: dict[str, Any], context: Context
    ) -> ToolResult:
        request = ClientRequest.of(context, self._level(conversation_key(context)))
        if context.request_state is not None:
            call = self._pending.take(context.request_state, request.key, entry.spec.id)
            if call is None:
                return failure(
                    f"The call that this answer is for has ended. Call {entry.name} again."
                )
            call.pending.resume(request, dict(context.input_responses or {}))
            return await self._finish(call)
        if wrong := await asyncio.to_thread(argument_errors, entry.spec.input_schema, arguments):
            listed = "\n".join(f"- {line}" for line in wrong)
            return failure(
                f"The call was not made: the arguments do not fit the schema of {entry.name}.\n"
                f"{listed}\n{_parameters(entry)}"
            )
        budget = self._budgets.of(request.key)
        if not budget.take():
            return failure(
                f"The call was not made: the limit of {budget.limit} calls since the "
                "last find_tools is reached. Call find_tools with the remaining task."
            )
        self._budgets.record_call(request.key, entry.spec.id)
        since, upstream = monotonic(), self._pool[entry.spec.server]
        try:
            connection = await upstream.connection(request.key)
        except ServiceError as error:
            await self._alternatives.report(budget, entry, "failure", since)
            text = self._not_called(entry, error) + await self._alternatives.as_text(entry, budget)
            return failure(text)
        meta = _forwarded_meta(context)
        check = partial(self._flow.check, entry=entry, arguments=arguments)
        call_s = self._pool.intervals.call_s
        pending = connection.call(request, entry.spec.name, arguments, meta, call_s, check)
        called = _Call(entry, upstream, connection, pending, budget, request.key, since)
        return await self._finish(called)

    def _not_called(self, entry: CatalogEntry, error: ServiceError) -> str:
        if isinstance(error, OverloadedError):
            return f"{error}, so {entry.name} was not called."
        server, login = entry.spec.server, self._pool.login(entry.spec.server)
        state = self._pool[server].health.in_words or STATE_TEXTS["down"]
        text = f"The server {server!r} {state}, so {entry.name} was not called."
        return f"{text} The user can log in: `{login}`." if login else text

    async def _finish(self, call: _Call) -> ToolResult:
        """Wait for the result, or for a question that the client must answer first."""
        entry, budget = call.entry, call.budget
        try:
            result = await call.pending.outcome()
        except ForbiddenError as refused:
            return failure(str(refused))
        except Exception as error:  # noqa: BLE001 -- any error that a server causes is its failure
            await self._alternatives.report(budget, entry, "failure", call.since)
            await self._check(call, error)
            text = _failure_text(call, error)
            if not call.pending.is_refused:
                text += await self._alternatives.as_text(entry, budget)
            return failure(text)
        if not isinstance(result, CallToolResult):
            state = self._pending.put(call)
            questions = InputRequiredResult(input_requests=result, request_state=state)
            return InputRequiredToolResult(questions)
        await self._alternatives.report(budget, entry, outcome_of(result), call.since)
        meta = {k: v for k, v in (result.meta or {}).items() if not k.startswith(HOP_PREFIX)}
        answer = ToolResult.from_mcp_result(result.model_copy(update={"meta": meta or None}))
        advice = await self._advice(result, entry, budget) if result.is_error else ""
        return with_text(answer, advice) if advice else answer

    async def _check(self, call: _Call, error: Exception) -> None:
        """Check that the server is alive; after a timeout the check runs in the background."""
        check = asyncio.create_task(call.upstream.check(call.connection))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        if not isinstance(error, DeadlineError):
            await asyncio.wait({check})

    async def _advice(self, result: CallToolResult, entry: CatalogEntry, budget: CallBudget) -> str:
        """Text after a tool's own error: the tool's schema, or alternatives."""
        text = " ".join(part.text for part in result.content if isinstance(part, TextContent))
        diagnosis = diagnose(text)
        if diagnosis.blames_arguments:
            return _parameters(entry)
        # Other kinds of errors need other arguments or another caller, not another tool.
        if not budget.query or diagnosis.kind not in {"retriable", "reclassify"}:
            return ""
        return (await self._alternatives.as_text(entry, budget)).strip()

    def close(self) -> None:
        """Cancel the calls that wait for an answer."""
        self._pending.close()

    def leave(self, key: str) -> None:
        """Forget an ended conversation, and cancel its waiting calls."""
        self._pending.leave(key)
        self._budgets.leave(key)
        self._guidance.leave(key)
        self._flow.leave(key)


def _parameters(entry: CatalogEntry) -> str:
    """Parameters of a tool: its schema, which a search omits, or a description if too long."""
    schema = json.dumps(parameters_schema(entry.spec), ensure_ascii=False, separators=(",", ":"))
    if len(schema) <= MAX_QUOTED_SCHEMA_CHARS:
        return f"Its inputSchema: {schema}"
    return f"It takes: {describe_parameters(entry.spec.input_schema)}."


def _failure_text(call: _Call, error: Exception) -> str:
    """Description of a call that ended without a result."""
    entry, server = call.entry, call.entry.spec.server
    if isinstance(error, DeadlineError):
        return f"{entry.name}: {error}. The call was cancelled, but may have taken effect."
    if call.pending.is_refused:
        return (
            f"The server {server!r} was restarted, so {entry.name} was not called; call it again."
        )
    if call.connection.ended.is_set():
        end = "died"
        if call.upstream.is_removed:
            end = "was stopped after a change of its configuration"
        during = f"during the call of {entry.name}, which may have taken effect."
        return f"The server {server!r} {end} {during}"
    if isinstance(error, MCPError):
        text = f"{entry.name} failed: {error.message} (code {error.code})."
        return f"{text}\n{_parameters(entry)}" if diagnose(error).blames_arguments else text
    return f"{entry.name} failed: the server {server!r} sent a reply that is not valid MCP."


def _forwarded_meta(context: Context) -> dict[str, Any] | None:
    """The request's `_meta` without keys that apply to one hop."""
    request = context.request_context
    meta = (request.meta or {}) if request is not None else {}
    kept = {k: v for k, v in meta.items() if k not in HOP_KEYS and not k.startswith(HOP_PREFIX)}
    return kept or None
