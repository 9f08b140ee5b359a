"""A small office in frameworks' own words: tools, a crib that knows them, a scripted model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import Field

from tests.router.conftest import COLLECTIONS, PASSAGES, TOOLS, free_of_models
from toolcrib import Crib
from toolcrib.build import MEMORY

NUMBERS = itertools.count()

Reply = AIMessage | Callable[[Sequence[BaseMessage]], AIMessage]


class ScriptedModel(BaseChatModel):
    """Says what stands in its script, and keeps what it was given: messages, tools, their names."""

    script: list[Any]
    offered: list[Any] = Field(default_factory=list)
    bound: tuple[str, ...] = ()
    seen: list[tuple[tuple[str, ...], list[BaseMessage]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> ScriptedModel:
        self.offered.extend(tools)
        names = tuple(
            each.name
            if isinstance(each, BaseTool)
            else each.__name__
            if isinstance(each, type)
            else each.get("name", each.get("type"))
            for each in tools
        )
        # The same lists: whoever holds the model sees what its bound ones were asked.
        return self.model_copy(update={"bound": names})

    def _generate(self, messages, stop=None, run_manager=None, **_: Any) -> ChatResult:
        self.seen.append((self.bound, list(messages)))
        reply: Reply = self.script.pop(0)
        said = reply if isinstance(reply, AIMessage) else reply(messages)
        return ChatResult(generations=[ChatGeneration(message=said)])


def calls(*named: str, text: str = "", **arguments: Any) -> AIMessage:
    """A message that calls tools, and says something besides."""
    made = [{"name": name, "args": arguments, "id": f"call-{next(NUMBERS)}"} for name in named]
    return AIMessage(text, tool_calls=made)


def odd_tool(given: list[Any]) -> StructuredTool:
    """A tool with a schema that providers refuse; it keeps the arguments of its calls."""

    def send(**arguments: Any) -> str:
        given.append(arguments)
        return "sent"

    schema = {"type": "object", "properties": {"$to": {"type": "string"}}, "required": ["$to"]}
    return StructuredTool(name="send_mail", description="Send.", args_schema=schema, func=send)


def open_desk(**fields: Any) -> Crib:
    """A crib of the house's tools; nothing is passed through, two tools come."""
    crib = Crib.open(
        MEMORY, settings=free_of_models(**{"tools": {"pass_through": 0, "k": 2}, **fields})
    )
    crib.index_tools(list(TOOLS))
    return crib


@pytest.fixture(scope="session")
def desk():
    """Tools alone; read only."""
    with open_desk() as crib:
        yield crib


@pytest.fixture(scope="session")
def office():
    """Tools and two collections; read only."""
    with open_desk() as crib:
        crib.add_collections(*COLLECTIONS)
        crib.index_passages(PASSAGES)
        yield crib
