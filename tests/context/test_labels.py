"""Labels and their utterances: those that ship, and a user's own."""

from __future__ import annotations

import json

import pytest

from toolcrib.context.cues import load_cues
from toolcrib.context.labels import CONTEXT_FIELDS, label_sets, read_label_set
from toolcrib.errors import SettingsError
from toolcrib.records import SENSITIVITIES

OWN = """
labels:
  buy:
    description: wants to have something
    aliases: [purchase, get]
    utterances: [get me some apples, I need a saw]
  sell:
    utterances:
      - take my old bike
outside:
  - how tall is the tower
"""


@pytest.fixture(scope="module")
def shipped():
    return label_sets({})


@pytest.mark.parametrize("field", CONTEXT_FIELDS)
def test_every_shipped_label_has_forty_utterances(shipped, field):
    counts = {name: len(label.utterances) for name, label in shipped[field].labels.items()}
    assert {name: count for name, count in counts.items() if count < 40} == {}


@pytest.mark.parametrize("field", CONTEXT_FIELDS)
def test_no_text_has_two_labels_of_a_field(shipped, field):
    labels = {}
    for text, label in shipped[field].texts():
        labels.setdefault(" ".join(text.casefold().split()), set()).add(label)
    assert {text for text, given in labels.items() if len(given) > 1} == set()


def test_the_shipped_labels_are_those_that_cues_and_records_know(shipped):
    cues = load_cues()
    assert set(shipped["intent"].labels) == set(cues.intents)
    assert set(shipped["domain"].labels) == set(cues.domains)
    assert set(shipped["smalltalk"].labels) == set(cues.smalltalk.labels)
    assert tuple(shipped["sensitivity"].labels) == SENSITIVITIES
    assert set(shipped["urgency"].labels) == {"low", "medium", "high"}
    assert set(shipped["need"].labels) == {"act", "know", "both", "neither"}


def test_an_alias_stands_for_one_intent(shipped):
    labels = shipped["intent"].labels
    aliases = [alias for label in labels.values() for alias in label.aliases]
    assert len(set(aliases)) == len(aliases)
    assert set(aliases).isdisjoint(labels)


def test_a_file_holds_labels_in_their_order_and_what_is_outside(written):
    own = read_label_set(written(OWN), "intent")
    assert list(own.labels) == ["buy", "sell"]
    assert own.texts() == [
        ("get me some apples", "buy"),
        ("I need a saw", "buy"),
        ("take my old bike", "sell"),
        ("how tall is the tower", None),
    ]


def test_a_file_takes_the_place_of_the_shipped_labels_of_its_field_alone(written, shipped):
    chosen = label_sets({"intent": written(OWN)})
    assert list(chosen) == list(CONTEXT_FIELDS)
    assert list(chosen["intent"].labels) == ["buy", "sell"]
    assert all(chosen[field] == shipped[field] for field in CONTEXT_FIELDS if field != "intent")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Input should be an object"),
        ("- a", "Input should be an object"),
        ("labels: {}", "labels: Dictionary should have at least 2 items"),
        ("labels:\n  a: {utterances: [x]}", "labels: Dictionary should have at least 2 items"),
        (OWN + "colour: red", "colour: unknown field"),
        (OWN.replace("aliases:", "alias:"), "labels.buy.alias: unknown field"),
        (OWN.replace("take my old bike", "no"), "labels.sell.utterances.0: Input should be a"),
        (OWN.replace("- take my old bike", "[]"), "sell: give at least one utterance"),
        ("labels: [", "is not YAML"),
        ("labels: !!python/object:os.system {}", "is not YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_file_and_field(written, text, said):
    file = written(text)
    with pytest.raises(SettingsError) as caught:
        read_label_set(file, "intent")
    assert str(caught.value).startswith(f"the labels of intent {str(file)!r}: ")
    assert said in str(caught.value)


def test_a_file_that_is_missing_is_named_with_its_field(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the labels of need .*gone\.yaml"):
        label_sets({"need": tmp_path / "gone.yaml"})


def test_an_unknown_field_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(SettingsError, match=r"no field 'mood'.*intent.*need"):
        label_sets({"mood": tmp_path / "mood.yaml"})


def test_levels_of_sensitivity_are_not_a_users_to_choose_but_their_utterances_are(written):
    with pytest.raises(SettingsError, match="the labels must be public, internal, pii"):
        read_label_set(written(OWN), "sensitivity")
    spoken = {level: {"utterances": [f"this is {level}"]} for level in SENSITIVITIES}
    own = read_label_set(written(json.dumps({"labels": spoken})), "sensitivity")
    assert own.texts()[2] == ("this is pii", "pii")
