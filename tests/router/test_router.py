"""One turn, start to end: what is looked up for it, in which order, and what may not be seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.calibrations import calibration, flat
from tests.router.conftest import TOOLS, CountingEncoder
from toolcrib import Crib, Message, Scope, Settings, ToolSpec, Turn
from toolcrib.context.rules import HeuristicDetector
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import CalibrationError, QueryError
from toolcrib.records.codec import as_json
from toolcrib.router import route
from toolcrib.router.conversation import (
    MAX_JOINED_CHARS,
    SEARCHED_HEAD_CHARS,
    SEARCHED_TAIL_CHARS,
    answer_kind,
    excerpt,
    search_text,
    standalone_text,
)

MAIL = "send a mail to somebody"
GLASS = "How is glass wrapped in a parcel?"
GREETING = "no search for small talk: a greeting"


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
    assert decision.knowledge.reason == decision.route.reason
    assert "toolcrib calibrate" in decision.tools.reason


def test_a_step_is_searched_by_what_the_agent_wrote_and_leaves_out_what_it_called(crib):
    called = {"type": "tool", "name": "send_mail"}
    plain = crib.route(MAIL, k=2)
    first = crib.route(Turn(text=MAIL, step=""), k=2)
    assert "mail/send_mail" in ids(plain)
    assert "mail/send_mail" in ids(first)
    said = "Now let me tell where the parcel is."
    then = crib.route(Turn(text=MAIL, step=said, trajectory=[called]), k=2)
    assert then.tools.called == ("mail/send_mail",)
    assert "mail/send_mail" not in ids(then)
    assert (then.search_text, then.context.intent) == (said, plain.context.intent)
    assert "step" in then.signals
    alone = crib.route(Turn(step=said, trajectory=[called]), k=2)
    assert alone.search_text == said


@pytest.mark.parametrize("task", [GLASS, "thank you"])
def test_a_step_gets_tools_whatever_its_task_looks_like(crib, task):
    assert ids(crib.route(Turn(text=task))) == ["agent/think"]
    decision = crib.route(Turn(text=task, step="Now I send a mail to somebody."))
    assert decision.route.kind in {"tools", "both"}
    assert "mail/send_mail" in ids(decision)


@pytest.mark.parametrize("text", ["thank you", "hello"])
def test_needs_beside_small_talk_are_searched(crib, text):
    decision = crib.route(Turn(text=text, needs=["Send a mail to somebody"]))
    assert decision.context.smalltalk is None
    assert decision.tools.verdict == "accept"
    assert {hit.id: hit.needs for hit in decision.tools.tools}["mail/send_mail"] == (0,)


def test_all_that_the_user_said_counts_beside_the_last_message(crib):
    said = [Message(content="send a mail to somebody"), Message(content="thank you")]
    decision = crib.route(Turn(text="send it once more", history=said), k=1)
    assert "mail/send_mail" in ids(decision)


def test_a_question_goes_to_passages_and_gets_no_tools_but_the_active(crib):
    decision = crib.route(GLASS)
    assert decision.route.kind == "knowledge"
    assert (decision.tools.verdict, decision.knowledge.verdict) == ("abstain", "accept")
    assert passages(decision)[0] == "post_rules/glass.md#0"
    assert decision.knowledge.collections[0].id == "post_rules"
    assert ids(decision) == ["agent/think"]


TWO = "Please send a mail to somebody in the shop. How is the glass wrapped in a parcel?"


def test_each_clause_of_a_turn_says_whether_it_wants_a_tool_or_passages(crib):
    signals = crib.route(TWO).signals
    assert "clauses:act,know" in signals
    for text in (MAIL, GLASS, f"Hello! {GLASS}"):
        assert not any(signal.startswith("clauses:") for signal in crib.route(text).signals)


@pytest.mark.parametrize(
    ("said", "urgency"), [("high", "high"), ("Critical", "high"), ("normal", "medium"), (7, "low")]
)
def test_metadata_state_the_urgency_and_where_a_turn_comes_from(crib, said, urgency):
    turn = Turn(text=MAIL, metadata={"urgency": said, "ticket": "OPS-318", "source": "pager"})
    context = crib.detect(turn)
    assert crib.route(turn).context == context
    assert context.urgency == urgency
    told = (f"urgency {said}", "ticket OPS-318", "source pager")
    assert context.signals[-3:] == tuple(f"metadata: {each}" for each in told)
    assert context.confidences.get("urgency") == (
        1.0 if urgency != "low" else crib.detect(MAIL).confidences.get("urgency")
    )


def test_needs_of_a_turn_are_searched_one_by_one(crib):
    needs = ("Send a mail to somebody", "Tell where a parcel is")
    for text in ("Ann asks where her parcel is, tell her", ""):
        decision = crib.route(Turn(text=text, needs=needs), k=2)
        served = {hit.id: hit.needs for hit in decision.tools.tools}
        assert served["mail/send_mail"] == (0,)
        assert served["post/track_parcel"] == (1,)
        assert [need.text for need in decision.tools.needs] == list(needs)


def test_a_turn_may_need_both(crib, monkeypatch):
    # Whatever was fitted: here every turn that can have both gets both.
    for name in ("TOOL_WEIGHTS", "TEXT_WEIGHTS"):
        monkeypatch.setattr(route, name, (0.0,) * 7 + (100.0,))
    decision = crib.route("where is my parcel now")
    assert decision.route.kind == "both"
    assert (decision.tools.verdict, decision.knowledge.verdict) == ("accept", "accept")
    assert ids(decision)[1] == "post/track_parcel"
    assert passages(decision)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hi", GREETING),
        ("thank you so much!", "no search for small talk: thanks"),
        ("goodbye", "no search for small talk: a farewell"),
        ("who are you?", "no search for small talk: a question about the assistant itself"),
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
    assert (passages(decision), decision.search_text) == ([], "")
    assert ids(decision) == ["agent/think"]


def test_without_collections_nobody_says_that_they_do_not_fit(shelves):
    crib = shelves.crib(gate={"threshold": 0.9}, knowledge={"enabled": False})
    crib.tools.use_calibration(flat(crib.tools.calibration_fingerprint(), 0.05))
    decision = crib.route(MAIL)
    assert decision.route.kind == "general"
    assert "no collection is in reach: confidence 0.05" in decision.route.reason
    assert decision.route.confidence < 1


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


def test_a_follow_up_is_encoded_alone_and_with_what_was_said_before(shelves):
    dense = CountingEncoder()
    crib = shelves.crib(dense=dense)
    decision = crib.route(Turn(text="and back?", history=(Message(content="a parcel to Graz"),)))
    assert decision.search_text == "a parcel to Graz\nand back?"
    assert set(dense.queries) == {decision.search_text, "and back?"}
    assert "follow-up:1" in decision.signals


def test_earlier_messages_are_encoded_once_in_a_conversation(shelves):
    dense = CountingEncoder()
    crib = shelves.crib(dense=dense)
    said = tuple(Message(content=text) for text in ("a parcel to Graz", "a mail to Ana"))
    crib.route(Turn(text="and to Linz?", history=said))
    first = list(dense.documents)
    crib.route(Turn(text="and to Linz?", history=said))
    assert set(first) == {"and to Linz?", "a parcel to Graz", "a mail to Ana"}
    assert dense.documents == first


SUBJECTS = (
    ToolSpec(name="delete_invoice", description="Delete an invoice"),
    ToolSpec(name="delete_branch", description="Delete a git branch of a repository"),
    ToolSpec(name="list_branches", description="List the branches of a repository"),
    ToolSpec(name="list_invoices", description="List invoices by month or customer"),
    ToolSpec(name="close_ticket", description="Close a ticket in the tracker"),
    ToolSpec(name="play_music", description="Play music by an artist on a speaker"),
    ToolSpec(name="get_weather", description="Weather forecast for a city"),
)


@pytest.fixture(scope="module")
def subjects():
    """Tools of several subjects behind the encoder that ships."""
    with Crib.open(":memory:", settings=Settings()) as crib:
        crib.index_tools(SUBJECTS)
        yield crib


def after(crib, before, now, answer="Done."):
    history = Message(content=before), Message(role="assistant", content=answer)
    return crib.route(Turn(text=now, history=history))


@pytest.mark.parametrize(
    "opener",
    ["and then", "also", "then", "next", "ok now", "and now", "and", "now", "plus", "also,"],
)
@pytest.mark.parametrize(
    ("before", "now", "first"),
    [
        ("remove invoice 7", "delete the branch", "delete_branch"),
        ("remove invoice 7", "delete branch fix-7", "delete_branch"),
        ("delete_invoice for number 7", "delete the branch", "delete_branch"),
        ("remove invoice 7", "list branches", "list_branches"),
        ("remove invoice 7", "play jazz", "play_music"),
        ("list the invoices of May", "close ticket 12", "close_ticket"),
        ("list the branches of web", "delete it", "delete_branch"),
    ],
)
def test_a_change_of_subject_wins_by_its_own_words_whatever_opens_it(
    subjects, opener, before, now, first
):
    assert after(subjects, before, f"{opener} {now}").tools.tools[0].name == first


@pytest.mark.parametrize(
    ("before", "now", "first"),
    [
        ("list the invoices of March", "and then the second one", "list_invoices"),
        ("list the invoices of March", "and the one from May", "list_invoices"),
        ("list the invoices of March", "and of April?", "list_invoices"),
        ("list the invoices of March", "what about those of Acme", "list_invoices"),
        ("what is the weather in Rome", "and now Bergen", "get_weather"),
        ("delete invoice 7", "and invoice 8 too", "delete_invoice"),
        ("close ticket 9", "then number 10", "close_ticket"),
    ],
)
def test_what_leans_on_the_message_before_keeps_its_tool(subjects, before, now, first):
    decision = after(subjects, before, now)
    assert decision.tools.tools[0].name == first
    assert decision.search_text == f"{before}\n{now}"


@pytest.mark.parametrize("opener", ["", "great! ", "ok ", "hello, "])
def test_a_question_of_fillers_behind_small_talk_is_a_request(subjects, opener):
    decision = subjects.route(f"{opener}what is on today?")
    assert decision.context.smalltalk is None
    assert decision.tools.tools


def after_question(crib, question, now):
    return after(crib, "list the invoices of March", now, question)


OFFER = "I can help with that. Shall I do it?"


@pytest.mark.parametrize(
    "now",
    [
        *("ok", "ok do it", "great, do it", "thanks, do it", "sounds good", "perfect", "confirm"),
        *("yes, thanks", "Hi, do it", "👍", "👌🏽", "ok at noon", "no, of Acme", "danke, mach das"),
    ],
)
def test_a_confirmation_gets_the_tools_of_the_question(subjects, now):
    decision = after_question(subjects, OFFER, now)
    assert decision.tools.tools[0].name == "list_invoices"
    assert (decision.route.kind, decision.context.smalltalk) == ("tools", None)
    assert decision.signals[0] == "follow-up:1"


@pytest.mark.parametrize(
    ("question", "now", "kind"),
    [
        (OFFER, "no, don't", "refusal"),
        (OFFER, "no", "refusal"),
        (OFFER, "nein, danke", "refusal"),
        (OFFER, "👎", "refusal"),
        (OFFER, "no, it's fine", "refusal"),
        (OFFER, "don't bother", "refusal"),
        ("Done. Anything else?", "no", "refusal"),
        ("Done. Anything else?", "no that will be all I think thanks", "refusal"),
        ("Done. Anything else?", "No. That's everything. Thank you! Goodbye.", "refusal"),
        ("Done. Anything else?", "ok", "thanks"),
        ("Erledigt. Noch etwas?", "nein danke", "refusal"),
        ("Listo. ¿Algo más?", "no", "refusal"),
        ("Fait. Autre chose ?", "non merci", "refusal"),
        ("好了。还有什么需要吗？", "不用了", "refusal"),
        ("I can do it by noon.", "never mind", "refusal"),
        ("I can do it by noon.", "no need, thanks", "refusal"),
        ("I can do it by noon.", "no don't worry, it's fine", "refusal"),
        ("Done.", "great", "thanks"),
        ("Done.", "ok", "thanks"),
        (OFFER, "good night", "farewell"),
        ("Are they paid?", "No, that's all. Thanks.", "farewell"),
        ("Which one is it?", "That is everything. Thank you so much for your help.", "thanks"),
        ("Let me know how it goes.", "ok, thanks!", "thanks"),
        ("I listed them.", "what did you say?", "recall"),
        ("I listed them.", "how many did you say are there", "recall"),
        ("I listed them.", "hm, and why did you pick those", "recall"),
        ("I listed them.", "was meinst du damit?", "recall"),
        ("I listed them.", "what was the first one again?", "recall"),
        ("I listed them.", "ok, and what was the last one again", "recall"),
        ("The total is 40 EUR.", "what was the total again?", "recall"),
    ],
)
def test_a_refusal_and_small_talk_get_no_tools(subjects, question, now, kind):
    decision = after_question(subjects, question, now)
    assert (decision.context.smalltalk, decision.tools.tools) == (kind, ())
    assert decision.route.kind == "none"
    assert decision.route.confidence > 0.5


@pytest.mark.parametrize(
    "question",
    [
        *("Which customer is it?", "Please tell me the name of the customer.", "I need your name."),
        *("Sure, I can do that. Let me know whose they are", "Could you tell me more?"),
    ],
)
@pytest.mark.parametrize("now", ["Morning Routine", "Routine, thanks", "Acme and sons"])
def test_what_answers_the_assistant_is_no_small_talk_and_no_new_subject(subjects, question, now):
    decision = after_question(subjects, question, now)
    assert (decision.context.smalltalk, decision.signals[0]) == (None, "follow-up:1")
    assert decision.tools.tools[0].name == "list_invoices"


@pytest.mark.parametrize(
    "now",
    [
        *("what did you say? list the paid ones", "what did you say, and send the invoices"),
        *("what did you say, and who has not paid?", "what did you play yesterday around nine?"),
        *("what was the discount of Acme again?", "list the invoices again"),
        *("what was that code again?", "why is it late, did you say it is paid?"),
        "new topic: what do we do with an invoice that has lost its number, send it again?",
    ],
)
def test_a_question_for_more_than_was_said_is_searched(subjects, now):
    decision = after_question(subjects, "I listed them.", now)
    assert decision.context.smalltalk is None
    assert decision.tools.tools


def test_a_reply_to_a_statement_that_asks_is_searched_without_the_statement(subjects):
    decision = after_question(subjects, "I also need your password.", "Sure, it's x17")
    assert decision.search_text == "list the invoices of March\nSure, it's x17"


def test_a_recall_without_an_answer_before_it_is_searched(subjects):
    assert subjects.route("what did you say?").context.smalltalk != "recall"


def test_a_no_to_a_question_of_facts_is_information(subjects):
    decision = after_question(subjects, "Are they paid?", "no")
    assert decision.tools.tools[0].name == "list_invoices"


def test_a_sign_without_a_question_holds_no_words(subjects):
    assert after_question(subjects, "Done.", "👍").degraded == ("no-words",)


@pytest.mark.parametrize("now", ["👍", "no"])
def test_a_reply_without_an_encoder_is_told_by_cues(shelves, now):
    decision = after(shelves.crib(), MAIL, now, "Shall I?")
    assert (decision.route.kind == "none") == (now == "no")


def test_a_decision_of_k_tools_counts_neither_the_active_nor_the_required(crib):
    assert ids(crib.route(MAIL, k=1)) == ["agent/think", "mail/send_mail"]
    assert len(ids(crib.route(MAIL, k=3))) == 4
    assert [hit.rank for hit in crib.route(MAIL, k=3).tools.tools] == [1, 2, 3, 4]


@pytest.mark.parametrize("k", [0, -3])
@pytest.mark.parametrize("pass_through", [0, 30])
def test_k_below_one_is_an_error(shelves, k, pass_through):
    crib = shelves.crib(tools={"pass_through": pass_through})
    with pytest.raises(QueryError, match=f"k is {k}"):
        crib.route(MAIL, k=k)


@pytest.mark.parametrize("budget_ms", [-1, -0.001, float("-inf"), float("nan")])
@pytest.mark.parametrize("text", [MAIL, ""])
def test_a_budget_that_is_no_time_is_an_error(crib, text, budget_ms):
    with pytest.raises(QueryError, match="budget_ms"):
        crib.route(text, budget_ms=budget_ms)


def test_a_small_registry_passes_through(shelves):
    decision = shelves.crib(tools={"pass_through": 7}).route(MAIL, k=1)
    assert set(ids(decision)) == {"agent/think", *(tool.id for tool in TOOLS)}
    assert ids(decision)[:2] == ["agent/think", "mail/send_mail"]


def test_tools_of_earlier_turns_stay_in_front_where_that_is_set(shelves):
    crib = shelves.crib(tools={"append_only": True})
    shown = ("post/track_parcel", "agent/think")
    assert ids(crib.route(MAIL, k=1, shown=shown)) == [*shown, "mail/send_mail"]
    assert ids(shelves.crib().route(MAIL, k=1, shown=shown)) == ["agent/think", "mail/send_mail"]


@pytest.mark.parametrize(
    ("text", "budget_ms"), [(GLASS, None), ("thank you so much!", None), ("", 0), (MAIL, 0)]
)
def test_tools_of_earlier_turns_stay_where_a_turn_needs_none_or_has_no_time(
    shelves, text, budget_ms
):
    crib = shelves.crib(tools={"append_only": True})
    shown = ("post/track_parcel", "agent/think")
    assert ids(crib.route(text, budget_ms=budget_ms, shown=shown)) == [*shown]


@pytest.mark.parametrize(
    ("turn", "signal"),
    [
        (Turn(text="x", max_sensitivity="internal"), "ceiling:destination:internal"),
        (Turn(text="x", scope=Scope(max_sensitivity="internal")), "ceiling:caller:internal"),
    ],
)
def test_ceilings_keep_tools_and_collections_out_and_the_decision_says_that_they_held(
    shelves, turn, signal
):
    crib = shelves.crib(tools={"pass_through": 30})
    for text in ("read the file of a patient", "when are patients visited in the afternoon"):
        free = crib.route(text)
        held = crib.route(turn.model_copy(update={"text": text}))
        assert "clinic/patient_file" not in ids(held)
        assert "wards" not in {hit.id for hit in held.knowledge.collections}
        assert not [passage for passage in passages(held) if passage.startswith("wards/")]
        assert signal in held.signals
        assert not [one for one in free.signals if one.startswith("ceiling:")]
    assert "wards" in {hit.id for hit in free.knowledge.collections}


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


@pytest.mark.parametrize("withhold", [False, True])
def test_where_nothing_fits_the_general_tool_comes_behind_the_others(shelves, withhold):
    gate = {"fallback": "web/search", "threshold": 0.9, "withhold": withhold}
    crib = shelves.crib(gate=gate, tools={"k": 1})
    crib.tools.use_calibration(flat(crib.tools.calibration_fingerprint(), 0.05))
    decision = crib.route(Turn(text=MAIL, scope=Scope(collections=frozenset())))
    assert decision.route.kind == "general"
    found = [] if withhold else ["mail/send_mail"]
    assert ids(decision) == ["agent/think", *found, "web/search"]
    assert [hit.rank for hit in decision.tools.tools] == [*range(1, len(found) + 3)]
    assert (decision.tools.verdict, decision.tools.fallback) == ("fallback", True)
    assert decision.tools.tools[-1].rule == "fallback"


def test_tools_that_the_gate_doubts_come_with_its_verdict_where_the_route_asks_for_tools(shelves):
    crib = shelves.crib(gate={"fallback": "web/search"}, tools={"k": 1})
    crib.tools.use_calibration(flat(crib.tools.calibration_fingerprint(), 0.45))
    decision = crib.route(Turn(text=MAIL, scope=Scope(collections=frozenset())))
    doubt = "confidence 0.45 is below the threshold 0.50 (as calibrated)"
    assert decision.route.kind == "tools"
    assert f"but perhaps no tool fits: {doubt}" in decision.route.reason
    assert ids(decision) == ["agent/think", "mail/send_mail", "web/search"]
    assert (decision.tools.verdict, decision.tools.reason) == ("fallback", doubt)


def test_no_route_goes_to_tools_that_are_withheld(shelves):
    crib = shelves.crib(gate={"withhold": True})
    crib.tools.use_calibration(flat(crib.tools.calibration_fingerprint(), 0.45))
    decision = crib.route(Turn(text=MAIL, scope=Scope(collections=frozenset())))
    assert (decision.route.kind, ids(decision)) == ("general", ["agent/think"])


def test_as_many_tools_come_as_are_needed_and_none_that_is_hardly_right(shelves):
    crib = shelves.crib(tools={"k": "auto", "coverage": 0.5})
    crib.tools.use_calibration(calibration(crib.tools.calibration_fingerprint()))
    one = crib.route(MAIL)
    assert ids(one) == ["agent/think", "mail/send_mail"]
    assert len(ids(crib.route(MAIL, k=3))) == 4
    assert ids(shelves.crib(tools={"coverage": 0.5}).route(MAIL, k=2))
    strict = shelves.crib(tools={"least": 1.0})
    strict.tools.use_calibration(calibration(strict.tools.calibration_fingerprint()))
    assert ids(strict.route(MAIL)) == ids(one)


def test_without_a_calibration_no_turn_can_be_told_how_many_tools_it_needs(crib):
    with pytest.raises(CalibrationError, match="toolcrib calibrate"):
        crib.route(MAIL, k="auto")


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


def test_detecting_gives_the_context_of_the_decision(crib):
    for text in (MAIL, GLASS, "hi"):
        assert crib.detect(text) == crib.route(text).context


def test_a_turn_that_is_more_sensitive_than_its_destination_is_warned_of(crib):
    said = "send this to ann@example.com, card 4111 1111 1111 1111"
    for ceiling, warned in (("internal", True), ("pii", False), (None, False)):
        signals = crib.route(Turn(text=said, max_sensitivity=ceiling)).signals
        assert ("turn-above-ceiling:pii" in signals) is warned


DETECTOR = HeuristicDetector()
ENCODER = DeterministicEncoder()


def said(*messages, now, role="user"):
    return Turn(text=now, history=tuple(Message(role=role, content=text) for text in messages))


def searched(turn, detector=DETECTOR, encode=ENCODER.encode_documents):
    return search_text(turn, answer_kind(turn, detector), detector, encode)


class Leaning(HeuristicDetector):
    """Detector to which every text leans alike."""

    def __init__(self, leaning):
        super().__init__()
        self.leaning = leaning

    def follow_up_score(self, text):
        return self.leaning


def never(_texts):
    raise AssertionError("nothing has to be encoded for this")


TRAINS = "trains from Graz to Vienna"


@pytest.mark.parametrize(
    ("turn", "follow_up", "signals"),
    [
        (Turn(text="and for staging?"), "first", ()),
        (said(TRAINS, now="and on Monday?", role="assistant"), "first", ()),
        (said(TRAINS, now="and on Monday?"), "joined", ("follow-up:1",)),
        (said(TRAINS, now="translate the contract into French"), "shifted", ("topic-shift",)),
    ],
    ids=["no-history", "no-user-before", "follow-up", "new-topic"],
)
def test_a_turn_that_says_nothing_alone_is_joined_with_what_the_user_said(turn, follow_up, signals):
    found = searched(turn, DETECTOR, never)
    assert (found.follow_up, found.signals) == (follow_up, signals)
    assert found.text == (f"{TRAINS}\n{turn.text}" if follow_up == "joined" else turn.text)


def test_an_older_message_that_is_clearly_nearer_is_leant_on():
    turn = said("invoices of Brightwater Logistics", "zzz qqq", now="and the Brightwater ones?")
    found = searched(turn)
    assert found.text.startswith("invoices of Brightwater Logistics\n")
    assert found.signals == ("follow-up:2",)


@pytest.mark.parametrize(("between", "back"), [(1, 3), (2, 1)])
def test_a_message_of_long_ago_is_leant_on_by_its_words_alone(between, back):
    near, far = np.eye(2, dtype=np.float32)
    messages = ["invoices of Brightwater", *["weather in Rome"] * between, "trains to Graz"]
    turn = said(*messages, now="send it to Ana")
    found = searched(
        turn,
        Leaning(0.9),
        lambda texts: np.array([near, *[near if "Bright" in t else far for t in texts[1:]]]),
    )
    assert found.signals == (f"follow-up:{back}",)


REQUESTS = (
    *("will it rain in Oslo?", "where is the parcel of order 8812?"),
    *("put the dentist into my calendar for Monday", "Hi!"),
)


@pytest.mark.parametrize(
    ("messages", "now", "back"),
    [
        (REQUESTS[:3], "try again", 1),
        (REQUESTS[:3], "yes", 1),
        (REQUESTS, "once more", 2),
        (REQUESTS[::-1], "go ahead", 1),
        ((*REQUESTS[:3], "yes", "retry"), "undo", 3),
        (("Hi!", "thanks a lot"), "once more", 1),
        ((REQUESTS[1], "and who must I ask?"), "and 8813?", 2),
        (REQUESTS[:3], "and the other parcel?", 2),
        (REQUESTS[:3], "does it?", 1),
        (REQUESTS[:3], "show", 1),
    ],
)
def test_a_follow_up_leans_on_the_last_request_or_one_that_shares_words(messages, now, back):
    found = searched(said(*messages, now=now), DETECTOR, never)
    assert found.text == f"{messages[-back]}\n{now}"
    assert found.signals == (f"follow-up:{back}",)


def test_a_confirmation_leans_on_the_request_behind_earlier_answers():
    question = "Shall I tell the dentist?"
    talk = [
        *(("user", REQUESTS[2]), ("assistant", "For which hour?"), ("user", "at nine")),
        ("assistant", f"It is in your calendar. {question}"),
    ]
    history = tuple(Message(role=role, content=text) for role, text in talk)
    found = searched(Turn(text="ok", history=history), DETECTOR, never)
    assert found.text == f"{REQUESTS[2]}\n{question}\nok"
    other = searched(Turn(text="by mail", history=history), DETECTOR, never)
    assert other.text == f"{REQUESTS[2]}\nby mail"


def test_the_first_request_behind_a_greeting_stands_alone():
    request = "I need a train to Hamburg"
    greeting = Message(content="Hi!"), Message(role="assistant", content="What can I do for you?")
    first = searched(Turn(text=request, history=greeting), DETECTOR, never)
    assert (first.text, first.signals) == (request, ("topic-shift",))
    asked = Message(content=request), Message(role="assistant", content="For which hour?")
    answer = searched(Turn(text="at nine", history=(*greeting, *asked)), DETECTOR, never)
    assert answer.text == f"{request}\nat nine"
    behind = (
        *greeting,
        *asked,
        Message(content="at nine"),
        Message(role="assistant", content="Done."),
    )
    assert searched(Turn(text="undo", history=behind), DETECTOR, never).signals == ("follow-up:2",)


@pytest.mark.parametrize(
    "now", ["retry", "undo, please", "confirm", "proceed", "Continue!", "go", "ok, do it"]
)
def test_a_command_leans_on_the_message_before(subjects, now):
    turn = said("what is the weather in Rome", "list the invoices of March", now=now)
    decision = subjects.route(turn)
    assert decision.signals[0] == "follow-up:1"
    assert decision.tools.tools[0].name == "list_invoices"


def test_what_may_lean_but_is_near_to_nothing_is_a_new_topic():
    apart = np.eye(2, dtype=np.float32)
    turn = said("trains", now="send it to Ana")
    found = searched(turn, Leaning(0.7), lambda texts: apart[: len(texts)])
    assert (found.follow_up, found.text) == ("shifted", turn.text)


def test_a_long_message_that_is_leant_on_does_not_drown_the_new_words():
    found = searched(said("word " * 5_000, now="and on Monday?"))
    assert len(found.text) <= MAX_JOINED_CHARS + len("\nand on Monday?")
    assert found.text.endswith("\nand on Monday?")


def test_a_pasted_log_is_searched_by_its_two_ends():
    log = "why does this fail? " + "10:00 worker handled it\n" * 10_000 + "please fix the importer"
    found = searched(Turn(text=log), DETECTOR, never)
    assert len(found.text) == SEARCHED_HEAD_CHARS + SEARCHED_TAIL_CHARS + 1
    assert found.text.startswith("why does this fail?")
    assert found.text.endswith("please fix the importer")
    assert found.signals == ("long-text",)


@given(
    now=st.text(max_size=200),
    history=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=60))),
    leaning=st.floats(0, 1),
)
def test_the_turns_own_words_are_always_searched_with(now, history, leaning):
    turn = Turn(text=now, history=tuple(Message(role=r, content=c) for r, c in history))
    found = searched(turn, Leaning(leaning))
    assert found.text.endswith(excerpt(now))
    assert (found.text == excerpt(now)) == (found.follow_up != "joined")
    assert ("topic-shift" in found.signals) == (found.follow_up == "shifted")


@pytest.mark.parametrize(
    ("turn", "searched"),
    [
        (Turn(text="UPDATE prices SET net = 5"), "run a SQL UPDATE statement on the database"),
        (
            Turn(text="why so slow? SELECT * FROM orders; asked at noon"),
            "why so slow? a SQL query on the database asked at noon",
        ),
        (
            Turn(text="sum it up", attachments=[{"name": "a.pdf"}, {"mime": "text/csv"}]),
            "sum it up (attached file: PDF document, CSV table)",
        ),
        (Turn(text="sum it up", attachments=[{"name": "core.dump"}]), "sum it up"),
    ],
)
def test_statements_are_named_and_files_told_in_what_is_searched(turn, searched):
    assert standalone_text(turn).text == searched
