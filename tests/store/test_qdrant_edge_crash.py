"""Killed at any moment, the store opens again with every acknowledged tool, whole and findable."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import rounds
from tests.fork_server import ForkedProcess
from tests.store.killed_indexer import tools
from toolcrib import Crib
from toolcrib.errors import StoreDamagedError, StoreWriteError
from toolcrib.indexers.points import layout
from toolcrib.store.base import LegQuery, Point, point_id
from toolcrib.store.qdrant_edge import EdgeStore

COUNT = 600


def run_and_kill(folder: Path, number: int, acknowledgements: int) -> set[str]:
    """Start an indexer, kill it after so many acknowledged tools; what it acknowledged."""
    child = ForkedProcess("tests.store.killed_indexer", str(folder), str(number), str(COUNT))
    done: set[str] = set()
    for line in child.stdout:
        done.add(line.rstrip("\n"))
        if len(done) >= acknowledgements:
            child.kill()
            break
    # What it wrote before it died was acknowledged as well; a last line may be cut.
    done |= {line[:-1] for line in child.stdout if line.endswith("\n")}
    child.wait()
    child.close()
    return done


@pytest.mark.slow
@pytest.mark.fuzz
def test_killed_at_random_points_every_acknowledged_tool_is_there(tmp_path, settings):
    dice, runs = random.Random(7), rounds(3, 30)
    folder = tmp_path / "store"
    killed = 0
    for number in range(runs):
        acknowledged = run_and_kill(folder, number, dice.randrange(COUNT))
        killed += len(acknowledged) < COUNT
        with Crib.open(folder, settings=settings) as crib:
            held = {tool.id: tool for tool in crib.list_tools()}
            new = {tool.id: tool for tool in tools(number, COUNT)}
            before = {tool.id: tool for tool in tools(number - 1, COUNT)}
            assert {i for i in acknowledged if held.get(i) != new[i]} == set()
            # Not torn: the rest is as some run wrote it, whole.
            torn = [
                tool_id
                for tool_id, tool in held.items()
                if tool != new[tool_id] and tool.description == new[tool_id].description
            ]
            assert torn == []
            assert all(i in before for i in held)
            for tool_id in dice.sample(sorted(acknowledged), min(5, len(acknowledged))):
                bolt = tool_id.replace("tool ", "bolt")
                best = crib.find_tools(f"turns {bolt} as round{number} has it", k=3, explain=True)
                hit = next(hit for hit in best.tools if hit.id == tool_id)
                assert hit.legs["dense"] > 0.5
                assert hit.legs["lexical"] > 0
    assert killed >= runs // 2


@pytest.mark.slow
def test_the_next_run_finishes_the_work(tmp_path, settings):
    folder = tmp_path / "store"
    run_and_kill(folder, 0, COUNT // 4)
    with Crib.open(folder, settings=settings) as crib:
        report = crib.index_tools(tools(0, COUNT))
        assert len(report.added) + len(report.unchanged) == COUNT
        assert sum(1 for _ in crib.list_tools()) == COUNT


def test_the_log_is_on(tmp_path):
    with EdgeStore.open(tmp_path, layout(8)) as store:
        assert store.layout == layout(8)
    assert '"wal_enabled":true' in next(tmp_path.glob("g*/shard/edge_config.json")).read_text()


def test_a_second_process_gets_an_error_at_once_and_does_no_damage(tmp_path, settings):
    command = [sys.executable, "-m", "toolcrib", "list", "--store", str(tmp_path / "s")]
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        crib.index_tools(tools(0, 10))
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 3
        assert "is in use by process" in second.stderr
        assert "Traceback" not in second.stderr
        assert crib.index_tools(tools(1, 10)).changed
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        assert {tool.version for tool in crib.list_tools()} == {"1"}


GOOD = np.full(4, 0.5, np.float32)


def write_point(folder: Path, **how: bool) -> None:
    with EdgeStore.open(folder, layout(4), **how) as store:
        store.upsert([Point(point_id("a"), {}, {"dense": GOOD})])


def test_a_nearly_full_disk_is_an_error_and_what_was_written_stays(tmp_path, monkeypatch, caplog):
    write_point(tmp_path)
    assert not caplog.records
    monkeypatch.setattr("toolcrib.store.qdrant_edge.MIN_FREE_BYTES", 2**60)
    with EdgeStore.open(tmp_path, layout(4)) as store:
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        assert f"{tmp_path} is opened read-only" in caplog.text
        with pytest.raises(StoreWriteError, match=f"{tmp_path}.*{2**40} MiB"):
            store.upsert([Point(point_id("b"), {}, {"dense": GOOD})])
        assert store.count() == 1


def test_a_folder_that_cannot_be_made_is_an_error_that_says_where(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreDamagedError, match=f"{tmp_path / 'file' / 'store'} .*a file"):
        EdgeStore.open(tmp_path / "file" / "store", layout(4))


def test_somebody_elses_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.doc").write_text("mine")
    with pytest.raises(StoreDamagedError, match=f"{tmp_path} .*'thesis.doc'"):
        EdgeStore.open(tmp_path, layout(4))
    (left,) = tmp_path.iterdir()
    assert (left.name, left.read_text()) == ("thesis.doc", "mine")


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path):
    EdgeStore.open(tmp_path, layout(4)).close()
    next(tmp_path.glob("g*/checksums.json")).unlink()
    next(tmp_path.glob("g*/layout.json")).write_text("{")
    with pytest.raises(StoreDamagedError, match=r"layout\.json cannot be read"):
        EdgeStore.open(tmp_path, layout(4))
    (tmp_path / "current").write_text("g0099\n")
    with pytest.raises(StoreDamagedError, match="names 'g0099', which is missing"):
        EdgeStore.open(tmp_path, layout(4))


@pytest.mark.slow
def test_searches_go_on_while_the_graph_is_built_elsewhere(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((4000, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with EdgeStore.open(tmp_path, layout(16)) as store:
        store.upsert([Point(point_id(str(n)), {}, {"dense": row}) for n, row in enumerate(rows)])
        before = store.search([LegQuery("dense", rows[0], 10)])
        assert not store.info().optimised
        builder = threading.Thread(target=store.optimise)
        builder.start()
        during = 0
        while builder.is_alive():
            assert store.search([LegQuery("dense", rows[0], 10)])[0][0].id == point_id("0")
            during += 1
            builder.join(0.01)
        assert store.info().optimised
        assert during
        after = store.search([LegQuery("dense", rows[0], 10)])
        assert [hit.id for hit in after[0]][:5] == [hit.id for hit in before[0]][:5]
        assert store.count() == 4000
    assert len(list(tmp_path.glob("g*"))) == 1


def test_a_failed_optimisation_leaves_the_index_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("toolcrib.store.qdrant_edge.OPTIMISE_FROM_POINTS", 1)
    monkeypatch.setattr("toolcrib.store.qdrant_edge.sys.executable", "/bin/false")
    with EdgeStore.open(tmp_path, layout(4)) as store:
        store.upsert([Point(point_id(str(n)), {}, {"dense": GOOD}) for n in range(5)])
        with pytest.raises(Exception, match="optimising a copy of"):
            store.optimise()
        assert store.count() == 5
        assert len(list(tmp_path.glob("g*"))) == 1


READER = """
import os, sys
from pathlib import Path
from toolcrib.indexers.points import layout
from toolcrib.store.qdrant_edge import EdgeStore

with EdgeStore.open(Path(sys.argv[1]), layout(4), ends_with_process=True) as store:
    assert store.count() == 1
    if sys.argv[2] == "killed":
        os._exit(0)
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of the files of the live generation, but for the config that each load rewrites."""
    files = (file for file in folder.glob("g*/**/*") if file.is_file())
    return {str(file): file.read_bytes() for file in files if file.name != "edge_config.json"}


def read_in_process(folder: Path, end: str) -> None:
    """Open and read a store in a process of its own, which is then closed or killed."""
    subprocess.run([sys.executable, "-c", READER, str(folder), end], check=True)


def test_a_process_that_only_reads_leaves_the_files_as_they_were(tmp_path):
    write_point(tmp_path)
    read_in_process(tmp_path, "closed")
    before = contents(tmp_path)
    read_in_process(tmp_path, "closed")
    assert contents(tmp_path) == before
    with EdgeStore.open(tmp_path, layout(4)) as store:
        store.upsert([Point(point_id("b"), {}, {"dense": GOOD})])
        assert store.count() == 2


def test_a_reader_that_was_killed_leaves_a_store_that_opens(tmp_path):
    write_point(tmp_path)
    for end in ("killed", "closed", "killed", "closed"):
        read_in_process(tmp_path, end)
    with EdgeStore.open(tmp_path, layout(4)) as store:
        assert store.count() == 1


def test_a_write_by_a_process_that_ends_is_closed_like_any_other(tmp_path):
    EdgeStore.open(tmp_path, layout(4)).close()
    write_point(tmp_path, ends_with_process=True)
    with EdgeStore.open(tmp_path, layout(4)) as store:
        assert store.count() == 1
