"""The contract of a log of decisions, executable: what every kind must do.

To hold a new kind to it, inherit and supply the fixture `path`, a name that it is known by.
"""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.router.log_writer import entry
from toolcrib.errors import StoreWriteError
from toolcrib.router.decision_log import DecisionLog, open_log
from toolcrib.router.settings import TelemetrySettings

WRITER = Path(__file__).with_name("log_writer.py")
HOSTILE = 'line\nbreak \u2028 "quote" \ud800 \x00 😀'


def opened(path: Path, **settings) -> DecisionLog:
    log = open_log(TelemetrySettings(str(path), **settings))
    assert log is not None
    return log


def start_writer(path: Path, name: str, count: int, max_bytes: int = 2**20) -> subprocess.Popen:
    command = [sys.executable, str(WRITER), str(path), name, str(count), str(max_bytes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


class DecisionLogContract:
    """What is written is read, in order, by whoever opens it next."""

    @pytest.fixture
    def log(self, path: Path):
        log = opened(path)
        yield log
        log.close()

    def test_records_are_read_in_the_order_in_which_they_were_written(self, log, path):
        records = [entry("a", number) for number in range(5)]
        for record in records:
            log.write(record)
        assert list(log.read()) == records
        assert list(opened(path).read()) == records

    def test_a_log_that_was_never_written_to_is_empty_and_makes_no_file(self, log, path):
        assert list(log.read()) == []
        assert log.find("d1") is None
        assert not path.parent.exists()

    def test_any_text_comes_back_as_it_was(self, log):
        record = entry("a", 1) | {"note": HOSTILE}
        log.write(record)
        assert list(log.read()) == [record]

    def test_a_decision_is_found_by_its_id_and_nothing_else_is(self, log):
        feedback = {"kind": "feedback", "decision": "a-1", "at": "", "id": "a-2"}
        for record in (entry("a", 1), entry("a", 3), feedback):
            log.write(record)
        assert log.find("a-1") == entry("a", 1)
        assert log.find("a-2") is None
        assert log.find("a") is None

    def test_of_two_decisions_with_one_id_the_later_is_found(self, log):
        log.write(entry("a", 1))
        log.write(entry("a", 1) | {"filling": "new"})
        assert log.find("a-1")["filling"] == "new"

    def test_after_closing_what_was_written_is_there_and_writing_goes_on(self, log):
        log.write(entry("a", 1))
        log.close()
        log.close()
        log.write(entry("a", 2))
        assert [record["id"] for record in log.read()] == ["a-1", "a-2"]

    def test_only_the_owner_can_read_it(self, log, path):
        log.write(entry("a", 1))
        assert path.stat().st_mode & 0o777 == 0o600

    def test_threads_do_not_mix_their_records(self, log):
        def write(name: str) -> None:
            for number in range(60):
                log.write(entry(name, number))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, "abcd"))
        written = list(log.read())
        assert len(written) == 240
        for name in "abcd":
            own = [record for record in written if record["id"].startswith(name)]
            assert own == [entry(name, number) for number in range(60)]

    @pytest.mark.slow
    def test_processes_do_not_mix_their_records(self, path):
        writers = {name: start_writer(path, name, 150) for name in "abc"}
        acknowledged = {name: child.communicate()[0].split() for name, child in writers.items()}
        assert all(len(ids) == 150 for ids in acknowledged.values())
        by_name = {name: [] for name in "abc"}
        for record in opened(path).read():
            by_name[record["id"][0]].append(record)
        for name, own in by_name.items():
            assert own == [entry(name, number) for number in range(150)]

    def test_a_killed_writer_loses_nothing_that_was_taken_and_the_next_goes_on(self, path):
        dice = random.Random(3)
        taken: set[str] = set()
        for name in "ab":
            child = start_writer(path, name, 100_000)
            for _ in range(dice.randrange(200, 400)):
                taken.add(child.stdout.readline().strip())
            child.kill()
            child.communicate()
        log = opened(path)
        log.write(entry("z", 1))
        found = {record["id"] for record in log.read()}
        log.close()
        assert taken | {"z-1"} <= found

    def test_a_place_that_cannot_be_written_to_is_an_error_that_names_the_setting(self, path):
        path.parent.parent.mkdir(exist_ok=True)
        path.parent.write_text("a file where a folder should be")
        log = opened(path)
        with pytest.raises(
            StoreWriteError, match=r"cannot be (written to|used) .* telemetry\.path"
        ):
            log.write(entry("a", 1))
        log.close()
