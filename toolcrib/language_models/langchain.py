"""LangChain chat models that a user passes in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from toolcrib.language_models.base import (
    AnswerSchema,
    ChatFailure,
    ChatReply,
    Mode,
    failure_of,
    read_reply,
    role_of,
    token_count,
)
from toolcrib.records import Message


class LangChainChatModel:
    """`BaseChatModel` of LangChain: answers by tools, or as text if it takes no tools.

    The chat model's own settings decide on retries; none are made here.
    """

    modes: Sequence[Mode] = ("tool", "text")

    def __init__(self, chat: Any) -> None:
        self._chat = chat
        given_name = getattr(chat, "model_name", None) or getattr(chat, "model", None)
        self.name = given_name if isinstance(given_name, str) else type(chat).__name__
        self.provider = "langchain"
        self.server = f"{type(chat).__name__}:{getattr(chat, 'openai_api_base', None) or self.name}"

    async def complete(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> ChatReply:
        """Send one request."""
        try:
            chat = self._chat
            if mode == "tool":
                chat = chat.bind_tools([answer.as_function], tool_choice=answer.name)
            turns = [{"role": role_of(each), "content": each.content} for each in messages]
            # In a thread: the model's connections may be bound to its owner's event loop.
            message = await asyncio.to_thread(chat.invoke, turns)
        except NotImplementedError:
            raise ChatFailure("it takes no tools", mode_refused=True) from None
        except Exception as error:  # noqa: BLE001 -- whatever it raises is a failure
            failure = failure_of(error)
            failure.transient = False
            raise failure from None
        return read_reply(_reply, message, mode)

    async def aclose(self) -> None:
        """Do nothing: the owner of the model closes its connections."""


def _reply(message: Any, mode: Mode) -> ChatReply:
    calls: Any = getattr(message, "tool_calls", None)
    usage: Any = getattr(message, "usage_metadata", None)
    # `text` is a method before langchain-core 1.0.
    text = message.text if isinstance(message.text, str) else message.text()
    return ChatReply(
        json.dumps(calls[0]["args"]) if calls else str(text),
        token_count(usage, "input_tokens"),
        token_count(usage, "output_tokens"),
        is_in_mode=mode != "tool" or bool(calls),
    )
