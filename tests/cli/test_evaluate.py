"""`toolcrib eval`: a contract for machines, tables for people, and an exit code for CI."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TOOLS, Shell
from tests.conftest import ROOT

DATA = ROOT / "data"
CASES = DATA / "cases"
TWINS = CASES / "twins_without_a_difference"
QUERIES = [
    {"id": "1", "text": "send somebody a mail", "relevant": {"mail/send_mail": 1}, "split": "test"},
    {"id": "2", "text": "read that file", "relevant": {"files/read_file": 1}, "split": "test"},
    {"id": "3", "text": "compose a symphony", "relevant": {}, "split": "test"},
    {"id": "4", "text": "read my mail", "relevant": {"mail/send_mail": 1}, "split": "dev"},
]
WORSE = {"TOOLCRIB_FUSION__DENSE": "1", "TOOLCRIB_FUSION__LEXICAL": "0"}
"""The model-free vectors alone: far worse than with words."""


def _evaluated(folder: Path, *more: str, **env: str) -> Path:
    """The sample registry, measured; the folder holds `eval.json`, runs and a report."""
    arguments = ("eval", str(DATA), "--limit", "60", "--per-query", *more)
    told = Shell(folder).json(*arguments, **env)
    (folder / "eval.json").write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("--system", "toolcrib", "--system", "lexical", "--run-out", "runs")
    return _evaluated(tmp_path_factory.mktemp("before"), *options, "--report", "report.html")


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = {**WORSE, "TOOLCRIB_LLM__API_KEY": "secret"}
    return _evaluated(tmp_path_factory.mktemp("after"), "--system", "toolcrib", **env)


@pytest.fixture(scope="module")
def told(before: Path) -> dict[str, Any]:
    return json.loads((before / "eval.json").read_text())


@pytest.fixture
def labelled(shell: Shell) -> Shell:
    """A shell whose folder holds a few tools and queries."""
    shell.write("tools.jsonl", *TOOLS)
    shell.write("queries.jsonl", *QUERIES)
    return shell


class TestContract:
    """What `--json` prints."""

    MEASURES = ("ndcg", "recall", "precision", "completeness")

    @pytest.mark.slow
    def test_every_measure_has_a_mean_in_its_interval(self, told):
        for figures in told["datasets"]["data"].values():
            names = [f"{name}@{k}" for name in self.MEASURES for k in (1, 3, 5, 10)]
            for name in (*names, "hit@1", "mrr"):
                assert set(figures[name]) == {"mean", "low", "high"}
                low, mean, high = (figures[name][part] for part in ("low", "mean", "high"))
                assert 0 <= low <= mean <= high <= 1

    def test_time_and_tokens(self, told):
        for figures in told["datasets"]["data"].values():
            assert set(figures["latency_ms"]) == {"p50", "p99"}
            assert 0 < figures["latency_ms"]["p50"] <= figures["latency_ms"]["p99"]
            assert 0.5 < figures["tokens_saved"] < 1

    def test_systems_come_as_they_were_asked_for_and_are_compared_with_the_first(self, told):
        systems = told["datasets"]["data"]
        assert list(systems) == list(told["macro"]) == ["toolcrib", "lexical"]
        assert systems["toolcrib"]["against_first"] == {}
        against = systems["lexical"]["against_first"]["ndcg@10"]
        assert set(against) == {"difference", "p", "significant"}
        means = [systems[name]["ndcg@10"]["mean"] for name in ("lexical", "toolcrib")]
        assert against["difference"] == pytest.approx(means[0] - means[1], abs=1e-4)

    def test_what_was_measured_and_how(self, told):
        measured = told["sets"]["data"]
        assert (measured["split"], measured["queries"]) == ("test", 60)
        assert measured["tools"] > 200
        assert 0 < measured["unanswerable"] < 30
        assert told["settings"]["command"].startswith("toolcrib eval ")
        assert told["settings"]["seed"] == "0"
        assert told["datasets"]["data"]["toolcrib"]["version"].startswith("toolcrib ")

    def test_it_names_the_settings_of_the_environment_and_no_secret(self, after):
        settings = json.loads((after / "eval.json").read_text())["settings"]
        assert (settings["fusion.dense"], settings["fusion.lexical"]) == ("1.0", "0.0")
        assert "llm.api_key" not in settings
        assert "gate.threshold" not in settings

    def test_several_sets_have_a_mean(self, shell):
        sets = (str(TWINS), str(CASES / "anti_patterns_hold_back"))
        told = shell.json("eval", *sets, "--system", "lexical", "--k", "2,1")
        assert set(told["datasets"]) == {Path(name).name for name in sets}
        assert "per_query" not in told
        means = [one["lexical"]["ndcg@2"]["mean"] for one in told["datasets"].values()]
        assert told["macro"]["lexical"]["ndcg@2"] == pytest.approx(sum(means) / 2, abs=1e-4)
        assert "ndcg@10" not in told["macro"]["lexical"]


class TestWhatIsMeasured:
    """A folder, two files, or the index."""

    def test_tools_and_queries_as_files(self, labelled):
        files = ("--tools", "tools.jsonl", "--queries", "queries.jsonl")
        told = labelled.json("eval", *files, "--system", "lexical", "--system", "rank-bm25")
        measured = told["sets"]["queries"]
        assert (measured["tools"], measured["queries"], measured["unanswerable"]) == (2, 3, 1)
        figures = told["datasets"]["queries"]
        assert figures["lexical"]["hit@1"]["mean"] == 1.0
        assert figures["rank-bm25"]["version"].startswith("rank-bm25 ")

    def test_tools_of_several_sources(self, labelled):
        labelled.write("more.jsonl", {"name": "ring", "server": "phone", "description": "Call."})
        files = ("--tools", "tools.jsonl", "--tools", "more.jsonl", "--queries", "queries.jsonl")
        told = labelled.json("eval", *files, "--system", "lexical")
        assert told["sets"]["queries"]["tools"] == 3

    def test_files_of_enrichments_are_compared_with_the_tools_as_they_are(self, labelled):
        labelled.write("a.jsonl", {"id": "files/read_file", "purpose": "Look into a document."})
        labelled.write("b.jsonl", {"id": "mail/send_mail", "examples": ["send somebody a mail"]})
        arguments = ("--tools", "tools.jsonl", "--queries", "queries.jsonl")
        told = labelled.json("eval", *arguments, "--enrichment", "a.jsonl,b.jsonl")
        systems = told["datasets"]["queries"]
        assert list(systems) == ["toolcrib", "toolcrib+a.jsonl", "toolcrib+b.jsonl"]
        assert "ndcg@10" in systems["toolcrib+a.jsonl"]["against_first"]

    def test_the_tools_of_an_index(self, labelled):
        labelled.json("index", "tools.jsonl", "--store", "mine")
        options = ("--store", "mine", "--queries", "queries.jsonl", "--system", "toolcrib")
        told = labelled.json("eval", *options)
        assert told["datasets"]["queries"]["toolcrib"]["hit@1"]["mean"] == 1.0
        assert told["sets"]["queries"]["tools"] == 2

    @pytest.mark.parametrize(
        "sets", [(".",), ("--tools", "tools.jsonl", "--queries", "queries.jsonl")]
    )
    def test_an_index_goes_with_queries_alone(self, labelled, sets):
        assert "--store" in labelled.error("eval", *sets, "--store", "mine")

    def test_complete_sets_stand_in_the_table(self, labelled):
        asked = ("eval", ".", "--system", "toolcrib", "--coverage", "0.8")
        # Only the bundled encoder has a calibration.
        shown = labelled(*asked, TOOLCRIB_ENCODER__DENSE="bundled").stdout
        assert "coverage@80\tset_size@80" in shown

    @pytest.mark.parametrize("name", ["dev", "val", "validation"])
    def test_a_split_can_be_named(self, labelled, name):
        told = labelled.json("eval", ".", "--split", name, "--system", "toolcrib")
        assert [(one["split"], one["queries"]) for one in told["sets"].values()] == [("dev", 1)]


class TestFiles:
    """What else it writes."""

    def test_run_files_are_trecs(self, before, told):
        runs = before / "runs"
        names = {"data.qrels", "data.toolcrib.run", "data.lexical.run"}
        assert {path.name for path in runs.iterdir()} == names
        lines = [line.split(" ") for line in (runs / "data.toolcrib.run").read_text().splitlines()]
        assert {len(line) for line in lines} == {6}
        assert {line[5] for line in lines} == {"toolcrib"}
        assert set(Counter(line[0] for line in lines).values()) == {10}
        judged = {line.split(" ")[0] for line in (runs / "data.qrels").read_text().splitlines()}
        assert judged == set(told["per_query"]["data"]["toolcrib"])

    def test_the_report_is_one_page_that_needs_nothing_else(self, before):
        page = (before / "report.html").read_text()
        assert page.lower().startswith("<!doctype html>")
        assert "lexical" in page
        assert 'src="http' not in page


class TestPeople:
    """What is shown to them."""

    def test_a_table_of_three_systems_unless_told_otherwise_the_mean_and_notes(self, labelled):
        done = labelled("eval", ".", str(TWINS), COLUMNS="200")
        assert done.returncode == 0
        assert f"{labelled.folder.name} 2 tools, 3 queries of test, 1 of them" in done.stdout
        assert "twins_without_a_difference 6 tools, 10 queries of test" in done.stdout
        assert "mean over 2 sets" in done.stdout
        for word in ("system", "ndcg@10", "saved"):
            assert word in done.stdout
        for system in ("toolcrib", "lexical", "dense"):
            assert sum(line.startswith(system) for line in done.stdout.splitlines()) == 3
        assert "switched off: 1 ('sql/drop')" in done.stdout
        assert done.stdout.count("fewer than 30 queries") == 2

    def test_a_pipe_has_the_intervals_and_a_narrow_terminal_leaves_them_out(self, labelled):
        given = ("eval", ".", "--system", "lexical")
        assert "±" in labelled(*given, COLUMNS="80").stdout
        assert "±" not in Shell(labelled.folder, screen=True)(*given, COLUMNS="80").stdout

    def test_the_table_has_the_largest_cutoff_where_its_own_is_not_measured(self, labelled):
        done = labelled("eval", ".", "--system", "lexical", "-k", "2,4", COLUMNS="200")
        header = next(line for line in done.stdout.splitlines() if line.startswith("system"))
        assert header.split()[1:5] == ["ndcg@4", "recall@4", "complete@4", "hit@1"]

    @pytest.mark.parametrize("option", ["--run-out", "--report"])
    def test_a_path_that_cannot_be_written_costs_no_figures(self, labelled, option):
        done = labelled("eval", ".", "--system", "lexical", option, "tools.jsonl/out")
        assert done.returncode == 3
        assert "system\t" in done.stdout
        assert done.stderr.endswith("out cannot be written: Not a directory\n")


class TestCompare:
    """Two evaluations, before and after a change."""

    @pytest.mark.slow
    def test_a_significant_fall_fails_and_is_named(self, shell, before, after):
        files = (str(before / "eval.json"), str(after / "eval.json"))
        done = shell("eval", "compare", *files, COLUMNS="200")
        assert done.returncode == 1
        assert "fell data / toolcrib / ndcg@10: " in done.stdout
        assert "not measured any more: data / lexical / ndcg@10" in done.stdout
        for_machines = shell("eval", "compare", *files, "--max-drop", "0.01", "--json")
        assert for_machines.returncode == 1
        told = json.loads(for_machines.stdout)
        fall = next(one for one in told["falls"] if one["measure"] == "ndcg@10")
        assert (fall["data_set"], fall["system"]) == ("data", "toolcrib")
        assert fall["before"] > fall["after"] + 0.01
        assert fall["p"] < 0.05
        assert "data / lexical / ndcg@10" in told["missing"]

    def test_a_rise_passes(self, shell, before, after):
        done = shell("eval", "compare", str(after / "eval.json"), str(before / "eval.json"))
        assert (done.returncode, done.stdout) == (0, "nothing fell significantly\n")

    @pytest.mark.parametrize(
        ("text", "reason"),
        [(None, "cannot be read: No such file"), ("[]", "not the JSON of an evaluation")],
    )
    def test_what_is_no_evaluation_is_one_line(self, shell, before, text, reason):
        if text is not None:
            (shell.folder / "bad.json").write_text(text)
        stderr = shell.error("eval", "compare", str(before / "eval.json"), "bad.json")
        assert reason in stderr
        assert stderr.count("\n") == 1


class TestMistakes:
    """The worst queries, and why."""

    def test_queries_pairs_and_words_for_every_system(self, shell):
        options = ("--split", "test", "--system", "ours", "--json")
        lines = map(json.loads, shell("eval", "mistakes", str(TWINS), *options).stdout.splitlines())
        told = {line["system"]: line for line in lines}
        assert {"toolcrib", "lexical", "dense"} <= told.keys()
        dense = told["dense"]
        assert (dense["dataset"], dense["split"]) == (TWINS.name, "test")
        worst = dense["worst"][0]
        assert worst["value"] < 1
        assert worst["expected"][0] != worst["returned"][0]
        assert dense["confusions"][0]["count"] >= 1
        assert {"word", "count", "query_id"} == set(dense["unmatched"][0])

    def test_in_words(self, shell):
        arguments = (str(TWINS), "--split", "test", "--system", "dense", "-n", "1")
        done = shell("eval", "mistakes", *arguments)
        assert done.returncode == 0
        assert done.stdout.count("wanted ") == done.stdout.count("got ") == 1
        assert "taken for another" in done.stdout
        assert "in no tool:" in done.stdout


class TestWrongUsage:
    """One line that says what is wrong and what is known."""

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (("--system", "nope"), "there is no system 'nope'; known are toolcrib, lexical,"),
            (("--split", "dew"), "no queries in the split 'dew'; its splits are: test"),
            (("--system", "fusion+rerank"), "the settings name no encoder.reranker"),
        ],
    )
    def test_what_cannot_be_measured(self, shell, arguments, reason):
        done = shell("eval", str(TWINS), *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        "arguments",
        [("run",), (str(TWINS), "--queries", "q.jsonl"), (str(TWINS), "--tools", "tools.jsonl")],
    )
    def test_what_does_not_go_together(self, shell, arguments):
        assert "Usage:" in shell.error("eval", *arguments)

    def test_a_set_that_is_not_there(self, shell):
        done = shell("eval", "nowhere", "--json")
        assert done.returncode == 2
        told = json.loads(done.stdout)["error"]
        assert told["type"] == "UnknownFormatError"
        assert "no such folder" in told["message"]


def test_guidance_is_measured_on_labelled_trajectories(shell):
    failed = {"type": "tool", "name": "a", "success": False, "error": "no"}
    events = [*[failed] * 3, *({**failed, "name": name} for name in "bcde")]
    label = {"pattern": "error_streak", "from": 0, "by": 5}
    row = {"id": "t1", "kind": "made", "events": events, "alarms": [label]}
    healthy = {**row, "id": "t2", "alarms": []}
    path = shell.write("t.jsonl", {**row, "split": "dev"}, {**healthy, "split": "train"})

    told = shell.json("eval", "guidance", path, "--split", "val")
    assert told["patterns"]["error_streak"]["recall"] == 1.0
    shown = shell("eval", "guidance", path, "--split", "all").stdout
    assert "false doom_loop at event 2 of t2 (made)" in shown
    assert "\nstall\t0\t0\t\t0\t0\t\n" in shown
    assert "no trajectory of the split 'test'" in shell("eval", "guidance", path).stderr


def test_the_steps_of_runs_are_measured(shell):
    steps = [{"said": "Read that file", "tool": "files/read_file"}, {"tool": "mail/send_mail"}]
    (shell.folder / "runs").mkdir()
    shell.write("runs/tools.jsonl", *TOOLS[:2])
    shell.write("runs/steps.jsonl", {"run": "1", "task": "mail the file", "steps": steps})
    found = shell.json("eval", "--steps", "runs", "--system", "toolcrib", "-k", "1,2")
    assert (found["first_uses"], found["scores"]["toolcrib, steps"]["shown"]["2"]) == (2, 1)
    shown = shell("eval", "--steps", "runs").stdout
    assert "2 first uses in 1 run of 1 task" in shown
    assert shown.startswith("asked by\tfirst 10\tfirst 20\tfirst 10, by task\t")
    done = shell("eval", "--steps", "runs", "--report", "page.html")
    assert (done.returncode, "--report" in done.stderr) == (2, True)
    assert "steps.jsonl" in shell("eval", "--steps").stderr
    assert "steps.jsonl" in shell("eval", "--steps", "nowhere").stderr
