"""OpenAI-compatible chat models, by the `openai` SDK: hosted, vLLM, Ollama, llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib.extras import import_extra
from toolcrib.language_models.base import (
    AnswerSchema,
    ChatReply,
    Mode,
    failure_of,
    read_reply,
    role_of,
    without_environment,
)
from toolcrib.records import Message

HOSTED_URL = "https://api.openai.com/v1"


class OpenAIChatModel:
    """Chat model behind `/chat/completions` of a base URL.

    A model that refuses the temperature is sent none from then on.

    Raises:
        MissingExtraError: the extra `llm` is not installed.
    """

    modes: Sequence[Mode] = ("tool", "schema", "text")

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
    ) -> None:
        self.name = model
        self.server = (base_url or HOSTED_URL).rstrip("/")
        self._temperature = temperature
        self._max_tokens = max_tokens
        library = import_extra("openai", "a language model", "llm")
        # Given, so that the SDK reads neither from the environment; local servers want no key.
        self._client: Any = without_environment(
            library.AsyncOpenAI(base_url=self.server, api_key=api_key or "none", max_retries=0)
        )
        # Imports most of the SDK, which would otherwise take the time of the first request.
        self._completions = self._client.chat.completions

    async def complete(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> ChatReply:
        """Send one request.

        Raises:
            ChatFailure: there is no reply.
        """
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": role_of(each), "content": each.content} for each in messages],
            **_mode_fields(answer, mode),
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if self._max_tokens is not None:
            body["max_tokens"] = self._max_tokens
        try:
            response = await self._completions.create(**body)
        except Exception as error:  # noqa: BLE001 -- whatever the SDK raises is a failure
            failure = failure_of(error)
            if "temperature" in body and failure.refuses_temperature:
                self._temperature = None
            raise failure from None
        return read_reply(_reply, response, mode)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.close()


def _mode_fields(answer: AnswerSchema, mode: Mode) -> dict[str, Any]:
    if mode == "tool":
        return {
            "tools": [answer.as_function],
            "tool_choice": {"type": "function", "function": {"name": answer.name}},
        }
    if mode == "schema":
        schema = {"name": answer.name, "schema": answer.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {}


def _reply(completion: Any, mode: Mode) -> ChatReply:
    message, usage = completion.choices[0].message, completion.usage
    calls = message.tool_calls or ()
    return ChatReply(
        calls[0].function.arguments if calls else message.content or "",
        getattr(usage, "prompt_tokens", None) or 0,
        getattr(usage, "completion_tokens", None) or 0,
        followed=mode != "tool" or bool(calls),
    )
