"""Anthropic's chat models, by its SDK."""

from __future__ import annotations

import json
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

HOSTED_URL = "https://api.anthropic.com"
MAX_ANSWER_TOKENS = 4096
"""Limit that the protocol demands; no answer here comes near it."""


class AnthropicChatModel:
    """Chat model behind `/v1/messages` of a base URL; the SDK takes no `temperature`.

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
        temperature: float | None = None,  # noqa: ARG002 -- the SDK takes none
        max_tokens: int | None = None,
    ) -> None:
        self.name = model
        self.server = (base_url or HOSTED_URL).rstrip("/").removesuffix("/v1")
        self._max_tokens = max_tokens or MAX_ANSWER_TOKENS
        library = import_extra("anthropic", "a language model", "llm")
        # Given, so that the SDK reads neither from the environment; it adds the version itself.
        self._client: Any = without_environment(
            library.AsyncAnthropic(
                base_url=self.server,
                api_key=api_key or "none",
                max_retries=0,
            )
        )
        # Imports most of the SDK, which would otherwise take the time of the first request.
        self._messages = self._client.messages

    async def complete(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> ChatReply:
        """Send one request.

        Raises:
            ChatFailure: there is no reply.
        """
        system = "\n\n".join(each.content for each in messages if role_of(each) == "system")
        turns = [
            {"role": role, "content": each.content}
            for each in messages
            if (role := role_of(each)) != "system"
        ]
        body: dict[str, Any] = {
            "model": self.name,
            "max_tokens": self._max_tokens,
            "messages": turns,
            **({"system": system} if system else {}),
            **_mode_fields(answer, mode),
        }
        try:
            response = await self._messages.create(**body)
        except Exception as error:  # noqa: BLE001 -- whatever it raises is a failure
            raise failure_of(error) from None
        return read_reply(_reply, response, mode)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.close()


def _mode_fields(answer: AnswerSchema, mode: Mode) -> dict[str, Any]:
    if mode == "tool":
        tool = {
            "name": answer.name,
            "description": answer.description,
            "input_schema": answer.schema,
        }
        return {"tools": [tool], "tool_choice": {"type": "tool", "name": answer.name}}
    if mode == "schema":
        return {"output_config": {"format": {"type": "json_schema", "schema": answer.schema}}}
    return {}


def _reply(message: Any, mode: Mode) -> ChatReply:
    calls = [block for block in message.content if block.type == "tool_use"]
    texts = [block.text for block in message.content if block.type == "text"]
    return ChatReply(
        json.dumps(calls[0].input) if calls else "\n".join(texts),
        message.usage.input_tokens,
        message.usage.output_tokens,
        followed=mode != "tool" or bool(calls),
    )
