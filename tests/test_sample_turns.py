"""The sample's turns say only what is so, and those for measuring were never learned from."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import SENSITIVITIES, ToolSpec, Turn
from toolcrib.router.collections import preset
from toolcrib.router.context.labels import FIELDS, label_sets

DATA = Path(__file__).parent.parent / "data"
ROUTES = {"tools", "knowledge", "both", "general", "none"}
URGENCIES = {"low", "medium", "high"}


def read(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def turns():
    return read("turns.jsonl")


@pytest.fixture(scope="module")
def collections():
    return {folder.name for folder in (DATA / "collections").iterdir() if folder.is_dir()}


def said(*fields):
    """What the classifiers of these fields have seen, whatever its case."""
    sets = label_sets({})
    return {text.casefold() for field in fields for text, _ in sets[field].texts()}


def test_there_are_enough_turns_of_every_kind(turns):
    assert len(turns) >= 250
    counts = Counter((turn["split"], turn["labels"]["route"]) for turn in turns)
    assert all(counts[split, route] >= 5 for split in ("train", "dev", "test") for route in ROUTES)


@pytest.mark.parametrize("name", ["turns.jsonl", "routes.jsonl"])
def test_every_label_is_one_that_there_is(name, collections):
    sets = label_sets({})
    for row in read(name):
        labels = row["labels"]
        assert labels["route"] in ROUTES
        assert set(labels["collections"]) <= collections
        assert labels["intent"] is None or labels["intent"] in sets["intent"].labels
        assert labels["domain"] is None or labels["domain"] in sets["domain"].labels
        assert labels["urgency"] in URGENCIES
        assert labels["sensitivity"] in SENSITIVITIES
        assert Turn(text=row["text"], history=row.get("history", ())).text


def test_the_right_tools_are_in_the_registry(turns):
    sources = (DATA / "registry", f"{DATA}/registry/home_tools.py:TOOLS")
    found = [item for source in sources for _, item in tool_entries(source, None, None)]
    known = {item.id for item in found if isinstance(item, ToolSpec)}
    named = {tool for turn in turns for tool in turn["labels"]["tools"]}
    assert named <= known


def test_no_turn_is_there_twice(turns):
    texts = [row["text"].casefold() for row in (*turns, *read("routes.jsonl"))]
    assert len(set(texts)) == len(texts)


def test_no_turn_for_measuring_is_among_what_the_classifiers_have_seen(turns):
    kept = {turn["text"].casefold() for turn in turns if turn["split"] != "train"}
    assert kept & said(*FIELDS) == set()


def test_the_entities_lie_where_their_labels_say(turns):
    for turn in turns:
        for start, end, _ in turn["labels"].get("entities", ()):
            assert turn["text"][start:end].strip() == turn["text"][start:end] != ""


def test_every_collection_of_the_sample_has_a_preset(collections):
    assert all(preset(name).description and preset(name).examples for name in collections)
