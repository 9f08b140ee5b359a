"""What a collection may be called and say of itself, and how passages and answers are written."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from toolcrib.records import SENSITIVITIES, Collection, KnowledgeResult, Passage, PassageHit
from toolcrib.records.codec import as_json

PART = Passage("handbook", "teams/leave.md", "Ask a week before.", ("Leave", "Holidays"), 2, 340)


def test_what_an_export_writes_as_null_is_none_given():
    given = {"name": "a", "description": None, "examples": None, "answers": None}
    assert Collection.model_validate(given) == Collection(name="a")


@pytest.mark.parametrize("name", ["notes", "team.notes", "team-notes", "Notizen_für_alle", "日記"])
def test_a_name_is_of_letters_digits_dots_dashes_and_underscores(name):
    assert Collection(name=name).name == name


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a#1", "a\n", "x" * 201, "\ud800"])
def test_other_names_are_refused(name):
    with pytest.raises(ValidationError):
        Collection(name=name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("priority", value) for value in (float("nan"), float("inf"), "high")),
        ("sensitivity", "secret"),
        *(("answers", value) for value in ([["api"]], "api")),
        ("examples", [1]),
        ("colour", "red"),
    ],
)
def test_what_no_collection_can_say_is_refused(field, value):
    with pytest.raises(ValidationError, match=field):
        Collection.model_validate({"name": "a", field: value})


def test_a_citation_without_headings_is_the_place_alone():
    assert Passage("a", "b.txt", "text").citation == "b.txt, part 1"


def test_a_citation_names_the_collection_where_another_has_that_document():
    hit = PassageHit.of(PART, 1, 0.5, is_shared_name=True)
    assert hit.citation == "Leave › Holidays (handbook/teams/leave.md, part 3)"
    assert as_json(hit)["citation"] == hit.citation
    assert as_json(hit)["is_shared_name"] is True


def test_a_hit_is_written_with_all_that_an_agent_quotes():
    legs = {"dense": 0.87654321}
    assert as_json(PassageHit.of(PART, 1, 0.123456789, legs)) == {
        "id": "handbook/teams/leave.md#2",
        "collection": "handbook",
        "score": 0.123457,
        "citation": "Leave › Holidays (teams/leave.md, part 3)",
        "title": ["Leave", "Holidays"],
        "source": "teams/leave.md",
        "position": 2,
        "start": 340,
        "text": "Ask a week before.",
        "rank": 1,
        "legs": {"dense": 0.876543},
    }
    assert "legs" not in as_json(PassageHit.of(PART, 1, 0.5))


def test_an_answer_to_nothing_abstains_and_claims_no_probability():
    assert as_json(KnowledgeResult()) == {
        "verdict": "abstain",
        "confidence": None,
        "fit": None,
        "reason": "",
        "threshold": None,
        "collections": [],
        "passages": [],
        "signals": [],
        "degraded": [],
    }


def test_sensitivities_are_ordered_from_what_all_may_see():
    assert SENSITIVITIES == ("public", "internal", "pii", "safety_critical")
