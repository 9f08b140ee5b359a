"""`toolcrib classify`, `capabilities` and `eval`: one line a text, and what many are worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data" / "questions"
SUPPORT = str(DATA / "support.yaml")
CAPABILITIES = str(DATA.parent / "capabilities" / "capabilities.yaml")
BUNDLED = {"TOOLCRIB_ENCODER__DENSE": "bundled"}


class TestClassify:
    """A text in, a class out."""

    def test_json_has_the_branch_and_how_it_was_found(self, shell):
        found = shell.json("classify", SUPPORT, "the parcel is lost", **BUNDLED)
        assert found.pop("confidence") > 0.9
        assert found == {"branch": "shipping", "matched": True, "degraded": ["llm"]}

    def test_a_person_reads_the_class_first(self, shell):
        done = shell("classify", SUPPORT, "the parcel is lost", **BUNDLED)
        assert done.stdout.startswith("shipping  1.00")
        assert "without: llm" in done.stdout
        assert "no class fits" in shell("classify", SUPPORT, "?").stdout

    def test_a_batch_has_a_line_for_each_text_also_for_those_that_fail(self, shell):
        (shell.folder / "q.yaml").write_text(
            "{model: m, question: '{{ text[3] }}', classes: [{id: a}, {id: b}]}"
        )
        lines = shell("classify", "q.yaml", "--batch", "-", "--json", stdin="four\nno\n").stdout
        first, second = map(json.loads, lines.splitlines())
        assert first["branch"] in {"a", "b"}
        assert second["branch"] is None
        assert "cannot be filled in" in second["error"]

    def test_variables_and_outputs_reach_the_question(self, shell):
        (shell.folder / "q.yaml").write_text(
            "{model: m, question: '{{ tone }}', classes: [{id: a}, {id: b}],"
            " run_if: {from: triage, path: branch, eq: x}}"
        )
        outputs = json.dumps({"triage": {"branch": "x"}})
        asked = ("classify", "q.yaml", "hello", "--outputs", outputs)
        assert shell(*asked).returncode == 2
        assert shell.json(*asked, "--var", "tone=calm")["branch"] in {"a", "b"}
        skipped = shell.json("classify", "q.yaml", "hello")
        assert (skipped["branch"], skipped["skipped"]) == (None, True)

    def test_a_question_of_the_settings_goes_by_its_name(self, shell):
        (shell.folder / "toolcrib.yaml").write_text(json.dumps({"questions": {"team": SUPPORT}}))
        found = shell.json("classify", "team", "the parcel is lost", **BUNDLED)
        assert found["branch"] == "shipping"
        assert shell("classify", "teams", "the parcel is lost").returncode == 2

    def test_mistakes_are_said_in_one_line(self, shell):
        (shell.folder / "q.yaml").write_text("{model: m, question: x, classes: [{id: a}]}")
        assert "q.yaml: classes: " in shell.error("classify", "q.yaml", "hello")
        for wrong in (["--var", "x"], ["--outputs", "["], ["--outputs", "[]"], ["--batch", "-"]):
            assert shell("classify", SUPPORT, "hello", *wrong).returncode == 2


class TestCapabilities:
    """A text in, the capabilities that it needs out."""

    FILE = ("--config", CAPABILITIES)

    def test_what_is_selected_is_told_to_programs_and_people(self, shell):
        told = shell.json("capabilities", "plot the signups of this year", *self.FILE, **BUNDLED)
        assert (told["active"], told["next"]) == (["safety", "figures", "charts"], "plan")
        shown = shell("capabilities", "/caps:off", *self.FILE).stdout
        assert shown.startswith("safety, ")

    def test_a_batch_has_a_line_for_each_text(self, shell):
        asked = ("capabilities", "--batch", "-", *self.FILE)
        assert len(shell(*asked, stdin="hello\nbye\n").stdout.splitlines()) == 2
        assert shell("capabilities", *self.FILE).returncode == 2


class TestEval:
    """Labelled turns in, accuracy, confusion and calibration out."""

    def test_each_question_is_measured_and_all_together(self, shell):
        page = shell.folder / "page.html"
        file = str(DATA / "turns.jsonl")
        found = shell.json("eval", "questions", file, "--split", "dev", "--html", str(page))
        assert found["kind"] == "questions"
        assert [(one["name"], one["turns"]) for one in found["sets"]] == [
            ("support.yaml", 13),
            ("urgency.yaml", 13),
            ("pipeline.json", 13),
            ("clinic.yaml", 13),
            ("all", 52),
        ]
        assert found["sets"][-1]["degraded"] == {"llm": 52}
        assert page.read_text().count("<svg") == 5

    def test_a_person_sees_a_table_and_what_was_taken_for_what(self, shell):
        rows = [{"id": "1", "text": "the parcel is lost", "labels": {"branch": "sales"}}]
        file = shell.write("turns.jsonl", *rows)
        done = shell("eval", "questions", file, "--config", SUPPORT, **BUNDLED)
        assert done.stdout.splitlines()[0].split("\t")[:3] == ["set", "turns", "accuracy"]
        assert "sales was shipping" in done.stdout
        assert shell("eval", "questions", file).returncode == 2

    def test_capabilities_are_measured_without_those_that_are_always_active(self, shell):
        turns = str(DATA.parent / "capabilities" / "turns.jsonl")
        asked = ("eval", "capabilities", turns, "--config", CAPABILITIES, "--split", "dev")
        (found,) = shell.json(*asked)["sets"]
        assert (found["turns"], found["degraded"]) == (42, {"llm": 42})
        assert "safety" not in found["labels"]
        assert found["calibration"]["count"] > 400

    @pytest.mark.parametrize(
        ("command", "kind", "options"),
        [
            ("routing", "route", ()),
            ("agents", "agent", ()),
            ("questions", "branch", ("--config", SUPPORT)),
            ("capabilities", "capabilities", ("--config", CAPABILITIES)),
        ],
    )
    def test_a_label_that_does_not_exist_is_refused(self, shell, command, kind, options):
        source = shell.write("turns.jsonl", {"id": "1", "text": "hello", "labels": {kind: "toolz"}})
        stderr = shell.error("eval", command, source, *options)
        assert f"line 1: labels.{kind}: 'toolz' is none of " in stderr
