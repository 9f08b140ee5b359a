"""Where the index and the approvals are, and what happens where they cannot be."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import quick_settings
from toolcrib.errors import IndexMismatchError, StoreError
from toolcrib.gateway import opening
from toolcrib.gateway.opening import open_ledger, open_store
from toolcrib.records import ToolSpec
from toolcrib.settings import EncoderSettings, Settings
from toolcrib.store.records_db.base import DbRow


@pytest.fixture
def said():
    return []


@pytest.fixture
def say(said):
    return lambda level, text: said.append((level, text))


def test_a_folder_is_opened_or_made(tmp_path, say, said):
    with open_store(str(tmp_path / "store"), quick_settings(), say) as opened:
        assert opened.location == str(tmp_path / "store")

    assert said == []


def test_an_index_of_another_model_is_left_alone(tmp_path, say, said):
    other = Settings(encoder=EncoderSettings(dense="deterministic:32"))
    with open_store(str(tmp_path), other, say) as opened:
        opened.crib().index_tools([ToolSpec(name="echo", server="post")])
    with open_store(str(tmp_path), quick_settings(), say) as opened:
        assert opened.location == ":memory:"

    assert said[0][1].startswith("the index is kept in memory, for this run alone: the index was")


def test_where_not_even_memory_can_be_used_that_is_told(say, monkeypatch):
    def refuse(*_given, **_more):
        raise IndexMismatchError("no")

    monkeypatch.setattr(opening.Namespaces, "open", refuse)
    with pytest.raises(IndexMismatchError):
        open_store(":memory:", quick_settings(), say)


def test_approvals_are_kept_beside_the_index(tmp_path, say, said):
    ledger = open_ledger(str(tmp_path), quick_settings(), say, needed=True)
    ledger.put("keys", DbRow("a", 1.0, {}))
    ledger.close()

    again = open_ledger(str(tmp_path), quick_settings(), say, needed=False)
    assert "keys" in again.tables()
    again.close()
    assert said == []


def test_approvals_that_cannot_be_kept_are_in_memory_unless_keys_hang_on_them(tmp_path, say, said):
    taken = tmp_path / "taken"
    taken.write_text("a file")

    with pytest.raises(StoreError):
        open_ledger(str(taken), quick_settings(), say, needed=True)
    ledger = open_ledger(str(taken), quick_settings(), say, needed=False)
    ledger.put("keys", DbRow("a", 1.0, {}))
    ledger.close()

    assert said[0][1].startswith("approvals are kept in memory, for this run alone: ")
