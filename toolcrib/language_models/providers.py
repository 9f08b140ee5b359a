"""Providers of chat models: the client of each protocol, imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from toolcrib.errors import did_you_mean, nearest
from toolcrib.language_models.base import ChatModel

PROVIDERS: Mapping[str, str] = {
    "openai": "openai:OpenAIChatModel",
    "anthropic": "anthropic:AnthropicChatModel",
}
"""Modules of this folder and their classes, by the name of the protocol."""


def check_provider(protocol: str) -> str:
    """Name of a known protocol.

    Raises:
        ValueError: there is no such protocol.
    """
    if protocol not in PROVIDERS:
        meant = did_you_mean(nearest(protocol, PROVIDERS))
        raise ValueError(f"there is no {protocol!r}{meant}; known are {', '.join(PROVIDERS)}")
    return protocol


def make_chat_model(protocol: str, model: str, **options: Any) -> ChatModel:
    """Make a chat model; `options` are `base_url`, `api_key`, `temperature` and `max_tokens`.

    Raises:
        ValueError: there is no such protocol.
        MissingExtraError: the extra `llm` is not installed.
    """
    module, _, name = PROVIDERS[check_provider(protocol)].partition(":")
    return getattr(import_module(f"toolcrib.language_models.{module}"), name)(model, **options)
