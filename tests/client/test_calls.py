"""What is sent: paths that lead to every tool, and bodies that are JSON."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from toolcrib import AnyOf, Equals, Scope
from toolcrib.client.calls import as_json, filter_as_json, scope_as_json
from toolcrib.client.tools import look_up, tool_path
from toolcrib.errors import QueryError, UnknownToolError
from toolcrib.store.filters import FilterJson, HasId, read_filter


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("mail/send")
@example("a/../b")
@example("..")
@example("./a//b/")
@example("%2e%2E/%41")
@example("a?b#c d\n")
def test_a_path_leads_to_its_tool_whatever_the_id(tool_id):
    path = tool_path(tool_id)
    on_the_way = httpx2.URL(f"https://example.org/base{path}").raw_path.decode()
    assert on_the_way == f"/base{path}"
    assert urlsplit(on_the_way).query == ""
    assert unquote(path) == f"/v1/tools/{tool_id}"


def test_half_a_character_in_an_id_leads_nowhere_and_breaks_nothing():
    assert tool_path("a\ud800") == "/v1/tools/a%ED%A0%80"


def test_no_path_leads_to_a_tool_without_an_id():
    with pytest.raises(UnknownToolError, match="no tool has the id ''"):
        look_up("")


def circular():
    found = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1, 2}, object(), "\ud800", circular()]
)
def test_what_json_has_no_word_for_is_a_bad_query(value):
    with pytest.raises(QueryError, match="holds a value that JSON cannot"):
        as_json({"metadata": {"x": value}})


def test_bodies_are_utf_8():
    assert as_json({"query": "größer"}) == '{"query": "größer"}'.encode()


def test_a_scope_is_sent_as_far_as_it_restricts():
    scope = Scope(servers=frozenset({"b", "a"}), tags=frozenset(), max_sensitivity="internal")
    assert scope_as_json(None) is None
    assert scope_as_json(scope) == {
        "servers": ["a", "b"],
        "tags": [],
        "without_safety_tags": [],
        "max_sensitivity": "internal",
    }


def test_a_filter_is_sent_as_what_it_means():
    where = AnyOf("tags", ["a", "b"])
    assert filter_as_json(None) is None
    assert read_filter(TypeAdapter(FilterJson).validate_python(filter_as_json(where))) == where


def test_a_filter_that_a_service_cannot_be_sent_is_a_bad_query():
    with pytest.raises(QueryError, match="cannot use the field 'naem'"):
        filter_as_json(Equals("naem", "x"))
    with pytest.raises(QueryError, match="numbers of points"):
        filter_as_json(HasId(frozenset({1})))
