"""Indexing by actors of Ray gives the index that one process gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as engine

from toolcrib import Crib, Settings, build
from toolcrib.errors import EncoderError, MissingExtraError, StoreError
from toolcrib.indexers import ray_data
from toolcrib.indexers.documents.sources import passages
from toolcrib.indexers.ray_data import RayActors, read_documents
from toolcrib.store.qdrant_edge import EdgeStore

RULES = "# Rule {n}\n\nParcel {n} may weigh at most {n} kilograms.\n"


def test_without_its_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"indexing with Ray needs the extra 'ray'"):
        RayActors()


@pytest.fixture(scope="module")
def actors() -> Iterator[RayActors]:
    ray = pytest.importorskip("ray")
    yield RayActors(count=2)
    ray.shutdown()


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    for n in range(7):
        (folder / f"{n}.md").write_text(RULES.format(n=n))
    (folder / "broken.pdf").write_bytes(b"no PDF")
    return folder


def points(store: Path) -> dict[int, tuple[object, object]]:
    """Everything of every point: payload, and vectors as they are stored."""
    (shard,) = store.glob("*/shard")
    opened = engine.EdgeShard.load(str(shard))
    asked = engine.ScrollRequest(None, 1000, None, with_payload=True, with_vector=True)
    found, _ = opened.scroll(asked)
    opened.close()
    return {record.id: (record.payload, vectors(record.vector)) for record in found}


def vectors(named: dict[str, object]) -> dict[str, object]:
    lexical = named["lexical"]
    return {**named, "lexical": sorted(zip(lexical.indices, lexical.values, strict=True))}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_index_is_that_of_one_process_and_a_broken_off_run_goes_on(
    documents: Path,
    tmp_path: Path,
    settings: Settings,
    actors: RayActors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolcrib.indexers.writer.PAGE", 4)
    how = {"collection": "post", "max_tokens": 200, "limits": settings.documents.limits}
    with Crib.open(tmp_path / "one", settings=settings) as crib:
        report = crib.index_docs(documents, collection="post")
    read = read_documents(str(documents), **how, actors=actors)
    assert list(read.entries) == list(passages(documents, **how))

    dense = build.make_ray_encoder(settings, actors)
    upsert, full = EdgeStore.upsert, StoreError("the disk is full")

    def once(store, page):
        upsert(store, page)
        raise full

    with Crib.open(tmp_path / "two", settings=settings, dense=dense) as crib:
        monkeypatch.setattr(EdgeStore, "upsert", once)
        with pytest.raises(StoreError, match="full"):
            crib.index_docs(read, collection="post")
        monkeypatch.setattr(EdgeStore, "upsert", upsert)
        rest = crib.index_docs(read, collection="post")
    assert rest.unchanged
    assert rest.added
    assert {*rest.added, *rest.unchanged} == {*report.added}
    assert rest.refused == report.refused
    assert points(tmp_path / "one" / "library") == points(tmp_path / "two" / "library")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_what_an_encoder_says_comes_back_as_it_is(actors: RayActors) -> None:
    with pytest.raises(EncoderError, match=r"^no vector for b$"):
        list(actors.map(refusing, ["a", "b"]))


def refusing():
    def work(text: str) -> np.ndarray:
        if text == "b":
            raise EncoderError("no vector for b")
        return np.zeros(1)

    return work


def test_actors_are_given_no_keys(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to other machines makes the encoder, and is nothing else of the settings."""
    monkeypatch.setattr(ray_data, "require_extra", lambda *_: None)
    encoder = build.make_ray_encoder(settings, RayActors())
    assert encoder._make.args == (settings.encoder.model_copy(update={"threads": 1}),)
