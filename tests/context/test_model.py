"""Model of turns: its features, fitted, kept in a file, read again; and the one that ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.router.conftest import LABELS, CountingEncoder, write_labels
from toolcrib import Settings
from toolcrib.build import make_dense
from toolcrib.context.classifier import shipped_turn_classifier
from toolcrib.context.cues import Cues, IntentCues, load_cues
from toolcrib.context.entities import EntityFinder
from toolcrib.context.labels import label_sets
from toolcrib.context.model import (
    MIN_FEATURE_TEXTS,
    MODEL_FILE,
    TextReading,
    fit_context,
    fit_features,
    identity_of,
    read_context,
    shipped_context,
    write_context,
)
from toolcrib.encoders.fake import DeterministicEncoder

DENSE = DeterministicEncoder()
FINDER = EntityFinder()
CUES = load_cues()


@pytest.fixture(scope="module")
def own_sets(tmp_path_factory):
    files = write_labels(tmp_path_factory.mktemp("labels"))
    return label_sets({field: Path(file) for field, file in files.items()})


@pytest.fixture(scope="module")
def fitted(own_sets):
    return fit_context(own_sets, CUES, FINDER, DENSE)


def label_of(model, field, text):
    told = model.predict(DENSE.encode_query(text), TextReading(text, FINDER.find(text)))
    return told[field].label


@pytest.mark.parametrize(
    ("field", "label", "text"),
    [
        (field, label, text)
        for field in ("urgency", "sensitivity", "need")
        for label, texts in LABELS[field].items()
        for text in texts[:1]
    ],
)
def test_what_was_fitted_is_told_again(fitted, field, label, text):
    assert label_of(fitted, field, text) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("thank you so much", "thanks"),
        ("I want to sell a saw", None),
        ("hello, please buy bread", None),
        ("I want to sell a saw, thank you so much", None),
    ],
)
def test_what_is_small_talk_is_no_request_and_a_request_beside_it_stays_one(fitted, text, label):
    assert label_of(fitted, "smalltalk", text) == label


def test_the_same_labels_make_the_same_model(fitted, own_sets):
    again = fit_context(own_sets, CUES, FINDER, DENSE)
    assert write_context(again) == write_context(fitted)


def test_what_is_written_is_read_as_it_was(fitted):
    kept = read_context(write_context(fitted), CUES)
    assert dict(kept.identity) == dict(fitted.identity)
    assert dict(kept.aliases) == dict(fitted.aliases)
    assert kept.features.places == fitted.features.places
    assert kept.classifiers.keys() == fitted.classifiers.keys()


def test_the_identity_tells_labels_cues_and_encoder(own_sets):
    own = identity_of(own_sets, CUES, DENSE)
    other_cues = CUES.model_copy(update={"politeness": ()})
    changed = [
        identity_of({**own_sets, "intent": own_sets["domain"]}, CUES, DENSE),
        identity_of(own_sets, other_cues, DENSE),
        identity_of(own_sets, CUES, DeterministicEncoder(32)),
    ]
    parts = [{name for name, value in other.items() if value != own[name]} for other in changed]
    assert [len(part) for part in parts] == [1, 1, 1]
    assert len(set.union(*parts)) == 3
    assert identity_of(own_sets, CUES, DENSE) == own


def test_what_was_fitted_alike_is_taken_over_and_the_rest_is_fitted_anew(own_sets, fitted):
    dense = CountingEncoder()
    sets = {**own_sets, "urgency": own_sets["need"]}
    again = fit_context(sets, CUES, FINDER, dense, fitted)
    assert set(dense.documents) == {text for text, _ in own_sets["need"].texts()}
    assert again.classifiers["urgency"].labels == ("act", "know")
    assert again.classifiers["intent"] is fitted.classifiers["intent"]
    assert dict(again.identity) == identity_of(sets, CUES, DENSE)


def test_a_field_that_another_tells_is_not_fitted(own_sets, fitted):
    told = {"intent": own_sets["intent"].digest, "need": "of other labels"}
    again = fit_context(own_sets, CUES, FINDER, DENSE, fitted, told)
    assert fitted.classifiers.keys() - again.classifiers.keys() == {"intent"}


@pytest.fixture(scope="module")
def shipped():
    return shipped_context(CUES)


@pytest.fixture(scope="module")
def bundled():
    return make_dense(Settings())


def test_the_shipped_model_was_fitted_with_what_ships(shipped, bundled):
    assert dict(shipped.identity) == identity_of(label_sets({}), CUES, bundled)


def test_the_shipped_model_knows_the_shipped_labels(shipped):
    sets = label_sets({})
    fitted = {field: each.labels for field, each in shipped.classifiers.items()}
    assert fitted.keys().isdisjoint(shipped_turn_classifier().labels)
    assert {**fitted, **shipped_turn_classifier().labels} == {
        field: tuple(chosen.labels) for field, chosen in sets.items()
    }
    aliases = {a: n for n, label in sets["intent"].labels.items() for a in label.aliases}
    assert dict(shipped.aliases) == aliases


def test_the_shipped_model_holds_no_objects_that_could_run_code():
    with np.load(MODEL_FILE, allow_pickle=False) as kept:
        assert all(kept[name].dtype.kind in "fiu" for name in kept.files)


SMALL = Cues(
    intents={"buy": IntentCues(leads=("get me",), phrases=("for sale",), need="act")},
    domains={"fruit": ("apple", "pear")},
)
TEXTS = ("get me apples", "get me a saw", "get me pears", "a saw for sale")


FITTED, WITHOUT_WORDS = (fit_features(texts, SMALL) for texts in (TEXTS, ("alone",)))


def test_words_and_pairs_of_words_that_enough_texts_have_are_features():
    assert set(FITTED.places) == {"get", "me", "get me"}
    assert sum("get" in text for text in TEXTS) == MIN_FEATURE_TEXTS
    assert sorted(FITTED.places.values()) == list(range(len(FITTED.rarity)))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("get me that", "that"),
        ("it is for sale", "it is for you"),
        ("an apple", "a plum"),
        ("mail ann@example.com", "mail somebody"),
        ("see https://example.com/a", "see there"),
        ("is it so?", "is it so"),
        ("look!", "look"),
        ("THIS IS BAD", "this is bad"),
        ("one\ntwo", "one two"),
        ("word " * 70, "word " * 50),
    ],
)
def test_cues_entities_and_shape_are_told(text, other):
    one, two = (WITHOUT_WORDS.of(TextReading(each, FINDER.find(each))) for each in (text, other))
    assert not np.array_equal(one, two)
