"""Records are joined into decisions; those that people labelled become queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.router.sample_decisions import MARCH, decision, record, said
from toolcrib.evaluation.decision_log import labelled_queries, read_decisions
from toolcrib.evaluation.loaders.checks import checked
from toolcrib.evaluation.loaders.rows import Located
from toolcrib.records import Refusal, ToolSpec
from toolcrib.router.decision_log import outcome_record


def one(*records):
    """The only decision of a log."""
    (found,) = read_decisions(records).decisions
    return found


class TestJoining:
    """A decision, and what was said of it."""

    def test_what_was_logged_is_what_is_read(self):
        row = one(record(kind="both")).row
        assert (row.id, row.at.timestamp(), row.route.kind) == ("d1", MARCH, "both")
        assert (row.context.intent, row.context.domain) == ("ask", "office")
        assert [tool.id for tool in row.tools.items] == ["mail/send"]
        assert [hit.id for hit in row.knowledge.collections] == ["handbook"]

    def test_decisions_come_in_the_order_of_their_times(self):
        later, sooner = record(id="b", at=MARCH + 1), record(id="a", at=MARCH)
        found = read_decisions([later, sooner]).decisions
        assert [one.row.id for one in found] == ["a", "b"]

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
        content = read_decisions([record(), said("d2", route="tools"), {"kind": "hint"}])
        assert (len(content.decisions), content.decisions[0].feedback) == (1, None)
        assert content.unreadable == 0

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
        content = read_decisions([record(), broken])
        assert ([one.row.id for one in content.decisions], content.unreadable) == (["d1"], 1)

    @given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
    def test_any_value_in_any_field_is_survived(self, value):
        for field in record():
            content = read_decisions([record() | {field: value}])
            assert len(content.decisions) + content.unreadable <= 1

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
        first, second = (item for item in labelled_queries(self.LOG) if isinstance(item, Located))
        assert first.query.text == "mail Ann"
        assert first.query.relevant == {"mail/send": 1.0, "mail/read": 1.0}
        assert (first.query.answerable, first.query.split) == (True, "train")
        assert (second.query.text, second.query.answerable) == ("sing", False)
        assert second.query.unanswerable_scope == "corpus"

    def test_a_labelled_decision_without_text_is_named_and_the_others_are_not(self):
        refused = [item for item in labelled_queries(self.LOG, "a.db") if isinstance(item, Refusal)]
        assert [(item.source, item.place) for item in refused] == [("a.db", "decision silent")]
        assert "telemetry.text" in refused[0].reason

    def test_they_pass_the_checks_that_queries_of_a_file_pass(self):
        tools = [ToolSpec(name=name, server="mail") for name in ("send", "read")]
        data = checked("a.db", tools, labelled_queries(self.LOG, "a.db"))
        assert [query.id for query in data.queries] == ["good", "nothing"]
        assert data.notes[0].startswith("queries left out: 1 (a.db: decision silent: was logged")
