"""What is sent, in parts: nothing is lost, nothing is sent twice, and what cannot be is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Passage, Refusal, ToolSpec
from toolcrib.client.parcels import (
    PART,
    PART_BYTES,
    Parcel,
    packed_passages,
    packed_tools,
    parts,
)

GROUPS = st.lists(
    st.lists(
        st.integers(0, PART_BYTES // 2).map(lambda size: Parcel("x", "", {}, size)),
        min_size=1,
        max_size=300,
    ),
    max_size=12,
)


@given(GROUPS)
def test_parts_hold_all_in_order_and_divide_no_group(groups):
    sent = list(parts(groups))
    assert [each for part in sent for each in part] == [each for group in groups for each in group]
    ends = {sum(len(group) for group in groups[:n]) for n in range(len(groups) + 1)}
    for n in range(len(sent) + 1):
        assert sum(len(part) for part in sent[:n]) in ends


@given(GROUPS)
def test_a_part_is_small_unless_one_group_is_all_of_it(groups):
    for part in parts(groups):
        is_small = len(part) <= PART and sum(each.size for each in part) <= PART_BYTES
        assert is_small or part in groups


def spec(name="send", **fields):
    return ToolSpec(name=name, server="mail", **fields)


def test_a_tool_is_packed_as_what_a_store_would_keep_of_it():
    (parcel,), refused = packed_tools([("a.json", spec(input_schema={"maximum": float("nan")}))])
    assert (parcel.id, parcel.source, refused) == ("mail/send", "a.json", [])
    assert parcel.body == {
        "name": "send",
        "server": "mail",
        "id": "mail/send",
        "input_schema": {"maximum": None},
    }
    assert ToolSpec.model_validate(parcel.body) == spec(input_schema={"maximum": None})


def test_a_tool_that_comes_twice_is_sent_once_and_another_of_its_id_is_refused():
    entries = [("a", spec()), ("b", spec()), ("c", spec(description="Other."))]
    parcels, (refusal,) = packed_tools(entries)
    assert [each.source for each in parcels] == ["a"]
    assert (refusal.source, refusal.place) == ("c", "mail/send")
    assert "already stands for a different tool in a" in refusal.reason


def test_what_readers_refuse_stays_refused():
    refusal = Refusal("a.json", "[1]", "name: missing")
    assert packed_tools([("a.json", refusal)]) == ([], [refusal])
    assert packed_passages([("a.md", refusal)]) == ({}, [refusal])


def nested(depth):
    found = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (spec("bad", description="half \ud800"), "holds half a character"),
        (spec("bad", annotations=nested(199)), "cannot be sent: recursion limit exceeded"),
    ],
)
def test_one_tool_that_cannot_be_sent_keeps_no_other_out(bad, said):
    parcels, (refusal,) = packed_tools([("", bad), ("", spec("good"))])
    assert [each.id for each in parcels] == ["mail/good"]
    assert refusal.place == "mail/bad"
    assert said in refusal.reason


def test_passages_are_packed_by_collection_and_document():
    passages = [
        Passage("rules", "a.md", "One.", ("A",), 0, 0),
        Passage("wards", "a.md", "Two."),
        Passage("rules", "b.md", "Three."),
        Passage("rules", "a.md", "Four.", ("A",), 1, 9),
    ]
    packed, refused = packed_passages([("", each) for each in passages])
    assert {name: list(named) for name, named in packed.items()} == {
        "rules": ["a.md", "b.md"], "wards": ["a.md"],
    }  # fmt: skip
    assert packed["rules"]["a.md"][1].body == {
        "document": "a.md",
        "text": "Four.",
        "title": ["A"],
        "position": 1,
        "start": 9,
    }
    assert refused == []


def test_another_document_of_the_same_name_is_refused():
    first, other = Passage("rules", "a.md", "One."), Passage("rules", "a.md", "Other.")
    packed, (refusal,) = packed_passages([("x", first), ("y", first), ("y", other)])
    assert len(packed["rules"]["a.md"]) == 1
    assert (refusal.source, refusal.place) == ("y", "part 1")
    assert "'a.md' already stands for another document, from x" in refusal.reason


def test_one_passage_that_cannot_be_sent_keeps_no_other_out():
    entries = [
        ("", Passage("rules", "a.md", "half \ud800", position=2)),
        ("", Passage("r", "b", "x")),
    ]
    packed, refused = packed_passages(entries)
    assert list(packed) == ["r"]
    assert [(each.source, each.place) for each in refused] == [("a.md", "part 3")]
