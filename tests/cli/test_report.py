"""`toolcrib report`: tables for people, JSON for machines, and a page to look at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.router.sample_decisions import believable, decision, found, record, said
from toolcrib.records.turns import ModelUsage
from toolcrib.router.decision_log import open_log
from toolcrib.router.settings import TelemetrySettings


def logged(path: Path, *records) -> str:
    log = open_log(TelemetrySettings(str(path)))
    assert log is not None
    for one in records:
        log.write(one)
    log.close()
    return str(path)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return logged(tmp_path_factory.mktemp("log") / "decisions.jsonl", *believable(300))


@pytest.fixture
def run(shell):
    """The output of `toolcrib report`, which succeeds."""

    def report(*arguments: str, **env: str) -> str:
        done = shell("report", *arguments, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return report


def rows(shown: str, first: str) -> list[list[str]]:
    """The table whose first column is called so."""
    lines = iter(shown.splitlines())
    next(line for line in lines if line.startswith(first))
    table = []
    for line in lines:
        if not line.strip():
            break
        table.append(line.split())
    return table


class TestTables:
    """What a person sees."""

    def test_the_first_line_says_how_many_and_since_when(self, run, log):
        assert run(log).startswith("300 decisions 2026-03-01 ")

    def test_routes_have_their_times_and_all_together_as_well(self, run, shell, log):
        table = rows(run(log), "route\t")
        told = shell.json("report", log)
        assert [row[:2] for row in table[:-1]] == [
            [name, str(one["count"])] for name, one in told["routes"].items()
        ]
        assert table[-1][:2] == ["all", "300"]
        assert table[0][3] == f"{told['routes']['tools']['latency']['p50']:.2f}"

    def test_feedback_is_told_with_how_much_there_is(self, run, shell, log):
        shown = run(log)
        told = shell.json("report", log)
        route = told["rates"]["route"]
        right = ["Right", "routes", f"{route['value']:.1%}", str(route["of"])]
        assert right in rows(shown, "feedback")
        tools = told["reliability"]["tools"]
        expected = ["tools", f"{tools['ece']:.3f}", str(tools["count"])]
        assert expected in rows(shown, "confidence of")

    def test_what_is_not_known_has_no_table_and_is_said(self, run, tmp_path):
        shown = run(logged(tmp_path / "a.jsonl", record(decision(degraded=("[bold]x",)))))
        assert "confidence of" not in shown
        assert "no decision has feedback" in shown
        assert "[bold]x" in shown
        assert "all " not in shown

    def test_what_language_models_were_asked_is_added_up(self, run, tmp_path):
        used = (ModelUsage("rerank", "small", 2, 1, 1000, 40, 0.5),)
        log = [record(decision(str(number), usage=used)) for number in range(3)]
        shown = rows(run(logged(tmp_path / "a.jsonl", *log)), "use\t")
        assert shown[0] == ["rerank", "small", "6", "3", "3,000", "120", "1.5000"]

    def test_interleaved_rankings_have_wins_losses_and_a_test(self, run, tmp_path):
        tools = found("mail/send", interleaved="by words")
        tools = replace(tools, tools=tuple(replace(hit, team="other") for hit in tools.tools))
        path = logged(
            tmp_path / "a.jsonl",
            *(record(decision(f"d{n}", tools=tools)) for n in range(6)),
            *(said(f"d{n}", tools=["mail/send"]) for n in range(6)),
        )
        row = rows(run(path), "second ranking")[0]
        assert row == ["by", "words", "6", "0", "0", "100.0%", "0.031"]
        page = tmp_path / "page.html"
        run(path, "--html", str(page))
        assert "Which ranking is better?" in page.read_text("utf-8")

    def test_records_that_cannot_be_read_are_counted(self, run, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text(json.dumps(record(kind="none")) + '\n{"kind": "decision"}\n')
        assert "unreadable records left out: 1" in run(str(path))


class TestMachines:
    """`--json` and the page."""

    def test_json_has_every_figure(self, shell, log):
        told = shell.json("report", log)
        assert told["decisions"] == 300
        assert told["feedback"] == 100
        assert {"p50", "p95", "p99"} == set(told["latency"])
        assert set(told["reliability"]["tools"]["bins"][0]) == {"confidence", "accuracy", "count"}

    def test_a_page_is_written_beside_what_is_printed(self, shell, log, tmp_path):
        page = tmp_path / "page.html"
        assert shell.json("report", log, "--html", str(page))["decisions"] == 300
        assert "300 decisions" in page.read_text("utf-8")


class TestWhichLog:
    """The one that is named, or that of the settings."""

    def test_it_is_the_log_of_the_settings_unless_one_is_named(self, run, log, tmp_path):
        env = {"TOOLCRIB_TELEMETRY__PATH": log}
        assert run(**env).startswith("300 decisions")
        assert run(logged(tmp_path / "a.jsonl", record()), **env).startswith("1 decision ")

    def test_where_none_is_set_and_none_is_named_the_setting_is(self, shell):
        assert "set telemetry.path" in shell.error("report")


class TestWrongUsage:
    """One line that says what is wrong, and an exit code."""

    def test_a_log_that_is_not_there(self, shell):
        assert "there is no such log" in shell.error("report", "none.jsonl")

    def test_an_empty_log(self, shell):
        assert "holds no decision" in shell.error("report", shell.write("empty.jsonl"))

    def test_a_log_of_feedback_alone(self, shell, tmp_path):
        path = logged(tmp_path / "a.jsonl", said(route="tools"))
        assert "holds no decision" in shell.error("report", path)

    def test_a_page_that_cannot_be_written(self, shell, log):
        assert "No such file" in shell.error("report", log, "--html", "nowhere/page.html", code=3)
