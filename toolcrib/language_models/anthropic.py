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
    SdkChatModel,
    role_of,
    token_count,
)
from toolcrib.records import Message

ANTHROPIC_URL = "https://api.anthropic.com"
MAX_ANSWER_TOKENS = 4096
"""Limit that the protocol requires; our answers are far shorter."""


class AnthropicChatModel(SdkChatModel):
    """Chat model behind `/v1/messages` of a base URL; the SDK takes no `temperature`."""

    provider = "anthropic"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,  # noqa: ARG002 -- the SDK takes none
        max_tokens: int | None = None,
    ) -> None:
        options = {"max_tokens": max_tokens or MAX_ANSWER_TOKENS}
        server = (base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1")
        library = import_extra("anthropic", "a language model", "llm")
        super().__init__(model, server, library.AsyncAnthropic, api_key, options)
        # Imports most of the SDK, which would otherwise take the time of the first request.
        self._create = self._client.messages.create

    def _body(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> dict[str, Any]:
        system = "\n\n".join(each.content for each in messages if role_of(each) == "system")
        turns = [
            {"role": role, "content": each.content}
            for each in messages
            if (role := role_of(each)) != "system"
        ]
        body: dict[str, Any] = {
            "model": self.name,
            "messages": turns,
            **self._options,
            **({"system": system} if system else {}),
        }
        if mode == "tool":
            tool = {
                "name": answer.name,
                "description": answer.description,
                "input_schema": answer.schema,
            }
            body |= {"tools": [tool], "tool_choice": {"type": "tool", "name": answer.name}}
        elif mode == "schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": answer.schema}}
        return body

    def _reply(self, response: Any, mode: Mode) -> ChatReply:
        calls = [block for block in response.content if block.type == "tool_use"]
        texts = [block.text for block in response.content if block.type == "text"]
        return ChatReply(
            json.dumps(calls[0].input) if calls else "\n".join(texts),
            token_count(response.usage, "input_tokens"),
            token_count(response.usage, "output_tokens"),
            is_in_mode=mode != "tool" or bool(calls),
        )
