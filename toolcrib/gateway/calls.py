"""Calls of upstream tools: checked, made, watched, and answered whatever happens."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from fastmcp.server.context import Context
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp import MCPError
from mcp.types import CallToolResult, InputRequiredResult, TextContent

from toolcrib.caches import BoundedMap
from toolcrib.errors import DeadlineError, ServiceError, ToolcribError
from toolcrib.gateway.catalog import CatalogEntry
from toolcrib.gateway.connection import PendingCall, UpstreamConnection
from toolcrib.gateway.downstream import MAX_CONVERSATIONS, ClientRequest, conversation_key
from toolcrib.gateway.guidance import GatewayGuidance
from toolcrib.gateway.index import GatewayIndex
from toolcrib.gateway.upstream import UpstreamPool
from toolcrib.integrations.arguments import argument_errors, describe_parameters
from toolcrib.integrations.fastmcp import failure
from toolcrib.records import Outcome, Scope, ToolHit
from toolcrib.records.definitions import parameters_schema
from toolcrib.router.alternates import alternates
from toolcrib.router.decision_log import Failures
from toolcrib.router.recovery import diagnose
from toolcrib.store.filters import AnyOf, Not

__all__ = ["Alternatives", "CallBudget", "CallBudgets", "CallRunner", "PendingInputs"]

BETWEEN_US = "io.modelcontextprotocol/"
"""What of a `_meta` begins so is between two neighbours; the rest is handed on."""

OURS = frozenset({"progressToken", "progress_token", "fastmcp"})

MAX_PENDING = 1_000
MAX_ALTERNATIVES = 3
MAX_CHARS = 100
MAX_SCHEMA_CHARS = 8_000

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CallBudget:
    """From one search to the next: what it was for, and the calls left; None for no limit."""

    query: str
    left: int | None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def take(self) -> bool:
        """Count one call; False when no more may be made."""
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0


class CallBudgets:
    """The budgets of all conversations, by their key; the longest unused are forgotten."""

    def __init__(self, max_calls: int | None) -> None:
        self.max_calls = max_calls
        self._of: BoundedMap[str, CallBudget] = BoundedMap(MAX_CONVERSATIONS)

    def begin(self, key: str, query: str) -> CallBudget:
        """A conversation searches anew."""
        self._of[key] = budget = CallBudget(query, self.max_calls)
        return budget

    def of(self, key: str) -> CallBudget:
        """A conversation's budget; one that has not searched yet begins one by calling."""
        return self._of.get(key) or self.begin(key, "")

    def leave(self, key: str) -> None:
        """A conversation is over."""
        self._of.pop(key, None)


class Alternatives:
    """Other tools that may do what a failed one was to do, in reach of who called it.

    It asks the index itself: a crib would read the turn first, which is of no use here, and takes
    minutes where the encoder is not the shipped one.
    """

    def __init__(
        self, index: GatewayIndex, scope: Callable[[], Scope], not_up: Callable[[], tuple[str, ...]]
    ) -> None:
        self._index, self._scope, self._not_up = index, scope, not_up
        self._failures = Failures()

    async def in_words(self, failed: CatalogEntry, budget: CallBudget) -> str:
        """The tools to try instead, or that there are none, as an end to a message."""
        if not self._index.is_open.is_set():
            return " Try again later."
        try:
            hits = await self._index.work(self._hits, failed, budget, self._scope())
        except ToolcribError:
            logger.warning("alternates could not be looked for", exc_info=True)
            return ""
        lines = [line for hit in hits if (line := self._line(hit))]
        if not lines:
            return " No other tool is like it; try again later, or go on without it."
        return "\nOther tools that may do it:\n" + "\n".join(lines)

    def _hits(self, failed: CatalogEntry, budget: CallBudget, scope: Scope) -> list[ToolHit]:
        return alternates(
            self._index.crib.tools.find,
            failed.spec,
            budget.query or failed.spec.description or failed.spec.name,
            excluded=self._failures.of(budget.id),
            scope=scope,
            where=Not(AnyOf("server", self._not_up())),
            k=MAX_ALTERNATIVES,
            likeness=self._index.crib.tools.settings.recovery.likeness,
        )

    async def names(self, failed: CatalogEntry, budget: CallBudget) -> list[str]:
        """The names of the tools to try instead, those at hand alone."""
        if not self._index.is_open.is_set():
            return []
        hits = await self._index.work(self._hits, failed, budget, self._scope())
        entries = (self._index.catalog.get(hit.id) for hit in hits)
        return [entry.name for entry in entries if entry is not None]

    def _line(self, hit: ToolHit) -> str:
        """One tool to try; empty for one that is not on offer any more."""
        entry = self._index.catalog.get(hit.id)
        if entry is None:
            return ""
        about = " ".join(entry.spec.description.split())
        short = about if len(about) <= MAX_CHARS else about[: MAX_CHARS - 1] + "…"
        return f"- {entry.name}: {short}" if short else f"- {entry.name}"

    async def report(
        self, budget: CallBudget, entry: CatalogEntry, outcome: Outcome, since: float
    ) -> None:
        """Take down how a call ended that began at `since` (of the monotonic clock)."""
        took_ms = 1000 * (monotonic() - since)
        self._failures.report(budget.id, entry.spec.id, outcome)
        if not self._index.is_open.is_set():
            return
        report = self._index.crib.report_outcome
        try:
            await self._index.work(report, budget.id, entry.spec.id, outcome, took_ms=took_ms)
        except (ToolcribError, OSError):
            # The call was made: its result is not lost for that.
            logger.warning("the outcome of a call could not be taken down", exc_info=True)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call under way, and what is known of it."""

    entry: CatalogEntry
    connection: UpstreamConnection
    pending: PendingCall
    budget: CallBudget
    key: str
    since: float = field(default_factory=monotonic)


class PendingInputs:
    """Calls whose client must answer a question, and then calls again; each kept for `keep_s`.

    Only the conversation that made a call gets it back, once, for the same tool. A call that
    nobody comes back for is cancelled.
    """

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._calls: dict[str, tuple[_Call, float]] = {}

    def put(self, call: _Call) -> str:
        """Keep a call; gives the state that its client must bring."""
        self._sweep()
        state = secrets.token_urlsafe(16)
        self._calls[state] = call, monotonic() + self._keep_s
        return state

    def take(self, state: str, key: str, tool_id: str) -> _Call | None:
        """The call of this state, key and tool, if there is one."""
        self._sweep()
        call, _ = self._calls.get(state, (None, 0.0))
        if call is None or (call.key, call.entry.spec.id) != (key, tool_id):
            return None
        del self._calls[state]
        return call

    def leave(self, key: str) -> None:
        """A conversation is over."""
        self._cancel([state for state, (call, _) in self._calls.items() if call.key == key])

    def close(self) -> None:
        """Cancel all calls."""
        self._cancel(list(self._calls))

    def _sweep(self) -> None:
        now = monotonic()
        oldest = list(self._calls)[: max(0, len(self._calls) - MAX_PENDING + 1)]
        late = [state for state, (_, until) in self._calls.items() if until < now]
        self._cancel(list(dict.fromkeys((*late, *oldest))))

    def _cancel(self, states: list[str]) -> None:
        for state in states:
            self._calls.pop(state)[0].pending.cancel()


class CallRunner:
    """Calls tools for clients. What goes wrong is the answer, in words that help to go on.

    `level` gives the lightest log entries that a conversation wants, by its key.
    """

    def __init__(
        self,
        pool: UpstreamPool,
        budgets: CallBudgets,
        alternatives: Alternatives,
        level: Callable[[str], str],
        guidance: GatewayGuidance,
        *,
        timeout_s: float,
    ) -> None:
        self._pool, self._budgets, self._alternatives = pool, budgets, alternatives
        self._level, self._timeout_s = level, timeout_s
        self._guidance = guidance
        self._beside: set[asyncio.Task[None]] = set()
        self._pending = PendingInputs(pool.intervals.idle_s)

    async def call(
        self, entry: CatalogEntry, arguments: dict[str, Any], context: Context
    ) -> ToolResult:
        """Call a tool for whoever asks, or go on with a call that waits for an answer."""
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
                return failure(f"Nobody waits for this answer any more. Call {entry.name} again.")
            call.pending.resume(request, dict(context.input_responses or {}))
            return await self._finish(call)
        if wrong := await asyncio.to_thread(argument_errors, entry.spec.input_schema, arguments):
            listed = "\n".join(f"- {line}" for line in wrong)
            return failure(
                f"The call was not made: the arguments do not fit the schema of {entry.name}.\n"
                f"{listed}\n{_taken(entry)}"
            )
        budget = self._budgets.of(request.key)
        if not budget.take():
            return failure(
                f"The call was not made: {self._budgets.max_calls} calls since the last "
                "find_tools are all there may be. Call find_tools with what is still to be done."
            )
        since = monotonic()
        try:
            connection = await self._pool[entry.spec.server].connection(request.key)
        except ServiceError:
            await self._alternatives.report(budget, entry, "failure", since)
            text = f"The server {entry.spec.server!r} does not answer, so {entry.name} was "
            return failure(f"{text}not called." + await self._alternatives.in_words(entry, budget))
        meta = _handed_on(context)
        pending = connection.call(request, entry.spec.name, arguments, meta, self._timeout_s)
        return await self._finish(_Call(entry, connection, pending, budget, request.key, since))

    async def _finish(self, call: _Call) -> ToolResult:
        """Wait for the result, or for a question that the client has to answer first."""
        entry, budget = call.entry, call.budget
        try:
            result = await call.pending.outcome()
        except Exception as error:  # noqa: BLE001 -- whatever a server provokes is its failure
            await self._alternatives.report(budget, entry, "failure", call.since)
            await self._check(call, error)
            return failure(
                _failed(entry, error, is_dead=call.connection.ended.is_set())
                + await self._alternatives.in_words(entry, budget)
            )
        if not isinstance(result, CallToolResult):
            state = self._pending.put(call)
            asked = InputRequiredResult(input_requests=result, request_state=state)
            return InputRequiredToolResult(asked)
        outcome = "failure" if result.is_error else "success"
        await self._alternatives.report(budget, entry, outcome, call.since)
        content, meta = result.content, result.meta or {}
        if result.is_error:
            content = [*content, *await self._others(result, entry, budget)]
        kept = {key: value for key, value in meta.items() if not key.startswith(BETWEEN_US)}
        update = {"content": content, "meta": kept or None}
        return ToolResult.from_mcp_result(result.model_copy(update=update))

    async def _check(self, call: _Call, error: Exception) -> None:
        """See whether the server is still there; who has waited long does not wait for that."""
        check = asyncio.create_task(self._pool[call.entry.spec.server].check(call.connection))
        self._beside.add(check)
        check.add_done_callback(self._beside.discard)
        if not isinstance(error, DeadlineError):
            await asyncio.wait({check})

    async def _others(
        self, result: CallToolResult, entry: CatalogEntry, budget: CallBudget
    ) -> list[TextContent]:
        """What comes after a tool's own error: its schema, or who else may do it."""
        said = " ".join(part.text for part in result.content if isinstance(part, TextContent))
        found = diagnose(said)
        if found.blames_arguments:
            return [TextContent(type="text", text=_taken(entry))]
        # Other arguments, or another caller, are what the rest needs; not another tool.
        if not budget.query or found.kind not in {"retriable", "reclassify"}:
            return []
        others = (await self._alternatives.in_words(entry, budget)).strip()
        return [TextContent(type="text", text=others)] if others else []

    def close(self) -> None:
        """Stop the calls that wait for somebody's answer."""
        self._pending.close()

    def leave(self, key: str) -> None:
        """A conversation is over, and with it what it waits for."""
        self._pending.leave(key)
        self._budgets.leave(key)
        self._guidance.leave(key)


def _taken(entry: CatalogEntry) -> str:
    """What a tool takes: its schema, which a search does not give, or in words where it is long."""
    schema = json.dumps(parameters_schema(entry.spec), ensure_ascii=False, separators=(",", ":"))
    if len(schema) <= MAX_SCHEMA_CHARS:
        return f"Its inputSchema: {schema}"
    return f"It takes: {describe_parameters(entry.spec.input_schema)}."


def _failed(entry: CatalogEntry, error: Exception, *, is_dead: bool) -> str:
    """What became of a call that has no result."""
    server = entry.spec.server
    if isinstance(error, DeadlineError):
        return f"{entry.name}: {error}. The call was cancelled, but may have been carried out."
    if is_dead:
        what = f"died in the call of {entry.name}, which may have been carried out."
        return f"The server {server!r} {what}"
    if isinstance(error, MCPError):
        text = f"{entry.name} failed: {error.message} (code {error.code})."
        return f"{text}\n{_taken(entry)}" if diagnose(error).blames_arguments else text
    return f"{entry.name} failed: the server {server!r} answered with something that is not MCP."


def _handed_on(context: Context) -> dict[str, Any] | None:
    """What the client says beside the arguments, as far as it is not between it and us."""
    asked = context.request_context
    meta = (asked.meta or {}) if asked is not None else {}
    kept = {k: v for k, v in meta.items() if k not in OURS and not k.startswith(BETWEEN_US)}
    return kept or None
