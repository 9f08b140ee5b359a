"""Collections by what they say of themselves: kept, changed, searched, and shown by scope."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import SettingsError
from toolcrib.records import SENSITIVITIES, Collection, Scope
from toolcrib.router import catalogue as module
from toolcrib.router.catalogue import Catalogue, describe, preset, read_catalogue
from toolcrib.router.context.label_sets import label_sets

DENSE = DeterministicEncoder()
GARDEN = Collection(name="garden", description="Sowing and pruning.", examples=("When to sow?",))
KITCHEN = Collection(name="kitchen", examples=("How long does soup take?", "What is a roux?"))
LEVELS = tuple(Collection(name=level, sensitivity=level) for level in SENSITIVITIES)
shipped = {folder.name for folder in (ROOT / "data" / "collections").iterdir() if folder.is_dir()}


@pytest.fixture
def dense():
    """An encoder that has counted nothing yet."""
    return DeterministicEncoder()


def kept(catalogue: Catalogue) -> dict:
    """The small document, as another process reads it."""
    return json.loads(json.dumps({"catalogue": catalogue.as_meta()}))


def names(collections) -> list[str]:
    return [each.name for each in collections]


# -- what collections say -----------------------------------------------------------------------


def test_everything_that_a_collection_says_has_a_vector_of_its_own():
    found = describe([GARDEN, KITCHEN], DENSE)
    said = ["garden: Sowing and pruning.", "When to sow?", "kitchen", *KITCHEN.examples]
    assert np.array_equal(found.vectors, DENSE.encode_documents(said))
    assert (found.names, found.owners) == (("garden", "kitchen"), (0, 0, 1, 1, 1))


def test_underscores_of_a_name_are_read_as_spaces():
    found = describe([Collection(name="release_notes")], DENSE)
    assert found.kinship(DENSE.encode_query("release notes"))["release_notes"] == pytest.approx(1)


def test_a_question_is_as_near_as_the_nearest_thing_that_is_said():
    found = describe([GARDEN, KITCHEN], DENSE)
    near = found.kinship(DENSE.encode_query("What is a roux?"))
    assert near["kitchen"] == pytest.approx(1.0)
    assert near["garden"] == pytest.approx(
        max(float(v @ DENSE.encode_query("What is a roux?")) for v in found.vectors[:2])
    )


def test_without_a_vector_of_the_question_nothing_is_near():
    assert describe([GARDEN, KITCHEN], DENSE).kinship(None) == {"garden": 0.0, "kitchen": 0.0}


def test_what_points_away_from_a_question_is_not_near_rather_than_less_than_that():
    found = describe([GARDEN], DENSE)
    assert found.kinship(-found.vectors[0])["garden"] == 0.0


def test_a_catalogue_of_nothing_is_false_and_near_to_nothing():
    nothing = describe([], DENSE)
    assert not nothing
    assert describe([GARDEN], DENSE)
    assert nothing.kinship(DENSE.encode_query("soup")) == {}


# -- who may ask them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "ceiling", "highest"),
    [
        (None, None, "safety_critical"),
        ("public", None, "public"),
        (None, "internal", "internal"),
        ("pii", "internal", "internal"),
        ("internal", "safety_critical", "internal"),
    ],
)
def test_collections_are_shown_up_to_the_lower_of_two_ceilings(own, ceiling, highest):
    shown = describe(LEVELS, DENSE).within(Scope(max_sensitivity=own), ceiling)
    assert names(shown) == list(SENSITIVITIES[: SENSITIVITIES.index(highest) + 1])


def test_whoever_has_no_scope_sees_all():
    assert describe(LEVELS, DENSE).within(None, None) == LEVELS


def test_a_scope_shows_the_collections_that_it_names_and_that_are_there():
    scope = Scope(collections=frozenset({"kitchen", "attic"}))
    assert names(describe([GARDEN, KITCHEN], DENSE).within(scope, None)) == ["kitchen"]


def test_a_scope_that_names_none_shows_none():
    assert describe([GARDEN], DENSE).within(Scope(collections=frozenset()), None) == ()


def test_a_ceiling_holds_for_collections_that_a_scope_names():
    scope = Scope(collections=frozenset({"pii", "public"}), max_sensitivity="internal")
    assert names(describe(LEVELS, DENSE).within(scope, None)) == ["public"]


# -- how they are kept ----------------------------------------------------------------------------


def test_what_is_kept_is_read_without_encoding(dense):
    before = describe([GARDEN, KITCHEN], DENSE)
    after = read_catalogue(kept(before), dense)
    assert (after.collections, after.owners) == (before.collections, before.owners)
    assert dense.encoded_documents == 0
    half_precision = 1e-3
    assert np.allclose(after.vectors, before.vectors, atol=half_precision)
    assert after.vectors.dtype == np.float32


def test_a_store_that_keeps_none_has_an_empty_catalogue():
    empty = read_catalogue({}, DENSE)
    assert not empty
    assert empty.vectors.shape == (0, DENSE.dimensions)


def test_an_emptied_catalogue_is_kept_as_well():
    assert read_catalogue(kept(describe([GARDEN], DENSE).without("garden")), DENSE).names == ()


def test_vectors_that_belong_to_other_words_are_made_anew(dense):
    meta = kept(describe([GARDEN], DENSE))
    meta["catalogue"]["collections"][0]["description"] = "Something else."
    after = read_catalogue(meta, dense)
    assert dense.encoded_documents == 2
    assert after.kinship(DENSE.encode_query("garden: Something else."))["garden"] > 0.99


# -- how they change ------------------------------------------------------------------------------


def test_what_does_not_change_is_not_encoded_again(dense):
    before = describe([GARDEN, KITCHEN], DENSE)
    assert before.with_changes([GARDEN, KITCHEN], dense) is before
    before.with_changes([KITCHEN.model_copy(update={"description": "Soups."})], dense)
    assert dense.encoded_documents == 3


def test_a_changed_collection_keeps_its_place_and_a_new_one_comes_last():
    changed = GARDEN.model_copy(update={"priority": 2.0})
    attic = Collection(name="attic")
    after = describe([GARDEN, KITCHEN], DENSE).with_changes([attic, changed], DENSE)
    assert after.collections == (changed, KITCHEN, attic)


def test_removing_what_is_not_there_changes_nothing():
    before = describe([GARDEN], DENSE)
    assert before.without("attic").collections == before.collections


collections = st.builds(
    Collection,
    name=st.sampled_from("abc"),
    description=st.sampled_from(["", "red", "green"]),
    examples=st.lists(st.sampled_from(["one?", "two?"]), max_size=3).map(tuple),
)
changes = st.lists(collections | st.sampled_from("abc"), max_size=8)


@given(changes)
def test_after_any_changes_it_is_as_if_described_in_one_go(steps):
    found = describe([], DENSE)
    for step in steps:
        given_ = isinstance(step, Collection)
        found = found.with_changes([step], DENSE) if given_ else found.without(step)
    anew = describe(found.collections, DENSE)
    assert (found.names, found.owners) == (anew.names, anew.owners)
    assert np.array_equal(found.vectors, anew.vectors)
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


def test_six_presets_ship_and_no_question_stands_in_two():
    assert shipped == {
        "agile",
        "architecture",
        "coding_guidelines",
        "framework_docs",
        "security",
        "testing",
    }
    asked = [example for name in shipped for example in preset(name).examples]
    assert len(asked) == len(set(asked))


def test_what_presets_answer_are_domains_and_intents_that_can_be_detected():
    sets = label_sets({})
    pairs = [pair for name in shipped for pair in preset(name).answers]
    assert pairs
    for domain, intent in pairs:
        assert sets["domain"].label_of(domain) is not None
        assert sets["intent"].label_of(intent) is not None


def test_a_name_without_a_preset_is_a_collection_of_that_name():
    assert preset("minutes") == Collection(name="minutes")


@pytest.mark.parametrize("text", ["- a\n", "7", "a: 7", "a: {colour: red}", "a b: {}"])
def test_a_file_of_presets_that_holds_something_else_is_refused(text, tmp_path, monkeypatch):
    file = tmp_path / "collections.yaml"
    file.write_text(text)
    monkeypatch.setattr(module, "_PRESETS", file)
    with pytest.raises(SettingsError, match=r"^collections\.yaml: "):
        module._presets.__wrapped__()
