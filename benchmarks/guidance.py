"""What guidance costs: each classifier on a window of 50 calls, an event, and memory.

    python benchmarks/guidance.py

Microseconds, means of the processor's time; the classifiers' figures are the worst of three
trajectories (a loop, a healthy one, a streak of errors). Bars: 20 for the mean and 100 for the
99th percentile of each, 300 for all. Bytes are those of a classifier with all that it holds, and
of what a trajectory's builder holds after a tenth of the events and after all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from pathlib import Path

from toolcrib.guidance import (
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceClassifier,
    GuidanceContext,
    HighToolCountClassifier,
    LargeOutputClassifier,
    PendingToolCall,
    ProgressStallClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    TrajectoryBuilder,
    benchmark_classifier,
)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "guidance.json"
CALLS, SAMPLES, EVENTS = 50, 20_000, 1_000_000
CLASSIFIERS: tuple[GuidanceClassifier, ...] = (
    DoomLoopClassifier(),
    ErrorStreakClassifier(),
    ProgressStallClassifier(),
    HighToolCountClassifier(),
    SingleToolRepeatedClassifier(),
    SequentialWhenParallelClassifier(),
    LargeOutputClassifier(),
    SensitiveContentClassifier(),
)


def call(builder: TrajectoryBuilder, number: int, kind: str = "healthy") -> None:
    """One more call of a loop, a streak of errors, or healthy work."""
    at = 4.0 * number
    if kind == "loop":
        given = {"q": "find the report of May"} if number % 2 else {"id": "report"}
        builder.tool_invoked(name="ab"[number % 2], parameters=given, result="none", at=at)
    elif kind == "errors":
        given, said = {"path": f"src/part{number}.py"}, f"no such file: part{number}.py"
        builder.tool_invoked(name="read", parameters=given, success=False, error=said, at=at)
    else:
        given = {"id": number, "note": f"the row {number} of the table"}
        said = f"row {number} of the table: a name, an address, a sum of {number} EUR"
        builder.tool_invoked(name=f"get_{number % 7}", parameters=given, result=said, at=at)


def window(kind: str) -> GuidanceContext:
    """A context whose window is full."""
    builder = TrajectoryBuilder()
    for number in range(CALLS):
        call(builder, number, kind)
    pending = PendingToolCall("mail/send", {"to": "the team", "text": "All rows are there."})
    return GuidanceContext(builder.build(), (pending,))


def classifiers() -> dict[str, dict[str, float]]:
    """Mean and 99th percentile of each, and its bytes."""
    contexts = [window(kind) for kind in ("loop", "healthy", "errors")]
    found: dict[str, dict[str, float]] = {}
    for each in CLASSIFIERS:
        for context in contexts:
            each.classify(context)
        runs = [benchmark_classifier(each, context, SAMPLES) for context in contexts]
        held = sum(map(sys.getsizeof, (each, *vars(each).values())))
        found[each.name] = {
            "mean_us": round(max(cpu_us(each, context) for context in contexts), 2),
            "p99_us": round(max(run.p99_ns for run in runs) / 1000, 2),
            "bytes": held,
        }
    return found


def cpu_us(classifier: GuidanceClassifier, context: GuidanceContext) -> float:
    """The mean of the processor's own time, which others on the machine do not change."""
    start = time.thread_time_ns()
    for _ in range(SAMPLES):
        classifier.classify(context)
    return (time.thread_time_ns() - start) / SAMPLES / 1000


def memory(events: int) -> tuple[float, list[int]]:
    """Microseconds an event, and the bytes held after a tenth of them and after all."""
    builder = TrajectoryBuilder()
    start = time.thread_time()
    for number in range(2_000):
        call(builder, number)
    event_us = (time.thread_time() - start) / 2_000 * 1e6
    held: list[int] = []
    tracemalloc.start()
    for number in range(events):
        call(builder, number)
        if number + 1 in {events // 10, events}:
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return event_us, held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    each = classifiers()
    event_us, held = memory(options.events)
    found = {
        "command": f"python benchmarks/guidance.py --events {options.events}",
        "classifiers": each,
        "all_us": round(sum(figures["mean_us"] for figures in each.values()), 1),
        "event_us": round(event_us, 1),
        "events": options.events,
        "bytes_after_a_tenth": held[0],
        "bytes_after_all": held[1],
    }
    print(json.dumps(found, indent=1))
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
