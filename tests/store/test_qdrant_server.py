"""The server's adapter keeps the contract: over real HTTP, and on a real server."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from qdrant_client import QdrantClient, models

from tests.store.conformance import StoreContract
from tests.store.qdrant_over_http import LocalQdrant
from tests.store.samples import LAYOUT, a_full_point, dense_leg, point, unit
from toolcrib.errors import IndexMismatchError, StoreError
from toolcrib.store.base import Layout, Store
from toolcrib.store.qdrant_client import QdrantConnection, connect
from toolcrib.store.qdrant_server import CollectionPlan, ServerStore

URL_VARIABLE = "QDRANT_TEST_URL"
SERVER_URL = os.environ.get(URL_VARIABLE, "")


# Local mode searches exactly, with the original vectors, and counts live points alone: what it
# does without is tested by what goes over the socket, and on a real server.
class TestServerStoreOverHttp(StoreContract):
    """The same requests as bytes on a socket, answered by local mode."""

    @pytest.fixture
    def store(self, server: LocalQdrant) -> Iterator[Store]:
        with closing(ServerStore.open(server.url, LAYOUT)) as store:
            yield store


class _OnARealServer(StoreContract):
    """The same requests, answered by Qdrant."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        name = f"toolcrib-test-{uuid.uuid4().hex[:12]}"
        # One shard: a server counts document frequencies in each shard for itself.
        with closing(
            ServerStore.open(SERVER_URL, LAYOUT, collection=name, plan=CollectionPlan(1))
        ) as store:
            yield store
        with closing(QdrantClient(url=SERVER_URL)) as client:
            for collection in client.get_collections().collections:
                if collection.name.startswith(name):
                    client.delete_collection(collection.name)


# Collected only where there is a server: otherwise one line of the report says so, not ninety.
if SERVER_URL:
    TestServerStoreOnARealServer = _OnARealServer


def test_a_real_server_is_asked_too():
    if not SERVER_URL:
        pytest.skip(f"{URL_VARIABLE} is not set; docker compose up -d, then set it to its URL")
    with closing(QdrantClient(url=SERVER_URL)) as client:
        assert client.info().version


def over(client: QdrantClient, layout: Layout, collection: str = "toolcrib") -> ServerStore:
    store = ServerStore(QdrantConnection(client, "the client given"), collection, layout)
    store._open()
    return store


def test_opening_again_finds_everything(server: LocalQdrant):
    with closing(ServerStore.open(server.url, LAYOUT)) as first:
        first.upsert([a_full_point()])
        first.write_meta({"model": "a"})
    with closing(ServerStore.open(server.url, LAYOUT)) as again:
        assert (again.count(), dict(again.read_meta())) == (1, {"model": "a"})


def test_a_collection_of_ours_opens_with_the_layout_that_it_has(client):
    """Whether its models are those in use is told by the meta document, in better words."""
    over(client, LAYOUT)
    other = Layout(dense={"description": 4}, multi={}, sparse=())
    assert over(client, other).layout == LAYOUT


def _params(size: int, distance: str = "Cosine") -> models.VectorParams:
    return models.VectorParams(size=size, distance=models.Distance(distance))


@pytest.mark.parametrize(
    ("vectors", "sparse", "words"),
    [
        ({"description": _params(4)}, True, "'description' is dense of width 4 (Cosine), wanted"),
        ({"description": _params(8, "Dot")}, True, "is dense of width 8 (Dot), wanted dense of"),
        ({}, True, "vector 'description' is missing, wanted dense of width 8 (Cosine)"),
        (
            {"description": _params(8), "image": _params(2)},
            True,
            "vector 'image' is dense of width 2 (Cosine), wanted none",
        ),
        ({"description": _params(8)}, False, "is sparse without IDF, wanted sparse with IDF"),
    ],
)
def test_somebody_elses_collection_is_refused(client, vectors, sparse, words):
    modifier = models.Modifier.IDF if sparse else None
    lexical = {"lexical": models.SparseVectorParams(modifier=modifier)}
    client.create_collection("toolcrib", vectors_config=vectors, sparse_vectors_config=lexical)
    with pytest.raises(IndexMismatchError) as refused:
        over(client, Layout({"description": 8}, {}, ("lexical",)))
    said = str(refused.value)
    assert said.startswith("the collection 'toolcrib' at the client given was made for other")
    assert words in said
    assert said.endswith("; set server.collection to another name, or delete this one")


def test_a_collection_that_fits_is_used_and_cannot_be_renewed(client):
    """As when it was made by hand, with settings of its own."""
    client.create_collection("toolcrib", vectors_config={"description": _params(8)})
    layout = Layout(dense={"description": 8}, multi={}, sparse=())
    store = over(client, layout)
    store.upsert([point("tool", dense=unit(1))])
    assert len(store.search([dense_leg(unit(1))])[0]) == 1
    with pytest.raises(StoreError, match=r"'toolcrib' .*server\.collection"), store.renew(layout):
        pass


def test_a_renewal_leaves_one_collection_and_one_alias(client):
    store = over(client, LAYOUT)
    client.create_collection("toolcrib.g0007", vectors_config={})  # broken off before
    client.create_collection("toolcrib.gone", vectors_config={})  # somebody else's
    with store.renew(LAYOUT) as beside:
        beside.upsert([a_full_point()])
    names = {collection.name for collection in client.get_collections().collections}
    assert names == {"toolcrib.g0002", "toolcrib.gone"}
    (alias,) = client.get_aliases().aliases
    assert (alias.alias_name, alias.collection_name) == ("toolcrib", "toolcrib.g0002")


def test_another_store_of_the_same_name_follows_a_renewal(client):
    writer, reader = over(client, LAYOUT), over(client, LAYOUT)
    writer.upsert([a_full_point("old")])
    with writer.renew(LAYOUT) as beside:
        beside.upsert([a_full_point("new")])
        assert [record.payload["name"] for record in reader.scroll()] == ["old"]
    assert [record.payload["name"] for record in reader.scroll()] == ["new"]


@pytest.mark.parametrize("url", ["", "localhost:6333", "ftp://localhost", "http://", "/a/folder"])
def test_what_is_not_a_url_is_refused_before_anything_is_sent(url):
    with pytest.raises(StoreError, match="URL of a Qdrant server"):
        ServerStore.open(url, LAYOUT)


def test_a_forked_child_has_connections_of_its_own(monkeypatch):
    with closing(connect("http://127.0.0.1:6333", None, 1.0)) as connection:
        before = connection.client
        monkeypatch.setattr(os, "getpid", lambda: 0)
        assert connection.client is not before
        assert connection.client is connection.client


def test_without_qdrant_client_the_extra_is_named():
    """In a process of its own, where the package cannot be imported."""
    code = (
        "import sys; sys.modules['qdrant_client'] = None\n"
        "from toolcrib.errors import MissingExtraError\n"
        "try:\n    import toolcrib.store.qdrant_server\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    expected = "a Qdrant server needs the extra 'server': pip install 'toolcrib[server]'"
    assert done.stdout.strip() == expected
