"""Agents in big-tool's shape retrieve their tools out of a crib."""

from __future__ import annotations

import inspect

import langgraph_bigtool
import pytest
from langchain_core.messages import AIMessage

from tests.integrations.conftest import ScriptedModel, calls, odd_tool
from tests.integrations.test_langgraph import own_tools
from toolcrib import Scope
from toolcrib.integrations.langgraph import create_agent, retrieval_functions


def registry() -> dict:
    return {f"id-{tool.name}": tool for tool in own_tools()}


@pytest.mark.parametrize("go", ["invoke", "ainvoke"])
async def test_an_agent_retrieves_tools_and_is_given_them(desk, go):
    wish = calls("retrieve_tools", query="send a mail")
    model = ScriptedModel(script=[wish, calls("send_mail", to="Ana"), AIMessage("Sent.")])
    agent = create_agent(model, registry(), limit=1, crib=desk).compile()
    state = getattr(agent, go)({"messages": [("user", "write to Ana")]})
    state = state if go == "invoke" else await state
    available, _, sent, last = (message.text for message in state["messages"][2:])
    assert available == "Available tools: ['send_mail']"
    assert (sent, last) == ("send_mail for Ana", "Sent.")
    assert state["selected_tool_ids"] == ["id-send_mail"]
    shown = [names for names, _ in model.seen]
    assert shown == [("retrieve_tools",), *[("retrieve_tools", "send_mail")] * 2]


@pytest.mark.parametrize("go", ["invoke", "ainvoke"])
async def test_a_schema_that_a_provider_refuses_is_replaced_and_the_call_restored(desk, go):
    given = []
    wish = calls("retrieve_tools", query="send a mail")
    model = ScriptedModel(script=[wish, calls("send_mail", to="Ana"), AIMessage("Sent.")])
    agent = create_agent(model, {"1": odd_tool(given)}, crib=desk).compile()
    state = getattr(agent, go)({"messages": [("user", "write to Ana")]})
    _ = state if go == "invoke" else await state
    assert model.offered[-1].args_schema["required"] == ["to"]
    assert given == [{"$to": "Ana"}]


def send_letter(to: str) -> str:
    """Write a letter to a person, and bring it to the post."""
    return f"sent to {to}"


def read_clock() -> str:
    """Tell what time it is now."""
    return "noon"


async def test_without_a_crib_the_registry_is_indexed(monkeypatch):
    monkeypatch.setenv("TOOLCRIB_ENCODER__DENSE", "deterministic")
    retrieve, aretrieve = retrieval_functions({"1": send_letter, "2": read_clock}, limit=1)
    assert retrieve("bring a letter to the post") == ["1"]
    assert await aretrieve("what time is it?") == ["2"]
    assert retrieve("?!") == []


def test_a_scope_holds_inside_the_search(desk):
    post = Scope(servers=frozenset({"post"}))
    retrieve, _ = retrieval_functions(registry(), limit=2, crib=desk, scope=post)
    assert set(retrieve("send a mail")) == {"id-send_parcel", "id-track_parcel"}


def test_a_function_of_ones_own_retrieves_in_place_of_the_crib():
    async def find(query: str) -> list[str]:
        """Find tools."""
        return ["id-send_mail"]

    agent = create_agent(ScriptedModel(script=[]), registry(), retrieve_tools_coroutine=find)
    assert set(agent.nodes) == {"agent", "select_tools", "tools"}


def test_what_big_tool_takes_is_taken_here():
    theirs = inspect.signature(langgraph_bigtool.create_agent).parameters
    ours = inspect.signature(create_agent).parameters
    # These two are of the store that ours has none of.
    assert theirs.keys() - ours.keys() == {"filter", "namespace_prefix"}
