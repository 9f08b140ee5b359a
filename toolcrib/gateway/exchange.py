"""One call of a server's tool, with what the server wants to know meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from time import monotonic

from mcp.types import INVALID_REQUEST, CallToolResult, ErrorData, InputRequest, InputResponse

from toolcrib.errors import DeadlineError
from toolcrib.gateway.front import Answer, Front

__all__ = ["Exchange"]


@dataclass(slots=True)
class _Question:
    """A question that waits until its client calls again with the answer."""

    request: InputRequest
    answer: asyncio.Future[Answer]
    is_told: bool = False


class Exchange:
    """A call under way. The server has `timeout_s`; the clock stands still while somebody is asked.

    A client that can be asked back is asked at once. Another one gets the open questions as the
    answer to its call (`outcome`), and calls again with the answers (`resume`).
    """

    def __init__(self, front: Front, timeout_s: float) -> None:
        self.front = front
        self._timeout_s = timeout_s
        self._left_s = timeout_s
        self._asking = 0
        self._stirred = asyncio.Event()
        self._questions: dict[str, _Question] = {}
        self._numbered = 0
        self._call: asyncio.Task[CallToolResult] | None = None

    def start(self, call: asyncio.Task[CallToolResult]) -> None:
        """Watch over this call."""
        self._call = call
        # Whatever it ends with is seen here, also where nobody waits for it any more.
        call.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def answer(self, request: InputRequest) -> Answer:
        """Bring a question of the server's to whoever called."""
        if (refusal := self.front.refusal(request)) is not None:
            return refusal
        with self._waiting_for_somebody():
            if self.front.is_asked_back:
                return await self.front.ask(request)
            return await self._put(request)

    async def outcome(self) -> CallToolResult | dict[str, InputRequest]:
        """The call's result, or the questions that the client must answer first.

        The call goes on while questions are open; if the caller goes away, it is cancelled.

        Raises:
            DeadlineError: the server took too long; the call is cancelled.
            Exception: whatever the call ended with.
        """
        assert self._call is not None
        try:
            while not self._call.done():
                if asked := self._untold():
                    return asked
                await self._some_time(self._call)
        except BaseException:
            self.cancel()
            raise
        return self._call.result()

    def resume(self, front: Front, answers: dict[str, InputResponse]) -> None:
        """Go on with the answers that the client brings; what it left out is not answered."""
        self.front = front
        for key, question in list(self._questions.items()):
            if question.is_told and not question.answer.done():
                missing = ErrorData(code=INVALID_REQUEST, message="the client gave no answer")
                question.answer.set_result(answers.get(key, missing))

    def cancel(self) -> None:
        """Stop the call; the server is told."""
        if self._call is not None:
            self._call.cancel()

    async def _some_time(self, call: asyncio.Task[CallToolResult]) -> None:
        """Wait until the call is done, something has stirred, or the time is over."""
        was_asking, since = self._asking, monotonic()
        stirred = asyncio.create_task(self._stirred.wait())
        try:
            limit = None if was_asking else self._left_s
            await asyncio.wait({call, stirred}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stirred.cancel()
            self._stirred.clear()
        if not was_asking:
            self._left_s -= monotonic() - since
            if self._left_s <= 0 and not call.done():
                raise DeadlineError(f"it gave no answer within {self._timeout_s:g} s")

    async def _put(self, request: InputRequest) -> Answer:
        self._numbered += 1
        key = f"question-{self._numbered}"
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._questions[key] = _Question(request, answer)
        self._stirred.set()
        try:
            return await answer
        finally:
            del self._questions[key]

    def _untold(self) -> dict[str, InputRequest]:
        """The questions that the client has not been told yet, which it is now."""
        new = {key: question for key, question in self._questions.items() if not question.is_told}
        for question in new.values():
            question.is_told = True
        return {key: question.request for key, question in new.items()}

    @contextlib.contextmanager
    def _waiting_for_somebody(self) -> Generator[None]:
        self._asking += 1
        self._stirred.set()
        try:
            yield
        finally:
            self._asking -= 1
            self._stirred.set()
