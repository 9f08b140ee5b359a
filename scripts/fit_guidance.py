"""Fit what guidance weighs, and say how it does on authors that it was not fitted on.

    python scripts/fit_guidance.py [--leave-out]

A logistic regression for each alarm, on the dev trajectories, by its signals (toolcrib/guidance/
signals.py): after each event, how many of those who read it would have spoken by then.
`--leave-out` also leaves out one author (file) after the other: weights and threshold come from
the others, the threshold by leaving one of those out. Precision comes first: of the thresholds the
one with the best recall, less three times what precision lacks to `ENOUGH`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolcrib.evaluation.trajectories import (
    ALARMS,
    MAX_DELAY_EVENTS,
    LabelledTrajectory,
    load_trajectories,
)
from toolcrib.guidance import TrajectoryBuilder, signals
from toolcrib.guidance.signals import OF_STALLS

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data" / "trajectories"
RIDGE, STEPS, ENOUGH = 30.0, 8, 0.98
THRESHOLDS = np.linspace(-0.5, 3.75, 18)
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """A trajectory: its author, its signals after each event, and its alarms."""

    author: str
    values: Floats
    certain: Floats
    labelled: LabelledTrajectory

    def wanted(self, alarm: str) -> tuple[Floats, Floats]:
        """How many of those who see the alarm want it by each event, and how much that weighs."""
        stands, weight = np.zeros(len(self.values)), np.ones(len(self.values))
        window = self.labelled.window(alarm)
        if window is None:
            return stands, weight
        if not window.is_due:
            weight[window.begin :] = 0.1
            return stands, weight
        places = np.arange(len(self.values))
        told = [a for each in self.labelled.opinions for a in each if a.pattern == alarm]
        for each in told:
            rise = (places - each.begin + 1) / (each.by - each.begin + 1)
            stands += np.clip(rise, 0, 1) / len(told)
        weight[window.end - MAX_DELAY_EVENTS - 1 : window.end + 1] = 2
        weight[window.end + 1 :] = 0.2
        return stands, weight

    def counted(self, alarm: str, scores: Floats, least: float) -> tuple[int, ...]:
        """Alarms that should come, those in time, that came, that were right; healthy alarmed."""
        window = self.labelled.window(alarm)
        came, stands = list[int](), False
        for place, score in enumerate(scores if scores.max() >= least else ()):
            now = score >= least - signals.SLACK * stands
            if now and not stands:
                came.append(place)
            stands = now
        right = [at for at in came if window and window.begin <= at]
        # Where there is trouble of another kind, to speak is no mistake worth a threshold.
        others = [w for n in ALARMS if n != alarm and (w := self.labelled.window(n))]
        came = [at for at in came if at in right or not any(w.begin <= at for w in others)]
        is_due = window is not None and window.is_due
        found = window is not None and is_due and any(at <= window.end for at in right)
        # What is right again, having been right before, counts once.
        again = max(0, len(right) - 1)
        healthy = len(came) if self.labelled.is_healthy else 0
        return is_due, found, len(came) - again, len(right) - again, healthy


@dataclass(frozen=True)
class Fitted:
    """A regression over some signals, by their places."""

    alarm: str
    used: Sequence[int]
    bias: float
    weights: Floats

    def scores(self, each: Seen) -> Floats:
        """The log odds after each event, or certainty."""
        scores = each.values[:, self.used] @ self.weights + self.bias
        return np.where(each.certain, np.inf, scores) if self.alarm == "doom_loop" else scores


def fit(seen: Sequence[Seen], alarm: str, used: Sequence[int]) -> Fitted:
    """Newton's method, with a ridge over standardised signals."""
    values = np.vstack([each.values for each in seen])[:, used]
    wanted = [each.wanted(alarm) for each in seen]
    stands, weight = (np.concatenate(part) for part in zip(*wanted, strict=True))
    mean, spread = values.mean(0), values.std(0) + 1e-6
    given = np.hstack([(values - mean) / spread, np.ones((len(values), 1))])
    ridge = np.diag([RIDGE] * len(used) + [0.0])
    found = np.zeros(given.shape[1])
    for _ in range(STEPS):
        odds = 1 / (1 + np.exp(-np.clip(given @ found, -30, 30)))
        slope = given.T @ (weight * (odds - stands)) + ridge @ found
        bend = (given * (weight * odds * (1 - odds))[:, None]).T @ given + ridge
        found -= np.linalg.solve(bend, slope)
    weights = found[:-1] / spread
    return Fitted(alarm, used, float(found[-1] - weights @ mean), weights)


def threshold(seen: Sequence[Seen], alarm: str, used: Sequence[int]) -> float:
    """The threshold that does best, with its neighbours, on authors that are left out."""
    scored = list[tuple[Seen, Floats]]()
    for author in sorted({each.author for each in seen}):
        fitted = fit([each for each in seen if each.author != author], alarm, used)
        scored += [(each, fitted.scores(each)) for each in seen if each.author == author]
    worth = list[float]()
    for least in THRESHOLDS:
        counts = np.sum([e.counted(alarm, scores, least) for e, scores in scored], axis=0)
        precision = counts[3] / max(1, counts[2])
        worth.append(counts[1] / counts[0] - 3 * max(0.0, ENOUGH - precision))
    smooth = np.convolve(worth, np.ones(3), "valid")
    return float(THRESHOLDS[int(np.argmax(smooth)) + 1])


def read() -> tuple[list[str], list[Seen]]:
    """The names of the signals, and the dev trajectories."""
    names: list[str] = []
    seen: list[Seen] = []
    for file in sorted(DATA.glob("*.jsonl")):
        for each in load_trajectories([file], "dev"):
            builder, rows = TrajectoryBuilder(detectors=()), list[list[float]]()
            for event in each.events:
                found = builder.add(event).build().signals
                names = names or [name for name in found if name not in {signals.CERTAIN, "bias"}]
                rows.append([found[name] for name in (*names, signals.CERTAIN)])
            values = np.array(rows)
            seen.append(Seen(file.stem, values[:, :-1], values[:, -1], each))
    return names, seen


def report(alarm: str, who: str, counts: NDArray[np.int_]) -> None:
    """Print what an alarm does."""
    should, found, came, right, healthy = counts.tolist()
    print(
        f"{alarm} {who}: {found} of {should} in time, {right} of {came} right,",
        f"recall {found / max(1, should):.2f}, precision {right / max(1, came):.2f},",
        f"healthy {healthy}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leave-out", action="store_true")
    is_left_out = parser.parse_args().leave_out
    names, seen = read()
    table: dict[str, dict[str, float]] = {}
    for alarm in ALARMS:
        used = [n for n, name in enumerate(names) if alarm == "stall" or name not in OF_STALLS]
        fitted, least = fit(seen, alarm, used), threshold(seen, alarm, used)
        weights = fitted.weights.round(3).tolist()
        table[alarm] = {"bias": round(fitted.bias - least, 3)}
        table[alarm] |= {names[n]: weight for n, weight in zip(used, weights, strict=True)}
        total = np.zeros(5, dtype=int)
        for author in sorted({each.author for each in seen} if is_left_out else ()):
            rest = [each for each in seen if each.author != author]
            other, least = fit(rest, alarm, used), threshold(rest, alarm, used)
            own = [each for each in seen if each.author == author]
            counts = np.sum([e.counted(alarm, other.scores(e), least) for e in own], axis=0)
            report(alarm, author, counts)
            total += counts
        if is_left_out:
            report(alarm, "all", total)
    with signals.WEIGHTS_FILE.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["signal", *table])
        rows.writerows([n, *(each.get(n, "") for each in table.values())] for n in ("bias", *names))


if __name__ == "__main__":
    main()
