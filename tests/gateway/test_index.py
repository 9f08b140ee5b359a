"""Servers become searchable one by one; a search waits for them, and names those it has not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.conftest import ECHO, LONG_S, QUICK, Behind, found, ready, said, until
from toolcrib import Crib
from toolcrib.errors import StoreUnavailableError
from toolcrib.gateway.approval import Screening
from toolcrib.gateway.gateway import Gateway, StoreThread
from toolcrib.gateway.index import LISTINGS_NAMESPACE
from toolcrib.gateway.upstream import Intervals

IMPATIENT = replace(QUICK, patience_s=0.0, handshake_s=0.0)
PATIENT = replace(IMPATIENT, patience_s=LONG_S)
INDEXING = "is still being indexed"


class Indexing:
    """Indexing of servers' tools, which waits in a thread where it is held."""

    def __init__(self, index: Callable[..., Any]) -> None:
        self._index = index
        self._held: dict[str, threading.Event] = {}
        self.reached: list[str] = []

    def hold(self, server: str) -> None:
        """Let nobody index this server's tools; they may be removed."""
        self._held[server] = threading.Event()

    def release(self, *servers: str) -> None:
        """Let the indexing of these go on, by default of all."""
        for server in servers or tuple(self._held):
            self._held[server].set()

    def __call__(self, crib: Crib, *sources: Any, **how: Any) -> Any:
        self.reached.append(how["server"])
        if any(sources) and how["server"] in self._held:
            assert self._held[how["server"]].wait(LONG_S)
        return self._index(crib, *sources, **how)


@pytest.fixture
def indexing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Indexing]:
    made = Indexing(Crib.index_tools)

    def index_tools(crib: Crib, *sources: Any, **how: Any) -> Any:
        return made(crib, *sources, **how)

    monkeypatch.setattr(Crib, "index_tools", index_tools)
    yield made
    made.release()


def servers_of(behind: Behind, *names: str) -> dict[str, Any]:
    """Servers that start once a file of their name is there."""
    start = "--start-with"
    return {n: behind.entry(n, ECHO, options=(start, str(behind.folder / n))) for n in names}


def named(answer: dict[str, Any]) -> tuple[set[str], dict[str, str]]:
    """The servers whose tools an answer has, and the state of each that it misses."""
    missing = {each["server"]: each["state"] for each in answer.get("missing", ())}
    names = {name for tool in answer["tools"] for name in (tool["name"], *tool.get("also_on", ()))}
    return {name.partition("_")[0] for name in names}, missing


async def until_listed(gateway: Gateway, *servers: str) -> None:
    await until(lambda: all(each in gateway.index._listings for each in servers))


async def test_a_server_is_found_before_the_next_one_is_indexed(behind, indexing):
    gateway = behind.make(servers_of(behind, "zero", "one", "two"), intervals=IMPATIENT)
    for server in ("zero", "one", "two"):
        indexing.hold(server)
    async with behind.client(gateway, settled=False) as client:
        await gateway.index.is_open.wait()
        (behind.folder / "zero").touch()
        await until(lambda: indexing.reached == ["zero"])
        # The next two are judged together, once the index is free again.
        (behind.folder / "one").touch()
        (behind.folder / "two").touch()
        await until_listed(gateway, "one", "two")
        everyone = dict.fromkeys(("zero", "one", "two"), INDEXING)
        assert named(await found(client)) == (set(), everyone)
        indexing.release("zero")
        await until(lambda: len(indexing.reached) == 2)
        first = indexing.reached[-1]
        (second,) = {"one", "two"} - {first}
        indexing.release(first)
        await until(lambda: len(indexing.reached) == 3)
        answer = await found(client)
        indexing.release()
        await ready(gateway)
        whole = await found(client)

    assert named(answer) == ({"zero", first}, {second: INDEXING})
    assert named(whole) == ({"zero", "one", "two"}, {})


async def test_an_answer_without_tools_is_not_accepted_and_says_who_is_not_ready(behind, indexing):
    gateway = behind.make(servers_of(behind, "one"), intervals=IMPATIENT)
    indexing.hold("one")
    async with behind.client(gateway, settled=False) as client:
        await gateway.index.is_open.wait()
        unmet = await found(client)
        (behind.folder / "one").touch()
        await until(lambda: indexing.reached == ["one"])
        listed = await found(client)
        indexing.release()

    for answer, state in ((unmet, "is still being connected to"), (listed, INDEXING)):
        assert (answer["tools"], answer["verdict"]) == ([], "abstain")
        assert named(answer)[1] == {"one": state}
        assert "these are not ready: one." in answer["note"]
        assert "confidence" not in answer


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_search_waits_for_what_is_listed_and_tells_its_progress(behind, indexing, mode):
    gateway = behind.make(servers_of(behind, "one", "two"), intervals=PATIENT)
    indexing.hold("two")
    (behind.folder / "one").touch()
    (behind.folder / "two").touch()
    told: asyncio.Queue[tuple[float, float | None]] = asyncio.Queue()

    async def progress(done: float, total: float | None, _message: str | None) -> None:
        told.put_nowait((done, total))

    async with behind.client(gateway, settled=False, mode=mode) as client:
        search = client.call_tool("find_tools", {"query": "echo"}, progress_handler=progress)
        asked = asyncio.create_task(search)
        async with asyncio.timeout(LONG_S):
            first = await told.get()
        await until(lambda: "two" in indexing.reached)
        assert not asked.done()
        indexing.release()
        answer = (await asked).structured_content

    assert first[1] == 3
    assert first[0] < 3
    assert named(answer) == ({"one", "two"}, {})


async def test_a_search_waits_no_longer_than_its_patience_and_not_for_what_it_knows(
    behind, indexing
):
    servers = servers_of(behind, "known", "new")
    (behind.folder / "known").touch()
    async with behind.client({"known": servers["known"]}):
        pass
    (behind.folder / "known").unlink()
    known = {"known": servers["known"]}
    async with behind.client(known, settled=False, intervals=PATIENT) as client:
        answer = named(await found(client))
    assert answer == ({"known"}, {"known": "is still being connected to"})

    gateway = behind.make(servers, intervals=replace(IMPATIENT, patience_s=0.2))
    async with behind.client(gateway, settled=False) as client:
        await gateway.index.is_open.wait()
        assert "new" in named(await found(client))[1]


async def test_known_tools_are_found_by_words_while_the_index_opens(behind, monkeypatch):
    mail = {"name": "send_mail", "description": "Send a mail to somebody."}
    room = {"name": "book_room", "description": "Book a meeting room."}
    servers = {"post": [ECHO, mail, room]}
    async with behind.client(servers) as client:
        assert "note" not in await found(client, "book a room", k=1)

    opens, opening = asyncio.Event(), StoreThread.open

    async def open_late(thread: StoreThread) -> Crib:
        await opens.wait()
        return await opening(thread)

    monkeypatch.setattr(StoreThread, "open", open_late)
    gateway = behind.make(servers, intervals=replace(IMPATIENT, opening_s=0.0))
    async with behind.client(gateway, settled=False) as client:
        await gateway.index.is_recalled.wait()
        early = await found(client, "reserve a meeting room", k=1)
        nothing = await said(client, "find_tools", query="quantum chemistry")
        called = await said(client, "call_tool", name="post__send_mail", arguments={})
        opens.set()
        await ready(gateway)
        late = await found(client, "book a room", k=1)

    assert [each["name"] for each in early["tools"]] == ["post__book_room"]
    assert early["verdict"] == "abstain"
    assert "still opening" in early["note"]
    assert nothing == "The index of tools is still opening. Search again in a moment."
    assert called == "{}"
    assert late["verdict"] == "accept"


async def test_new_tools_are_found_by_words_while_the_index_opens(behind, monkeypatch):
    async def never_open(_thread: StoreThread) -> Crib:
        return await asyncio.Future[Crib]()

    monkeypatch.setattr(StoreThread, "open", never_open)
    gateway = behind.make(servers_of(behind, "one"), intervals=replace(IMPATIENT, opening_s=0.0))
    wait, ready_event = gateway.pool.wait, gateway.index.ready_event("one")

    async def wait_for_arrivals(_context: Any, events: Any, *_more: Any) -> bool:
        if ready_event in events:
            (behind.folder / "one").touch()
            await until(lambda: len(gateway.index.catalog))
        return await wait(None, events, 0.0)

    monkeypatch.setattr(gateway.pool, "wait", wait_for_arrivals)
    async with behind.client(gateway, settled=False) as client:
        await gateway.index.is_recalled.wait()
        answer = await found(client)

    assert named(answer)[0] == {"one"}
    assert answer["verdict"] == "abstain"


async def test_a_changed_listing_is_missing_until_it_can_be_found(behind, indexing):
    servers = {"one": behind.entry("one", ECHO, options=("--mute",))}
    gateway = behind.make(servers, intervals=IMPATIENT)
    async with behind.client(gateway) as client:
        assert named(await found(client)) == ({"one"}, {})
        indexing.hold("one")
        behind.offer("one", ECHO, {"name": "more", "description": "Echo more."})
        await until(lambda: indexing.reached.count("one") > 1)
        assert named(await found(client)) == ({"one"}, {"one": INDEXING})
        indexing.release()
        await until(lambda: not gateway.index.pending)
        names = {tool["name"] for tool in (await found(client))["tools"]}
        assert names == {"one__echo", "one__more"}


async def test_a_server_whose_tools_cannot_be_indexed_keeps_nobody_waiting(behind, monkeypatch):
    index = Crib.index_tools

    def refuse(crib: Crib, *sources: Any, **how: Any) -> Any:
        if how["server"] == "odd":
            raise StoreUnavailableError("the store does not answer")
        return index(crib, *sources, **how)

    monkeypatch.setattr(Crib, "index_tools", refuse)
    async with behind.client({"odd": [ECHO], "even": [ECHO]}, intervals=PATIENT) as client:
        assert named(await found(client)) == ({"even"}, {"odd": "could not be indexed"})


async def test_a_removed_server_whose_tools_are_being_indexed_is_not_found_again(behind, indexing):
    gateway = behind.make(servers_of(behind, "one", "two"), intervals=IMPATIENT)
    two = [each.config for each in gateway.pool if each.name == "two"]
    indexing.hold("one")
    async with behind.client(gateway, settled=False):
        await gateway.index.is_open.wait()
        (behind.folder / "one").touch()
        await until(lambda: indexing.reached == ["one"])
        removal = asyncio.create_task(gateway.reconfigure(two))
        # Time in which a removal that does not wait for the indexing would end before it.
        await asyncio.wait({removal}, timeout=0.5)
        indexing.release()
        await removal
        await gateway.index.wait_for_jobs()
        assert list(gateway.index.crib.list_tools()) == []
        assert list(behind.records_db().read(LISTINGS_NAMESPACE)) == []


async def test_a_hidden_tool_is_not_what_the_verdict_is_about(behind):
    fax = {"name": "send_fax", "description": "Send a fax to somebody."}
    gateway = behind.make({"one": [ECHO, fax]})
    async with behind.client(gateway) as client:
        gateway.server.disable(names={"one__send_fax"})
        first = await found(client, "send_fax", k=1)
        gateway.server.disable(names={"one__echo"})
        none = await found(client, "send_fax")

    assert [tool["name"] for tool in first["tools"]] == ["one__echo"]
    assert (none["tools"], none["verdict"]) == ([], "abstain")
    assert none["note"].startswith("No tool here fits.")


LATE = ("late", "later")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_first_search_of_a_fresh_gateway_finds_or_names_every_server(behind, mode):
    more = [{"name": f"echo_{number}", "description": "Repeat it."} for number in range(9)]
    servers = {f"early{n}": [ECHO, *more] for n in range(5)}
    for number, name in enumerate(LATE, start=1):
        servers[name] = behind.entry(name, ECHO, options=("--list-after", str(number / 2)))

    async with behind.client(servers, settled=False, mode=mode, intervals=Intervals()) as client:
        missing = set(servers)
        while missing:
            answer = await found(client, k=50)
            missing = {each["server"] for each in answer.get("missing", ())}
            has, _ = named(answer)
            assert has | missing == set(servers)
            assert answer["tools"] or answer["verdict"] == "abstain"
            assert "No tool here fits" not in answer.get("note", "")


async def test_counts_of_a_server_are_reported_in_one_form(behind: Behind, monkeypatch):
    gateway = behind.make({"post": [ECHO]})
    monkeypatch.setattr(gateway.index.catalog, "of", lambda _: range(1000))
    gateway.index._report_screening("post", Screening(held=(None,) * 1200, locked=1500))
    assert behind.said[-1][1].startswith("post: 1,000 tools, 1,500 locked, 1,200 held back: see")
