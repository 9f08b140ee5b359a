"""Servers change their tools while they run, and clients hear of what that means for them."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from fastmcp import Client
from mcp.client.subscriptions import listen

from tests.gateway.conftest import (
    ANNOUNCE,
    DIE,
    ECHO,
    FAX,
    LONG_S,
    QUICK,
    Behind,
    Heard,
    found,
    hanging,
    said,
    texts,
    until,
    until_equal,
    until_listed,
)
from toolcrib.gateway.config import McpFile, file_stamp
from toolcrib.gateway.gateway import Gateway

HANG = {"name": "hang", "does": "hang"}


@pytest.mark.parametrize("options", [(), ("--modern",)], ids=["handshake", "since 2026"])
async def test_a_server_that_announces_a_change_is_listed_anew(behind, options):
    written: list[str] = []
    servers = {"post": behind.entry("post", ANNOUNCE, ECHO, options=options)}
    progress = partial(nullcontext, lambda told: written.extend(told.ids))
    async with behind.client(servers, pass_through=9, progress=progress) as client:
        behind.offer("post", ANNOUNCE, FAX)
        await client.call_tool("post__announce", {})

        await until_listed(client, "post__announce", "post__send_fax")
        tools = (await found(client, "send a fax"))["tools"]
        assert {tool["name"] for tool in tools} == {"post__announce", "post__send_fax"}

    assert sorted(written) == ["post/announce", "post/echo", "post/send_fax"]


async def test_a_server_that_tells_of_no_change_is_asked_now_and_then(behind):
    servers = {"post": behind.entry("post", ECHO, options=("--mute",))}
    async with behind.client(servers, pass_through=9) as client:
        behind.offer("post", FAX)

        await until_listed(client, "post__send_fax")


async def test_clients_of_the_handshake_era_are_told_when_they_are_shown_something_else(behind):
    heard = Heard()
    how = {"mode": "legacy", "message_handler": heard, "pass_through": 9}
    async with behind.client({"post": [ANNOUNCE, ECHO]}, **how) as client:
        heard.clear()
        behind.offer("post", ANNOUNCE, FAX)
        await client.call_tool("post__announce", {})
        await heard.until("ToolListChanged")


async def test_clients_since_2026_listen_for_changes(behind):
    async with (
        behind.client({"post": [ANNOUNCE, ECHO]}, pass_through=9) as client,
        listen(client.session, tools_list_changed=True) as changes,
    ):
        behind.offer("post", ANNOUNCE, FAX)
        await client.call_tool("post__announce", {})
        async with asyncio.timeout(LONG_S):
            await anext(changes)

        await until_listed(client, "post__announce", "post__send_fax")


async def test_nobody_is_told_of_what_nobody_is_shown(behind):
    async with (
        behind.client({"post": [ANNOUNCE, ECHO, FAX]}) as client,
        listen(client.session, tools_list_changed=True) as changes,
    ):
        told = asyncio.ensure_future(anext(changes))
        behind.offer("post", ANNOUNCE, {**ECHO, "description": "Say it again."}, FAX)
        await client.call_tool("post__announce", {})
        await until(lambda: behind.said.count(("info", "post: 3 tools")) == 2)

        assert not told.done()
        told.cancel()


async def test_clients_hear_how_it_goes(behind):
    heard = []

    async def logged(entry):
        heard.append((entry.level, entry.logger, entry.data))

    async with behind.client({"post": [DIE]}, mode="legacy", log_handler=logged) as client:
        await client.call_tool("post__die", {}, raise_on_error=False)
        await until(lambda: any(level == "warning" for level, _, _ in heard))

    said = [text for level, logger, text in heard if (level, logger) == ("warning", "toolcrib")]
    assert any("stderr ended with 'out of luck'; the gateway retries" in text for text in said)


# -- changes of the configuration ------------------------------------------------------------------


def following(behind: Behind, only: tuple[str, ...] = (), **servers: Any) -> Gateway:
    """A gateway that reads its mcp.json again."""
    file = McpFile(behind.config(**servers), {}, only)
    return behind.make(servers, config=(file, file_stamp(file.path)))


@pytest.mark.slow
async def test_servers_come_and_go_with_the_file_and_clients_are_told(behind):
    heard = Heard()
    post, fax = behind.entry("post", ECHO), behind.entry("fax", FAX)
    gateway = following(behind, post=post)
    options = {"mode": "legacy", "message_handler": heard}
    async with behind.client(gateway, **options) as client:
        assert await is_found(client, "post__echo")
        connection = gateway.pool["post"]
        heard.clear()

        behind.config(post=post, fax=fax)
        await until(lambda: is_found(client, "fax__send_fax"))
        await heard.until("ToolListChanged")
        assert gateway.pool["post"] is connection
        assert await said(client, "fax__send_fax") == "{}"

        behind.config(post=post, fax={**fax, "disabled": True})
        await until(lambda: is_unknown(client, "fax__send_fax"))
        assert not await is_found(client, "fax__send_fax")
        await until(lambda: ("info", "fax: removed") in behind.said)

        behind.config(post={**post, "toolcrib": {"disabled": ["echo"]}}, fax=fax)
        await until(lambda: is_found(client, "fax__send_fax"))
        await until(lambda: is_unknown(client, "post__echo"))


async def test_a_call_that_ends_with_its_servers_entry_is_told_so(behind):
    post, fax = behind.entry("post", HANG), behind.entry("fax", FAX)
    gateway = following(behind, post=post, fax=fax)
    async with behind.client(gateway) as client:
        call = await hanging(client, "post__hang")
        behind.config(fax=fax)
        told = texts(await call)[0]

    assert told.startswith("The server 'post' was stopped after a change of its configuration")


async def test_a_server_that_is_replaced_while_known_ones_start_is_not_started_first(
    behind, monkeypatch
):
    servers = {"post": [ECHO], "fax": [FAX]}
    async with behind.client(servers):
        pass
    gateway = behind.make(servers, intervals=replace(QUICK, first_search_s=0.0, patience_s=LONG_S))
    fax, remove = gateway.pool["fax"], gateway.index.remove
    changed = {**servers, "fax": behind.entry("fax", FAX, toolcrib={"tags": ["paper"]})}
    configs = McpFile(behind.config(**changed), {}).read()

    async def remove_late(name: str) -> None:
        gateway._search.is_idle.set()
        await gateway.pool["post"].settled.wait()
        await remove(name)

    monkeypatch.setattr(gateway.index, "remove", remove_late)
    gateway._search.is_idle.clear()
    async with behind.client(gateway, settled=False) as client, asyncio.timeout(LONG_S):
        await gateway.index.is_open.wait()
        await gateway.reconfigure(configs)
        await gateway.pool.wait_settled()

        assert gateway.pool["fax"].is_up
        assert not fax.settled.is_set()
        assert await said(client, "fax__send_fax") == "{}"


@pytest.mark.slow
async def test_a_file_that_cannot_be_used_changes_nothing(behind):
    gateway = following(behind, post=[ECHO])
    async with behind.client(gateway) as client:
        for broken in ("{", "{}"):
            behind.said.clear()
            (behind.folder / "mcp.json").write_text(broken)
            await until(lambda: any("are unchanged" in text for _, text in behind.said))
        assert await is_found(client, "post__echo")


@pytest.mark.slow
@pytest.mark.parametrize("only", [(), ("post",)])
@pytest.mark.parametrize("is_off", [True, False])
async def test_the_last_server_can_be_switched_off_and_removed(behind, is_off, only):
    gateway = following(behind, only, post=[ECHO])
    async with behind.client(gateway) as client:
        assert await is_found(client, "post__echo")
        off = behind.entry("post", ECHO, disabled=True)
        behind.config(**({"post": off} if is_off else {}))
        await until(lambda: ("info", "post: removed") in behind.said)
        assert await is_unknown(client, "post__echo")
        behind.config(post=[ECHO])
        await until_equal(True, is_found, client, "post__echo")


async def is_found(client: Client[Any], name: str) -> bool:
    return name in {each["name"] for each in (await found(client, "echo send fax"))["tools"]}


async def is_unknown(client: Client[Any], name: str) -> bool:
    return "There is no tool" in await said(client, name)
