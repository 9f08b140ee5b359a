"""Fit what guidance weighs, and say how it does on authors that it was not fitted on.

    python scripts/fit_guidance.py [--leave-out]

A logistic regression for each alarm, on the dev trajectories, by its signals (toolcrib/guidance/
signals.py). `--leave-out` also leaves out one author (file) after the other: weights and threshold
come from the others, the threshold by leaving one of those out. Precision comes first: of the
thresholds the one with the best recall, less three times what precision lacks to 0.9.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolcrib.evaluation.trajectories import ALARMS, LATE, AlarmLabel, load_trajectories
from toolcrib.guidance import TrajectoryBuilder, signals

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data" / "trajectories"
SHIPPED = Path(signals.__file__).with_name("weights.json")
RIDGE: Mapping[str, float] = dict.fromkeys(ALARMS, 100.0)
THRESHOLDS = np.linspace(-1, 3.5, 19)
ENOUGH, STEPS = 0.9, 8

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """A trajectory: its author, its signals after each event, and its alarms."""

    author: str
    id: str
    values: Floats
    certain: Floats
    alarms: tuple[AlarmLabel, ...]

    def wanted(self, alarm: str) -> tuple[Floats, Floats]:
        """Whether the alarm should stand after each event, and how much that weighs."""
        stands, weight = np.zeros(len(self.values)), np.ones(len(self.values))
        for each in self.alarms:
            if each.pattern == alarm:
                stands[each.begin :] = 1
                weight[each.begin : each.by] = 0.3
                weight[max(each.begin, each.by - 1) : each.by + LATE + 1] = 2
                weight[each.by + LATE + 1 :] = 0.2
        return stands, weight


@dataclass(frozen=True)
class Fitted:
    """A regression over signals."""

    alarm: str
    bias: float
    weights: Floats

    def scores(self, each: Seen) -> Floats:
        """The log odds after each event, or certainty."""
        scores = each.values @ self.weights + self.bias
        return np.where(each.certain, np.inf, scores) if self.alarm == "doom_loop" else scores


def read() -> tuple[list[str], list[Seen]]:
    """The names of the signals, and the dev trajectories."""
    names: list[str] = []
    seen: list[Seen] = []
    for file in sorted(DATA.glob("*.jsonl")):
        for each in load_trajectories([file], "dev"):
            builder, rows = TrajectoryBuilder(detectors=()), list[list[float]]()
            for event in each.events:
                found = builder.add(event).build().signals
                names = names or list(found)
                rows.append([found[name] for name in names])
            values = np.array(rows)
            certain = values[:, names.index(signals.CERTAIN)]
            seen.append(Seen(file.stem, each.id, values, certain, each.alarms))
    return names, seen


def fit(seen: Sequence[Seen], alarm: str) -> Fitted:
    """Newton's method, with a ridge over standardised signals."""
    values = np.vstack([each.values for each in seen])
    wanted = [each.wanted(alarm) for each in seen]
    stands, weight = (np.concatenate(part) for part in zip(*wanted, strict=True))
    mean, spread = values.mean(0), values.std(0) + 1e-6
    given = np.hstack([(values - mean) / spread, np.ones((len(values), 1))])
    ridge = np.diag([RIDGE[alarm]] * (given.shape[1] - 1) + [0.0])
    found = np.zeros(given.shape[1])
    for _ in range(STEPS):
        odds = 1 / (1 + np.exp(-np.clip(given @ found, -30, 30)))
        slope = given.T @ (weight * (odds - stands)) + ridge @ found
        bend = (given * (weight * odds * (1 - odds))[:, None]).T @ given + ridge
        found -= np.linalg.solve(bend, slope)
    weights = found[:-1] / spread
    return Fitted(alarm, float(found[-1] - weights @ mean), weights)


def counted(seen: Sequence[Seen], scores: Sequence[Floats], alarm: str, least: float) -> Floats:
    """Alarms that should come, those in time, that came, that were right; healthy ones alarmed."""
    counts = np.zeros(5)
    for each, given in zip(seen, scores, strict=True):
        came, stands = list[int](), False
        for place, score in enumerate(given):
            now = score >= least - signals.SLACK * stands
            if now and not stands:
                came.append(place)
            stands = now
        labels = [label for label in each.alarms if label.pattern == alarm]
        counts += (
            len(labels),
            sum(any(a.begin <= at <= a.by + LATE for at in came) for a in labels),
            len(came),
            sum(any(a.begin <= at for a in labels) for at in came),
            0 if each.alarms else len(came),
        )
    return counts


class LeftOut:
    """Regressions of an alarm, each on all trajectories but those of some authors."""

    def __init__(self, seen: Sequence[Seen], alarm: str) -> None:
        self._seen, self._alarm = seen, alarm
        self._fitted: dict[frozenset[str], Fitted] = {}

    def without(self, *authors: str) -> Fitted:
        """The one that has seen none of these authors."""
        left = frozenset(authors)
        if left not in self._fitted:
            rest = [each for each in self._seen if each.author not in left]
            self._fitted[left] = fit(rest, self._alarm)
        return self._fitted[left]

    def threshold(self, *authors: str) -> float:
        """The threshold that does best on the others, one of them left out after the other."""
        rest = [each for each in self._seen if each.author not in authors]
        scores = [self.without(*authors, each.author).scores(each) for each in rest]

        def worth(least: float) -> float:
            should, found, came, right, _ = counted(rest, scores, self._alarm, least)
            return found / should - 3 * max(0.0, ENOUGH - right / max(1, came))

        return float(max(THRESHOLDS, key=worth))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leave-out", action="store_true")
    is_left_out = parser.parse_args().leave_out
    names, seen = read()
    shipped: dict[str, object] = {}
    for alarm in ALARMS:
        out = LeftOut(seen, alarm)
        fitted, least = out.without(), out.threshold()
        weights = dict(zip(names, fitted.weights.round(3).tolist(), strict=True))
        shipped[alarm] = {"bias": round(fitted.bias - least, 3), "weights": weights}
        total = np.zeros(5)
        for author in sorted({each.author for each in seen} if is_left_out else ()):
            own = [each for each in seen if each.author == author]
            scores = [out.without(author).scores(each) for each in own]
            counts = counted(own, scores, alarm, out.threshold(author))
            total += counts
            print(
                f"{alarm} {author}: {counts[1]:.0f} of {counts[0]:.0f} in time,",
                f"{counts[3]:.0f} of {counts[2]:.0f} right",
                flush=True,
            )
        if is_left_out:
            recall, precision = total[1] / total[0], total[3] / max(1, total[2])
            print(
                f"{alarm}: recall {recall:.2f}, precision {precision:.2f}, healthy {total[4]:.0f}",
                flush=True,
            )
    SHIPPED.write_text(json.dumps(shipped, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
