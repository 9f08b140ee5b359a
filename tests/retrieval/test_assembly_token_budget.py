"""A token budget stands in place of k: the best tools that fit, and always one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.conftest import TOOLS
from toolcrib import FindResult, SearchOptions
from toolcrib.records import ToolHit
from toolcrib.records.definitions import definition_tokens
from toolcrib.retrieval.assembly import NEEDS_CUT, arrange


def answer(*needs: tuple[int, ...], general: bool = False) -> FindResult:
    hits = [
        ToolHit(rank, 0.9 / rank, tool, needs=needs[rank - 1] if needs else None)
        for rank, tool in enumerate(TOOLS, start=1)
    ]
    if general:
        hits[-1] = replace(hits[-1], legs={"fallback": 1.0})
    return FindResult("x", tuple(hits), {"total": 1.0})


@pytest.mark.parametrize("form", ["schema", "signature"])
@given(budget=st.integers(1, 2_000), general=st.booleans())
def test_the_best_that_fit_come_in_their_order_and_at_least_one(form, budget, general):
    whole = answer(general=general)
    found = arrange(whole, SearchOptions(token_budget=budget, form=form))
    ids = [hit.id for hit in found.tools]
    taken = sum(definition_tokens(hit.tool, form) for hit in found.tools)
    assert ids[0] == TOOLS[0].id
    assert taken <= budget or len(ids) == 1 + general
    assert ids == [tool.id for tool in TOOLS if tool.id in ids]
    assert [hit.rank for hit in found.tools] == list(range(1, len(ids) + 1))
    assert not general or ids[-1] == TOOLS[-1].id
    left_out = (tool for tool in TOOLS if tool.id not in ids)
    assert all(taken + definition_tokens(tool, form) > budget for tool in left_out)


def test_a_need_whose_tools_do_not_fit_is_said_to_be_cut():
    needs = ((0,), (1,), *((0,) for _ in TOOLS[2:]))
    assert NEEDS_CUT in arrange(answer(*needs), SearchOptions(token_budget=1)).degraded
    assert NEEDS_CUT not in arrange(answer(*needs), SearchOptions(token_budget=9_999)).degraded


def test_in_the_order_of_ids_each_keeps_its_rank():
    found = arrange(answer(), SearchOptions(order="id"))
    assert [hit.id for hit in found.tools] == sorted(tool.id for tool in TOOLS)
    assert {hit.id: hit.rank for hit in found.tools} == {t.id: n for n, t in enumerate(TOOLS, 1)}


def test_a_tool_comes_with_what_it_needs_or_not_at_all():
    first, user, giver, *_ = answer().tools
    giver = replace(giver, needed_for=(user.id,))

    def kept(*hits: ToolHit, left_out: ToolHit | None = None, **options: Any) -> list[str]:
        """What comes where there is room for all but one."""
        room = sum(definition_tokens(hit.tool, "signature") for hit in hits if hit is not left_out)
        asked = SearchOptions(token_budget=room, form="signature", **options)
        return [hit.id for hit in arrange(FindResult("x", hits, {}), asked).tools]

    assert kept(first, user, giver) == [first.id, user.id, giver.id]
    assert kept(first, user, giver, left_out=giver) == [first.id]
    assert kept(first, user, giver, left_out=user) == [first.id]
    assert kept(first, giver, user, left_out=user) == [first.id, giver.id]
    assert kept(user, giver, left_out=giver) == [user.id]


def test_a_tool_that_is_called_by_name_comes_before_what_another_needs():
    first, second, giver, *_ = answer().tools
    named = [replace(hit, score=1.0) for hit in (first, second)]
    room = sum(definition_tokens(hit.tool, "schema") for hit in named)
    for needed_for in (first.id, second.id):
        hits = (named[0], replace(giver, needed_for=(needed_for,)), named[1])
        found = arrange(FindResult("x", hits, {}), SearchOptions(token_budget=room))
        assert [hit.id for hit in found.tools] == [first.id, second.id]


def test_a_set_that_is_to_be_complete_says_when_a_budget_cuts_it():
    for budget, marks in ((1, ("coverage",)), (9_999, ())):
        assert arrange(answer(), SearchOptions(k="auto", token_budget=budget)).degraded == marks
        assert arrange(answer(), SearchOptions(k=5, token_budget=budget)).degraded == ()
