"""What a store needs of the file system."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from toolcrib.errors import StoreDamagedError, StoreLockedError, StoreWriteError
from toolcrib.store.folder import (
    CHECKSUMS_FILE,
    LOCK_FILE,
    POINTER_FILE,
    UNLOCKED_FOLDER_S,
    Checksums,
    Generations,
    copy_sparsely,
    holds_store,
    lock_folder,
    read_json,
    temporary_folder,
    write_atomically,
)


def test_a_copy_has_the_same_bytes_and_the_same_holes(tmp_path):
    (tmp_path / "from" / "deep").mkdir(parents=True)
    file = tmp_path / "from" / "deep" / "sparse"
    with file.open("wb") as writing:
        writing.write(b"head")
        writing.seek(50 * 2**20)
        writing.write(b"middle")
        writing.truncate(80 * 2**20)
    (tmp_path / "from" / "empty").touch()
    copy_sparsely(tmp_path / "from", tmp_path / "to")
    copied = tmp_path / "to" / "deep" / "sparse"
    assert copied.read_bytes() == file.read_bytes()
    assert copied.stat().st_blocks * 512 < 2**20
    assert (tmp_path / "to" / "empty").read_bytes() == b""


def test_a_document_is_replaced_whole(tmp_path):
    path = tmp_path / "meta.json"
    write_atomically(path, '{"a": 1}')
    write_atomically(path, '{"b": 2}')
    assert read_json(path) == {"b": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["meta.json"]


def test_a_refused_write_leaves_the_old_document(tmp_path):
    path = tmp_path / "meta.json"
    write_atomically(path, '{"a": 1}')
    (tmp_path / ".meta.json.draft").mkdir()
    with pytest.raises(StoreWriteError, match=r"meta\.json .*directory"):
        write_atomically(path, '{"b": 2}')
    assert read_json(path) == {"a": 1}


def test_a_missing_document_is_damage(tmp_path):
    with pytest.raises(StoreDamagedError, match="`toolcrib index"):
        read_json(tmp_path / "meta.json")


@pytest.mark.parametrize("name", [POINTER_FILE, f"g0001/{CHECKSUMS_FILE}", "g0001/shard/wal"])
def test_a_file_of_another_user_is_no_damage(tmp_path, monkeypatch, name):
    generation = tmp_path / "g0001"
    (generation / "shard").mkdir(parents=True)
    (generation / "shard" / "wal").touch()
    Checksums.of(generation, 0, 0).write(generation)
    Generations(tmp_path).make_current(generation)
    opened = Path.open

    def refuse(path, *args, **kwargs):
        if path == tmp_path / name:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StoreWriteError, match=f"{name} .*give this user the right"):
        Checksums.check(Generations(tmp_path).current())


def test_a_folder_of_another_user_is_not_taken_for_one_without_a_store(tmp_path, monkeypatch):
    def refuse(path, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(StoreWriteError, match=r"cannot be read \(Permission denied"):
        holds_store(tmp_path)


def test_a_folder_that_cannot_be_written_to_is_refused_also_for_searches(tmp_path):
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(StoreWriteError, match=rf"{tmp_path}.*search.*copy"):
        lock_folder(tmp_path)


@pytest.mark.parametrize("place", ["tools.jsonl", "tools.jsonl/store"])
def test_a_file_in_the_place_of_a_store_is_named_as_such(tmp_path, place):
    (tmp_path / "tools.jsonl").touch()
    with pytest.raises(StoreDamagedError, match=f"{tmp_path / place}.*a file"):
        lock_folder(tmp_path / place)


def test_a_lock_names_its_holder_and_is_free_again_after_release(tmp_path):
    lock = lock_folder(tmp_path)
    with pytest.raises(StoreLockedError, match=rf"{tmp_path}.*{os.getpid()} \(this one.*--url"):
        lock_folder(tmp_path)
    (tmp_path / "crib.lock.pid").write_text("1")
    with pytest.raises(StoreLockedError, match="in use by process 1;"):
        lock_folder(tmp_path)
    (tmp_path / "crib.lock.pid").write_text("scribble")
    with pytest.raises(StoreLockedError, match="in use by another process"):
        lock_folder(tmp_path)
    lock.release()
    lock_folder(tmp_path).release()


MAKE_AND_WAIT = """
from toolcrib.store.folder import temporary_folder
folder, remove = temporary_folder()
print(folder.parent, flush=True)
input()
"""


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be removed there")
def test_what_killed_processes_left_in_memory_is_removed_and_nothing_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = [sys.executable, "-c", MAKE_AND_WAIT]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": env}
    with subprocess.Popen(command, **pipes) as dead, subprocess.Popen(command, **pipes) as alive:
        left, used = (Path(each.stdout.readline().strip()) for each in (dead, alive))
        dead.kill()
        dead.wait()
        for folder in (left, used):
            os.utime(folder, (0, folder.stat().st_mtime - 2 * UNLOCKED_FOLDER_S))
        folder, remove = temporary_folder()
        assert not left.exists()
        assert used.exists()
        remove()
        alive.communicate("")
    assert not folder.parent.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks there")
def test_a_forked_child_leaves_the_folder_in_memory_to_its_parent():
    folder, remove = temporary_folder()
    child = multiprocessing.get_context("fork").Process(target=remove)
    child.start()
    child.join()
    assert folder.parent.exists()
    remove()
    assert not folder.parent.exists()


def test_without_a_temporary_folder_the_error_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(StoreWriteError, match="TMPDIR"):
        temporary_folder()
