"""Collections and their passages: put in, taken out, kept, and found again in another session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.conftest import WITHOUT_MODELS
from toolcrib import Crib, Settings, ToolcribError
from toolcrib.build import open_store
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import IndexMismatchError, QueryError, UnknownCollectionError
from toolcrib.indexers.points import passage_layout
from toolcrib.knowledge_base import KnowledgeBase
from toolcrib.records import Collection, Passage, Refusal
from toolcrib.router.collections import index_collections, preset
from toolcrib.store.filters import Equals
from toolcrib.store.folder import LazyStore

DENSE = DeterministicEncoder()
COOKING = Collection(name="cooking", description="Recipes.", examples=("How long does rice boil?",))
SOUP = [
    Passage("cooking", "soup.md", "Fry the onions in butter."),
    Passage("cooking", "soup.md", "Add stock and simmer for an hour.", position=1),
]
HOSES = Passage("garden", "hoses.md", "Drain the hoses before the first frost.")


class Counting:
    """A real encoder that writes down what it was given: queries, clauses and documents."""

    def __init__(self, dense) -> None:
        self.dense = dense
        self.texts: list[str] = []
        self.name, self.dimensions = dense.name, dense.dimensions

    def encode_query(self, text):
        self.texts.append(text)
        return self.dense.encode_query(text)

    def encode_clauses(self, text):
        self.texts.append(text)
        return self.dense.encode_clauses(text)

    def encode_documents(self, texts):
        self.texts.extend(texts)
        return self.dense.encode_documents(texts)


@pytest.fixture
def reopen(tmp_path):
    """Opens one folder again and again, the session before being over each time."""
    opened = []

    def open_(dense=DENSE, *, rebuild=False, **settings) -> KnowledgeBase:
        if opened:
            opened[-1].close()
        chosen = Settings(**settings)
        store = open_store(str(tmp_path / "library"), chosen, passage_layout(dense.dimensions))
        opened.append(store)
        return KnowledgeBase(LazyStore(lambda: store, lambda: True), dense, chosen, rebuild=rebuild)

    yield open_
    if opened:
        opened[-1].close()


@pytest.fixture
def library(reopen):
    return reopen()


def put(library: KnowledgeBase, *items: Passage | Refusal, **options):
    return library.put([("docs", item) for item in items], **options)


def ids(library: KnowledgeBase, where=None) -> set[str]:
    return {passage.id for passage in library.passages(where)}


def test_a_new_library_knows_nothing_and_what_was_defined_in_the_session_before(library, reopen):
    assert (library.catalogue.names, library.count()) == ((), 0)
    library.define([COOKING])
    assert library.collection("cooking") == COOKING
    assert reopen().collection("cooking") == COOKING


def test_an_unknown_name_is_answered_with_the_nearest(library):
    library.define([COOKING, Collection(name="garden")])
    with pytest.raises(UnknownCollectionError, match="did you mean 'cooking'") as caught:
        library.collection("cookin")
    assert caught.value.nearest == ("cooking",)


def test_reopening_encodes_nothing_and_finds_the_same(reopen):
    library = reopen(BundledEncoder())
    library.define([COOKING])
    put(library, *SOUP, HOSES)
    before = library.catalogue
    counting = Counting(BundledEncoder())
    after = reopen(counting).catalogue
    assert counting.texts == []
    assert after.collections == before.collections
    assert np.allclose(after.rows[0], before.rows[0], atol=1e-3)  # half precision


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"name": "framework_docs", "priority": 3}, preset("framework_docs")),
        ({"name": "agile", "fallback": True, "examples": []}, preset("agile")),
        ({"name": "cooking", "sensitivity": "internal"}, COOKING),
        ({"name": "cooking", "description": "What the settings say."}, COOKING),
        ({"name": "barn", "description": "Tractors."}, Collection(name="barn")),
    ],
)
def test_what_the_settings_say_of_a_collection_wins_and_the_rest_stays(
    library, reopen, said, known
):
    library.define([COOKING])
    stated = Settings.model_validate({"collections": [said]}).collections
    expected = Collection.model_validate(known.model_dump() | said)
    assert reopen(collections=stated).collection(said["name"]) == expected


def test_collections_of_the_settings_are_not_kept_with_others(library, reopen):
    library.define([COOKING])
    theirs = (COOKING.model_copy(update={"priority": 2.0}), Collection(name="attic"))
    reopen(collections=theirs).define([Collection(name="garden")])
    assert reopen().catalogue.collections == (COOKING, Collection(name="garden"))


def test_a_preset_does_not_replace_what_is_known(reopen):
    own = preset("agile").model_copy(update={"description": "Ours."})
    library = reopen(collections=(own,))
    put(library, Passage("agile", "a.md", "Plan."))
    assert library.collection("agile") == own


def test_passages_do_not_outlive_the_knowledge_of_their_collection(library, reopen):
    put(reopen(collections=(COOKING,)), *SOUP)
    assert reopen().catalogue.names == ("cooking",)


def test_passages_of_a_collection_that_nobody_knows_break_no_answer(tmp_path):
    named = WITHOUT_MODELS.model_copy(update={"collections": (Collection(name="cooking"),)})
    with Crib.open(tmp_path, settings=named) as crib:
        crib.index_passages([*SOUP, HOSES])
    with Crib.open(tmp_path, settings=WITHOUT_MODELS) as crib:
        assert crib.find_knowledge("drain the hoses").passages[0].passage == HOSES


def test_passages_are_kept_whole_and_counted(library, reopen):
    report = put(library, *SOUP, HOSES)
    assert len(report.added) == 3
    again = reopen()
    assert sorted(again.passages(), key=lambda each: each.id) == [*SOUP, HOSES]
    assert (again.count(), again.count("cooking"), again.count("attic")) == (3, 2, 0)
    assert ids(again, Equals("document", "hoses.md")) == {HOSES.id}


def test_a_collection_becomes_known_with_its_first_passage_as_its_preset_says(library):
    put(library, Passage("agile", "a.md", "Plan."), Passage("minutes", "b.md", "We met."))
    assert library.collection("agile") == preset("agile")
    assert library.collection("minutes") == Collection(name="minutes")


@pytest.mark.parametrize("name", ["", "two words", "a/b", "\ud800"])
def test_a_name_that_no_collection_can_have_is_refused_in_our_words(name, library):
    with pytest.raises(ToolcribError):
        put(library, Passage(name, "a.md", "text"))


def test_two_collections_of_one_name_are_refused_and_nothing_is_added(library):
    secret = Collection(name="wards", sensitivity="pii")
    with pytest.raises(QueryError, match="wards"):
        library.define([secret, Collection(name="wards")])
    assert library.passage_counts() == []
    library.define([secret, secret])
    assert library.passage_counts() == [(secret, 0)]


def test_threads_may_fill_collections_side_by_side(library):
    told = [[Passage(f"c{n}", f"{d}.md", f"text {d}") for d in range(5)] for n in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: put(library, *each), told))
    assert ids(library) == {passage.id for each in told for passage in each}
    assert set(library.catalogue.names) == {"c0", "c1", "c2", "c3"}


def test_a_collection_goes_with_its_passages_for_good(library, reopen):
    put(library, *SOUP, HOSES)
    assert library.remove("cooking") == 2
    assert (library.catalogue.names, ids(library)) == (("garden",), {HOSES.id})
    again = reopen()
    assert (again.catalogue.names, ids(again)) == (("garden",), {HOSES.id})


def test_what_is_not_there_cannot_be_removed(library):
    put(library, HOSES)
    with pytest.raises(UnknownCollectionError, match="did you mean 'garden'"):
        library.remove("gardn")
    assert library.count() == 1


NARROW = DeterministicEncoder(32)


def test_passages_of_another_encoder_are_refused_and_nothing_is_lost(library, reopen):
    put(library, *SOUP)
    with pytest.raises(IndexMismatchError, match=r"deterministic-trigrams-64.*--rebuild"):
        reopen(NARROW)
    assert reopen().count() == 2


def test_a_rebuild_encodes_every_passage_by_the_new_encoder(library, reopen):
    put(library, *SOUP, HOSES)
    counting = Counting(NARROW)
    renewed = reopen(counting, rebuild=True)
    assert {SOUP[0].text, SOUP[1].text, HOSES.text} <= set(counting.texts)
    assert renewed.count() == 3
    assert reopen(NARROW).count() == 3


@pytest.mark.parametrize("dense", [NARROW, DENSE], ids=["another", "the same"])
def test_a_rebuild_keeps_collections_with_vectors_of_the_encoder_in_use(library, reopen, dense):
    library.define([COOKING, Collection(name="garden")])
    anew = index_collections(library.catalogue.collections, dense)
    for found in (reopen(dense, rebuild=True).catalogue, reopen(dense).catalogue):
        assert found.collections == anew.collections
        for own, expected in zip(found.rows, anew.rows, strict=True):
            assert own == pytest.approx(expected, abs=1e-3)


def test_a_crib_whose_library_was_refused_can_be_rebuilt_at_once(tmp_path, settings, reopen):
    Crib.open(tmp_path, settings=settings).close()
    reopen(NARROW).close()
    try:
        Crib.open(tmp_path, settings=settings)
    except IndexMismatchError:
        Crib.open(tmp_path, settings=settings, rebuild=True).close()
