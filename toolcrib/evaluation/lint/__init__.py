"""Lint: what keeps tools of a registry from being found, before anyone is disappointed."""

from __future__ import annotations

from toolcrib.evaluation.lint.findings import LintFinding, LintSeverity
from toolcrib.evaluation.lint.lint import LintReport, fails, lint

__all__ = ["LintFinding", "LintReport", "LintSeverity", "fails", "lint"]
