"""Choices measured: what is right, what was taken for what, and how sure it was."""

from __future__ import annotations

import json
import re

import pytest

from tests.report.test_page import Reader
from toolcrib.errors import SourceError
from toolcrib.evaluation.choices import Choice, LabelledTurn, measure_choices, read_labelled
from toolcrib.records import Turn
from toolcrib.report.decisions import render_choices


def turn(name: str, *right: str) -> LabelledTurn:
    return LabelledTurn(name, Turn(text=name), frozenset(right))


def measured(turns, chosen):
    return measure_choices("set", turns, lambda asked: chosen[asked.text])


def test_one_label_a_turn():
    turns = [turn("a", "bill"), turn("b", "bill"), turn("c", "ship"), turn("d", "ship")]
    chosen = {
        "a": Choice(frozenset({"bill"}), {"bill": 0.9}),
        "b": Choice(frozenset({"ship"}), {"ship": 0.6}, ("llm",)),
        "c": Choice(frozenset({"ship"}), {"ship": 0.8}),
        "d": Choice(frozenset({"ship"}), {"ship": 0.7}),
    }
    found = measured(turns, chosen)
    assert (found.accuracy, found.f1, found.wrong) == (0.75, 0.75, ("b",))
    assert found.confusion == {"bill": {"bill": 1, "ship": 1}, "ship": {"ship": 2}}
    assert found.labels["bill"].precision == 1.0
    assert found.labels["bill"].recall == 0.5
    assert found.brier == pytest.approx((0.01 + 0.36 + 0.04 + 0.09) / 4)
    assert found.calibration is not None
    assert found.calibration.count == 4
    assert found.degraded == {"llm": 1}


def test_any_number_of_labels_a_turn():
    turns = [turn("a", "bill", "ship"), turn("b"), turn("c", "ship"), turn("d")]
    chosen = {
        "a": Choice(frozenset({"bill", "mail"})),
        "b": Choice(frozenset()),
        "c": Choice(frozenset()),
        "d": Choice(frozenset({"mail"})),
    }
    found = measured(turns, chosen)
    assert found.accuracy == 0.25
    assert found.f1 == pytest.approx(2 * 1 / (3 + 3))
    assert found.confusion == {
        "(none)": {"(none)": 1, "mail": 1},
        "bill": {"bill": 1},
        "ship": {"(none)": 1, "mail": 1},
    }
    assert found.labels["mail"].precision == 0.0
    assert found.labels["mail"].recall is None
    assert found.calibration is None


def test_a_file_of_labelled_turns(tmp_path):
    file = tmp_path / "turns.jsonl"
    rows = [
        {"id": 1, "text": "a", "split": "dev", "labels": {"agent": "commerce"}},
        {"id": 2, "text": "b", "attachments": ["x.pdf"], "labels": {"agent": ["x", "y"]}},
        {"id": 3, "text": "c", "labels": {"branch": None, "entities": [[0, 1, "date"]]}},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    first, second = read_labelled(file, "agent")
    assert (first.id, first.right, first.split) == ("1", {"commerce"}, "dev")
    assert second.turn.attachments[0].name == "x.pdf"
    assert second.right == {"x", "y"}
    assert [each.id for each in read_labelled(file, "agent", "test")] == ["2"]
    assert read_labelled(file, "branch")[0].right == set()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"id": "1", "text": 5, "labels": {"agent": "x"}}, "line 1: text"),
        ({"id": "1", "text": "a"}, "labels"),
        ({"id": "1", "text": "a", "labels": {"agent": [["x"]]}}, "line 1: labels.agent: "),
        ({"id": "1", "text": "a", "labels": {"branch": "x"}}, "no row has `labels: {agent: ...}`"),
    ],
)
def test_what_cannot_be_measured_is_said_with_its_place(tmp_path, row, told):
    file = tmp_path / "turns.jsonl"
    file.write_text(json.dumps(row))
    with pytest.raises(SourceError, match=re.escape(file.name)) as caught:
        read_labelled(file, "agent")
    assert told in str(caught.value)


def test_a_label_that_does_not_exist_is_refused(tmp_path):
    file = tmp_path / "turns.jsonl"
    file.write_text(json.dumps({"id": "1", "text": "a", "labels": {"route": "toolz"}}))
    with pytest.raises(SourceError, match=r"line 1: labels\.route: 'toolz' is none of tools, none"):
        read_labelled(file, "route", known=lambda _: ("tools", "none"))
    assert read_labelled(file, "route")[0].right == {"toolz"}


def test_all_wrong_rows_are_named(tmp_path):
    file = tmp_path / "turns.jsonl"
    good = {"id": "1", "text": "a", "labels": {"route": "tools"}}
    wrong = [{"id": "2", "text": "b"}, {**good, "text": 5}, {**good, "labels": {"route": "toolz"}}]
    file.write_text("\n".join(map(json.dumps, [wrong[0], good, *wrong[1:]])))
    with pytest.raises(SourceError, match="3 rows are wrong: line 1: ") as caught:
        read_labelled(file, "route", known=lambda _: ("tools", "none"))
    assert "; line 3: text" in str(caught.value)
    assert "; line 4: labels.route: 'toolz' is none of" in str(caught.value)
    file.write_text("\n".join(map(json.dumps, wrong * 9)))
    with pytest.raises(SourceError, match=r"27 rows are wrong: .*; and 7 more$"):
        read_labelled(file, "route", known=lambda _: ("tools", "none"))


def test_the_page_has_a_chapter_a_set_and_escapes_its_texts():
    hostile = "<script>alert(1)</script>"
    found = measured([turn("a", hostile)], {"a": Choice(frozenset({"b"}), {"b": 0.4})})
    page = render_choices("questions", [found])
    reader = Reader(page)
    assert hostile not in page
    assert hostile in reader.text
    assert reader.tags.count("svg") == 1
    assert "0 % of 1 turns are given the right questions." in reader.text


@pytest.mark.parametrize("name", ["val", "validation", "dev"])
def test_the_development_split_has_several_names(tmp_path, name):
    row = {"id": "1", "text": "hello", "labels": {"route": "none"}, "split": name}
    (tmp_path / "turns.jsonl").write_text(json.dumps(row))
    (found,) = read_labelled(tmp_path / "turns.jsonl", "route", "dev")
    assert found.split == "dev"
