"""A disk that is full: writes are refused in so many words, and all else goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.processes import FAST, PATIENCE_S, make_key
from tests.faults.small_disk import SmallDisk
from tests.fork_server import ForkedProcess
from toolcrib import Crib, ToolSpec
from toolcrib.errors import StoreWriteError

SIZE = 1000 * 2**20
"""The engine's files are mostly holes, and a file system in memory fills those that are read."""

SMALL = 512 * 2**10
"""Enough for a records database's files."""

SCARCE = 32 * 2**20
"""Less than the store needs to go on writing."""

FEWER_THAN_HOLES = 100 * 2**20
"""Enough to write, and less than the holes that are filled when a store is opened again."""

QUERY = {"query": "turn a bolt"}
PAGE = {"name": "bolts.md", "text": "# Bolts\n\nThe fitter turns bolts, ten times a day."}


def bolt(number):
    return {"name": f"bolt{number}", "description": f"Turns bolt number {number} by hand."}


@pytest.fixture
def disk(tmp_path, request):
    try:
        made = SmallDisk(tmp_path / "disk", getattr(request, "param", SIZE))
    except OSError as reason:
        pytest.skip(f"no disk of its own can be had here: {reason}")
    yield made
    made.close()


def require_full(answer):
    assert answer.status_code == 507, answer.text
    assert answer.json()["type"] == "urn:toolcrib:problem:store-write"
    assert answer.headers["content-type"] == "application/problem+json"


def require_reading_goes_on(client):
    found = client.post("/v1/tools/search", json=QUERY).json()
    assert {hit["id"] for hit in found["tools"]} == {"bolt0", "bolt1"}
    passages = client.post("/v1/knowledge/search", json={"query": "who turns bolts"}).json()
    assert [passage["source"] for passage in passages["passages"]] == ["bolts.md"]
    assert client.post("/v1/route", json={"text": "turn a bolt"}).status_code == 200
    assert client.get("/v1/tools/bolt0").status_code == 200
    assert client.get("/v1/facets").json()["tools"] == 2


def test_writers_are_told_507_readers_notice_nothing_and_with_room_writing_goes_on(
    serve, disk, tmp_path
):
    store = disk.folder / "store"
    key = make_key(tmp_path / "store")
    shutil.move(tmp_path / "store", disk.seen)
    service = serve(store, module=disk.module)
    with service.client(key) as client, service.client(key, "other") as other:
        for each in (client, other):
            assert each.post("/v1/tools", json={"tools": [bolt(0), bolt(1)]}).json()["added"] == 2
            documents = {"collection": "shop", "documents": [PAGE]}
            assert each.post("/v1/documents", json=documents).json()["added"] == 1
        disk.fill(but=SCARCE)
        # A store that is made on a full disk would end the process: it writes by way of memory.
        with service.client(key, "new") as new:
            require_full(new.post("/v1/tools", json={"tools": [bolt(0)]}))
            disk.make_room()
            assert new.post("/v1/tools", json={"tools": [bolt(0)]}).json()["added"] == 1
            disk.fill(but=SCARCE)
        for each in (client, other):
            require_full(each.post("/v1/tools", json={"tools": [bolt(2)]}))
            changed = {**PAGE, "text": "# Bolts\n\nNobody turns bolts."}
            documents = {"collection": "shop", "documents": [changed]}
            require_full(each.post("/v1/documents", json=documents))
            require_full(each.delete("/v1/tools/bolt0"))
            require_reading_goes_on(each)
        assert service.ready().status_code == 200
    service.kill()

    disk.make_room()
    service = serve(store, module=disk.module)
    for namespace in ("default", "other"):
        with service.client(key, namespace) as each:
            require_reading_goes_on(each)
            answer = each.post("/v1/tools", json={"tools": [bolt(2)]})
            assert answer.json().get("added") == 1, answer.text
            assert each.delete("/v1/tools/bolt0").status_code == 204
    assert service.stop() == 0


@pytest.mark.parametrize("disk", [SMALL], indirect=True)
def test_when_its_ledger_cannot_grow_turns_are_routed_and_feedback_is_refused(
    serve, disk, tmp_path
):
    store = tmp_path / "store"
    key = make_key(store)
    shutil.move(store / "ledger.db", disk.seen)
    (store / "ledger.db").symlink_to(disk.folder / "ledger.db")
    service = serve(store, module=disk.module)
    with service.client(key) as client:
        client.post("/v1/tools", json={"tools": [bolt(0)]})
        decision = route(client)
        assert say(client, decision, 0).status_code == 204
        disk.fill(but=0)
        taken = ["intent0", *say_until_it_is_full(client, decision)]
        later = [route(client) for _ in range(3)]
        assert client.post("/v1/tools/search", json=QUERY).json()["tools"]
        # What was decided can be looked up, though some of it waits to be written.
        for each in (decision, *later):
            assert client.get(f"/v1/decisions/{each}").json()["decision"]["id"] == each
        asked = {"failed_tool": "bolt0", "turn": "turn a bolt"}
        assert client.post("/v1/alternates", json=asked).status_code == 200
        assert service.ready().status_code == 200

        disk.make_room()
        assert say(client, decision, 1000).status_code == 204
        record = client.get(f"/v1/decisions/{decision}").json()
        assert [each["intent"] for each in record["feedback"]] == [*taken, "intent1000"]
        # What was decided meanwhile has waited.
        listed = client.get("/v1/decisions").json()["decisions"]
        assert {each["id"] for each in listed} == {decision, *later}
    assert service.stop() == 0


def route(client):
    answer = client.post("/v1/route", json={"text": "turn a bolt"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["tools"]["tools"][0]["id"] == "bolt0"
    return answer.json()["id"]


def say(client, decision, number):
    body = {"decision_id": decision, "intent": f"intent{number}"}
    return client.post("/v1/feedback", json=body)


def say_until_it_is_full(client, decision):
    """Give feedback as long as there is room in files that are there; what was taken."""
    taken = []
    for number in range(1, 500):
        answer = say(client, decision, number)
        if answer.status_code != 204:
            break
        taken.append(f"intent{number}")
    require_full(answer)
    return taken


def test_a_log_that_cannot_be_written_keeps_nobody_from_being_served(serve, tmp_path):
    key = make_key(tmp_path / "store")
    service = serve(tmp_path / "store", errors=Path("/dev/full"))
    with service.client(key) as client:
        assert client.post("/v1/tools", json={"tools": [bolt(0)]}).json()["added"] == 1
        assert client.get("/v1/tools/nut").status_code == 404
        route(client)
    assert service.stop() == 0


@pytest.fixture
def run(disk):
    """Runs a command on the store of the disk."""

    def run_command(*command):
        words = (*disk.module, *command, "--store", str(disk.folder / "store"))
        how = {"env": {**os.environ, **FAST}, "stderr": subprocess.PIPE}
        with closing(ForkedProcess(*words, **how)) as process:
            said, wrong = process.stdout.read(), process.stderr.read()
            return subprocess.CompletedProcess(command, process.wait(PATIENCE_S), said, wrong)

    return run_command


@pytest.mark.parametrize("disk", [150 * 2**20], indirect=True)
def test_a_new_store_has_room_on_a_small_disk(run, tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([bolt(number) for number in range(50)]))
    indexed = run("index", str(tools), "--format", "toolspec")
    assert indexed.returncode == 0, indexed.stderr
    assert len(json.loads(run("list", "--json").stdout)["tools"]) == 50


def test_what_was_indexed_can_be_read_by_commands_on_a_full_disk(run, disk, settings):
    with Crib.open(disk.seen / "store", settings=settings) as crib:
        crib.index_tools(map(ToolSpec.model_validate, map(bolt, range(50))))
    for left in (FEWER_THAN_HOLES, SCARCE, 0):
        disk.fill(but=left)
        listed = run("list", "--json")
        assert listed.returncode == 0, listed.stderr
        assert len(json.loads(listed.stdout)["tools"]) == 50
        refused = run("remove", "bolt7")
        assert refused.returncode == 3
        assert "MiB are free" in refused.stderr
    assert "bolt7" in run("search", "turn bolt number 7").stdout

    disk.make_room()
    with Crib.open(disk.seen / "store", settings=settings) as crib:
        crib.remove_tools("bolt7")
        assert len(list(crib.list_tools())) == 49


def test_a_store_that_cannot_be_closed_for_want_of_room_says_so_and_keeps_what_it_has(
    disk, settings
):
    crib = Crib.open(disk.seen / "store", settings=settings)
    crib.index_tools(map(ToolSpec.model_validate, map(bolt, range(50))))
    disk.fill(but=0)
    with pytest.raises(StoreWriteError, match="its disk is full; free some space"):
        crib.close()
    disk.make_room()
    with Crib.open(disk.seen / "store", settings=settings) as crib:
        assert len(list(crib.list_tools())) == 50
