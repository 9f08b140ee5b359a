"""Several clients at once: what one does with a server is nothing to another."""

from __future__ import annotations

import asyncio

import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult

from tests.gateway.conftest import ECHO, Behind, hanging, ready, said, until
from tests.indexers.readers.mcp_servers.launch import ends
from toolcrib.gateway.connection import UpstreamConnection

COUNT = {"name": "count", "does": "count"}
ASK = {"name": "elicit", "does": "elicit"}


def apart(behind: Behind, *tools, **chosen):
    pids = behind.folder / "pids"
    servers = {"post": behind.entry("post", *tools, options=("--started", str(pids)))}
    return behind.make(servers, is_shared=False, **chosen), pids


async def test_each_session_has_its_own_at_the_server(behind: Behind):
    gateway, _ = apart(behind, COUNT)
    one, two = Client(gateway.server, mode="legacy"), Client(gateway.server, mode="legacy")
    async with one, two:
        await ready(gateway)
        counted = [await said(client, "post__count") for client in (one, one, two, one)]

    assert counted == ["1", "2", "1", "3"]


async def test_what_a_session_used_is_closed_when_it_ends(behind: Behind):
    gateway, pids = apart(behind, COUNT)
    async with Client(gateway.server, mode="legacy") as kept:
        await ready(gateway)
        async with Client(gateway.server, mode="legacy") as short:
            await said(short, "post__count")
            pid = pids.read_text().split()[-1]
        await until(lambda: asyncio.to_thread(ends, int(pid)))

        assert await said(kept, "post__count") == "1"


async def test_where_nobody_can_be_told_from_another_all_share(behind: Behind):
    gateway, pids = apart(behind, COUNT)
    one, two = Client(gateway.server), Client(gateway.server)
    async with one, two:
        await ready(gateway)
        counted = [await said(client, "post__count") for client in (one, two)]

    assert counted == ["1", "2"]
    assert len(pids.read_text().split()) == 1


async def test_nobody_is_asked_what_somebody_elses_call_is_about(behind: Behind):
    gateway, _ = apart(behind, ASK, {"name": "hang", "does": "hang"})

    async def elicited(message, response_type, params, context):
        return ElicitResult(action="accept", content={"name": "Ada"})

    asking = Client(gateway.server, elicitation_handler=elicited)
    other = Client(gateway.server, elicitation_handler=elicited)
    async with asking, other:
        await ready(gateway)
        alone = await said(asking, "post__elicit")
        other_call = await hanging(other, "post__hang")
        together = await said(asking, "post__elicit")
        other_call.cancel()

    assert "Ada" in alone
    assert "several calls" in together


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_cannot_be_asked_is_not(behind: Behind, mode):
    gateway, _ = apart(behind, ASK)
    async with Client(gateway.server, mode=mode) as client:
        await ready(gateway)
        answer = await said(client, "post__elicit")

    assert "the client in front of the gateway does not support elicitation" in answer


async def test_the_calls_of_one_session_are_not_counted_for_another(behind: Behind):
    gateway, _ = apart(behind, COUNT, max_calls=1)
    one, two = Client(gateway.server, mode="legacy"), Client(gateway.server, mode="legacy")
    async with one, two:
        await ready(gateway)
        answers = [await said(client, "post__count") for client in (one, two, one)]

    assert answers[:2] == ["1", "1"]
    assert "limit of 1 calls" in answers[2]


async def test_a_server_that_goes_while_a_conversation_connects_ends_the_call_alone(
    behind: Behind, monkeypatch
):
    gateway = behind.make({"post": [ECHO]}, is_shared=False)
    async with behind.client(gateway, mode="legacy") as client:
        upstream, opening = gateway.pool["post"], asyncio.Event()

        async def hang(_connection, _timeout_s):
            opening.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(UpstreamConnection, "open", hang)
        call = asyncio.create_task(client.call_tool("post__echo", {}, raise_on_error=False))
        await opening.wait()
        await upstream.close()
        answer = await call
        assert answer.is_error
        assert "was not called" in answer.content[0].text
        assert await client.list_tools()
