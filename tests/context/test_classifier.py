"""Classifiers of a turn: fitted on few texts, sure where they may be; and the one that ships."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import Future
from threading import current_thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.context.classifier import (
    MAX_KEPT_TEXTS,
    MIN_HELD_OUT_LABELS,
    OUTSIDE,
    TokenPooling,
    TurnClassifier,
    fit_classifier,
    other_turn_classifier,
    shipped_turn_classifier,
)
from toolcrib.context.labels import label_sets
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import EncoderError

WIDTH = 16
SPREAD = 0.25


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def around(centres, count, seed=0):
    """So many unit vectors near each centre, and whose they are."""
    rng = np.random.default_rng(seed)
    rows = [centre + SPREAD * rng.normal(size=(count, WIDTH)) / 2 for centre in centres]
    return unit(np.concatenate(rows)), np.repeat(np.arange(len(centres)), count)


def names(count):
    return [f"label {n}" for n in range(count)]


CENTRES = np.eye(WIDTH, dtype=np.float32)
FAR = CENTRES[-1]


@pytest.fixture(scope="module")
def closed():
    """Three labels, and nothing outside of them."""
    return fit_classifier(names(3), *around(CENTRES[:3], 30))


@pytest.fixture(scope="module")
def opened():
    """Three labels, and texts that belong to none."""
    vectors, owners = around([*CENTRES[:3], *CENTRES[8:12]], 30)
    return fit_classifier(names(3), vectors, np.where(owners < 3, owners, OUTSIDE))


@pytest.fixture(scope="module")
def many():
    """More labels than are needed to learn from them alone what is outside."""
    return fit_classifier(names(10), *around(CENTRES[:10], 20))


def share_right(classifier, labels):
    vectors, owners = around(CENTRES[:labels], 20, seed=5)
    told = [classifier.predict(vector).label for vector in vectors]
    wanted = [f"label {owner}" for owner in owners]
    return np.mean([one == other for one, other in zip(told, wanted, strict=True)])


@pytest.mark.parametrize(("kind", "labels"), [("closed", 3), ("opened", 3), ("many", 10)])
def test_texts_that_were_not_seen_get_the_label_of_those_around_them(kind, labels, request):
    assert share_right(request.getfixturevalue(kind), labels) > 0.9


def test_what_is_like_the_texts_outside_has_no_label(opened):
    vectors, _ = around(CENTRES[8:12], 20, seed=5)
    labels = [opened.predict(vector).label for vector in vectors]
    assert labels.count(None) > 0.9 * len(labels)


def test_with_many_labels_what_is_far_from_all_has_none_though_nothing_outside_was_given(many):
    assert many.predict(FAR).label is None
    assert many.predict(FAR).confidence < many.predict(CENTRES[0]).confidence


def test_further_inputs_tell_what_vectors_do_not():
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(120, WIDTH)))
    owners = np.arange(120) % 2
    flags = np.eye(2, dtype=np.float32)[owners] * 3
    told = fit_classifier(names(2), vectors, owners, flags)
    blind = unit(rng.normal(size=WIDTH))
    assert told.predict(blind, np.array([3, 0], dtype=np.float32)).label == "label 0"
    assert told.predict(blind, np.array([0, 3], dtype=np.float32)).label == "label 1"


def test_of_a_label_with_very_many_texts_a_part_is_kept_as_neighbours():
    vectors, owners = around(CENTRES[:3], 4 * MAX_KEPT_TEXTS)
    owners = np.where(owners < 2, owners, OUTSIDE)
    kept = fit_classifier(names(2), vectors, owners)
    assert np.bincount(kept.owners).tolist() == [MAX_KEPT_TEXTS, MAX_KEPT_TEXTS]
    assert kept.neighbours.shape == (2 * MAX_KEPT_TEXTS, WIDTH)


def test_confidence_is_about_how_often_it_is_right():
    # Labels that overlap: nobody can be right more than about two times in three.
    rng = np.random.default_rng(3)
    rows = unit(rng.normal(size=(900, WIDTH)))
    likely = 1 / (1 + np.exp(-4 * rows[:, 0]))
    owners = (rng.random(900) < likely).astype(np.int64)
    fitted = fit_classifier(names(2), rows[:600], owners[:600])
    told = [fitted.predict(row) for row in rows[600:]]
    right = [t.label == f"label {o}" for t, o in zip(told, owners[600:], strict=True)]
    assert np.mean([t.confidence for t in told]) == pytest.approx(np.mean(right), abs=0.07)


SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=MIN_HELD_OUT_LABELS + 2)


@given(sizes=SIZES, outside=st.integers(0, 6), seed=st.integers(0, 99))
def test_however_few_texts_there_are_it_can_be_fitted_and_asked(sizes, outside, seed):
    counts = [*sizes, outside]
    owners = np.repeat([*range(len(sizes)), OUTSIDE], counts)
    vectors = unit(np.random.default_rng(seed).normal(size=(len(owners), WIDTH)))
    fitted = fit_classifier(names(len(sizes)), vectors, owners)
    for vector in (vectors[0], FAR):
        told = fitted.predict(vector)
        assert told.label is None or told.label in fitted.labels
        assert 0 <= told.confidence <= 1
        assert all(0 <= share <= 1 for share in told.shares)
        assert sum(told.shares) <= 1 + 1e-5


def test_the_shipped_classifier_of_turns_was_trained_with_the_shipped_labels():
    sets = label_sets({})
    assert shipped_turn_classifier().digests == {
        f: sets[f].digest for f in shipped_turn_classifier().labels
    }


@pytest.mark.parametrize(
    ("need", "text"),
    [
        ("act", "close ticket 4411, the customer has called back"),
        ("know", "what do we say in the handbook about working from abroad?"),
        ("both", "merge 77 please. And when may I squash, by our rules?"),
        ("neither", "what rhymes with orange?"),
    ],
)
def test_what_a_turn_needs_is_told_by_its_words_together(need, text):
    assert shipped_turn_classifier().predict(text)["need"].label == need


@pytest.mark.parametrize("text", ["", "?", "a", "word " * 900, "\u200b", "שלום, מה שלומך"])
def test_every_field_of_any_text_is_told_with_shares_of_its_labels(text):
    classifier = shipped_turn_classifier()
    for field, told in classifier.predict(text).items():
        assert len(told.shares) == len(classifier.labels[field])
        assert 0 <= sum(told.shares) <= 1.001
        assert told.label is None or told.confidence == max(told.shares)


class Elsewhere(BundledEncoder):
    """The shipped encoder of turns, which notes the threads that use it, and may fail."""

    def __init__(self, fails: bool) -> None:
        super().__init__(shipped_turn_classifier()._encoder.folder)
        self.fails, self.threads = fails, list[str]()

    def encode_query(self, text: str) -> FloatArray:
        self.threads.append(current_thread().name)
        if self.fails:
            raise EncoderError("the model cannot be read")
        return super().encode_query(text)


def test_a_text_that_was_begun_is_predicted_once_in_another_thread(monkeypatch):
    monkeypatch.setattr("toolcrib.context.classifier.usable_cores", lambda: 2)
    classifier = TurnClassifier(encoder := Elsewhere(fails=False))
    classifier.begin("close ticket 4411")
    assert classifier.predict("close ticket 4411")["need"].label == "act"
    assert classifier.predict("what rhymes with orange?")["need"].label == "neither"
    assert encoder.threads == ["toolcrib-turn_0", current_thread().name]


def test_a_forked_process_predicts_in_a_thread_of_its_own(monkeypatch):
    monkeypatch.setattr("toolcrib.context.classifier.usable_cores", lambda: 2)
    classifier = TurnClassifier(Elsewhere(fails=False))
    monkeypatch.setattr(classifier, "_predict", lambda text: {"read": text})
    classifier.begin("close it")
    assert classifier.predict("close it") == {"read": "close it"}
    classifier._ahead = (os.getpid(), "open it"), Future()

    def again() -> None:
        classifier.begin("open it")
        os._exit(classifier.predict("open it") != {"read": "open it"})

    forked = multiprocessing.get_context("fork").Process(target=again)
    forked.start()
    forked.join(30)
    forked.kill()
    assert forked.exitcode == 0


def test_a_failure_in_another_thread_reaches_who_waits(monkeypatch):
    monkeypatch.setattr("toolcrib.context.classifier.usable_cores", lambda: 2)
    classifier = TurnClassifier(encoder := Elsewhere(fails=True))
    classifier.begin("close ticket 4411")
    with pytest.raises(EncoderError):
        classifier.predict("close ticket 4411")
    encoder.fails = False
    assert classifier.predict("close ticket 4411")["need"].label == "act"


def test_an_empty_text_has_all_fields():
    assert TurnClassifier(Elsewhere(fails=False)).predict("").keys() >= {"need", "intent"}


def test_one_core_begins_nothing(monkeypatch):
    monkeypatch.setattr("toolcrib.context.classifier.usable_cores", lambda: 1)
    classifier = TurnClassifier(encoder := Elsewhere(fails=False))
    classifier.begin("close ticket 4411")
    classifier.predict("close ticket 4411")
    assert encoder.threads == [current_thread().name]


def test_tokens_are_pooled_by_the_queries_that_they_are_like():
    queries = np.array([[0, 0], [0, 50]], dtype=np.float32)
    values, whole = np.zeros((3, 1), np.float32), np.zeros((3, 1), np.float32)
    values[0], whole[-1] = 1.0, 3.0
    tokens = np.array([[4, 0], [2, 1], [-9, 0]], dtype=np.float32)
    pooled = TokenPooling(queries, values, whole)(np.zeros(2, np.float32), tokens)
    assert pooled.tolist() == pytest.approx([2.0, 2.0, 3.0])


def test_an_encoder_without_a_classifier_of_turns_has_none_beside_it():
    assert other_turn_classifier(BundledEncoder()) is None


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(EncoderError, match=r"card\.json"):
        TurnClassifier(BundledEncoder(tmp_path))
