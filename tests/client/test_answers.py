"""Records over the wire: what a service says of them becomes the same records again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from toolcrib.client.answers import (
    context_of,
    decision_of,
    read_collections,
    read_facets,
    read_found,
    read_hits,
    read_knowledge,
    read_page,
    read_readiness,
    read_written,
)
from toolcrib.records import (
    SENSITIVITIES,
    Collection,
    CollectionHit,
    Context,
    Decision,
    Entity,
    Facets,
    FindResult,
    KnowledgeResult,
    Passage,
    PassageHit,
    Refusal,
    Route,
    ToolHit,
    ToolSpec,
)

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
KNOWLEDGE = st.builds(
    KnowledgeResult,
    collections=st.lists(st.builds(CollectionHit, NAMES, SHARE), max_size=2).map(tuple),
    passages=st.lists(st.builds(PassageHit, st.just(0), SHARE, PASSAGES), max_size=2).map(
        lambda hits: tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1))
    ),
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


def sent(record, hits=()):
    """The JSON of a record, in the shape `full`."""
    told = json.loads(json.dumps(record.as_dict()))
    items = told["tools"]["items"] if isinstance(record, Decision) else told.get("tools", ())
    for item, hit in zip(items, hits, strict=True):
        item["spec"] = hit.tool.model_dump(mode="json")
    return told


@given(FOUND)
def test_found_tools_come_through_whole(found):
    assert read_found(sent(found, found.tools)) == found


@given(KNOWLEDGE)
def test_passages_come_through_whole(found):
    assert read_knowledge(sent(found)) == found


@given(CONTEXTS)
def test_a_context_comes_through_whole(context):
    assert context_of(context.text, sent(context)) == context


@settings(max_examples=40)
@given(DECISIONS)
def test_a_decision_comes_through_whole(decision):
    again = decision_of(decision.context.text, sent(decision, decision.tools.tools))
    assert again.as_dict() == decision.as_dict()
    assert [hit.tool for hit in again.tools.tools] == [hit.tool for hit in decision.tools.tools]
    assert again.tools.query == again.search_text == decision.search_text


@given(HITS)
def test_a_hit_comes_through_with_its_specification(hit):
    told = {**hit.as_dict(), "spec": hit.tool.model_dump(mode="json")}
    (again,) = read_hits({"tools": [told]})
    assert again.tool == hit.tool
    assert again.as_dict() == hit.as_dict()


def test_facets_collections_pages_and_readiness_come_through():
    facets = Facets(2, {"mail": 2}, {}, {"safe": 1}, {"public": 2})
    assert read_facets(facets.as_dict()) == facets
    rules = Collection(name="rules", examples=("how?",), answers=(("post", "ask"),), priority=1)
    told = {"collections": [{**rules.model_dump(mode="json"), "passages": 3}]}
    assert read_collections(told) == [(rules, 3)]
    tool = ToolSpec(name="send", server="mail", safety_tags=("destructive",))
    page = read_page({"tools": [tool.model_dump(mode="json", exclude_defaults=True)], "next": "x"})
    assert (page.tools, page.next) == ((tool,), "x")
    ready = {"status": "ok", "engine": "edge", "tools": 2, "encoder": "bundled", "index": "5a"}
    assert read_readiness(ready).index == "5a"


COUNTED = {"added": 2, "changed": 1, "removed": 0, "unchanged": 0, "refused": []}


def test_a_report_has_the_ids_that_a_service_tells():
    ids = {"added": ["a", "b"], "changed": ["c"], "removed": [], "unchanged": []}
    report = read_written({**COUNTED, "ids": ids}).report
    assert (report.added, report.changed, report.removed) == (("a", "b"), ("c",), ())


def test_where_a_service_only_counts_the_counts_are_right():
    report = read_written(COUNTED).report
    assert report.as_dict() == COUNTED


def test_what_is_held_back_is_told_with_its_reason():
    held = {"tool_id": "mail/send", "reason": "its text speaks to the model", "server": "mail"}
    refusal = {"source": "the request", "place": "[0]", "reason": "name: missing", "more": 1}
    written = read_written({**COUNTED, "refused": [refusal], "quarantined": [held]})
    assert written.report.refused == (Refusal("the request", "[0]", "name: missing"),)
    assert [(each.place, each.reason) for each in written.held] == [
        ("mail/send", "held back until somebody approves it: its text speaks to the model")
    ]


@pytest.mark.parametrize("wrong", [{"verdict": "maybe"}, {"took_ms": 5}, {"query": None}])
def test_what_is_of_another_type_is_no_answer(wrong):
    with pytest.raises(ValidationError):
        read_found({**FindResult("q", (), {}).as_dict(), **wrong})
