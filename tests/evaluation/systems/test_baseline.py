"""Tools as text, and names for libraries that know a tool by its name alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.evaluation.systems.baseline import documents, parameters, spaced, unique_names
from toolcrib.records import ToolSpec


def test_a_document_holds_name_description_parameters_and_examples() -> None:
    spec = ToolSpec(
        name="tide_table",
        description="When the sea rises.",
        input_schema={"properties": {"port": {"description": "Where"}, "day": {"type": "string"}}},
        success_examples=("high water today",),
    )
    assert documents([spec]) == ["tide_table When the sea rises. port Where day high water today"]


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": ["port"]}])
def test_a_schema_without_parameters_has_none(schema: dict[str, object]) -> None:
    assert list(parameters(ToolSpec(name="tide", input_schema=schema))) == []


def test_a_parameter_without_a_readable_description_keeps_its_name() -> None:
    schema = {"properties": {"port": True, "day": {"description": 7}, "unit": {}}}
    spec = ToolSpec(name="tide", input_schema=schema)
    assert list(parameters(spec)) == [("port", ""), ("day", ""), ("unit", "")]


@pytest.mark.parametrize(
    ("identifier", "said"),
    [
        ("getUser_by-id", "get User by id"),
        ("parseHTTPResponse", "parse HTTP Response"),
        ("acr.registry/list", "acr registry list"),
        ("__init__", "init"),
        ("plain words", "plain words"),
    ],
)
def test_an_identifier_is_spoken_as_words(identifier: str, said: str) -> None:
    assert spaced(identifier) == said


def test_a_name_that_two_servers_have_is_prefixed_with_its_server() -> None:
    tools = [
        ToolSpec(name="search", server="mail"),
        ToolSpec(name="search", server="files"),
        ToolSpec(name="send", server="mail"),
    ]
    assert unique_names(tools) == ["mail_search", "files_search", "send"]


def test_a_prefixed_name_that_is_taken_gives_way_to_the_id() -> None:
    tools = [
        ToolSpec(name="search", server="mail"),
        ToolSpec(name="search", id="plain"),
        ToolSpec(name="mail_search"),
    ]
    assert unique_names(tools) == ["mail/search", "plain", "mail_search"]


_word = st.sampled_from(["a", "b", "a_b", "a/b", "a/b_2", "b_a"])


@given(st.lists(st.builds(ToolSpec, name=_word, server=st.sampled_from(["", "a", "b"]), id=_word)))
def test_no_two_tools_ever_share_a_name(tools: list[ToolSpec]) -> None:
    names = unique_names(tools)
    assert len(names) == len(set(names)) == len(tools)
