"""The gateway as it is served: where its records are, and what the operator hears."""

from __future__ import annotations

import logging
import resource

import pytest

from tests.gateway.conftest import quick_settings
from toolcrib.errors import IndexMismatchError, StoreError
from toolcrib.gateway.gateway import StoreThread
from toolcrib.gateway.serve import open_records, raise_file_limit, report_warnings
from toolcrib.records import ToolSpec
from toolcrib.settings import EncoderSettings, Settings
from toolcrib.store.records_db import DbRow
from toolcrib.tenants import Tenants


@pytest.fixture
def said():
    return []


@pytest.fixture
def report(said):
    return lambda level, text: said.append((level, text))


async def test_an_index_of_another_model_is_left_alone(tmp_path, report, said):
    other = Settings(encoder=EncoderSettings(dense="deterministic:32"))
    for settings in (other, quick_settings()):
        store = StoreThread(str(tmp_path), settings, report)
        crib = await store.open()
        crib.index_tools([ToolSpec(name="echo", server="post")])
        await store.close()

    (told,) = said
    assert told[1].startswith("the index is in memory, for this run only: the index was")


def test_the_limit_of_open_files_is_raised_and_never_lowered(monkeypatch):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for soft, most, after in ((200, 300, 300), (300, 200, 300), (200, 10**9, before[1])):
            monkeypatch.setattr("toolcrib.gateway.serve.MAX_OPEN_FILES", most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
            raise_file_limit()
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (after, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_where_not_even_memory_can_be_used_that_is_told(report, monkeypatch):
    def refuse(*_given, **_more):
        raise IndexMismatchError("no")

    monkeypatch.setattr(Tenants, "open", refuse)
    with pytest.raises(IndexMismatchError):
        await StoreThread(":memory:", quick_settings(), report).open()


def test_approvals_that_cannot_be_kept_are_in_memory_unless_keys_hang_on_them(
    tmp_path, report, said
):
    taken = tmp_path / "taken"
    taken.write_text("a file")

    with pytest.raises(StoreError):
        open_records(str(taken), quick_settings(), report, needed=True)
    records_db = open_records(str(taken), quick_settings(), report, needed=False)
    records_db.put("keys", DbRow("a", 1.0, {}))
    records_db.close()

    assert said[0][1].startswith("approvals are in memory, for this run only: ")


def test_approvals_that_are_there_are_never_replaced_by_memory(tmp_path, report, said):
    open_records(str(tmp_path), quick_settings(), report, needed=False).close()
    # A folder where SQLite wants its log: the file can be neither written nor read.
    (tmp_path / "ledger.db-wal").mkdir()

    with pytest.raises(StoreError, match=r"ledger\.db"):
        open_records(str(tmp_path), quick_settings(), report, needed=False)

    assert said == []


def test_warnings_are_reported_in_one_line_with_what_is_at_the_bottom_of_them(report, said):
    ours, theirs = logging.getLogger("toolcrib"), logging.getLogger("fastmcp")
    before = (ours.propagate, list(ours.handlers), theirs.level)
    with report_warnings(report):
        logging.getLogger("toolcrib.store").info("nothing to speak of")
        logging.getLogger("toolcrib.store").warning("slow by %s s", 3)
        cause = ValueError("no such thing")
        logging.getLogger("toolcrib.store").error("it failed", exc_info=cause)
        theirs.error("not ours")
    logging.getLogger("toolcrib.store").warning("too late")

    assert said == [("warning", "slow by 3 s"), ("error", "it failed: no such thing")]
    assert (ours.propagate, list(ours.handlers), theirs.level) == before
