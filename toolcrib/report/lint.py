"""Page about a lint, in the style of the evaluation's report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from toolcrib.evaluation.lint import LINT_RULES, LintFinding, LintReport
from toolcrib.records import Refusal
from toolcrib.report.page import fill
from toolcrib.text import count_of

MAX_ROWS = 500
"""Findings of a rule on the page; JSON has all."""


def render_lint(report: LintReport, refused: Sequence[Refusal] = ()) -> str:
    """Page about a lint as an HTML document; `refused` could not be checked."""
    by_rule: dict[str, list[LintFinding]] = defaultdict(list)
    for finding in report.findings:
        by_rule[finding.rule.partition("/")[0]].append(finding)
    counted = Counter(finding.severity for finding in report.findings)
    lost = counted["error"]
    errors = count_of(lost, "error") if lost else "no errors"
    return fill(
        "lint.html.jinja",
        report=report,
        refused=refused,
        lead=f"{count_of(report.tools, 'tool')}, with {errors}.",
        counted=counted,
        rules=[(rule, LINT_RULES[rule].title, found) for rule, found in by_rule.items()],
        most=MAX_ROWS,
    )
