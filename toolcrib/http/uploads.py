"""Uploads: requests of JSON Lines with one entry a line, answered by progress and a report.

A line is a JSON array: the source of an entry, and a tool, a passage, or a refusal by the client. A
line of the answer is an object with `progress`; the last has the `report`, or the `problem` of a
failure.
"""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from toolcrib.crib import Crib
from toolcrib.errors import DeadlineError, QueryError, ServiceUnavailableError, TooLargeError
from toolcrib.http.context import RequestContext
from toolcrib.http.errors import ProblemBody
from toolcrib.http.routing import JSON_LINES
from toolcrib.indexers.writer import Listener
from toolcrib.records import IndexProgress, IndexReport, Refusal
from toolcrib.records.codec import adapter, dump, in_words

_Item = TypeVar("_Item")

EMPTY_LINE_EVERY_S = 5.0
"""Period of empty lines, so that no proxy closes a silent connection."""

STALL_TIMEOUT_S = 300.0
"""Time without progress before an upload fails; a graph of 50,000 tools takes a minute."""

MAX_PART_ENTRIES = 256
"""Entries in one write: a second or two of work, after which other requests may write."""

MAX_PART_BYTES = 512 * 1024
"""Bytes of JSON in one write."""

Entries: TypeAlias = list[tuple[str, _Item | Refusal]]


@dataclass(frozen=True, slots=True)
class Line:
    """Entry to write, stored as JSON, which takes less memory than its object.

    `name` groups entries, such as the passages of one document; None for a refusal.
    """

    name: Hashable
    content: bytes
    kind: Any

    @property
    def entry(self) -> tuple[str, Any]:
        """Entry as an object."""
        return adapter(self.kind).validate_json(self.content)

    @classmethod
    def of(cls, entry: tuple[str, object], name: Hashable, kind: Any) -> Line:
        """Line of an entry."""
        return cls(name, adapter(kind).dump_json(entry), kind)


class _BodyParser:
    """Parser of one body; `name` gives the group of an entry."""

    def __init__(self, kind: Any, name: Callable[[Any], Hashable], max_bytes: int) -> None:
        self._kind = kind
        self._adapter: TypeAdapter[tuple[str, Any]] = adapter(kind)
        self._name = name
        self._max_bytes = max_bytes
        self._rest = b""
        self._number = 0

    def lines(self, piece: bytes) -> Iterator[Line]:
        """Lines that this piece completes; an invalid line is a refusal."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if max(map(len, (*lines, self._rest))) > self._max_bytes:
            raise TooLargeError(f"a line is larger than {self._max_bytes:,} bytes, the limit")
        for line in lines:
            self._number += 1
            content = line.removeprefix(BOM_UTF8) if self._number == 1 else line
            if content.strip():
                yield self._line(content)

    def _line(self, content: bytes) -> Line:
        try:
            _, item = self._adapter.validate_json(content)
        except ValidationError as error:
            refused = Refusal("the request", f"line {self._number}", in_words(error, ""))
            return Line.of(("the request", refused), None, self._kind)
        name = None if isinstance(item, Refusal) else self._name(item)
        return Line(name, content, self._kind)


async def read_upload(
    context: RequestContext,
    request: Request,
    kind: Any,
    name: Callable[[Any], Hashable],
    *,
    prune: bool,
) -> list[Line]:
    """Read all lines of a body, entries of the type `kind`, grouped by `name`.

    Raises:
        TooLargeError: a line or the whole is too large.
        QueryError: `prune` without a line: an empty file would remove everything.
    """
    service = context.state.settings.service
    upload = _BodyParser(kind, name, service.max_body_bytes)
    found: list[Line] = []
    async for piece in request.stream():
        context.extend(service.timeout_s)
        found += await context.run(lambda piece=piece: list(upload.lines(piece)))
    found += await context.run(lambda: list(upload.lines(b"\n")))
    if prune and not found:
        raise QueryError(
            "prune removes everything that is not sent, and there is no line; send one at least"
        )
    return found


def split_into_parts(lines: Sequence[Line]) -> list[list[Line]]:
    """Split lines into parts, between which others may write; one name stays in one part."""
    groups: dict[Hashable, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.name, []).append(line)
    parts: list[list[Line]] = [[]]
    part_bytes = 0
    for group in groups.values():
        group_bytes = sum(len(line.content) for line in group)
        is_full = len(parts[-1]) + len(group) > MAX_PART_ENTRIES
        if parts[-1] and (is_full or part_bytes + group_bytes > MAX_PART_BYTES):
            parts.append([])
            part_bytes = 0
        parts[-1] += group
        part_bytes += group_bytes
    # A single part keeps its order.
    return parts if len(parts) > 1 else [list(lines)]


@dataclass(frozen=True, slots=True)
class UploadWork(Generic[_Item]):
    """Work of an upload: `write` for each part, then `finish` with the report of all."""

    parts: list[list[Line]]
    write: Callable[[Crib, Entries[_Item], Listener], IndexReport]
    finish: Callable[[Crib, IndexReport], IndexReport] = lambda _crib, report: report

    async def run(self, context: RequestContext, listener: Listener) -> IndexReport:
        """Run the work; return its report."""
        report = IndexReport()
        done, total = 0, sum(map(len, self.parts))
        for part in self.parts:

            def report_progress(
                progress: IndexProgress, done: int = done, size: int = len(part)
            ) -> None:
                context.checkpoint()
                share = (done + progress.share * size) / max(total, 1)
                listener(replace(progress, done=done + progress.done, total=total, share=share))

            report += await context.write(partial(self._write, part, report_progress))
            done += len(part)
        listener(IndexProgress(total, total, share=1.0))
        return await context.write(lambda crib: self.finish(crib, report))

    def _write(self, part: list[Line], listener: Listener, crib: Crib) -> IndexReport:
        return self.write(crib, [line.entry for line in part], listener)


async def respond(context: RequestContext, work: UploadWork[Any]) -> Response:
    """Run the work and answer in lines; an error before any progress is an ordinary problem."""
    context.extend(STALL_TIMEOUT_S)
    lines = _lines(context, work)
    first = await anext(lines)

    async def all_lines() -> AsyncGenerator[bytes]:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(all_lines(), media_type=JSON_LINES)


async def _lines(context: RequestContext, work: UploadWork[Any]) -> AsyncGenerator[bytes]:
    queue: asyncio.Queue[IndexProgress | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listener(progress: IndexProgress) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, progress)

    job = asyncio.ensure_future(work.run(context, listener))
    # The last progress comes from a thread: end the queue after it.
    job.add_done_callback(lambda _: loop.call_soon(queue.put_nowait, None))
    ending = asyncio.ensure_future(context.state.ending.wait())
    ending.add_done_callback(lambda _: job.cancel())
    has_begun = False
    try:
        async for progress in _progress_events(context, queue):
            has_begun = True
            yield b'{"progress":%b}\n' % dump(progress) if progress else b"\n"
        if job.cancelled():
            raise ServiceUnavailableError("the service is stopping; send the upload again")  # noqa: TRY301
        yield b'{"report":%b}\n' % dump(job.result(), full=True)
    except Exception as error:
        if not has_begun:
            raise
        context.state.telemetry.log_fault(context.request_id, error)
        problem = ProblemBody.of(error, context.request_id)
        # The client has a 200 since the first line: metrics and the log must show the failure.
        context.status = problem.status
        yield b'{"problem":%b}\n' % dump(problem)
    finally:
        ending.cancel()
        job.cancel()


async def _progress_events(
    context: RequestContext, queue: asyncio.Queue[IndexProgress | None]
) -> AsyncGenerator[IndexProgress | None]:
    """Progress events; None after each period without one."""
    silent_s = 0.0
    while True:
        try:
            progress = await asyncio.wait_for(queue.get(), EMPTY_LINE_EVERY_S)
        except TimeoutError:
            silent_s += EMPTY_LINE_EVERY_S
            if silent_s > STALL_TIMEOUT_S:
                raise DeadlineError(
                    f"nothing was written for {STALL_TIMEOUT_S:g} s; send the upload again"
                ) from None
            yield None
            continue
        if progress is None:
            return
        silent_s = 0.0
        context.extend(STALL_TIMEOUT_S + EMPTY_LINE_EVERY_S)
        yield progress
