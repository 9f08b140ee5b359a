"""Tools as clients see them."""

from __future__ import annotations

import pytest

from toolcrib.gateway.catalogue import Catalogue
from toolcrib.gateway.offering import Offering
from toolcrib.records import Scope, ToolSpec


async def never(*_given):
    raise AssertionError


def offering(*names: str, note: str = "", **fields):
    """An offering of these tools; what it offers can be changed."""
    shelf = {"catalogue": stocked(*names, **fields), "note": note}
    made = Offering(lambda: shelf["catalogue"], Scope(), lambda _: shelf["note"], never)
    return made, shelf


def stocked(*names: str, **fields):
    return Catalogue([ToolSpec(server="post", name=name, **fields) for name in names])


@pytest.mark.parametrize("wrong", [{"readOnlyHint": "perhaps"}, {"readOnlyHint": []}])
def test_hints_that_are_none_are_left_out(wrong):
    made, _ = offering("echo", annotations=wrong)

    (tool,) = made.tools()
    assert tool.annotations is None


def test_hints_are_shown():
    made, _ = offering("echo", annotations={"title": "Echo", "readOnlyHint": True})

    (tool,) = made.tools()
    assert tool.title == "Echo"
    assert tool.annotations.read_only_hint is True


def test_a_tool_is_made_once_and_anew_when_something_is_to_be_noted():
    made, shelf = offering("echo")
    (first,) = made.tools()
    (again,) = made.tools()
    shelf["note"] = "(out of order)"
    (noted,) = made.tools()

    assert again is first
    assert first.description is None
    assert noted.description == "(out of order)"


def test_tools_that_are_long_gone_are_not_kept():
    made, shelf = offering(*(f"tool_{n}" for n in range(150)))
    made.tools()
    shelf["catalogue"] = stocked("last")

    assert [tool.name for tool in made.tools()] == ["post_last"]
    assert list(made._made) == ["post/last"]
