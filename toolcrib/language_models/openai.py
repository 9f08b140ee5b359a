"""OpenAI-compatible chat models, by the `openai` SDK: hosted, vLLM, Ollama, llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from toolcrib.extras import import_extra
from toolcrib.language_models.base import (
    NO_PROTOCOL,
    AnswerSchema,
    ChatFailure,
    ChatReply,
    Mode,
    SdkChatModel,
    role_of,
    token_count,
)
from toolcrib.records import Message

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIChatModel(SdkChatModel):
    """Chat model behind `/chat/completions` of a base URL.

    After a model refuses the temperature, no more requests have it.
    """

    provider = "openai"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
    ) -> None:
        options = {"temperature": temperature, "max_tokens": max_tokens}
        server = (base_url or OPENAI_URL).rstrip("/")
        library = import_extra("openai", "a language model", "llm")
        super().__init__(model, server, library.AsyncOpenAI, api_key, options)
        # Imports most of the SDK, which would otherwise take the time of the first request.
        self._create = self._client.chat.completions.create

    def _body(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": role_of(each), "content": each.content} for each in messages],
            **self._options,
        }
        if mode == "tool":
            body["tools"] = [answer.as_function]
            body["tool_choice"] = {"type": "function", "function": {"name": answer.name}}
        elif mode == "schema":
            schema = {"name": answer.name, "schema": answer.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _reply(self, response: Any, mode: Mode) -> ChatReply:
        if isinstance(response, str):
            return _read_events(response, mode)
        message, usage = response.choices[0].message, response.usage
        calls = message.tool_calls or ()
        arguments = calls[0].function.arguments if calls else None
        return ChatReply(
            _as_text(message.content) if arguments is None else _as_text(arguments),
            token_count(usage, "prompt_tokens"),
            token_count(usage, "completion_tokens"),
            is_in_mode=mode != "tool" or bool(calls),
        )


def _as_text(content: Any) -> str:
    """Text of a content in parts, or JSON of arguments that came as an object."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else "" if content is None else json.dumps(content)


def _read_events(stream: str, mode: Mode) -> ChatReply:
    """Reply in a stream, which some servers send without a request for it."""
    lines = (
        line.removeprefix("data:").strip() for line in stream.splitlines() if line[:5] == "data:"
    )
    try:
        events: list[Any] = [json.loads(line) for line in lines if line != "[DONE]"]
    except ValueError:
        events = []
    deltas = [choice["delta"] for event in events for choice in event.get("choices", ())]
    if not deltas:
        raise ChatFailure(NO_PROTOCOL, transient=True)
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    arguments = "".join(_as_text(call.get("arguments")) for call in calls)
    words = "".join(_as_text(delta.get("content")) for delta in deltas)
    usage: dict[str, int] = {}
    for event in events:
        usage = event.get("usage") or usage
    return ChatReply(
        arguments or words,
        token_count(usage, "prompt_tokens"),
        token_count(usage, "completion_tokens"),
        is_in_mode=mode != "tool" or bool(calls),
    )
