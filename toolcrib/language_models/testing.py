"""Chat server: a test double of a language model's server on this machine, with faults on demand.

It has OpenAI's `/v1/chat/completions` and Anthropic's `/v1/messages`, without streams:

    with ChatServer({"label": "billing"}, faults=["busy"]) as server:
        settings = Settings.model_validate({"llm": server.settings})
"""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self, TypeAlias, cast, get_args

from pydantic import BaseModel

from toolcrib.language_models.base import Mode
from toolcrib.records import Message

ChatFault: TypeAlias = Literal[
    "slow",
    "busy",
    "error",
    "cut",
    "garbage",
    "not-json",
    "wrong-schema",
    "made-up-labels",
    "refuses-tools",
    "arguments-object",
    "content-parts",
    "no-choices",
    "error-body",
    "events",
    "other-tool",
]
"""Fault of one request, in this order: the answer takes `slow_s`; status 429 with Retry-After;
status 500; the answer breaks off; is a web page; is prose; is JSON of another shape; has unknown
labels; the server refuses tools. Only in OpenAI's protocol: arguments as an object; content in
parts; no choice; status 200 with an error; an unrequested stream; a call of an unknown tool."""

FAULTS: tuple[ChatFault, ...] = get_args(ChatFault)

ChatAnswer: TypeAlias = "str | Mapping[str, Any] | BaseModel"
"""Answer of the model: words, or a structured answer in the mode of the request."""

PROSE_ANSWER = "I would be glad to help with that! Could you tell me a little more first?"
WEB_PAGE = b"<!doctype html><title>502 Bad Gateway</title><h1>502 Bad Gateway</h1>"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Request that the server received."""

    number: int
    protocol: Literal["openai", "anthropic"]
    key: str
    body: Mapping[str, Any]
    messages: tuple[Message, ...]
    mode: Mode

    @property
    def text(self) -> str:
        """Text of all messages, with the system prompt."""
        return "\n".join(each.content for each in self.messages)


def faulty_share(
    share: float, *, seed: int = 0, kinds: Sequence[ChatFault] = FAULTS
) -> Callable[[ChatRequest], ChatFault | None]:
    """Faults for a share of all requests, the same for the same seed."""

    def fault(request: ChatRequest) -> ChatFault | None:
        drawn = random.Random(f"{seed}:{request.number}")  # noqa: S311 -- it is no secret
        return drawn.choice(kinds) if drawn.random() < share else None

    return fault


@dataclass(eq=False, repr=False)
class ChatServer:
    """Server on a free port of this machine; a context manager.

    `replies`: one reply for all requests, a list in order (the last repeats), or a function of the
    request. `faults`: one for each request in order, None for no fault, or a function of the
    request. `refuses`: modes, or the options `temperature` and `max_tokens`, that get status 400.
    `requests` keeps the requests.
    """

    replies: ChatAnswer | Sequence[ChatAnswer] | Callable[[ChatRequest], ChatAnswer] = PROSE_ANSWER
    faults: Sequence[ChatFault | None] | Callable[[ChatRequest], ChatFault | None] = ()
    _: KW_ONLY
    refuses: Collection[Mode | Literal["temperature", "max_tokens"]] = ()
    slow_s: float = 2.0
    retry_after_s: float = 0.0

    def __post_init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.closing = threading.Event()
        self._reply_count = 0
        self._lock = threading.Lock()
        self._server = _Listener(self)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Base URL for `llm.base_url`, of both protocols."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def settings(self) -> dict[str, Any]:
        """Section `llm` of the settings for this server."""
        return {"base_url": self.url, "model": "double", "api_key": "key-of-the-double"}

    def receive(
        self, protocol: Literal["openai", "anthropic"], body: Any, key: str
    ) -> _PlannedResponse:
        """Keep a request, and plan its response."""
        system = [{"role": "system", "content": body["system"]}] if "system" in body else []
        messages = tuple(Message.model_validate(each) for each in [*system, *body["messages"]])
        with self._lock:
            number = len(self.requests)
            request = ChatRequest(number, protocol, key, body, messages, _mode(body))
            self.requests.append(request)
        fault = self._fault(request)
        refused = {request.mode, *({"temperature", "max_tokens"} & set(body))}
        if refused & set(self.refuses) or (fault == "refuses-tools" and request.mode == "tool"):
            return _PlannedResponse(request, fault, None)
        if fault in {"busy", "error", "garbage"}:
            return _PlannedResponse(request, fault, "")
        return _PlannedResponse(request, fault, _with_fault(self._reply(request), fault))

    def _fault(self, request: ChatRequest) -> ChatFault | None:
        faults = self.faults
        if callable(faults):
            return faults(request)
        return faults[request.number] if request.number < len(faults) else None

    def _reply(self, request: ChatRequest) -> ChatAnswer:
        replies = self.replies
        if callable(replies):
            return replies(request)
        if isinstance(replies, str | Mapping | BaseModel):
            return replies
        with self._lock:
            reply = replies[min(self._reply_count, len(replies) - 1)]
            self._reply_count += 1
        return reply


@dataclass(frozen=True, slots=True)
class _PlannedResponse:
    """Planned response to a request; without a reply the request is refused."""

    request: ChatRequest
    fault: ChatFault | None
    reply: str | Mapping[str, Any] | None

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """Reply as arguments of the offered tool."""
        in_tool = self.request.mode == "tool" and isinstance(self.reply, Mapping)
        return cast("Mapping[str, Any]", self.reply) if in_tool else None

    @property
    def words(self) -> str:
        """Reply as text."""
        return self.reply if isinstance(self.reply, str) else json.dumps(self.reply)


def _mode(body: Mapping[str, Any]) -> Mode:
    if body.get("tools"):
        return "tool"
    return "schema" if {"response_format", "output_config"} & set(body) else "text"


# -- answers ---------------------------------------------------------------------------------


def _with_fault(reply: ChatAnswer, fault: ChatFault | None) -> str | Mapping[str, Any]:
    value = reply.model_dump(mode="json") if isinstance(reply, BaseModel) else reply
    match fault:
        case "not-json":
            return PROSE_ANSWER
        case "wrong-schema":
            known = list(value) if isinstance(value, Mapping) else ["answer"]
            return {each: {"unexpected": True} for each in known} or {"unexpected": True}
        case "made-up-labels":
            return _with_made_up_words(value)
        case _:
            return dict(value) if isinstance(value, Mapping) else value


def _with_made_up_words(value: Any) -> Any:
    if isinstance(value, str):
        return f"made-up-{len(value)}"
    if isinstance(value, Mapping):
        return {
            key: _with_made_up_words(inner)
            for key, inner in cast("Mapping[str, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_with_made_up_words(inner) for inner in cast("Sequence[Any]", value)]
    return value


# -- the two protocols -----------------------------------------------------------------------


def _openai(planned: _PlannedResponse) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if planned.arguments is not None:
        name = planned.request.body["tools"][0]["function"]["name"]
        is_object = planned.fault == "arguments-object"
        call = {
            "name": "another_tool" if planned.fault == "other-tool" else name,
            "arguments": planned.arguments if is_object else json.dumps(planned.arguments),
        }
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
    else:
        message["content"] = planned.words
    if planned.fault == "content-parts":
        message.pop("tool_calls", None)
        message["content"] = [{"type": "text", "text": planned.words}]
    if planned.fault == "error-body":
        return {"error": {"message": "the model is loading"}}
    reason = "stop" if planned.arguments is None else "tool_calls"
    sent, received = _tokens(planned)
    return {
        "id": f"chatcmpl-{planned.request.number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": planned.request.body.get("model", "double"),
        "choices": []
        if planned.fault == "no-choices"
        else [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": received,
            "total_tokens": sent + received,
        },
    }


def _openai_events(whole: dict[str, Any]) -> str:
    (choice,) = whole.pop("choices")
    parts: list[dict[str, Any]] = [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": choice["message"]}]},
        {"choices": [], "usage": whole.pop("usage")},
    ]
    events = [json.dumps({**whole, "object": "chat.completion.chunk", **part}) for part in parts]
    return "".join(f"data: {event}\n\n" for event in (*events, "[DONE]"))


def _anthropic(planned: _PlannedResponse) -> dict[str, Any]:
    block: Mapping[str, Any]
    if planned.arguments is not None:
        name = planned.request.body["tools"][0]["name"]
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": planned.arguments}
    else:
        block = {"type": "text", "text": planned.words}
    sent, received = _tokens(planned)
    return {
        "id": f"msg_{planned.request.number}",
        "type": "message",
        "role": "assistant",
        "model": planned.request.body.get("model", "double"),
        "content": [block],
        "stop_reason": "end_turn" if planned.arguments is None else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": sent, "output_tokens": received},
    }


def _tokens(planned: _PlannedResponse) -> tuple[int, int]:
    """Words of request and reply, counted as tokens."""
    return len(planned.request.text.split()), len(planned.words.split())


# -- HTTP ------------------------------------------------------------------------------------

PROTOCOL_OF_PATH: Mapping[str, Literal["openai", "anthropic"]] = {
    "/v1/chat/completions": "openai",
    "/v1/messages": "anthropic",
}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, chat: ChatServer) -> None:
        self.chat = chat
        self._open_sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted = super().get_request()
        self._open_sockets.add(accepted[0])
        return accepted

    def shutdown_request(self, request: Any) -> None:
        self._open_sockets.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End all connections: clients keep theirs for the next request."""
        for each in list(self._open_sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            protocol = PROTOCOL_OF_PATH.get(self.path.partition("?")[0])
            if protocol is None:
                self._send(404, _error("not_found_error", f"there is nothing at {self.path}"))
                return
            key = self.headers.get("x-api-key") or self.headers.get("authorization", "")
            chat = cast("_Listener", self.server).chat
            planned = chat.receive(protocol, json.loads(body), key.removeprefix("Bearer "))
            self._answer(chat, planned)

    def _answer(self, chat: ChatServer, planned: _PlannedResponse) -> None:
        if planned.reply is None:
            given = (each for each in ("temperature", "max_tokens") if each in planned.request.body)
            refused = next((each for each in given if each in chat.refuses), "tools")
            message = f"this model does not support {refused}"
            message += "; give max_completion_tokens" * (refused == "max_tokens")
            self._send(400, _error("invalid_request_error", message))
        elif planned.fault == "busy":
            after = {"Retry-After": f"{chat.retry_after_s:g}"}
            self._send(429, _error("rate_limit_error", "too many requests"), after)
        elif planned.fault == "error":
            self._send(500, _error("api_error", "something went wrong"))
        elif planned.fault == "garbage":
            self._send(200, WEB_PAGE, kind="text/html")
        else:
            if planned.fault == "slow":
                chat.closing.wait(chat.slow_s)
            self._send_reply(planned)

    def _send_reply(self, planned: _PlannedResponse) -> None:
        is_openai = planned.request.protocol == "openai"
        whole = _openai(planned) if is_openai else _anthropic(planned)
        if planned.fault == "events" and is_openai:
            self._send(200, _openai_events(whole).encode(), kind="text/event-stream")
        else:
            self._send(200, json.dumps(whole).encode(), cut=planned.fault == "cut")

    def _send(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        kind: str = "application/json",
        cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: `requests` has everything."""


def _error(kind: str, message: str) -> bytes:
    """Body of an error, which is alike in both protocols."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
