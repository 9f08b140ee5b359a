"""A call of a tool behind the gateway: checked, made, watched, and answered whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from fastmcp.server.context import Context
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from mcp import MCPError
from mcp.types import CallToolResult, InputRequiredResult, TextContent

from toolcrib.errors import DeadlineError, ServiceError
from toolcrib.gateway.arguments import faults
from toolcrib.gateway.catalogue import Offer
from toolcrib.gateway.exchange import Exchange
from toolcrib.gateway.faults import parameters
from toolcrib.gateway.front import Front
from toolcrib.gateway.lane import Lane
from toolcrib.gateway.parking import Parking
from toolcrib.gateway.substitutes import Substitutes
from toolcrib.gateway.turns import Turn, Turns
from toolcrib.gateway.upstream import Upstream
from toolcrib.integrations.fastmcp_answers import failure
from toolcrib.records import Outcome
from toolcrib.router.recovery import classify

__all__ = ["Calls"]

FORWARDED = "io.modelcontextprotocol/"
"""What of a request's `_meta` begins so is between the client and us; the rest is handed on."""

OURS = frozenset({"progressToken", "progress_token", "fastmcp"})


@dataclass(frozen=True, slots=True)
class _Going:
    """A call under way, and what is known of it."""

    offer: Offer
    lane: Lane
    exchange: Exchange
    turn: Turn
    key: str
    since: float


class Calls:
    """Calls tools for clients. What goes wrong is the answer, in words that help to go on."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        turns: Turns,
        substitutes: Substitutes,
        *,
        timeout_s: float,
        idle_s: float,
    ) -> None:
        self._upstreams = upstreams
        self._turns = turns
        self._substitutes = substitutes
        self._timeout_s = timeout_s
        self._beside: set[asyncio.Task[None]] = set()
        self._parking: Parking[_Going] = Parking(idle_s, lambda going: going.exchange.cancel())

    async def call(
        self, offer: Offer, arguments: dict[str, Any], context: Context, front: Front
    ) -> ToolResult:
        """Call a tool for whoever asks, or go on with a call that waits for an answer."""
        if context.request_state is not None:
            going = self._parking.take(context.request_state, front.key, offer.spec.id)
            if going is None:
                return failure(f"Nobody waits for this answer any more. Call {offer.name} again.")
            going.exchange.resume(front, dict(context.input_responses or {}))
            return await self._finish(going)
        if wrong := await asyncio.to_thread(faults, offer.spec.input_schema, arguments):
            return failure(_misfit(offer, wrong))
        turn = self._turns.of(front.key)
        if not turn.take():
            return failure(
                f"The call was not made: {self._turns.max_calls} calls since the last find_tools "
                "are all there may be. Call find_tools with what is still to be done.",
            )
        return await self._start(offer, arguments, context, front, turn)

    async def _start(
        self,
        offer: Offer,
        arguments: dict[str, Any],
        context: Context,
        front: Front,
        turn: Turn,
    ) -> ToolResult:
        upstream = self._upstreams[offer.spec.server]
        since = monotonic()
        try:
            lane = await upstream.lane(front.key)
        except ServiceError:
            await self._report(turn, offer, "failure", since)
            text = f"The server {upstream.name!r} does not answer, so {offer.name} was not called."
            return failure(text + await self._instead(offer, turn))
        name, meta = offer.spec.name, _handed_on(context)
        exchange = lane.call(front, name, arguments, meta, self._timeout_s)
        return await self._finish(_Going(offer, lane, exchange, turn, front.key, since))

    async def _finish(self, going: _Going) -> ToolResult:
        """Wait for the result, or for a question that the client has to answer first."""
        offer, turn = going.offer, going.turn
        try:
            outcome = await going.exchange.outcome()
        except Exception as error:  # noqa: BLE001 -- whatever a server provokes is its failure
            await self._report(turn, offer, "failure", going.since)
            await self._look_after(going, error)
            text = _failed(offer, error, is_dead=going.lane.link.ended.is_set())
            return failure(text + await self._instead(offer, turn))
        if not isinstance(outcome, CallToolResult):
            state = self._parking.put(going, going.key, offer.spec.id)
            asked = InputRequiredResult(input_requests=outcome, request_state=state)
            return InputRequiredToolResult(asked)
        await self._report(turn, offer, "failure" if outcome.is_error else "success", going.since)
        if outcome.is_error:
            return ToolResult.from_mcp_result(await self._with_others(outcome, offer, turn))
        return ToolResult.from_mcp_result(_own(outcome))

    async def _look_after(self, going: _Going, error: Exception) -> None:
        """See whether the server is still there; who has waited long does not wait for that."""
        doubting = asyncio.create_task(self._upstreams[going.offer.spec.server].doubt(going.lane))
        self._beside.add(doubting)
        doubting.add_done_callback(self._beside.discard)
        if not isinstance(error, DeadlineError):
            await asyncio.wait({doubting})

    async def _with_others(
        self, result: CallToolResult, offer: Offer, turn: Turn
    ) -> CallToolResult:
        """A tool's own error as it is, and behind it who else may do it, where that may help."""
        said = " ".join(part.text for part in result.content if isinstance(part, TextContent))
        # Other arguments, or another caller, are what the rest needs; not another tool.
        if not turn.query or classify(said) not in {"retriable", "reclassify"}:
            return _own(result)
        others = (await self._instead(offer, turn)).strip()
        more = [TextContent(type="text", text=others)] if others else []
        return _own(result).model_copy(update={"content": [*result.content, *more]})

    async def _instead(self, offer: Offer, turn: Turn) -> str:
        return await self._substitutes.in_words(offer, turn)

    async def _report(self, turn: Turn, offer: Offer, outcome: Outcome, since: float) -> None:
        took_ms = 1000 * (monotonic() - since)
        await self._substitutes.report(turn, offer, outcome, took_ms)

    def close(self) -> None:
        """Stop the calls that wait for somebody's answer."""
        self._parking.close()

    def leave(self, key: str) -> None:
        """A conversation is over, and with it what it waits for."""
        self._parking.leave(key)
        self._turns.leave(key)


def _misfit(offer: Offer, wrong: tuple[str, ...]) -> str:
    listed = "\n".join(f"- {line}" for line in wrong)
    return (
        f"The call was not made: the arguments do not fit the schema of {offer.name}.\n{listed}\n"
        f"It takes: {parameters(offer.spec.input_schema)}."
    )


def _failed(offer: Offer, error: Exception, *, is_dead: bool) -> str:
    """What became of a call that has no result."""
    server = offer.spec.server
    if isinstance(error, DeadlineError):
        return f"{offer.name}: {error}. The call was cancelled, but may have been carried out."
    if is_dead:
        return (
            f"The server {server!r} died in the call of {offer.name}, "
            "which may have been carried out."
        )
    if isinstance(error, MCPError):
        return f"{offer.name} failed: {error.message} (code {error.code})."
    return f"{offer.name} failed: the server {server!r} answered with something that is not MCP."


def _own(result: CallToolResult) -> CallToolResult:
    """The result without what its server says of the connection to us."""
    meta = {k: v for k, v in (result.meta or {}).items() if not k.startswith(FORWARDED)}
    return result.model_copy(update={"meta": meta or None})


def _handed_on(context: Context) -> dict[str, Any] | None:
    """What the client says beside the arguments, as far as it is not between it and us."""
    asked = context.request_context
    given = asked.meta if asked is not None and asked.meta else {}
    kept = {
        key: value
        for key, value in given.items()
        if key not in OURS and not key.startswith(FORWARDED)
    }
    return kept or None
