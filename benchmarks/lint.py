"""How common each finding of a lint is, and what it costs.

    python benchmarks/lint.py --corpora DATA/corpora/*.jsonl.gz
    python benchmarks/lint.py --sets DATA/tools/*

Corpora hold tools alone: each server is linted by itself, with the tools of one name counted once.
Sets hold labelled queries. A tool's accuracy is the mean over its queries of the reciprocal of its
place among it and the tools that were not wanted, with the default search. Parts that are not
asked for stay as they are in the results.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpora import specs

from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import make_dense
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.lint import (
    LINT_RULES,
    LintFinding,
    LintInput,
    LintReport,
    apply_rules,
    lint,
    search_each,
)
from toolcrib.evaluation.loaders import load

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "lint.json"
SHARED_RULES = frozenset({"same-text", "cut-description", "confusable"})
"""Rules whose problems concern the other tools as much as the first."""

QUERIES = 300
"""A set, at random; so that no set takes an hour."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--corpora", type=Path, nargs="*", default=[])
    parser.add_argument("--tools", type=int, default=1_500, help="at most, a corpus")
    parser.add_argument("--sets", type=Path, nargs="*", default=[])
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {}
    if options.corpora:
        parts["corpora"] = lambda: {
            path.name.split(".")[0]: frequencies(path, options.tools) for path in options.corpora
        }
    if options.sets:
        parts["sets"] = lambda: labelled(options.sets)
    for part, measured in parts.items():
        found = measured()
        # Parts may be measured at the same time.
        kept = json.loads(options.json.read_text()) if options.json.exists() else {}
        kept[part] = kept.get(part, {}) | found if part == "corpora" else found
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(found, indent=1))


# -- how common ------------------------------------------------------------------------------------


ASKED = {"not-found", "confusable", "audit"}
"""What is counted on some servers, as it takes long; corpora have no example requests."""


def frequencies(path: Path, most: int) -> dict[str, Any]:
    """Rules of texts over all servers; the others over servers at random, of so many tools."""
    servers = by_server(path)
    texts, answers = Counts(), Counts()
    for tools in servers.values():
        texts.add(len(tools), apply_rules(LintInput(tools), {"audit"}))
    names = sorted(servers)
    random.Random(0).shuffle(names)
    dense = make_dense(Settings())
    for name in names:
        if answers.tools >= most:
            break
        tools = servers[name]
        report = lint(tools, searches=search_each(tools, Settings(), dense=dense))
        answers.add(len(tools), report.findings)
        if answers.servers % 20 == 0:
            print(path.name, answers.tools, flush=True)
    return {
        "tools": texts.tools,
        "servers": texts.servers,
        "asked": {"tools": answers.tools, "servers": answers.servers, "rules": sorted(ASKED)},
        "rules": {
            rule: (answers if rule in ASKED else texts).shares(rule)
            for rule in LINT_RULES
            if rule != "hard-to-find"
        },
    }


class Counts:
    """In how many tools and servers each rule finds something."""

    def __init__(self) -> None:
        self.tools = self.servers = 0
        self._tools, self._servers = Counter[str](), Counter[str]()

    def add(self, tools: int, findings: Iterable[LintFinding]) -> None:
        """Count one server."""
        touched = {
            (finding.rule.partition("/")[0], tool)
            for finding in findings
            for tool in (
                finding.tool,
                *(finding.others if finding.rule in SHARED_RULES else ()),
            )
        }
        self.tools += tools
        self.servers += 1
        self._tools.update(rule for rule, _ in touched)
        self._servers.update({rule for rule, _ in touched})

    def shares(self, rule: str) -> dict[str, float]:
        """Of all tools and of all servers, in percent."""
        return {
            "tools": round(100 * self._tools[rule] / self.tools, 2),
            "servers": round(100 * self._servers[rule] / self.servers, 2),
        }


def by_server(path: Path) -> dict[str, list[ToolSpec]]:
    """The tools of each server; of several listings of one tool, the first."""
    found: dict[str, dict[str, ToolSpec]] = defaultdict(dict)
    for tool in specs(path):
        found[tool.server].setdefault(tool.name, tool)
    return {server: list(tools.values()) for server, tools in found.items()}


# -- labelled sets ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """A set: its report, and the accuracy of each tool on the test split."""

    report: LintReport
    accuracy: Mapping[str, float]


def labelled(folders: Sequence[Path]) -> dict[str, Any]:
    measured: dict[str, Measured] = {}
    for folder in folders:
        measured[folder.name] = measure(load(str(folder)))
        print(folder.name, len(measured[folder.name].report.findings), flush=True)
    return {"sets": sorted(measured), "rules": costs(measured)}


def measure(data: DataSet) -> Measured:
    report = lint(data.tools)
    splits = {query.split for query in data.queries}
    with Crib.open(":memory:") as crib:
        crib.index_tools(data.tools)
        accuracy = accuracy_of(crib, data, {"test"} if "test" in splits else splits)
    return Measured(report, accuracy)


def accuracy_of(crib: Crib, data: DataSet, splits: set[str]) -> dict[str, float]:
    """By tool, the mean reciprocal place before what was not wanted."""
    queries = [
        query
        for query in data.queries
        if query.split in splits and any(grade > 0 for grade in query.relevant.values())
    ]
    random.Random(0).shuffle(queries)
    found: dict[str, list[float]] = defaultdict(list)
    for query in queries[:QUERIES]:
        wanted = {tool for tool, grade in query.relevant.items() if grade > 0}
        ranked = [hit.id for hit in crib.find_tools(query.text, k=20, gate=False).tools]
        for tool in wanted:
            before = ranked[: ranked.index(tool)] if tool in ranked else None
            wrong = math.inf if before is None else sum(each not in wanted for each in before)
            found[tool].append(1 / (1 + wrong))
    return {tool: float(np.mean(values)) for tool, values in found.items()}


def costs(measured: Mapping[str, Measured]) -> dict[str, Any]:
    """By rule and severity: the accuracy of its tools minus that of the others of the set."""
    differences: dict[str, list[float]] = defaultdict(list)
    counted = Counter[str]()
    for one in measured.values():
        tested = one.accuracy
        touched: dict[str, set[str]] = defaultdict(set)
        for finding in one.report.findings:
            key = f"{finding.rule.partition('/')[0]} ({finding.severity})"
            both = finding.others if finding.rule in SHARED_RULES else ()
            touched[key].update({finding.tool, *both} & tested.keys())
        for rule, tools in touched.items():
            others = tested.keys() - tools
            if len(tools) >= 3 and others:
                inside = mean(tested[tool] for tool in tools)
                differences[rule].append(100 * (inside - mean(tested[t] for t in others)))
                counted[rule] += len(tools)
    return {
        rule: {
            "sets": len(values),
            "tools": counted[rule],
            "points": round(mean(values), 1),
            "worse_on": sum(value < 0 for value in values),
        }
        for rule, values in sorted(differences.items())
    }


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


if __name__ == "__main__":
    main()
