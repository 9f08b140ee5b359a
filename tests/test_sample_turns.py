"""The sample's turns say only what is so, and those for measuring were never learned from."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from toolcrib import Crib, Message
from toolcrib.context.labels import CONTEXT_FIELDS, label_sets
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import SENSITIVITIES, ToolSpec, Turn
from toolcrib.router.collections import preset
from toolcrib.store.folder import copy_sparsely

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
    "smalltalk": lambda context: context.smalltalk is not None,
    "pii": lambda context: context.sensitivity == "pii",
    "urgent": lambda context: context.urgency == "high",
}


@pytest.fixture(scope="module")
def right():
    """Of each thing that is or is not so, the share of the measured turns where it is told."""
    found = defaultdict(list)
    with Crib.open(":memory:") as crib:
        for row in read("contexts.jsonl"):
            ((field, is_so),) = row["labels"].items()
            if row["split"] == "test":
                found[field, is_so].append(TOLD[field](crib.detect(row["text"])) == is_so)
    return {each: sum(given) / len(given) for each, given in found.items()}


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
    right, field, is_so, least
):
    assert right[field, is_so] >= least


PLAIN = {
    "intent": lambda context: context.intent,
    "urgency": lambda context: context.urgency,
    "sensitivity": lambda context: context.sensitivity,
    "smalltalk": lambda context: context.smalltalk is not None,
}


@pytest.fixture(scope="module")
def plain_shares():
    """Share of plain turns that the shipped models read right, by field."""
    right = defaultdict(list)
    with Crib.open(":memory:") as crib:
        for row in read("plain-turns.jsonl"):
            context = crib.detect(row["text"])
            for field, label in row["labels"].items():
                right[field].append(PLAIN[field](context) == label)
    return {field: sum(each) / len(each) for field, each in right.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "least"),
    [("intent", 0.95), ("urgency", 0.88), ("sensitivity", 0.9), ("smalltalk", 0.95)],
)
def test_plain_turns_are_read_right(plain_shares, field, least):
    assert plain_shares[field] >= least


@pytest.fixture(scope="module")
def own(sample_folder, tmp_path_factory):
    """Crib of the sample's tools and collections."""
    folder = tmp_path_factory.mktemp("own")
    copy_sparsely(sample_folder, folder)
    with Crib.open(folder) as crib:
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
    routes = Counter(
        (row["split"], own.route(row["text"]).route.kind) for row in read("two-wishes.jsonl")
    )
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
    with Crib.open(":memory:") as crib:
        told = [
            (row["labels"]["intent"], crib.detect(row["text"]).intent)
            for row in read("design-turns.jsonl")
            if row["split"] == "test"
        ]
    designs = [found == "design" for right, found in told if right == "design"]
    others = [found == "design" for right, found in told if right != "design"]
    assert sum(designs) / len(designs) >= 0.85
    assert sum(others) <= 1
