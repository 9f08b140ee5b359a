"""The same tool on several servers is one hit, unless the query names the server."""

from __future__ import annotations

import pytest

from toolcrib import Crib, Scope, ToolSpec, as_json

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


def issue(server, **fields):
    told = {"description": "Create an issue in a tracker.", "input_schema": SCHEMA} | fields
    return ToolSpec(name="create_issue", server=server, **told)


OTHERS = [
    ToolSpec(name="list_issues", server="alpha", description="List the issues of a tracker."),
    ToolSpec(name="ping", server="alpha"),
    ToolSpec(name="ping", server="beta"),
]


@pytest.fixture(scope="module")
def crib():
    with Crib.open(":memory:") as crib:
        copies = [issue("alpha"), issue("beta"), issue("gamma"), issue("delta", input_schema={})]
        crib.index_tools([*copies, *OTHERS])
        yield crib


def found(crib, query, k=5, **options):
    return [(hit.id, hit.also_on) for hit in crib.find_tools(query, k, **options).tools]


def test_copies_take_one_place_and_their_servers_are_named(crib):
    hits = crib.find_tools("create an issue in the tracker", 3).tools
    [folded] = [hit for hit in hits if hit.also_on]
    assert {folded.server, *folded.also_on} == {"alpha", "beta", "gamma"}
    assert {hit.id for hit in hits} == {folded.id, "delta/create_issue", "alpha/list_issues"}


def test_a_named_server_has_its_own_hit(crib):
    hits = dict(found(crib, "create an issue on beta"))
    assert set(hits["beta/create_issue"]) == {"alpha", "gamma"}
    hits = dict(found(crib, "create an issue on beta and on gamma"))
    assert {*hits["beta/create_issue"], *hits["gamma/create_issue"]} == {"alpha"}


def test_what_is_out_of_scope_is_no_copy(crib):
    scope = Scope(servers=frozenset({"beta", "gamma"}))
    [(_, also_on)] = found(crib, "create an issue", 1, scope=scope)
    assert len(also_on) == 1
    assert set(also_on) <= {"beta", "gamma"}


def test_tools_without_a_description_and_unjudged_rankings_stay_apart(crib):
    assert {("alpha/ping", ()), ("beta/ping", ())} <= set(found(crib, "ping"))
    hits = dict(found(crib, "create an issue", gate=False))
    assert {"alpha/create_issue", "beta/create_issue", "gamma/create_issue"} <= hits.keys()


CHAT = {
    "post_message": "Post a message in a channel of the team.",
    "delete_message": "Delete a message of a channel.",
    "list_channels": "List the channels of the team.",
    "create_channel": "Create a channel in the team.",
    "invite_user": "Invite a user to a channel.",
    "set_topic": "Set the topic of a channel.",
}


@pytest.mark.parametrize("k", [3, 5, 6])
def test_copies_on_many_servers_keep_no_other_tool_out(k):
    with Crib.open(":memory:") as crib:
        crib.index_tools(
            ToolSpec(name=name, server=f"team-{n}", description=description)
            for n in range(20)
            for name, description in CHAT.items()
        )
        hits = crib.find_tools("post a message in the channel of the team", k).tools
    assert len({hit.name for hit in hits}) == len(hits) == k
    assert len(hits[0].also_on) == 19


def test_json_has_the_servers(crib):
    [first, *others] = as_json(crib.find_tools("create an issue", 3))["tools"]
    assert {first["server"], *first["also_on"]} == {"alpha", "beta", "gamma"}
    assert all("also_on" not in hit for hit in others)


@pytest.mark.parametrize(
    "query",
    [
        "mcp__gamma__create_issue",
        "use mcp__gamma__create_issue for this, not the list of all those issues",
        "gamma.create_issue",
        "please call gamma.create_issue with the title that I gave you before",
        "gamma__create_issue",
    ],
)
def test_a_name_that_an_agent_writes_calls_its_tool(crib, query):
    [first, *_] = crib.find_tools(query, 3).tools
    assert (first.id, first.score) == ("gamma/create_issue", 1.0)


def test_select_calls_several_tools_by_name(crib):
    hits = crib.find_tools("select:list_issues,ping", 3).tools
    assert {hit.id for hit in hits} == {"alpha/list_issues", "alpha/ping", "beta/ping"}
    assert all(hit.score == 1.0 for hit in hits)
    assert crib.find_tools("select:list_issues", 1).tools[0].id == "alpha/list_issues"
