"""What is added to the tools that were found, what is kept out, and in which order they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from toolcrib import Crib, Scope, Settings, ToolSpec
from toolcrib.errors import QueryError
from toolcrib.records import ToolHit
from toolcrib.router.tools import ToolSelector, ToolSettings, compatible
from toolcrib.settings import EncoderSettings
from toolcrib.store.filters import Equals, from_scope, validate

MODEL_FREE = Settings(encoder=EncoderSettings(dense="deterministic"))
TOOLS = [
    ToolSpec(name="plain", server="a", cost_estimate=1.0, avg_latency_ms=100.0),
    ToolSpec(name="dear", server="a", cost_estimate=9.0, avg_latency_ms=100.0),
    ToolSpec(name="slow", server="b", cost_estimate=1.0, avg_latency_ms=9_000.0),
    ToolSpec(name="silent", server="b"),
    ToolSpec(name="drop", server="b", safety_tags=("destructive",)),
    ToolSpec(name="patients", server="c", sensitivity="pii"),
    ToolSpec(name="off", server="c", enabled=False),
]
ACTIVE = [
    ToolSpec(name="ask_user", server="z", always_active=True),
    ToolSpec(name="think", server="d", always_active=True),
    ToolSpec(name="never", server="d", always_active=True, enabled=False),
]
NAMES = ("ask_user", "dear", "drop", "patients", "plain", "silent", "slow", "think")


@pytest.fixture(scope="module")
def plain():
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools(TOOLS)
        yield crib


@pytest.fixture(scope="module")
def mixed():
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools([*TOOLS, *ACTIVE])
        yield crib


def hits_of(crib, *names):
    by_name = {spec.name: spec for spec in crib.list_tools()}
    return [ToolHit(rank, 1 / rank, by_name[name]) for rank, name in enumerate(names, start=1)]


def names_of(hits):
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [hit.name for hit in hits]


def found_within(crib, settings, ceiling=None):
    where = compatible(settings, ceiling)
    return {spec.name for spec in crib.list_tools(where=where)}


def test_without_limits_everything_is_compatible():
    assert compatible(ToolSettings()) is None


@pytest.mark.parametrize(
    ("settings", "kept_out"),
    [
        (ToolSettings(max_cost=1.0), {"dear"}),
        (ToolSettings(max_cost=0.0), {"plain", "dear", "slow"}),
        (ToolSettings(max_latency_ms=100.0), {"slow"}),
        (ToolSettings(without_safety_tags=frozenset({"destructive"})), {"drop"}),
        (ToolSettings(servers=frozenset({"a", "b"})), {"patients", "off"}),
        (ToolSettings(servers=frozenset()), {spec.name for spec in TOOLS}),
        (ToolSettings(max_cost=1.0, max_latency_ms=100.0), {"dear", "slow"}),
    ],
)
def test_limits_keep_out_what_states_more_and_nothing_that_is_silent(plain, settings, kept_out):
    assert found_within(plain, settings) == {spec.name for spec in TOOLS} - kept_out


def test_a_turns_ceiling_keeps_out_what_is_more_sensitive(plain):
    everything = {spec.name for spec in TOOLS}
    assert found_within(plain, ToolSettings(), "internal") == everything - {"patients"}
    assert found_within(plain, ToolSettings(), "pii") == everything


def test_the_filter_of_limits_holds_inside_a_search(plain):
    where = compatible(ToolSettings(max_cost=1.0, servers=frozenset({"a"})), "internal")
    validate(where)
    assert [hit.id for hit in plain.find_tools("plain dear", where=where).tools] == ["a/plain"]


def test_a_ceiling_that_is_no_number_is_refused():
    with pytest.raises(QueryError, match="cost_estimate"):
        compatible(ToolSettings(max_cost=float("nan")))


@pytest.mark.parametrize(
    "wrong",
    [{"k": 0}, {"pass_through": -1}, {"max_required": -1}, {"max_cost": -1}, {"max_cost": "inf"}],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        TypeAdapter(ToolSettings).validate_python(wrong)


def test_settings_are_read_from_plain_lists():
    read = TypeAdapter(ToolSettings).validate_python({"servers": ["a"], "k": 3})
    assert read == ToolSettings(k=3, servers=frozenset({"a"}))


def test_where_nothing_is_always_active_the_hits_stay_as_they_are(plain):
    hits = hits_of(plain, "slow", "plain")
    assert ToolSelector(plain.tools.store).complete(hits, None) == (hits, ())


def test_what_is_always_active_comes_first_by_id_though_it_was_not_found(mixed):
    hits, signals = ToolSelector(mixed.tools.store).complete(hits_of(mixed, "plain"), None)
    assert names_of(hits) == ["think", "ask_user", "plain"]
    assert [(hit.score, hit.legs) for hit in hits[:2]] == [(0.0, {"always_active": 1.0})] * 2
    assert signals == ()


def test_what_is_always_active_and_was_found_keeps_its_score(mixed):
    hits, _ = ToolSelector(mixed.tools.store).complete(hits_of(mixed, "plain", "ask_user"), None)
    assert names_of(hits) == ["think", "ask_user", "plain"]
    assert (hits[1].score, hits[1].legs) == (0.5, {})


def test_what_is_always_active_beyond_the_scope_is_never_added(mixed):
    scope = from_scope(Scope(servers=frozenset({"a", "d"})))
    hits, _ = ToolSelector(mixed.tools.store).complete(hits_of(mixed, "plain"), scope)
    assert names_of(hits) == ["think", "plain"]


def test_what_is_always_active_takes_no_others_place(mixed):
    selector = ToolSelector(mixed.tools.store, ToolSettings(k=2, pass_through=0))
    reach = selector.reach(None)
    assert (reach.limit, reach.everything) == (4, None)
    found = hits_of(mixed, "think", "plain", "ask_user", "slow")
    assert names_of(selector.complete(found, None, reach)[0]) == [
        "think", "ask_user", "plain", "slow",
    ]  # fmt: skip
    found = hits_of(mixed, "plain", "slow", "dear", "silent")
    hits, _ = selector.complete(found, None, reach)
    assert names_of(hits) == ["think", "ask_user", "plain", "slow"]


def test_a_turns_own_k_goes_before_that_of_the_settings(plain):
    selector = ToolSelector(plain.tools.store, ToolSettings(k=2, pass_through=0))
    reach = selector.reach(None, k=1)
    assert reach.limit == 1
    found = hits_of(plain, "plain", "slow")
    assert names_of(selector.complete(found, None, reach)[0]) == ["plain"]


def test_a_small_registry_is_given_whole_with_what_was_found_in_front(mixed):
    selector = ToolSelector(mixed.tools.store, ToolSettings(k=1, pass_through=8))
    reach = selector.reach(None)
    assert reach.limit == 8
    hits, _ = selector.complete(hits_of(mixed, "slow", "plain"), None, reach)
    assert names_of(hits) == [
        "think", "ask_user", "slow", "plain", "dear", "drop", "silent", "patients",
    ]  # fmt: skip
    assert [hit.score for hit in hits[2:5]] == [1.0, 0.5, 0.0]
    assert hits[-1].legs == {"pass_through": 1.0}


def test_one_tool_more_than_passes_through_and_the_best_are_chosen(mixed):
    selector = ToolSelector(mixed.tools.store, ToolSettings(k=1, pass_through=7))
    assert selector.reach(None).everything is None


def test_smallness_is_that_of_what_is_in_reach(mixed):
    selector = ToolSelector(mixed.tools.store, ToolSettings(pass_through=2))
    reach = selector.reach(Equals("server", "a"))
    assert [spec.name for spec in reach.everything] == ["dear", "plain"]
    assert (reach.limit, reach.active) == (2, ())


def test_where_nothing_is_in_reach_a_search_can_still_be_made(plain):
    selector = ToolSelector(plain.tools.store)
    reach = selector.reach(Equals("server", "nowhere"))
    assert (reach.limit, reach.everything) == (1, ())
    assert selector.complete([], Equals("server", "nowhere"), reach) == ([], ())


def test_what_a_chosen_tool_requires_comes_right_behind_it():
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        reading = ToolSpec(name="read", requires=("mail.id",))
        crib.index_tools(reading, ToolSpec(name="find", provides=("mail.id",)), ToolSpec(name="x"))
        hits, signals = ToolSelector(crib.tools.store).complete(hits_of(crib, "read", "x"), None)
    assert names_of(hits) == ["read", "find", "x"]
    assert (hits[1].score, hits[1].legs, signals) == (0.0, {"required": 1.0}, ())


def test_no_more_is_added_than_the_settings_let(plain):
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools(ToolSpec(name="a", requires=("b",)), ToolSpec(name="b"))
        selector = ToolSelector(crib.tools.store, ToolSettings(max_required=0))
        hits, signals = selector.complete(hits_of(crib, "a"), None)
    assert (names_of(hits), signals) == (["a"], ("requires-capped",))


def test_earlier_tools_stay_in_front_though_this_turn_did_not_find_them(plain):
    selector = ToolSelector(plain.tools.store)
    shown = ["b/slow", "a/plain"]
    hits = selector.append_only(shown, hits_of(plain, "dear", "plain"), None)
    assert names_of(hits) == ["slow", "plain", "dear"]
    assert [(hit.score, hit.legs) for hit in hits] == [(0.0, {"kept": 1.0}), (0.5, {}), (1.0, {})]


def test_an_earlier_tool_that_may_not_be_used_any_more_goes(plain):
    shown = ["c/off", "b/slow", "a/gone", "a/plain"]
    hits = ToolSelector(plain.tools.store).append_only(shown, [], Equals("server", "a"))
    assert names_of(hits) == ["plain"]


TURNS = st.lists(st.lists(st.sampled_from(NAMES), unique=True, max_size=4), max_size=6)


@given(turns=TURNS)
def test_over_a_conversation_what_was_given_stays_the_beginning(mixed, turns):
    selector = ToolSelector(mixed.tools.store)
    shown: list[str] = []
    for found in turns:
        hits = selector.append_only(shown, hits_of(mixed, *found), None)
        names_of(hits)
        ids = [hit.id for hit in hits]
        assert ids[: len(shown)] == shown
        new = [hit.id for hit in hits_of(mixed, *found) if hit.id not in shown]
        assert ids[len(shown) :] == new
        shown = ids
