"""What chosen tools need beside them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Crib, Equals, Settings, ToolSpec
from toolcrib.router.requirements import MAX_UNMET, required
from toolcrib.settings import EncoderSettings

MODEL_FREE = Settings(encoder=EncoderSettings(dense="deterministic"))


def spec(name, **fields):
    return ToolSpec(name=name, **fields)


@pytest.fixture(scope="module")
def crib():
    with Crib.open(":memory:", settings=MODEL_FREE) as opened:
        yield opened


@pytest.fixture(scope="module")
def needed(crib):
    """Tells what the first tools of a registry need: ids under each of them, and the signals."""

    def ask(*tools, allowed=None, limit=10, chosen=1):
        crib.index_tools(*tools, prune=True)
        result = required(crib.tools.store, tools[:chosen], allowed, limit)
        added = {root: [tool.id for tool in found] for root, found in result.tools.items()}
        return added, result.signals

    return ask


def test_a_tool_that_requires_nothing_gets_nothing(needed):
    assert needed(spec("a"), spec("b")) == ({}, ())


@pytest.mark.parametrize("requirement", ["mail/find", "find", "mail.id"])
def test_a_requirement_is_met_by_id_by_name_or_by_what_is_provided(needed, requirement):
    finding = spec("find", server="mail", provides=("mail.id",))
    assert needed(spec("a", requires=(requirement,)), finding) == ({"a": ["mail/find"]}, ())


@pytest.mark.parametrize("requirement", ["FIND", "fin_d", "find "])
def test_a_name_that_only_looks_alike_meets_nothing(needed, requirement):
    found, signals = needed(spec("a", requires=(requirement,)), spec("find"))
    assert (found, signals) == ({}, (f"requires-unmet:{requirement}",))


def test_where_several_meet_it_the_same_server_goes_first_then_the_first_by_id(needed):
    others = [spec("x", server=server, provides=("s",)) for server in ("c", "b", "a")]
    assert needed(spec("t", server="c", requires=("s",)), *others) == ({"c/t": ["c/x"]}, ())
    assert needed(spec("t", server="z", requires=("s",)), *others) == ({"z/t": ["a/x"]}, ())


def test_the_tool_of_that_very_id_goes_before_all(needed):
    own = spec("other", server="s", provides=("b/x",))
    found, _ = needed(spec("t", server="s", requires=("b/x",)), own, spec("x", server="b"))
    assert found == {"s/t": ["b/x"]}


def test_what_was_chosen_or_is_met_by_the_tool_itself_is_not_added(needed):
    first = spec("a", requires=("b", "own"), provides=("own",))
    assert needed(first, spec("b"), chosen=2) == ({}, ())


def test_one_tool_that_meets_two_needs_is_added_once(needed):
    tools = (spec("a", requires=("s",)), spec("b", requires=("s", "t")))
    assert needed(*tools, spec("c", provides=("s", "t")), chosen=2) == ({"a": ["c"]}, ())


def test_needs_are_followed_and_stand_under_the_chosen_tool_behind_them(needed):
    chain = [spec(f"t{n}", requires=(f"t{n + 1}",)) for n in range(4)]
    assert needed(*chain, spec("t4")) == ({"t0": ["t1", "t2", "t3", "t4"]}, ())


def test_a_circle_ends(needed):
    circle = [spec("a", requires=("b",)), spec("b", requires=("c",)), spec("c", requires=("a",))]
    assert needed(*circle) == ({"a": ["b", "c"]}, ())


def test_no_more_than_the_limit_is_added_and_that_is_said(needed):
    wide = spec("a", requires=tuple("bcd"))
    assert needed(wide, *map(spec, "bcd"), limit=2) == ({"a": ["b", "c"]}, ("requires-capped",))
    chain = [spec(f"t{n}", requires=(f"t{n + 1}",)) for n in range(4)]
    assert needed(*chain, spec("t4"), limit=2) == ({"t0": ["t1", "t2"]}, ("requires-capped",))


def test_exactly_the_limit_is_not_capped(needed):
    assert needed(spec("a", requires=("b",)), spec("b"), limit=1) == ({"a": ["b"]}, ())


def test_a_disabled_tool_and_one_out_of_reach_meet_nothing_and_say_the_same(needed):
    asking = spec("a", server="mine", requires=("s",))
    disabled = spec("b", server="mine", provides=("s",), enabled=False)
    theirs = spec("c", server="theirs", provides=("s",))
    mine = Equals("server", "mine")
    nobody = needed(asking, allowed=mine)
    assert nobody == ({}, ("requires-unmet:s",))
    assert needed(asking, disabled, theirs, allowed=mine) == nobody


def test_only_the_first_unmet_requirements_are_told_and_each_once(needed):
    names = tuple(f"n{n}" for n in range(9))
    found, signals = needed(spec("a", requires=names), spec("b", requires=names), chosen=2)
    assert found == {}
    assert signals == tuple(f"requires-unmet:n{n}" for n in range(MAX_UNMET))


def test_an_endless_name_is_cut_in_the_signal(needed):
    _, (signal,) = needed(spec("a", requires=("n" * 10_000,)))
    assert signal == "requires-unmet:" + "n" * 80


def tangle():
    """Thirty tools that require one another, capabilities, and things that nobody has."""
    random = Random(5)
    nouns = [*(f"t{n}" for n in range(30)), "c0", "c1", "c2", "void"]
    return [
        spec(f"t{n}", requires=tuple(random.sample(nouns, 2)), provides=(f"c{n % 3}",))
        for n in range(30)
    ]


@pytest.fixture(scope="module")
def tangled():
    tools = tangle()
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools(tools)
        yield crib.tools.store, tools


@given(places=st.lists(st.integers(0, 29), unique=True, max_size=5), limit=st.integers(0, 40))
def test_every_need_is_met_or_told_and_nothing_comes_twice(tangled, places, limit):
    store, tools = tangled
    chosen = [tools[place] for place in places]
    result = required(store, chosen, None, limit)
    added = [tool for found in result.tools.values() for tool in found]
    whole = [*chosen, *added]
    ids = [tool.id for tool in whole]
    assert len(set(ids)) == len(ids)
    assert len(added) <= limit
    met = {name for tool in whole for name in (tool.id, *tool.provides)}
    open_needs = {name for tool in whole for name in tool.requires} - met
    told = {signal.removeprefix("requires-unmet:") for signal in result.signals}
    assert open_needs == told - {"requires-capped"} or "requires-capped" in told
