"""The double of a Qdrant server answers by another server where it is told to."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.store.qdrant_over_http import running
from tests.store.samples import LAYOUT, dense_leg, point, unit
from toolcrib.store.qdrant_server import ServerStore


def test_a_double_hands_requests_to_the_server_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running() as real:
        monkeypatch.setenv("QDRANT_DOUBLE_URL", real.url)
        with running() as double, closing(ServerStore.open(double.url, LAYOUT)) as store:
            store.upsert([point("here", dense=unit(1))])
            assert [hit.score for hit in store.search([dense_leg(unit(1))])[0]] == [1.0]
            assert real.client.count("toolcrib").count == 1
            assert double.sent_to("/points") == real.sent_to("/points")


def test_a_double_begins_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as real:
        ServerStore.open(real.url, LAYOUT).close()
        monkeypatch.setenv("QDRANT_DOUBLE_URL", real.url)
        with running() as double:
            assert double.client.get_collections().collections == []
