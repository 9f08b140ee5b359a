"""Anthropic's models get the tools of a turn, or load those that they search for."""

from __future__ import annotations

import pytest
from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
from pydantic import TypeAdapter

from toolcrib import Scope
from toolcrib.integrations.anthropic import (
    SEARCH_TOOL_NAME,
    deferred_tools,
    search_result,
    turn_tools,
)

POST = Scope(servers=frozenset({"post"}))


def searches(arguments, name: str = SEARCH_TOOL_NAME) -> ToolUseBlock:
    return ToolUseBlock(id="1", name=name, input=arguments, type="tool_use")


def test_a_turn_has_its_tools_and_what_their_names_stand_for(desk):
    tools, ids = turn_tools(desk, "send a mail to Ana", k=1)
    assert ids == {"mail__send_mail": "mail/send_mail"}
    assert TypeAdapter(list[ToolParam]).validate_python(tools, extra="forbid") == tools


def test_a_search_loads_tools_that_were_deferred(desk):
    tools, ids = deferred_tools(desk)
    assert TypeAdapter(list[ToolParam]).validate_python(tools, extra="forbid") == tools
    assert [tool["name"] for tool in tools if not tool.get("defer_loading")] == [SEARCH_TOOL_NAME]
    result = search_result(desk, searches({"needs": ["send a mail"]}), k=1)
    assert TypeAdapter(ToolResultBlockParam).validate_python(result)
    [found] = result["content"]
    assert ids[found["tool_name"]] == "mail/send_mail"


def test_each_need_has_room(desk):
    call = searches({"needs": ["send a mail", "track a parcel"]})
    names = [block["tool_name"] for block in search_result(desk, call, k=1)["content"]]
    assert sorted(names) == ["mail__send_mail", "post__track_parcel"]


@pytest.mark.parametrize("arguments", [{}, {"needs": []}, {"needs": [7, "?!"]}, [], "mail"])
def test_a_search_for_nothing_says_so(desk, arguments):
    [told] = search_result(desk, searches({}).model_copy(update={"input": arguments}))["content"]
    assert told["text"].startswith("No tool here fits")


def test_a_scope_holds_and_other_tools_are_left_alone(desk):
    tools, _ = deferred_tools(desk, scope=POST)
    assert [tool["name"] for tool in tools[1:]] == ["post__send_parcel", "post__track_parcel"]
    found = search_result(desk, searches({"needs": "send a mail"}), scope=POST)["content"]
    assert {block["tool_name"] for block in found} == {"post__send_parcel", "post__track_parcel"}
    assert search_result(desk, searches({}, "weather")) is None
