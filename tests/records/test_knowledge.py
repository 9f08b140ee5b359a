"""What a collection may be called and say of itself, and how passages and answers are written."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest
from pydantic import ValidationError

from toolcrib.records import (
    SENSITIVITIES,
    Collection,
    CollectionHit,
    KnowledgeResult,
    Passage,
    PassageHit,
    Scope,
)
from toolcrib.records.codec import as_json

PART = Passage("handbook", "teams/leave.md", "Ask a week before.", ("Leave", "Holidays"), 2, 340)


def test_a_collection_needs_no_more_than_a_name():
    bare = Collection(name="handbook")
    assert (bare.description, bare.examples, bare.answers) == ("", (), ())
    assert (bare.sensitivity, bare.priority, bare.fallback) == ("public", 0.0, False)


def test_what_an_export_writes_as_null_is_none_given():
    given = {"name": "a", "description": None, "examples": None, "answers": None}
    assert Collection.model_validate(given) == Collection(name="a")


def test_pairs_may_come_as_lists():
    given = {"name": "a", "answers": [["api", "build"], ["data", "query"]]}
    assert Collection.model_validate(given).answers == (("api", "build"), ("data", "query"))


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
        ("priority", float("nan")),
        ("priority", float("inf")),
        ("priority", "high"),
        ("sensitivity", "secret"),
        ("answers", [["api"]]),
        ("answers", "api"),
        ("examples", [1]),
        ("colour", "red"),
    ],
)
def test_what_no_collection_can_say_is_refused(field, value):
    with pytest.raises(ValidationError, match=field):
        Collection.model_validate({"name": "a", field: value})


def test_a_collection_cannot_be_changed_in_place():
    bare = Collection(name="a")
    with pytest.raises(ValidationError, match="frozen"):
        bare.priority = 1.0


def test_a_collection_survives_being_written_as_json():
    full = Collection(
        name="a",
        description="b",
        examples=("c?",),
        answers=(("d", "e"),),
        sensitivity="pii",
        priority=0.5,
        fallback=True,
    )
    assert Collection.model_validate_json(full.model_dump_json()) == full


def test_a_passages_id_names_its_collection_its_document_and_its_place():
    assert PART.id == "handbook/teams/leave.md#2"


def test_two_parts_of_a_document_have_two_ids():
    assert Passage("a", "b", "text", position=0).id != Passage("a", "b", "text", position=1).id


def test_a_citation_counts_parts_as_people_do():
    assert PART.citation == "Leave › Holidays (teams/leave.md, part 3)"


def test_a_citation_without_headings_is_the_place_alone():
    assert Passage("a", "b.txt", "text").citation == "b.txt, part 1"


def test_a_passage_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        PART.text = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_hit_is_written_with_all_that_an_agent_quotes():
    assert as_json(PassageHit.of(PART, 1, 0.123456789)) == {
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
    }


def test_the_legs_of_a_hit_are_written_where_there_are_any():
    shown = as_json(PassageHit.of(PART, 1, 0.5, {"dense": 0.87654321}))
    assert shown["legs"] == {"dense": 0.876543}


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


def test_an_answer_is_written_rounded_and_as_json():
    found = KnowledgeResult(
        (CollectionHit("handbook", 0.77777777),),
        (PassageHit.of(PART, 1, 0.5),),
        confidence=0.77777777,
        fit=0.88888888,
        verdict="accept",
        reason="the map names handbook",
        threshold=0.2,
    )
    shown = json.loads(json.dumps(as_json(found)))
    assert shown["collections"] == [{"id": "handbook", "confidence": 0.777778}]
    assert (shown["confidence"], shown["fit"], shown["threshold"]) == (0.777778, 0.888889, 0.2)
    assert (shown["verdict"], shown["reason"]) == ("accept", "the map names handbook")
    assert [hit["id"] for hit in shown["passages"]] == [PART.id]


def test_sensitivities_are_ordered_from_what_all_may_see():
    assert SENSITIVITIES == ("public", "internal", "pii", "safety_critical")


def test_a_scope_without_a_word_restricts_nothing():
    free = Scope()
    assert (free.servers, free.collections, free.max_sensitivity) == (None, None, None)
    assert free.without_safety_tags == frozenset()


def test_a_scope_of_no_collections_is_not_one_without_restriction():
    assert Scope(collections=frozenset()) != Scope()
