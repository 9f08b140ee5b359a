"""Passages are ranked by meaning and words together, inside what may be searched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import passage_layout
from toolcrib.indexers.sync import PassageSync
from toolcrib.records import Passage
from toolcrib.retrieval.fusion import PassageWeights
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.retrieval.passages import (
    MAX_CODES,
    MIN_LEG_PASSAGES,
    PassageRetriever,
    codes_of,
)
from toolcrib.store.filters import Equals
from toolcrib.store.qdrant_edge import EdgeStore

DENSE, LEXICAL = DeterministicEncoder(), LexicalEncoder()
# Four words of each count, so that the mean length is the same whichever there are.
GARDEN = [
    Passage("garden", "water.md", "Water the tomatoes every morning."),
    Passage("garden", "sow.md", "Sow carrots after frost."),
    Passage("garden", "prune.md", "Prune apple trees in winter."),
]
KITCHEN = [
    Passage("kitchen", "soup.md", "Simmer tomatoes, salt, pepper."),
    Passage("kitchen", "pie.md", "Peel apples, roll pastry."),
]
CROWD = [
    Passage("crowd", f"{n:03}.md", f"tomatoes tomatoes batch {n}")
    for n in range(MIN_LEG_PASSAGES + 9)
]
RARE = Passage("rare", "r.md", "zebra " + "unlike anything else " * 9)
TWINS = [Passage("copies", f"{n:02}.md", "Sow carrots after frost.") for n in range(20)]
COPIES = Equals("collection", "copies")
QUESTION = "when do I water tomatoes"


def ask(text: str) -> EncodedQuery:
    return EncodedQuery(text, DENSE.encode_query(text), LEXICAL.encode_query(text))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Makes stores of passages, which no test writes to."""
    opened = []

    def make(*passages: Passage) -> EdgeStore:
        folder = tmp_path_factory.mktemp("passages")
        store = EdgeStore.open(folder, passage_layout(DENSE.dimensions))
        opened.append(store)
        PassageSync(store, DENSE, LEXICAL).run([("", passage) for passage in passages])
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture(scope="module")
def shelf(stores):
    return stores(*GARDEN, *KITCHEN)


@pytest.fixture(scope="module")
def crowded(stores):
    return stores(*GARDEN, *KITCHEN, *CROWD, *TWINS, RARE)


def retriever(store, **weights) -> PassageRetriever:
    return PassageRetriever(store, PassageWeights(**weights))


def ids(found) -> list[str]:
    return [each.passage.id for each in found]


def test_the_passage_that_answers_comes_first_and_whole(shelf):
    found = retriever(shelf).find(ask(QUESTION), 3)
    assert found[0].passage == GARDEN[0]
    assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
    assert len(found) == 3


def test_an_empty_store_holds_no_answer(stores):
    assert retriever(stores()).find(ask(QUESTION), 5) == []


def test_by_words_alone_who_shares_none_has_no_score(shelf):
    found = {e.passage.id: e.score for e in retriever(shelf, lexical=1).find(ask("tomatoes"), 5)}
    assert {name for name, score in found.items() if score} == {
        "garden/water.md#0",
        "kitchen/soup.md#0",
    }


def test_half_as_good_words_are_worth_a_quarter(shelf):
    [near, *_] = retriever(shelf, lexical=1, term_scale=10).find(ask("carrots"), 1)
    [far, *_] = retriever(shelf, lexical=1, term_scale=20).find(ask("carrots"), 1)
    assert near.score > 0
    assert far.score == pytest.approx(near.score / 4)


def test_of_a_long_question_the_words_that_no_passage_has_cost_nothing(shelf):
    strange = [f"strange{n}" for n in range(100)]
    short, long = (" ".join(["water", "tomatoes", *strange[:n]]) for n in (6, 100))
    by_words = retriever(shelf, lexical=1)
    assert by_words.find(ask(long), 1)[0].score == by_words.find(ask(short), 1)[0].score > 0


def test_a_word_that_a_question_repeats_counts_once(shelf):
    by_words = retriever(shelf, lexical=1)
    [once], [often] = (by_words.find(ask("carrots " * n), 1) for n in (1, 4))
    assert often.score == once.score > 0


PRICES = [
    Passage("prices", f"{n:03}.md", f"Seal SL-{n:04}/B costs {n} euro, delivery in a week.")
    for n in range(2 * MIN_LEG_PASSAGES)
]


@pytest.fixture(scope="module")
def price_list(stores):
    return stores(*PRICES)


@pytest.mark.parametrize("code", ["SL-0077/B", "sl-0077"])
def test_of_passages_alike_the_one_with_the_code_of_the_question_comes_first(price_list, code):
    found = retriever(price_list).find(ask(f"delivery of the seal {code} in euro?"), 3)
    assert found[0].passage == PRICES[77]


def test_a_code_stands_above_all_that_is_meant(stores):
    meant = Passage("rules", "a.md", "A seal for hot water and steam, in every size.")
    coded = Passage("rules", "b.md", "Withdrawn: see the list of 2019, page 4, under QX-31.")
    found = retriever(stores(meant, coded)).find(ask("Is QX-31 a seal for hot water?"), 2)
    assert [each.passage for each in found] == [coded, meant]


def test_a_name_stands_above_all_that_is_meant_in_titles_alone(stores):
    meant = Passage("rules", "a.md", "Memory of a query: sorts and hashes, in work_mem or more.")
    named = Passage("rules", "b.md", "Set by the administrator.", ("Settings", "work_mem (4 MB)"))
    found = retriever(stores(meant, named)).find(ask("Memory of a query, work_mem?"), 2)
    assert [each.passage for each in found] == [named, meant]


def test_a_code_of_another_ending_lifts_no_passage(price_list):
    codes = [retriever(price_list).find(ask(code), 1) for code in ("SL-0077/X", "SL-0077/B")]
    assert codes[0][0].score < codes[1][0].score


@pytest.mark.parametrize(
    "code",
    [
        *("KX-2210/B", "E421", "E17", "CWE-79", "1099-misc", "2026-11-09", "75192-1"),
        *("4006381333931", "work_mem", "Pool.pool_size", "EXPECT_EQ"),
    ],
)
def test_a_word_with_digits_or_an_underscore_is_a_code(code):
    assert codes_of(f"What about {code}, please?") == {code.casefold()}


@pytest.mark.parametrize(
    "word",
    [
        *("arc42", "IPv6", "H2O", "A4", "3D", "401k", "12-14x", "10.13", "12,000", "300/month"),
        *("_id", "__init__"),
    ],
)
def test_a_common_name_and_a_quantity_are_no_codes(word):
    assert codes_of(f"What about {word}, please?") == set()


def test_a_pasted_log_has_no_codes():
    assert codes_of(" ".join(f"job-{n:04}" for n in range(MAX_CODES + 1))) == set()


@given(
    st.lists(
        st.sampled_from(["water", "tomatoes", "zebra", "the", "pie", "7", "?", "KX-221/B"]),
        min_size=1,
    ),
    st.floats(0, 1),
    st.floats(0.001, 100),
)
def test_every_score_is_a_share_and_never_rises_with_rank(shelf, words, lexical, scale):
    found = retriever(shelf, lexical=lexical, term_scale=scale).find(ask(" ".join(words)), 5)
    scores = [each.score for each in found]
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_when_the_encoder_failed_words_still_find(shelf):
    found = retriever(shelf).find(replace(ask("sow carrots"), dense=None), 5)
    assert ids(found) == ["garden/sow.md#0"]


def test_clauses_of_a_question_are_not_asked_for_alone(shelf):
    whole = ask(QUESTION)
    split = replace(whole, clauses=DENSE.encode_documents(["roll pastry", "peel apples"]))
    assert retriever(shelf).find(split, 5) == retriever(shelf).find(whole, 5)


def test_however_many_others_fit_better_those_in_reach_are_found(crowded):
    found = retriever(crowded).find(ask("tomatoes"), 3, Equals("collection", "kitchen"))
    assert set(ids(found)) == {"kitchen/soup.md#0", "kitchen/pie.md#0"}


def test_what_a_filter_keeps_out_changes_no_score(stores, shelf):
    never = retriever(stores(*GARDEN)).find(ask(QUESTION), 5)
    kept_out = retriever(shelf).find(ask(QUESTION), 5, Equals("collection", "garden"))
    assert kept_out == never


def test_a_passage_that_one_leg_brought_is_scored_by_the_other_too(crowded):
    # More passages share its letters than are looked at: only its rare word brings it.
    question = ask("tomatoes batch zebra")
    found = {e.passage.id: e.legs for e in retriever(crowded, lexical=1).find(question, 9)}
    [alone] = retriever(crowded).find(question, 1, Equals("collection", "rare"))
    assert found["rare/r.md#0"].lexical > 0
    assert found["rare/r.md#0"].dense == pytest.approx(alone.legs.dense, abs=1e-5)


def test_equals_are_ordered_by_id(crowded):
    found = retriever(crowded).find(ask("carrots"), len(TWINS), COPIES)
    assert ids(found) == [twin.id for twin in TWINS]
