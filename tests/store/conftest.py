"""What several tests of the stores stand on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
from qdrant_client import QdrantClient, models

from tests.store.qdrant_over_http import LocalQdrant, running
from tests.store.samples import LAYOUT, a_full_point
from toolcrib.store.qdrant_client import QdrantConnection, connect
from toolcrib.store.qdrant_server import ServerStore

# The contract is no test module by name, yet its assertions deserve pytest's messages.
pytest.register_assert_rewrite("tests.store.conformance", "tests.store.contract_records_db")


@dataclass
class Wired:
    """A running server, a connection to it, and a store over that."""

    server: LocalQdrant
    connection: QdrantConnection
    store: ServerStore


@pytest.fixture
def wired() -> Iterator[Wired]:
    with running() as server:
        ServerStore.open(server.url, LAYOUT).close()
        connection = connect(server.url, None, timeout_s=1)
        with closing(ServerStore(connection, "toolcrib", LAYOUT)) as store:
            store.upsert([a_full_point()])
            server.requests.clear()
            yield Wired(server, connection, store)


@pytest.fixture
def server() -> Iterator[LocalQdrant]:
    with running() as server:
        yield server


class LocalClient(QdrantClient):
    """A client that is its own server, without cluster mode."""

    def cluster_status(self) -> models.ClusterStatusOneOf:
        return models.ClusterStatusOneOf(status="disabled")


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    with closing(LocalClient(":memory:")) as client:
        yield client


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would have been waited: requests are tried again at once."""
    waited: list[float] = []
    monkeypatch.setattr("toolcrib.retries.sleep", waited.append)
    return waited
