"""Cues are data: what ships can be replaced by a file of the same shape."""

from __future__ import annotations

import pytest
import yaml

from toolcrib.context.cues import CUES_FILE, load_cues
from toolcrib.errors import SettingsError
from toolcrib.text import split_words

SMALL = """
intents:
  ask: {need: know, leads: [what], phrases: [no idea]}
domains:
  api: [404, endpoint]
"""


def test_the_shipped_cues_are_the_same_to_both_parsers_of_yaml():
    text = CUES_FILE.read_text(encoding="utf-8")
    # The one in C takes some phrases with marks that the one in Python refuses.
    assert yaml.load(text, Loader=yaml.BaseLoader) == yaml.load(text, Loader=yaml.CBaseLoader)


def test_every_list_of_the_shipped_cues_has_forty_phrases_and_none_twice():
    cues = load_cues()
    lists = {
        "politeness": cues.politeness,
        **{f"{k} leads": v.leads + v.weak_leads for k, v in cues.intents.items()},
        **{f"{k} phrases": v.phrases for k, v in cues.intents.items()},
        **cues.domains,
        **cues.smalltalk.labels,
        **dict(cues.urgency),
        **dict(cues.sensitivity),
        **dict(cues.need),
        **dict(cues.follow_ups),
    }
    assert {name for name, phrases in lists.items() if len(phrases) < 40} == set()
    assert {name for name, phrases in lists.items() if len(set(phrases)) < len(phrases)} == set()


def test_a_file_takes_the_place_of_the_shipped_cues(written):
    cues = load_cues(written(SMALL))
    assert list(cues.intents) == ["ask"]
    assert cues.urgency.high == ()
    assert cues.indexes.urgency.find(split_words("urgent")) == []


def test_words_that_yaml_knows_otherwise_stay_words(written):
    cues = load_cues(written(SMALL + "politeness: [no, yes, on, 1.0, null]"))
    assert cues.politeness == ("no", "yes", "on", "1.0", "null")
    assert [m.labels for m in cues.indexes.domains.find(split_words("a 404"))] == [("api",)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("domains: {}", "intents: Field required"),
        (SMALL + "urgency: {hi: [asap]}", "urgency.hi: unknown field"),
        (SMALL + "sensitivity: {public: [news]}", "sensitivity: public takes no phrases"),
        (SMALL.replace("know", "maybe"), "intents.ask.need: Input should be 'act' or 'know'"),
        (SMALL.replace("[404", "[' ', 404"), "domains.api.0: a phrase has 1 to 12"),
        (SMALL.replace("endpoint", "a " * 13), "domains.api.1: a phrase has"),
        ("- a", "the file: Input should be"),
        ("", "the file: Input should be"),
        ("intents: [", "is not YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_file_and_field(written, text, said):
    file = written(text)
    with pytest.raises(SettingsError) as caught:
        load_cues(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the cues .*gone\.yaml.*No such file"):
        load_cues(tmp_path / "gone.yaml")
