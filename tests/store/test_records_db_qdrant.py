"""A records database on a Qdrant server: the contract over real HTTP and on a real server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from qdrant_client import QdrantClient, models

from tests.store.contract_records_db import NOON, SharedRecordsDbContract, ids, row
from tests.store.qdrant_over_http import LocalQdrant
from toolcrib.errors import StoreDamagedError, StoreError, StoreUnavailableError
from toolcrib.store.qdrant_client import QdrantConnection, connect
from toolcrib.store.records_db import RecordsDb
from toolcrib.store.records_db.qdrant import QdrantRecordsDb

SERVER_URL = os.environ.get("QDRANT_TEST_URL", "")

pytestmark = pytest.mark.usefixtures("pauses")


class TestQdrantRecordsDbOverHttp(SharedRecordsDbContract):
    """The same requests as bytes on a socket, answered by local mode."""

    @pytest.fixture
    def db(self, server: LocalQdrant) -> Iterator[RecordsDb]:
        with closing(QdrantRecordsDb.open(server.url)) as db:
            yield db


class _OnARealServer(SharedRecordsDbContract):
    """The same requests, answered by Qdrant."""

    @pytest.fixture
    def db(self) -> Iterator[RecordsDb]:
        name = f"toolcrib-test-{uuid.uuid4().hex[:12]}"
        with closing(QdrantRecordsDb.open(SERVER_URL, collection=name)) as db:
            yield db
        with closing(QdrantClient(url=SERVER_URL)) as client:
            client.delete_collection(name)


# Collected only where there is a server, as the contract of stores is.
if SERVER_URL:
    TestQdrantRecordsDbOnARealServer = _OnARealServer


@pytest.fixture
def db(server: LocalQdrant) -> Iterator[QdrantRecordsDb]:
    with closing(QdrantRecordsDb.open(server.url)) as db:
        server.requests.clear()
        yield db


def over(client: QdrantClient) -> QdrantRecordsDb:
    db = QdrantRecordsDb(QdrantConnection(client, "the client given"), "toolcrib-ledger")
    db._make(None)
    return db


def test_the_collection_has_no_vectors_one_shard_and_two_indexes(server):
    QdrantRecordsDb.open(server.url, collection="acme-ledger", replicas=2).close()
    made = [r for r in server.requests if r.method == "PUT"]
    assert [r.path.removeprefix("/collections/acme-ledger") for r in made] == ["", *["/index"] * 2]
    assert made[0].body == {
        "vectors": {},
        "shard_number": 1,
        "replication_factor": 2,
        "metadata": {"toolcrib": "ledger"},
    }
    assert [(r.body["field_name"], r.body["field_schema"]) for r in made[1:]] == [
        ("table", "keyword"),
        ("at", "float"),
    ]


def test_a_record_is_a_point_with_its_body_as_text(server, db):
    db.put("keys", row(at=NOON + 0.123_456_789, name="é"))
    (request,) = server.requests
    assert request.query["wait"] == ["true"]
    (point,) = request.body["points"]
    assert point["vector"] == {}
    assert point["payload"] == {
        "table": "keys",
        "id": "a",
        "at": 1_772_366_400.123_457,
        "time": "1772366400.1234567",
        "body": '{"name":"\\u00e9"}',
    }
    assert uuid.UUID(point["id"])


def test_the_newest_are_one_request_unless_a_page_ends_in_a_crowd(server, db):
    db.put_all("keys", [row(f"{n}", NOON + n) for n in range(9)])
    server.requests.clear()
    assert ids(db.newest("keys", limit=3)) == ["8", "7", "6"]
    (body,) = server.sent_to("/points/scroll")
    assert body["order_by"] == {"key": "at", "direction": "desc"}
    assert body["filter"] == {"must": [{"key": "table", "match": {"value": "keys"}}]}
    assert body["limit"] == 4


def test_many_records_go_in_requests_of_bounded_size(server, db):
    db.put_all("keys", [row(f"{n}", NOON + n) for n in range(250)])
    assert [len(body["points"]) for body in server.sent_to("/points")] == [100, 100, 50]
    server.requests.clear()
    db.put_all("keys", [row(f"{n}", text="x" * 1_500_000) for n in range(5)])
    assert [len(body["points"]) for body in server.sent_to("/points")] == [2, 2, 1]


def test_more_shelves_than_are_asked_for_at_first_are_all_listed(db, monkeypatch):
    monkeypatch.setattr("toolcrib.store.records_db.qdrant.FIRST_TABLES_LIMIT", 2)
    for name in "abcdefg":
        db.put(name, row())
    assert db.tables() == list("abcdefg")


def test_opening_again_finds_everything_and_makes_nothing_again(server, db):
    db.put("keys", row())
    with closing(QdrantRecordsDb.open(server.url)) as again:
        assert again.get("keys", "a") == row()
    assert not [r for r in server.requests if r.path == "/collections/toolcrib-ledger" and r.body]


def test_somebody_elses_collection_is_refused(client):
    client.create_collection("toolcrib-ledger", vectors_config={})
    with pytest.raises(StoreError, match=r"'toolcrib-ledger' .*database"):
        over(client)


def test_a_point_that_is_no_record_is_an_error_that_names_it(client):
    db = over(client)
    payload = {"table": "keys", "at": NOON, "id": "a", "body": "{}"}
    client.upsert("toolcrib-ledger", [models.PointStruct(id=7, vector={}, payload=payload)])
    with pytest.raises(StoreDamagedError, match=r"point 7 .*record"):
        db.newest("keys")


def test_a_server_that_is_gone_is_an_error_of_every_method():
    with closing(QdrantRecordsDb(connect("http://127.0.0.1:1", None, 1), "any")) as db:
        for call in (
            lambda: db.put("keys", row()),
            lambda: db.get("keys", "a"),
            lambda: db.delete("keys", "a"),
            lambda: db.newest("keys"),
            lambda: list(db.read("keys")),
            lambda: db.prune("keys", before=NOON),
            db.tables,
        ):
            with pytest.raises(StoreUnavailableError, match="docker compose up -d"):
                call()
