"""Labelled queries become pairs, several sets become one, and no pair loses its texts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.indexers.points import dense_text
from toolcrib.records import ToolSpec
from toolcrib.training.examples import Example, TrainingData, from_labels, joined, pruned, sampled

TOOLS = tuple(
    ToolSpec(name=name, server="desk", description=f"{name} something.")
    for name in ("send", "read", "file", "burn")
)
SEND, READ, FILE, BURN = (dense_text(tool) for tool in TOOLS)


def learnt(*queries, tools=TOOLS):
    return from_labels(DataSet("desk", tools, ()), queries)


def asked(text="do it", **relevant):
    grades = {f"desk/{name}": grade for name, grade in relevant.items()}
    return LabelledQuery("q", text, "train", grades)


def told(data):
    """What the pairs say, wherever their texts stand."""
    text = data.documents.__getitem__
    return [
        (
            e.query,
            text(e.positive),
            frozenset(map(text, e.relevant)),
            tuple(map(text, e.negatives)),
            e.source,
        )
        for e in data.examples
    ]


def test_a_query_is_drawn_to_the_text_that_the_encoder_reads_of_its_tool():
    assert told(learnt(asked("post it", send=1))) == [
        ("post it", SEND, frozenset({SEND}), (), "desk")
    ]


def test_all_tools_texts_are_there_whether_a_query_needs_them_or_not():
    assert set(learnt().documents) == {SEND, READ, FILE, BURN}
    assert learnt().examples == ()


def test_a_query_of_many_tools_gives_two_pairs_of_the_best_and_masks_all():
    pairs = told(learnt(asked(send=1, read=3, file=2, burn=1)))
    assert [positive for _, positive, *_ in pairs] == [READ, FILE]
    assert all(relevant == {SEND, READ, FILE, BURN} for _, _, relevant, *_ in pairs)


def test_among_equal_grades_the_order_of_ids_decides_not_that_of_the_labels():
    one, other = learnt(asked(send=1, read=1, file=1)), learnt(asked(file=1, read=1, send=1))
    assert told(one) == told(other)
    assert [positive for _, positive, *_ in told(one)] == [FILE, READ]


def test_labels_without_a_tool_are_passed_over_and_so_are_queries_of_none():
    pairs = told(learnt(asked(gone=9, send=1), asked(gone=1), asked()))
    assert [(positive, relevant) for _, positive, relevant, *_ in pairs] == [(SEND, {SEND})]


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_a_blank_query_teaches_nothing(text):
    assert learnt(asked(text, send=1)).examples == ()


def test_a_query_is_cleaned_as_texts_are():
    assert [e.query for e in learnt(asked(" post\n it\u200b ", send=1)).examples] == ["post it"]


def test_tools_that_read_the_same_are_one_text():
    twins = tuple(ToolSpec(id=name, name="send", description="Sends it.") for name in "ab")
    data = learnt(LabelledQuery("q", "post it", relevant={"b": 1}), tools=twins)
    assert told(data) == [
        ("post it", "send: Sends it.", frozenset({"send: Sends it."}), (), "desk")
    ]
    assert len(data.documents) == 1


def test_the_order_of_the_tools_changes_nothing():
    assert learnt(asked(send=1)) == learnt(asked(send=1), tools=TOOLS[::-1])


def test_the_sample_data_teaches_of_every_answerable_query(sample):
    train = sample.split("train")
    data = from_labels(sample, train)
    answered = [query for query in train if query.relevant]
    assert {e.query for e in data.examples} == {" ".join(query.text.split()) for query in answered}
    assert len(data.examples) == sum(min(2, len(query.relevant)) for query in answered)


@st.composite
def parts(draw):
    documents = draw(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
    places = st.integers(0, len(documents) - 1)
    examples = st.builds(
        Example,
        query=st.text("xyz", max_size=3),
        positive=places,
        relevant=st.frozensets(places),
        source=st.sampled_from(("one", "other")),
        negatives=st.lists(places, max_size=3).map(tuple),
    )
    return TrainingData(tuple(documents), tuple(draw(st.lists(examples, max_size=5))))


@given(st.lists(parts(), max_size=4))
def test_joined_sets_keep_every_pairs_texts(several):
    whole = joined(several)
    assert told(whole) == [pair for part in several for pair in told(part)]


@given(st.lists(parts(), max_size=4))
def test_a_text_that_two_sets_hold_is_one_text(several):
    whole = joined(several)
    assert len(set(whole.documents)) == len(whole.documents)
    assert set(whole.documents) == {text for part in several for text in part.documents}


@given(parts())
def test_joining_one_set_changes_nothing(part):
    assert joined([part]) == part


@given(parts(), st.integers(0, 6), st.integers())
def test_a_sample_is_of_the_set_as_large_as_asked_and_the_seeds(data, limit, seed):
    drawn = sampled(data, limit, seed)
    assert len(drawn.examples) == min(limit, len(data.examples))
    assert drawn.documents == data.documents
    assert all(drawn.examples.count(e) <= data.examples.count(e) for e in drawn.examples)
    assert drawn == sampled(data, limit, seed)


@given(parts())
def test_pruned_data_keeps_every_pairs_texts_and_no_other(data):
    kept = pruned(data)
    assert told(kept) == told(data)
    pointed_to = {p for e in kept.examples for p in (e.positive, *e.relevant, *e.negatives)}
    assert pointed_to == set(range(len(kept.documents)))


def test_another_seed_draws_another_sample():
    data = TrainingData(("a",), tuple(Example(str(n), 0, frozenset({0}), "s") for n in range(50)))
    assert sampled(data, 5, seed=1) != sampled(data, 5, seed=2)
    assert sampled(data, 50, seed=1) is data


DATA = TrainingData(("a", "b", "c"), (Example("q", 0, frozenset({0}), "s", (1,)),))


@pytest.mark.parametrize(
    "other",
    [
        replace(DATA, documents=("a", "c", "b")),
        replace(DATA, documents=("a", "bc")),
        replace(DATA, documents=("ab", "c")),
        replace(DATA, examples=()),
        replace(DATA, examples=DATA.examples * 2),
        *(
            replace(DATA, examples=(replace(DATA.examples[0], **changed),))
            for changed in ({"query": "r"}, {"positive": 1}, {"negatives": (2,)})
        ),
    ],
)
def test_the_digest_tells_texts_and_pairs_apart(other):
    assert other.digest != DATA.digest


def test_equal_data_has_one_digest_even_of_lone_surrogates():
    one, other = (replace(DATA, documents=("a", "\ud800", "c")) for _ in range(2))
    assert one.digest == other.digest
    assert len(one.digest) == 64
