"""The chat server speaks to the providers' own clients, also in streams, and fits any schema."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import anthropic
import httpx
import openai
import pytest
from pydantic import BaseModel, Field

from toolcrib import Message, Settings, build
from toolcrib.language_models.testing import ChatServer, faulty_share

SAID = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "greet", "parameters": {"type": "object"}}}


class Colour(StrEnum):
    RED = "red"


class Inner(BaseModel):
    colour: Colour


class Anything(BaseModel):
    kind: Literal["a", "b"]
    name: str = Field(min_length=8)
    count: int = Field(ge=3)
    share: float
    done: bool
    inner: Inner
    many: list[Inner] = Field(min_length=2)
    maybe: str | None
    rest: list[str]


@pytest.mark.parametrize("refuses", [(), ("tool",), ("tool", "schema")])
def test_without_replies_it_makes_up_what_fits(refuses):
    with ChatServer(refuses=refuses) as server:
        model = build.language_model(Settings.model_validate({"llm": server.settings}), "judge")
        assert model is not None
        made = model.ask_sync("judge", [Message(content="hi")], Anything)
    assert (made.kind, made.inner.colour, len(made.many)) == ("a", "red", 2)


def test_streams_of_both_protocols_are_those_of_the_providers():
    with ChatServer(["hello there", {"to": "Ana"}, "hello again"]) as server:
        with openai.OpenAI(base_url=server.url, api_key="k", max_retries=0) as client:
            asked = {"model": "m", "messages": SAID, "stream": True}
            parts = list(client.chat.completions.create(**asked))
            text = "".join(p.choices[0].delta.content or "" for p in parts if p.choices)
            calls = [
                call.function.arguments
                for part in client.chat.completions.create(**asked, tools=[TOOL])
                if part.choices
                for call in part.choices[0].delta.tool_calls or ()
            ]
        with (
            anthropic.Anthropic(base_url=server.url[:-3], api_key="k", max_retries=0) as client,
            client.messages.stream(model="m", max_tokens=9, messages=SAID) as stream,
        ):
            final = stream.get_final_message()
    assert (text, calls) == ("hello there", ['{"to": "Ana"}'])
    assert (final.content[0].text, final.usage.output_tokens) == ("hello again", 2)


def test_a_stream_that_is_cut_breaks_off():
    with (
        ChatServer("hello", ["cut"]) as server,
        openai.OpenAI(base_url=server.url, api_key="k", max_retries=0) as client,
        pytest.raises((httpx.RemoteProtocolError, openai.APIConnectionError)),
    ):
        list(client.chat.completions.create(model="m", messages=SAID, stream=True))


def test_what_is_nowhere_is_not_found():
    with ChatServer() as server:
        assert httpx.post(f"{server.url}/embeddings", json={}).status_code == 404


def test_a_share_of_faults_is_the_same_every_time():
    def drawn(seed):
        with ChatServer("x") as server, httpx.Client() as client:
            for _ in range(30):
                client.post(f"{server.url}/chat/completions", json={"messages": SAID})
        return [faulty_share(0.3, seed=seed)(request) for request in server.requests]

    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    assert 3 <= sum(fault is not None for fault in first) <= 16
