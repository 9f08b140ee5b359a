"""Guidance: its hints on labelled runs of real agents, and its cost.

    python benchmarks/guidance.py --runs FILE
    python benchmarks/guidance.py

With `--runs`, a file of JSON lines (also `.gz`), a run each: `id`, `events` as in
data/trajectories, `read` (`healthy`, `trouble`, or another word) and `alarms`, the stretches of
trouble. A stretch has `kinds` (E failures, L loop, Q look-ups, S stall; the first is the main
one), `from` and `by`, the first and the last event at which a hint is right and in time, `last`,
the last at which it is no false alarm, and `readers`, who named it; those of one reader alone
excuse a hint and are not counted. Events are counted from 0, prompts left out.

Without, the cost in microseconds of the processor's time: each classifier on a window of 30
calls, the worst of three trajectories (a loop, a healthy one, a streak of errors), and an event
with the hint after it. Bytes are those that a trajectory's builder holds after a tenth of the
events and after all.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora import rows

from toolcrib.evaluation.trajectories import hints_of
from toolcrib.guidance import (
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceClassifier,
    GuidanceContext,
    GuidanceSession,
    HighToolCountClassifier,
    LargeOutputClassifier,
    PendingToolCall,
    ProgressStallClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    TrajectoryBuilder,
    TrajectoryEvent,
    benchmark_classifier,
)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "guidance.json"
CALLS, SAMPLES, EVENTS = 30, 5_000, 1_000_000
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


# -- runs of real agents -------------------------------------------------------------------------


def hint_places(run: Mapping[str, Any]) -> list[int]:
    """Places of a run's hints, prompts left out."""
    events = [TrajectoryEvent.model_validate(event) for event in run["events"]]
    places = {
        at: number
        for number, at in enumerate(at for at, e in enumerate(events) if e.type != "prompt")
    }
    return [places[at] for _, at in hints_of(events) if at in places]


def runs(path: Path) -> dict[str, Any]:
    """Stretches of trouble with a hint in time, by main kind, and hints in healthy runs."""
    due, in_time, hints, right = Counter[str](), Counter[str](), 0, 0
    read, disturbed = Counter[str](), list[str]()
    for run in rows(path):
        read[str(run["read"])] += 1
        places = hint_places(run)
        if run["read"] == "healthy" and places:
            disturbed.append(run["id"])
        if run["read"] != "trouble":
            continue
        hints += len(places)
        right += sum(any(a["from"] <= at <= a["last"] for a in run["alarms"]) for at in places)
        for stretch in run["alarms"]:
            if (stretch.get("readers") or 2) >= 2:
                due[stretch["kinds"][0]] += 1
                in_time[stretch["kinds"][0]] += any(
                    stretch["from"] <= at <= stretch["by"] for at in places
                )
    return {
        "runs": dict(read),
        "stretches": {kind: f"{in_time[kind]} of {due[kind]}" for kind in sorted(due)},
        "stretches_in_time": f"{in_time.total()} of {due.total()}",
        "hints_in_trouble_right": f"{right} of {hints}",
        "healthy_disturbed": f"{len(disturbed)} of {read['healthy']}",
        "disturbed": disturbed,
    }


# -- cost ----------------------------------------------------------------------------------------


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
    """Mean and 99th percentile of each."""
    contexts = [window(kind) for kind in ("loop", "healthy", "errors")]
    found: dict[str, dict[str, float]] = {}
    for each in CLASSIFIERS:
        measured = [benchmark_classifier(each, [context] * SAMPLES) for context in contexts]
        found[each.name] = {
            "mean_us": round(max(cpu_us(each, context) for context in contexts), 2),
            "p99_us": round(max(one.p99_ns for one in measured) / 1000, 2),
        }
    return found


def cpu_us(classifier: GuidanceClassifier, context: GuidanceContext) -> float:
    """Mean of the processor's own time, which others on the machine do not change."""
    start = time.thread_time_ns()
    for _ in range(SAMPLES):
        classifier.classify(context)
    return (time.thread_time_ns() - start) / SAMPLES / 1000


def memory(events: int) -> tuple[float, list[int]]:
    """Microseconds an event, and the bytes held after a tenth of them and after all."""
    session = GuidanceSession()
    start = time.thread_time()
    for number in range(2_000):
        call(session.trajectory, number)
        session.hint()
    event_us = (time.thread_time() - start) / 2_000 * 1e6
    builder, held = TrajectoryBuilder(), list[int]()
    tracemalloc.start()
    for number in range(events):
        call(builder, number)
        if number + 1 in {events // 10, events}:
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return event_us, held


def cost(events: int) -> dict[str, Any]:
    """Cost of classifiers and events."""
    each = classifiers()
    event_us, held = memory(events)
    return {
        "command": f"python benchmarks/guidance.py --events {events}",
        "classifiers": each,
        "all_us": round(sum(figures["mean_us"] for figures in each.values()), 1),
        "event_us": round(event_us, 1),
        "events": events,
        "bytes_after_a_tenth": held[0],
        "bytes_after_all": held[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=Path, help="labelled runs; nothing is written")
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.runs:
        print(json.dumps(runs(options.runs), indent=1))
        return
    found = cost(options.events)
    print(json.dumps(found, indent=1))
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
