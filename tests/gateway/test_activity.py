"""Activity: what the gateway records of calls, lists and servers."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import ECHO, FAX, found, said, until
from toolcrib.access.activity import ActivityReader

MANY = [{"name": f"tool_{n}", "description": "Do a thing of some kind."} for n in range(5)]


def activity(behind):
    return ActivityReader(behind.records_db()).read()


async def recorded(behind, count):
    await until(lambda: len(activity(behind).calls) >= count)
    return activity(behind)


async def test_a_relayed_call_is_recorded_once_with_its_facts(behind):
    async with behind.client({"post": [ECHO]}) as client:
        await said(client, "call_tool", name="post__echo", arguments={"text": "hi", "key": "k"})
        (call,) = (await recorded(behind, 1)).calls
    assert (call.server, call.tool, call.outcome) == ("post", "post/echo", "success")
    assert call.tokens > 0
    assert call.agent
    assert call.arguments is None


async def test_calls_that_fail_or_name_no_tool_are_failures(behind):
    fails = {"name": "fail", "does": "fail"}
    async with behind.client({"post": [fails]}) as client:
        await said(client, "post__fail")
        await said(client, "call_tool", name="nobody", arguments={})
        calls = (await recorded(behind, 2)).calls
    assert {call.tool for call in calls} == {"post/fail", "nobody"}
    assert {call.outcome for call in calls} == {"failure"}


async def test_a_call_that_another_call_tool_must_make_is_a_failure(behind):
    async with behind.client({"post": [ECHO]}, call_tools="by_risk") as client:
        await said(client, "call_tool_read", name="post__echo", arguments={"text": "hi"})
        (call,) = (await recorded(behind, 1)).calls
    assert (call.tool, call.outcome) == ("post/echo", "failure")


async def test_arguments_are_kept_where_asked_for_without_secrets(behind):
    async with behind.client({"post": [ECHO]}, activity="arguments") as client:
        await said(client, "post__echo", text="hi", password="abc")
        (call,) = (await recorded(behind, 1)).calls
    assert '"text": "hi"' in call.arguments
    assert "abc" not in call.arguments


async def test_nothing_is_recorded_where_it_is_off(behind):
    async with behind.client({"post": [ECHO]}, activity="off") as client:
        await said(client, "post__echo", text="hi")
    assert activity(behind) == ActivityReader(behind.records_db()).read()
    assert (activity(behind).kept, activity(behind).servers) == (0, ())


async def test_lists_show_what_they_left_out_of_each_server(behind):
    async with behind.client({"post": [*MANY]}) as client:
        await client.list_tools()
        await found(client, "thing")
        seen = await recorded(behind, 1)
    (server,) = seen.servers
    assert server.saved > 0
    assert seen.saved < server.saved


async def test_servers_have_their_state_while_the_gateway_runs(behind):
    broken = {"command": "no-such-program"}
    async with behind.client({"fax": [FAX], "gone": broken}) as client:
        await said(client, "fax__send_fax")
        states = [("up", 1), ("down", 0)]
        await until(lambda: [(s.state, s.tools) for s in activity(behind).servers] == states)
        up, down = activity(behind).servers
        assert (up.reason, activity(behind).gateways) == ("", 1)
        assert down.reason
    after = activity(behind)
    assert after.gateways == 0
    assert [(each.name, each.state) for each in after.servers] == [("fax", None)]


@pytest.mark.parametrize("size", [1, 3])
async def test_the_last_calls_are_listed_newest_first(behind, size):
    async with behind.client({"post": [ECHO, FAX]}) as client:
        for name in ("post__echo", "post__send_fax", "post__echo"):
            await said(client, name)
        await recorded(behind, 3)
    read = ActivityReader(behind.records_db()).read(size)
    newest = ["post/echo", "post/send_fax", "post/echo"]
    assert [each.tool for each in read.calls] == newest[:size]
    assert read.kept == 3
