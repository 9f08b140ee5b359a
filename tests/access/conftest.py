"""A records database in a folder of its own."""

from __future__ import annotations

from contextlib import closing

import pytest

from toolcrib.store.records_db.sqlite import SqliteRecordsDb


@pytest.fixture
def records_db(tmp_path):
    with closing(SqliteRecordsDb(tmp_path / "ledger.db")) as records_db:
        yield records_db
