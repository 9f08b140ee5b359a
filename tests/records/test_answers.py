"""An answer without tools is never accepted, however it came to have none."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from toolcrib.records import FindResult, ToolHit, ToolSpec
from toolcrib.records.answers import ToolSelection, Verdict, with_ranks
from toolcrib.records.codec import as_json

HITS = [ToolHit(rank, 0.5, ToolSpec(name=f"tool{rank}")) for rank in (1, 2, 3)]
VERDICTS = st.sampled_from(get_args(Verdict))
SHARES = st.none() | st.floats(0, 1)


@pytest.mark.parametrize("record", [FindResult, ToolSelection])
@given(verdict=VERDICTS, sure=SHARES, kept=st.sets(st.sampled_from([1, 2, 3])))
def test_filtering_an_answer_keeps_its_verdict_unless_an_accepted_one_is_emptied(
    record, verdict, sure, kept
):
    whole = record("q", tuple(HITS), {}, confidence=sure, verdict=verdict, reason="so")
    left = replace(whole, tools=tuple(hit for hit in whole.tools if hit.rank in kept))

    assert (whole.verdict, whole.confidence, whole.reason) == (verdict, sure, "so")
    if kept or verdict != "accept":
        assert (left.verdict, left.confidence, left.reason) == (verdict, sure, "so")
    else:
        assert (left.verdict, left.confidence) == ("abstain", None)
        assert left.reason != "so"


@given(verdict=VERDICTS, sure=SHARES, count=st.integers(0, 3))
def test_what_is_read_of_the_wire_is_accepted_with_tools_alone(verdict, sure, count):
    sent = FindResult("q", tuple(HITS), {}, confidence=sure, verdict=verdict)
    told = as_json(sent, full=True)
    read = TypeAdapter(FindResult).validate_python({**told, "tools": told["tools"][:count]})

    assert len(read.tools) == count
    assert (read.verdict == "accept") is (verdict == "accept" and count > 0)


def test_ranks_are_places_and_a_hit_in_its_place_is_not_copied():
    first, second = (ToolHit(1, 0.5, ToolSpec(name=name)) for name in ("send", "read"))
    ranked = with_ranks([first, second])
    assert [(hit.name, hit.rank) for hit in ranked] == [("send", 1), ("read", 2)]
    assert ranked[0] is first
