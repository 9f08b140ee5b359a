"""Connection to one upstream server, from handshake to end, with its calls.

FastMCP's own proxies relay one request of a client over a session of its own, and only if both
sides speak one era of the protocol. `docs/explanation/gateway.md` lists the cases that they lose.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias, TypeVar, cast

import anyio
from mcp import ClientSession, MCPError, types
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.inbound import x_mcp_header_map
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.context.pii import without_secrets
from toolcrib.errors import DeadlineError, ServiceUnavailableError
from toolcrib.gateway.downstream import LISTS, ClientRequest, InputAnswer
from toolcrib.indexers.readers.base import is_object
from toolcrib.indexers.readers.mcp_config import HttpTarget, StdioTarget, Target
from toolcrib.indexers.readers.mcp_session import (
    MAX_QUOTE_CHARS,
    UNAUTHORISED_STATUSES,
    SessionState,
    Tap,
    explain,
    explain_timeout,
    implementation,
    is_closed,
    list_pages,
    open_session,
)

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.message import SessionMessage

SERVER_CLOSE_TIMEOUT_S = 3.0
"""Time for a server to end by itself, before it is killed."""

MAX_PAGES = 10_000
MAX_INPUT_ROUNDS = 20
INPUT_ROUND_PAUSE_S = 0.25

TAIL_BYTES = 8192
READ_BYTES = 65_536

RELAYED_TYPES = (types.LoggingMessageNotification, types.ElicitCompleteNotification)
"""Notifications that are forwarded to clients unchanged. Progress goes to its caller, with the
caller's token. All others concern requests to the gateway, or features that it does not serve."""

CHANGES = tuple(notification for notification, _ in LISTS.values())

SDK_HTTP_ERRORS = ("Server returned an error response", "Not Found", "Session terminated")
"""Messages of the SDK for servers that answer with an HTTP status alone."""

SESSION_REFUSALS = (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
"""Statuses for a request of a session that has ended; 404 is the protocol's."""

REQUEST_FAULTS = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS)

TOOL_ERROR = "tool_error"
"""Error type, by the conventions, of a call that the tool answered with an error."""

ObservedCall: TypeAlias = Callable[[str, float, str], None]
"""Observer of a call's end: transport, seconds, and type of its error (empty without one)."""

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)


async def observe_request(
    request: Awaitable[_Result], observe: Callable[[float, str], None]
) -> _Result:
    """Await a request, and observe its seconds and its error, by OpenTelemetry's conventions."""
    began = monotonic()
    try:
        result = await request
    except BaseException as error:
        name = str(error.code) if isinstance(error, MCPError) else type(error).__qualname__
        observe(monotonic() - began, name)
        raise
    observe(monotonic() - began, TOOL_ERROR if getattr(result, "is_error", False) else "")
    return result


async def wait_for_first(timeout_s: float, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, or the timeout is over."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


@dataclass(slots=True)
class _Question:
    """A server's question, open until the client calls again with the answer."""

    request: types.InputRequest
    answer: asyncio.Future[InputAnswer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_sent: bool = False


class PendingCall:
    """Call under way, made by `work`; the server has `timeout_s`, without the time of questions.

    A client that takes requests gets questions at once. Any other client gets the open questions as
    the result of its call (`outcome`), and calls again with the answers (`resume`). `is_refused`:
    the server had ended the session, and did not make the call.
    """

    def __init__(
        self,
        request: ClientRequest,
        timeout_s: float,
        work: Callable[[PendingCall], Coroutine[Any, Any, types.CallToolResult]],
    ) -> None:
        self.request, self.is_refused = request, False
        self._timeout_s = self._left_s = timeout_s
        self._is_late = False
        self._changed = asyncio.Event()
        self._questions: dict[str, _Question] = {}
        self._question_count = 0
        self._timer = self._run_clock()
        self.task = asyncio.create_task(work(self))
        self.task.add_done_callback(self._call_ended)

    async def answer(self, request: types.InputRequest) -> InputAnswer:
        """Send a server's question to the caller, and wait for the answer."""
        if (refusal := self.request.refusal(request)) is not None:
            return refusal
        if isinstance(request, types.CreateMessageRequest):
            # For the client the gateway is one server: its context is that of all servers.
            about = request.params.model_copy(update={"include_context": None})
            request = request.model_copy(update={"params": about})
        if not self._questions:
            self._timer.cancel()
            self._left_s = self._timer.when() - asyncio.get_running_loop().time()
        # Since 2026 a client takes no requests: questions are the result of its call.
        is_sent = self.request.session.can_send_request
        self._question_count += 1
        key, question = f"question-{self._question_count}", _Question(request, is_sent=is_sent)
        self._questions[key] = question
        try:
            if is_sent:
                return await self.request.send(request)
            self._changed.set()
            return await question.answer
        finally:
            del self._questions[key]
            if not self._questions:
                self._timer = self._run_clock()

    async def outcome(self) -> types.CallToolResult | dict[str, types.InputRequest]:
        """The call's result, or the questions that the client must answer first.

        The call continues while questions are open, and is cancelled if the caller disconnects.

        Raises:
            DeadlineError: the server took too long; the call is cancelled.
            Exception: the error of the call.
        """
        while not self.task.done():
            if self._is_late:
                self.cancel()
                raise DeadlineError(f"the server gave no answer within {self._timeout_s:g} s")
            if new := {k: q for k, q in self._questions.items() if not q.is_sent}:
                for question in new.values():
                    question.is_sent = True
                return {key: question.request for key, question in new.items()}
            self._changed.clear()
            try:
                await self._changed.wait()
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.task.result()

    def resume(self, request: ClientRequest, answers: Mapping[str, types.InputResponse]) -> None:
        """Resume with the client's answers; a missing answer is an error for the server."""
        self.request = request
        missing = types.ErrorData(code=types.INVALID_REQUEST, message="the client gave no answer")
        for key, question in self._questions.items():
            if question.is_sent and not question.answer.done():
                question.answer.set_result(answers.get(key, missing))

    def restart_clock(self) -> None:
        """Give the server its whole time again: progress shows that it works."""
        self._left_s = self._timeout_s
        if not self._questions and not self.task.done():
            self._timer.cancel()
            self._timer = self._run_clock()

    def cancel(self) -> None:
        """Cancel the call, also at the server."""
        self.task.cancel()

    def _call_ended(self, task: asyncio.Task[types.CallToolResult]) -> None:
        self._timer.cancel()
        # Retrieve the error, or asyncio logs the error of an abandoned call.
        if not task.cancelled():
            task.exception()
        self._changed.set()

    def _time_out(self) -> None:
        self._is_late = True
        self._changed.set()

    def _run_clock(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._left_s, self._time_out)


class UpstreamConnection:
    """Session with one server that stays open; can be opened once.

    The protocol does not assign a server's question or notification to a call. If all calls have
    one caller (`has_one_caller`), the latest call is assumed; otherwise there must be only one
    call. `auth` authorises requests over HTTP. `observe_call` is called after each call. `changed`
    is set when a list of the server has changed; `ended` when the session is over, for the
    `reason`; `has_lost_session` if the server answered that it does not know the session, as after
    a restart. `instructions` are the server's own. `used_at`: time of opening, or of the last
    call's start or end; `reads`: number of other requests under way.
    """

    def __init__(
        self,
        target: Target,
        *,
        has_one_caller: bool,
        auth: httpx2.Auth | None = None,
        observe_call: ObservedCall = lambda _transport, _took_s, _error: None,
    ) -> None:
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.reason = ""
        self.has_lost_session = False
        self.instructions = ""
        self.used_at, self.reads = monotonic(), 0
        self._has_one_caller, self._observe_call = has_one_caller, observe_call
        self._calls: list[PendingCall] = []
        self._state = SessionState(target, auth)
        self._stderr = StderrTail()
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._listing = asyncio.Lock()
        self._is_subscribed = False

    # -- life ----------------------------------------------------------------------------------

    async def open(self, timeout_s: float) -> None:
        """Connect and do the handshake."""
        self._task = asyncio.create_task(self._run())
        try:
            await wait_for_first(timeout_s, self._ready, self.ended)
        except BaseException:
            await self.close()
            raise
        if self._ready.is_set():
            self.used_at = monotonic()
            return
        if not self.ended.is_set():
            self.reason = explain_timeout(self._state, timeout_s, self._stderr.line)
        await self.close()
        raise ServiceUnavailableError(self.reason)

    async def close(self) -> None:
        """End the session, and the server's process if this connection started it."""
        if self._task is None:
            return
        self._stop.set()
        if self._ready.is_set():
            await asyncio.wait({self._task}, timeout=SERVER_CLOSE_TIMEOUT_S)
        self._scope.cancel()
        # The SDK ends a process within a shielded, bounded time.
        await asyncio.wait({self._task})

    def give_up(self, reason: str) -> None:
        """End the session for a reason of the gateway."""
        self.reason = self.reason or reason
        self._stop.set()

    @property
    def is_over(self) -> bool:
        """True once the session has ended, or is ending."""
        return self.ended.is_set() or self._stop.is_set()

    @property
    def lacks_authorisation(self) -> bool:
        """True if the server refused the connection without a token."""
        return self._state.status in UNAUTHORISED_STATUSES

    async def _run(self) -> None:
        try:
            with self._scope, self._stderr:
                async with open_session(
                    self._state, self._stderr.file, self._make_session
                ) as session:
                    self._session = session
                    hello = session.initialize_result or session.discover_result
                    self.instructions = (hello and hello.instructions) or ""
                    self._ready.set()
                    await self._run_until_stopped(session)
                is_process = isinstance(self._state.target, StdioTarget)
                end = "process ended" if is_process else "connection closed"
                line = self._stderr.line
                stderr = f"; stderr ended with {line!r}" if line else ""
                self.reason = self.reason or f"its {end}{stderr}"
        except Exception as error:
            logger.debug("a connection failed", exc_info=True)
            self.reason = self.reason or explain(self._state, error, self._stderr.line)
        finally:
            self.ended.set()

    def _make_session(self, incoming: Any, outgoing: Any) -> ClientSession:
        def callback(kind: Any) -> Any:
            async def answer(_context: Any, params: Any = None) -> Any:
                return await self._answer(kind(params=params))

            return answer

        # A first attempt over another transport may have ended its stream.
        self._stop.clear()
        return _RelayingSession(
            _IncomingStream(incoming, self._state, self._stop),
            outgoing,
            sampling_callback=callback(types.CreateMessageRequest),
            elicitation_callback=callback(types.ElicitRequest),
            list_roots_callback=callback(types.ListRootsRequest),
            message_handler=self._receive,
            client_info=implementation(),
            log_level="debug",
        )

    async def _run_until_stopped(self, session: ClientSession) -> None:
        async with anyio.create_task_group() as beside:
            lists = {f"{kind}_list_changed": True for kind, announces in self._lists if announces}
            if session.protocol_version in MODERN_PROTOCOL_VERSIONS and lists:
                beside.start_soon(self._subscribe, session, lists)
            else:
                self._is_subscribed = bool(lists)
            await self._stop.wait()
            beside.cancel_scope.cancel()

    async def _subscribe(self, session: ClientSession, lists: dict[str, bool]) -> None:
        """Subscribe to changes of lists, as the protocol since 2026 requires."""
        try:
            async with listen(session, **cast("Any", lists)) as changes:
                self._is_subscribed = all(getattr(changes.honored, field) for field in lists)
                async for _ in changes:
                    self.changed.set()
        except (MCPError, SubscriptionLost):
            logger.debug("the subscription to changes failed", exc_info=True)
        self._is_subscribed = False

    # -- messages from the server -------------------------------------------------------------

    async def _answer(self, request: types.InputRequest) -> InputAnswer:
        call = self._addressed_call
        if call is None:
            reason = "several calls are under way" if self._calls else "no call is under way"
            return types.ErrorData(
                code=types.INVALID_REQUEST, message=f"no client can be asked: {reason}"
            )
        return await call.answer(request)

    async def _receive(self, message: IncomingMessage) -> None:
        if isinstance(message, CHANGES):
            self.changed.set()
        elif isinstance(message, RELAYED_TYPES) and (call := self._addressed_call) is not None:
            await call.request.notify(message)

    @property
    def _addressed_call(self) -> PendingCall | None:
        """Call that a message of the server belongs to; None if unknown."""
        if not self._calls or (len(self._calls) > 1 and not self._has_one_caller):
            return None
        return self._calls[-1]

    # -- requests to the server --------------------------------------------------------------

    @property
    def announces_changes(self) -> bool:
        """True if every change of a list is surely announced; otherwise the lists need polling.

        Over HTTP the stream of notifications may break unnoticed.
        """
        is_stdio = isinstance(self._state.target, StdioTarget)
        return self._is_subscribed and is_stdio and all(announces for _, announces in self._lists)

    @property
    def is_busy(self) -> bool:
        """True while a call or read is under way, which may take long."""
        return bool(self._calls) or self.reads > 0

    @property
    def _lists(self) -> list[tuple[str, bool]]:
        """Lists of the server; True for lists with announced changes."""
        server = self.session.server_capabilities
        lists = [(kind, getattr(server, kind, None)) for kind in LISTS]
        return [(kind, bool(each.list_changed)) for kind, each in lists if each]

    @property
    def session(self) -> ClientSession:
        """Open session."""
        if self._session is None or self.is_over:
            raise ServiceUnavailableError(self.reason or "the connection is over")
        return self._session

    async def tools(self) -> list[Any]:
        """All tools, unparsed: an invalid tool does not hide the others.

        Raises:
            MCPError, ServiceUnavailableError: the server failed.
        """
        session = self.session
        async with self._listing:
            self.changed.clear()
            self._state.tools.clear()
            try:
                await list_pages(session, self._state, MAX_PAGES)
            except MCPError as error:
                if error.code != types.METHOD_NOT_FOUND:
                    raise
            found = list(self._state.tools)
            self._state.tools.clear()
        _register_headers(session, found)
        return found

    @contextmanager
    def unparsed(self, name: str) -> Generator[list[Any]]:
        """Unparsed items, like tools, of the list `name` whose pages are requested meanwhile."""
        items = self._state.others[name] = []
        try:
            yield items
        finally:
            del self._state.others[name]

    def call(
        self,
        request: ClientRequest,
        name: str,
        arguments: dict[str, Any],
        meta: Mapping[str, Any] | None,
        timeout_s: float,
        check: Callable[[PendingCall], Awaitable[None]],
    ) -> PendingCall:
        """Start a call of a tool after `check` passes; an error of `check` is the call's error."""

        async def check_and_call(call: PendingCall) -> types.CallToolResult:
            async def report_progress(done: float, total: float | None, text: str | None) -> None:
                call.restart_clock()
                await call.request.session.report_progress(done, total, text)

            await check(call)
            progress = report_progress if request.wants_progress else None
            try:
                return await self._call(name, arguments, meta, progress)
            except MCPError as error:
                if self._refuses_session(error) and self._state.status == HTTPStatus.NOT_FOUND:
                    call.is_refused = self.has_lost_session = True
                raise

        def remove(_task: asyncio.Task[types.CallToolResult]) -> None:
            self._calls.remove(call)
            self.used_at = monotonic()

        call = PendingCall(request, timeout_s, check_and_call)
        call.task.add_done_callback(remove)
        self._calls.append(call)
        self.used_at = monotonic()
        return call

    async def _call(
        self, name: str, arguments: dict[str, Any], meta: Mapping[str, Any] | None, progress: Any
    ) -> types.CallToolResult:
        """Call a tool, and answer the server's questions."""
        session = self.session
        transport = "pipe" if isinstance(self._state.target, StdioTarget) else "tcp"
        answers: dict[str, types.InputResponse] | None = None
        state: str | None = None
        for _ in range(MAX_INPUT_ROUNDS):
            request = session.call_tool(
                name,
                arguments,
                progress_callback=progress,
                input_responses=answers,
                request_state=state,
                meta=cast("Any", dict(meta) if meta else None),
                allow_input_required=True,
            )
            result = await observe_request(request, partial(self._observe_call, transport))
            if not isinstance(result, types.InputRequiredResult):
                return result
            state, answers = result.request_state, {}
            for key, question in (result.input_requests or {}).items():
                answer = await self._answer(question)
                if isinstance(answer, types.ErrorData):
                    raise MCPError.from_error_data(answer)
                answers[key] = answer
            if not answers:
                await asyncio.sleep(INPUT_ROUND_PAUSE_S)
        raise ServiceUnavailableError(
            f"the server requests more input after {MAX_INPUT_ROUNDS} rounds"
        )

    async def is_alive(self, timeout_s: float) -> bool:
        """True if the server answers within the timeout."""
        try:
            session = self.session
            async with asyncio.timeout(timeout_s):
                if (version := session.protocol_version) in MODERN_PROTOCOL_VERSIONS:
                    await session.send_discover(str(version))
                else:
                    await session.send_ping()
        except MCPError as error:
            over_http = isinstance(self._state.target, HttpTarget)
            self.has_lost_session = self.has_lost_session or self._refuses_session(error)
            is_dead = self.has_lost_session or error.message in SDK_HTTP_ERRORS
            return not is_closed(error) and not (over_http and is_dead)
        except (TimeoutError, ServiceUnavailableError):
            return False
        return True

    def _refuses_session(self, error: MCPError) -> bool:
        """True for an HTTP status by which servers refuse the id of a session that has ended.

        The status may also be that of a fault of the request, or of a request beside it: the
        error's text must be of a status alone, or speak of the session.
        """
        is_refused = self._state.status in SESSION_REFUSALS and error.code not in REQUEST_FAULTS
        is_of_session = error.message in SDK_HTTP_ERRORS or "session" in error.message.casefold()
        return is_refused and is_of_session and not is_closed(error)


class _RelayingSession(ClientSession):
    """Session that does not validate results: the client gets the schema, and may validate."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Accept any result."""


def _register_headers(session: ClientSession, tools: list[Any]) -> None:
    """Register the arguments that go into headers: the session did not parse the tools."""
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    for tool in filter(is_object, tools):
        schema = tool.get("inputSchema")
        if is_object(schema) and isinstance(name := tool.get("name"), str):
            session._x_mcp_header_maps[name] = x_mcp_header_map(schema)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


class _IncomingStream(Tap):
    """Tapped stream that sets `closed` at its end."""

    def __init__(self, inner: Any, state: SessionState, closed: asyncio.Event) -> None:
        super().__init__(inner, state)
        self._closed = closed

    async def __anext__(self) -> SessionMessage | Exception:
        """Next message; one unreadable line is stored, as the reason of a failure."""
        try:
            item = await super().__anext__()
        except BaseException:
            self._closed.set()
            raise
        del self._state.unreadable[1:]
        return item


class StderrTail:
    """File for a process's stderr that keeps only the end, which explains a crash.

    A context manager in an event loop, with a `file` for the process. Reads the pipe at once,
    because a server may write for months; `by_thread` if event loops cannot read pipes.
    """

    file: TextIO

    def __init__(self, *, by_thread: bool = sys.platform == "win32") -> None:
        self._tail, self._by_thread = b"", by_thread
        self._reading: int | None = None

    def __enter__(self) -> Self:
        reading, writing = os.pipe()
        self.file = os.fdopen(writing, "w", encoding="utf-8")
        if self._by_thread:
            Thread(target=self._read_to_end, args=(reading,), daemon=True).start()
        else:
            os.set_blocking(reading, False)
            asyncio.get_running_loop().add_reader(reading, self._read_pipe)
            self._reading = reading
        return self

    def __exit__(self, *_exc: object) -> None:
        self._read_pipe()
        self.file.close()
        if self._reading is not None:
            asyncio.get_running_loop().remove_reader(self._reading)
            os.close(self._reading)
            self._reading = None

    @property
    def line(self) -> str:
        """Last line that is not blank, cut and without secrets; empty without one."""
        self._read_pipe()
        lines = self._tail.decode("utf-8", "replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        return " ".join(without_secrets(last).split())[:MAX_QUOTE_CHARS]

    def _read_pipe(self) -> None:
        if self._reading is not None:
            with suppress(BlockingIOError):
                self._read(self._reading)

    def _read_to_end(self, reading: int) -> None:
        self._read(reading)
        os.close(reading)

    def _read(self, reading: int) -> None:
        while read := os.read(reading, READ_BYTES):
            self._tail = (self._tail + read)[-TAIL_BYTES:]
