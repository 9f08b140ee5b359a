"""A db in a file: the contract, several processes, and every way in which a disk can fail."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from string import ascii_lowercase

import pytest

from tests.conftest import rounds
from tests.store.contract_records_db import SharedRecordsDbContract, ids, in_order, row
from tests.store.records_db_writer import record
from toolcrib.errors import StoreDamagedError, StoreLockedError, StoreWriteError
from toolcrib.store.records_db import DbRow, RecordsDb
from toolcrib.store.records_db.sqlite import APPLICATION_ID, SqliteRecordsDb

WRITER = Path(__file__).with_name("records_db_writer.py")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "ledger.db"


class TestSqliteRecordsDb(SharedRecordsDbContract):
    @pytest.fixture
    def db(self, path: Path) -> Iterator[RecordsDb]:
        with closing(SqliteRecordsDb(path)) as db:
            yield db


def start_writer(path: Path, name: str, count: int, *limit: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), str(path), name, str(count), *map(str, limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_only_the_owner_can_read_it(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put("keys", row())
        files = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert files == dict.fromkeys(["ledger.db", "ledger.db-wal", "ledger.db-shm"], 0o600)


def test_every_commit_reaches_the_disk(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put("keys", row())
        (connection,) = db._idle
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_who_opens_it_next_finds_everything(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put("keys", row())
        with closing(SqliteRecordsDb(path)) as other:
            assert other.get("keys", "a") == row()
            other.put("keys", row("b"))
        assert ids(db.newest("keys")) == ["b", "a"]
    with closing(SqliteRecordsDb(path)) as db:
        assert ids(db.newest("keys")) == ["b", "a"]


def test_no_file_holds_what_was_removed_while_it_is_open(path):
    with closing(SqliteRecordsDb(path)) as db, closing(SqliteRecordsDb(path)) as other:
        for number, word in enumerate(("deleted-word", "pruned-word", "kept-word")):
            db.put("decisions", DbRow(word, number, {"text": word}))
        assert len(other.newest("decisions")) == 3
        db.delete("decisions", "deleted-word")
        other.prune("decisions", before=2)
        held = b"".join(file.read_bytes() for file in path.parent.iterdir())
        assert [word in held for word in (b"deleted", b"pruned", b"kept")] == [False, False, True]


def test_closing_says_so_once(path):
    said = []
    db = SqliteRecordsDb(path, on_close=lambda: said.append("closed"))
    db.close()
    db.close()
    assert said == ["closed"]


def test_two_processes_write_at_once_and_both_lose_nothing(path):
    """Both also come first, and make the file."""
    writers = {name: start_writer(path, name, 300) for name in "ab"}
    acknowledged = {name: child.communicate()[0].split() for name, child in writers.items()}
    assert all(len(numbers) == 300 for numbers in acknowledged.values())
    with closing(SqliteRecordsDb(path)) as db:
        found = list(db.read("records"))
    assert found == [record(name, number) for number in range(300) for name in "ab"]


def test_whoever_comes_first_makes_the_file_and_nobody_minds(tmp_path):
    for number in range(40):
        path, start = tmp_path / f"{number}" / "ledger.db", threading.Barrier(4)

        def come(name: str, path=path, start=start) -> None:
            with closing(SqliteRecordsDb(path)) as db:
                start.wait(10)
                assert len(db.newest("keys")) <= 4
                db.put("keys", row(name))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(come, "abcd"))
        with closing(SqliteRecordsDb(path)) as db:
            assert ids(db.newest("keys")) == ["d", "c", "b", "a"]


@pytest.mark.slow
@pytest.mark.fuzz
def test_killed_at_random_points_every_acknowledged_record_is_there(path):
    dice = random.Random(5)
    expected = []
    for name in ascii_lowercase[: rounds(3, 26)]:
        child = start_writer(path, name, 100_000)
        read = [child.stdout.readline() for _ in range(dice.randrange(1, 300))]
        child.kill()
        # What it wrote before it died was acknowledged as well; a last line may be cut.
        acknowledged = len(read) + child.communicate()[0].count("\n")
        with closing(SqliteRecordsDb(path)) as db:
            mine = [each for each in db.read("records") if each.id.startswith(name)]
            assert mine == [record(name, number) for number in range(len(mine))]
            assert len(mine) >= acknowledged
            expected += mine
            assert list(db.read("records")) == in_order(expected)


def test_a_full_disk_is_an_error_and_all_that_was_acknowledged_stays(path):
    output = start_writer(path, "a", 100_000, 400_000).communicate()[0].splitlines()
    assert output[-1].startswith(f"the records database {path} cannot be used (")
    assert output[-1].endswith("make room on its disk, or give this user the right to write there")
    with closing(SqliteRecordsDb(path)) as db:
        acknowledged = len(output) - 1
        assert list(db.read("records")) == [record("a", n) for n in range(acknowledged)]
        db.put("records", record("a", acknowledged))
    assert acknowledged > 10


def test_a_write_for_which_there_is_no_room_leaves_everything_as_it_was(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put("keys", row())
        with db._connection(may_create=False) as connection:
            connection.execute("PRAGMA max_page_count = 8")
        with pytest.raises(StoreWriteError, match="database or disk is full"):
            db.put_all("keys", [row(), row("b", text="x" * 100_000)])
        assert list(db.read("keys")) == [row()]
        db.put("keys", row("b"))


def test_a_writer_that_never_ends_is_an_error_and_readers_do_not_wait(path):
    with closing(SqliteRecordsDb(path, patience_s=0.05)) as db:
        db.put("keys", row())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for write in (lambda: db.put("keys", row("b")), lambda: db.delete("keys", "a")):
                with pytest.raises(StoreLockedError, match="another process"):
                    write()
            assert db.get("keys", "a") == row()
        db.put("keys", row("b"))
        assert ids(db.newest("keys")) == ["b", "a"]


def test_a_place_that_cannot_be_written_to_is_an_error(path):
    path.parent.write_text("a file where a folder should be")
    with closing(SqliteRecordsDb(path)) as db:
        assert db.get("keys", "a") is None
        with pytest.raises(StoreWriteError, match=f"the records database {path} cannot be used"):
            db.put("keys", row())


NOTES = b"These are notes, not a database, and they are longer than a header is." * 9


def test_a_file_of_something_else_is_left_as_it_is(path):
    with closing(SqliteRecordsDb(path)) as db:
        assert db.newest("keys") == []
        assert db.delete("keys", "a") is False
    assert not path.parent.exists()  # reading makes no file
    path.parent.mkdir()
    for made, said in (
        (NOTES, "file is not a database"),
        ("CREATE TABLE mine (x)", "is another program's database"),
        (f"PRAGMA application_id = {APPLICATION_ID}", "has format 0, and this toolcrib reads 1"),
    ):
        path.write_bytes(made if isinstance(made, bytes) else b"")
        if isinstance(made, str):
            with closing(sqlite3.connect(path)) as other:
                other.execute(made)
        before = path.read_bytes()
        with closing(SqliteRecordsDb(path)) as db:
            for use in (lambda db=db: db.put("keys", row()), lambda db=db: db.get("keys", "a")):
                with pytest.raises(StoreDamagedError, match=said):
                    use()
        assert path.read_bytes() == before
    path.write_bytes(b"")  # made and never filled
    with closing(SqliteRecordsDb(path)) as db:
        assert db.newest("keys") == []
        db.put("keys", row())
        assert db.newest("keys") == [row()]


def test_a_torn_file_is_an_error_that_says_what_to_do(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put_all("keys", [row(f"{n:04}", text="x" * 500) for n in range(500)])
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 8192))
    with closing(SqliteRecordsDb(path)) as db:
        rows = [row(f"{n:04}") for n in range(500)]
        for use in (lambda: list(db.read("keys")), lambda: db.put_all("keys", rows)):
            with pytest.raises(StoreDamagedError, match="restore a backup"):
                use()


def test_a_body_that_is_no_json_is_an_error_that_names_the_record(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put("keys", row())
        with closing(sqlite3.connect(path)) as other:
            other.execute("UPDATE records SET body = '[1'")
            other.commit()
        with pytest.raises(StoreDamagedError, match=r"'a' in .*JSON"):
            db.get("keys", "a")


def test_closing_while_a_read_is_under_way_lets_it_end(path):
    with closing(SqliteRecordsDb(path)) as db:
        db.put("keys", row())
        with db._connection(may_create=False) as connection:
            db.close()
            assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
