"""The sample's turns say only what is so, and those for measuring were never learned from."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

from toolcrib import Crib, Message
from toolcrib.context.labels import CONTEXT_FIELDS, label_sets
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import SENSITIVITIES, ToolSpec, Turn
from toolcrib.router.collections import preset

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
        for field in ("intent", "domain"):
            assert labels[field] in {None, *sets[field].labels}
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
    files = ("routes.jsonl", "contexts.jsonl", "plain-turns.jsonl", "design-turns.jsonl")
    others = (row for name in files for row in read(name))
    texts = [row["text"].casefold() for row in (*turns, *others)]
    assert len(set(texts)) == len(texts)


def test_no_turn_for_measuring_is_among_what_the_classifiers_have_seen(turns):
    held_out = (turn for turn in turns if turn["split"] != "train")
    files = ("contexts.jsonl", "plain-turns.jsonl", "design-turns.jsonl")
    measured = (*held_out, *(row for name in files for row in read(name)))
    kept = {turn["text"].casefold() for turn in measured}
    assert kept & said(*CONTEXT_FIELDS) == set()


def test_the_entities_lie_where_their_labels_say(turns):
    for turn in turns:
        for start, end, _ in turn["labels"].get("entities", ()):
            assert turn["text"][start:end].strip() == turn["text"][start:end] != ""


def test_every_collection_of_the_sample_has_a_preset(collections):
    assert all(preset(name).description and preset(name).examples for name in collections)


TOLD = {
    **{field: attrgetter(field) for field in ("intent", "urgency", "sensitivity")},
    "smalltalk": lambda context: context.smalltalk is not None,
    "pii": lambda context: context.sensitivity == "pii",
    "urgent": lambda context: context.urgency == "high",
}


@cache
def right_shares(name):
    """Share of the turns for measuring in a file that are read right, by field, and by label."""
    right = defaultdict(list)
    rows = [row for row in read(name) if row.get("split", "test") == "test"]
    with Crib.open(":memory:") as crib:
        for row in rows:
            context = crib.detect(row["text"])
            for field, label in row["labels"].items():
                for key in (field, (field, label)):
                    right[key].append(TOLD[field](context) == label)
    return {key: sum(found) / len(found) for key, found in right.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "is_so", "least"),
    [
        ("smalltalk", False, 0.9),
        ("smalltalk", True, 0.85),
        ("pii", False, 0.8),
        ("pii", True, 0.75),
        ("urgent", False, 0.85),
        ("urgent", True, 0.85),
    ],
)
def test_what_asks_is_no_small_talk_and_without_a_person_or_trouble_there_is_no_alarm(
    field, is_so, least
):
    assert right_shares("contexts.jsonl")[field, is_so] >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "least"),
    [("intent", 0.95), ("urgency", 0.88), ("sensitivity", 0.9), ("smalltalk", 0.95)],
)
def test_plain_turns_are_read_right(field, least):
    assert right_shares("plain-turns.jsonl")[field] >= least


@pytest.fixture(scope="module")
def own(sample_copy):
    """Crib of the sample's tools and collections."""
    with Crib.open(sample_copy) as crib:
        yield crib


def first_tool(decision):
    """Best tool that does not come with every turn."""
    return next((hit.id for hit in decision.tools.tools if not hit.tool.always_active), None)


@pytest.mark.slow
def test_turns_of_a_conversation_drop_the_old_subject_answer_what_was_asked_and_close(own):
    right, alone = Counter(), Counter()
    for row in read("conversations.jsonl"):
        roles = zip(("user", "assistant"), row["before"], strict=True)
        history = tuple(Message(role=role, content=text) for role, text in roles)
        for counts, before in ((right, history), (alone, ())):
            decision = own.route(Turn(text=row["text"], history=before))
            goes_nowhere = decision.route.kind == "none"
            is_right = first_tool(decision) in row["tools"] if row["tools"] else goes_nowhere
            counts[row["kind"]] += is_right
    assert right["change"] >= alone["change"] - 1 >= 57
    assert right["answer"] >= 11
    assert right["closing"] == 12


def test_an_order_and_a_question_in_one_turn_go_to_both(own):
    rows = read("two-wishes.jsonl")
    routes = Counter((row["split"], own.route(row["text"]).route.kind) for row in rows)
    assert min(routes["dev", "both"], routes["test", "both"]) >= 11


@pytest.mark.parametrize(
    ("text", "field", "label"),
    [
        ("Fix the null pointer crash in checkout.py, production is down!", "intent", "debug"),
        ("Fix the null pointer crash in checkout.py, production is down!", "urgency", "high"),
        ("debug the memory leak in the worker", "sensitivity", "internal"),
        ("translate the handbook to Spanish", "intent", "transform"),
        ("can you restart nginx on web-02?", "intent", "generate"),
        ("Who wrote to me last", "smalltalk", None),
        ("when was my last login", "smalltalk", None),
        ("who are you?", "smalltalk", "assistant"),
    ],
)
def test_what_a_turn_states_outright_is_believed(text, field, label):
    with Crib.open(":memory:") as crib:
        assert getattr(crib.detect(text), field) == label


@pytest.mark.slow
def test_designs_are_told_from_what_only_speaks_of_a_design():
    told = {True: [], False: []}
    with Crib.open(":memory:") as crib:
        for row in read("design-turns.jsonl"):
            if row["split"] == "test":
                is_design = row["labels"]["intent"] == "design"
                told[is_design].append(crib.detect(row["text"]).intent == "design")
    assert sum(told[True]) / len(told[True]) >= 0.85
    assert sum(told[False]) <= 1
