"""The page about a lint: one document, complete without a network, and safe to open."""

from __future__ import annotations

from tests.report.test_page import FETCHING, HOSTILE, Reader
from toolcrib.evaluation.lint import LintFinding, LintReport, ServerLint
from toolcrib.records import Refusal
from toolcrib.report import lint as page
from toolcrib.report.lint import render_lint

LOST = LintFinding(
    "not-found", "error", "post/send", f"even {HOSTILE} does not find it", ("post/b",)
)
REPORT = LintReport(
    tools=2,
    servers=(ServerLint("post", 2, {"error": 1, "warning": 0, "info": 1}),),
    findings=(LOST, LintFinding("audit/override", "info", "post/b", "it orders \ud800 about")),
)


def test_the_page_says_every_finding_and_does_nothing_else():
    written = render_lint(REPORT)
    reader = Reader(written)
    assert "2 tools, with 1 error." in reader.text
    assert HOSTILE.split("</svg>")[1] in reader.text
    for said in ("not-found", "audit", "it orders ? about"):
        assert said in reader.text
    assert {"script", "link", "iframe", "img", "object"}.isdisjoint(reader.tags)
    fetched = [value or "" for _, name, value in reader.attributes if name in FETCHING]
    assert all(value.startswith("#") for value in fetched)


def test_more_than_anyone_reads_is_counted(monkeypatch):
    monkeypatch.setattr(page, "MAX_ROWS", 1)
    many = LintReport(1, (), (LOST, LOST, LOST))
    assert "And 2 more." in Reader(render_lint(many)).text


def test_what_was_refused_is_listed():
    refused = Refusal("tools.jsonl", "post/send", f"the id stands for {HOSTILE}")
    read = Reader(render_lint(REPORT, [refused])).text
    assert HOSTILE.split("</svg>")[1] in read
    assert "tools.jsonl" in read
    assert "Refused" not in Reader(render_lint(REPORT)).text


def test_nothing_found_is_said():
    assert "no errors" in Reader(render_lint(LintReport(1, (), ()))).text
    assert "Nothing was found." in render_lint(LintReport(1, (), ()))
