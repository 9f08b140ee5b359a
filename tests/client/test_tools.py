"""Looking tools up, within a scope and without, and counting them."""

from __future__ import annotations

import pytest

from tests.client.test_indexing import listed, named, played
from toolcrib import Scope, ToolSpec
from toolcrib.client.answers import Page, Readiness
from toolcrib.client.tools import every_tool, facets, find_tools, get_tool, info
from toolcrib.errors import QueryError, UnknownToolError
from toolcrib.records import Facets

SEND = ToolSpec(name="send", server="mail", tags=("out", "out", "slow"))
SHOUT = ToolSpec(name="Send", server="mail", id="MAIL/SEND", category="loud")
MAIL = Scope(servers=frozenset({"mail"}))


def test_a_list_is_gone_through_to_its_end():
    calls, found = played(every_tool(MAIL, None), Page((SEND,), "mail/send"), listed(SHOUT))
    assert found == [SEND, SHOUT]
    assert [call.body.get("cursor") for call in calls] == [None, "mail/send"]
    assert calls[0].body["scope"] == {"servers": ["mail"], "without_safety_tags": []}


def test_within_a_scope_a_tool_is_looked_for_by_its_name():
    (call,), found = played(get_tool("MAIL/SEND", MAIL), listed(SEND, SHOUT))
    assert found is SHOUT
    assert call.body["where"] == {"field": "name_key", "equals": "mail/send"}


def test_within_a_scope_only_what_it_allows_is_near():
    with pytest.raises(UnknownToolError) as caught:
        played(get_tool("mail/sent", MAIL), listed(), listed(SEND))
    assert caught.value.nearest == ("mail/send",)


def test_facets_of_all_are_counted_there_and_those_of_a_scope_here():
    calls, found = played(facets(), Facets(3))
    assert (named(calls), found) == (["GET /v1/facets"], Facets(3))
    _, found = played(facets(MAIL), listed(SEND, SHOUT))
    assert found == Facets(2, {"mail": 2}, {"loud": 1}, {"out": 1, "slow": 1}, {"public": 2})


def test_what_a_service_stands_on_is_told_for_the_tools_in_reach():
    ready = Readiness("qdrant 1.19", "bundled", "5a1c")
    _, (store, identity) = played(info("https://example.org"), ready, Facets(3))
    assert (store.engine, store.location, store.points) == ("qdrant 1.19", "https://example.org", 3)
    assert identity == {"dense": "bundled", "digest": "5a1c"}


def test_a_query_is_looked_at_before_it_is_sent():
    with pytest.raises(QueryError, match="the query is empty"):
        find_tools(" ")
    with pytest.raises(QueryError, match="k is 0"):
        find_tools("send", 0)


def test_coverage_is_sent_where_it_counts():
    assert "coverage" not in find_tools("send", 3, coverage=7).body
    assert find_tools("send", "auto", coverage=0.5).body["coverage"] == 0.5
