"""Restart: facts of the last run, and their storage."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.gateway.conftest import ECHO, FAX, QUICK, SEARCH_TOOLS, found, names, ready, said, texts
from toolcrib import Crib
from toolcrib.errors import StoreUnavailableError
from toolcrib.records import Collection, ToolSpec
from toolcrib.store.records_db import DbRow

GONE = {"command": "no-such-command"}


async def test_tools_are_known_before_their_server_is_reached_again(behind):
    async with behind.client({"post": [ECHO]}):
        pass

    async with behind.client({"post": GONE}) as client:
        answer = await found(client)
        called = await said(client, "post__echo")

    assert [tool["name"] for tool in answer["tools"]] == ["post__echo"]
    assert answer["tools"][0]["unavailable"].startswith("[cannot be called now")
    assert answer["missing"][0]["server"] == "post"
    assert called.startswith("The server 'post' could not be started")


async def test_what_was_switched_off_meanwhile_is_not_offered_from_the_last_time(behind):
    async with behind.client({"post": [ECHO, FAX]}):
        pass

    async with behind.client({"post": {**GONE, "excludeTools": ["send_fax"]}}) as client:
        answer = await found(client)
        called = await said(client, "call_tool", name="post_send_fax", arguments={})

    assert [tool["name"] for tool in answer["tools"]] == ["post__echo"]
    assert called.startswith("There is no tool 'post_send_fax'")


async def test_what_is_known_is_not_encoded_again(behind):
    servers = {"post": [ECHO, FAX]}
    async with behind.client(servers):
        pass
    written: list[str] = []
    progress = partial(nullcontext, lambda told: written.extend(told.ids))
    async with behind.client(servers, progress=progress) as client:
        assert len((await found(client))["tools"]) == 2

    assert written == []


async def test_known_servers_start_after_the_searches_that_are_under_way(behind):
    servers = {"post": [ECHO]}
    async with behind.client(servers):
        pass
    gateway = behind.make(servers, intervals=replace(QUICK, first_search_s=0.0))
    gateway._search.is_idle.clear()

    async with behind.client(gateway, settled=False) as client:
        gateway._search._under_way = 1
        await gateway.index.is_open.wait()
        answer = await found(client)
        assert gateway._runs == {}
        gateway._search._under_way = 0
        await found(client)
        await ready(gateway)

    assert [tool["name"] for tool in answer["tools"]] == ["post__echo"]
    assert [each["state"] for each in answer["missing"]] == ["is still being connected to"]


async def test_a_server_that_is_configured_no_more_leaves_nothing_behind_and_others_tools_stay(
    behind,
):
    with behind.crib() as crib:
        crib.index_tools([ToolSpec(name="own", server="mine", description="Repeat what is said.")])
    servers = {"post": [ECHO], "fax": [FAX]}
    async with behind.client(servers):
        pass
    async with behind.client({"post": servers["post"]}) as client:
        assert [tool["name"] for tool in (await found(client))["tools"]] == ["post__echo"]

    with behind.crib() as crib:
        assert sorted(tool.id for tool in crib.list_tools()) == ["mine/own", "post/echo"]


@pytest.fixture
def held(behind):
    """The folder of the index, held by another process."""
    hold = (
        "import sys; from toolcrib import Crib; crib = Crib.open(sys.argv[1]);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(behind.store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TOOLCRIB_ENCODER__DENSE": "deterministic"},
    ) as other:
        assert other.stdout.readline() == "held\n"
        yield
        other.stdin.close()


async def test_a_folder_that_another_process_holds_is_left_to_it(behind, held):
    async with behind.client({"post": [ECHO]}) as client:
        assert [tool["name"] for tool in (await found(client))["tools"]] == ["post__echo"]

    warned = [text for level, text in behind.said if level == "warning"]
    assert len(warned) == 1
    assert warned[0].startswith("the index is in memory, for this run only: ")


async def test_what_a_server_listed_last_and_cannot_be_read_is_told_of(behind):
    gateway = behind.make({"post": GONE})
    listing = DbRow("post", 1.0, {"tools": [{"name": 7}]})
    gateway.index._storage.records_db.put("listings/default", listing)
    async with behind.client(gateway) as client:
        assert (await found(client))["tools"] == []

    assert any("the last listings of servers cannot be read" in text for _, text in behind.said)


async def test_documents_are_found_where_there_are_any(behind, monkeypatch):
    with behind.crib() as crib:
        crib.add_collections(Collection(name="handbook", description="How we work."))
        page = behind.folder / "leave.md"
        page.write_text("# Leave\n\nEverybody has thirty days of leave a year.\n")
        crib.index_docs(page, collection="handbook")

    async with behind.client({"post": [ECHO]}) as client:
        knowledge = (await client.list_tools())[-1]
        answer = await client.call_tool("find_knowledge", {"query": "how many days of leave"})
        empty = await said(client, "find_knowledge", query=" ")
        monkeypatch.setattr(Crib, "find_knowledge", refuse)
        failed = await said(client, "find_knowledge", query="x")

    assert knowledge.name == "find_knowledge"
    assert knowledge.description.endswith("Here are: handbook (How we work.).")
    passage = answer.structured_content["passages"][0]
    assert "thirty days" in passage["text"]
    assert passage["citation"].startswith("Leave (")
    assert json.loads(texts(answer)[0]) == answer.structured_content
    assert "say in a few words" in empty
    assert failed == "The search does not work at the moment: it is away."


def refuse(*_given, **_more):
    raise StoreUnavailableError("it is away")


async def test_passages_come_of_the_collections_asked_and_within_a_number_and_a_budget(behind):
    with behind.crib() as crib:
        for name in ("handbook", "rules"):
            crib.add_collections(Collection(name=name))
            page = behind.folder / f"{name}.md"
            kinds = ("sick", "parental", "unpaid")
            parts = [f"# {kind}\n\n{f'{kind} leave takes days. ' * 40}\n" for kind in kinds]
            page.write_text("".join(parts))
            crib.index_docs(page, collection=name)

    async with behind.client({"post": [ECHO]}) as client:

        async def places(**how: Any) -> list[str]:
            given = {"query": "days of leave", **how}
            answer = await client.call_tool("find_knowledge", given)
            return [each["collection"] for each in answer.structured_content["passages"]]

        assert await places(k="2", collections="rules") == ["rules", "rules"]
        assert await places(token_budget=1, collections=["handbook"]) == ["handbook"]
        assert len(await places()) > 1
        for wrong in ({"k": 0}, {"collections": ["secret"]}):
            refused = await said(client, "find_knowledge", query="leave", **wrong)
            assert next(iter(wrong)) in refused or "no collection 'secret'" in refused


async def test_without_documents_there_is_no_search_for_them(behind):
    gateway = behind.make({"post": [ECHO]})
    async with behind.client(gateway) as client:
        await ready(gateway)
        assert await names(client) == SEARCH_TOOLS
        called = await said(client, "find_knowledge", query="x")

    assert called.startswith("There is no tool 'find_knowledge'")
