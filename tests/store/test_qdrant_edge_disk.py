"""What lies on the disk: it survives a power cut, damage is noticed, and it does not grow."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import qdrant_edge as engine

from tests.conftest import rounds
from tests.store.samples import LAYOUT, a_full_point, as_dict, dense_leg, sparse, sparse_leg, unit
from tests.store.synced_disk import SyncedDisk
from toolcrib.errors import StoreDamagedError, StoreError, StoreLockedError, StoreWriteError
from toolcrib.store.base import point_id
from toolcrib.store.filters import KEYWORD_FIELDS, NUMBER_FIELDS, And
from toolcrib.store.folder import allocated_bytes, copy_sparsely
from toolcrib.store.qdrant_edge import INDEXED_FROM_POINTS, EdgeStore, engine_guard

# Without a corpus, what was overwritten still counts among the words.
LEGS = [dense_leg(unit(1), limit=999), sparse_leg({1: 1.0}, limit=999, idf_corpus=And())]

MEND = "toolcrib index SOURCE... --store NEW_FOLDER"


def points(names, **payload):
    return [a_full_point(name, **payload) for name in names]


def content(store):
    """Everything that can be seen of a store."""
    return (
        {record.id: record.payload for record in store.scroll()},
        [as_dict(hits) for hits in store.search(LEGS)],
        dict(store.read_meta()),
    )


# -- power cuts ------------------------------------------------------------------------------


def test_each_acknowledged_write_survives_a_power_cut(tmp_path, monkeypatch):
    disk = SyncedDisk(tmp_path / "disk", monkeypatch)
    writes = [
        lambda store: store.upsert(points("abcdef", version="1")),
        lambda store: store.upsert(points("abc", version="2")),
        lambda store: store.delete([point_id("a")]),
        lambda store: store.set_sparse("lexical", {point_id("b"): sparse({1: 9.0})}),
        lambda store: store.write_meta({"model": "x"}),
        lambda store: store.upsert(points(map(str, range(200)))),
    ]
    with EdgeStore.open(disk.folder / "store", LAYOUT) as store:
        for number, write in enumerate(writes):
            write(store)
            with EdgeStore.open(disk.cut(tmp_path / f"cut{number}") / "store", LAYOUT) as found:
                assert content(found) == content(store)
        with store.renew(LAYOUT) as beside:
            beside.upsert(points("z"))
        store.upsert(points("y"))
        with EdgeStore.open(disk.cut(tmp_path / "swapped") / "store", LAYOUT) as found:
            assert content(found) == content(store)


def test_who_only_asks_for_the_systems_durability_waits_for_no_disk(tmp_path, monkeypatch):
    disk = SyncedDisk(tmp_path / "disk", monkeypatch)
    with EdgeStore.open(disk.folder / "store", LAYOUT, survives_power_cut=False) as store:
        before = disk.synced
        store.upsert(points("abc"))
        store.delete([point_id("a")])
        assert disk.synced == before


# -- damage ----------------------------------------------------------------------------------


def _zero(path, dice):
    size = path.stat().st_size
    path.write_bytes(b"")
    os.truncate(path, size)


def _cut(path, dice):
    os.truncate(path, dice.randrange(path.stat().st_size))


def _flip(path, dice):
    with path.open("r+b") as file:
        size = path.stat().st_size
        while not (byte := os.pread(file.fileno(), 1, place := dice.randrange(size)))[0]:
            # Where all is zero, any place is as good.
            size = max(1, size // 2)
            if size == 1:
                break
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << dice.randrange(8)]), place)


def _delete(path, dice):
    path.unlink()


def _grow(path, dice):
    with path.open("ab") as file:
        file.write(dice.randbytes(50))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A closed store, and what it holds."""
    folder = tmp_path_factory.mktemp("sound") / "store"
    with EdgeStore.open(folder, LAYOUT) as store:
        store.upsert(points(map(str, range(300))))
        store.write_meta({"model": "x"})
    with EdgeStore.open(folder, LAYOUT) as store:
        held = content(store)
    return folder, held


@pytest.fixture
def copied(tmp_path, sound):
    """A copy of the closed store, and what it holds."""
    copy_sparsely(sound[0], tmp_path / "copy")
    return tmp_path / "copy", sound[1]


def require_held(folder, held):
    with EdgeStore.open(folder, LAYOUT) as store:
        assert content(store) == held


@pytest.mark.slow
def test_no_damage_to_any_file_gives_a_wrong_answer_without_a_word(tmp_path, sound):
    folder, held = sound
    dice = random.Random(5)
    found = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    # Every field has the same files in its index: two of each kind are enough.
    dice.shuffle(found)
    kinds = Counter()
    files = []
    for path in sorted(found, key=lambda path: len(path.parts)):
        kinds[path.name] += 1
        if kinds[path.name] <= 2:
            files.append(path.relative_to(folder))
    seen = Counter()
    for number, file in enumerate(files):
        damaged = tmp_path / str(number)
        copy_sparsely(folder, damaged)
        harm = dice.choice([_zero, _cut, _flip, _delete, _grow])
        harm(damaged / file, dice)
        for _again in range(2):
            try:
                with EdgeStore.open(damaged, LAYOUT) as store:
                    assert content(store) == held, f"{harm.__name__} {file}"
                seen["harmless"] += 1
            except StoreError as error:
                seen["said" if MEND in str(error) else f"{file}: {error}"] += 1
        shutil.rmtree(damaged)
    assert seen.keys() == {"harmless", "said"}
    assert seen["said"] > seen["harmless"]


def test_damage_is_said_of_the_file_and_the_sound_index_opens_as_it_was(copied):
    folder, held = copied
    for _ in range(2):
        require_held(folder, held)
    payloads = next(folder.glob("g*/shard/segments/*/payload_storage/page_0.dat"))
    with payloads.open("r+b") as file:
        file.write(b"\x00\x01")
    with pytest.raises(StoreDamagedError, match=f"{payloads} .*toolcrib index"):
        EdgeStore.open(folder, LAYOUT)


@pytest.mark.slow
def test_a_copy_without_holes_is_as_good(tmp_path, sound):
    folder, held = sound
    shutil.copytree(folder, tmp_path / "copy")
    require_held(tmp_path / "copy", held)


@pytest.mark.slow
def test_without_its_pointer_one_generation_is_used_and_of_several_none(copied):
    folder, held = copied
    (folder / "current").unlink()
    require_held(folder, held)
    (folder / "current").unlink()
    shutil.copytree(folder / "g0001", folder / "g0002")
    with pytest.raises(StoreDamagedError, match=r"echo g0002 > .*current"):
        EdgeStore.open(folder, LAYOUT)
    assert (folder / "g0001" / "shard").is_dir()


@pytest.mark.parametrize("pointer", [b"", b"\xff\xfe", b"..\n", b"g0001/../g0001\n", b"a\x00b"])
def test_a_pointer_to_nowhere_is_damage(tmp_path, pointer):
    EdgeStore.open(tmp_path, LAYOUT).close()
    (tmp_path / "current").write_bytes(pointer)
    with pytest.raises(StoreDamagedError, match="index the sources again"):
        EdgeStore.open(tmp_path, LAYOUT)


def test_a_folder_of_an_earlier_version_opens(copied):
    folder, held = copied
    next(folder.glob("g*/checksums.json")).unlink()
    require_held(folder, held)


# -- growth ----------------------------------------------------------------------------------


@pytest.fixture
def small_waste(monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.MIN_WASTE_BYTES", 2**18)


@pytest.fixture
def disk_path():
    """Folder on a disk: a file system in memory fills the holes of files that are looked at."""
    place = Path("/var/tmp")
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as folder:
        yield Path(folder)


def wide(version):
    return points(map(str, range(100)), version=version, text="x" * 1000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_waste")
@pytest.mark.fuzz
def test_what_changes_again_and_again_does_not_grow(disk_path):
    with EdgeStore.open(disk_path, LAYOUT) as store:
        store.upsert(wide("0"))
        once = allocated_bytes(disk_path)
        for number in range(1, rounds(10, 25)):
            store.upsert(wide(str(number)))
            store.optimise()
            assert {record.payload["version"] for record in store.scroll()} == {str(number)}
        assert allocated_bytes(disk_path) < 4 * once
        held = content(store)
    require_held(disk_path, held)


@pytest.mark.slow
@pytest.mark.usefixtures("small_waste")
@pytest.mark.parametrize("is_closed", [True, False])
def test_what_grew_is_made_small_when_it_is_opened_again(disk_path, is_closed):
    with closing(EdgeStore.open(disk_path / "store", LAYOUT)) as store:
        for number in range(12):
            store.upsert(wide(str(number)))
        grown = allocated_bytes(disk_path / "store")
        held = content(store)
        if not is_closed:
            # As a killed process leaves it: not closed.
            copy_sparsely(disk_path / "store", disk_path / "killed")
    with EdgeStore.open(disk_path / ("store" if is_closed else "killed"), LAYOUT) as store:
        assert content(store) == held
        assert allocated_bytes(store._path) < grown / 2


def test_an_index_that_only_grows_is_never_written_anew(tmp_path, monkeypatch, small_waste):
    monkeypatch.setattr(EdgeStore, "_rewrite", None)
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        for number in range(10):
            store.upsert(points([f"{number}/{n}" for n in range(50)], text="x" * 1000))
            store.optimise()


# -- payload indexes -------------------------------------------------------------------------


def indexed_fields(store):
    return set(store._open_shard().info().payload_schema)


def drop_indexes(store):
    """Leave the folder as versions did that lost the indexes when they compacted."""
    for field in indexed_fields(store):
        store._open_shard().update(engine.UpdateOperation.delete_field_index(field))
    assert store.info().unindexed_fields


@pytest.mark.slow
@pytest.mark.usefixtures("small_waste")
def test_every_new_generation_has_the_payload_indexes(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.OPTIMISE_FROM_POINTS", 1)
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        store.upsert(wide("0"))
        every = indexed_fields(store)
        assert every > KEYWORD_FIELDS | NUMBER_FIELDS

        def compact():
            for number in range(5):
                store.upsert(wide(str(number)))
            store.compact()

        def renew():
            with store.renew(LAYOUT) as beside:
                beside.upsert(wide("renewed"))

        for remake in (compact, store.optimise, renew):
            before = store.generation
            remake()
            assert store.generation != before
            assert indexed_fields(store) == every
            assert store.info().unindexed_fields == ()
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        assert indexed_fields(store) == every


@pytest.mark.slow
def test_a_store_that_lacks_payload_indexes_gets_them_when_it_is_opened(tmp_path):
    with EdgeStore.open(tmp_path / "store", LAYOUT) as store:
        store.upsert(wide("0"))
        every = indexed_fields(store)
        drop_indexes(store)
        held = content(store)
    with EdgeStore.open(tmp_path / "store", LAYOUT) as store:
        assert indexed_fields(store) == every
        assert content(store) == held


def test_on_a_full_disk_it_opens_without_payload_indexes(tmp_path, monkeypatch):
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        store.upsert(wide("0"))
        drop_indexes(store)
        held = content(store)

    def full(folder, _bytes):
        raise StoreWriteError(f"0 MiB are free where {folder} lies")

    with monkeypatch.context() as patch:
        patch.setattr("toolcrib.store.qdrant_edge.require_space", full)
        with EdgeStore.open(tmp_path, LAYOUT) as store:
            assert "server" in store.info().unindexed_fields
            assert content(store) == held
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        assert store.info().unindexed_fields == ()


def test_few_points_need_no_payload_index(tmp_path):
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        store.upsert(points(map(str, range(INDEXED_FROM_POINTS - 1))))
        assert (indexed_fields(store), store.info().unindexed_fields) == (set(), ())
        store.upsert(points(["one more"]))
        assert indexed_fields(store)


# -- forks -----------------------------------------------------------------------------------


def _refused(store, said):
    try:
        store.upsert(points("child"))
    except StoreError as error:
        said.send(str(error))
    else:
        said.send("taken")
    store.close()


def test_a_store_that_a_forked_child_still_holds_is_locked(tmp_path):
    with EdgeStore.open(tmp_path, LAYOUT):
        child = multiprocessing.get_context("fork").Process(target=signal.pause)
        child.start()
    try:
        with pytest.raises(StoreLockedError, match="forked child"):
            EdgeStore.open(tmp_path, LAYOUT)
    finally:
        child.kill()
        child.join()


def test_a_search_in_a_shard_that_was_closed_meanwhile_says_so(tmp_path):
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        shard = store._open_shard()
    with pytest.raises(StoreError, match="is closed"), engine_guard(tmp_path):
        shard.info()


def test_a_forked_child_is_refused_and_takes_nothing_from_its_parent(tmp_path):
    here, there = multiprocessing.Pipe()
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        store.upsert(points("ab"))
        child = multiprocessing.get_context("fork").Process(target=_refused, args=(store, there))
        child.start()
        child.join()
        assert child.exitcode == 0
        assert "forked" in here.recv()
        store.upsert(points("c"))
        with pytest.raises(StoreError, match="in use by process"):
            EdgeStore.open(tmp_path, LAYOUT)
        held = content(store)
    with EdgeStore.open(tmp_path, LAYOUT) as store:
        assert content(store) == held
        assert store.count() == 3
