"""Interleaving: a fair draft of two rankings, which changes no more of an answer than its tools."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.conftest import TOOLS
from toolcrib.errors import SettingsError
from toolcrib.records import FindResult, ToolHit
from toolcrib.retrieval.assembly import interleave, team_draft
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.options import InterleaveSettings


def ranking(*places: int) -> tuple[ToolHit, ...]:
    return tuple(
        ToolHit(rank, 1 / rank, TOOLS[place], probability=0.9 / rank)
        for rank, place in enumerate(places, start=1)
    )


def ids(hits: Any) -> list[str]:
    return [hit.id for hit in hits]


def picked(hits: tuple[ToolHit, ...], team: str | None) -> list[str]:
    return [hit.id for hit in hits if hit.team == team]


places = st.lists(st.integers(0, len(TOOLS) - 1), unique=True, max_size=len(TOOLS))
rankings = places.map(lambda found: ranking(*found))


@given(rankings, rankings, st.text())
def test_as_many_tools_as_the_first_has_each_once_and_out_of_one_of_both(own, other, seed):
    drafted = team_draft(own, other, seed)
    assert len(drafted) == len(own) == len(set(ids(drafted)))
    assert set(ids(drafted)) <= {*ids(own), *ids(other)}


@given(rankings, rankings, st.text())
def test_places_keep_their_ranks_scores_and_probabilities(own, other, seed):
    def figures(hits):
        return [(hit.rank, hit.score, hit.probability) for hit in hits]

    assert figures(team_draft(own, other, seed)) == figures(own)


@given(rankings, rankings, st.text())
def test_a_team_keeps_the_order_of_its_ranking_and_passes_over_only_what_is_there(own, other, seed):
    drafted = team_draft(own, other, seed)
    for team, ranked in (("own", ids(own)), ("other", ids(other))):
        mine = picked(drafted, team)
        assert mine == sorted(mine, key=ranked.index)
        for tool in mine:
            before = ids(drafted)[: ids(drafted).index(tool)]
            assert set(ranked[: ranked.index(tool)]) <= set(before)


@given(rankings, rankings, st.text())
def test_teams_are_of_one_size_or_differ_by_one(own, other, seed):
    drafted = team_draft(own, other, seed)
    for shown in range(len(drafted) + 1):
        sizes = [len(picked(drafted[:shown], team)) for team in ("own", "other")]
        assert abs(sizes[0] - sizes[1]) <= 1


@given(rankings, rankings, st.text())
def test_what_both_have_from_the_top_on_is_of_no_team(own, other, seed):
    pairs = zip(ids(own), ids(other), strict=False)
    same = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    drafted = team_draft(own, other, seed)
    assert ids(drafted)[: len(same)] == same
    assert {hit.team for hit in drafted[: len(same)]} <= {None}


@given(rankings, rankings, st.text())
def test_one_seed_gives_one_draft(own, other, seed):
    assert team_draft(own, other, seed) == team_draft(own, other, seed)


def test_each_team_picks_first_for_about_half_of_the_seeds():
    own, other = ranking(0, 1, 2), ranking(2, 1, 0)
    first = [team_draft(own, other, str(seed))[0].team for seed in range(400)]
    assert 160 < first.count("own") < 240


def test_a_round_that_has_no_more_places_or_tools_ends():
    assert ids(team_draft(ranking(0), ranking(1), "seed")) in [ids(ranking(0)), ids(ranking(1))]
    drafted = team_draft(ranking(0, 1, 2, 3), ranking(1), "seed")
    assert len(picked(drafted, "own")) <= 1
    assert picked(drafted, None)[-1] == TOOLS[3].id


# -- answers -------------------------------------------------------------------------------------


def answer(*places: int, degraded: tuple[str, ...] = ()) -> FindResult:
    took = {"legs": 1.0, "total": 2.0}
    return FindResult("x", ranking(*places), took, 0.9, "accept", "it fits", degraded=degraded)


def test_the_answer_keeps_confidence_and_verdict_and_says_what_was_compared():
    own = answer(0, 1)
    found = interleave(own, answer(2, 3), "by words", "seed")
    assert (found.confidence, found.verdict, found.reason) == (0.9, "accept", "it fits")
    assert found.interleaved == "by words"
    assert found.took_ms == {"legs": 1.0, "interleave": 2.0, "total": 4.0}
    assert {hit.team for hit in found.tools} == {"own", "other"}


def test_a_tool_that_is_always_active_keeps_its_place_and_is_of_no_team():
    always = TOOLS[1].model_copy(update={"always_active": True})
    answers = [
        replace(
            each,
            tools=tuple(replace(h, tool=always) if h.tool == TOOLS[1] else h for h in each.tools),
        )
        for each in (answer(0, 1, 2), answer(1, 3, 0))
    ]
    found = interleave(*answers, "by words", "seed")
    assert [hit.rank for hit in found.tools] == [1, 2, 3]
    assert (found.tools[1].id, found.tools[1].team) == (always.id, None)
    assert {found.tools[0].team, found.tools[2].team} == {"own", "other"}


def test_where_one_ranking_alone_lacks_something_nothing_is_compared():
    own = answer(0, 1)
    found = interleave(own, answer(2, 3, degraded=("rerank",)), "by words", "seed")
    assert (found.tools, found.interleaved) == (own.tools, None)
    assert found.took_ms == {"legs": 1.0, "interleave": 2.0, "total": 4.0}


def test_rankings_are_compared_though_so_much_completeness_cannot_be_promised():
    own = answer(0, 1, degraded=("coverage",))
    assert interleave(own, answer(2, 3), "by words", "seed").interleaved == "by words"


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_settings", "wrong"),
    [
        ({"rerank": False}, "interleave.name"),
        ({"fusion": FusionWeights()}, "interleave.name"),
        ({"name": "same"}, "the ranking 'same' equals the first"),
    ],
)
def test_a_second_ranking_has_a_name_and_a_difference(given_settings, wrong):
    with pytest.raises(SettingsError, match=wrong):
        InterleaveSettings(**given_settings)
