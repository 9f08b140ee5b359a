"""What a log of decisions tells, in figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.sample_decisions import MARCH, believable, decision, found, known, record, said
from toolcrib import Crib, Settings
from toolcrib.evaluation.dataset import LocatedQuery, checked_data_set
from toolcrib.evaluation.decisions import (
    Latency,
    Preference,
    Share,
    knowledge_right,
    labelled_queries,
    read_decisions,
    route_right,
    summarise,
    tools_right,
    values,
)
from toolcrib.records import FindResult, Refusal, ToolHit, ToolSpec
from toolcrib.router.decision_log import outcome_record

DAY_S = 86_400

SHOP = {
    "send_invoice": "Send an invoice to a customer.",
    "refund_order": "Pay back what an order cost.",
    "cancel_order": "Cancel an order that was not sent yet.",
    "track_parcel": "Say where a parcel is.",
    "book_room": "Reserve a meeting room.",
    "list_rooms": "List the meeting rooms that are free.",
}
WANTED = {
    "send the customer her invoice": "refund_order",
    "give the money for order 5 back": "refund_order",
    "where is my parcel?": "track_parcel",
    "reserve a meeting room for noon": "book_room",
    "cancel order 12": "cancel_order",
}


def many(count, **fields):
    """Decisions that are alike but for their ids."""
    return [record(id=f"{number}", **fields) for number in range(count)]


def timed(id, kind, ms):
    return record(decision(id, kind, took_ms={"total": ms}))


def test_an_empty_log_has_no_figures():
    summary = summarise([])
    assert (summary.decisions, summary.since, summary.latency) == (0, "", None)
    assert summary.routes == summary.rates == summary.reliability == {}
    assert summary.periods == ()


def test_times_are_told_for_each_route_and_for_all():
    log = [timed(f"t{n}", "tools", float(n)) for n in range(101)] + [timed("k", "knowledge", 7.0)]
    summary = summarise(log)
    assert list(summary.routes) == ["tools", "knowledge"]
    assert summary.routes["tools"].count == 101
    assert summary.routes["tools"].latency == Latency(50.0, 95.0, 99.0)
    assert summary.routes["knowledge"].latency == Latency(7.0, 7.0, 7.0)
    assert summary.latency is not None
    assert summary.latency.p99 == pytest.approx(98.99)


def test_a_rate_is_a_mean_over_the_decisions_that_it_is_known_of():
    log = [*many(4), said("0", route="tools"), said("1", route="both"), said("2", intent="ask")]
    summary = summarise(log)
    assert summary.rates == {"route": Share(0.5, 2), "intent": Share(1.0, 1)}
    assert (summary.decisions, summary.feedback) == (4, 3)


def test_a_reported_call_counts_as_something_said():
    log = [*many(2), outcome_record("0", "mail/send", "success", at=MARCH)]
    assert summarise(log).feedback == 1
    assert summarise(log).calls == {"mail/send": Share(1.0, 1)}


def test_calls_are_counted_by_tool_with_the_share_that_succeeded():
    told = [("0", "mail/send", "success"), ("1", "mail/send", "failure"), ("1", "a", "success")]
    log = [*many(2), *(outcome_record(*each, at=MARCH) for each in told)]
    calls = summarise(log).calls
    assert list(calls.items()) == [("mail/send", Share(0.5, 2)), ("a", Share(1.0, 1))]


def test_confidence_is_held_against_success():
    log = []
    for number in range(40):
        sure = 0.9 if number < 20 else 0.4
        log.append(record(decision(str(number), tools=found("a/a", sure=sure), sure=None)))
        right = number < 18 or 20 <= number < 24
        log.append(said(str(number), tools=["a/a" if right else "b/b"]))
    summary = summarise(log)
    assert list(summary.reliability) == ["tools"]
    tools = summary.reliability["tools"]
    low, high = tools.bins
    assert (low.confidence, low.accuracy, low.count) == pytest.approx((0.4, 0.2, 20))
    assert (high.confidence, high.accuracy, high.count) == pytest.approx((0.9, 0.9, 20))
    assert (tools.ece, tools.count) == (pytest.approx(0.1), 40)


def measured(path, **active):
    """What a log says of the same turns over the same tools, where `think` may be always active."""
    tools = [ToolSpec(name=name, description=text) for name, text in SHOP.items()]
    think = ToolSpec(name="think", description="Ponder quietly.", **active)
    telemetry, few = {"path": str(path)}, {"pass_through": 0, "k": 2}
    settings = Settings.model_validate({"telemetry": telemetry, "tools": few})
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools([*tools, think])
        for text, right in WANTED.items():
            made = crib.route(text)
            assert made.tools.tools[0].tool.always_active is bool(active)
            crib.feedback(made.id, route="tools", tools=[right])
    return summarise(map(json.loads, path.read_text().splitlines()))


def test_tools_that_come_by_a_rule_change_no_measure_of_the_ranking(tmp_path):
    without = measured(tmp_path / "without.jsonl")
    summary = measured(tmp_path / "active.jsonl", always_active=True)
    assert summary.rates == without.rates
    assert summary.reliability == without.reliability
    assert summary.rates["tool_precision"].value > 0
    assert summary.reliability["tools"].bins[0].accuracy > 0


def test_a_failed_decision_counts_as_wrong_whatever_was_sure():
    log = [record(decision(kind="both")), said(outcome="failure")]
    for one in summarise(log).reliability.values():
        assert (one.bins[0].accuracy, one.count) == (0.0, 1)
    assert set(summarise(log).reliability) == {"route", "tools", "knowledge"}


def test_where_nothing_is_calibrated_there_is_no_confidence_to_judge():
    log = [record(decision(tools=found("a/a", sure=None), sure=None)), said(outcome="success")]
    assert summarise(log).reliability == {}


def test_verdicts_are_counted_where_turns_went():
    log = [
        record(decision("a")),
        record(decision("b", tools=found(verdict="abstain"))),
        record(decision("c", "knowledge", knowledge=known("x", verdict="fallback"))),
        record(decision("d", "none")),
        record(decision("e", "general", tools=found("w/w", verdict="fallback", fallback=True))),
    ]
    assert summarise(log).verdicts == {
        "tools": {"accept": 1, "abstain": 1, "fallback": 1},
        "knowledge": {"fallback": 1},
    }


def test_stages_that_were_missing_are_counted_once_a_decision_most_frequent_first():
    missing = [("rerank",), ("store", "rerank"), ("rerank", "rerank"), ()]
    log = [record(decision(str(n), degraded=stages)) for n, stages in enumerate(missing)]
    assert list(summarise(log).degraded.items()) == [("rerank", 3), ("store", 1)]


def test_of_a_turn_that_went_to_both_the_better_verdict_counts():
    both = decision(kind="both", tools=found(verdict="abstain"), knowledge=known("x"))
    (period,) = summarise([record(both)]).periods
    assert period.verdicts == {"accept": 1}


def test_a_turn_that_needed_nothing_has_no_verdict():
    (period,) = summarise([record(kind="none")]).periods
    assert (period.verdicts, period.routes) == ({}, {"none": 1})


@pytest.mark.parametrize(
    ("span_s", "step_s"),
    [(0, 60), (1800, 60), (2400, 300), (DAY_S, 3600), (30 * DAY_S, DAY_S), (9e8, 91 * DAY_S)],
)
def test_the_longer_the_log_the_longer_its_periods(span_s, step_s):
    log = [record(id="a"), record(id="b", at=MARCH + span_s)]
    assert summarise(log).step_s == step_s


def test_periods_begin_at_round_times_and_empty_ones_are_left_out():
    log = [record(id=str(n), at=MARCH + 100 + DAY_S * day) for n, day in enumerate((0, 0, 9))]
    first, last = summarise(log).periods
    assert (first.start, last.start) == ("2026-03-01T00:00:00+00:00", "2026-03-10T00:00:00+00:00")
    assert (first.routes, last.routes) == ({"tools": 2}, {"tools": 1})


@given(st.permutations(believable(30)))
def test_the_order_of_the_records_does_not_matter(records):
    shuffled, straight = summarise(records), summarise(believable(30))
    assert dict(shuffled.routes) == dict(straight.routes)
    assert shuffled.rates.keys() == straight.rates.keys()
    for name, rate in shuffled.rates.items():
        assert (rate.value, rate.of) == pytest.approx((straight.rates[name].value, rate.of))
    for period, other in zip(shuffled.periods, straight.periods, strict=True):
        assert (period.start, dict(period.verdicts)) == (other.start, dict(other.verdicts))


def one(*records):
    """The only decision of a log."""
    ((found,), _) = read_decisions(records)
    return found


class TestJoining:
    """A decision, and what was said of it."""

    def test_what_was_logged_is_what_is_read(self):
        logged = one(record(kind="both"))
        row = logged.row
        assert (row.id, logged.at.timestamp(), row.route.kind) == ("d1", MARCH, "both")
        assert (row.context.intent, row.context.domain) == ("ask", "office")
        assert [tool.id for tool in row.tools.items] == ["mail/send"]
        assert [hit.id for hit in row.knowledge.collections] == ["handbook"]

    def test_of_several_feedbacks_the_latest_counts_field_by_field(self):
        first = said(at=MARCH + 1, route="tools", tools=["a/a"], outcome="failure")
        second = said(at=MARCH + 2, tools=["b/b"], domain="")
        # Another process may have written its record first.
        feedback = one(record(), second, first).feedback
        assert feedback is not None
        assert (feedback.route, feedback.tools) == ("tools", ("b/b",))
        assert (feedback.outcome, feedback.domain, feedback.intent) == ("failure", "", None)

    def test_of_several_calls_of_a_tool_the_latest_counts(self):
        ended = [
            outcome_record("d1", "mail/send", "success", at=MARCH + 2),
            outcome_record("d1", "mail/send", "failure", at=MARCH + 1),
            outcome_record("d1", "mail/read", "failure", at=MARCH + 1),
        ]
        assert one(record(), *ended).outcomes == {"mail/send": "success", "mail/read": "failure"}

    def test_without_feedback_there_is_none_and_a_note_that_was_not_kept_is_none(self):
        assert one(record()).feedback is None
        assert one(record(), said(note="Hm.")).feedback is None

    def test_what_is_said_of_unknown_decisions_and_other_kinds_of_records_are_passed_over(self):
        made, unreadable = read_decisions([record(), said("d2", route="tools"), {"kind": "hint"}])
        assert ([one.feedback for one in made], unreadable) == ([None], 0)

    def test_what_later_versions_add_is_no_hindrance(self):
        assert one(record() | {"more": 1}, said(route="both") | {"by": "Ann"}).feedback is not None

    @pytest.mark.parametrize(
        "broken",
        [
            {"kind": "decision", "id": "d2"},
            record(id="d2") | {"at": "yesterday"},
            record(id="d2") | {"route": {"kind": "elsewhere"}},
            record(id="d2") | {"took_ms": {"total": float("inf")}},
            record(id="d2") | {"route": {"kind": "both", "confidence": float("nan")}},
            said(route="tools") | {"outcome": "perhaps"},
            {"kind": "outcome", "decision": "d1"},
        ],
    )
    def test_a_record_that_makes_no_sense_is_left_out_and_counted(self, broken):
        made, unreadable = read_decisions([record(), broken])
        assert ([one.row.id for one in made], unreadable) == (["d1"], 1)

    @given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
    def test_any_value_in_any_field_is_survived(self, value):
        for field in record():
            made, unreadable = read_decisions([record() | {field: value}])
            assert len(made) + unreadable <= 1

    @pytest.mark.parametrize(
        ("took", "ms"), [({"total": 4.0, "route": 1.0}, 4.0), ({"a": 1.0, "b": 2.0}, 3.0), ({}, 0)]
    )
    def test_the_time_is_the_total_or_the_stages_together(self, took, ms):
        assert one(record(decision(took_ms=took))).ms == ms


class TestLabelledQueries:
    """What was said in use is what can be learned from."""

    LOG = (
        record(decision("good", search_text="mail Ann"), text=True),
        said("good", tools=["mail/send", "mail/read"]),
        record(decision("nothing", search_text="sing"), text=True),
        said("nothing", tools=[]),
        record(id="silent"),
        said("silent", tools=["mail/send"]),
        record(id="no label", text=True),
        said("no label", route="knowledge"),
        record(id="no feedback", text=True),
    )

    def test_a_query_is_what_was_searched_with_and_its_right_tools_are_those_named(self):
        first, second = (
            item for item in labelled_queries(self.LOG) if isinstance(item, LocatedQuery)
        )
        assert first.query.text == "mail Ann"
        assert first.query.relevant == {"mail/send": 1.0, "mail/read": 1.0}
        assert (first.query.answerable, first.query.split) == (True, "train")
        assert (second.query.text, second.query.answerable) == ("sing", False)
        assert second.query.unanswerable_scope == "corpus"

    def test_a_labelled_decision_without_text_is_named_and_the_others_are_not(self):
        refused = [
            item for item in labelled_queries(self.LOG, "a.jsonl") if isinstance(item, Refusal)
        ]
        assert [(item.source, item.place) for item in refused] == [("a.jsonl", "decision silent")]
        assert "telemetry.text" in refused[0].reason

    def test_they_pass_the_checks_that_queries_of_a_file_pass(self):
        tools = [ToolSpec(name=name, server="mail") for name in ("send", "read")]
        data = checked_data_set("a.jsonl", tools, labelled_queries(self.LOG, "a.jsonl"))
        assert [query.id for query in data.queries] == ["good", "nothing"]
        assert data.notes[0].startswith("queries left out: 1 (a.jsonl: decision silent: was logged")


SEND, READ = "mail/send", "mail/read"
FAILED = {"outcome": "failure"}
WORKED = {"outcome": "success"}


def logged(feedback=None, *outcomes, **fields):
    """A decision with this feedback, and calls as pairs of a tool and how it ended."""
    records = [record(decision(**fields))]
    records += [] if feedback is None else [said(**feedback)]
    records += [outcome_record("d1", *call, at=MARCH + 5) for call in outcomes]
    ((one,), _) = read_decisions(records)
    return one


@pytest.mark.parametrize(
    ("feedback", "right"),
    [
        (None, None),
        ({"tools": [SEND]}, None),
        ({"route": "tools"}, True),
        ({"route": "both"}, False),
        (WORKED, True),
        (FAILED, False),
        (FAILED | {"route": "tools"}, False),
    ],
)
def test_a_route_is_right_as_people_say_or_when_all_went_well(feedback, right):
    assert route_right(logged(feedback)) is right


@pytest.mark.parametrize(
    ("feedback", "right"),
    [
        (None, None),
        ({"route": "tools"}, None),
        ({"tools": [READ, SEND]}, True),
        ({"tools": [READ]}, False),
        ({"tools": []}, False),
        (WORKED, True),
        (WORKED | {"tools": [READ]}, False),
        (FAILED, False),
        (FAILED | {"tools": [SEND]}, False),
    ],
)
def test_the_first_tool_is_right_as_people_say_or_when_all_went_well(feedback, right):
    assert tools_right(logged(feedback, tools=found(SEND, READ))) is right


@pytest.mark.parametrize(
    ("calls", "right"),
    [
        ([(SEND, "success")], True),
        ([(SEND, "failure"), (READ, "success")], False),
        ([(READ, "success")], None),
    ],
)
def test_when_nobody_says_anything_a_call_of_the_first_tool_does(calls, right):
    assert tools_right(logged(None, *calls, tools=found(SEND, READ))) is right


def by_rule(rule, tools):
    return replace(tools, tools=tuple(replace(hit, legs={rule: 1.0}) for hit in tools.tools))


GENERAL = by_rule("fallback", found("web/search"))
KEPT = by_rule("always_active", found("web/search"))


@pytest.mark.parametrize(
    "tools",
    [
        found(verdict="abstain"),
        replace(GENERAL, verdict="fallback", fallback=True),
        replace(KEPT, verdict="abstain"),
    ],
)
def test_of_tools_that_were_withheld_only_that_none_is_right_is_known(tools):
    assert tools_right(logged({"tools": [SEND]}, tools=tools)) is None
    assert tools_right(logged({"tools": ["web/search"]}, tools=tools)) is None
    assert tools_right(logged(WORKED, tools=tools)) is None
    assert tools_right(logged({"tools": []}, tools=tools)) is False


@pytest.mark.parametrize("more", [(), GENERAL.tools])
def test_a_ranking_that_was_let_through_whatever_its_verdict_is_judged(more):
    let_through = found(SEND, verdict="abstain")
    let_through = replace(let_through, tools=(*let_through.tools, *more))
    assert tools_right(logged({"tools": [SEND]}, tools=let_through)) is True
    assert tools_right(logged(WORKED, tools=let_through)) is None


@pytest.mark.parametrize(
    ("feedback", "right"),
    [
        (None, None),
        ({"route": "knowledge"}, None),
        ({"collections": ["handbook"]}, True),
        ({"collections": ["contracts"]}, False),
        ({"collections": []}, False),
        (WORKED, True),
        (FAILED, False),
    ],
)
def test_the_first_collection_is_right_as_people_say_or_when_all_went_well(feedback, right):
    one = logged(feedback, kind="knowledge", knowledge=known("handbook", "contracts"))
    assert knowledge_right(one) is right


def test_no_collection_is_right_when_none_is():
    nothing = known(verdict="abstain")
    assert knowledge_right(logged({"collections": []}, kind="both", knowledge=nothing)) is True
    assert knowledge_right(logged(WORKED, kind="both", knowledge=nothing)) is None


@pytest.mark.parametrize("kind", ["none", "knowledge"])
def test_of_what_was_not_asked_nothing_is_known(kind):
    assert tools_right(logged(FAILED, kind=kind)) is None
    assert knowledge_right(logged(FAILED, kind="tools")) is None


def test_precision_and_recall_compare_what_was_returned_with_what_is_right():
    tools = found(SEND, READ, "files/read")
    measured = values(logged({"tools": [SEND, READ, "shop/refund", "a/b"]}, tools=tools))
    assert measured == {"tool_precision": 2 / 3, "tool_recall": 2 / 4}


def by_rules(*hits):
    """Tools by id, score and rule, in the order in which a turn got them."""
    named = [(id, score, {rule: 1.0} if rule else {}) for id, score, rule in hits]
    made = [ToolHit(1, s, ToolSpec(name=id), legs=legs) for id, s, legs in named]
    return FindResult("", tuple(made), {}, confidence=0.6)


RULED = by_rules(
    ("think", 0.0, "always_active"),
    ("ask", 0.9, "always_active"),
    ("send", 0.7, None),
    ("login", 0.0, "required"),
    ("read", 0.8, None),
    ("drop", 0.1, "pass_through"),
)


@pytest.mark.parametrize(
    ("right", "first", "measured"),
    [
        (["ask"], True, {}),
        (["read", "think"], False, {"tool_precision": 1 / 2, "tool_recall": 1.0}),
        (["read", "drop", "gone"], False, {"tool_precision": 1 / 2, "tool_recall": 1 / 2}),
        (["think", "login"], False, {}),
        ([], False, {"tool_precision": 0.0}),
    ],
)
def test_the_first_tool_is_that_of_the_ranking_and_rules_are_no_part_of_it(right, first, measured):
    one = logged({"tools": right}, tools=RULED)
    assert (tools_right(one), values(one)) == (first, measured)


@pytest.mark.parametrize(
    "rule", [{"signals": ("mapped",)}, {"knowledge": known("all", verdict="fallback")}]
)
def test_collections_that_a_rule_has_chosen_are_not_measured(rule):
    made = {"knowledge": known("handbook"), "kind": "knowledge"} | rule
    one = logged({"collections": ["handbook"]}, **made)
    assert knowledge_right(one) is None
    assert values(one) == {}


@pytest.mark.parametrize("kind", ["tools", "general", "none"])
@pytest.mark.parametrize("right", [[], ["handbook"], ["contracts"]])
def test_collections_of_a_turn_that_asked_for_none_are_not_measured(kind, right):
    turn = decision(kind=kind, knowledge=known("handbook"))
    labels = said(collections=right, route="knowledge")
    ((one,), _) = read_decisions([record(turn), labels])
    assert values(one) == {"route": 0}
    assert set(summarise([record(turn), labels]).rates) == {"route"}


def test_recall_needs_something_right_and_precision_something_returned():
    assert values(logged({"tools": []}, tools=found(SEND))) == {"tool_precision": 0.0}
    assert values(logged({"tools": [SEND]}, tools=found(verdict="abstain"))) == {"tool_recall": 0.0}


def test_an_empty_label_means_that_none_fits():
    assert values(logged({"intent": "", "domain": "office"})) == {"intent": 0, "domain": 1}


def test_each_field_of_feedback_is_measured_alone():
    labels = WORKED | {"route": "both", "collections": []}
    one = logged(labels, kind="knowledge", knowledge=known(verdict="abstain"))
    assert values(one) == {"success": 1, "route": 0, "knowledge": 1}
    assert values(logged()) == {}


# -- interleaving --------------------------------------------------------------------------------

OWN, OTHER, BOTH = "mail/send", "mail/read", "files/read"


def drafted(id, *outcomes, name="by words", **feedback):
    """A decision whose tools are of the ranking of the settings, of a second one, and of both."""
    tools = found(OWN, OTHER, BOTH, interleaved=name)
    teams = dict(zip((OWN, OTHER), ("own", "other"), strict=True))
    hits = tuple(replace(hit, team=teams.get(hit.id)) for hit in tools.tools)
    yield record(decision(id, tools=replace(tools, tools=hits)))
    for tool, outcome in outcomes:
        yield outcome_record(id, tool, outcome, at=MARCH + 60)
    if feedback:
        yield said(id, **feedback)


def preference(*logs):
    return summarise(line for log in logs for line in log).interleaved


@pytest.mark.parametrize(
    ("outcomes", "feedback", "expected"),
    [
        ([(OTHER, "success")], {}, (1, 0, 0)),
        ([(OWN, "success")], {}, (0, 1, 0)),
        ([(BOTH, "success")], {}, (0, 0, 1)),
        ([(OWN, "success"), (OTHER, "success")], {}, (0, 0, 1)),
        ([(OWN, "failure"), (OTHER, "success")], {}, (1, 0, 0)),
        ([(OWN, "failure")], {}, (0, 0, 1)),
        ([(OWN, "success")], {"tools": [OTHER]}, (1, 0, 0)),
        ([(OTHER, "success")], {"outcome": "failure"}, (0, 0, 1)),
        ([], {"tools": [OTHER, BOTH]}, (1, 0, 0)),
    ],
)
def test_the_ranking_wins_that_gave_more_of_the_right_tools(outcomes, feedback, expected):
    (one,) = preference(drafted("d1", *outcomes, **feedback)).values()
    assert (one.wins, one.losses, one.ties) == expected


def test_decisions_of_which_nothing_is_known_or_that_had_one_ranking_do_not_count():
    assert preference(drafted("d1"), drafted("d2", (OTHER, "success"), name=None)) == {}


def test_every_second_ranking_has_its_figures():
    won = [drafted(f"w{n}", (OTHER, "success")) for n in range(9)]
    lost = [drafted("l", (OWN, "success")), drafted("t", (BOTH, "success"), name="taught")]
    assert preference(*won, *lost) == {
        "by words": Preference(9, 1, 0, 0.9, pytest.approx(22 / 1024)),
        "taught": Preference(0, 0, 1, None, 1.0),
    }
