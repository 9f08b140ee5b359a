"""A replica has what its owner's store has, whatever happens to that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import pytest

from tests.store.samples import (
    LAYOUT,
    a_full_point,
    as_dict,
    dense_leg,
    multi_leg,
    point,
    sparse,
    sparse_leg,
    unit,
)
from toolcrib.errors import BadPointError, ReplicaError, StoreError, StoreWriteError
from toolcrib.store import qdrant_edge
from toolcrib.store.base import Store, point_id
from toolcrib.store.filters import And
from toolcrib.store.replication import Publisher, Replicas

LEGS = [dense_leg(unit(1)), multi_leg(unit(1)), sparse_leg({1: 1.0, 9: 1.0}, idf_corpus=And())]


class Ends:
    """An owner of a folder, and followers of it, all in this process."""

    def __init__(self, folder: Path) -> None:
        self.publisher = Publisher(folder / "run")
        self.path = folder / "store"
        self.owner = self.publisher.open(self.path, LAYOUT, survives_power_cut=False)

    def follower(self) -> tuple[Store, Callable[[], None]]:
        """A replica that follows, and what ends it."""
        ours, theirs = Pipe()
        leave = self.publisher.add(ours)
        replicas = Replicas(theirs)
        threading.Thread(target=replicas.follow, daemon=True).start()
        return replicas.open(self.path, LAYOUT, survives_power_cut=False), leave


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path)
    with closing(made.owner):
        yield made


def told(store: Store) -> tuple[object, ...]:
    """All that a store tells."""
    found = [as_dict(hits) for hits in store.search(LEGS)]
    return [(r.id, r.payload) for r in store.scroll()], found, dict(store.read_meta())


def agree(one: Store, other: Store) -> bool:
    """Whether they tell the same within some seconds: a write arrives a little later."""
    until = time.monotonic() + 20
    while told(one) != told(other) and time.monotonic() < until:
        time.sleep(0.01)
    return told(one) == told(other)


def test_every_write_arrives_in_its_order(ends: Ends) -> None:
    ends.owner.upsert([a_full_point("before")])
    replica, _ = ends.follower()
    assert told(replica) == told(ends.owner)
    for number in range(10):
        ends.owner.upsert([a_full_point(f"t{number}", category="a"), point(f"u{number}")])
        ends.owner.set_sparse("lexical", {point_id(f"t{number}"): sparse({9: 2.0})})
        ends.owner.delete(iter([point_id(f"u{number}"), point_id("before")]))
        ends.owner.write_meta({"number": number})
    revision = ends.publisher.revise("acme")
    replicas = replica._replicas  # type: ignore[attr-defined]
    until = time.monotonic() + 20
    while replicas.revision("acme") != revision and time.monotonic() < until:
        time.sleep(0.01)
    # Whoever knows the revision has what was written before it.
    assert told(replica) == told(ends.owner)
    assert replica.count() == 10
    with pytest.raises(BadPointError):
        ends.owner.upsert([point("bad", dense=2 * unit(1))])
    late, leave = ends.follower()
    assert told(late) == told(ends.owner)
    leave()
    ends.owner.delete([point_id("t0")])
    assert agree(replica, ends.owner)
    assert late.count() == 10


def test_a_store_that_is_renewed_is_sent_again(ends: Ends) -> None:
    replica, _ = ends.follower()
    ends.owner.upsert([a_full_point("old")])
    with ends.owner.renew(LAYOUT) as beside:
        beside.upsert([a_full_point("new")])
        beside.write_meta({"model": "new"})
    ends.owner.upsert([a_full_point("later")])
    assert agree(replica, ends.owner)
    assert {record.payload["name"] for record in replica.scroll()} == {"new", "later"}


def test_a_full_disk_refuses_what_is_new_and_parts_nobody(
    ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends.owner.upsert([a_full_point("kept")])
    replica, _ = ends.follower()

    def full(folder: Path, least: int) -> None:
        raise StoreWriteError(f"{least} bytes are not free in {folder}")

    late, heard = Pipe()
    with monkeypatch.context() as patch:
        patch.setattr(qdrant_edge, "require_space", full)
        with pytest.raises(StoreWriteError):
            ends.owner.upsert([a_full_point("refused")])
        with pytest.raises(StoreWriteError):
            ends.publisher.add(late)
    assert late.closed
    with pytest.raises(EOFError):
        Replicas(heard)
    assert not any((tmp_path / "run").glob("follower1/*"))
    other = tmp_path / "other"
    with monkeypatch.context() as patch:
        patch.setattr(qdrant_edge.EdgeStore, "copy_to", lambda _, place: full(place, 1))
        with pytest.raises(StoreWriteError):
            ends.publisher.open(other, LAYOUT, survives_power_cut=False)
    ends.publisher.open(other, LAYOUT, survives_power_cut=False).close()
    # It still follows.
    ends.owner.upsert([a_full_point("later")])
    assert agree(replica, ends.owner)
    assert replica.count() == 2


def test_a_replica_is_written_to_by_its_owner_alone(ends: Ends, tmp_path: Path) -> None:
    ends.owner.upsert([a_full_point("kept")])
    replica, _ = ends.follower()
    for write in (
        lambda: replica.upsert([a_full_point("mine")]),
        lambda: replica.delete([point_id("kept")]),
        lambda: replica.set_sparse("lexical", {point_id("kept"): sparse({9: 1.0})}),
        lambda: replica.write_meta({"model": "a"}),
        lambda: replica.renew(LAYOUT),
        replica.optimise,
    ):
        with pytest.raises(ReplicaError):
            write()
    assert replica.count() == 1
    assert replica.info().location == str(ends.path)
    # What the owner opens later is sent as well.
    replicas = replica._replicas  # type: ignore[attr-defined]
    other = tmp_path / "other"
    with pytest.raises(ReplicaError):
        replicas.open(other, LAYOUT, survives_power_cut=False)
    with closing(ends.publisher.open(other, LAYOUT, survives_power_cut=False)) as opened:
        opened.upsert([a_full_point("later")])
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                found = replicas.open(other, LAYOUT, survives_power_cut=False)
                break
            except StoreError:
                time.sleep(0.01)
        assert agree(found, opened)
