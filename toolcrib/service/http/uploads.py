"""Uploads: JSON Lines in, one entry each; progress and a report out, while they are written.

A line is a JSON array of where an entry came from and what it is: a tool or a passage, or what
was refused of the source before it was sent. A line of the answer is an object with `progress`,
then one with `report`, or with `problem` where the work failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from toolcrib.crib import Crib
from toolcrib.errors import DeadlineError, TooLargeError
from toolcrib.indexers.writing import Listener
from toolcrib.records import IndexProgress, IndexReport, Refusal
from toolcrib.records.codec import adapter, dump
from toolcrib.records.validation import in_words
from toolcrib.service.http.context import RequestContext
from toolcrib.service.http.errors import ProblemBody
from toolcrib.service.http.routing import JSON_LINES

__all__ = ["Upload", "read_upload", "respond"]

Item = TypeVar("Item")

KEEP_ALIVE_S = 5.0
"""An empty line is sent that often, so that nobody on the way takes the connection for dead."""

STALL_S = 300.0
"""How long nothing may become durable; an engine builds its graph of 50,000 tools in a minute."""

Entries = list[tuple[str, Item | Refusal]]
Work = Callable[[Crib, Listener], IndexReport]


class Upload(Generic[Item]):
    """The lines of one body, each an entry of this kind."""

    def __init__(self, kind: Any, most: int) -> None:
        self._adapter = adapter(kind)
        self._most = most
        self._rest = b""
        self._number = 0

    def entries(self, piece: bytes) -> Iterator[tuple[str, Item | Refusal]]:
        """The entries that are complete with this piece; what is none is a refusal.

        Raises:
            TooLargeError: a line is longer than any may be.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if max(map(len, (*lines, self._rest))) > self._most:
            raise TooLargeError(
                f"a line is larger than {self._most:,} bytes, the most that is taken"
            )
        yield from map(self._entry, filter(bytes.strip, lines))

    def _entry(self, line: bytes) -> tuple[str, Item | Refusal]:
        self._number += 1
        try:
            return self._adapter.validate_json(line)
        except ValidationError as error:
            place = f"line {self._number}"
            return "the request", Refusal("the request", place, in_words(error, "it"))


async def read_upload(context: RequestContext, request: Request, kind: Any) -> Entries[Any]:
    """All entries of a body, each as `kind` says.

    Raises:
        TooLargeError: a line or the whole is too large.
    """
    service = context.state.settings.service
    upload: Upload[Any] = Upload(kind, service.max_body_bytes)
    found: Entries[Any] = []
    async for piece in request.stream():
        context.extend(service.timeout_s)
        found += await context.run(lambda piece=piece: list(upload.entries(piece)))
    return found + list(upload.entries(b"\n"))


async def respond(context: RequestContext, work: Work) -> Response:
    """Do the work, and tell of it line by line; what fails before any progress is a problem."""
    context.extend(STALL_S)
    lines = _lines(context, work)
    first = await anext(lines)

    async def all_lines() -> AsyncGenerator[bytes]:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(all_lines(), media_type=JSON_LINES)


async def _lines(context: RequestContext, work: Work) -> AsyncGenerator[bytes]:
    heard: asyncio.Queue[IndexProgress | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listener(progress: IndexProgress) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, progress)

    job = asyncio.ensure_future(context.write(partial(_call, work, listener)))
    job.add_done_callback(lambda _: heard.put_nowait(None))
    has_begun = False
    try:
        async for progress in _until_done(context, heard):
            has_begun = True
            yield b'{"progress":%b}\n' % dump(progress) if progress else b"\n"
        report = await job
        yield b'{"report":%b}\n' % dump(report, full=True)
    except Exception as error:
        if not has_begun:
            raise
        context.state.telemetry.failed(context.request_id, error)
        yield b'{"problem":%b}\n' % dump(ProblemBody.of(error, context.request_id))
    finally:
        job.cancel()


def _call(work: Work, listener: Listener, crib: Crib) -> IndexReport:
    return work(crib, listener)


async def _until_done(
    context: RequestContext, heard: asyncio.Queue[IndexProgress | None]
) -> AsyncGenerator[IndexProgress | None]:
    """Progress as it is made, and None where there was none for a while."""
    silent_s = 0.0
    while True:
        try:
            progress = await asyncio.wait_for(heard.get(), KEEP_ALIVE_S)
        except TimeoutError:
            silent_s += KEEP_ALIVE_S
            if silent_s > STALL_S:
                raise DeadlineError(
                    f"nothing was written for {STALL_S:g} s; what is may be sent again"
                ) from None
            yield None
            continue
        if progress is None:
            return
        silent_s = 0.0
        context.extend(STALL_S + KEEP_ALIVE_S)
        yield progress
