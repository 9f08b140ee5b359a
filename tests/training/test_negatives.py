"""Negatives are what the first stage ranks high and what does not answer the query."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.training.data import SAME_TEXT_COSINE, Example, TrainingData, mine

GUIDE = DeterministicEncoder()
DRAWS = 30


class Compass:
    """A guide whose vectors are directions in a plane, told by the degrees in a text.

    The words of its texts share nothing: `n10` is at 10 degrees.
    """

    name = "compass"
    dimensions = 2

    def encode_query(self, text):
        return self.encode_documents([text])[0]

    def encode_documents(self, texts):
        angles = [math.radians(float(text.strip("nq"))) for text in texts]
        return np.array([(math.cos(a), math.sin(a)) for a in angles], np.float32).reshape(-1, 2)


class Still(Compass):
    """A guide that finds any two texts equally far apart, so that words alone decide."""

    dimensions = 100

    def __init__(self):
        self._known = {}

    def encode_documents(self, texts):
        own = [self._known.setdefault(text, len(self._known) + 1) for text in texts]
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        rows[:, 0], rows[np.arange(len(texts)), own] = 0.6, 0.8
        return rows


def part(query, positive, *others, relevant=()):
    """A set of one example, many times over; its text is the first."""
    documents = (positive, *others)
    places = frozenset({0, *map(documents.index, relevant)})
    return TrainingData(documents, (Example(query, 0, places, "s"),) * DRAWS)


def drawn(data, guide=None, count=1):
    """All negatives that the example gets."""
    mined, _ = mine([data], guide or Compass(), count=count)
    assert [len(example.negatives) for example in mined.examples] == [count] * DRAWS
    return {mined.documents[place] for example in mined.examples for place in example.negatives}


def test_the_positive_and_what_answers_as_well_is_no_negative():
    assert drawn(part("q0", "n0", "n50", "n60", "n70", relevant=["n60"])) == {"n50", "n70"}


def test_what_the_guide_finds_alike_to_the_positive_is_no_negative():
    assert math.cos(math.radians(25)) > SAME_TEXT_COSINE > math.cos(math.radians(27))
    assert drawn(part("q0", "n0", "n25", "n-25", "n27", "n-27")) == {"n27", "n-27"}


def test_alike_is_alike_to_the_positive_not_to_the_query():
    assert drawn(part("q30", "n0", "n31", "n80")) == {"n31", "n80"}


def test_what_stands_well_above_the_positive_is_no_negative():
    # A cosine weighs half: 0.2 above the positive's is the margin of 0.1.
    above = [math.degrees(math.acos(0.5 + gap)) for gap in (0.25, 0.15)]
    near, far = (f"n{angle:.2f}" for angle in above)
    assert drawn(part("q0", "n-60", near, far, "n100")) == {far, "n100"}


def test_only_the_twenty_that_rank_highest_are_hard():
    others = [f"n{angle}" for angle in range(30, 90, 2)]
    assert drawn(part("q0", "n0", *others), count=5) == set(others[:20])


def test_tools_of_the_same_server_come_first_among_those():
    texts = ("n0", *(f"n{angle}" for angle in range(30, 90, 2)))
    siblings = {"n40", "n62"}
    far = "n88"  # the thirtieth
    servers = tuple("s" if text in {"n0", far, *siblings} else "other" for text in texts)
    data = replace(part("q0", *texts), servers=servers)
    assert drawn(data, count=2) == siblings
    assert drawn(data, count=3) - siblings <= set(texts[1:21])


def test_tools_without_a_server_are_no_siblings():
    data = replace(part("q0", "n0", "n50", "n60"), servers=("", "", "s"))
    assert drawn(data) == {"n50", "n60"}


def test_words_shared_with_the_query_make_a_text_rank_high():
    alike = [f"issue {n}n" for n in range(20)]
    data = part("open issue", "ticket", *(f"mail {n}n" for n in range(20)), *alike)
    assert drawn(data, Still(), count=3) == set(alike)


def test_a_rare_word_counts_more_than_a_common_one():
    rare = [f"audit {n}n" for n in range(20)]
    data = part("issue audit", "ticket", *(f"issue {n}n" for n in range(40)), *rare)
    assert drawn(data, Still(), count=3) == set(rare)


def test_without_candidates_enough_any_text_that_is_not_barred_is_taken():
    data = part("q0", "n90", "n0", "n10", "n91", relevant=["n10"])
    assert drawn(data) == {"n0"}


def test_where_there_are_fewer_texts_than_negatives_some_come_again():
    assert drawn(part("q0", "n0", "n50", "n60"), count=4) == {"n50", "n60"}


def test_every_set_is_mined_among_its_own_texts_and_all_become_one():
    one, other = part("q0", "n0", "n50"), part("q180", "n180", "n50", "n130")
    data, vectors = mine([one, other], Compass())
    assert data.documents == ("n0", "n50", "n180", "n130")
    negatives = [data.documents[example.negatives[0]] for example in data.examples]
    assert set(negatives[:DRAWS]) == {"n50"}
    assert set(negatives[DRAWS:]) == {"n50", "n130"}
    assert np.allclose(vectors, Compass().encode_documents(data.documents))


def test_another_seed_draws_other_negatives():
    data = part("q0", "n0", *(f"n{angle}" for angle in range(30, 60)))
    one, same, other = (mine([data], Compass(), count=5, seed=seed)[0] for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_progress_is_told_over_all_sets():
    texts = tuple(f"text {n}" for n in range(4))
    long = TrainingData(texts, (Example("text", 0, frozenset({0}), "s"),) * 300)
    short = TrainingData(texts, long.examples[:10])
    told = []
    data, _ = mine([long, short], GUIDE, progress=lambda *done: told.append(done))
    assert [total for _, total in told] == [310] * len(told)
    assert told[-1] == (310, 310)
    assert len(told) > 2
    assert all(before < after for (before, _), (after, _) in pairwise(told))
    assert len(data.examples) == 310


@st.composite
def some_parts(draw):
    words = st.sampled_from(
        ["list", "open", "issue", "mail", "send", "weather", "city", "of", "today"]
    )
    texts = st.lists(words, min_size=1, max_size=4).map(" ".join)
    documents = draw(st.lists(texts, min_size=3, max_size=30, unique=True))
    places = st.integers(0, len(documents) - 1)
    drawn = draw(st.lists(st.tuples(texts, places, st.frozensets(places, max_size=3)), max_size=6))
    examples = (Example(query, at, others | {at}, "s") for query, at, others in drawn)
    return TrainingData(tuple(documents), tuple(examples))


@pytest.mark.slow
@given(st.lists(some_parts(), max_size=3), st.integers(1, 3), st.integers(0, 9))
@settings(max_examples=20)
def test_negatives_neither_answer_the_query_nor_are_alike_to_what_does(parts, count, seed):
    data, vectors = mine(parts, GUIDE, count=count, seed=seed)
    own = [part for part in parts for _ in part.examples]
    assert len(own) == len(data.examples)
    for example, before in zip(data.examples, own, strict=True):
        assert len(example.negatives) == count
        assert example.positive not in example.negatives
        texts = [data.documents[place] for place in example.negatives]
        assert set(texts) <= set(before.documents)
        places = [data.documents.index(text) for text in before.documents]
        alike = vectors[places] @ vectors[example.positive] >= SAME_TEXT_COSINE
        barred = {place for place, near in zip(places, alike, strict=True) if near}
        barred |= example.relevant
        if len(places) - len(barred) >= count:
            assert not barred & set(example.negatives)
            assert len(set(example.negatives)) == count


@pytest.mark.slow
@given(some_parts())
@settings(max_examples=20)
def test_mining_adds_negatives_and_changes_nothing_else(part):
    data, _ = mine([part], GUIDE)
    assert data.documents == part.documents
    assert [(e.query, e.positive, e.relevant, e.source) for e in data.examples] == [
        (e.query, e.positive, e.relevant, e.source) for e in part.examples
    ]
