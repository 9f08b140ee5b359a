"""The chat server makes up answers that fit any schema, and faults that repeat."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import httpx
import pytest
from pydantic import BaseModel, Field

from toolcrib import Message, Settings, build
from toolcrib.language_models.testing import ChatServer, faulty_share

SAID = [{"role": "user", "content": "hi"}]


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
