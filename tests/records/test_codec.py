"""Records as JSON, and back: nothing is lost but what the reader knows already."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from toolcrib.records import (
    SENSITIVITIES,
    Collection,
    CollectionHit,
    Context,
    Decision,
    Entity,
    Facets,
    FindResult,
    IndexReport,
    KnowledgeResult,
    Passage,
    PassageHit,
    Refusal,
    Route,
    Scope,
    ToolHit,
    ToolSpec,
)
from toolcrib.records.codec import UNKNOWN_FIELD, adapter, as_json, dump, faults, load

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text("abcxyz", min_size=1, max_size=6)
SHARE = st.floats(0, 1).map(lambda value: round(value, 6))
MAYBE = st.none() | SHARE
MS = st.floats(0, 1e4).map(lambda value: round(value, 3))
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
VERDICTS = st.sampled_from(["accept", "fallback", "abstain"])

TOOLS = st.builds(
    ToolSpec,
    name=NAMES,
    server=NAMES,
    description=TEXT,
    tags=TEXTS,
    input_schema=st.dictionaries(TEXT, st.integers() | TEXT | st.none(), max_size=2),
    cost_estimate=st.none() | st.floats(0, 9),
    sensitivity=st.sampled_from(SENSITIVITIES),
)
HITS = st.builds(
    ToolHit,
    rank=st.integers(1, 9),
    score=SHARE,
    tool=TOOLS,
    legs=st.dictionaries(NAMES, SHARE, max_size=2),
    probability=MAYBE,
)
FOUND = st.builds(
    FindResult,
    query=TEXT,
    tools=st.lists(HITS, max_size=3).map(tuple),
    took_ms=st.dictionaries(NAMES, MS, max_size=2),
    confidence=MAYBE,
    verdict=VERDICTS,
    reason=TEXT,
    threshold=MAYBE,
    fallback=st.booleans(),
    degraded=TEXTS,
    unmatched_terms=TEXTS,
)
PASSAGES = st.builds(
    Passage, collection=NAMES, document=TEXT, text=TEXT, title=TEXTS, position=st.integers(0, 99)
)
PASSAGE_HITS = st.builds(PassageHit.of, PASSAGES, st.integers(1, 9), SHARE)
KNOWLEDGE = st.builds(
    KnowledgeResult,
    collections=st.lists(st.builds(CollectionHit, NAMES, SHARE), max_size=2).map(tuple),
    passages=st.lists(PASSAGE_HITS, max_size=2).map(tuple),
    confidence=MAYBE,
    fit=MAYBE,
    verdict=VERDICTS,
    reason=TEXT,
    threshold=MAYBE,
)
CONTEXTS = st.builds(
    Context,
    text=TEXT,
    intent=st.none() | TEXT,
    domain=st.none() | TEXT,
    sensitivity=st.sampled_from(SENSITIVITIES),
    entities=st.lists(st.builds(Entity, NAMES, TEXT, st.integers(0, 9), st.integers(0, 9))).map(
        tuple
    ),
    confidences=st.dictionaries(NAMES, SHARE, max_size=2),
    confidence=SHARE,
    signals=TEXTS,
)
ROUTES = st.builds(
    Route,
    kind=st.sampled_from(["tools", "knowledge", "both", "none", "general"]),
    reason=TEXT,
    confidence=MAYBE,
    corrected_from=st.none() | st.sampled_from(["tools", "none"]),
)
DECISIONS = st.builds(
    Decision,
    id=NAMES,
    context=CONTEXTS,
    route=ROUTES,
    tools=FOUND,
    knowledge=KNOWLEDGE,
    search_text=TEXT,
    signals=TEXTS,
    took_ms=st.dictionaries(NAMES, MS, max_size=2),
    degraded=TEXTS,
    max_tool_calls=st.integers(0, 9),
    tool_timeout_s=st.floats(0.1, 99),
)


def again(record):
    """What is read of a record that was written in full."""
    return load(type(record), dump(record, full=True))


@given(FOUND | KNOWLEDGE | HITS | ROUTES)
def test_an_answer_comes_back_whole(record):
    assert again(record) == record


@given(CONTEXTS)
def test_a_context_comes_back_without_the_text_that_it_is_of(context):
    assert replace(again(context), text=context.text) == context


@given(DECISIONS)
def test_a_decision_is_the_same_json_again(decision):
    assert as_json(again(decision), full=True) == as_json(decision, full=True)


REPORT = IndexReport(("a", "b"), (), (), ("c",), (Refusal("x", "[0]", "name: missing"),))
COUNTS = {"added": 2, "changed": 0, "removed": 0, "unchanged": 1}
SCOPE = Scope(servers=frozenset({"b", "a"}), max_sensitivity="internal")
FACETS = Facets(2, {"mail": 2}, {}, {"safe": 1}, {"public": 2})


@pytest.mark.parametrize("record", [REPORT, SCOPE, FACETS], ids=lambda each: type(each).__name__)
def test_a_record_comes_back_whole(record):
    assert again(record) == record


def test_a_report_is_written_as_counts_and_a_scope_in_order():
    refusals = [{"source": "x", "place": "[0]", "reason": "name: missing"}]
    assert as_json(REPORT) == {**COUNTS, "refused": refusals}
    assert as_json(SCOPE)["servers"] == ["a", "b"]


def test_specifications_are_written_in_full_only():
    found = FindResult("q", (ToolHit(1, 0.5, ToolSpec(name="send")),), {})
    assert "spec" not in as_json(found)["tools"][0]
    assert as_json(found.tools) == as_json(found)["tools"]
    assert as_json(found, full=True)["tools"][0]["spec"]["name"] == "send"


ANSWER = as_json(FindResult("q", (), {}))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Scope, {"servres": ["a"]}),
        (FindResult, ANSWER | {"verdict": "maybe"}),
        (FindResult, ANSWER | {"took_ms": 5}),
        (FindResult, ANSWER | {"query": None}),
    ],
    ids=["an unknown restriction", "verdict", "took_ms", "query"],
)
def test_what_is_of_another_type_is_no_record(kind, wrong):
    with pytest.raises(ValidationError, match=r"servres|verdict|took_ms|query"):
        load(kind, json.dumps(wrong))


@pytest.mark.parametrize(("items", "places"), [([], ["the whole"]), ([1], ["0"])])
def test_a_list_of_faulty_items_is_not_too_short_as_well(items, places):
    with pytest.raises(ValidationError) as caught:
        adapter(Annotated[tuple[str, ...], Field(min_length=1)]).validate_python(items)
    assert [place for place, _ in faults(caught.value)] == places


@pytest.mark.parametrize(("count", "listed"), [(1_000, 1_000), (1_001, 1)])
def test_faults_are_listed_up_to_a_number(count, listed):
    with pytest.raises(ValidationError) as caught:
        adapter(list[int]).validate_python(["a"] * count)
    told = faults(caught.value, "body")
    assert len(told) == listed
    assert (told == [("body", "1,001 faults, too many to list")]) is (count > 1_000)


@pytest.mark.parametrize("kind", [Scope, Collection])
def test_a_field_that_a_record_lacks_is_unknown(kind):
    with pytest.raises(ValidationError) as caught:
        adapter(kind).validate_python({"name": "a", "sever": 1})
    assert ("sever", UNKNOWN_FIELD) in faults(caught.value)


def test_the_reason_for_what_is_no_object_names_no_class():
    with pytest.raises(ValidationError) as caught:
        adapter(list[Collection]).validate_python([5])
    [(place, reason)] = faults(caught.value)
    assert (place, "Collection" in reason) == ("0", False)
