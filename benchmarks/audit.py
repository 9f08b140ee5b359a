"""What the audit of tools' texts catches, what it wrongly holds back, and what it costs.

    python benchmarks/audit.py
    python benchmarks/audit.py --real DATA/corpora/*.jsonl.gz DATA/tools/*/tools.jsonl

Caught is a hostile tool of data/cases that is blocked or warned of. Of real tools, which are taken
for honest, those that are blocked are printed: look at them. Times are of this machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from corpora import rows, specs

from toolcrib import ToolSpec
from toolcrib.audit import audit, audit_all
from toolcrib.audit.findings import SEVERITIES

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "data" / "cases"
RESULTS = ROOT / "benchmarks" / "results" / "audit.json"
PARTS = (
    *("hostile", "hostile_held_out", "hostile_blind", "hostile_blind_2", "hostile_blind_3"),
    *("hostile_kinds", "honest_kinds"),
    *("hostile_lookalikes", "honest_blind", "honest_blind_2", "honest_blind_3"),
)
KIND = {
    **{f"hostile_blind_{n}": "attack" for n in (2, 3)},
    **{f"honest_blind_{n}": "looks" for n in (2, 3)},
}
"""Parts that are also counted by what their cases do: those that were written last."""
SIZES = {"up to 500": 500, "500 to 2,000": 2_000, "2,000 to 10,000": 10_000, "more": 10**9}
"""Of a specification, in characters of its JSON."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--real", type=Path, nargs="*", default=[], help="files of real tools")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    found: dict[str, Any] = {"command": "python benchmarks/audit.py", "cases": cases()}
    if options.real:
        found["command"] += " --real DATA/corpora/*.jsonl.gz DATA/tools/*/tools.jsonl"
        found |= real(options.real)
    print(json.dumps(found, indent=1))
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def cases() -> dict[str, dict[str, int]]:
    """How many cases of each part are blocked, warned of, or passed."""
    counted: dict[str, Counter[str]] = {}
    for name in PARTS:
        for case in rows(CASES / f"{name}.jsonl"):
            part = f"{name} {case['written']}" if "written" in case else name
            parts = [part, f"{name} {case[KIND[name]]}"] if name in KIND else [part]
            tool = ToolSpec(**case["tool"])
            found = audit_all([tool], [ToolSpec(**fields) for fields in case.get("beside", ())])
            severity = worst(finding.severity for finding in found)
            for part in parts:
                counted.setdefault(part, Counter())[severity] += 1
    return {part: shown(counts) for part, counts in counted.items()}


def worst(severities: Iterable[str]) -> str:
    return max(severities, key=SEVERITIES.index, default="none")  # type: ignore[arg-type]


def shown(counts: Counter[str]) -> dict[str, int]:
    named = {name: counts[name] for name in ("block", "warning", "info", "none")}
    return {"tools": sum(counts.values()), **named}


def real(files: list[Path]) -> dict[str, Any]:
    """What is found in real tools, each once, and how long a specification takes."""
    severities: dict[str, Counter[str]] = {}
    rules: Counter[str] = Counter()
    times: dict[str, list[float]] = {name: [] for name in SIZES}
    seen: set[str] = set()
    for file in files:
        name = file.parent.name if file.name == "tools.jsonl" else file.name.split(".")[0]
        for spec in specs(file):
            if spec.digest in seen:
                continue
            seen.add(spec.digest)
            started = time.perf_counter()
            found = audit(spec)
            took = (time.perf_counter() - started) * 1_000
            size = len(spec.model_dump_json())
            times[next(each for each, most in SIZES.items() if size <= most)].append(took)
            severities.setdefault(name, Counter())[worst(each.severity for each in found)] += 1
            rules.update(f"{each.severity} {each.rule}" for each in found)
            for each in found:
                if each.severity == "block":
                    print(f"{spec.id} {each.place}: {each.rule}: {each.excerpt}")
    return {
        "real": {name: shown(counts) for name, counts in severities.items()},
        "real_rules": dict(sorted(rules.items())),
        "ms": {name: speed(taken) for name, taken in times.items() if taken},
    }


def speed(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {
        "tools": len(taken),
        "median": round(median(taken), 3),
        "p99": round(ordered[len(ordered) * 99 // 100], 3),
    }


if __name__ == "__main__":
    main()
