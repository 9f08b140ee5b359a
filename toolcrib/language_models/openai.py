"""OpenAI-compatible chat models, by the `openai` SDK: hosted, vLLM, Ollama, llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.extras import import_extra
from toolcrib.language_models.base import AnswerSchema, ChatReply, Mode, SdkChatModel, role_of
from toolcrib.records import Message

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIChatModel(SdkChatModel):
    """Chat model behind `/chat/completions` of a base URL.

    A model that refuses the temperature is sent none from then on.

    Raises:
        MissingExtraError: the extra `llm` is not installed.
    """

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
        message, usage = response.choices[0].message, response.usage
        calls = message.tool_calls or ()
        return ChatReply(
            calls[0].function.arguments if calls else message.content or "",
            getattr(usage, "prompt_tokens", None) or 0,
            getattr(usage, "completion_tokens", None) or 0,
            followed=mode != "tool" or bool(calls),
        )
