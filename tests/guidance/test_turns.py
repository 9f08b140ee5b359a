"""A turn whose trajectory is stuck gets a hint and other tools; any other is as before."""

from __future__ import annotations

import pytest

from tests.router.conftest import Shelves
from toolcrib import Scope, Turn
from toolcrib.errors import StoreUnavailableError
from toolcrib.guidance.turns import guide_turn

TEXT = "send a mail to somebody"


def failed(name, times=3):
    return ({"name": name, "error": "550 refused"},) * times


FAILED = failed("mail/send_mail")
STUCK = Turn(text=TEXT, trajectory=FAILED)


@pytest.fixture(scope="module")
def crib():
    shelves = Shelves()
    yield shelves.crib(tools={"k": 2, "pass_through": 0}, telemetry={"path": None})
    shelves.close()


def ids(decision):
    return [hit.id for hit in decision.tools.tools if hit.rule != "always_active"]


@pytest.mark.slow
def test_a_stuck_agent_gets_other_tools_and_a_hint_that_names_them(crib):
    before, decision = crib.route(TEXT), crib.route(STUCK)
    others = [hit.id for hit in crib.alternates("mail/send_mail", TEXT)]

    assert "mail/send_mail" in ids(before)
    assert ids(decision) == others
    assert [hit.rule for hit in decision.tools.tools if hit.id in others] == ["alternate"] * 3
    assert [hit.rank for hit in decision.tools.tools] == list(range(1, len(others) + 1))
    (hint,) = decision.guidance
    assert (hint.key, others[0] in hint.content) == ("alternate-tool", True)
    assert "stuck:mail/send_mail" in decision.signals
    assert crib.guidance(STUCK).injections == (hint,)
    assert [each.type for each in crib.guidance(STUCK).patterns] == [*("doom_loop", "error_streak")]


def test_a_tool_by_its_plain_name_is_named_so(crib):
    (hint,) = crib.route(Turn(text=TEXT, trajectory=failed("send_mail"))).guidance

    assert "send_parcel" in hint.content
    assert "post/" not in hint.content


def test_a_tool_by_its_exported_name_gets_other_tools_by_such_names(crib):
    by_id, by_name = (
        crib.route(Turn(text=TEXT, trajectory=failed(name)))
        for name in ("mail/send_mail", "mail__send_mail")
    )
    (hint,) = by_name.guidance

    assert ids(by_name) == ids(by_id)
    assert ids(by_id)[0].replace("/", "__") in hint.content
    assert "stuck:mail/send_mail" in by_name.signals


@pytest.mark.parametrize("separator", ["/", "__"], ids=["id", "exported-name"])
def test_a_tool_that_failed_before_is_no_alternate(crib, separator):
    first = crib.alternates(f"mail{separator}send_mail", TEXT)[0].id
    name = first.replace("/", separator)
    events = ({"name": name, "error": "no"}, {"name": "mail/read_mail", "result": "x"}, *FAILED)
    decision = crib.route(Turn(text=TEXT, trajectory=events))

    assert first not in [hit.id for hit in decision.tools.tools if hit.rule == "alternate"]
    assert name not in decision.guidance[0].content


def test_alternates_follow_the_goal_of_the_failed_call(crib):
    asked = []

    def other_tools(name, turn):
        asked.append((name, turn.text))

    for before in ([{"type": "prompt", "text": TEXT}], []):
        guide_turn(Turn(text="and then?", trajectory=(*before, *FAILED)), other_tools)

    assert asked == [("mail/send_mail", TEXT), ("mail/send_mail", "and then?")]


@pytest.mark.parametrize(
    "turn",
    [
        Turn(text=TEXT, trajectory=FAILED[:2]),
        Turn(text=TEXT, trajectory=({"name": "mail/read_mail", "result": "a mail"},) * 2),
        Turn(text=TEXT, trajectory=({"of no shape": True},) * 9),
    ],
)
def test_who_is_not_stuck_gets_what_anybody_gets(crib, turn):
    decision = crib.route(turn)

    assert decision.guidance == ()
    assert ids(decision) == ids(crib.route(TEXT))


def test_what_is_out_of_reach_is_no_alternate_and_hints_come_once(crib):
    scope = Scope(servers=frozenset({"mail"}))
    narrow = STUCK.model_copy(update={"scope": scope})
    beyond = STUCK.model_copy(update={"scope": Scope(servers=frozenset({"post"}))})
    given = ("alternate-tool", "doom-loop", "error-streak")

    assert all(each.startswith("mail/") for each in ids(crib.route(narrow)))
    assert "mail" not in " ".join(ids(crib.route(beyond)))
    assert crib.guidance(beyond).injections[0].key == "doom-loop"
    assert crib.guidance(STUCK, given=given).injections == ()


def test_without_the_other_tools_there_is_the_hint_alone(crib, monkeypatch):
    def away(*_given, **_how):
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(crib.turns, "alternates", away)
    decision = crib.route(STUCK)

    assert [hint.key for hint in decision.guidance] == ["doom-loop"]
    assert "alternates" in decision.degraded
    assert ids(decision) == ids(crib.route(TEXT))


def test_what_was_shown_stays_where_it_stood_for_a_prompt_cache():
    shelves = Shelves()
    crib = shelves.crib(tools={"k": 2, "pass_through": 0, "append_only": True})
    shown = ids(crib.route(TEXT))
    decision = crib.route(STUCK, shown=shown)

    assert ids(decision)[: len(shown)] == shown
    assert decision.guidance[0].key == "alternate-tool"
    shelves.close()


def test_a_trajectory_that_is_not_read_is_told(crib):
    messages = [{"role": "user", "content": TEXT}, {"role": "tool", "content": "Error: no"}]

    assert "trajectory" in crib.route(Turn(text=TEXT, trajectory=messages)).degraded
    assert "trajectory" not in crib.route(Turn(text=TEXT, trajectory=messages[:1])).degraded
