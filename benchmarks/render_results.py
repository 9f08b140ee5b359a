"""Write the tables of docs/explanation/results.md from committed results.

python benchmarks/render_results.py           # rewrite the blocks between the markers
python benchmarks/render_results.py --check   # fail when they are not what the results say
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "explanation" / "results.md"
BLOCK = re.compile(r"(<!-- (\w+)\(([\w-]+)\) -->\n).*?(<!-- end -->)", re.DOTALL)

MEASURES = ("ndcg@10", "completeness@10", "recall@5", "hit@1", "mrr")
GATE_MEASURES = (
    "auroc",
    "false_acceptance@95",
    "near_auroc",
    "ece",
    "ece_first",
    "risk@80",
    "accepted",
    "accepted_precision",
)
"""Measures of a confidence by which somebody decides; the results hold the others."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| --- |{' --: |' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def command(found: Mapping[str, Any]) -> str:
    return f"`{found['settings']['command']}`"


def versions(found: Mapping[str, Any]) -> str:
    first = next(iter(found["datasets"].values()))
    named = ", ".join(f"{name}: {system['version']}" for name, system in first.items())
    return f"Versions: {named}."


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def macro(found: Mapping[str, Any]) -> str:
    """Means over sets, a row a system."""
    shown = [m for m in MEASURES if any(m in row for row in found["macro"].values())]
    compared = found["macro_against_first"]
    rows = [
        [
            name,
            *(percent(row.get(m)) + _mark(compared.get(name, {}), m) for m in shown),
            percent(row.get("tokens_saved")),
            f"{row['latency_p50_ms']:.2f}",
        ]
        for name, row in found["macro"].items()
    ]
    head = ["system", *shown, "tokens saved, %", "p50 ms"]
    return f"{command(found)}\n\n{table(head, rows)}\n\n{versions(found)}"


def by_set(found: Mapping[str, Any], measure: str) -> str:
    """One measure, a row a set; in bold the best, starred what is not by chance worse."""
    systems = list(found["macro"])
    rows: list[list[str]] = []
    for name, results in found["datasets"].items():
        means = {s: results[s][measure]["mean"] for s in systems if measure in results.get(s, {})}
        best = max(means.values())
        cells = [
            "" if s not in means else _cell(means[s], best, results[s]["against_first"], measure)
            for s in systems
        ]
        rows.append([f"{name} ({found['sets'][name]['queries']})", *cells])
    return table([f"{measure}, % (queries)", *systems], rows)


def _cell(mean: float, best: float, against: Mapping[str, Any], measure: str) -> str:
    text = f"**{percent(mean)}**" if mean == best else percent(mean)
    return text + _mark(against, measure)


def _mark(against: Mapping[str, Any], measure: str) -> str:
    compared = against.get(measure)
    if compared is None or not compared["significant"]:
        return ""
    return " ▲" if compared["difference"] > 0 else " ▼"


def sets(found: Mapping[str, Any]) -> str:
    """nDCG@10 by set."""
    return by_set(found, "ndcg@10")


def intents(found: Mapping[str, Any]) -> str:
    """Accuracy and out-of-scope separation, a row a set and system."""
    known = shown(one for results in found["datasets"].values() for one in results.values())
    rows = [
        [
            name,
            system,
            percent(one["hit@1"]["mean"]),
            *(three(one.get(gate)) for gate in known),
        ]
        for name, results in found["datasets"].items()
        for system, one in results.items()
    ]
    head = ["set", "system", "accuracy, %", *known]
    return f"{command(found)}\n\n{table(head, rows)}\n\n{versions(found)}"


def examples(found: Mapping[str, Any]) -> str:
    """Accuracy and AUROC of each system, a row a set and number of examples; the best in bold."""
    parts = [f"`{found['command']}`"]
    for title, key, written in (("accuracy, %", "accuracy", percent), ("AUROC", "auroc", three)):
        rows: list[list[str]] = []
        for one in found["rows"]:
            values = {name: each[key] for name, each in one["systems"].items() if key in each}
            cells = [
                f"**{written(value)}**" if value == max(values.values()) else written(value)
                for value in values.values()
            ]
            if cells:
                asked = one["queries"] - (one["out of scope"] if key == "accuracy" else 0)
                rows.append([f"{one['set']}, {one['examples']} ({asked})", *cells])
        head = [f"{title}: set, examples an intent (queries)", *found["rows"][0]["systems"]]
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def shown(measured: Iterable[Mapping[str, Any]]) -> list[str]:
    """The measures of a confidence that any of these has."""
    rows = list(measured)
    return [gate for gate in GATE_MEASURES if any(gate in row for row in rows)]


def gates(found: Mapping[str, Any]) -> str:
    """The confidence, a row a set."""
    known = [gate for gate in GATE_MEASURES if gate in found["macro"]]
    rows = [
        [name, *(three(one.get(gate)) for gate in known), three(one.get("true_acceptance"))]
        for name, one in [*found["sets"].items(), ("**mean**", found["macro"])]
    ]
    head = ["set", *known, "answerable accepted"]
    return f"`{found['command']}`\n\n{found['measure'].capitalize()}.\n\n{table(head, rows)}"


def learned(found: Mapping[str, Any]) -> str:
    """A calibration of the set's own: error, coverage and size of complete sets."""
    keys = sorted({k for r in found["macro"].values() for k in r if "@95" in k and "acc" not in k})
    mean = found["macro"]["toolcrib"]
    known = shown(results["toolcrib"] for results in found["datasets"].values())
    rows = []
    for name, results in found["datasets"].items():
        one = results["toolcrib"]
        values = [one[k]["mean"] if k in one else None for k in keys]
        sizes = [f"{v:.3f}" if v is not None else "" for v in values]
        rows.append([name, *(three(one.get(gate)) for gate in known), *sizes])
    rows.append(["**mean**", *(three(mean.get(key)) for key in (*known, *keys))])
    return f"{command(found)}\n\n{table(['set', *known, *keys], rows)}"


def overhead(found: Mapping[str, Any]) -> str:
    """One sentence."""
    return (
        f"`{found['command']}`: the median of the differences between the same "
        f"{found['searches']:,} searches with and without them is "
        f"{found['difference_ms']:.2f} ms; 0.3 ms were allowed."
    )


def lint_rules(found: Mapping[str, Any]) -> str:
    """How common each finding is, and how much less often its tools are found."""
    corpora = found["corpora"]
    head = ["rule", *(f"{name}, % of {of}" for name in corpora for of in ("tools", "servers"))]
    measured: dict[str, list[str]] = {}
    for key, cost in found["sets"]["rules"].items():
        said = f"{cost['points']:+.1f} ({cost['tools']} tools; sets: {cost['sets']})"
        measured.setdefault(key.partition(" ")[0], []).append(f"{key.partition(' ')[2]} {said}")
    rows = [
        [
            f"`{rule}`",
            *(f"{one['rules'][rule][of]:.1f}" for one in corpora.values() for of in SHARES),
            "; ".join(measured.get(rule, ["not measured"])),
        ]
        for rule in next(iter(corpora.values()))["rules"]
    ]
    counted = "; ".join(
        f"{name}: {one['tools']:,} tools of {one['servers']:,} servers, of which "
        f"{one['asked']['tools']:,} tools of {one['asked']['servers']} servers were asked for "
        f"({', '.join(one['asked']['rules'])})"
        for name, one in corpora.items()
    )
    return f"{table([*head, 'accuracy beside others'], rows)}\n\n{counted}."


SHARES = ("tools", "servers")


KINDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "macro": macro,
    "sets": sets,
    "intents": intents,
    "examples": examples,
    "gates": gates,
    "learned": learned,
    "overhead": overhead,
    "lint_rules": lint_rules,
}


def _render(match: re.Match[str]) -> str:
    begin, kind, file, end = match.groups()
    found = json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))
    return f"{begin}\n{KINDS[kind](found)}\n\n{end}"


def main() -> None:
    """Rewrite the page, or check it."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = BLOCK.sub(_render, text)
    if "--check" not in sys.argv:
        PAGE.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        name = PAGE.relative_to(ROOT).as_posix()
        raise SystemExit(f"{name} is not what the results say: run this without --check")


if __name__ == "__main__":
    main()
