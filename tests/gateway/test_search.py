"""What clients are shown, what they find, and what they can call by it."""

from __future__ import annotations

import json

import pytest

from tests.gateway.conftest import ECHO, ready, texts
from toolcrib.gateway.terms import Purpose

MAIL = {
    "name": "send_mail",
    "description": "Send a mail to somebody.",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string"}},
        "required": ["to"],
    },
}
ROOM = {"name": "book_room", "description": "Book a meeting room."}


def names(tools):
    return [tool.name for tool in tools]


async def found(client, query, **more):
    result = await client.call_tool("find_tools", {"query": query, **more})
    assert json.loads(texts(result)[0]) == result.structured_content
    return result.structured_content


async def test_of_many_tools_only_the_search_is_shown(behind):
    servers = {"post": behind.entry("post", MAIL), "rooms": behind.entry("rooms", ROOM)}

    async with behind.client(servers) as client:
        assert names(await client.list_tools()) == ["find_tools", "call_tool"]


async def test_the_search_says_what_is_behind_it(behind):
    servers = {"post": behind.entry("post", MAIL), "rooms": behind.entry("rooms", ROOM)}

    async with behind.client(servers) as client:
        search = (await client.list_tools())[0]

    assert search.description.endswith(
        "Here are tools of: post (1 tool: mail); rooms (1 tool: book, room)."
    )


async def test_few_tools_are_shown_as_they_are(behind):
    servers = {"post": behind.entry("post", MAIL), "rooms": behind.entry("rooms", ROOM)}

    async with behind.client(servers, pass_through=2) as client:
        mail, room = await client.list_tools()

    assert (mail.name, mail.description, mail.input_schema) == (
        "post_send_mail",
        MAIL["description"],
        MAIL["inputSchema"],
    )
    assert room.name == "rooms_book_room"


async def test_the_search_stays_while_a_server_is_missing_that_may_have_more(behind):
    servers = {"post": behind.entry("post", MAIL), "gone": {"command": "no-such-command"}}

    async with behind.client(servers, pass_through=9) as client:
        assert names(await client.list_tools()) == ["find_tools", "call_tool"]


async def test_a_found_tool_comes_with_its_schema_and_can_be_called(behind):
    async with behind.client({"post": behind.entry("post", MAIL, ROOM)}) as client:
        answer = await found(client, "send a mail", k=1)
        called = await client.call_tool(
            "call_tool", {"name": "post_send_mail", "arguments": {"to": "Ada"}}
        )

    assert answer["tools"] == [
        {
            "name": "post_send_mail",
            "description": MAIL["description"],
            "inputSchema": MAIL["inputSchema"],
        }
    ]
    assert called.structured_content == {"given": {"to": "Ada"}}


@pytest.mark.parametrize("name", ["post_send_mail", "post/send_mail", "send_mail"])
async def test_a_tool_is_known_by_its_name_its_id_and_its_own_name(behind, name):
    async with behind.client({"post": behind.entry("post", MAIL)}) as client:
        by_proxy = await client.call_tool("call_tool", {"name": name, "arguments": {"to": "Ada"}})
        directly = await client.call_tool(name, {"to": "Ada"})

    assert by_proxy.structured_content == directly.structured_content == {"given": {"to": "Ada"}}


async def test_a_name_that_two_servers_have_is_neithers(behind):
    servers = {"one": behind.entry("one", ECHO), "two": behind.entry("two", ECHO)}

    async with behind.client(servers) as client:
        answer = await client.call_tool("echo", {}, raise_on_error=False)
        assert answer.is_error
        assert "Did you mean two_echo, one_echo?" in texts(answer)[0]


@pytest.mark.parametrize("proxied", [True, False])
async def test_an_unknown_name_is_answered_with_those_like_it(behind, proxied):
    async with behind.client({"post": behind.entry("post", MAIL, ROOM)}) as client:
        name, arguments = "post_send_mial", {}
        if proxied:
            name, arguments = "call_tool", {"name": name}
        answer = await client.call_tool(name, arguments, raise_on_error=False)

    assert answer.is_error
    assert texts(answer)[0].startswith(
        "There is no tool 'post_send_mial'. Did you mean post_send_mail"
    )


async def test_a_search_without_words_says_so(behind):
    async with behind.client({"post": behind.entry("post", MAIL)}) as client:
        answer = await client.call_tool("find_tools", {"query": "  "}, raise_on_error=False)

    assert answer.is_error
    assert "say in a few words" in texts(answer)[0]


async def test_pinned_and_always_active_tools_are_shown_beside_the_search(behind):
    entry = behind.entry("post", MAIL, ROOM, ECHO)
    entry["toolcrib"] = {"always_active": ["echo"]}

    async with behind.client(
        {"post": entry}, purpose=Purpose(pinned=("post/book_room",))
    ) as client:
        shown = names(await client.list_tools())

    assert shown == ["post_book_room", "post_echo", "find_tools", "call_tool"]


async def test_a_tool_that_cannot_be_pinned_is_told_of(behind):
    gateway = behind.make({"post": behind.entry("post", MAIL)}, pinned=("post/send_fax",))

    async with behind.client(gateway):
        await ready(gateway)

    assert (
        "warning",
        "there is no tool 'post/send_fax' to pin; an id is SERVER/NAME",
    ) in behind.said


async def test_a_disabled_tool_is_neither_found_nor_called(behind):
    entry = behind.entry("post", MAIL, ROOM)
    entry["toolcrib"] = {"disabled": ["send_mail"]}

    async with behind.client({"post": entry}) as client:
        answer = await found(client, "send a mail", k=9)
        for name in ("post_send_mail", "post/send_mail", "send_mail"):
            assert (await client.call_tool(name, {"to": "x"}, raise_on_error=False)).is_error
            called = await client.call_tool(
                "call_tool", {"name": name, "arguments": {"to": "x"}}, raise_on_error=False
            )
            assert texts(called)[0].startswith("There is no tool")

    assert [tool["name"] for tool in answer["tools"]] == ["post_book_room"]


async def test_what_is_too_sensitive_or_has_no_such_tag_is_out_of_reach(behind):
    secret = behind.entry("vault", {"name": "open", "description": "Open the vault."})
    secret["toolcrib"] = {"sensitivity": "pii", "tags": ["home"]}
    office = behind.entry("post", MAIL)
    plain = behind.entry("rooms", ROOM)
    plain["toolcrib"] = {"tags": ["home"]}
    purpose = Purpose(tags=frozenset({"home"}), max_sensitivity="internal")

    servers = {"vault": secret, "post": office, "rooms": plain}
    async with behind.client(servers, purpose=purpose) as client:
        answer = await found(client, "open the vault and send a mail", k=9)
        search = (await client.list_tools())[0]
        for name in ("vault_open", "vault/open", "post_send_mail"):
            refused = await client.call_tool(name, {}, raise_on_error=False)
            assert texts(refused)[0].startswith(f"There is no tool {name!r}")
            assert "vault_open" not in texts(refused)[0].partition(".")[2]

    assert [tool["name"] for tool in answer["tools"]] == ["rooms_book_room"]
    assert "vault" not in search.description


async def test_only_the_servers_that_are_asked_for_are_started(behind):
    started = behind.folder / "started"
    other = behind.entry("post", MAIL, options=("--started", str(started)))

    servers = {"post": other, "rooms": behind.entry("rooms", ROOM)}
    async with behind.client(servers, only=("rooms",), pass_through=9) as client:
        assert names(await client.list_tools()) == ["rooms_book_room"]

    assert not started.exists()
