"""A server that is watched, and the connections that conversations have to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from time import monotonic
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from mcp import ClientSession
from mcp.types import ListPromptsResult

from tests.gateway.conftest import ECHO, QUICK, Behind, until
from tests.indexers.readers.mcp_servers.launch import ends
from toolcrib.errors import OverloadedError, ServiceUnavailableError
from toolcrib.gateway import upstream as upstreams
from toolcrib.gateway.config import McpFile
from toolcrib.gateway.downstream import SHARED_KEY
from toolcrib.gateway.upstream import UpstreamPool

QUICKER = replace(QUICK, connect_s=60.0, retry_s=0.2)


@asynccontextmanager
async def running(behind: Behind, *tools, options=(), is_shared=False, **intervals):
    """A server under watch, and what it listed."""
    listed: list = []

    async def take(name, found, instructions, offers):
        assert (instructions, any(offers.values())) == ("", False)
        listed.append([tool["name"] for tool in found])

    file = behind.config(post=behind.entry("post", *tools, options=options))
    configs = McpFile(file, {}).read()
    quicker = replace(QUICKER, **intervals)
    upstream = UpstreamPool(configs, take, lambda _: None, quicker, is_shared=is_shared)["post"]
    task = asyncio.create_task(upstream.run())
    try:
        yield upstream, listed
    finally:
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def opening(behind: Behind):
    """A server under watch, a second connection to it, and the file that lets that one open."""
    pids = behind.folder / "pids"
    start = behind.folder / "start"
    start.touch()
    options = ("--started", str(pids), "--start-with", str(start))
    async with running(behind, ECHO, options=options) as (upstream, _):
        await upstream.settled.wait()
        start.unlink()
        connection = asyncio.create_task(upstream.connection("a"))
        await until(lambda: len(pids.read_text().split()) == 2)
        yield upstream, connection, start


async def test_it_is_up_once_it_has_listed_its_tools(behind: Behind):
    async with running(behind, ECHO, is_shared=True) as (upstream, listed):
        assert upstream.health.state == "starting"
        await upstream.settled.wait()
        assert await upstream.connection("a") is await upstream.connection("b")

        assert upstream.health.state == "up"
        assert listed == [["echo"]]


async def test_each_conversation_has_its_own_connection_and_keeps_it(behind: Behind):
    async with running(behind, ECHO) as (upstream, _):
        first, again = await asyncio.gather(upstream.connection("a"), upstream.connection("a"))
        other = await upstream.connection("b")

        assert first is again
        assert len({first, other, await upstream.connection(SHARED_KEY)}) == 3
        assert await upstream.connection("a") is first
        await first.close()
        assert await upstream.connection("a") is not first


async def test_one_connection_too_many_closes_the_longest_idle_one(behind: Behind, monkeypatch):
    monkeypatch.setattr(upstreams, "MAX_CONNECTIONS", 2)
    async with running(behind, ECHO) as (upstream, _):
        first, second = [await upstream.connection(key) for key in "ab"]
        first.used_at = monotonic()
        await upstream.connection("c")
        assert (first.is_over, second.is_over) == (False, True)
        assert await upstream.connection("a") is first


async def test_connections_with_calls_under_way_stay_and_another_is_refused(
    behind: Behind, monkeypatch
):
    monkeypatch.setattr(upstreams, "MAX_CONNECTIONS", 1)
    async with running(behind, ECHO) as (upstream, _):
        busy = await upstream.connection("a")
        busy.reads += 1
        with pytest.raises(OverloadedError, match="1 conversations are using the server 'post'"):
            await upstream.connection("b")
        assert await upstream.connection("a") is busy


async def test_connections_that_are_being_made_count(behind: Behind, monkeypatch):
    monkeypatch.setattr(upstreams, "MAX_CONNECTIONS", 2)
    async with running(behind, ECHO) as (upstream, _):
        made = await asyncio.gather(*map(upstream.connection, "abcde"), return_exceptions=True)
        refused = [each for each in made if isinstance(each, OverloadedError)]
        assert (len(made), len(refused)) == (5, 3)


async def test_a_connection_that_a_conversation_does_not_get_is_logged(
    behind: Behind, monkeypatch, caplog
):
    async with running(behind, ECHO) as (upstream, _):
        await upstream.settled.wait()
        refused = ServiceUnavailableError("too many open files")
        monkeypatch.setattr(upstreams.UpstreamConnection, "open", Mock(side_effect=refused))
        with pytest.raises(ServiceUnavailableError):
            await upstream.connection("a")

    assert "post: a conversation got no connection: too many open files" in caplog.messages


async def test_who_leaves_while_a_connection_is_made_leaves_nothing_behind(behind: Behind):
    async with opening(behind) as (upstream, connection, start):
        await upstream.leave("a")
        with pytest.raises(ServiceUnavailableError):
            await connection

        assert ends(int((start.parent / "pids").read_text().split()[1]))


async def test_a_connection_is_idle_from_its_opening_however_long_that_took(behind: Behind):
    async with opening(behind) as (_, connection, start):
        before = monotonic()
        start.touch()

        assert (await connection).used_at > before


async def test_a_connection_that_nobody_uses_is_closed(behind: Behind):
    async with running(behind, ECHO, idle_s=0.3) as (upstream, _):
        connection = await upstream.connection("a")
        await until(connection.ended.is_set)

        assert not (await upstream.connection(SHARED_KEY)).is_over


async def test_a_dead_server_has_no_connection(behind: Behind):
    never = ("--start-with", "never")
    async with running(behind, ECHO, options=never, connect_s=0.3) as (upstream, listed):
        await upstream.settled.wait()
        with pytest.raises(ServiceUnavailableError, match="no answer to initialize"):
            await upstream.connection("a")

        assert upstream.health.state == "down"
        assert listed == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--no-list",), "it answered with the error 'out of order' (code -32000)"),
        (("--list-after", "600"), "it did not list its tools within 2 s"),
    ],
)
async def test_a_server_that_does_not_list_its_tools_is_down(behind: Behind, options, reason):
    async with running(behind, ECHO, options=options, connect_s=2.0) as (upstream, _):
        await until(lambda: upstream.health.reason == reason)
        assert upstream.health.state == "down"


async def test_who_waits_longer_and_longer_is_reset_by_a_life(behind: Behind):
    pids = behind.folder / "pids"
    async with running(behind, ECHO, options=("--started", str(pids))) as (upstream, _):
        for lives in (1, 2, 3):
            await until(lambda: upstream.health.state == "up")
            assert len(pids.read_text().split()) == lives
            (await upstream.connection(SHARED_KEY)).give_up("that is enough")
            await until(lambda: upstream.health.state == "down")


@pytest.mark.parametrize("is_slow", [False, True])
async def test_offers_without_an_end_are_cut_and_slow_ones_are_left_out(is_slow, caplog):
    asked, items = 0, []

    async def prompts(params) -> ListPromptsResult:
        nonlocal asked
        asked += 1
        if is_slow:
            await asyncio.Event().wait()
        items.extend([{"name": "greet"}] if asked == 1 else [])
        return ListPromptsResult(prompts=[], next_cursor=str(asked))

    session = SimpleNamespace(
        list_prompts=prompts,
        list_resources=None,
        list_resource_templates=None,
        server_capabilities=SimpleNamespace(prompts=True, resources=None),
    )
    unparsed = {"prompts": items, "resources": [], "resourceTemplates": []}
    connection = SimpleNamespace(session=session, unparsed=lambda name: nullcontext(unparsed[name]))
    timeout_s = 0.05 if is_slow else 60
    found = await upstreams._list_offers("desk", connection, timeout_s)

    listed = {"prompt": [{"name": "greet"}], "resource": [], "template": []}
    assert found == ({} if is_slow else listed)
    assert asked == (1 if is_slow else upstreams.MAX_OFFER_PAGES)
    late = "desk: prompts and resources were not all listed within 0.05 s"
    assert caplog.messages == [late] * is_slow


async def test_a_server_that_is_read_from_is_not_idle(behind: Behind):
    async with running(behind, ECHO, idle_s=0.5, ping_s=0.05) as (upstream, _):
        going, ends = asyncio.Event(), asyncio.Event()

        async def read(session: ClientSession) -> int:
            going.set()
            await ends.wait()
            await session.send_ping()
            return 1

        task = asyncio.create_task(upstream.ask("a", read))
        await going.wait()
        connection = upstream._own["a"]
        assert connection.is_busy
        await asyncio.sleep(0.8)
        assert not connection.is_over
        ends.set()
        assert await task == 1
        assert not connection.is_busy
