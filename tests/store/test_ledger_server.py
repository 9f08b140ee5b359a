"""A ledger on a Qdrant server: the contract in local mode, over real HTTP and on a real server."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from qdrant_client import QdrantClient, models

from tests.store import qdrant_over_http
from tests.store.contract_ledger import NOON, LedgerContract, SharedLedgerContract, entry, ids
from tests.store.qdrant_over_http import CLOSE, LocalQdrant, Reply
from toolcrib.errors import (
    StoreDamagedError,
    StoreError,
    StoreUnavailableError,
    StoreWriteError,
)
from toolcrib.store.ledger import Ledger
from toolcrib.store.ledger_server import ServerLedger
from toolcrib.store.qdrant_client import Wire, connect

SERVER_URL = os.environ.get("TOOLCRIB_TEST_QDRANT_URL", "")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
]


@pytest.fixture
def server() -> Iterator[LocalQdrant]:
    with qdrant_over_http.running() as running:
        yield running


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    with closing(QdrantClient(":memory:")) as client:
        yield client


class TestServerLedgerInLocalMode(LedgerContract):
    """The same requests, answered in this process."""

    @pytest.fixture
    def ledger(self, client: QdrantClient) -> Ledger:
        return ServerLedger.over(client)


class TestServerLedgerOverHttp(SharedLedgerContract):
    """The same requests as bytes on a socket, answered by local mode."""

    @pytest.fixture
    def ledger(self, server: LocalQdrant) -> Iterator[Ledger]:
        with closing(ServerLedger.open(server.url)) as ledger:
            yield ledger


class _OnARealServer(SharedLedgerContract):
    """The same requests, answered by Qdrant."""

    @pytest.fixture
    def ledger(self) -> Iterator[Ledger]:
        name = f"toolcrib-test-{uuid.uuid4().hex[:12]}"
        with closing(ServerLedger.open(SERVER_URL, collection=name)) as ledger:
            yield ledger
        with closing(QdrantClient(url=SERVER_URL)) as client:
            client.delete_collection(name)


# Collected only where there is a server, as the contract of stores is.
if SERVER_URL:
    TestServerLedgerOnARealServer = _OnARealServer


@pytest.fixture
def ledger(server: LocalQdrant) -> Iterator[ServerLedger]:
    with closing(ServerLedger.open(server.url)) as ledger:
        server.requests.clear()
        yield ledger


def refusal(status: int, words: str) -> Reply:
    return Reply(status, json.dumps({"status": {"error": words}, "time": 0.0}))


def test_the_collection_has_no_vectors_one_shard_and_two_indexes(server):
    ServerLedger.open(server.url, collection="acme-ledger", replicas=2).close()
    made = [r for r in server.requests if r.method == "PUT"]
    assert [r.path.removeprefix("/collections/acme-ledger") for r in made] == [
        "",
        "/index",
        "/index",
    ]
    assert made[0].body == {
        "vectors": {},
        "shard_number": 1,
        "replication_factor": 2,
        "metadata": {"toolcrib": "ledger"},
    }
    assert [(r.body["field_name"], r.body["field_schema"]) for r in made[1:]] == [
        ("shelf", "keyword"),
        ("at", "float"),
    ]


def test_a_record_is_a_point_with_its_body_as_text(server, ledger):
    ledger.put("keys", entry(at=NOON + 0.123_456_789, name="é"))
    (request,) = server.requests
    assert request.query["wait"] == ["true"]
    (point,) = request.body["points"]
    assert point["vector"] == {}
    assert point["payload"] == {
        "shelf": "keys",
        "id": "a",
        "at": 1_772_366_400.123_457,
        "time": "1772366400.1234567",
        "body": '{"name":"\\u00e9"}',
    }
    assert uuid.UUID(point["id"])


def test_the_newest_are_one_request_unless_a_page_ends_in_a_crowd(server, ledger):
    ledger.put_all("keys", [entry(f"{n}", NOON + n) for n in range(9)])
    server.requests.clear()
    assert ids(ledger.newest("keys", limit=3)) == ["8", "7", "6"]
    (body,) = server.sent_to("/points/scroll")
    assert body["order_by"] == {"key": "at", "direction": "desc"}
    assert body["filter"] == {"must": [{"key": "shelf", "match": {"value": "keys"}}]}
    assert body["limit"] == 4


def test_many_records_go_in_requests_of_bounded_size(server, ledger):
    ledger.put_all("keys", [entry(f"{n}", NOON + n) for n in range(250)])
    assert [len(body["points"]) for body in server.sent_to("/points")] == [100, 100, 50]
    server.requests.clear()
    ledger.put_all("keys", [entry(f"{n}", text="x" * 1_500_000) for n in range(5)])
    assert [len(body["points"]) for body in server.sent_to("/points")] == [2, 2, 1]


def test_more_shelves_than_are_asked_for_at_first_are_all_listed(ledger, monkeypatch):
    monkeypatch.setattr("toolcrib.store.ledger_server.SHELVES_AT_FIRST", 2)
    for name in "abcdefg":
        ledger.put(name, entry())
    assert ledger.shelves() == list("abcdefg")


def test_opening_again_finds_everything_and_makes_nothing_again(server, ledger):
    ledger.put("keys", entry())
    with closing(ServerLedger.open(server.url)) as again:
        assert again.get("keys", "a") == entry()
    assert not [r for r in server.requests if r.path == "/collections/toolcrib-ledger" and r.body]


def test_two_ledgers_of_a_server_know_nothing_of_each_other(client):
    one, two = (ServerLedger.over(client, collection=name) for name in ("one", "two"))
    one.put("keys", entry())
    assert (two.get("keys", "a"), two.shelves()) == (None, [])


def test_closing_leaves_a_client_open_that_was_given(client):
    ServerLedger.over(client).close()
    assert client.collection_exists("toolcrib-ledger")


def test_a_collection_that_another_process_made_meanwhile_is_used(server):
    ServerLedger.open(server.url).close()
    version = Reply(200, json.dumps({"title": "qdrant", "version": "1.19.1"}))
    absent = Reply(200, json.dumps({"result": {"exists": False}, "status": "ok", "time": 0}))
    server.misbehave.extend([version, absent])
    with closing(ServerLedger.open(server.url)) as ledger:
        assert ledger.shelves() == []


def test_a_collection_that_cannot_be_made_is_told_in_the_servers_words(server):
    version = Reply(200, json.dumps({"title": "qdrant", "version": "1.19.1"}))
    absent = Reply(200, json.dumps({"result": {"exists": False}, "status": "ok", "time": 0}))
    server.misbehave.extend([version, absent, refusal(400, "too many collections")])
    with pytest.raises(StoreError, match=r"making the collection .* too many collections"):
        ServerLedger.open(server.url)
    server.misbehave.extend([version, absent, *[refusal(503, "starting")] * 3])
    with pytest.raises(StoreUnavailableError, match="too busy for making the collection"):
        ServerLedger.open(server.url)


def test_somebody_elses_collection_is_refused(client):
    client.create_collection("toolcrib-ledger", vectors_config={})
    with pytest.raises(StoreError, match=r"'toolcrib-ledger' at .* is no ledger of toolcrib"):
        ServerLedger.over(client)


def test_a_point_that_is_no_record_is_an_error_that_names_it(client):
    ledger = ServerLedger.over(client)
    payload = {"shelf": "keys", "at": NOON, "id": "a", "body": "{}"}
    client.upsert("toolcrib-ledger", [models.PointStruct(id=7, vector={}, payload=payload)])
    with pytest.raises(StoreDamagedError, match=r"the point 7 in the collection .* is no record"):
        ledger.newest("keys")


def test_what_may_pass_is_tried_again(server):
    wire = Wire(connect(server.url, None, 1), server.url, pause=lambda _: None)
    ServerLedger.open(server.url).close()
    with closing(ServerLedger(wire, "toolcrib-ledger", owns_client=True)) as ledger:
        server.misbehave.extend([CLOSE, refusal(503, "starting")])
        ledger.put("keys", entry())
        assert ledger.get("keys", "a") == entry()


def test_a_write_that_was_only_queued_is_no_success(server, ledger):
    queued = {"result": {"operation_id": 7, "status": "wait_timeout"}, "status": "ok", "time": 1}
    server.misbehave.append(Reply(200, json.dumps(queued)))
    with pytest.raises(StoreUnavailableError, match="repeat it when the server is less busy"):
        ledger.put("keys", entry())


def test_a_full_disk_is_a_write_error(server, ledger):
    server.misbehave.append(refusal(500, "Service internal error: No space left on device"))
    with pytest.raises(StoreWriteError, match="no space left for writing 1 records of 'keys'"):
        ledger.put("keys", entry())


def test_a_server_that_is_gone_is_an_error_of_every_method():
    with qdrant_over_http.running() as server:
        ServerLedger.open(server.url).close()
        wire = Wire(connect(server.url, None, 1), server.url, pause=lambda _: None)
    with closing(ServerLedger(wire, "toolcrib-ledger", owns_client=True)) as ledger:
        for call in (
            lambda: ledger.put("keys", entry()),
            lambda: ledger.get("keys", "a"),
            lambda: ledger.delete("keys", "a"),
            lambda: ledger.newest("keys"),
            lambda: list(ledger.read("keys")),
            lambda: ledger.prune("keys", before=NOON),
            ledger.shelves,
        ):
            with pytest.raises(StoreUnavailableError, match="docker compose up -d"):
                call()


def test_opening_with_no_server_is_an_error_without_the_password():
    with pytest.raises(StoreUnavailableError, match=r"the Qdrant server at http://127\.0\.0\.1:9 "):
        ServerLedger.open("http://someone:s3cret@127.0.0.1:9")
