"""Alternates of a tool that failed, and the memory of failures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.conftest import free_of_models
from toolcrib import Crib, Equals, Not, Scope, ToolSpec
from toolcrib.router.alternates import alternates, schema_fit
from toolcrib.router.decision_log import Failures
from toolcrib.store.base import point_id
from toolcrib.store.filters import HasId


def parameters(required=(), **types):
    properties = {name: {"type": kind} if kind else {} for name, kind in types.items()}
    return {"type": "object", "properties": properties, "required": list(required)}


PLACE = parameters(["place"], place="string", days="integer")
FAILED = ToolSpec(
    name="get_forecast",
    server="skies",
    description="Weather forecast of a place. Call find_place first.",
    category="weather",
    provides=("weather.forecast",),
    input_schema=PLACE,
)
TWIN = FAILED.on_server("clouds")
TOOLS = [
    FAILED,
    TWIN,
    ToolSpec(
        name="weather_by_station",
        server="clouds",
        description="Weather forecast of a station.",
        category="weather",
        input_schema=parameters(["station"], station="string"),
    ),
    ToolSpec(name="find_place", server="maps", description="Where a place lies on the map."),
    ToolSpec(name="send_mail", server="mail", description="Send a mail to somebody."),
    ToolSpec(name="old_forecast", server="skies", description="Weather forecast.", enabled=False),
]
TURN = "will it rain in Lund tomorrow, what is the weather forecast"


@contextmanager
def crib_of(*tools, settings=None):
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(tools)
        yield crib


@pytest.fixture(scope="module")
def find():
    with crib_of(*TOOLS, settings=free_of_models()) as crib:
        yield crib.tools.find


def ids(hits):
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [hit.id for hit in hits]


def test_the_same_tool_of_another_server_comes_first(find):
    hits = alternates(find, FAILED, TURN)
    assert ids(hits)[:2] == ["clouds/get_forecast", "clouds/weather_by_station"]
    assert all(0 <= hit.score <= 1 for hit in hits)


def test_a_score_says_of_what_it_is_made(find):
    first, second = alternates(find, FAILED, TURN, k=2)
    assert set(first.legs) == {"fits", "likeness", "category", "provides", "schema"}
    assert [first.legs[leg] for leg in ("category", "provides", "schema")] == [1.0, 1.0, 1.0]
    assert [second.legs[leg] for leg in ("category", "provides", "schema")] == [1.0, 0.0, 0.0]


def test_neither_the_failed_tool_nor_one_that_failed_before_comes_back(find):
    hits = alternates(find, FAILED, TURN, excluded=("clouds/get_forecast",), k=10, likeness=0)
    assert set(ids(hits)) == {"clouds/weather_by_station", "maps/find_place", "mail/send_mail"}


def test_what_is_out_of_scope_or_disabled_is_no_alternate(find):
    scope = Scope(servers=frozenset({"skies", "mail"}))
    assert ids(alternates(find, FAILED, TURN, scope=scope, likeness=0)) == ["mail/send_mail"]
    maps = Equals("server", "maps")
    assert ids(alternates(find, FAILED, TURN, where=maps, likeness=0)) == ["maps/find_place"]


def test_a_tool_that_a_description_mentions_is_not_called_by_its_name(find):
    hits = alternates(find, FAILED, TURN, k=10, likeness=0)
    [mentioned] = [hit for hit in hits if hit.id == "maps/find_place"]
    assert mentioned.legs["likeness"] < 1.0


def test_without_a_text_likeness_to_the_tool_decides(find):
    hits = alternates(find, FAILED, "  ", k=2)
    assert ids(hits) == ["clouds/get_forecast", "clouds/weather_by_station"]
    assert [hit.legs["fits"] for hit in hits] == [0.0, 0.0]
    assert ids(alternates(find, FAILED, "🙂", k=2)) == ids(hits)


def test_a_tool_that_came_only_for_another_has_no_legs_and_is_no_alternate(find):
    def find_with_provider(text, options):
        found = find(text, options)
        last = replace(found.tools[-1], legs={}, needed_for=(TWIN.id,))
        return replace(found, tools=(*found.tools[:-1], last))

    hits = alternates(find_with_provider, FAILED, TURN)
    assert ids(hits)[0] == "clouds/get_forecast"


@pytest.mark.slow
def test_a_probability_is_that_of_fitting_the_turn(sample_crib):
    failed = sample_crib.get_tool("weather/rainRadar")
    query = "is it going to rain in the next hour?"
    others = Not(HasId(frozenset({point_id(failed.id)})))
    fitting = sample_crib.find_tools(query, k=20, where=others, gate=False).tools
    known = {hit.id: hit.probability for hit in fitting}
    hits = alternates(sample_crib.tools.find, failed, query, k=40, likeness=0)
    assert hits[0].server == "weather"
    assert None not in known.values()
    given = {hit.id: hit.probability for hit in hits if hit.probability is not None}
    assert given.items() <= known.items()
    assert 0 < len(given) < len(hits)


BANK = {
    "bank/transfer_money": "Transfer money from an account to another.",
    "bank/get_balance": "Show the balance of an account.",
    "bank/cancel_transfer": "Cancel a transfer of money from an account to another.",
    "cards/block_card": "Block a lost card.",
    "pay/list_refunds": "List the refunds that were made.",
    "store/get_order": "Look up an order of a customer.",
    "store/refund_order": "Give the money for an order back to the customer.",
    "thing/turn_on": "Turn a thing on.",
}
STAND_INS = {
    "giro/wire_money": "Transfer money from an account to another one.",
    "pay/create_refund": "Give a customer the money for an order back.",
}


@pytest.mark.parametrize(
    ("failed", "turn", "stand_in"),
    [
        ("bank/transfer_money", "send my landlord the rent", "giro/wire_money"),
        ("store/refund_order", "she wants her money for order 12 back", "pay/create_refund"),
        ("thing/turn_on", "turn it on", None),
        ("cards/block_card", "my card is gone", None),
        ("store/get_order", "what was in order 12?", None),
    ],
)
def test_only_what_does_the_same_may_stand_in_and_where_nothing_does_none_comes(
    failed, turn, stand_in
):
    with crib_of(*(_tool(*each) for each in BANK.items())) as crib:
        assert crib.alternates(failed, turn) == ()
        crib.index_tools([_tool(*each) for each in STAND_INS.items()])
        assert ids(crib.alternates(failed, turn)) == ([stand_in] if stand_in else [])


def _tool(tool_id, description, **fields):
    server, name = tool_id.split("/")
    return ToolSpec(name=name, server=server, description=description, **fields)


@pytest.mark.parametrize(
    ("failed", "other", "comes"),
    [
        (("a/delete_row", "Delete a row."), ("b/add_row", "Add a row."), False),
        (("a/rows", "Lists all rows."), ("b/add_rows", "Add rows."), False),
        (("a/delete_row", "Delete a row."), ("b/remove_row", "Remove a row."), True),
        (("a/rows", "All rows."), ("b/list_rows", "List all rows."), True),
        (("a/refund_charge", "Money back."), ("b/charge_refunds", "Show money back."), False),
        (("a/lock_door", "Lock the door."), ("b/unlock_door", "Unlock the door."), False),
        (("a/grant_access", "Grant access."), ("b/list_access", "Who has access?"), False),
    ],
)
def test_what_reads_makes_or_ends_something_is_replaced_by_its_like_however_alike(
    failed, other, comes
):
    with crib_of(_tool(*failed), _tool(*other)) as crib:
        assert bool(crib.alternates(failed[0], "")) is comes


def test_what_a_tool_says_that_it_provides_is_believed():
    tools = (
        _tool("a/seek", "Seek.", provides=("post.code",)),
        _tool("b/zip", "Something else.", provides=("post.code", "town")),
        _tool("b/zap", "Something else.", provides=("town",)),
    )
    with crib_of(*tools) as crib:
        assert ids(crib.alternates("a/seek", "the code of Lund")) == ["b/zip"]


def test_what_gives_the_same_by_doing_something_else_is_no_alternate():
    create = _tool("a/create_event", "Create an event.", provides=("event.id",))
    events = _tool("b/list_events", "List the events of a day.", provides=("event.id",))
    with crib_of(create, events) as crib:
        assert crib.alternates(create.id, "a meeting with Ana at ten") == ()


@pytest.mark.parametrize(
    ("wanted", "fit"),
    [
        ({}, 1.0),
        (parameters(station="string"), 1.0),
        (parameters(["place"], place="string"), 1.0),
        (parameters(["Place"], Place="string"), 1.0),
        (parameters(["place"], place="integer"), 0.5),
        (parameters(["place"], place=None), 1.0),
        (parameters(["days"], days="number"), 1.0),
        (parameters(["days"], days=["integer", "null"]), 1.0),
        (parameters(["place", "station"], place="string", station="string"), 0.5),
        (parameters(["station"], station="string"), 0.0),
        ({"required": ["place"]}, 1.0),
        ({"required": "place", "properties": {"place": {}}}, 1.0),
        ({"required": [1, "place"], "properties": ["place"]}, 1.0),
        ({"required": ["place"], "properties": {"place": True}}, 1.0),
        ({"required": ["place"], "properties": {"place": {"anyOf": [{"type": "string"}]}}}, 1.0),
        ({"required": ["place"], "properties": {"place": {"oneOf": [{"type": "array"}, 1]}}}, 0.5),
    ],
)
def test_arguments_fit_as_far_as_the_failed_tool_had_them(wanted, fit):
    assert schema_fit(PLACE, wanted) == fit


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "x", "number"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "required", "type", "anyOf", "oneOf", "x"]), inner
        )
    ),
    max_leaves=12,
)
SCHEMAS = st.dictionaries(st.sampled_from(["properties", "required", "type", "x"]), JSON)


@given(had=SCHEMAS, wanted=SCHEMAS)
def test_whatever_schemas_hold_the_fit_is_a_share(had, wanted):
    assert 0 <= schema_fit(had, wanted) <= 1
    own = {name: wanted[name] for name in wanted if name == "properties"}
    assert schema_fit(had, own) == 1


def test_failures_are_remembered_for_their_own_decision():
    failures = Failures()
    failures.report("d1", "a", "failure")
    failures.report("d1", "b", "failure")
    failures.report("d2", "c", "failure")
    assert (failures.of("d1"), failures.of("d2"), failures.of("d3")) == (("a", "b"), ("c",), ())


def test_a_success_makes_up_for_failures():
    failures = Failures()
    for tool, outcome in (("a", "failure"), ("b", "failure"), ("a", "success"), ("c", "success")):
        failures.report("d", tool, outcome)
    assert failures.of("d") == ("b",)
    failures.report("d", "b", "success")
    assert failures.of("d") == ()


def test_the_oldest_decisions_are_forgotten():
    failures = Failures(decisions=2)
    for decision in ("d1", "d2", "d1", "d3"):
        failures.report(decision, "a", "failure")
    assert [failures.of(decision) for decision in ("d1", "d2", "d3")] == [("a",), (), ("a",)]


def test_of_one_decision_the_last_hundred_tools_are_kept():
    failures = Failures()
    for number in range(150):
        failures.report("d", str(number), "failure")
    assert failures.of("d") == tuple(str(number) for number in range(50, 150))


def test_threads_lose_nothing():
    failures = Failures()

    def work(first):
        for number in range(first, first + 500):
            failures.report(f"d{number}", "a", "failure")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(0, 2_000, 500)))
    assert all(failures.of(f"d{number}") == ("a",) for number in range(2_000))
