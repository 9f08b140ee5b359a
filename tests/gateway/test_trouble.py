"""When the index fails, tools can still be called; nothing breaks, and all is told."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tests.gateway.conftest import DIE, ECHO, said, until
from toolcrib import Crib
from toolcrib.errors import StoreUnavailableError
from toolcrib.tool_index import ToolIndex


def refuse(*_given, **_more):
    raise StoreUnavailableError("the store does not answer")


async def test_tools_that_cannot_be_indexed_can_be_called(behind, monkeypatch):
    for method in ("index_tools", "report_outcome"):
        monkeypatch.setattr(Crib, method, refuse)
    monkeypatch.setattr(ToolIndex, "find", refuse)
    async with behind.client({"post": [ECHO]}) as client:
        assert await said(client, "post__echo", word="hi") == '{"word": "hi"}'
        answer = await said(client, "find_tools", query="echo")

    assert answer == "The search does not work at the moment: the store does not answer."

    told = "post: its tools can be called, but not all are searchable: the store does not answer"
    assert ("error", told) in behind.said


@pytest.mark.parametrize("fault", [StoreUnavailableError("no"), KeyError("a fault of ours")])
async def test_a_failed_call_is_told_also_where_no_others_can_be_looked_for(
    behind, monkeypatch, fault
):
    async with behind.client({"post": [DIE]}) as client:
        monkeypatch.setattr(ToolIndex, "find", Mock(side_effect=fault))
        answer = await said(client, "post__die")

    assert answer.endswith("died during the call of post__die, which may have taken effect.")


async def test_without_any_index_tools_can_be_called_and_a_failed_one_tried_again(
    behind, monkeypatch
):
    servers = {"post": [DIE, ECHO]}
    monkeypatch.setattr("toolcrib.tenants.Tenants.open", refuse)
    gateway = behind.make(servers)
    async with behind.client(gateway, settled=False) as client:
        await until(gateway.pool["post"].settled.is_set)
        await until(lambda: any("a part of the gateway failed" in text for _, text in behind.said))
        assert await said(client, "post__echo", word="hi") == '{"word": "hi"}'
        answer = await said(client, "post__die")

    assert answer.endswith("which may have taken effect. Try again later.")


async def test_approvals_that_cannot_be_read_are_looked_for_again(behind, monkeypatch):
    gateway = behind.make({"post": [ECHO]})
    async with behind.client(gateway) as client:
        calls = []

        def state():
            calls.append(1)
            return refuse() if len(calls) < 3 else (len(calls),)

        monkeypatch.setattr(gateway.index._storage.approval, "state", state)
        await until(lambda: len(calls) > 4)

        assert await said(client, "post__echo", word="hi") == '{"word": "hi"}'


async def test_a_gateway_that_is_closed_while_it_opens_leaves_the_folder_free(behind):
    for _ in range(3):
        gateway = behind.make({"post": [ECHO]})
        async with gateway.running():
            pass

    assert not any("kept in memory" in text for _, text in behind.said)
