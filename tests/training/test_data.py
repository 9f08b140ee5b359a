"""Labelled queries become pairs, several sets become one, and no pair loses its texts."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import MissingExtraError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.indexers.points import dense_text
from toolcrib.records import ToolSpec
from toolcrib.training.data import (
    DEV,
    TEST,
    TRAIN,
    Example,
    HeldOut,
    TrainingData,
    batches,
    clusters,
    from_labels,
    join_data,
    prune_documents,
    sample_data,
    split_anew,
    with_dev,
)

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
    whole = join_data(several)
    assert told(whole) == [pair for part in several for pair in told(part)]
    assert sorted(whole.documents) == sorted({t for part in several for t in part.documents})


@given(parts(), st.integers(0, 6), st.integers())
def test_a_sample_is_of_the_set_as_large_as_asked_and_the_seeds(data, limit, seed):
    drawn = sample_data(data, limit, seed)
    assert len(drawn.examples) == min(limit, len(data.examples))
    assert drawn.documents == data.documents
    assert all(drawn.examples.count(e) <= data.examples.count(e) for e in drawn.examples)
    assert drawn == sample_data(data, limit, seed)


@given(parts())
def test_pruned_data_keeps_every_pairs_texts_and_no_other(data):
    kept = prune_documents(data)
    assert told(kept) == told(data)
    pointed_to = {p for e in kept.examples for p in (e.positive, *e.relevant, *e.negatives)}
    assert pointed_to == set(range(len(kept.documents)))


def test_another_seed_draws_another_sample():
    data = TrainingData(("a",), tuple(Example(str(n), 0, frozenset({0}), "s") for n in range(50)))
    assert sample_data(data, 5, seed=1) != sample_data(data, 5, seed=2)
    assert sample_data(data, 50, seed=1) is data


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


SOURCES = st.lists(st.sampled_from("abc"), max_size=60)
SIZES = st.integers(1, 9)
SHARES = st.floats(0, 1)
SEEDS = st.integers()


def sources_of(batch, sources):
    return {sources[place] for place in batch}


@given(SOURCES, SIZES, SHARES, SEEDS)
def test_every_example_comes_once_but_for_a_last_few(sources, size, share, seed):
    drawn = batches(sources, size, homogeneous=share, seed=seed)
    places = list(chain.from_iterable(drawn))
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(len(sources)))
    assert len(sources) - len(places) < size
    assert all(len(batch) == size for batch in drawn)
    assert drawn == batches(sources, size, homogeneous=share, seed=seed)


@given(SOURCES, SIZES, SHARES, SEEDS)
def test_of_every_source_at_least_its_share_comes_in_batches_of_its_own(sources, size, share, seed):
    drawn = batches(sources, size, homogeneous=share, seed=seed)
    for source in set(sources):
        own = sum(sources_of(batch, sources) == {source} for batch in drawn)
        assert own >= int(sources.count(source) * share) // size


def test_none_need_be_of_one_source():
    sources = ["a"] * 50 + ["b"] * 50
    drawn = batches(sources, 10, homogeneous=0)
    assert all(sources_of(batch, sources) == {"a", "b"} for batch in drawn)


def test_batches_of_one_source_and_mixed_ones_take_turns():
    sources = ["a"] * 100 + ["b"] * 100
    kinds = [len(sources_of(batch, sources)) for batch in batches(sources, 10)]
    assert kinds.count(1) == kinds.count(2) == 10
    assert kinds not in (sorted(kinds), sorted(kinds, reverse=True))


LONG = "please show me every open issue of the website that nobody has looked at since last March"

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
"""Lone surrogates among it."""

SENTENCES = st.lists(st.sampled_from(["red", "green", "blue"]), min_size=1, max_size=6).map(
    " ".join
)


def slid(by, word="word"):
    """Twenty words; a text slid by one word says the same, one slid by six does not."""
    return " ".join(f"{word}{n}" for n in range(by, by + 20))


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(LONG, id="itself"),
        pytest.param(LONG.upper(), id="another case"),
        pytest.param(",\n".join(LONG.split()) + "?!", id="other signs and spaces"),
        pytest.param(LONG.replace("March", "April"), id="a last word"),
        pytest.param(f"Hi, {LONG}", id="a first word"),
    ],
)
def test_a_text_is_like_one_that_differs_little(same):
    assert same in HeldOut([LONG])
    assert HeldOut([LONG]).like(same) == [LONG]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("tell me the weather in Oslo", id="nothing shared"),
        pytest.param(" ".join(reversed(LONG.split())), id="the words in another order"),
        pytest.param(LONG[: len(LONG) // 2], id="its first half"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_text_is_not_like_one_that_differs_much(other):
    assert other not in HeldOut([LONG])


def test_texts_of_few_words_are_alike_as_a_whole_only():
    held = HeldOut(["list issues", "mail"])
    assert "List issues!" in held
    assert "list issue" not in held
    assert "issues" not in held


def test_all_that_are_alike_are_told_in_order_and_once():
    ways = [LONG.replace(letter, letter.upper()) for letter in "bdfhikmnoprst"]
    held = HeldOut([*ways, "mail"])
    for way in ways:
        held.add(way)
    assert held.like(LONG) == sorted(ways)


def test_texts_that_share_half_of_what_they_say_are_not_alike():
    pairs = ((slid(0, f"word{n}x"), slid(6, f"word{n}x")) for n in range(150))
    assert not [one for one, other in pairs if one in HeldOut([other])]


@given(ANY_TEXT)
def test_any_text_is_like_itself(text):
    assert text in HeldOut([text])


def test_texts_are_together_through_a_chain():
    chain = [slid(by) for by in (3, 4, 5, 6, 2, 1, 0)]
    assert slid(6) not in HeldOut([slid(0)])
    assert clusters(["mail", *chain]) == [[0], [1, 2, 3, 4, 5, 6, 7]]


def test_a_text_that_links_two_clusters_joins_them():
    apart = [slid(0), slid(6), slid(0).upper(), slid(6).upper()]
    assert clusters(apart) == [[0, 2], [1, 3]]
    between = [slid(by) for by in range(1, 6)]
    assert clusters([*apart, *between]) == [list(range(9))]


@pytest.mark.slow
@given(st.lists(SENTENCES, min_size=1, max_size=12))
def test_texts_that_are_alike_are_in_one_cluster(texts):
    home = {place: number for number, group in enumerate(clusters(texts)) for place in group}
    for place, text in enumerate(texts):
        held = HeldOut([text])
        assert {home[other] for other, o in enumerate(texts) if o in held} == {home[place]}


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[train\]"):
        HeldOut()


WAYS = (str, str.upper, str.title, "{}!".format, "¿{}?".format)
"""Ways to write a text that leave what it says."""

TEXTS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(WAYS)), min_size=1, max_size=40).map(
    lambda drawn: [way(f"say number {n}") for n, way in drawn]
)


def to_deal(texts, split="test"):
    queries = (LabelledQuery(f"q{n}", text, split, {"t": 1}) for n, text in enumerate(texts))
    return DataSet("dealt", (), tuple(queries))


def words(count):
    """As many texts that have nothing in common."""
    return [f"word{n}" for n in range(count)]


def sizes(data):
    return Counter(query.split for query in data.queries)


def shown(query):
    """The query but for its split."""
    return replace(query, split="")


@given(TEXTS, st.integers())
def test_no_query_is_lost_or_moved(texts, seed):
    data = to_deal(texts)
    dealt = split_anew(data, seed)
    assert list(map(shown, dealt.queries)) == list(map(shown, data.queries))
    assert {query.split for query in dealt.queries} <= {TRAIN, DEV, TEST}


@given(TEXTS, st.integers())
def test_what_says_the_same_is_never_torn_apart(texts, seed):
    split = {}
    for query in split_anew(to_deal(texts), seed).queries:
        said = query.text.casefold().strip("¿?!")
        assert split.setdefault(said, query.split) == query.split


def test_queries_that_have_nothing_in_common_are_dealt_out_by_the_shares():
    assert sizes(split_anew(to_deal(words(100)))) == {TRAIN: 60, DEV: 15, TEST: 25}


@pytest.mark.parametrize("seed", range(8))
def test_a_large_cluster_goes_whole_and_no_split_goes_without(seed):
    dealt = split_anew(to_deal(["the same"] * 20 + words(80)), seed)
    assert len({query.split for query in dealt.queries[:20]}) == 1
    assert min(sizes(dealt)[split] for split in (TRAIN, DEV, TEST)) > 10
    assert sizes(dealt)[TRAIN] <= 60


def mixed(*splits):
    data = to_deal(words(len(splits)))
    queries = zip(data.queries, splits, strict=True)
    return replace(data, queries=tuple(replace(query, split=split) for query, split in queries))


def test_a_tenth_of_the_training_queries_becomes_development():
    assert sizes(with_dev(mixed(*[TRAIN, TEST] * 40))) == {TRAIN: 36, DEV: 4, TEST: 40}


def test_test_queries_stay_where_they_are_and_all_keep_their_order():
    data = mixed(*[TRAIN, TEST, TRAIN] * 20)
    grown = with_dev(data)
    assert list(map(shown, grown.queries)) == list(map(shown, data.queries))
    assert grown.split(TEST) == data.split(TEST)


def test_a_set_with_development_queries_keeps_them():
    data = mixed(*[TRAIN] * 30, DEV)
    assert with_dev(data) is data


def test_a_set_without_training_queries_is_left_alone():
    data = mixed(TEST, TEST)
    assert with_dev(data) is data


def test_the_choice_of_development_queries_is_the_seeds():
    data = mixed(*[TRAIN] * 50)
    assert with_dev(data, 1) == with_dev(data, 1)
    assert with_dev(data, 1) != with_dev(data, 2)
