"""Anthropic's models get the tools of a turn, or load those that they search for."""

from __future__ import annotations

import pytest
from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
from anthropic.types.beta import BetaSystemMessageParam
from pydantic import TypeAdapter

from tests.integrations.conftest import open_desk
from toolcrib import Scope, ToolSpec
from toolcrib.errors import UnknownToolError
from toolcrib.integrations.anthropic import (
    InlineTools,
    deferred_tools,
    search_result,
    step_blocks,
    turn_blocks,
    turn_tools,
)
from toolcrib.integrations.selection import StepOptions

POST = Scope(servers=frozenset({"post"}))


def searches(arguments, name: str = "find_tools") -> ToolUseBlock:
    return ToolUseBlock(id="1", name=name, input=arguments, type="tool_use")


def test_a_turn_has_its_tools_and_what_their_names_stand_for(desk):
    tools, ids = turn_tools(desk, "send a mail to Ana", k=1)
    assert ids == {"mail__send_mail": "mail/send_mail"}
    assert TypeAdapter(list[ToolParam]).validate_python(tools, extra="forbid") == tools


def test_a_search_loads_tools_that_were_deferred(desk):
    tools, ids = deferred_tools(desk)
    assert TypeAdapter(list[ToolParam]).validate_python(tools, extra="forbid") == tools
    assert [tool["name"] for tool in tools if not tool.get("defer_loading")] == ["find_tools"]
    result = search_result(desk, searches({"needs": ["send a mail"]}), k=1)
    assert TypeAdapter(ToolResultBlockParam).validate_python(result)
    [found] = result["content"]
    assert ids[found["tool_name"]] == "mail/send_mail"


def test_each_need_has_room(desk):
    call = searches({"needs": ["send a mail", "track a parcel"]})
    names = [block["tool_name"] for block in search_result(desk, call, k=1)["content"]]
    assert sorted(names) == ["mail__send_mail", "post__track_parcel"]


NO_NEEDS = ({}, {"needs": []}, {"needs": [7, "?!"]}, {"needs": 7}, {"query": "a"}, [], "mail")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [*((each, "Write needs") for each in NO_NEEDS), ({"needs": ["a mail"]}, "No other tool fits")],
)
def test_a_search_without_needs_and_one_that_finds_nothing_say_so(desk, arguments, said):
    search = searches({}).model_copy(update={"input": arguments})
    [told] = search_result(desk, search, scope=Scope(servers=frozenset()))["content"]
    assert said in told["text"]


def test_a_scope_holds_and_other_tools_are_left_alone(desk):
    tools, _ = deferred_tools(desk, scope=POST)
    within = ["post__send_parcel", "post__track_parcel"]
    assert [tool["name"] for tool in tools[1:]] == within
    found = search_result(desk, searches({"needs": "send a mail"}), scope=POST)["content"]
    assert {block["tool_name"] for block in found} == {*within}
    assert search_result(desk, searches({}, "weather")) is None


# -- tools in the middle of a conversation ---------------------------------------------------------


def changes(blocks):
    """What each block does with which tool; the message is one of Anthropic's."""
    message = {"role": "system", "content": blocks}
    assert TypeAdapter(BetaSystemMessageParam).validate_python(message, extra="forbid")
    tools = [(block["type"], block["tool"]) for block in blocks]
    return [(kind, tool["type"], tool.get("definition", tool)["name"]) for kind, tool in tools]


SEND, TRACK = "mail__send_mail", "post__track_parcel"


def test_a_turn_defines_new_tools_and_removes_stale_ones(desk):
    state = InlineTools()

    def ask(text):
        return changes(turn_blocks(desk, text, state, k=1, keep_turns=1))

    assert ask("send a mail to Ana") == [("tool_addition", "tool_definition", SEND)]
    assert ask("send a mail to Ben") == []
    assert ask("track a parcel") == [("tool_addition", "tool_definition", TRACK)]
    assert ask("track the other parcel") == [("tool_removal", "tool_reference", SEND)]
    assert ask("send a mail to Ana") == [("tool_addition", "tool_reference", SEND)]


def test_a_step_adds_the_tools_of_its_words_and_tells_their_tokens(desk):
    state = InlineTools()
    turn_blocks(desk, "send a mail to Ana", state, k=1)
    state.call(SEND, {"to": "Ana"})
    first, steps = state.tokens, StepOptions(first=1, added=1)
    blocks = step_blocks(desk, "Now I track the parcel.", state, steps=steps)
    assert changes(blocks) == [("tool_addition", "tool_definition", TRACK)]
    assert state.tokens > first > 0
    assert step_blocks(desk, "Now I track the parcel.", state, steps=steps) == []


def test_a_called_tool_stays_and_a_changed_one_is_defined_anew():
    schema = {"type": "object", "properties": {"filter[state]": {"type": "string"}}}
    tool = ToolSpec(name="list_orders", description="List the orders.", input_schema=schema)
    other = ToolSpec(name="play_song", description="Play a song.")
    state = InlineTools()
    with open_desk() as crib:
        crib.index_tools([tool, other])
        [block] = turn_blocks(crib, "list the orders", state, k=1)
        assert block["tool"]["definition"]["input_schema"]["properties"].keys() == {"filter_state"}
        called = state.call("list_orders", {"filter_state": "open"})
        assert called == ("list_orders", {"filter[state]": "open"})
        with pytest.raises(UnknownToolError, match="list_orders"):
            state.call("list_order", {})
        for _ in range(5):
            blocks = turn_blocks(crib, "play a song", state, k=1)
            assert ("tool_removal", "tool_reference", "list_orders") not in changes(blocks)
        crib.index_tools([tool.model_copy(update={"description": "List all orders."})])
        [block] = turn_blocks(crib, "list the orders", state, k=1)
        assert block["tool"]["definition"]["description"] == "List all orders."
