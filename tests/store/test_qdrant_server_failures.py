"""What becomes of every way in which a Qdrant server can fail."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import ResponseHandlingException

from tests.store.conftest import Wired
from tests.store.qdrant_over_http import CLOSE, HANG, PEERS, Reply, running
from tests.store.samples import LAYOUT, a_full_point, dense_leg, point, sparse, unit
from toolcrib.errors import (
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


@dataclass(frozen=True)
class Case:
    """What the server does, what is raised with which text, and how often it was asked."""

    replies: list[Reply]
    error: type[StoreError]
    text: str
    tries: int = 1


AWAY = "Service internal error: 2 of 2 read operations failed: tcp connect error"

FAILURES = {
    "500 in Qdrant's form": Case(
        [_error(500, "Service internal error: shard is broken")],
        StoreError,
        "the Qdrant server at {url} refused counting in 'toolcrib' "
        "(500: Service internal error: shard is broken)",
    ),
    "500 without a word": Case(
        [Reply(500)],
        StoreError,
        "the Qdrant server at {url} refused counting in 'toolcrib' (500: Internal Server Error)",
    ),
    "a disk that is full": Case(
        [_error(500, "Service internal error: No space left on device")],
        StoreWriteError,
        "the Qdrant server at {url} has no space left for counting in 'toolcrib' "
        "(Service internal error: No space left on device): free some",
    ),
    "401": Case(
        [Reply(401, "Must provide an API key or an Authorization bearer token")],
        StoreError,
        "the Qdrant server at {url} refused the API key (401: Must provide an API key or an "
        "Authorization bearer token) when counting in 'toolcrib': "
        "set TOOLCRIB_SERVER__API_KEY to a key that may do this",
    ),
    "a key that may only read": Case(
        [_error(403, "Forbidden: Write access to collection toolcrib is required")],
        StoreReadOnlyError,
        "the Qdrant server at {url} lets this key only read (Forbidden: Write access to collection "
        "toolcrib is required) when counting in 'toolcrib': "
        "set TOOLCRIB_SERVER__API_KEY to a key that may write",
    ),
    "a token that is too old": Case(
        [Reply(403, "ExpiredSignature")],
        StoreError,
        "the Qdrant server at {url} refused the API key (403: ExpiredSignature) when counting in "
        "'toolcrib': set TOOLCRIB_SERVER__API_KEY to a key that may do this",
    ),
    "both nodes of a shard are away": Case(
        [_error(500, AWAY)] * 3,
        StoreUnavailableError,
        f"the Qdrant server at {{url}} lacks a node or a shard for counting in 'toolcrib' "
        f"(500: {AWAY}): look at its nodes",
        tries=3,
    ),
    "a node that has not all its shards": Case(
        [_error(500, "Service internal error: Local shard 1 not found")] * 3,
        StoreUnavailableError,
        "the Qdrant server at {url} lacks a node or a shard for counting in 'toolcrib' "
        "(500: Service internal error: Local shard 1 not found): look at its nodes",
        tries=3,
    ),
    "a node that had stopped": Case(
        [Reply(408)] * 3,
        StoreUnavailableError,
        "the Qdrant server at {url} is too busy for counting in 'toolcrib' (408: Request Timeout)",
        tries=3,
    ),
    "no answer in time": Case(
        [HANG],
        StoreUnavailableError,
        "the Qdrant server at {url} did not answer in time when counting in 'toolcrib': "
        "start it with `docker compose up -d`, or raise server.timeout_s",
    ),
    "a connection closed every time": Case(
        [CLOSE] * 3,
        StoreUnavailableError,
        "the Qdrant server at {url} cannot be reached (Server disconnected without sending a "
        "response.) when counting in 'toolcrib': "
        "start it with `docker compose up -d`, or correct the URL",
        tries=3,
    ),
    "503 every time": Case(
        [_error(503, "starting")] * 3,
        StoreUnavailableError,
        "the Qdrant server at {url} is too busy for counting in 'toolcrib' (503: starting)",
        tries=3,
    ),
    "429 every time": Case(
        [_error(429, "Rate limit exceeded", **{"Retry-After": "2"})] * 3,
        StoreUnavailableError,
        "the Qdrant server at {url} is too busy for counting in 'toolcrib': "
        "Rate limit exceeded; try later",
        tries=3,
    ),
    "something that is not Qdrant": Case(
        [Reply(200, "<html>a login page</html>")],
        StoreError,
        "the Qdrant server at {url} did not answer as Qdrant does when counting in 'toolcrib' "
        "(Expecting value: line 1 column 1 (char 0)): "
        "check that the URL is that of a Qdrant server",
    ),
    "JSON that is not Qdrant's": Case(
        [Reply(200, '{"result": {"count": "many"}}')],
        StoreError,
        "the Qdrant server at {url} did not answer as Qdrant does when counting in 'toolcrib' "
        "(result.count: Input should be a valid integer, unable to parse string as an integer): "
        "check that the URL is that of a Qdrant server",
    ),
}


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES.keys())
def test_every_failure_is_told_in_full(wired: Wired, case: Case) -> None:
    wired.server.misbehave.extend(case.replies)
    with pytest.raises(case.error) as raised:
        wired.store.count()
    assert str(raised.value) == case.text.format(url=wired.server.url)
    assert type(raised.value) is case.error
    assert len(wired.server.requests) == case.tries
    assert wired.store.count() == 1


@pytest.mark.parametrize(
    "reply", [CLOSE, _error(503, "starting"), _error(502, ""), _error(500, AWAY), Reply(408)]
)
def test_what_may_pass_is_tried_again(wired: Wired, reply: Reply) -> None:
    wired.server.misbehave.extend([reply, reply])
    assert wired.store.count() == 1


def test_a_server_that_says_when_to_come_back_is_heard(wired: Wired, pauses: list[float]) -> None:
    wired.server.misbehave.append(_error(429, "slow down", **{"Retry-After": "1"}))
    assert wired.store.count() == 1
    assert pauses == [1.0]


def test_trying_again_prints_nothing(wired: Wired, capfd: pytest.CaptureFixture[str]) -> None:
    wired.server.misbehave.extend([CLOSE, _error(503, "starting")])
    assert wired.store.count() == 1
    assert capfd.readouterr() == ("", "")


def test_a_write_that_is_repeated_is_there_once(wired: Wired) -> None:
    wired.server.misbehave.append(CLOSE)
    wired.store.upsert([point("twice")])
    assert len(wired.server.sent_to("/points")) == 2
    assert wired.store.count() == 2


def test_a_write_that_was_only_queued_is_no_success(wired: Wired) -> None:
    queued = {"result": {"operation_id": 7, "status": "wait_timeout"}, "status": "ok", "time": 1}
    wired.server.misbehave.append(Reply(200, json.dumps(queued)))
    with pytest.raises(StoreUnavailableError) as raised:
        wired.store.upsert([point("late")])
    assert str(raised.value) == (
        f"the Qdrant server at {wired.server.url} accepted a write and did not finish it in time "
        "(wait_timeout); repeat the write when the server is less busy"
    )


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
def test_every_method_says_that_the_server_is_gone(call: Callable[[ServerStore], Any]) -> None:
    store = ServerStore(connect("http://127.0.0.1:1", None, 1), "toolcrib", LAYOUT)
    with closing(store), pytest.raises(StoreUnavailableError, match="docker compose up -d"):
        call(store)


def test_opening_with_no_server_says_how_to_start_one() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://someone:s3cret@127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(StoreUnavailableError) as raised:
        ServerStore.open(url, LAYOUT)
    assert str(raised.value) == (
        f"the Qdrant server at {url.replace('someone:s3cret@', '')} cannot be reached "
        "([Errno 111] Connection refused) when asking for its version: "
        "start it with `docker compose up -d`, or correct the URL"
    )


@pytest.mark.parametrize("version", ["1.18.3", "0.11.0", "unknown"])
def test_a_server_that_would_ignore_the_idf_corpus_is_refused(version: str) -> None:
    with running() as server:
        server.misbehave.append(Reply(200, json.dumps({"title": "qdrant", "version": version})))
        with pytest.raises(StoreError) as raised:
            ServerStore.open(server.url, LAYOUT)
        assert len(server.requests) == 1
    assert str(raised.value) == (
        f"the Qdrant server at {server.url} has version {version}; "
        "toolcrib needs 1.19 or newer: update it (docker-compose.yml pins one)"
    )


def test_a_collection_that_another_process_made_meanwhile_is_used() -> None:
    with running() as server:
        ServerStore.open(server.url, LAYOUT).close()
        absent = Reply(200, json.dumps({"result": {"exists": False}, "status": "ok", "time": 0}))
        version = Reply(200, json.dumps({"title": "qdrant", "version": "1.19.1"}))
        server.misbehave.extend([version, absent])
        with closing(ServerStore.open(server.url, LAYOUT)) as store:
            assert store.count() == 0


def test_a_collection_that_cannot_be_made_is_told_in_the_servers_words() -> None:
    layout = replace(LAYOUT, dense={"description": 100_000})
    words = r"refused making the collection .*must be from 1 to"
    with running() as server, pytest.raises(StoreError, match=words):
        ServerStore.open(server.url, layout)


def test_a_collection_that_is_being_made_when_the_server_goes_is_not_looked_for(
    wired: Wired,
) -> None:
    wired.server.misbehave.extend([_error(503, "starting")] * 3)
    with pytest.raises(StoreUnavailableError, match="'other'"):
        wired.connection.make("other", "{}", vectors_config={})
    assert len(wired.server.requests) == 3


class TestFounding:
    """The first start on a server or cluster."""

    def test_a_name_stands_for_a_collection_only_when_every_node_has_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waited: list[float] = []
        monkeypatch.setattr("toolcrib.store.qdrant_client.sleep", waited.append)
        with running() as server:
            PEERS[server.client] = 3
            connection = connect(server.url, None, 1)
            connection.make("toolcrib.g0001", "{}", vectors_config={})
            server.unready = 4
            connection.wait_for_nodes("toolcrib.g0001")
            looks = [r for r in server.requests if r.path == "/collections/toolcrib.g0001"]
            assert len(waited) == 4
            assert [r.method for r in looks[-6:]] == ["GET"] * 6
            connection.close()

    def test_a_node_that_never_has_it_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("toolcrib.store.qdrant_client.sleep", lambda _: None)
        with running() as server, closing(connect(server.url, None, 1)) as connection:
            connection.make("toolcrib.g0001", "{}", vectors_config={})
            server.unready = 1_000
            with pytest.raises(StoreUnavailableError, match=r"some nodes .*'toolcrib\.g0001'"):
                connection.wait_for_nodes("toolcrib.g0001")

    def test_shards_of_tenants_need_a_cluster_and_nothing_is_left_behind(self) -> None:
        with running() as server:
            PEERS[server.client] = 0
            with pytest.raises(StoreError, match="cluster mode"):
                ServerStore.open(server.url, LAYOUT, plan=CollectionPlan(tenant_shards=("acme",)))
            assert server.client.get_collections().collections == []
            with closing(ServerStore.open(server.url, LAYOUT)) as store:
                store.upsert([point("mine")])
                assert store.count() == 1

    def test_what_a_broken_off_founding_left_gives_way_to_another_plan(self) -> None:
        shards = CollectionPlan(tenant_shards=("acme",))
        with running() as server:
            ServerStore.open(server.url, LAYOUT, plan=shards).close()
            server.client.update_collection_aliases(
                [
                    models.DeleteAliasOperation(
                        delete_alias=models.DeleteAlias(alias_name="toolcrib")
                    )
                ]
            )
            with closing(ServerStore.open(server.url, LAYOUT)) as store:
                store.upsert([point("mine")])
                assert store.plan().tenant_shards is None


def test_an_authority_that_is_not_trusted_is_named(wired: Wired) -> None:
    failure = ResponseHandlingException(
        httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    )

    def call() -> None:
        raise failure

    with pytest.raises(StoreUnavailableError, match="SSL_CERT_FILE"):
        wired.connection.ask("counting", call)


def test_a_key_without_encryption_is_told_once_and_not_for_this_machine(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    for url in ("http://localhost:1", "http://qdrant.example:6333", "http://qdrant.example:6333"):
        connect(url, "secret", 1).close()
    assert [record.args for record in caplog.records] == [("http://qdrant.example:6333",)]
    assert len(recwarn) == 0
