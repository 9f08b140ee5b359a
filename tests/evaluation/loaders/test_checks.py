"""What must hold before anything is measured, and what is said when it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.loaders.checks import STRICTNESS, Findings, checked
from toolcrib.evaluation.loaders.rows import Located
from toolcrib.records import Refusal, ToolSpec

CALL, DIAL = ToolSpec(name="call"), ToolSpec(name="dial")


def located(id, text, split="test", *, line=1, relevant=("call",), **fields):
    grades = dict.fromkeys(relevant, 1.0)
    query = LabelledQuery(id, text, split, grades, answerable=bool(grades), **fields)
    return Located(f"q.jsonl: line {line}", query)


def test_what_is_sound_passes_without_a_note():
    queries = [located("a", "ring Ada"), located("b", "sing", relevant=())]
    data = checked("set", [CALL, DIAL], queries)
    assert (data.name, data.kind, data.notes) == ("set", "tools", ())
    assert data.tools == (CALL, DIAL)
    assert data.queries == tuple(item.query for item in queries)


def test_refusals_are_counted_and_only_the_first_are_shown():
    refused = [Refusal("/home/me/q.jsonl", f"line {n}", "text: empty") for n in range(2, 7)]
    data = checked("set", [CALL], [located("a", "ring Ada"), *refused])
    assert data.notes == (
        (
            "queries left out: 5 (q.jsonl: line 2: text: empty; q.jsonl: line 3: text: empty; "
            "q.jsonl: line 4: text: empty; …)"
        ),
    )


def test_the_first_of_equal_tool_ids_stays():
    other = CALL.model_copy(update={"description": "another"})
    data = checked("set", [CALL, other], [located("a", "ring Ada")])
    assert data.tools == (CALL,)
    assert data.notes == ("tools left out, their id is taken: 1 ('call')",)


def test_a_tool_that_is_switched_off_is_left_out():
    off = ToolSpec(name="fax", enabled=False)
    data = checked("set", [CALL, off], [located("a", "ring Ada")])
    assert data.tools == (CALL,)
    assert data.notes == ("tools left out, they are switched off: 1 ('fax')",)


def test_the_first_of_equal_query_ids_stays():
    data = checked("set", [CALL], [located("a", "ring Ada"), located("a", "ring Bob", line=2)])
    assert [query.text for query in data.queries] == ["ring Ada"]
    assert data.notes == ("queries left out, their id is taken: 1 (q.jsonl: line 2: id: 'a')",)


def test_labels_of_unknown_tools_are_dropped():
    item = located(
        "a",
        "ring Ada",
        relevant=("call", "gone"),
        forbidden=frozenset({"lost"}),
        candidates=("call", "gone", "dial"),
    )
    data = checked("set", [CALL, DIAL], [item])
    (query,) = data.queries
    assert query.relevant == {"call": 1.0}
    assert query.forbidden == frozenset()
    assert query.candidates == ("call", "dial")
    assert data.notes == (
        (
            "labels left out, no tool has such an id: 3 (q.jsonl: line 1: relevant: 'gone'; "
            "q.jsonl: line 1: forbidden: 'lost'; q.jsonl: line 1: candidates: 'gone')"
        ),
    )


@pytest.mark.parametrize(
    "lost",
    [
        located("b", "sing", line=2, relevant=("gone",)),
        located("b", "sing", line=2, relevant=(), candidates=("gone",)),
    ],
)
def test_a_query_that_loses_all_its_tools_is_left_out(lost):
    data = checked("set", [CALL], [located("a", "ring Ada"), lost])
    assert [query.id for query in data.queries] == ["a"]
    assert data.notes[-1] == ("queries left out, none of their tools exists: 1 (q.jsonl: line 2)")


def test_a_text_of_several_splits_stays_in_the_strictest():
    queries = [
        located("a", "Ring  Ada", "train", line=1),
        located("b", "ring ada", "test", line=2),
        located("c", "RING ADA\n", "dev", line=3),
        located("d", "ring Bob", "train", line=4),
    ]
    data = checked("set", [CALL], queries)
    assert [query.id for query in data.queries] == ["b", "d"]
    assert data.notes == (
        (
            "queries left out, their text stands in another split: 2 "
            "(q.jsonl: line 1: train and test; q.jsonl: line 3: dev and test)"
        ),
    )


def test_a_text_may_stand_twice_in_one_split():
    data = checked("set", [CALL], [located("a", "ring Ada"), located("b", "ring Ada")])
    assert (len(data.queries), data.notes) == (2, ())


def test_a_name_leak_is_noted():
    data = checked("set", [CALL], [located("a", "call Ada"), located("b", "ring Ada")])
    assert data.notes == (
        (
            "name leak: 50.0% of the answerable queries spell a relevant tool's name, "
            "50.0% spell it as words"
        ),
    )


def test_without_tools_the_first_refusal_is_raised():
    refused = Refusal("tools.jsonl", "line 1", "name: missing")
    with pytest.raises(SourceError) as caught:
        checked("set", [refused], [located("a", "ring Ada")])
    assert str(caught.value) == "tools.jsonl: line 1: holds no tools to use; name: missing"


def test_without_queries_the_error_says_where_they_went():
    with pytest.raises(SourceError) as caught:
        checked("set", [DIAL], [located("a", "ring Ada")])
    assert str(caught.value) == (
        "set: holds no queries to use; labels left out, no tool has such an id: 1 "
        "(q.jsonl: line 1: relevant: 'call'); queries left out, none of their tools exists: 1 "
        "(q.jsonl: line 1)"
    )


def test_findings_are_told_kind_by_kind():
    findings = Findings()
    for kind, place in (("b", "1"), ("a", "2"), ("b", "3")):
        findings.add(kind, place)
    assert findings.notes() == ("b: 2 (1; 3)", "a: 1 (2)")


IDS = st.sampled_from(["call", "dial", "gone", "lost"])
ITEMS = st.builds(
    located,
    st.sampled_from("abcdef"),
    st.sampled_from(["ring Ada", "RING ada", "sing", "Sing ", "whistle"]),
    st.sampled_from([*STRICTNESS, "extra"]),
    relevant=st.lists(IDS, max_size=3),
    forbidden=st.frozensets(IDS, max_size=2),
    candidates=st.none() | st.lists(IDS, max_size=3).map(tuple),
)


@given(st.lists(ITEMS, max_size=8))
def test_whatever_comes_in_a_sound_set_comes_out(items):
    base = located("base", "hum a tune")
    data = checked("set", [CALL, DIAL], [base, *items])
    tools = {tool.id for tool in data.tools}
    assert len({query.id for query in data.queries}) == len(data.queries)
    splits: dict[str, str] = {}
    for query in data.queries:
        text = " ".join(query.text.lower().split())
        assert splits.setdefault(text, query.split) == query.split
        labels = {*query.relevant, *query.forbidden, *(query.candidates or ())}
        assert labels <= tools
        assert query.answerable == bool(query.relevant)
    came_through = data.queries == tuple(item.query for item in [base, *items])
    assert came_through == (data.notes == ())
