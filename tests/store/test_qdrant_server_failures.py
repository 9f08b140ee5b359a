"""What becomes of every way in which a Qdrant server can fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import httpx
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException

from tests.store.qdrant_over_http import CLOSE, HANG, PEERS, Reply
from tests.store.samples import LAYOUT, a_full_point, dense_leg, point, sparse, unit
from toolcrib.errors import (
    SettingsError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreWriteError,
)
from toolcrib.store.base import point_id
from toolcrib.store.qdrant_client import connect
from toolcrib.store.qdrant_server import CollectionPlan, ServerStore

pytestmark = pytest.mark.usefixtures("pauses")


def _error(status: int, words: str, **headers: str) -> Reply:
    return Reply(status, json.dumps({"status": {"error": words}, "time": 0.0}), headers)


AWAY = "Service internal error: 2 of 2 read operations failed: tcp connect error"

FAILURES = {
    "500 in Qdrant's form": (_error(500, "shard is broken"), StoreError, "(500: shard is broken)"),
    "500 without a word": (Reply(500), StoreError, "(500: Internal Server Error)"),
    "a disk that is full": (
        _error(500, "Service internal error: No space left on device"),
        StoreWriteError,
        "has no space left",
    ),
    "401": (Reply(401, "No API key"), StoreError, "refused the API key (401: No API key)"),
    "a key that may only read": (
        _error(403, "Forbidden: Write access to collection toolcrib is required"),
        StoreReadOnlyError,
        "set TOOLCRIB_SERVER__API_KEY to a key that may write",
    ),
    "a token that is too old": (
        Reply(403, "ExpiredSignature"),
        StoreError,
        "set TOOLCRIB_SERVER__API_KEY to a key that may do this",
    ),
    "no answer in time": (HANG, StoreUnavailableError, "raise server.timeout_s"),
    "something that is not Qdrant": (
        Reply(200, "<html>a login page</html>"),
        StoreError,
        "line 1 column 1 (char 0)): check that the URL is that of a Qdrant server",
    ),
    "JSON that is not Qdrant's": (
        Reply(200, '{"result": {"count": "many"}}'),
        StoreError,
        "(result.count: Input should be a valid integer",
    ),
}
"""An answer, the error that it becomes at once, and words of that."""

LASTING = {
    "both nodes of a shard are away": (_error(500, AWAY), f"(500: {AWAY}): look at its nodes"),
    "a node that has not all its shards": (
        _error(500, "Service internal error: Local shard 1 not found"),
        "lacks a node or a shard",
    ),
    "a node that had stopped": (Reply(408), "is too busy for counting in 'toolcrib' (408:"),
    "a connection closed every time": (CLOSE, "cannot be reached (Server disconnected"),
    "503 every time": (_error(503, "starting"), "is too busy"),
    "429 every time": (
        _error(429, "Rate limit exceeded", **{"Retry-After": "2"}),
        "is too busy for counting in 'toolcrib': Rate limit exceeded; try later",
    ),
}
"""An answer that is waited out twice, and words of the error once it comes a third time."""


def _require_failure(wired, replies, kind, words):
    wired.server.misbehave.extend(replies)
    with pytest.raises(kind) as raised:
        wired.store.count()
    assert type(raised.value) is kind
    assert str(raised.value).startswith(f"the Qdrant server at {wired.server.url} ")
    assert "counting in 'toolcrib'" in str(raised.value)
    assert words in str(raised.value)
    assert len(wired.server.requests) == len(replies)
    assert wired.store.count() == 1


@pytest.mark.parametrize(("reply", "kind", "words"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_told_with_what_to_do(wired, reply, kind, words):
    _require_failure(wired, [reply], kind, words)


@pytest.mark.parametrize(("reply", "words"), LASTING.values(), ids=LASTING)
def test_a_failure_that_lasts_is_told_after_three_tries(wired, reply, words):
    _require_failure(wired, [reply] * 3, StoreUnavailableError, words)


@pytest.mark.parametrize(
    "reply", [CLOSE, _error(503, "starting"), _error(502, ""), _error(500, AWAY), Reply(408)]
)
def test_what_may_pass_is_tried_again(wired, reply):
    wired.server.misbehave.extend([reply, reply])
    assert wired.store.count() == 1


def test_a_server_that_says_when_to_come_back_is_heard(wired, pauses):
    wired.server.misbehave.append(_error(429, "slow down", **{"Retry-After": "1"}))
    assert wired.store.count() == 1
    assert pauses == [1.0]


def test_trying_again_prints_nothing(wired, capfd):
    wired.server.misbehave.extend([CLOSE, _error(503, "starting")])
    assert wired.store.count() == 1
    assert capfd.readouterr() == ("", "")


def test_a_write_that_is_repeated_is_there_once(wired):
    wired.server.misbehave.append(CLOSE)
    wired.store.upsert([point("twice")])
    assert len(wired.server.sent_to("/points")) == 2
    assert wired.store.count() == 2


def test_a_write_that_was_only_queued_is_no_success(wired):
    queued = {"result": {"operation_id": 7, "status": "wait_timeout"}, "status": "ok", "time": 1}
    wired.server.misbehave.append(Reply(200, json.dumps(queued)))
    with pytest.raises(StoreUnavailableError, match=r"wait_timeout.*repeat the write"):
        wired.store.upsert([point("late")])


CALLS: dict[str, Callable[[ServerStore], Any]] = {
    "upsert": lambda store: store.upsert([a_full_point()]),
    "set_sparse": lambda store: store.set_sparse("lexical", {point_id("full"): sparse({1: 1.0})}),
    "delete": lambda store: store.delete([point_id("full")]),
    "search": lambda store: store.search([dense_leg(unit(1))]),
    "retrieve": lambda store: store.retrieve([point_id("full")]),
    "scroll": lambda store: list(store.scroll()),
    "count": lambda store: store.count(),
    "read_meta": lambda store: store.read_meta(),
    "write_meta": lambda store: store.write_meta({"model": "a"}),
    "info": lambda store: store.info(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_every_method_says_that_the_server_is_gone(call):
    store = ServerStore(connect("http://127.0.0.1:1", None, 1), "toolcrib", LAYOUT)
    with closing(store), pytest.raises(StoreUnavailableError, match="docker compose up -d"):
        call(store)


def test_opening_with_no_server_says_how_to_start_one():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://someone:s3cret@127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(StoreUnavailableError) as raised:
        ServerStore.open(url, LAYOUT)
    said = str(raised.value)
    assert said.startswith(f"the Qdrant server at {url.replace('someone:s3cret@', '')} cannot be")
    assert "Connection refused" in said
    assert "docker compose up -d" in said


@pytest.mark.parametrize("version", ["1.18.3", "0.11.0", "unknown"])
def test_a_server_that_would_ignore_the_idf_corpus_is_refused(version, server):
    server.misbehave.append(Reply(200, json.dumps({"title": "qdrant", "version": version})))
    with pytest.raises(StoreError, match=f"has version {version}; toolcrib needs 1.19"):
        ServerStore.open(server.url, LAYOUT)
    assert len(server.requests) == 1


def test_a_collection_that_another_process_made_meanwhile_is_used(server):
    ServerStore.open(server.url, LAYOUT).close()
    absent = Reply(200, json.dumps({"result": {"exists": False}, "status": "ok", "time": 0}))
    version = Reply(200, json.dumps({"title": "qdrant", "version": "1.19.1"}))
    server.misbehave.extend([version, absent])
    with closing(ServerStore.open(server.url, LAYOUT)) as store:
        assert store.count() == 0


def test_a_collection_that_cannot_be_made_is_told_in_the_servers_words(server):
    layout = replace(LAYOUT, dense={"description": 100_000})
    words = r"refused making the collection .*must be from 1 to"
    with pytest.raises(StoreError, match=words):
        ServerStore.open(server.url, layout)


def test_a_collection_that_is_being_made_when_the_server_goes_is_not_looked_for(wired):
    wired.server.misbehave.extend([_error(503, "starting")] * 3)
    with pytest.raises(StoreUnavailableError, match="'other'"):
        wired.connection.make("other", "{}", vectors_config={})
    assert len(wired.server.requests) == 3


class TestFounding:
    def test_a_name_stands_for_a_collection_only_when_every_node_has_it(self, monkeypatch, server):
        waited: list[float] = []
        monkeypatch.setattr("toolcrib.store.qdrant_client.sleep", waited.append)
        PEERS[server.client] = 3
        connection = connect(server.url, None, 1)
        connection.make("toolcrib.g0001", "{}", vectors_config={})
        server.unready = 4
        connection.wait_for_nodes("toolcrib.g0001")
        looks = [r for r in server.requests if r.path == "/collections/toolcrib.g0001"]
        assert len(waited) == 4
        assert [r.method for r in looks[-6:]] == ["GET"] * 6
        connection.close()

    def test_a_node_that_never_has_it_is_told(self, monkeypatch, server):
        monkeypatch.setattr("toolcrib.store.qdrant_client.sleep", lambda _: None)
        with closing(connect(server.url, None, 1)) as connection:
            connection.make("toolcrib.g0001", "{}", vectors_config={})
            server.unready = 1_000
            with pytest.raises(StoreUnavailableError, match=r"some nodes .*'toolcrib\.g0001'"):
                connection.wait_for_nodes("toolcrib.g0001")

    def test_shards_of_tenants_need_a_cluster_and_nothing_is_left_behind(self, server):
        PEERS[server.client] = 0
        with pytest.raises(StoreError, match="cluster mode"):
            ServerStore.open(server.url, LAYOUT, plan=CollectionPlan(tenant_shards=("acme",)))
        assert server.client.get_collections().collections == []
        with closing(ServerStore.open(server.url, LAYOUT)) as store:
            store.upsert([point("mine")])
            assert store.count() == 1

    def test_what_a_broken_off_founding_left_gives_way_to_another_plan(self, server):
        shards = CollectionPlan(tenant_shards=("acme",))
        ServerStore.open(server.url, LAYOUT, plan=shards).close()
        alias = models.DeleteAlias(alias_name="toolcrib")
        removal = models.DeleteAliasOperation(delete_alias=alias)
        server.client.update_collection_aliases([removal])
        with closing(ServerStore.open(server.url, LAYOUT)) as store:
            store.upsert([point("mine")])
            assert store.plan().tenant_shards is None


def test_an_authority_that_is_not_trusted_is_named(wired):
    def call() -> None:
        error = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
        raise ResponseHandlingException(error)

    with pytest.raises(StoreUnavailableError, match="SSL_CERT_FILE"):
        wired.connection.ask("counting", call)


def test_an_environment_that_no_client_takes_is_named(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "nowhere.pem")
    with pytest.raises(SettingsError, match=r"http://localhost:1 .*SSL_CERT_FILE"):
        connect("http://localhost:1", None, 1)


@pytest.mark.parametrize("url", ["http://ana:geheim@localhost:99999", "http://[::1", "ftp://a"])
def test_what_is_no_url_of_a_server_is_refused_without_its_password(url):
    with pytest.raises(StoreError, match="not the URL of a Qdrant server") as caught:
        connect(url, None, 1)
    assert "geheim" not in str(caught.value)


def test_a_key_without_encryption_is_told_once_and_not_for_this_machine(caplog, recwarn):
    for url in ("http://localhost:1", "http://qdrant.example:6333", "http://qdrant.example:6333"):
        connect(url, "secret", 1).close()
    assert [record.args for record in caplog.records] == [("http://qdrant.example:6333",)]
    assert len(recwarn) == 0
