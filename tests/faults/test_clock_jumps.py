"""The wall clock is set forth and back by a day: nothing is lost, repeated or locked for it."""

from __future__ import annotations

import itertools
import json
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.faults.processes import Served, head_of, make_key, pages, until
from toolcrib import Settings, build
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.router.decision_log_db import DatabaseLog, DecisionPruner
from toolcrib.store.records_db import DbRow
from toolcrib.store.records_db.sqlite import SqliteRecordsDb

DAY_S = 86_400
JUMPS = (0, DAY_S, 0, -DAY_S, 0, DAY_S, -DAY_S)
SCRIPT = Path(__file__).with_name("another_clock.py")
NUMBERS = itertools.count()
DECISIONS = "/v1/decisions"

TOOLS = [{"name": f"bolt{n}", "description": f"Turns bolt number {n} by hand."} for n in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("clock")


def put_clock(folder, ahead_s):
    """Set the clock of a service ahead of the machine's, in one step."""
    draft = folder / "draft"
    draft.write_text(str(ahead_s), encoding="ascii")
    draft.replace(folder / "ahead")


def start(folder):
    command = (sys.executable, str(SCRIPT), str(folder / "ahead"))
    settings = {"SERVICE__KEEP_DAYS": 3}
    return Served(folder / "store", folder / "log", settings=settings, command=command)


@pytest.fixture(scope="module")
def service(folder):
    put_clock(folder, 0)
    make_key(folder / "store")
    started = start(folder)
    yield started
    started.kill()


@pytest.fixture
def set_clock(folder, service):
    put_clock(folder, 0)
    yield partial(put_clock, folder)
    put_clock(folder, 0)


@pytest.fixture
def client(service, folder):
    with service.client(make_key(folder / "store"), f"day{next(NUMBERS)}") as made:
        assert made.post("/v1/tools", json={"tools": TOOLS}).json()["added"] == len(TOOLS)
        yield made


def route(client):
    answer = client.post("/v1/route", json={"text": "turn bolt number 2"})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def test_a_rate_is_neither_lifted_nor_held_against_a_key_for_longer_than_it_says(
    service, folder, set_clock
):
    with service.client(make_key(folder / "store", rate="5/hour")) as client:
        for jump in JUMPS:
            set_clock(jump)
            answers = [client.get("/v1/me") for _ in range(6)]
            assert answers[-1].status_code == 429
            for answer in answers:
                if answer.status_code == 429:
                    assert 0 < int(answer.headers["retry-after"]) <= 3600
            assert sum(answer.status_code == 200 for answer in answers) <= 5


def test_a_key_holds_until_its_time_by_the_clock_and_a_revoked_one_never_again(
    service, folder, set_clock
):
    store = str(folder / "store")
    records_db = build.open_records_db(store, Settings())
    ring = KeyRing(records_db)
    half_a_day = ring.create("short", Grant(), expires_at=time.time() + DAY_S / 2)[1]
    endless = make_key(store)
    revoked = make_key(store)
    ring.revoke(revoked.split("_")[1])
    records_db.close()

    def status(text):
        with service.client(text) as client:
            return client.get("/v1/me").status_code

    for jump in JUMPS:
        set_clock(jump)
        expected = 401 if jump == DAY_S else 200
        until(lambda expected=expected: status(half_a_day) == expected, "as its time says")
        assert status(endless) == 200
        assert status(revoked) == 401


def test_decisions_are_listed_once_each_newest_first_by_the_clock_they_were_made_by(
    client, set_clock
):
    made = []
    for jump in JUMPS:
        set_clock(jump)
        made += [route(client) for _ in range(2)]
    listed = [each for page in pages(client, DECISIONS, limit=2) for each in page["decisions"]]
    assert sorted(each["id"] for each in listed) == sorted(made)
    times = [each["at"] for each in listed]
    assert times == sorted(times, reverse=True)


def test_a_list_that_is_being_read_repeats_and_leaves_out_nothing_when_the_clock_is_set(
    client, set_clock
):
    before = [route(client) for _ in range(8)]
    jumps, listed = itertools.cycle((DAY_S, -DAY_S, 0)), []
    for page in pages(client, DECISIONS, limit=2):
        listed += [each["id"] for each in page["decisions"]]
        set_clock(next(jumps))
        route(client)
    assert len(listed) == len(set(listed))
    assert set(before) <= set(listed)


def test_what_was_said_of_a_decision_is_kept_and_the_last_outcome_counts(client, set_clock):
    decision = route(client)
    for number, jump in enumerate(JUMPS):
        set_clock(jump)
        said = {"decision_id": decision, "intent": f"intent{number}"}
        assert client.post("/v1/feedback", json=said).status_code == 204
    record = client.get(f"{DECISIONS}/{decision}").json()
    said = sorted(each["intent"] for each in record["feedback"])
    assert said == [f"intent{number}" for number in range(len(JUMPS))]

    def report(outcome):
        told = {"decision_id": decision, "tool": "bolt2", "outcome": outcome}
        assert client.post("/v1/outcomes", json=told).status_code == 204

    def offered():
        asked = {"failed_tool": "bolt0", "turn": "turn bolt number 2", "decision_id": decision}
        found = client.post("/v1/alternates", json=asked).json()
        return {hit["id"] for hit in found["tools"]}

    set_clock(DAY_S)
    report("failure")
    assert "bolt2" not in offered()
    set_clock(-DAY_S)
    report("success")
    assert "bolt2" in offered()


def test_what_is_younger_than_decisions_are_kept_outlasts_a_jump_by_a_day(tmp_path):
    begin = time.time()
    with closing(SqliteRecordsDb(tmp_path / "ledger.db")) as records_db:
        for made in range(6):
            at = datetime.fromtimestamp(begin - made * DAY_S, UTC).isoformat()
            record = {"kind": "decision", "id": f"{made} days old", "at": at}
            records_db.put("decisions/a", DbRow(record["id"], begin - made * DAY_S, record))
        for jump in JUMPS:
            pruner = DecisionPruner(records_db, 3 * DAY_S, now=partial(begin.__add__, jump))
            log = DatabaseLog(records_db, "a", text=False, pruner=pruner)
            log.write({"kind": "decision", "id": f"at {jump}", "at": at})
            log.close()
            pruner.close()
        kept = {entry.id for entry in records_db.read("decisions/a")}
    assert {"0 days old", "1 days old"} <= kept
    assert kept.isdisjoint({"4 days old", "5 days old"})


def test_a_request_that_is_under_way_is_answered_though_the_clock_is_set(
    service, client, set_clock
):
    body = json.dumps({"tools": [{**TOOLS[0], "name": "late"}]}).encode()
    with service.connect() as connection:
        connection.sendall(head_of(client, body) + body[:-1])
        until(lambda: service.gauge("requests_under_way") == 1, "the request is under way")
        for jump in (DAY_S, -DAY_S):
            set_clock(jump)
            assert service.ready().status_code == 200
        connection.sendall(body[-1:])
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 200")
    assert client.get("/v1/tools/late").status_code == 200
