"""Language model: answers of a given shape, in time, or an error."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, PrivateAttr, ValidationError

from toolcrib.errors import (
    LanguageModelAnswerError,
    LanguageModelError,
    LanguageModelLateError,
    LanguageModelRefusedError,
)
from toolcrib.language_models.base import (
    AnswerSchema,
    ChatFailure,
    ChatModel,
    ChatReply,
    Mode,
    failure_of,
)
from toolcrib.records import Message
from toolcrib.records.codec import in_words, list_of, object_of
from toolcrib.records.turns import ModelUsage, ModelUse, Price, totals
from toolcrib.retries import Retries

logger = logging.getLogger(__name__)

_Shape = TypeVar("_Shape", bound=BaseModel)
_Result = TypeVar("_Result")

TIMEOUTS_S: Mapping[ModelUse, float] = {
    "enrich": 30.0,
    "judge": 30.0,
    "rerank": 1.5,
    "context": 1.5,
    "conversation": 2.0,
    "guidance": 0.5,
    "agents": 3.0,
    "capabilities": 3.0,
    "questions": 3.0,
}
"""Default timeout of each use: short for the steps of a turn, for which a user waits."""

SCHEMA_PROMPT = (
    "Answer with one JSON object and nothing else, neither words around it nor a code fence. It "
    "must fit this JSON schema:\n{schema}"
)
REPAIR_PROMPT = "That answer does not fit: {wrong}. Answer again. " + SCHEMA_PROMPT
MAX_REPAIR_QUOTE_CHARS = 4_000
"""Characters of a wrong answer that the model is shown again."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model: its usage, its time, and the provider's protocol."""

    usage: ModelUsage
    took_s: float
    provider: str


class UsageMeter:
    """Sum of calls, tokens and costs, by use and model; safe for several threads.

    With `keeps` a short-lived meter also keeps each request.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self._lock, self._keeps = threading.Lock(), keeps
        self.usage: tuple[ModelUsage, ...] = ()
        self.requests: tuple[ModelRequest, ...] = ()

    def add(self, request: ModelRequest) -> None:
        """Count one more request."""
        with self._lock:
            self.usage = totals((*self.usage, request.usage))
            if self._keeps:
                self.requests = (*self.requests, request)


_METERS: ContextVar[tuple[UsageMeter, ...]] = ContextVar("toolcrib_usage_meters", default=())


@contextmanager
def count_usage(meter: UsageMeter | None = None) -> Generator[UsageMeter]:
    """Meter of the calls made in this context, also by tasks and `asyncio.to_thread`.

    In nested contexts with the same meter a call is counted once.
    """
    meter, others = meter or UsageMeter(), _METERS.get()
    token = _METERS.set(others if meter in others else (*others, meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


@dataclass(eq=False)
class LanguageModel:
    """Chat model that gives answers of a given shape.

    All calls run in one event loop in its own thread, and share connections. All models of one
    server share a limit: `parallel` of the first model. `timeouts_s` are for calls without a
    timeout. Prompts and answers are logged only with `log_text`.
    """

    chat: ChatModel
    timeouts_s: Mapping[ModelUse, float] = field(default_factory=dict[ModelUse, float])
    parallel: int = 5
    attempts: int = 3
    price: Price | None = None
    log_text: bool = False
    meter: UsageMeter = field(default_factory=UsageMeter)

    def __post_init__(self) -> None:
        self.retries = Retries(self.attempts, first_pause_s=0.1, max_pause_s=8.0, jitter_s=0.1)
        self._mode: Mode = self.chat.modes[0]
        self.close = weakref.finalize(self, _close, self.chat)
        """Closes connections; also called when the model is collected as garbage."""
        self.close.atexit = False

    @property
    def name(self) -> str:
        """Name of the chat model."""
        return self.chat.name

    @property
    def request_limit(self) -> asyncio.Semaphore:
        """Semaphore of the server's requests, used in the event loop of all models.

        A forked child has another event loop, and needs another semaphore.
        """
        place = _EVENT_LOOP.process, getattr(self.chat, "server", self.chat.name)
        # The table holds weak references: an unused server's semaphore is freed.
        self._request_limit = _REQUEST_LIMITS.setdefault(place, asyncio.Semaphore(self.parallel))
        return self._request_limit

    async def ask(
        self,
        use: ModelUse,
        messages: Sequence[Message],
        shape: type[_Shape],
        *,
        timeout_s: float | None = None,
    ) -> _Shape:
        """Ask the model for an answer of the given shape.

        Raises:
            LanguageModelLateError: there is no answer within `timeout_s`.
            LanguageModelRefusedError: the server does not answer, or refuses to.
            LanguageModelAnswerError: the answer does not fit, also after one repair.
        """
        time_s = self.time_s(use) if timeout_s is None else timeout_s
        call = _Call(self, use, time.monotonic() + time_s)
        pending = _EVENT_LOOP.run(self._answer(call, messages, shape))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(pending), time_s)
        except TimeoutError:
            why = f" (before that {call.last_failure})" if call.last_failure else ""
            raise LanguageModelLateError(
                f"{self.name} did not answer within {time_s:g} s{why}; "
                f"raise llm.uses.{use}.timeout_s to wait longer"
            ) from None
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise LanguageModelRefusedError(f"{self.name} was closed during a request") from None

    def ask_sync(
        self,
        use: ModelUse,
        messages: Sequence[Message],
        shape: type[_Shape],
        *,
        timeout_s: float | None = None,
    ) -> _Shape:
        """As `ask`, but blocking; this thread may have an event loop or not."""
        return _EVENT_LOOP.run(self.ask(use, messages, shape, timeout_s=timeout_s)).result()

    def ask_each(
        self,
        use: ModelUse,
        prompts: Sequence[Sequence[Message]],
        shape: type[_Shape],
        *,
        timeout_s: float,
    ) -> list[_Shape | LanguageModelError]:
        """Ask several prompts at once; each result is an answer or an error."""

        async def ask_one(messages: Sequence[Message]) -> _Shape | LanguageModelError:
            try:
                return await self.ask(use, messages, shape, timeout_s=timeout_s)
            except LanguageModelError as error:
                return error

        pending = [_EVENT_LOOP.run(ask_one(each)) for each in prompts]
        return [each.result() for each in pending]

    def try_ask(
        self,
        use: ModelUse,
        messages: Sequence[Message],
        shape: type[_Shape],
        max_s: float = float("inf"),
    ) -> tuple[_Shape | None, tuple[str, ...]]:
        """As `ask_sync`, with None in place of an error, and marks for `degraded`.

        Marks are `USE-llm` for no answer, `USE-llm-late` for a timeout, `USE-llm:FIELD` for a
        missing field. The timeout is the lower of `max_s` and the timeout of the use.
        """
        timeout_s = max(0.001, min(max_s, self.time_s(use)))
        try:
            answer = self.ask_sync(use, messages, shape, timeout_s=timeout_s)
        except LanguageModelLateError:
            return None, (f"{use}-llm-late",)
        except LanguageModelError as error:
            logger.warning("%s: no answer of the language model: %s", use, error)
            return None, (f"{use}-llm",)
        return answer, missing_field_marks(use, answer)

    def time_s(self, use: ModelUse) -> float:
        """Timeout of a use, for calls without one."""
        return self.timeouts_s.get(use, TIMEOUTS_S[use])

    async def _answer(
        self, call: _Call, messages: Sequence[Message], shape: type[_Shape]
    ) -> _Shape:
        """As `ask`, without the timeout; errors of the chat model become `LanguageModelError`s."""
        try:
            return await self._ask_and_repair(call, messages, shape)
        except LanguageModelError:
            raise
        except Exception as error:  # noqa: BLE001 -- an answer without it is better than none
            failure = error if isinstance(error, ChatFailure) else failure_of(error)
            raise LanguageModelRefusedError(
                f"{self.name}: {failure.reason}", retry_after_s=failure.retry_after_s
            ) from None

    async def _ask_and_repair(
        self, call: _Call, messages: Sequence[Message], shape: type[_Shape]
    ) -> _Shape:
        schema = AnswerSchema(
            "".join(each if each.isalnum() else "_" for each in shape.__name__)[:60],
            (shape.__doc__ or "").strip().partition("\n")[0] or "The answer.",
            shape.model_json_schema(),
        )
        reply, mode = await call.reply_in_mode(messages, schema, self._mode)
        self._mode = mode
        try:
            return read_answer(reply.text, shape)
        except _UnreadableError as wrong:
            repair = REPAIR_PROMPT.format(wrong=wrong, schema=json.dumps(schema.schema))
            messages = (
                *messages,
                Message(
                    role="assistant", content=reply.text[:MAX_REPAIR_QUOTE_CHARS] or "(nothing)"
                ),
                Message(role="user", content=repair),
            )
            modes = self.chat.modes
            # If the model ignored the mode, the repair uses the next mode.
            begin = modes.index(mode) + (not reply.is_in_mode)
            mode = modes[min(begin, len(modes) - 1)]
            partial = wrong.partial
        try:
            reply, _ = await call.reply_in_mode(messages, schema, mode)
            return read_answer(reply.text, shape)
        except ChatFailure:
            if partial is None:
                raise
        except _UnreadableError as wrong:
            partial = wrong.partial or partial
            if partial is None:
                raise LanguageModelAnswerError(
                    f"{self.name}: the answer for {call.use!r} is no {shape.__name__}, also after "
                    f"one repair ({wrong.place}); try a larger model"
                ) from None
        logger.warning("%s answered %s without %s", self.name, call.use, ", ".join(partial.lacking))
        return cast("_Shape", partial)


@dataclass(slots=True)
class _Call:
    """One call: its requests share a deadline, `until` by the monotonic clock."""

    model: LanguageModel
    use: ModelUse
    until: float
    last_failure: str = ""

    async def reply_in_mode(
        self, messages: Sequence[Message], schema: AnswerSchema, begin: Mode
    ) -> tuple[ChatReply, Mode]:
        """Reply in the first mode, from `begin` on, that the server accepts."""
        modes = self.model.chat.modes
        for mode in modes[modes.index(begin) :]:
            try:
                return await self._with_retries(messages, schema, mode), mode
            except ChatFailure as failure:
                if failure.refused_option is not None:
                    return await self._with_retries(messages, schema, mode), mode
                if not failure.mode_refused or mode == modes[-1]:
                    raise
        raise AssertionError  # the last mode returns or raises

    async def _with_retries(
        self, messages: Sequence[Message], schema: AnswerSchema, mode: Mode
    ) -> ChatReply:
        if mode == "text":
            words = SCHEMA_PROMPT.format(schema=json.dumps(schema.schema))
            if not messages or words not in messages[-1].content:
                messages = (*messages, Message(role="user", content=words))

        def decide(error: Exception) -> bool | float:
            if not isinstance(error, ChatFailure) or not error.transient:
                return False
            self.last_failure = error.reason
            if error.retry_after_s is None:
                return True
            left = self.until - time.monotonic()
            return error.retry_after_s if error.retry_after_s < left else False

        return await self.model.retries.call_async(
            lambda: self._request(messages, schema, mode), decide
        )

    async def _request(
        self, messages: Sequence[Message], schema: AnswerSchema, mode: Mode
    ) -> ChatReply:
        model = self.model
        async with model.request_limit:
            began = time.monotonic()
            try:
                reply = await model.chat.complete(messages, schema, mode)
            except BaseException:
                self._meter(None, began)
                raise
        self._meter(reply, began)
        if model.log_text:
            prompt = [f"{each.role}: {each.content}" for each in messages]
            logger.info("%s for %s: %s -> %s", model.name, self.use, prompt, reply.text)
        return reply

    def _meter(self, reply: ChatReply | None, began: float) -> None:
        model = self.model
        tokens = (reply.input_tokens, reply.output_tokens) if reply else (0, 0)
        cost = model.price.of(*tokens) if reply and model.price else None
        usage = ModelUsage(self.use, model.name, 1, int(reply is None), *tokens, cost)
        # A user's own chat model may lack the attribute.
        provider = getattr(model.chat, "provider", type(model.chat).__name__)
        request = ModelRequest(usage, time.monotonic() - began, provider)
        for meter in (model.meter, *_METERS.get()):
            meter.add(request)


# -- reading answers -------------------------------------------------------------------------

MAX_ANSWER_CHARS = 200_000
MAX_FALSE_STARTS = 50
"""Most places of a text that look like the start of JSON and are not."""
MAX_JSON_VALUES = 50
"""Most JSON values of a text that are tried, the last first."""

STRAIGHT_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"})

_THOUGHT_TAG = r"(?:think|thinking|thoughts?|reasoning|reflection)"
_THOUGHT_BLOCK = re.compile(
    rf"[<\[]{_THOUGHT_TAG}\b[^<>\]]{{0,200}}[>\]].*?(?:[<\[]/{_THOUGHT_TAG}\s{{0,9}}[>\]]|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_THOUGHT_END = re.compile(rf"[<\[]/{_THOUGHT_TAG}\s{{0,9}}[>\]]", re.IGNORECASE)


class FieldwiseAnswer(BaseModel):
    """Answer of independent fields: a wrong field falls back to its default, the others stay.

    `expected` names fields that every answer must give, although they have a default.
    """

    expected: ClassVar[frozenset[str]] = frozenset()
    _wrong: tuple[str, ...] = PrivateAttr(())

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of fields that are wrong or missing in the model's answer."""
        missing = self.expected - self.model_fields_set
        return tuple(each for each in type(self).model_fields if each in missing | {*self._wrong})

    @classmethod
    def from_valid_fields(
        cls, value: Mapping[str, Any], error: ValidationError
    ) -> FieldwiseAnswer | None:
        """Answer of the valid fields; None if a field without a default is wrong."""
        wrong = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
        try:
            made = cls.model_validate({k: v for k, v in value.items() if k not in wrong})
        except ValidationError:
            return None
        made._wrong = tuple(wrong)  # noqa: SLF001 -- its own
        return made if made.model_fields_set else None


def missing_field_marks(use: ModelUse, answer: BaseModel) -> tuple[str, ...]:
    """Marks of the fields that an answer lacks, for `degraded`: `context-llm:intent`."""
    lacking = answer.lacking if isinstance(answer, FieldwiseAnswer) else ()
    return tuple(f"{use}-llm:{name}" for name in lacking)


class _UnreadableError(ValueError):
    """Text without an answer of the shape; `place` names the wrong fields, without values.

    `partial`: the answer of the valid fields, if the shape allows one. `rank` is higher the nearer
    the text is to an answer.
    """

    def __init__(
        self, wrong: str, place: str, rank: int = 0, partial: FieldwiseAnswer | None = None
    ) -> None:
        self.place = place
        self.partial = partial
        self.rank = (partial is not None, rank)
        super().__init__(wrong)


def read_answer(text: str, shape: type[_Shape]) -> _Shape:
    """Read an answer: JSON, also fenced, quoted, within a sentence, or as a Python literal.

    Thoughts between tags are skipped. Of several values the last that fits is the answer; a value
    with no field of the shape, such as `{"error": ...}`, never fits.

    Raises:
        ValueError: no value has this shape; the message is about the nearest value.
    """
    answer = _without_thoughts(text[:MAX_ANSWER_CHARS])
    wrong = _UnreadableError("it is not JSON", "it is not JSON")
    for value in _values(answer):
        try:
            return _validate(value, shape)
        except _UnreadableError as error:
            wrong = max(wrong, error, key=lambda each: each.rank)
    of_words: Callable[[str], _Shape | None] | None = getattr(shape, "of_words", None)
    if of_words is not None and (named := of_words(answer)) is not None:
        return named
    raise wrong


def _validate(value: Any, shape: type[_Shape]) -> _Shape:
    """Value as an answer; raises `_UnreadableError` if a field is wrong."""
    if isinstance(value, dict) and not value.keys() & shape.model_fields.keys():
        raise _UnreadableError("it has no field of the answer", "it has no field of the answer", 1)
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        # Keys that the shape does not name are the model's own words.
        known = set(_names_of(shape.model_json_schema()))
        places = {
            ".".join(
                str(part) if isinstance(part, int) or part in known else "*" for part in each["loc"]
            )
            or "the whole"
            for each in error.errors()
        }
        place = f"wrong: {', '.join(sorted(places)[:5])}"
        partial = None
        if issubclass(shape, FieldwiseAnswer) and isinstance(value, dict):
            partial = shape.from_valid_fields(cast("dict[str, Any]", value), error)
        raise _UnreadableError(in_words(error, most=5), place, 2, partial) from None


def _without_thoughts(text: str) -> str:
    """Text without the model's thoughts; tags in a text that is JSON as a whole stay."""
    if next(_whole_values(text), None) is not None:
        return text
    rest = _THOUGHT_BLOCK.sub("", text)
    ends = list(_THOUGHT_END.finditer(rest))
    return rest[ends[-1].end() :] if ends else rest


def _names_of(schema: Any) -> Iterator[str]:
    fields = object_of(schema)
    yield from fields.get("properties", {})
    for each in (*fields.values(), *list_of(schema)):
        yield from _names_of(each)


def _values(text: str) -> Iterator[Any]:
    """Values in a text, as JSON or Python; the last value, the likeliest answer, comes first."""
    for each in dict.fromkeys((text, text.translate(STRAIGHT_QUOTES))):
        for reading in (_whole_values, _embedded_values, _python_values):
            yield from reversed(list(reading(each))[-MAX_JSON_VALUES:])


def _whole_values(text: str) -> Iterator[Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, str):
        yield from _whole_values(value)
    else:
        yield value


def _embedded_values(text: str) -> Iterator[Any]:
    """JSON values anywhere in a text, from its start."""
    decode, at, failed = json.JSONDecoder().raw_decode, 0, 0
    while failed < MAX_FALSE_STARTS:
        begin = min((found for each in "{[" if (found := text.find(each, at)) >= 0), default=-1)
        if begin < 0:
            break
        try:
            value, at = decode(text, begin)
        except (ValueError, RecursionError):
            at = begin + 1
            failed += 1
        else:
            yield value


def _python_values(text: str) -> Iterator[Any]:
    """Python literal between the outermost braces of a text."""
    begin, end = text.find("{"), text.rfind("}")
    if 0 <= begin < end:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            yield cast("object", ast.literal_eval(text[begin : end + 1]))


# -- the event loop of all models ------------------------------------------------------------


class _EventLoop:
    """Event loop in a thread of its own, started by the first call."""

    def __init__(self) -> None:
        # Garbage collection may call `_close` in the thread that holds the lock.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.process = 0
        self.thread: int | None = None

    def run(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Start a coroutine from any thread."""
        with self._lock:
            # A forked child has a copy of the loop, and no thread that runs it.
            if self._loop is None or self.process != os.getpid():
                self._loop, self.process = asyncio.new_event_loop(), os.getpid()
                name = "toolcrib-language-models"
                thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
                thread.start()
                self.thread = thread.ident
            return asyncio.run_coroutine_threadsafe(work, self._loop)


_EVENT_LOOP = _EventLoop()

_REQUEST_LIMITS = weakref.WeakValueDictionary[tuple[int, str], asyncio.Semaphore]()
"""Semaphores by process and server."""


def _close(chat: ChatModel) -> None:
    """Close connections without waiting; there are none if the loop never ran in this process."""
    if _EVENT_LOOP.process == os.getpid():
        _EVENT_LOOP.run(chat.aclose())


def _is_without_prompt(record: logging.LogRecord) -> bool:
    """Filter that keeps our prompts out of the debug logs of provider SDKs."""
    return record.levelno > logging.DEBUG or record.thread != _EVENT_LOOP.thread


for _name in ("openai._base_client", "anthropic._base_client"):
    logging.getLogger(_name).addFilter(_is_without_prompt)
