"""When the index fails, tools can still be called; nothing breaks, and all is told."""

from __future__ import annotations

from dataclasses import replace
from threading import Event

from tests.gateway.conftest import ECHO, QUICK, Behind, texts, until
from toolcrib import Crib
from toolcrib.errors import StoreUnavailableError
from toolcrib.gateway.terms import Manner
from toolcrib.namespaces import Namespaces

DIE = {"name": "die", "does": "die"}


def refuse(*_given, **_more):
    raise StoreUnavailableError("the store does not answer")


async def said(client, name, **arguments):
    return texts(await client.call_tool(name, arguments, raise_on_error=False))[0]


async def test_a_search_that_fails_says_so(behind: Behind, monkeypatch):
    async with behind.client({"post": behind.entry("post", ECHO)}) as client:
        monkeypatch.setattr(Crib, "find_tools", refuse)
        answer = await said(client, "find_tools", query="echo")

    assert answer == "The search does not work at the moment: the store does not answer."


async def test_tools_that_cannot_be_indexed_can_be_called(behind: Behind, monkeypatch):
    monkeypatch.setattr(Crib, "index_tools", refuse)
    async with behind.client({"post": behind.entry("post", ECHO)}) as client:
        assert await said(client, "post_echo", word="hi") == '{"word": "hi"}'

    told = "post: its tools can be called, but not all found: the store does not answer"
    assert ("error", told) in behind.said


async def test_a_failed_call_is_told_also_where_no_others_can_be_looked_for(
    behind: Behind, monkeypatch
):
    async with behind.client({"post": behind.entry("post", DIE)}) as client:
        monkeypatch.setattr(Crib, "find_tools", refuse)
        answer = await said(client, "post_die")

    assert answer == (
        "The server 'post' died in the call of post_die, which may have been carried out."
    )


async def test_who_searches_before_the_index_is_open_is_told(behind: Behind, monkeypatch):
    manner = Manner(behind.say, is_shared=True, rhythm=replace(QUICK, patience_s=0.0))
    gateway = behind.make({"post": behind.entry("post", ECHO)}, manner=manner)
    opens = Event()
    reach = Namespaces.open

    def later(*given, **more):
        opens.wait()
        return reach(*given, **more)

    monkeypatch.setattr(Namespaces, "open", later)
    async with behind.client(gateway, settled=False) as client:
        answer = await said(client, "find_tools", query="echo")
        opens.set()

    assert answer == "The index of tools is still being opened. Search again in a moment."


async def test_a_result_is_not_lost_where_it_cannot_be_taken_down(behind: Behind, monkeypatch):
    monkeypatch.setattr(Crib, "report_outcome", refuse)
    async with behind.client({"post": behind.entry("post", ECHO)}) as client:
        assert await said(client, "post_echo", word="hi") == '{"word": "hi"}'


async def test_a_call_that_fails_before_the_index_is_open_is_told_to_be_tried_again(
    behind: Behind, monkeypatch
):
    servers = {"post": behind.entry("post", DIE)}
    async with behind.client(servers):
        pass
    monkeypatch.setattr("toolcrib.namespaces.Namespaces.open", refuse)
    gateway = behind.make(servers)
    async with behind.client(gateway, settled=False) as client:
        await until(gateway.upstreams["post"].settled.is_set)
        answer = await said(client, "post_die")

    assert answer.endswith("which may have been carried out. Try again later.")


async def test_an_index_that_cannot_be_opened_at_all_is_told(behind: Behind, monkeypatch):
    monkeypatch.setattr("toolcrib.namespaces.Namespaces.open", refuse)
    gateway = behind.make({"post": behind.entry("post", ECHO)})
    async with behind.client(gateway, settled=False) as client:
        await until(lambda: any("a part of the gateway failed" in text for _, text in behind.said))
        await until(gateway.upstreams["post"].settled.is_set)

        assert await said(client, "post_echo", word="hi") == '{"word": "hi"}'


async def test_approvals_that_cannot_be_read_are_looked_for_again(behind: Behind, monkeypatch):
    gateway = behind.make({"post": behind.entry("post", ECHO)})
    async with behind.client(gateway) as client:
        calls = []

        def state():
            calls.append(1)
            return refuse() if len(calls) < 3 else (len(calls),)

        monkeypatch.setattr(gateway._backing.judge, "state", state)
        await until(lambda: len(calls) > 4)

        assert await said(client, "post_echo", word="hi") == '{"word": "hi"}'


async def test_a_gateway_that_is_closed_while_it_opens_leaves_the_folder_free(behind: Behind):
    for _ in range(3):
        gateway = behind.make({"post": behind.entry("post", ECHO)})
        async with gateway.running():
            pass

    assert not any("kept in memory" in text for _, text in behind.said)
