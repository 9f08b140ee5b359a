"""Needs: each is searched and judged by itself, and every one has its best tool in the answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import calibration
from tests.retrieval.conftest import GENERAL, TOOLS, Open
from toolcrib import FindResult, Scope
from toolcrib.errors import QueryError
from toolcrib.records import ToolHit
from toolcrib.retrieval.assembly import NEEDS_CUT, merge_needs
from toolcrib.retrieval.options import MAX_NEEDS
from toolcrib.store.filters import Equals

SEND, TRACK, SEARCH = "send a mail to somebody", "tell where a parcel is", "look up on the web"


def ids(found: FindResult) -> list[str]:
    return [hit.id for hit in found.tools]


def answer(need: str, *hits: tuple[int, float], verdict: Any = "accept") -> FindResult:
    tools = tuple(
        ToolHit(rank, probability, TOOLS[place], probability=probability)
        for rank, (place, probability) in enumerate(hits, start=1)
    )
    sure = tools[0].probability if tools else None
    return FindResult(need, tools, {"total": 1.0}, sure, verdict, reason=f"{need} says so")


# -- interleaving --------------------------------------------------------------------------------


@st.composite
def rankings(draw: Any) -> FindResult:
    places = draw(st.lists(st.integers(0, len(TOOLS) - 1), unique=True, max_size=len(TOOLS)))
    sure = draw(st.floats(0, 1))
    return answer("x", *((place, sure / rank) for rank, place in enumerate(places, start=1)))


@given(st.lists(rankings(), min_size=1, max_size=4), st.none() | rankings(), st.integers(1, 6))
def test_every_need_has_its_best_tool_in_the_answer_and_no_tool_comes_twice(answers, whole, k):
    found = merge_needs(answers, whole, k)
    bests = {each.tools[0].id for each in answers if each.tools}
    assert len(ids(found)) == len(set(ids(found))) <= k
    assert set(ids(found)) <= {hit.id for each in [*answers, whole] if each for hit in each.tools}
    assert [hit.rank for hit in found.tools] == list(range(1, len(found.tools) + 1))
    assert (NEEDS_CUT in found.degraded) == (not bests <= set(ids(found)))
    assert not (NEEDS_CUT in found.degraded and k >= len(answers))
    for place, each in enumerate(answers):
        served = [hit for hit in found.tools if hit.needs is not None and place in hit.needs]
        assert {hit.id for hit in served} <= {hit.id for hit in each.tools}
        if each.tools and NEEDS_CUT not in found.degraded:
            assert each.tools[0].id in {hit.id for hit in served}


def test_the_surest_of_a_round_comes_first_and_every_round_gives_each_need_one_more():
    unsure, sure = answer("a", (0, 0.4), (1, 0.3)), answer("b", (2, 0.9), (0, 0.8), (3, 0.7))
    found = merge_needs([unsure, sure], None, 5)
    assert ids(found) == [TOOLS[place].id for place in (2, 0, 3, 1)]
    assert [hit.needs for hit in found.tools] == [(1,), (0,), (1,), (0,)]


def test_a_tool_that_several_needs_give_stands_once_for_all_of_them():
    found = merge_needs([answer("a", (0, 0.4), (1, 0.3)), answer("b", (0, 0.9), (1, 0.8))], None, 5)
    assert [(hit.id, hit.needs) for hit in found.tools] == [
        (TOOLS[0].id, (0, 1)),
        (TOOLS[1].id, (0, 1)),
    ]
    assert found.tools[0].probability == 0.9


def test_the_query_fills_up_what_the_needs_leave():
    found = merge_needs([answer("a", (0, 0.4))], answer("q", (1, 0.9), (2, 0.8)), 5)
    assert ids(found) == [TOOLS[place].id for place in (0, 1, 2)]
    assert [hit.needs for hit in found.tools] == [(0,), (), ()]
    assert found.query == "q"


def test_the_verdict_is_the_surest_ones_and_says_what_nothing_fits():
    found = merge_needs([answer("a", (0, 0.1), verdict="abstain"), answer("b", (1, 0.9))], None, 5)
    assert (found.verdict, found.confidence) == ("accept", 0.9)
    assert found.reason == "b says so; nothing fits 1 of 2 needs"
    assert [(each.text, each.verdict, each.confidence) for each in found.needs] == [
        ("a", "abstain", 0.1),
        ("b", "accept", 0.9),
    ]
    assert found.took_ms == {"total": 2.0}


# -- searching -----------------------------------------------------------------------------------


def test_needs_are_searched_one_by_one_with_or_without_a_query(open_crib: Open):
    crib = open_crib()
    found = crib.find_tools(needs=[SEND, TRACK], k=2)
    assert {hit.id: hit.needs for hit in found.tools} == {
        "mail/send_mail": (0,),
        "post/track_parcel": (1,),
    }
    assert found.query == ""
    filled = crib.find_tools(SEARCH, needs=[SEND, TRACK], k=3)
    assert ids(filled)[2] == "web/search"
    assert NEEDS_CUT in crib.find_tools(needs=[SEND, TRACK], k=1).degraded


def test_what_holds_for_a_query_holds_for_every_need(open_crib: Open):
    crib = open_crib()
    post = Scope(servers=frozenset({"post"}))
    for narrowed in ({"scope": post}, {"where": Equals("server", "post")}):
        found = crib.find_tools(needs=[SEND, TRACK], **narrowed)
        assert {hit.server for hit in found.tools} == {"post"}
    explained = crib.find_tools(needs=["send a zebra", TRACK], explain=True)
    assert explained.unmatched_terms == ("zebra",)
    assert all(hit.legs for hit in explained.tools)


def test_a_need_that_nothing_fits_is_told_apart(open_crib: Open):
    crib = open_crib(calibration, threshold=0.3)
    marked = crib.find_tools(needs=[SEND, "?!"], gate=False)
    assert [need.verdict for need in marked.needs] == ["accept", "abstain"]
    assert marked.verdict == "accept"
    assert "no-words" in marked.degraded
    assert all(hit.needs == (0,) for hit in marked.tools)


def test_the_general_tool_stands_once_for_all_needs_that_nothing_fits(open_crib: Open):
    crib = open_crib(calibration, threshold=0.99, gate={"fallback": GENERAL, "threshold": 0.99})
    found = crib.find_tools(needs=["milk the goat", "paint the fence"], k=2)
    assert (ids(found)[-1], ids(found).count(GENERAL), len(found.tools)) == (GENERAL, 1, 3)
    assert (found.verdict, found.fallback) == ("fallback", True)


def test_a_set_that_is_complete_is_one_for_every_need(open_crib: Open):
    crib = open_crib(calibration)
    alone = [crib.find_tools(need, "auto", coverage=0.5, gate=False) for need in (SEND, TRACK)]
    found = crib.find_tools(needs=[SEND, TRACK], k="auto", coverage=0.5, gate=False)
    assert set(ids(found)) == {tool for each in alone for tool in ids(each)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "neither a query nor a need"),
        ({"needs": []}, "neither a query nor a need"),
        ({"needs": ["send", " "]}, "need 1 is empty"),
        ({"needs": "send a mail"}, "a list of texts"),
        ({"needs": ["x"] * (MAX_NEEDS + 1)}, "at most 20"),
        ({"query": " ", "needs": ["send"]}, "the query is empty"),
        ({"needs": ["send"], "k": 0}, "k is 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(open_crib: Open, asked: dict[str, Any], said: str):
    with pytest.raises(QueryError, match=said):
        open_crib().find_tools(**asked)
