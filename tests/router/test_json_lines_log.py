"""JSON Lines: one line a record, rotated, whole again after a torn line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.log_conformance import DecisionLogContract, opened, start_writer
from tests.router.log_writer import entry
from toolcrib.errors import StoreDamagedError, StoreWriteError
from toolcrib.router.decision_log import JsonLinesLog

LENGTH = 300


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs" / "decisions.jsonl"


class TestJsonLinesLog(DecisionLogContract):
    """Appended, never changed."""


def sized(number: int) -> dict[str, object]:
    """A record whose line is `LENGTH` bytes long."""
    record = {"kind": "decision", "id": f"a-{number:03}", "filling": ""}
    length = len(json.dumps(record, separators=(",", ":"))) + 1
    return record | {"filling": "x" * (LENGTH - length)}


def written(path, count: int, **settings) -> JsonLinesLog:
    log = JsonLinesLog(path, **settings)
    for number in range(count):
        log.write(sized(number))
    return log


def numbers(log: JsonLinesLog) -> list[int]:
    return [int(record["id"][2:]) for record in log.read()]


def test_a_record_is_one_line_of_ascii(path):
    JsonLinesLog(path).write({"kind": "decision", "id": "ä\n"})
    assert path.read_bytes() == b'{"kind":"decision","id":"\\u00e4\\n"}\n'


def test_a_full_file_is_put_aside_and_the_oldest_goes(path):
    log = written(path, 11, max_bytes=3 * LENGTH, kept=2)
    names = sorted(file.name for file in path.parent.iterdir() if file.suffix != ".lock")
    assert names == ["decisions.jsonl", "decisions.jsonl.1", "decisions.jsonl.2"]
    assert numbers(log) == list(range(3, 11))
    assert path.with_name("decisions.jsonl.1").stat().st_size == 3 * LENGTH


def test_what_was_put_aside_is_found_as_well(path):
    log = written(path, 8, max_bytes=3 * LENGTH, kept=2)
    assert log.find("a-000") == sized(0)


def test_with_none_to_keep_a_full_file_goes(path):
    assert numbers(written(path, 7, max_bytes=3 * LENGTH, kept=0)) == [6]


def test_keeping_fewer_removes_what_is_too_much(path):
    written(path, 12, max_bytes=3 * LENGTH, kept=5)
    log = JsonLinesLog(path, max_bytes=3 * LENGTH, kept=1)
    log.write(sized(12))
    assert numbers(log) == [9, 10, 11, 12]


def test_a_record_that_is_longer_than_a_file_may_be_is_kept_whole(path):
    log = JsonLinesLog(path, max_bytes=LENGTH, kept=2)
    log.write(entry("a", 100))
    log.write(sized(1))
    assert [record["id"] for record in log.read()] == ["a-100", "a-001"]


def test_a_rotation_that_was_broken_off_hides_nothing(path):
    log = written(path, 9, max_bytes=3 * LENGTH, kept=5)
    path.with_name("decisions.jsonl.1").rename(path.with_name("decisions.jsonl.3"))
    assert sorted(numbers(log)) == list(range(9))


def test_processes_rotate_together_and_lose_nothing(path):
    children = [start_writer(path, name, 200, 20_000) for name in "ab"]
    for child in children:
        child.communicate()
    found = [record["id"] for record in opened(path).read()]
    assert len(found) == len(set(found)) == 400
    assert path.with_name("decisions.jsonl.2").exists()


def test_while_another_process_rotates_a_record_goes_where_it_can(path, monkeypatch):
    from filelock import FileLock

    monkeypatch.setattr("toolcrib.router.decision_log.PATIENCE_S", 0)
    log = written(path, 3, max_bytes=3 * LENGTH)
    with FileLock(f"{path}.lock"):
        log.write(sized(3))
    assert numbers(log) == [0, 1, 2, 3]
    assert not path.with_name("decisions.jsonl.1").exists()


@given(st.binary(max_size=60))
def test_whatever_a_crash_left_at_the_end_costs_that_line_only(tmp_path_factory, torn):
    path = tmp_path_factory.mktemp("torn") / "log.jsonl"
    log = written(path, 2)
    with path.open("ab") as file:
        file.write(torn)
    log.write(sized(2))
    records = [record for record in log.read() if "filling" in record]
    assert [record["id"] for record in records] == ["a-000", "a-001", "a-002"]


@given(cut=st.integers(1, LENGTH - 1))
def test_a_record_cut_anywhere_is_passed_over(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "log.jsonl"
    log = written(path, 2)
    path.write_bytes(path.read_bytes()[: LENGTH + cut])
    assert numbers(log) == ([0, 1] if cut == LENGTH - 1 else [0])
    log.write(sized(2))
    assert numbers(log)[-1] == 2


def test_a_disk_that_takes_a_part_is_an_error_and_the_next_record_is_whole(path, monkeypatch):
    import os

    write = os.write
    log = written(path, 1)
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    with pytest.raises(StoreWriteError, match="only a part of a record was taken"):
        log.write(sized(1))
    monkeypatch.undo()
    log.write(sized(2))
    assert numbers(log) == [0, 2]


def test_a_log_that_is_no_file_cannot_be_read(path):
    path.mkdir(parents=True)
    with pytest.raises(StoreDamagedError, match=r"decisions\.jsonl cannot be read"):
        list(JsonLinesLog(path).read())


def test_a_line_nested_without_end_is_passed_over(path):
    log = written(path, 1)
    with path.open("ab") as file:
        file.write(b"[" * 200_000 + b"\n")
    assert numbers(log) == [0]
