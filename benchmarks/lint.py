"""How common each finding of a lint is, what it costs, and whether the score tells accuracy.

    python benchmarks/lint.py --corpora DATA/corpora/*.jsonl.gz
    python benchmarks/lint.py --sets DATA/tools/* DATA/written/llm-mcp --fit
    python benchmarks/lint.py --worsened DATA/tools/metatool DATA/tools/azure-mcp

Corpora hold tools alone: each server is linted by itself, with the tools of one name counted once.
Sets hold labelled queries. A tool's accuracy is the mean over its queries of the reciprocal of its
place among it and the tools that were not wanted, with the default search. `--fit` fits the
weights of the score on the queries that are no test ones, each set's level apart, and judges them
on test queries of sets that were left out. `--worsened` asks the same queries of a set whose texts
were made worse. Parts that are not asked for stay as they are in the results.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from scipy.optimize import minimize
from scipy.stats import spearmanr

from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import make_dense
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.lint.findings import LINT_RULES, LintFinding, LintInput, apply_rules
from toolcrib.evaluation.lint.lint import LintReport, lint, logit_terms, search_each
from toolcrib.evaluation.loaders import load

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "lint.json"
SHARED = {"same-text", "confusable", "family", "cut-description"}
"""Rules whose findings are as much about the other tools that they name."""

QUERIES = 300
"""A set and kind of split, at random; so that no set takes an hour."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--corpora", type=Path, nargs="*", default=[])
    parser.add_argument("--tools", type=int, default=1_500, help="at most, a corpus")
    parser.add_argument("--sets", type=Path, nargs="*", default=[])
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--worsened", type=Path, nargs="*", default=[])
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {}
    if options.corpora:
        parts["corpora"] = lambda: {
            path.name.split(".")[0]: frequencies(path, options.tools) for path in options.corpora
        }
    if options.sets:
        parts["sets"] = lambda: labelled(options.sets, fits=options.fit)
    if options.worsened:
        parts["worsened"] = lambda: worsened(options.worsened)
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
    scores: list[float] = []
    dense = make_dense(Settings())
    for name in names:
        if answers.tools >= most:
            break
        tools = servers[name]
        report = lint(tools, searches=search_each(tools, Settings(), dense=dense))
        answers.add(len(tools), report.findings)
        scores.append(report.score)
        if len(scores) % 20 == 0:
            print(path.name, answers.tools, flush=True)
    return {
        "tools": texts.tools,
        "servers": texts.servers,
        "asked": {"tools": answers.tools, "servers": answers.servers, "rules": sorted(ASKED)},
        "score": {f"p{p}": round(float(np.percentile(scores, p)), 1) for p in (5, 50, 95)},
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
            for tool in (finding.tool, *(finding.others if finding.rule in SHARED else ()))
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
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = {key: value for key, value in json.loads(line).items() if value is not None}
            try:
                tool = ToolSpec(**fields)
            except ValidationError:
                continue
            found[tool.server].setdefault(tool.name, tool)
    return {server: list(tools.values()) for server, tools in found.items()}


# -- labelled sets ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """A set: its report, and the accuracy of each tool by the kind of split, with its queries."""

    report: LintReport
    terms: Mapping[str, tuple[float, ...]]
    accuracy: Mapping[str, Mapping[str, tuple[float, int]]]
    server_of: Mapping[str, str]


def labelled(folders: Sequence[Path], *, fits: bool) -> dict[str, Any]:
    measured: dict[str, Measured] = {}
    for folder in folders:
        measured[folder.name] = measure(load(str(folder)))
        print(folder.name, measured[folder.name].report.score, flush=True)
    found: dict[str, Any] = {
        "tools": {name: rank_correlation(one) for name, one in measured.items()},
        "servers": {
            name: of
            for name, one in measured.items()
            if (of := server_correlation(one)) is not None
        },
        "rules": costs(measured),
    }
    for part in ("tools", "servers"):
        rhos = [row["rho"] for row in found[part].values()]
        found[f"{part}_mean"] = {"rho": round(mean(rhos), 3), "interval": interval(rhos)}
    rows = found["tools"].values()
    found["sets_rho"] = rho([row["score"] for row in rows], [row["accuracy"] for row in rows])
    if fits:
        found["fit"] = fit_weights(measured)
    return found


def measure(data: DataSet) -> Measured:
    terms: dict[str, tuple[float, ...]] = {}
    searches = search_each(data.tools, Settings())
    for tool, its in searches.items():
        terms[tool] = logit_terms(its)
    report = lint(data.tools, searches=searches)
    with Crib.open(":memory:") as crib:
        crib.index_tools(data.tools)
        accuracy = {
            kind: accuracy_of(crib, data, splits)
            for kind, splits in (("fit", {"train", "dev"}), ("test", {"test"}))
        }
    return Measured(report, terms, accuracy, {tool.id: tool.server for tool in data.tools})


def accuracy_of(crib: Crib, data: DataSet, splits: set[str]) -> dict[str, tuple[float, int]]:
    """By tool, the mean reciprocal place before what was not wanted, and of how many queries."""
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
    return {tool: (float(np.mean(values)), len(values)) for tool, values in found.items()}


def rank_correlation(one: Measured) -> dict[str, Any]:
    tested = one.accuracy["test"] or one.accuracy["fit"]
    scores = [one.report.scores[tool] for tool in tested]
    right = [value for value, _ in tested.values()]
    return {
        "tested": len(tested),
        "score": one.report.score,
        "accuracy": round(100 * mean(right), 1),
        "rho": rho(scores, right),
    }


MIN_SERVERS, MIN_TESTED = 10, 2


def server_correlation(one: Measured) -> dict[str, Any] | None:
    tested = one.accuracy["test"] or one.accuracy["fit"]
    of: dict[str, list[str]] = defaultdict(list)
    for tool in tested:
        of[one.server_of[tool]].append(tool)
    named = [tools for server, tools in of.items() if server and len(tools) >= MIN_TESTED]
    if len(named) < MIN_SERVERS:
        return None
    scores = [mean(one.report.scores[tool] for tool in tools) for tools in named]
    right = [mean(tested[tool][0] for tool in tools) for tools in named]
    return {"servers": len(named), "rho": rho(scores, right)}


def costs(measured: Mapping[str, Measured]) -> dict[str, Any]:
    """By rule and severity: the accuracy of its tools minus that of the others of the set."""
    differences: dict[str, list[float]] = defaultdict(list)
    counted = Counter[str]()
    for one in measured.values():
        tested = one.accuracy["test"] or one.accuracy["fit"]
        touched: dict[str, set[str]] = defaultdict(set)
        for finding in one.report.findings:
            key = f"{finding.rule.partition('/')[0]} ({finding.severity})"
            both = finding.others if finding.rule in SHARED else ()
            touched[key].update({finding.tool, *both} & tested.keys())
        for rule, tools in touched.items():
            others = tested.keys() - tools
            if len(tools) >= 3 and others:
                inside = mean(tested[tool][0] for tool in tools)
                differences[rule].append(100 * (inside - mean(tested[t][0] for t in others)))
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


def rho(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's; 0 where one side is constant."""
    if len(set(left)) < 2 or len(set(right)) < 2:
        return 0.0
    return round(float(spearmanr(left, right)[0]), 3)


def interval(values: Sequence[float]) -> list[float]:
    """95 % of the mean, by bootstrap over sets."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.asarray(values), (10_000, len(values))).mean(axis=1)
    return [round(float(np.percentile(drawn, p)), 3) for p in (2.5, 97.5)]


# -- the weights of the score ----------------------------------------------------------------------


def fit_weights(measured: Mapping[str, Measured]) -> dict[str, Any]:
    fitted = {name: one for name, one in measured.items() if one.accuracy["fit"]}
    left_out: dict[str, float] = {}
    for name, one in measured.items():
        weights = logistic([each for other, each in fitted.items() if other != name])
        tested = one.accuracy["test"] or one.accuracy["fit"]
        scores = [float(np.dot(one.terms[tool], weights[1:])) for tool in tested]
        left_out[name] = rho(scores, [value for value, _ in tested.values()])
    values = list(left_out.values())
    return {
        "weights": [round(float(each), 2) for each in logistic(list(fitted.values()))],
        "left_out_rho": left_out,
        "left_out_mean": {"rho": round(mean(values), 3), "interval": interval(values)},
    }


def logistic(sets: Sequence[Measured]) -> np.ndarray:
    """Intercept and weights; each set counts the same and has a level of its own while fitting."""
    rows, labels, weights, groups = [], [], [], []
    for group, one in enumerate(sets):
        known = one.accuracy["fit"]
        counts = np.array([min(count, 5) for _, count in known.values()], dtype=float)
        rows += [one.terms[tool] for tool in known]
        labels += [value for value, _ in known.values()]
        weights += list(counts / counts.sum())
        groups += [group] * len(known)
    x, y, w, g = np.array(rows), np.array(labels), np.array(weights), np.array(groups)
    centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-9
    z, width = (x - centre) / scale, x.shape[1]

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slopes, levels = parameters[:width], parameters[width:]
        p = np.clip(1 / (1 + np.exp(-(z @ slopes + levels[g]))), 1e-6, 1 - 1e-6)
        error = w * (p - y)
        likelihood = (w * (y * np.log(p) + (1 - y) * np.log(1 - p))).sum()
        gradient = np.concatenate(
            [z.T @ error + 2e-3 * slopes, np.bincount(g, error, minlength=len(sets))]
        )
        return -likelihood + 1e-3 * slopes @ slopes, gradient

    found = minimize(loss, np.zeros(width + len(sets)), jac=True, method="L-BFGS-B").x
    slopes = found[:width] / scale
    return np.array([found[width:].mean() - slopes @ centre, *slopes])


# -- texts made worse ------------------------------------------------------------------------------


def worsened(folders: Sequence[Path]) -> dict[str, Any]:
    """Score and accuracy of a set as it is, and with half of its tools made worse in each way."""
    found: dict[str, Any] = {"sets": {}}
    rhos: list[float] = []
    for folder in folders:
        data = load(str(folder))
        rows: dict[str, dict[str, float]] = {}
        for name, tools in versions(list(data.tools)):
            report = lint(tools, ignored=("audit",))
            with Crib.open(":memory:") as crib:
                crib.index_tools(tools)
                splits = {query.split for query in data.queries}
                tested = accuracy_of(crib, data, {"test"} if "test" in splits else splits)
            right = mean(value for value, _ in tested.values())
            rows[name] = {"score": report.score, "accuracy": round(100 * right, 1)}
            print(folder.name, name, rows[name], flush=True)
        found["sets"][folder.name] = rows
        rhos.append(
            rho([r["score"] for r in rows.values()], [r["accuracy"] for r in rows.values()])
        )
    return found | {
        "rho": dict(zip(found["sets"], rhos, strict=True)),
        "mean": round(mean(rhos), 3),
    }


def versions(tools: list[ToolSpec]) -> Iterator[tuple[str, list[ToolSpec]]]:
    rng = random.Random(0)
    chosen = {tool.id for tool in rng.sample(tools, len(tools) // 2)}
    texts = [tool.description for tool in tools]

    def changed(change: Callable[[int, ToolSpec], dict[str, Any]]) -> list[ToolSpec]:
        return [
            tool.model_copy(update=change(at, tool)) if tool.id in chosen else tool
            for at, tool in enumerate(tools)
        ]

    yield "as it is", tools
    yield "cut to 30 characters", changed(lambda _, tool: {"description": tool.description[:30]})
    yield "no description", changed(lambda _, __: {"description": ""})
    yield "a neighbour's description", changed(lambda at, _: {"description": texts[at - 1]})
    yield "numbered names", changed(lambda at, _: {"name": f"tool_{at}"})
    yield (
        "numbered, no description",
        changed(lambda at, _: {"name": f"tool_{at}", "description": ""}),
    )


if __name__ == "__main__":
    main()
