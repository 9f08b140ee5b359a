"""Tools of a turn: what is added and kept out, in which order, and what they require."""

from __future__ import annotations

from contextlib import contextmanager
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.conftest import free_of_models
from toolcrib import Crib, Equals, Scope, ToolSpec, Turn
from toolcrib.clock import ManualClock
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.records import ToolHit
from toolcrib.retrieval.assembly import team_draft
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.hybrid import HybridRetriever
from toolcrib.retrieval.options import InterleaveSettings
from toolcrib.retrieval.prerequisites import MAX_UNMET_SIGNALS, required_tools
from toolcrib.retrieval.rerank import ModelReranker, Reranking, RerankSettings, tool_reranker
from toolcrib.router.budget import Budget, Costs
from toolcrib.router.settings import Limits, ToolSettings
from toolcrib.router.tools import ToolSelector, ToolStage, settings_filter

MODEL_FREE = free_of_models()
TOOLS = [
    ToolSpec(name="plain", server="a", cost_estimate=1.0, avg_latency_ms=100.0),
    ToolSpec(name="dear", server="a", cost_estimate=9.0, avg_latency_ms=100.0),
    ToolSpec(name="slow", server="b", cost_estimate=1.0, avg_latency_ms=9_000.0),
    ToolSpec(name="silent", server="b"),
    ToolSpec(name="drop", server="b", safety_tags=("destructive",)),
    ToolSpec(name="patients", server="c", sensitivity="pii"),
    ToolSpec(name="off", server="c", enabled=False),
]
EVERYTHING = {spec.name for spec in TOOLS}
ACTIVE = [
    ToolSpec(name="ask_user", server="z", always_active=True),
    ToolSpec(name="think", server="d", always_active=True),
    ToolSpec(name="never", server="d", always_active=True, enabled=False),
]


def budget():
    """As much time as anything takes."""
    return Budget(Limits(), Costs(), ManualClock())


NAMES = ("ask_user", "dear", "drop", "patients", "plain", "silent", "slow", "think")


@contextmanager
def crib_of(*tools, settings=MODEL_FREE):
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(*tools)
        yield crib


@pytest.fixture(scope="module")
def plain():
    with crib_of(*TOOLS) as crib:
        yield crib


@pytest.fixture(scope="module")
def mixed():
    with crib_of(*TOOLS, *ACTIVE) as crib:
        yield crib


def hits_of(crib, *names):
    by_name = {spec.name: spec for spec in crib.list_tools()}
    return [ToolHit(rank, 1 / rank, by_name[name]) for rank, name in enumerate(names, start=1)]


def names_of(hits):
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [hit.name for hit in hits]


def found_within(crib, settings, scope=None):
    return {spec.name for spec in crib.list_tools(scope=scope, where=settings_filter(settings))}


@pytest.mark.parametrize(
    ("settings", "kept_out"),
    [
        (ToolSettings(max_cost=1.0), {"dear"}),
        (ToolSettings(max_cost=0.0), {"plain", "dear", "slow"}),
        (ToolSettings(max_latency_ms=100.0), {"slow"}),
        (ToolSettings(without_safety_tags=frozenset({"destructive"})), {"drop"}),
        (ToolSettings(servers=frozenset({"a", "b"})), {"patients", "off"}),
        (ToolSettings(servers=frozenset()), EVERYTHING),
        (ToolSettings(max_cost=1.0, max_latency_ms=100.0), {"dear", "slow"}),
    ],
)
def test_limits_keep_out_what_states_more_and_nothing_that_is_silent(plain, settings, kept_out):
    assert found_within(plain, settings) == EVERYTHING - kept_out


def test_a_turns_ceiling_keeps_out_what_is_more_sensitive(plain):
    for ceiling, kept_out in (("internal", {"patients"}), ("pii", set()), (None, set())):
        reach = Turn(max_sensitivity=ceiling).reach
        assert found_within(plain, ToolSettings(), reach) == EVERYTHING - kept_out


def test_of_two_ceilings_the_lower_holds_and_the_rest_of_the_scope_stays():
    caller = Scope(servers=frozenset({"a"}), max_sensitivity="pii")
    reach = Turn(scope=caller, max_sensitivity="internal").reach
    assert reach == Scope(servers=frozenset({"a"}), max_sensitivity="internal")
    assert Turn(scope=caller, max_sensitivity="safety_critical").reach == caller


def test_where_nothing_is_always_active_the_hits_stay_as_they_are(plain):
    hits = hits_of(plain, "slow", "plain")
    assert ToolSelector(plain.tools.store).complete(hits, None) == (hits, ())


def test_what_is_always_active_comes_first_by_id_though_it_was_not_found(mixed):
    hits, signals = ToolSelector(mixed.tools.store).complete(hits_of(mixed, "plain"), None)
    assert names_of(hits) == ["think", "ask_user", "plain"]
    assert [(hit.score, hit.legs) for hit in hits[:2]] == [(0.0, {"always_active": 1.0})] * 2
    assert signals == ()


def test_what_is_always_active_takes_no_others_place(mixed):
    selector = ToolSelector(mixed.tools.store, ToolSettings(k=2, pass_through=0))
    reach = selector.reach(None)
    assert (reach.limit, reach.everything) == (4, None)
    for found in (("think", "plain", "ask_user", "slow"), ("plain", "slow", "dear", "silent")):
        hits, _ = selector.complete(hits_of(mixed, *found), None, reach)
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
    assert names_of(hits[:4]) == ["think", "ask_user", "slow", "plain"]
    assert [hit.name for hit in hits[4:]] == ["dear", "drop", "silent", "patients"]
    assert [hit.score for hit in hits[2:5]] == [1.0, 0.5, 0.0]
    assert hits[-1].legs == {"pass_through": 1.0}


def test_where_nothing_is_in_reach_a_search_can_still_be_made(plain):
    selector = ToolSelector(plain.tools.store)
    reach = selector.reach(Equals("server", "nowhere"))
    assert (reach.limit, reach.everything) == (1, ())
    assert selector.complete([], Equals("server", "nowhere"), reach) == ([], ())


def test_what_a_chosen_tool_requires_comes_right_behind_it():
    reading = ToolSpec(name="read", requires=("mail.id",))
    finding = ToolSpec(name="find", provides=("mail.id",))
    with crib_of(reading, finding, ToolSpec(name="x")) as crib:
        hits, signals = ToolSelector(crib.tools.store).complete(hits_of(crib, "read", "x"), None)
    assert names_of(hits) == ["read", "find", "x"]
    assert (hits[1].score, hits[1].legs, signals) == (0.0, {"required": 1.0}, ())


def test_earlier_tools_stay_in_front_though_this_turn_did_not_find_them(plain):
    selector = ToolSelector(plain.tools.store)
    hits = selector.append_only(["b/slow", "a/plain"], hits_of(plain, "dear", "plain"), None)
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


def spec(name, **fields):
    return ToolSpec(name=name, **fields)


def needed(*tools, allowed=None, limit=10, chosen=1):
    """What the first tools of a registry need: ids under each of them, and the signals."""
    with crib_of(*tools) as crib:
        found, signals = required_tools(crib.tools.store, tools[:chosen], allowed, limit)
    return {root: [tool.id for tool in added] for root, added in found.items()}, signals


@pytest.mark.parametrize("name", ["mail/find", "find", "mail.id", "FIND", "fin_d", "find "])
def test_a_requirement_is_met_by_that_very_id_name_or_what_is_provided(name):
    finding = spec("find", server="mail", provides=("mail.id",))
    is_met = name in {"mail/find", "find", "mail.id"}
    expected = ({"a": ["mail/find"]}, ()) if is_met else ({}, (f"requires-unmet:{name}",))
    assert needed(spec("a", requires=(name,)), finding) == expected


def test_where_several_meet_it_the_same_server_goes_first_then_the_first_by_id():
    others = [spec("x", server=server, provides=("s",)) for server in ("c", "b", "a")]
    assert needed(spec("t", server="c", requires=("s",)), *others) == ({"c/t": ["c/x"]}, ())
    assert needed(spec("t", server="z", requires=("s",)), *others) == ({"z/t": ["a/x"]}, ())


def test_the_tool_of_that_very_id_goes_before_all():
    own = spec("other", server="s", provides=("b/x",))
    found, _ = needed(spec("t", server="s", requires=("b/x",)), own, spec("x", server="b"))
    assert found == {"s/t": ["b/x"]}


def test_what_was_chosen_or_is_met_by_the_tool_itself_is_not_added():
    first = spec("a", requires=("b", "own"), provides=("own",))
    assert needed(first, spec("b"), chosen=2) == ({}, ())


def test_needs_are_followed_and_stand_under_the_chosen_tool_behind_them():
    chain = [spec(f"t{n}", requires=(f"t{n + 1}",)) for n in range(4)]
    assert needed(*chain, spec("t4")) == ({"t0": ["t1", "t2", "t3", "t4"]}, ())


def test_no_more_than_the_limit_is_added_and_that_is_said():
    wide = spec("a", requires=tuple("bcd"))
    assert needed(wide, *map(spec, "bcd"), limit=2) == ({"a": ["b", "c"]}, ("requires-capped",))
    chain = [spec(f"t{n}", requires=(f"t{n + 1}",)) for n in range(4)]
    assert needed(*chain, spec("t4"), limit=2) == ({"t0": ["t1", "t2"]}, ("requires-capped",))


def test_a_disabled_tool_and_one_out_of_reach_meet_nothing_and_say_the_same():
    asking = spec("a", server="mine", requires=("s",))
    disabled = spec("b", server="mine", provides=("s",), enabled=False)
    theirs = spec("c", server="theirs", provides=("s",))
    mine = Equals("server", "mine")
    nobody = needed(asking, allowed=mine)
    assert nobody == ({}, ("requires-unmet:s",))
    assert needed(asking, disabled, theirs, allowed=mine) == nobody


def test_only_the_first_unmet_requirements_are_told_and_each_once():
    names = tuple(f"n{n}" for n in range(9))
    found, signals = needed(spec("a", requires=names), spec("b", requires=names), chosen=2)
    assert found == {}
    assert signals == tuple(f"requires-unmet:n{n}" for n in range(MAX_UNMET_SIGNALS))


@pytest.fixture(scope="module")
def tangled():
    """Thirty tools that require one another, capabilities, and things that nobody has."""
    random = Random(5)
    nouns = [*(f"t{n}" for n in range(30)), "c0", "c1", "c2", "void"]
    tools = [
        ToolSpec(name=f"t{n}", requires=tuple(random.sample(nouns, 2)), provides=(f"c{n % 3}",))
        for n in range(30)
    ]
    with crib_of(*tools) as crib:
        yield crib.tools.store, tools


@given(places=st.lists(st.integers(0, 29), unique=True, max_size=5), limit=st.integers(0, 40))
def test_every_need_is_met_or_told_and_nothing_comes_twice(tangled, places, limit):
    store, tools = tangled
    chosen = [tools[place] for place in places]
    found, signals = required_tools(store, chosen, None, limit)
    added = [tool for tools_ in found.values() for tool in tools_]
    whole = [*chosen, *added]
    ids = [tool.id for tool in whole]
    assert len(set(ids)) == len(ids)
    assert len(added) <= limit
    met = {name for tool in whole for name in (tool.id, *tool.provides)}
    open_needs = {name for tool in whole for name in tool.requires} - met
    told = {signal.removeprefix("requires-unmet:") for signal in signals}
    assert open_needs == told - {"requires-capped"} or "requires-capped" in told


def test_what_a_schema_needs_takes_a_place_among_the_tools_of_a_turn():
    needy = ToolSpec(
        name="movie_credits",
        input_schema={"properties": {"person_id": {}}, "required": ["person_id"]},
    )
    with crib_of(*TOOLS, needy, ToolSpec(name="search_person")) as crib:
        selector = ToolSelector(crib.tools.store, ToolSettings(pass_through=0))
        stage = ToolStage(crib.tools.retriever, selector)
        query = stage.encode("movie credits")
        found = stage.find(Turn(text=query.text), query, budget(), 3, (), reranking=False)
    hits = {hit.name: hit.needed_for for hit in found.result.tools}
    assert hits["search_person"] == ("movie_credits",)
    assert len(hits) == 3


# -- interleaving --------------------------------------------------------------------------------

WORDS = FusionWeights(dense=0.0, lexical=1.0)
VECTORS = FusionWeights(dense=1.0, lexical=0.0)


@pytest.fixture(scope="module")
def two_ways():
    """Finds the first three for a text, by vectors, by words, or by both interleaved."""
    by_vectors = MODEL_FREE.model_copy(update={"fusion": VECTORS})
    tools = [spec(f"t{n}", server="s", description=f"word{n} thing") for n in range(9)]
    with crib_of(*tools, settings=by_vectors) as crib:
        selector = ToolSelector(crib.tools.store, ToolSettings(pass_through=0))
        by_words = InterleaveSettings("words", fusion=WORDS)
        index = crib.tools
        words = HybridRetriever(
            index.store, index.dense, LexicalEncoder(), WORDS, assessor=index.retriever.assessor
        )

        def find(interleave, *, seed="1", second=False, within=None, **turn):
            stage = ToolStage(words if second else index.retriever, selector, interleave)
            asked = Turn(text="word7 thing", **turn)
            query = stage.encode(asked.text)
            within = within or budget()
            return stage.find(asked, query, within, 3, (), reranking=False, seed=seed).result

        yield find, by_words


def test_a_turn_gets_tools_of_both_rankings_and_the_verdict_of_the_first(two_ways):
    find, by_words = two_ways
    own, other, both = find(None), find(None, second=True), find(by_words)
    assert [hit.id for hit in own.tools] != [hit.id for hit in other.tools]
    drafted = team_draft(own.tools, other.tools, "1")
    assert [(hit.id, hit.team) for hit in both.tools] == [(hit.id, hit.team) for hit in drafted]
    assert (both.confidence, both.verdict) == (own.confidence, own.verdict)
    assert both.interleaved == "words"


def test_the_draft_hangs_on_the_seed_alone(two_ways):
    find, by_words = two_ways
    drafts, again = (
        [tuple(hit.team for hit in find(by_words, seed=str(n)).tools) for n in range(12)]
        for _ in range(2)
    )
    assert drafts == again
    assert len(set(drafts)) > 1


def test_a_second_ranking_that_the_budget_has_no_room_for_is_left_out(two_ways):
    find, by_words = two_ways
    costs = Costs()
    costs.add_run("interleave", 9.0)
    short, enough = (Budget(Limits(), costs, ManualClock(), ms) for ms in (8.0, 10.0))
    assert find(by_words, within=short).tools == find(None).tools
    assert short.degraded == ["interleave"]
    assert find(by_words, within=enough).interleaved == "words"


def time_of_reranking(index, reranker, clock, costs, total_ms=None, interleave=None):
    """Budget of a turn whose tools a reranker orders."""
    retriever = HybridRetriever(
        index.store, index.dense, LexicalEncoder(), VECTORS, reranker=reranker, clock=clock
    )
    selector = ToolSelector(index.store, ToolSettings(pass_through=0))
    stage, turn = ToolStage(retriever, selector, interleave), Turn(text="a plain tool")
    query, time = stage.encode(turn.text), Budget(Limits(), costs, clock, total_ms)
    time.measure("tools", lambda: stage.find(turn, query, time, 3, (), reranking=True))
    return time


def test_what_a_reranker_takes_is_a_stage_of_its_own(plain):
    clock, costs = ManualClock(), Costs()

    class Slow:
        name = "slow"

        def score(self, query, documents):
            clock.now += 0.1
            return np.linspace(0.9, 0.1, len(documents), dtype=np.float32)

    reranker = tool_reranker(Slow(), RerankSettings(lead=2.0), clock)
    time = time_of_reranking(plain.tools, reranker, clock, costs)
    assert time.took_ms["rerank"] >= 100.0
    assert costs.expected_ms("rerank") == time.took_ms["rerank"]
    assert costs.expected_ms("tools") == pytest.approx(0.0)


def test_what_a_language_model_takes_for_both_rankings_is_a_stage_of_its_own(plain):
    clock, costs = ManualClock(), Costs()

    class Slow(ModelReranker):
        def __init__(self):
            self.settings = RerankSettings()

        def within(self, room_s):
            return self

        def rerank(self, query, hits):
            clock.now += 0.4
            return Reranking(list(hits))

    def routed(total_ms=None):
        by_words = InterleaveSettings("words", fusion=WORDS)
        return time_of_reranking(plain.tools, Slow(), clock, costs, total_ms, by_words)

    assert routed().took_ms == pytest.approx({"llm": 800.0, "interleave": 0.0, "tools": 0.0})
    assert [costs.expected_ms(each) for each in ("llm", "tools")] == pytest.approx([400.0, 0.0])
    short = routed(700.0)
    assert short.took_ms["llm"] == pytest.approx(400.0)
    assert short.degraded == ["interleave"]


def test_turns_with_needs_are_not_interleaved(two_ways):
    find, by_words = two_ways
    assert find(by_words, needs=("word1 thing",)).interleaved is None
