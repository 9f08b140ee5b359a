"""Collections by what they say of themselves: kept, changed, searched, and shown by scope."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from toolcrib.context.labels import label_sets
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.records import SENSITIVITIES, Collection, Scope, Turn
from toolcrib.router.collections import (
    CollectionIndex,
    index_collections,
    preset,
    read_collection_index,
)

DENSE = DeterministicEncoder()
GARDEN = Collection(name="garden", description="Sowing and pruning.", examples=("When to sow?",))
KITCHEN = Collection(name="kitchen", examples=("How long does soup take?", "What is a roux?"))
LEVELS = tuple(Collection(name=level, sensitivity=level) for level in SENSITIVITIES)
shipped = {folder.name for folder in (ROOT / "data" / "collections").iterdir() if folder.is_dir()}


@pytest.fixture
def dense():
    """An encoder that has counted nothing yet."""
    return DeterministicEncoder()


def kept(catalogue: CollectionIndex) -> dict:
    """The small document, as another process reads it."""
    return json.loads(json.dumps(catalogue.changes_since(None)))


def names(collections) -> list[str]:
    return [each.name for each in collections]


# -- what collections say -----------------------------------------------------------------------


def test_everything_that_a_collection_says_has_a_vector_of_its_own():
    found = index_collections([GARDEN, KITCHEN], DENSE)
    said = ["garden: Sowing and pruning.", "When to sow?", "kitchen", *KITCHEN.examples]
    assert np.array_equal(np.concatenate(found.rows), DENSE.encode_documents(said))
    assert (found.names, [*map(len, found.rows)]) == (("garden", "kitchen"), [2, 3])


def test_a_question_is_as_near_as_the_nearest_thing_that_is_said():
    found = index_collections([GARDEN, KITCHEN], DENSE)
    query = DENSE.encode_query("What is a roux?")
    near = found.similarity(query)
    assert near["kitchen"] == pytest.approx(1.0)
    assert near["garden"] == pytest.approx(max(float(v @ query) for v in found.rows[0]))


def test_without_a_vector_of_the_question_nothing_is_near():
    found = index_collections([GARDEN, KITCHEN], DENSE)
    assert found.similarity(None) == {"garden": 0.0, "kitchen": 0.0}


# -- who may ask them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "ceiling", "shown"),
    [
        (Scope(), None, SENSITIVITIES),
        (Scope(max_sensitivity="public"), None, SENSITIVITIES[:1]),
        (Scope(), "internal", SENSITIVITIES[:2]),
        (Scope(max_sensitivity="pii"), "internal", SENSITIVITIES[:2]),
        (Scope(max_sensitivity="internal"), "safety_critical", SENSITIVITIES[:2]),
        (Scope(collections=frozenset({"pii", "attic"})), None, ("pii",)),
        (Scope(collections=frozenset({"pii", "public"})), "internal", ("public",)),
    ],
)
def test_collections_are_shown_that_a_scope_names_up_to_the_lower_of_two_ceilings(
    scope, ceiling, shown
):
    reach = Turn(scope=scope, max_sensitivity=ceiling).reach
    assert names(index_collections(LEVELS, DENSE).within(reach)) == [*shown]


# -- how they are kept ----------------------------------------------------------------------------


def test_what_is_kept_is_read_without_encoding(dense):
    before = index_collections([GARDEN, KITCHEN], DENSE)
    after = read_collection_index(kept(before), dense)
    assert after.collections == before.collections
    assert dense.encoded_documents == 0
    half_precision = 1e-3
    for own, given_ in zip(after.rows, before.rows, strict=True):
        assert np.allclose(own, given_, atol=half_precision)
        assert own.dtype == np.float32


def test_a_store_that_keeps_none_has_an_empty_catalogue():
    empty = read_collection_index({}, DENSE)
    assert not empty.collections
    assert empty.similarity(DENSE.encode_query("a question")) == {}


def test_vectors_that_belong_to_other_words_are_made_anew(dense):
    meta = kept(index_collections([GARDEN], DENSE))
    meta["collection/garden"]["collection"]["description"] = "Something else."
    after = read_collection_index(meta, dense)
    assert dense.encoded_documents == 2
    assert after.similarity(DENSE.encode_query("garden: Something else."))["garden"] > 0.99


# -- how they change ------------------------------------------------------------------------------


def test_what_does_not_change_is_not_encoded_again(dense):
    before = index_collections([GARDEN, KITCHEN], DENSE)
    assert before.with_changes([GARDEN, KITCHEN], dense) is before
    before.with_changes([KITCHEN.model_copy(update={"description": "Soups."})], dense)
    assert dense.encoded_documents == 3


def test_a_changed_collection_keeps_its_place_and_a_new_one_comes_last():
    changed = GARDEN.model_copy(update={"priority": 2.0})
    attic = Collection(name="attic")
    after = index_collections([GARDEN, KITCHEN], DENSE).with_changes([attic, changed], DENSE)
    assert after.collections == (changed, KITCHEN, attic)


collections = st.builds(
    Collection,
    name=st.sampled_from("abc"),
    description=st.sampled_from(["", "red", "green"]),
    examples=st.lists(st.sampled_from(["one?", "two?"]), max_size=3).map(tuple),
)
changes = st.lists(collections | st.sampled_from("abc"), max_size=8)


@given(changes)
def test_after_any_changes_it_is_as_if_described_in_one_go(steps):
    found = index_collections([], DENSE)
    for step in steps:
        given_ = isinstance(step, Collection)
        found = found.with_changes([step], DENSE) if given_ else found.without(step)
    anew = index_collections(found.collections, DENSE)
    assert found.names == anew.names
    assert all(map(np.array_equal, found.rows, anew.rows))
    last = {each.name: each for each in steps if isinstance(each, Collection)}
    assert all(each == last[each.name] for each in found.collections)


# -- what ships -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(shipped))
def test_every_sample_collection_has_a_preset_that_says_what_it_answers(name):
    found = preset(name)
    assert found.name == name
    assert len(found.description.split()) >= 15
    assert len(found.examples) >= 8
    assert all(example.endswith("?") for example in found.examples)
    assert found.sensitivity in SENSITIVITIES


def test_what_presets_answer_are_domains_and_intents_that_can_be_detected():
    sets = label_sets({})
    pairs = [pair for name in shipped for pair in preset(name).answers]
    assert pairs
    for domain, intent in pairs:
        assert domain in sets["domain"].labels
        assert intent in sets["intent"].labels or any(
            intent in label.aliases for label in sets["intent"].labels.values()
        )
