"""`toolcrib calibrate` on the sample registry, and what `search` says before and after."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.conftest import ROOT, SOURCES
from tests.retrieval.calibrations import flat
from tests.router.sample_decisions import MARCH, decision, record, said
from toolcrib import Crib

ROWS = [*map(json.loads, (ROOT / "data" / "queries.jsonl").read_text().splitlines()[::2])]
QUERIES = "queries.jsonl"
GOOD = "Merge pull request 12 of the website repository"
STRICT = {"TOOLCRIB_GATE__THRESHOLD": "0.999"}
WITHHELD = {**STRICT, "TOOLCRIB_GATE__WITHHOLD": "true"}


@dataclass(frozen=True)
class Story:
    """The sample registry, and what was said on the way to its calibration."""

    shell: Shell
    dry: dict[str, Any]
    before: dict[str, Any]
    auto_before: dict[str, Any]
    summary: dict[str, Any]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    shell = Shell(tmp_path_factory.mktemp("sample"))
    shell.write(QUERIES, *ROWS)
    shell.json("index", *SOURCES)
    dry = ("calibrate", "--queries", QUERIES, "--dry-run", "--split", "val", "--seed", "3")
    return Story(
        shell=shell,
        dry=shell.json(*dry),
        before=shell.json("search", GOOD, "-k", "3"),
        auto_before=json.loads(shell("search", GOOD, "-k", "auto", "--json").stdout),
        summary=shell.json("calibrate", "--queries", QUERIES),
        after=shell.json("search", GOOD, "-k", "3"),
    )


def _said(answer: dict[str, Any]) -> list[Any]:
    return [answer[name] for name in ("confidence", "verdict", "threshold", "fallback")]


class TestCalibrating:
    """From labelled queries to a confidence, kept beside the index."""

    @pytest.mark.slow
    def test_a_dry_run_measures(self, story):
        dev = [row for row in ROWS if row["split"] == "dev"]
        assert (story.dry["saved"], story.dry["seed"]) == (False, 3)
        assert story.dry["queries"] == len(dev)

    def test_it_keeps_nothing_and_the_reason_names_the_command_that_does(self, story):
        assert _said(story.before) == [None, "accept", None, False]
        assert "`toolcrib calibrate`" in story.before["reason"]
        assert [tool["probability"] for tool in story.before["tools"]] == [None] * 3

    def test_without_a_calibration_no_set_is_complete_with_a_probability(self, story):
        error = story.auto_before["error"]
        assert error["type"] == "CalibrationError"
        assert "`toolcrib calibrate`" in error["message"]

    def test_it_tells_what_it_made_of_all_queries_but_those_of_the_test_split(self, story):
        summary = story.summary
        assert summary["queries"] == sum(row["split"] != "test" for row in ROWS)
        assert (summary["method"], summary["seed"], summary["saved"]) == ("fitted", 0, True)
        assert 0 <= summary["threshold"] <= 1
        assert 0 <= summary["ece"] < 0.15
        assert 0.5 < summary["auroc"] <= 1
        assert summary["log_loss"] > 0
        assert (summary["before"], summary["falls"]) == (None, [])
        assert 0 < summary["by_words"]["ece"] < 0.2
        assert 0 < summary["coverage"] <= 1
        assert summary["data_digest"] != story.dry["data_digest"]

    def test_figures_of_fewer_queries_say_of_how_many(self, story):
        dev = [row for row in ROWS if row["split"] == "dev"]
        unread = {"id": "unread", "text": "zzqx vwkp", "answerable": False, "split": "dev"}
        story.shell.write("unread.jsonl", *dev, unread)
        said = story.shell("calibrate", "--queries", "unread.jsonl", "--dry-run").stdout
        assert f"labelled queries: {len(dev) + 1} (by words " in said

    def test_it_warns_of_a_threshold_that_refuses_few_unanswerable_queries(self, story):
        said = story.shell("calibrate", "--queries", QUERIES, "--dry-run").stderr
        assert "gate.max_false_acceptance 0.5" in said

    def test_after_it_every_answer_says_how_sure_it_is(self, story):
        likely = [tool["probability"] for tool in story.after["tools"]]
        assert story.after["confidence"] >= likely[0]
        assert 1 > likely[0] >= likely[1] >= likely[2] > 0
        assert story.after["threshold"] == story.summary["threshold"]
        assert story.after["reason"].endswith("(as calibrated)")

    def test_the_index_is_measured_with_its_own_calibration(self, story):
        options = ("--queries", QUERIES, "--system", "toolcrib", "--limit", "30")
        told = story.shell.json("eval", *options)
        assert 0 <= told["datasets"]["queries"]["toolcrib"]["ece"] <= 1
        assert "calibration" not in str(told["sets"]["queries"]["notes"])

    def test_a_measure_on_the_queries_of_the_fit_is_noted(self, story):
        fitted = [{**row, "split": "test"} for row in ROWS if row["split"] != "test"]
        story.shell.write("fitted.jsonl", *fitted)
        told = story.shell.json("eval", "--queries", "fitted.jsonl", "--system", "toolcrib")
        assert "calibration" in told["sets"]["fitted"]["notes"][-1]

    def test_reset_goes_back_to_what_came_with_the_package(self, indexed, settings):
        with Crib.open(indexed.folder / ".toolcrib", settings=settings) as crib:
            crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.75))
        assert indexed.json("search", "mail")["confidence"] == 0.75
        assert "saved: yes" in indexed("calibrate", "--reset").stdout
        assert indexed.json("search", "mail")["confidence"] is None


class TestFromFeedback:
    """What was said of decisions is worth as much as a file of queries."""

    @pytest.fixture(scope="class")
    @classmethod
    def log(cls, story: Story) -> str:
        records = []
        for place, row in enumerate(row for row in ROWS if row["split"] != "test"):
            made = decision(row["id"], search_text=row["text"])
            records.append(record(made, at=MARCH + place, text=True))
            records.append(said(row["id"], at=MARCH + place, tools=list(row["relevant"])))
        silent = (record(id="no text"), said("no text", tools=["mail/send_mail"]))
        return story.shell.write("decisions.jsonl", *records, *silent)

    @pytest.mark.slow
    def test_it_learns_what_the_same_queries_in_a_file_teach(self, story, log):
        done = story.shell("calibrate", "--from-feedback", log, "--dry-run", "--json")
        learned = json.loads(done.stdout)
        # Decisions without a text are named.
        assert "queries left out: 1 (decisions.jsonl: decision no text: was" in done.stderr
        # What is in use by now was fitted on the same queries, and is taken at its word.
        assert learned["before"]["ece"] == story.summary["ece"]
        assert learned | {"before": None} == story.summary | {"saved": False}

    def test_the_log_is_that_of_the_settings_unless_one_is_named(self, indexed):
        log = indexed.write("a.jsonl", record(text=True), said(route="tools"))
        for named, given in (((log,), {}), ((), {"TOOLCRIB_TELEMETRY__PATH": log})):
            stderr = indexed.error("calibrate", "--from-feedback", *named, **given)
            told = "a.jsonl: holds no decision with feedback that names its right tools"
            assert told in stderr

    def test_a_log_alone_does_not_say_what_to_do(self, shell):
        assert "needs --from-feedback" in shell.error("calibrate", "decisions.jsonl", "--reset")


class TestSearching:
    """`search` with a calibration."""

    def test_auto_takes_as_many_as_the_coverage_needs(self, story):
        options = ("search", GOOD, "-k", "auto", "--no-gate")
        some = story.shell.json(*options, TOOLCRIB_TOOLS__COVERAGE="0.7")
        certain = story.shell.json(*options, "--coverage", "1")
        assert 1 <= len(some["tools"]) <= len(certain["tools"]) == 50
        assert "coverage" not in some["degraded"]
        assert "coverage" in certain["degraded"]

    def test_the_gate_marks_or_withholds(self, story):
        marked = story.shell.json("search", GOOD, **STRICT)
        assert (len(marked["tools"]), marked["fallback"]) == (5, False)
        assert marked["verdict"] == "abstain"
        assert "is below the threshold 1.00 (as set)" in marked["reason"]
        withheld = story.shell.json("search", GOOD, **WITHHELD)
        assert (withheld["tools"], withheld["verdict"]) == ([], "abstain")
        open_gate = story.shell.json("search", GOOD, "--no-gate", **WITHHELD)
        assert open_gate["tools"] == marked["tools"]

    def test_tools_that_are_hardly_right_are_left_out(self, story):
        likely = [tool["probability"] for tool in story.after["tools"]]
        for options, given in ((("--least", "1"), {}), ((), {"TOOLCRIB_TOOLS__LEAST": "1"})):
            found = story.shell.json("search", GOOD, *options, **given)["tools"]
            assert [tool["probability"] for tool in found] == likely[:1]

    @pytest.mark.slow
    def test_people_are_told_why_nothing_may_fit(self, story):
        for given, start in ((STRICT, "perhaps nothing fits"), (WITHHELD, "nothing fits")):
            told = story.shell("search", GOOD, COLUMNS="200", **given).stderr
            assert told.startswith(f"{start}: confidence 0.")
        general = story.after["tools"][1]["id"]
        more = {"TOOLCRIB_GATE__FALLBACK": general, "TOOLCRIB_CONTEXT__DETECTOR": "heuristic"}
        told = story.shell("route", GOOD, COLUMNS="200", **STRICT, **more).stderr
        assert told.startswith("perhaps nothing fits: ")
        assert f"; {general} is the general tool" in told


class TestWrongUsage:
    """One line that says what is wrong."""

    def test_a_split_that_is_not_there(self, story):
        splits = ("--split", "dev", "--split", "none")
        stderr = story.shell.error("calibrate", "--queries", QUERIES, *splits)
        assert "no queries in the split 'none'; its splits are: dev, test, train;" in stderr

    @pytest.mark.parametrize("split", [(), ("--split", "test")])
    def test_a_fit_on_the_test_split_brings_a_warning(self, story, split):
        story.shell.write("few.jsonl", *[row for row in ROWS if row["split"] == "test"][:9])
        done = story.shell("calibrate", "--queries", "few.jsonl", *split)
        assert "the split test" in done.stderr

    @pytest.mark.parametrize(
        "arguments", [(), ("--queries", QUERIES, "--reset"), ("--from-feedback", "--reset")]
    )
    def test_queries_or_feedback_or_a_reset_but_one_of_them(self, shell, arguments):
        assert "--from-feedback" in shell.error("calibrate", *arguments)

    @pytest.mark.parametrize("what", ["--reset", "--labels"])
    def test_a_dry_run_of_what_measures_nothing_is_refused(self, shell, what):
        assert "--dry-run" in shell.error("calibrate", what, "--dry-run")
