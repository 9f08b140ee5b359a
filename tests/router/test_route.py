"""Route of a turn: a guess, corrected at most once by what was found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.sample_decisions import found, known
from toolcrib.records import Context, FindResult, KnowledgeResult, Route
from toolcrib.router.route import (
    RouteEvidence,
    choose_route,
    need_probability,
    route_probabilities,
)

DOING = Context("", intent="generate", domain="product", need="act", confidences={"need": 0.97})
READING = Context("", intent="ask", domain="agile", need="know", confidences={"need": 0.97})
STRANGE = Context("", need="act", confidences={"need": 0.6})

SURE_TOOLS = found("mail/send", sure=0.98)
UNSURE_TOOLS = found("mail/send", sure=0.02, verdict="abstain")
NO_TOOLS = FindResult("", (), {}, verdict="abstain", reason="no tool is in reach")
SURE_PASSAGES = replace(known("handbook"), fit=0.98)
NO_PASSAGES = KnowledgeResult(fit=0.02)


def test_a_request_with_a_fitting_tool_goes_to_tools():
    route = choose_route(RouteEvidence(DOING, SURE_TOOLS, NO_PASSAGES))
    assert (route.kind, route.corrected_from) == ("tools", None)
    assert route.confidence > 0.5
    assert route.reason == "a tool must do this"


def test_a_question_with_fitting_passages_goes_to_knowledge():
    route = choose_route(RouteEvidence(READING, UNSURE_TOOLS, SURE_PASSAGES))
    assert (route.kind, route.corrected_from) == ("knowledge", None)
    assert route.reason == "written knowledge answers this"


def test_passages_below_their_threshold_are_named_in_the_reason():
    doubted = replace(SURE_PASSAGES, verdict="fallback", reason="no collection is likely enough")
    reason = "written knowledge answers this, but perhaps no passage fits: no collection is likely"
    assert choose_route(RouteEvidence(READING, NO_TOOLS, doubted)).reason.startswith(reason)


@pytest.mark.parametrize("tools", [SURE_TOOLS, UNSURE_TOOLS])
def test_at_a_step_tools_are_never_left_out_for_passages(tools):
    evidence = RouteEvidence(READING, tools, SURE_PASSAGES, is_step=True)
    assert choose_route(evidence).kind == "both"
    assert choose_route(replace(evidence, tools=NO_TOOLS)).kind == "knowledge"
    withheld = replace(evidence, tools=UNSURE_TOOLS, withholds=True)
    assert choose_route(withheld).kind == "knowledge"


def test_an_order_that_a_tool_fits_gets_the_tool_whatever_need_was_read():
    evidence = RouteEvidence(READING, found("mail/send", sure=0.6), SURE_PASSAGES)
    assert choose_route(evidence).kind == "knowledge"
    order = replace(evidence, is_order=True)
    assert choose_route(order).kind == "both"
    assert choose_route(replace(order, tools=found("mail/send", sure=0.4))).kind == "knowledge"
    assert choose_route(replace(order, tools=UNSURE_TOOLS)).kind == "knowledge"


LIKELY_READING = Context(
    "", domain="agile", need="know", needs={"act": 0.1, "know": 0.7, "both": 0.15, "neither": 0.05}
)


@pytest.mark.parametrize("context", [DOING, LIKELY_READING])
def test_an_order_beside_a_question_needs_both(context):
    evidence = RouteEvidence(context, UNSURE_TOOLS, SURE_PASSAGES)
    assert choose_route(evidence).kind != "both"
    assert choose_route(replace(evidence, orders_and_asks=True)).kind == "both"
    without = replace(evidence, knowledge=NO_PASSAGES, orders_and_asks=True)
    assert choose_route(without).kind == "tools"


def test_an_order_beside_a_question_needs_nothing_that_is_all_but_excluded():
    evidence = RouteEvidence(READING, UNSURE_TOOLS, SURE_PASSAGES, orders_and_asks=True)
    assert choose_route(evidence).kind == "knowledge"


NEITHER = Context(
    "", need="neither", needs={"act": 0.01, "know": 0.01, "both": 0.01, "neither": 0.97}
)


def test_evidence_that_passed_its_own_threshold_is_not_outvoted_by_neither():
    nothing = RouteEvidence(NEITHER, UNSURE_TOOLS, replace(NO_PASSAGES, fit=0.02))
    assert choose_route(nothing).kind == "general"
    likely = replace(nothing, tools=found("tasks/add_reminder", sure=0.84))
    assert choose_route(likely).kind == "tools"
    read = replace(nothing, knowledge=replace(known("handbook"), fit=0.4))
    assert choose_route(read).kind == "knowledge"


def test_equal_tools_that_share_the_probability_are_not_outvoted_by_neither():
    equal = found("tasks/list", "todo/list", sure=0.85)
    equal = replace(equal, tools=tuple(replace(hit, probability=0.2) for hit in equal.tools))
    assert choose_route(RouteEvidence(NEITHER, equal, NO_PASSAGES)).kind == "tools"
    unsure = RouteEvidence(NEITHER, replace(equal, confidence=0.7), NO_PASSAGES)
    reason = choose_route(unsure).reason
    assert reason.startswith("the turn probably needs no tool, and no collection fits: though")


def test_where_only_passages_were_found_a_request_is_sent_to_them_and_the_guess_is_told():
    route = choose_route(RouteEvidence(DOING, NO_TOOLS, SURE_PASSAGES))
    assert (route.kind, route.corrected_from) == ("knowledge", "tools")
    assert route.reason.startswith("written knowledge answers this (knowledge ")


HELD_BACK = replace(SURE_TOOLS, verdict="abstain")
NO_COLLECTION = KnowledgeResult(reason="no collection is in reach")
LATE = KnowledgeResult(reason="no time was left")


@pytest.mark.parametrize("context", [DOING, READING, STRANGE])
@pytest.mark.parametrize("tools", [NO_TOOLS, HELD_BACK])
@pytest.mark.parametrize("passages", [NO_PASSAGES, NO_COLLECTION])
def test_where_nothing_fits_it_is_the_general_tool_and_that_is_never_certain(
    context, tools, passages
):
    route = choose_route(RouteEvidence(context, tools, passages, gate_decides=True))
    assert route.kind == "general"
    assert route.confidence is None or route.confidence < 1
    assert (route.confidence is None) is (tools is NO_TOOLS and passages is NO_COLLECTION)


@pytest.mark.parametrize(
    ("tools", "passages", "unasked", "reason"),
    [
        (HELD_BACK, NO_PASSAGES, (), "neither the tools nor the collections fit"),
        (HELD_BACK, NO_COLLECTION, (), "no tool fits, and no collection is in reach"),
        (HELD_BACK, LATE, ("knowledge",), "no tool fits, and no time was left"),
        (NO_TOOLS, NO_PASSAGES, (), "no tool is in reach, and no collection fits"),
        (NO_TOOLS, NO_COLLECTION, (), "no tool is in reach, and no collection is in reach"),
    ],
)
def test_what_was_not_looked_at_is_not_said_to_be_unfit(tools, passages, unasked, reason):
    evidence = RouteEvidence(DOING, tools, passages, True, frozenset(unasked))
    assert choose_route(evidence).reason.startswith(reason)


def test_what_there_was_no_time_to_look_for_makes_the_rest_less_sure():
    found_all = RouteEvidence(READING, NO_TOOLS, SURE_PASSAGES)
    skipped = frozenset[str](), frozenset({"tools"})
    route, late = (choose_route(replace(found_all, skipped_stages=each)) for each in skipped)
    assert route.kind == late.kind == "knowledge"
    assert late.confidence < route.confidence


def test_without_any_probability_of_the_tools_they_are_given():
    uncalibrated = found("mail/send", sure=None)
    assert choose_route(RouteEvidence(DOING, uncalibrated, KnowledgeResult())).kind == "tools"


@pytest.mark.parametrize("verdict", ["abstain", "fallback"])
def test_where_the_gate_decides_tools_that_it_doubts_are_not_enough_alone(verdict):
    doubted = replace(SURE_TOOLS, verdict=verdict)
    evidence = RouteEvidence(DOING, doubted, NO_PASSAGES, gate_decides=True)
    assert choose_route(evidence).kind == "general"
    assert choose_route(replace(evidence, tools=SURE_TOOLS)).kind == "tools"
    assert choose_route(replace(evidence, gate_decides=False)).kind == "tools"
    some = replace(known("handbook"), fit=0.3)
    assert choose_route(replace(evidence, knowledge=some)).kind == "both"
    reading = replace(evidence, context=READING, knowledge=SURE_PASSAGES)
    assert choose_route(reading).kind in {"knowledge", "both"}


@pytest.mark.parametrize("passages", [NO_PASSAGES, SURE_PASSAGES])
def test_what_the_gate_withholds_is_no_tool(passages):
    evidence = RouteEvidence(DOING, HELD_BACK, passages, gate_decides=True, withholds=True)
    assert not evidence.has_tools
    assert choose_route(evidence).kind == ("knowledge" if passages.passages else "general")
    assert choose_route(replace(evidence, tools=SURE_TOOLS)).kind == "tools"


@pytest.mark.parametrize("passages", [NO_PASSAGES, replace(NO_PASSAGES, reason="far away")])
def test_a_general_route_says_how_sure_tools_and_collections_are(passages):
    tools = replace(UNSURE_TOOLS, reason="confidence 0.02 is below the threshold 0.70 (as set)")
    route = choose_route(RouteEvidence(DOING, tools, passages, gate_decides=True))
    about = passages.reason or "the probability that any collection fits is 0.02"
    assert route.reason.startswith(
        f"neither the tools nor the collections fit: {tools.reason}; {about} (tools 0."
    )


def test_small_talk_goes_nowhere_whatever_was_found():
    context = Context("hi", smalltalk="greeting", confidences={"smalltalk": 0.9})
    tools = replace(SURE_TOOLS, reason="a greeting")
    route = choose_route(RouteEvidence(context, tools, SURE_PASSAGES))
    assert (route.kind, route.reason, route.confidence) == ("none", "a greeting", 0.9)


def test_where_there_was_no_time_to_look_it_is_the_general_tool_and_nobody_knows_how_sure():
    active = replace(SURE_TOOLS, verdict="abstain", confidence=None, reason="no time was left")
    late = RouteEvidence(READING, active, LATE, skipped_stages=frozenset({"tools", "knowledge"}))
    assert choose_route(late) == Route("general", "no time was left")


SHARES = st.floats(0, 1)


@given(
    sure=SHARES | st.none(),
    fit=SHARES | st.none(),
    need=st.sampled_from(["act", "know", "neither", None]),
    sure_need=SHARES,
    domain=st.sampled_from(["code", None]),
    has_tools=st.booleans(),
    has_passages=st.booleans(),
)
def test_any_evidence_has_one_route_to_what_was_found(
    sure, fit, need, sure_need, domain, has_tools, has_passages
):
    context = Context("", domain=domain, need=need, confidences={"need": sure_need})
    tools = found("a/b", sure=sure) if has_tools else replace(NO_TOOLS, confidence=sure)
    passages = replace(SURE_PASSAGES if has_passages else NO_PASSAGES, fit=fit)
    route = choose_route(RouteEvidence(context, tools, passages))
    nothing_seen = not has_tools and not has_passages and fit is None
    assert route.confidence is None if nothing_seen else 0 <= route.confidence <= 1
    assert route.corrected_from != route.kind
    assert has_tools or route.kind not in {"tools", "both"}
    assert has_passages or route.kind not in {"knowledge", "both"}


@given(sure=SHARES, better=SHARES, fit=SHARES)
def test_a_tool_that_is_more_probably_right_is_never_dropped_for_it(sure, better, fit):
    less, more = sorted((sure, better))
    passages = replace(SURE_PASSAGES, fit=fit)
    given_with = [
        choose_route(RouteEvidence(DOING, found("a/b", sure=p), passages)).kind in {"tools", "both"}
        for p in (less, more)
    ]
    assert given_with[0] <= given_with[1]


@pytest.mark.parametrize(
    ("need", "kind"),
    [("act", "tools"), ("know", "knowledge"), ("both", "both"), ("neither", "general")],
)
def test_what_a_turn_needs_decides_where_what_was_found_does_not(need, kind):
    needs = {**dict.fromkeys(("act", "know", "both", "neither"), 0.01), need: 0.97}
    context = Context("", domain="product", need=need, needs=needs)
    found_both = replace(SURE_TOOLS, confidence=0.4), replace(SURE_PASSAGES, fit=0.4)
    likely = route_probabilities(RouteEvidence(context, *found_both))
    even = route_probabilities(RouteEvidence(replace(context, needs={}, need=None), *found_both))
    assert max(likely, key=lambda each: likely[each] / even[each]) == kind


def test_needs_that_a_users_own_labels_lack_count_as_seldom_wanted():
    told = Context("", need="act", needs={"act": 0.9, "know": 0.1})
    stated = Context("", need="act", confidences={"need": 0.9})
    pair = (RouteEvidence(each, SURE_TOOLS, SURE_PASSAGES).features() for each in (told, stated))
    (*_, act, know, neither, _, _, _), (*_, cued, read, never, _, _, _) = pair
    assert neither == never
    assert cued > act > 0 > know > read


@pytest.mark.parametrize(("need", "wishes"), [("both", (True, True)), ("neither", (False, False))])
def test_a_label_without_shares_says_what_is_wished(need, wishes):
    context = Context("", need=need, confidences={"need": 0.9})
    assert tuple(need_probability(context, each) > 0.5 for each in ("act", "know")) == wishes
