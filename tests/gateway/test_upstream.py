"""A server that is watched, and the ways that conversations have to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.gateway.conftest import ECHO, QUICK, Behind, until
from tests.indexers.readers.mcp_servers.launch import ends
from toolcrib.errors import OverloadedError, ServiceUnavailableError
from toolcrib.gateway import upstream as upstreams
from toolcrib.gateway.config import read_config
from toolcrib.gateway.front import ANYONE
from toolcrib.gateway.upstream import Upstream


@asynccontextmanager
async def running(behind: Behind, *tools, options=(), rhythm=QUICK, is_shared=False, **more):
    """A server under watch, and what it listed."""
    listed: list = []

    async def take(upstream, found):
        listed.append([tool["name"] for tool in found])

    (config,) = read_config(behind.config(post=behind.entry("post", *tools, options=options)), {})
    upstream = Upstream(
        config,
        **{"connect_s": 10.0, "retry_s": 0.2, **more},
        rhythm=rhythm,
        at_once=asyncio.Semaphore(8),
        is_shared=is_shared,
        listed=take,
        noticed=lambda upstream: None,
    )
    task = asyncio.create_task(upstream.run())
    try:
        yield upstream, listed
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_it_is_up_once_it_has_listed_its_tools(behind: Behind):
    async with running(behind, ECHO) as (upstream, listed):
        assert upstream.health.state == "starting"
        await upstream.settled.wait()

        assert upstream.health.state == "up"
        assert listed == [["echo"]]


async def test_who_has_one_client_has_one_way(behind: Behind):
    async with running(behind, ECHO, is_shared=True) as (upstream, _):
        assert await upstream.lane("a") is await upstream.lane("b")


async def test_each_conversation_has_its_own_way_and_keeps_it(behind: Behind):
    async with running(behind, ECHO) as (upstream, _):
        first, again = await asyncio.gather(upstream.lane("a"), upstream.lane("a"))
        other = await upstream.lane("b")

        assert first is again
        assert len({first, other, await upstream.lane(ANYONE)}) == 3
        assert await upstream.lane("a") is first


async def test_a_way_that_ended_is_made_anew(behind: Behind):
    async with running(behind, ECHO) as (upstream, _):
        first = await upstream.lane("a")
        await first.link.close()

        assert await upstream.lane("a") is not first


async def test_there_are_so_many_ways_and_no_more(behind: Behind, monkeypatch):
    monkeypatch.setattr(upstreams, "MAX_LANES", 1)
    async with running(behind, ECHO) as (upstream, _):
        await upstream.lane("a")
        with pytest.raises(OverloadedError, match="1 conversations use the server 'post'"):
            await upstream.lane("b")
        await upstream.leave("a")
        await upstream.lane("b")


async def test_who_leaves_while_a_way_is_made_leaves_nothing_behind(behind: Behind):
    pids = behind.folder / "pids"
    start = behind.folder / "start"
    start.touch()
    options = ("--started", str(pids), "--start-with", str(start))
    async with running(behind, ECHO, options=options) as (upstream, _):
        await upstream.settled.wait()
        start.unlink()
        opening = asyncio.create_task(upstream.lane("a"))
        await until(lambda: len(pids.read_text().split()) == 2)
        await upstream.leave("a")
        with pytest.raises(asyncio.CancelledError):
            await opening

        assert ends(int(pids.read_text().split()[1]))


async def test_a_way_that_nobody_uses_is_closed(behind: Behind):
    rhythm = replace(QUICK, idle_s=0.3)
    async with running(behind, ECHO, rhythm=rhythm) as (upstream, _):
        lane = await upstream.lane("a")
        await until(lane.link.ended.is_set)

        assert not (await upstream.lane(ANYONE)).link.is_over


async def test_a_dead_server_has_no_way_to_it(behind: Behind):
    async with running(behind, ECHO, options=("--start-with", "never"), connect_s=0.3) as (
        upstream,
        listed,
    ):
        await upstream.settled.wait()
        with pytest.raises(ServiceUnavailableError, match="no answer to initialize"):
            await upstream.lane("a")

        assert upstream.health.state == "down"
        assert listed == []


async def test_a_server_that_does_not_list_its_tools_in_time_is_down(behind: Behind):
    async with running(behind, ECHO, options=("--list-after", "60"), connect_s=2.0) as (
        upstream,
        _,
    ):
        await upstream.settled.wait()

        assert upstream.health.reason == "it did not list its tools within 2 s"


async def test_a_server_that_refuses_to_list_its_tools_is_down(behind: Behind):
    async with running(behind, ECHO, options=("--no-list",)) as (upstream, _):
        await upstream.settled.wait()

        assert upstream.health.reason == "it answered with the error 'out of order' (code -32000)"


async def test_who_waits_longer_and_longer_is_reset_by_a_life(behind: Behind):
    pids = behind.folder / "pids"
    async with running(behind, ECHO, options=("--started", str(pids))) as (upstream, _):
        for lives in (1, 2, 3):
            await until(lambda: upstream.health.state == "up")
            assert len(pids.read_text().split()) == lives
            (await upstream.lane(ANYONE)).link.give_up("that is enough")
            await until(lambda: upstream.health.state == "down")
