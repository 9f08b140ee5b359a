"""One turn, start to end: what is looked up for it, in which order, and what may not be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.retrieval.calibrations import flat
from tests.router.conftest import COLLECTIONS, PASSAGES, TOOLS, CountingEncoder
from toolcrib import Message, Scope, Turn
from toolcrib.errors import QueryError
from toolcrib.records.codec import as_json
from toolcrib.router.supervisor import WEIGHTS

MAIL = "send a mail to somebody"
GLASS = "How is glass wrapped in a parcel?"
GREETING = "nothing is looked up for this: a greeting"


@pytest.fixture(scope="module")
def crib(shelves):
    """The shelves with all settings as they are, but no registry is small."""
    return shelves.crib()


def ids(decision):
    return [hit.id for hit in decision.tools.tools]


def passages(decision):
    return [hit.passage.id for hit in decision.knowledge.passages]


def test_a_request_goes_to_tools_and_gets_no_passages(crib):
    decision = crib.route(MAIL)
    assert decision.route.kind == "tools"
    assert (decision.tools.verdict, decision.knowledge.verdict) == ("accept", "abstain")
    assert ids(decision)[1] == "mail/send_mail"
    assert passages(decision) == []
    assert decision.tools.reason == decision.knowledge.reason == decision.route.reason


def test_a_question_goes_to_passages_and_gets_no_tools_but_the_active(crib):
    decision = crib.route(GLASS)
    assert decision.route.kind == "knowledge"
    assert (decision.tools.verdict, decision.knowledge.verdict) == ("abstain", "accept")
    assert passages(decision)[0] == "post_rules/glass.md#0"
    assert decision.knowledge.collections[0].id == "post_rules"
    assert ids(decision) == ["agent/think"]


def test_a_turn_may_need_both(crib, monkeypatch):
    # Whatever was fitted: here every turn that can have both gets both.
    monkeypatch.setitem(WEIGHTS, "both", (0.0, 0.0, 0.0, 0.0, 100.0))
    decision = crib.route("where is my parcel now")
    assert decision.route.kind == "both"
    assert (decision.tools.verdict, decision.knowledge.verdict) == ("accept", "accept")
    assert ids(decision)[1] == "post/track_parcel"
    assert passages(decision)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hi", GREETING),
        ("thank you so much!", "nothing is looked up for this: thanks"),
        ("goodbye", "nothing is looked up for this: a farewell"),
        ("who are you?", "nothing is looked up for this: a question about the assistant itself"),
    ],
)
def test_for_small_talk_nothing_comes_but_the_active_and_the_answer_says_why(crib, text, reason):
    decision = crib.route(text)
    assert (passages(decision), decision.knowledge.collections) == ([], ())
    assert ids(decision) == ["agent/think"]
    assert (decision.tools.verdict, decision.knowledge.verdict) == ("abstain", "abstain")
    assert [decision.route.kind, decision.route.reason] == ["none", reason]
    assert decision.tools.reason == decision.knowledge.reason == reason
    assert "tools" not in decision.took_ms


@pytest.mark.parametrize("text", ["", "  \n\t", "?!", "🙂🙂"])
def test_a_turn_without_words_gets_a_decision_that_says_so(crib, text):
    decision = crib.route(text)
    assert (decision.route.kind, decision.degraded) == ("none", ("no-words",))
    assert decision.tools.reason == decision.knowledge.reason == "the turn holds no words"
    assert (ids(decision), passages(decision), decision.search_text) == ([], [], "")


def test_the_query_of_a_turn_without_history_is_encoded_once(shelves):
    dense = CountingEncoder()
    crib = shelves.crib(dense=dense)
    for text in (MAIL, GLASS, "where is my parcel now", "hi"):
        dense.queries.clear()
        dense.documents.clear()
        crib.route(text)
        assert (dense.queries, dense.documents) == ([text], [])
        crib.detect(text)
        assert (dense.queries, dense.documents) == ([text, text], [])


def test_a_follow_up_is_encoded_once_with_what_it_leans_on(shelves):
    dense = CountingEncoder()
    crib = shelves.crib(dense=dense)
    decision = crib.route(Turn(text="and back?", history=(Message(content="a parcel to Graz"),)))
    assert dense.queries == [decision.search_text] == ["a parcel to Graz\nand back?"]
    assert "follow-up:1" in decision.signals


def test_earlier_messages_are_encoded_once_in_a_conversation(shelves):
    dense = CountingEncoder()
    crib = shelves.crib(dense=dense)
    said = tuple(Message(content=text) for text in ("a parcel to Graz", "a mail to Ana"))
    crib.route(Turn(text="and that one?", history=said))
    first = list(dense.documents)
    crib.route(Turn(text="and that one?", history=said))
    assert set(first) == {"and that one?", "a parcel to Graz", "a mail to Ana"}
    assert dense.documents == first


def test_a_decision_of_k_tools_counts_neither_the_active_nor_the_required(crib):
    assert ids(crib.route(MAIL, k=1)) == ["agent/think", "mail/send_mail"]
    assert len(ids(crib.route(MAIL, k=3))) == 4
    assert [hit.rank for hit in crib.route(MAIL, k=3).tools.tools] == [1, 2, 3, 4]


@pytest.mark.parametrize("k", [0, -3])
@pytest.mark.parametrize("pass_through", [0, 30])
def test_k_below_one_is_an_error(shelves, k, pass_through):
    crib = shelves.crib(tools={"pass_through": pass_through})
    with pytest.raises(QueryError, match=f"k is {k}; at least one tool must be asked for"):
        crib.route(MAIL, k=k)


def test_a_small_registry_passes_through(shelves):
    decision = shelves.crib(tools={"pass_through": 7}).route(MAIL, k=1)
    assert set(ids(decision)) == {"agent/think", *(tool.id for tool in TOOLS)}
    assert ids(decision)[:2] == ["agent/think", "mail/send_mail"]


def test_a_small_registry_passes_through_where_the_turn_goes_to_passages_too(shelves):
    decision = shelves.crib(tools={"pass_through": 7}).route(GLASS)
    assert decision.route.kind == "knowledge"
    assert set(ids(decision)) == {"agent/think", *(tool.id for tool in TOOLS)}


def test_a_registry_of_one_tool_more_does_not(shelves):
    assert len(ids(shelves.crib(tools={"pass_through": 6}).route(MAIL, k=1))) == 2


def test_tools_of_earlier_turns_stay_in_front_where_that_is_set(shelves):
    crib = shelves.crib(tools={"append_only": True})
    shown = ("post/track_parcel", "agent/think")
    assert ids(crib.route(MAIL, k=1, shown=shown)) == [*shown, "mail/send_mail"]
    assert ids(shelves.crib().route(MAIL, k=1, shown=shown)) == ["agent/think", "mail/send_mail"]


@pytest.mark.parametrize("text", [GLASS, "thank you so much!"])
def test_tools_of_earlier_turns_stay_where_this_turn_needs_none_too(shelves, text):
    crib = shelves.crib(tools={"append_only": True})
    shown = ("post/track_parcel", "agent/think")
    assert ids(crib.route(text, shown=shown)) == [*shown]


CEILINGS = [
    (Turn(text="x", max_sensitivity="internal"), "ceiling:destination:internal"),
    (Turn(text="x", scope=Scope(max_sensitivity="internal")), "ceiling:caller:internal"),
]


@pytest.mark.parametrize(("turn", "signal"), CEILINGS)
def test_ceilings_keep_tools_and_collections_out_and_the_decision_says_that_they_held(
    shelves, turn, signal
):
    crib = shelves.crib(tools={"pass_through": 30})
    for text in ("read the file of a patient", "when are patients visited in the afternoon"):
        free = crib.route(text)
        held = crib.route(turn.model_copy(update={"text": text}))
        assert "clinic/patient_file" not in ids(held)
        assert not {"wards"} & {hit.id for hit in held.knowledge.collections}
        assert not [passage for passage in passages(held) if passage.startswith("wards/")]
        assert signal in held.signals
        assert not [one for one in free.signals if one.startswith("ceiling:")]
    assert "wards" in {hit.id for hit in free.knowledge.collections}


def test_a_decision_never_says_what_a_ceiling_kept_out(crib):
    turn = Turn(text="read the patient_file in the wards", max_sensitivity="public")
    told = str(as_json(replace(crib.route(turn), context=crib.detect("x"), search_text="")))
    assert "clinic" not in told
    assert "wards" not in told


def test_both_ceilings_hold_and_the_lower_counts(crib):
    scope = Scope(max_sensitivity="public")
    turn = Turn(text="when are patients visited", scope=scope, max_sensitivity="pii")
    decision = crib.route(turn)
    assert decision.signals[:2] == ("ceiling:caller:public", "ceiling:destination:pii")
    assert "wards" not in {hit.id for hit in decision.knowledge.collections}


def test_a_callers_scope_holds_for_tools_and_collections(crib):
    scope = Scope(servers=frozenset({"post"}), collections=frozenset({"wards"}))
    decision = crib.route(Turn(text="send a parcel in glass", scope=scope))
    assert {hit.server for hit in decision.tools.tools} <= {"post"}
    assert {hit.id for hit in decision.knowledge.collections} <= {"wards", "all"}
    nobody = Scope(servers=frozenset(), collections=frozenset())
    decision = crib.route(Turn(text=MAIL, scope=nobody))
    assert (decision.route.kind, ids(decision), passages(decision)) == ("general", [], [])


def test_limits_of_the_settings_hold(shelves):
    crib = shelves.crib(tools={"servers": ["post"]})
    assert set(ids(crib.route(MAIL))) == {"post/send_parcel", "post/track_parcel"}


def test_where_nothing_fits_the_general_tool_comes_behind_the_active(shelves):
    crib = shelves.crib(gate={"fallback": "web/search", "threshold": 0.9})
    crib.use_calibration(flat(crib.calibration_identity(), 0.05))
    decision = crib.route(Turn(text=MAIL, scope=Scope(collections=frozenset())))
    assert decision.route.kind == "general"
    assert ids(decision) == ["agent/think", "web/search"]
    assert [hit.rank for hit in decision.tools.tools] == [1, 2]
    assert (decision.tools.verdict, decision.tools.fallback) == ("fallback", True)


def test_the_general_tool_is_none_where_it_is_out_of_reach(shelves):
    crib = shelves.crib(gate={"fallback": "web/search", "threshold": 0.9})
    crib.use_calibration(flat(crib.calibration_identity(), 0.05))
    scope = Scope(servers=frozenset({"mail", "agent"}), collections=frozenset())
    decision = crib.route(Turn(text=MAIL, scope=scope))
    assert (decision.route.kind, ids(decision)) == ("general", ["agent/think"])
    assert (decision.tools.verdict, decision.tools.fallback) == ("abstain", False)


def test_what_a_loop_must_keep_to_is_said(shelves):
    crib = shelves.crib(limits={"max_tool_calls": 2, "tool_timeout_s": 7})
    for text in (MAIL, "hi", ""):
        decision = crib.route(text)
        assert (decision.max_tool_calls, decision.tool_timeout_s) == (2, 7)


def test_every_decision_has_an_id_of_its_own_and_is_otherwise_the_same(crib):
    one, other = (crib.route("where is my parcel now") for _ in range(2))
    assert one.id != other.id

    def lasting(decision):
        said = as_json(decision)
        return {**said, "id": "", "took_ms": {}, "tools": {**said["tools"], "took_ms": {}}}

    assert lasting(one) == lasting(other)


def test_a_question_alone_is_answered_without_a_decision(crib):
    found = crib.find_knowledge("when are patients visited?")
    assert found.passages[0].passage == PASSAGES[2]
    hidden = crib.find_knowledge(
        "when are patients visited?", scope=Scope(max_sensitivity="public")
    )
    assert {hit.passage.collection for hit in hidden.passages} <= {COLLECTIONS[0].name}


def test_detecting_gives_the_context_of_the_decision(crib):
    for text in (MAIL, GLASS, "hi"):
        assert crib.detect(text) == crib.route(text).context


def test_a_turn_that_is_more_sensitive_than_its_destination_is_warned_of(shelves):
    said = "send this to ann@example.com, card 4111 1111 1111 1111"
    crib = shelves.crib()
    told = crib.route(Turn(text=said, max_sensitivity="internal")).signals
    assert "turn-above-ceiling:pii" in told
    assert not any("above" in s for s in crib.route(Turn(text=said, max_sensitivity="pii")).signals)
    assert not any("above" in s for s in crib.route(Turn(text=said)).signals)
