"""What several tests of the stores stand on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.store.qdrant_over_http import LocalQdrant, running
from tests.store.samples import LAYOUT, a_full_point
from toolcrib.store.qdrant_server import ServerStore
from toolcrib.store.server_collections import Collections
from toolcrib.store.qdrant_client import Wire, connect

# The contract is no test module by name, yet its assertions deserve pytest's messages.
pytest.register_assert_rewrite(
    "tests.store.contract_filtering",
    "tests.store.contract_ledger",
    "tests.store.contract_renewing",
    "tests.store.contract_searching",
    "tests.store.contract_writing",
)


@dataclass
class Wired:
    """A running server, a store over it, and the pauses that the store made between tries."""

    server: LocalQdrant
    wire: Wire
    store: ServerStore
    pauses: list[float]


@pytest.fixture
def wired() -> Iterator[Wired]:
    pauses: list[float] = []
    with running() as server:
        ServerStore.open(server.url, LAYOUT).close()
        wire = Wire(connect(server.url, None, timeout_s=1), server.url, pauses.append)
        with closing(ServerStore(Collections(wire, "toolcrib"), LAYOUT, owns_client=True)) as store:
            store.upsert([a_full_point()])
            server.requests.clear()
            yield Wired(server, wire, store, pauses)
