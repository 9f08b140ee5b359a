"""A machine that loses its power: what was acknowledged is there when it is on again."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.faults.cut_disk import CutDisk
from tests.fork_server import ForkedProcess
from tests.store.killed_indexer import tools
from toolcrib import Crib

COUNT = 300


@pytest.fixture(autouse=True)
def durability(monkeypatch):
    monkeypatch.setenv("TOOLCRIB_DURABILITY", "disk")


@pytest.fixture
def disk(tmp_path):
    try:
        made = CutDisk(tmp_path, 200 * 2**20)
    except OSError as reason:
        pytest.skip(f"no disk of its own can be had here: {reason}")
    yield made
    made.close()


def by_id(listed):
    return {tool.id: tool for tool in listed}


def index(store, number):
    arguments = (str(store), str(number), str(COUNT))
    with closing(ForkedProcess("tests.store.killed_indexer", *arguments)) as indexer:
        assert len(indexer.stdout.readlines()) == COUNT
        assert indexer.wait() == 0


def test_a_cut_right_after_indexing_loses_nothing(disk, settings):
    store = disk.folder / "store"
    for number in range(2):
        index(store, number)
        with Crib.open(disk.cut() / "store", settings=settings) as crib:
            assert by_id(crib.list_tools()) == by_id(tools(number, COUNT))


def test_a_cut_between_writes_of_an_open_index_loses_nothing(disk, settings):
    held = {}
    with Crib.open(disk.folder / "store", settings=settings) as crib:
        for number in range(3):
            crib.index_tools(tools(number, 100))
            crib.remove_tools(f"tool {number}")
            held = by_id(crib.list_tools())
            with Crib.open(disk.cut() / "store", settings=settings) as found:
                assert by_id(found.list_tools()) == held
                assert found.find_tools("turns bolt50", k=1).tools[0].id == "tool 50"
        crib.index_tools(tools(3, 50))
    with Crib.open(disk.cut() / "store", settings=settings) as found:
        assert sum(1 for _ in found.list_tools()) == 100
