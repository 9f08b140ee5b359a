"""Search: the tools that clients are listed, find and call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.gateway.conftest import (
    ECHO,
    QUICK,
    SEARCH_TOOLS,
    found,
    names,
    said,
    texts,
    until,
    until_listed,
)
from toolcrib.gateway import search
from toolcrib.gateway.upstream import STATE_TEXTS
from toolcrib.integrations import arguments

MAIL = {
    "name": "send_mail",
    "description": "Send a mail to somebody.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
ROOM = {"name": "book_room", "description": "Book a meeting room."}


async def test_few_tools_are_shown_as_they_are(behind):
    async with behind.client({"post": [MAIL], "rooms": [ROOM]}, pass_through=2) as client:
        mail, room = await client.list_tools()

    shown = {"name": mail.name, "description": mail.description, "inputSchema": mail.input_schema}
    assert shown == {**MAIL, "name": "post__send_mail"}
    assert room.name == "rooms__book_room"


async def test_a_server_that_is_down_does_not_hide_the_few_tools_of_the_others(behind):
    servers = {"post": [MAIL], "gone": {"command": "no-such-command"}}

    async with behind.client(servers, pass_through=9) as client:
        await until_listed(client, "post__send_mail")


async def test_the_search_is_listed_where_no_server_can_be_started(behind):
    gone = {"command": "no-such-command"}
    async with behind.client({"gone": gone}, pass_through=9) as client:
        await until_listed(client, *SEARCH_TOOLS)
        answer = await found(client, "anything at all")

    assert [each["state"] for each in answer["missing"]] == [STATE_TEXTS["not_started"]]
    assert "tell the user" in answer["note"]


async def test_the_search_stays_while_a_server_starts_that_may_have_more(behind):
    start = behind.folder / "start"
    late = behind.entry("late", ROOM, options=("--start-with", str(start)))
    servers = {"post": [MAIL], "late": late}
    gateway = behind.make(servers, pass_through=9, intervals=replace(QUICK, handshake_s=0.0))

    async with behind.client(gateway, settled=False) as client:
        await until_listed(client, *SEARCH_TOOLS)
        start.touch()
        await until_listed(client, "late__book_room", "post__send_mail")


async def test_a_found_tool_comes_as_a_signature_and_can_be_called(behind, monkeypatch):
    async with behind.client({"post": [MAIL, ROOM]}) as client:
        answer = await found(client, "send a mail", k=1)
        asked = {"ids": ["post__send_mail", "post/send_mail", "post/send"]}
        whole = (await client.call_tool("describe_tools", asked)).structured_content
        call = {"name": "post__send_mail", "arguments": {"to": "Ada"}}
        called = await client.call_tool("call_tool", call)
        monkeypatch.setattr(search, "MAX_DESCRIBED_CHARS", 10)
        both = {"ids": ["post/send_mail", "post/book_room"]}
        cut = (await client.call_tool("describe_tools", both)).structured_content

    told = {"name": "post__send_mail", "description": MAIL["description"]}
    assert answer["tools"] == [{**told, "parameters": "to: string"}]
    assert whole == {"tools": [{**MAIL, "name": "post__send_mail"}], "unknown": ["post/send"]}
    assert (cut["tools"], cut["left_out"]) == (whole["tools"], ["post__book_room"])
    assert "ask for fewer" in cut["note"]
    assert called.structured_content == {"given": {"to": "Ada"}}


async def test_a_search_marks_what_the_conversation_called_and_a_step_leaves_it_out(behind):
    async with behind.client({"post": [MAIL, ROOM]}, schemas=True) as client:
        before = await found(client, "send a mail")
        await client.call_tool("call_tool", {"name": "post__send_mail", "arguments": {"to": "Ada"}})
        own = await found(client, "send a mail")
        asked = {"query": "Now let me send a mail.", "task": "Book a room and tell Ada"}
        step = (await client.call_tool("find_tools", asked)).structured_content
        said = {"query": "do it", "history": [{"role": "user", "content": "book a room"}]}
        after = (await client.call_tool("find_tools", said)).structured_content

    assert "called" not in before["tools"][0]
    called = {each["name"]: each.get("called") for each in own["tools"]}
    assert called == {"post__send_mail": True, "post__book_room": None}
    assert [each["name"] for each in step["tools"]] == ["post__book_room"]
    assert step["called"] == ["post__send_mail"]
    assert after["tools"][0]["name"] == "post__book_room"


@pytest.mark.parametrize("tool", ["describe_tools", "check_tools"])
async def test_too_many_ids_are_refused_also_where_no_time_is_left_to_check(
    behind, monkeypatch, tool
):
    monkeypatch.setattr(arguments, "CHECK_TIMEOUT_S", -1.0)
    async with behind.client({"post": [MAIL]}) as client:
        answer = await said(client, tool, ids=[f"post__{n}" for n in range(201)])

    assert "at most 200" in answer


async def test_whole_schemas_come_where_they_are_asked_for(behind):
    async with behind.client({"post": [MAIL, ROOM]}, schemas=True, token_budget=40) as client:
        answer = await found(client, "send a mail", k=None)
        assert await names(client) == ["find_tools", "call_tool", "check_tools"]

    assert answer["tools"] == [{**MAIL, "name": "post__send_mail"}]


@pytest.mark.parametrize("name", ["post__send_mail", "post/send_mail", "send_mail"])
async def test_a_tool_is_known_by_its_name_its_id_and_its_own_name(behind, name):
    async with behind.client({"post": [MAIL]}) as client:
        by_proxy = await client.call_tool("call_tool", {"name": name, "arguments": {"to": "Ada"}})
        directly = await client.call_tool(name, {"to": "Ada"})

    assert by_proxy.structured_content == directly.structured_content == {"given": {"to": "Ada"}}


async def test_a_name_that_two_servers_have_is_neithers(behind):
    async with behind.client({"one": [ECHO], "two": [ECHO]}) as client:
        directly = await client.call_tool("echo", {}, raise_on_error=False)
        by_proxy = await client.call_tool("call_tool", {"name": "echo"}, raise_on_error=False)

    for answer in (directly, by_proxy):
        assert answer.is_error
        assert "several servers have a tool 'echo'" in texts(answer)[0]
        assert "one__echo, two__echo" in texts(answer)[0]


@pytest.mark.parametrize("name", ["find_tools", "check_tools"])
async def test_a_tool_of_the_search_is_not_called_by_another(behind, name):
    async with behind.client({"post": [ECHO]}) as client:
        told = await said(client, "call_tool", name=name)

    assert f"{name} belongs to the search" in told


@pytest.mark.parametrize("proxied", [True, False])
async def test_an_unknown_name_is_answered_with_those_like_it(behind, proxied):
    async with behind.client({"post": [MAIL, ROOM]}) as client:
        name, arguments = "post__send_mial", {}
        if proxied:
            name, arguments = "call_tool", {"name": name}
        answer = await client.call_tool(name, arguments, raise_on_error=False)

    assert answer.is_error
    assert "no tool 'post__send_mial'. Did you mean post__send_mail" in texts(answer)[0]


async def test_pinned_and_always_active_tools_are_shown_beside_the_search(behind):
    entry = behind.entry("post", MAIL, ROOM, ECHO, toolcrib={"always_active": ["echo"]})
    async with behind.client({"post": entry}, pinned=("post/book_room", "post/book_rom")) as client:
        shown = await client.list_tools()
        assert "say in a few words" in await said(client, "find_tools", query="  ")
        said_so = "error", "there is no tool 'post/book_rom' to pin; did you mean 'post/book_room'?"
        await until(lambda: said_so in behind.said)

    assert [tool.name for tool in shown] == ["post__book_room", "post__echo", *SEARCH_TOOLS]
    about = "Here are tools of: post (3 tools: book, mail, room, echo)."
    assert shown[2].description.endswith(about)


OFF = {
    "ours": {"toolcrib": {"disabled": ["send_mail"]}},
    "excluded": {"excludeTools": ["send_mail"]},
    "by a glob": {"disabled_tools": ["send_*"]},
    "not included": {"tools": ["book_room"]},
    "both": {"includeTools": ["*"], "excludeTools": ["send_mail"]},
}


@pytest.mark.parametrize("keys", OFF.values(), ids=OFF)
async def test_a_tool_that_its_entry_switches_off_is_as_one_that_is_not_there(behind, keys):
    entry = behind.entry("post", MAIL, ROOM, **keys)
    async with behind.client({"post": entry}) as client:
        answer = await found(client, "send a mail", k=9)
        described = await said(client, "describe_tools", names=["post__send_mail"])
        for name in ("post__send_mail", "post/send_mail", "send_mail"):
            called = await said(client, "call_tool", name=name, arguments={"to": "x"})
            unknown = await said(client, "call_tool", name="no_such", arguments={"to": "x"})
            assert called.startswith(f"There is no tool {name!r}")
            assert unknown.startswith("There is no tool 'no_such'")
            by_itself = await said(client, name, to="x")
            assert by_itself.replace(name, "no_such") == await said(client, "no_such", to="x")

    assert [tool["name"] for tool in answer["tools"]] == ["post__book_room"]
    assert "Send a mail to somebody" not in described


async def test_what_is_too_sensitive_or_has_no_such_tag_is_out_of_reach(behind):
    vault = {"name": "open", "description": "Open the vault."}
    servers = {
        "vault": behind.entry("vault", vault, toolcrib={"sensitivity": "pii", "tags": ["home"]}),
        "post": [MAIL],
        "rooms": behind.entry("rooms", ROOM, toolcrib={"tags": ["home"]}),
    }
    options = {"tags": frozenset({"home"}), "max_sensitivity": "internal"}
    async with behind.client(servers, **options) as client:
        answer = await found(client, "open the vault and send a mail", k=9)
        search = (await client.list_tools())[0]
        for name in ("vault__open", "vault/open", "post__send_mail"):
            refused = await said(client, name)
            assert refused.startswith(f"There is no tool {name!r}")
            assert "vault__open" not in refused.partition(".")[2]

    assert [tool["name"] for tool in answer["tools"]] == ["rooms__book_room"]
    assert "vault" not in search.description


async def test_only_the_servers_that_are_asked_for_are_started(behind):
    started = behind.folder / "started"
    other = behind.entry("post", MAIL, options=("--started", str(started)))

    servers = {"post": other, "rooms": [ROOM]}
    async with behind.client(servers, only=("rooms",), pass_through=9) as client:
        assert await names(client) == ["rooms__book_room"]

    assert not started.exists()


ORDERS = {
    "name": "list_orders",
    "description": "List the orders of a shop.",
    "inputSchema": {
        "type": "object",
        "properties": {"$top": {"type": "integer"}, "since": {"type": "string"}},
        "anyOf": [{"required": ["$top"]}, {"required": ["since"]}],
    },
    "_meta": {"anthropic/searchHint": "purchases of customers"},
}


async def test_schemas_have_the_form_of_providers_and_calls_either_name(behind):
    async with behind.client({"shop": [ORDERS]}, pass_through=1) as client:
        [listed] = await client.list_tools()
        true = await client.call_tool("shop__list_orders", {"$top": 1})
        safe = await client.call_tool("shop__list_orders", {"top": 1})
        refused = await said(client, "shop__list_orders", other=1)
    assert "anyOf" not in listed.input_schema
    assert set(listed.input_schema["properties"]) == {"$top", "since"}
    assert listed.description.endswith("Give one of: $top; since.")
    assert listed.meta["anthropic/searchHint"] == "purchases of customers"
    assert true.structured_content == safe.structured_content == {"given": {"$top": 1}}
    assert "not made" in refused


async def test_copies_on_several_servers_take_one_place_and_can_all_be_called(behind):
    async with behind.client({name: [MAIL, ROOM] for name in ("post", "mail")}) as client:
        answer = await found(client, "send something to somebody", k=2)
        [copy] = [tool for tool in answer["tools"] if tool["name"].endswith("send_mail")]
        [other] = copy["also_on"]
        called = await client.call_tool("call_tool", {"name": other, "arguments": {"to": "A"}})
    assert {copy["name"], other} == {"post__send_mail", "mail__send_mail"}
    assert len(answer["tools"]) == 2
    assert "state" not in copy
    assert called.structured_content == {"given": {"to": "A"}}
