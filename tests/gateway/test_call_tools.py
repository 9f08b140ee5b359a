"""Call tools by risk, each with its annotations; a milder one than the tool needs refuses."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import SEARCH_TOOLS, Behind, found, names, said
from toolcrib import ToolSpec
from toolcrib.gateway.catalog import CALL_TOOLS, call_tool_of, may_call
from toolcrib.records.definitions import OwnTool
from toolcrib.records.tools import Enrichment

READ, WRITE, DESTROY = CALL_TOOLS


def tool(name: str, **hints: bool):
    about = {"name": name, "description": f"Do {name} to a file.", "does": "echo"}
    return about | ({"annotations": hints} if hints else {})


LOOK = tool("look_at", readOnlyHint=True)
ADD = tool("add_to", readOnlyHint=False, destructiveHint=False)
DROP = tool("drop_all", destructiveHint=True)
BARE = tool("do_it")


def spec(**fields):
    return ToolSpec(id="s/t", name="t", server="s", **fields)


@pytest.mark.parametrize(
    ("fields", "call_tool"),
    [
        ({"annotations": {"readOnlyHint": True}}, READ),
        ({"annotations": {"readOnlyHint": False, "destructiveHint": False}}, WRITE),
        ({"annotations": {"readOnlyHint": False}}, DESTROY),
        ({"annotations": {"readOnlyHint": True, "destructiveHint": True}}, DESTROY),
        ({"annotations": {"title": "T"}}, DESTROY),
        ({}, DESTROY),
        ({"safety_tags": ("read_only",)}, READ),
        ({"safety_tags": ("writes",), "annotations": {"readOnlyHint": True}}, WRITE),
        ({"safety_tags": ("destructive",), "annotations": {"readOnlyHint": True}}, DESTROY),
        ({"enrichment": Enrichment(safety_tags=("read_only",))}, DESTROY),
    ],
)
def test_a_tool_has_the_call_tool_of_its_worst_hint(fields, call_tool):
    assert call_tool_of(spec(**fields)) == call_tool


def test_a_stricter_call_tool_is_allowed_and_no_milder_one():
    written = spec(safety_tags=("writes",))
    assert [may_call(call_tool, written) for call_tool in CALL_TOOLS] == [False, True, True]
    assert not may_call(OwnTool.CALL_TOOL, written)


async def test_each_call_tool_is_listed_with_its_annotations(behind: Behind):
    async with behind.client({"files": [LOOK]}, call_tools="by_risk") as client:
        listed = {each.name: each for each in await client.list_tools()}

    assert list(listed) == ["find_tools", "describe_tools", *CALL_TOOLS, "check_tools"]
    hints = {name: listed[name].annotations for name in CALL_TOOLS}
    assert [each.read_only_hint for each in hints.values()] == [True, False, False]
    assert [each.destructive_hint for each in hints.values()] == [None, False, True]
    assert "call_by" in listed["find_tools"].description


async def test_an_answer_names_the_call_tool_and_another_one_refuses_with_it(behind: Behind):
    async with behind.client({"files": [LOOK, ADD, DROP, BARE]}, call_tools="by_risk") as client:
        answer = await found(client, "do something to a file")
        asked = {"ids": ["files/drop_all"]}
        whole = (await client.call_tool("describe_tools", asked)).structured_content
        by = {
            (name, call_tool): await said(client, call_tool, name=f"files__{name}", arguments={})
            for name in ("look_at", "add_to", "drop_all", "do_it")
            for call_tool in (OwnTool.CALL_TOOL, *CALL_TOOLS)
        }

    own = {"look_at": READ, "add_to": WRITE, "drop_all": DESTROY, "do_it": DESTROY}
    shown = {each["name"]: each["call_by"] for each in answer["tools"]}
    assert shown == {f"files__{name}": call_tool for name, call_tool in own.items()}
    assert whole["tools"][0]["call_by"] == DESTROY
    refused = {key: text for key, text in by.items() if "was not made" in text}
    assert [4 - sum(each == name for each, _ in refused) for name in own] == [3, 2, 1, 1]
    assert all(text.endswith(f"by {own[name]}.") for (name, _), text in refused.items())


async def test_by_default_there_is_one_call_tool(behind: Behind):
    async with behind.client({"files": [DROP]}) as client:
        assert await names(client) == SEARCH_TOOLS
        answer = await found(client)
        assert "call_by" not in answer["tools"][0]
        assert "was not made" not in await said(
            client, "call_tool", name="files__drop_all", arguments={}
        )
        unknown = await said(client, READ, name="files__drop_all", arguments={})
        assert READ in unknown
