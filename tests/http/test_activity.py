"""Activity of a gateway over HTTP: for keys that see everything, from a store of its own."""

from __future__ import annotations

import pytest

from toolcrib import build
from toolcrib.access.activity import ActivityLog
from toolcrib.records.log import GatewayCall, GatewayServer
from toolcrib.settings import Settings


@pytest.fixture(scope="module")
def shown(start, tmp_path_factory):
    """A service that shows the activity of a gateway with one server and one call."""
    store = str(tmp_path_factory.mktemp("gateway"))
    db = build.open_records_db(store, Settings())
    log = ActivityLog(db)
    log.write_state([GatewayServer("post", "up", tools=2)])
    log.record(GatewayCall("", "claude 1.0", "post", "post/echo", "success", 12.0, tokens=7))
    log._queue.flush()
    with start(gateway=store) as started:
        yield started
    log.close()
    db.close()


def test_a_key_that_writes_and_sees_all_is_shown_servers_and_calls(shown):
    with shown.client(access="write") as client:
        activity = client.get("/v1/activity").json()
    assert (activity["gateways"], activity["kept"], activity["tokens"]) == (1, 1, 7)
    assert activity["servers"][0]["state"] == "up"
    assert activity["calls"][0]["agent"] == "claude 1.0"


@pytest.mark.parametrize("grant", [{"access": "read"}, {"access": "write", "servers": ["fax"]}])
def test_other_keys_are_shown_nothing(shown, grant):
    with shown.client(**grant) as client:
        activity = client.get("/v1/activity").json()
    assert (activity["servers"], activity["calls"], activity["kept"]) == ([], [], 0)
