"""Trajectories with alarms: hints of guidance, compared with labels by people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import Field, computed_field, model_validator

from toolcrib.evaluation.dataset import FileRow, Split, read_all
from toolcrib.guidance import GuidanceSession, TrajectoryEvent
from toolcrib.records.codec import FrozenModel, Score

AlarmName: TypeAlias = Literal["doom_loop", "error_streak", "stall", "search_loop"]

ALARMS: Mapping[str, AlarmName] = {name.replace("_", "-"): name for name in get_args(AlarmName)}
"""Alarm of each hint, by the hint's key; a stall has no hint by default."""

MAX_DELAY_EVENTS = 2
"""Events after the labelled one within which an alarm is in time."""


class AlarmLabel(FrozenModel):
    """Expected alarm: positions of the event where it began, and by which it is due."""

    pattern: AlarmName
    begin: int = Field(alias="from", ge=0)
    by: int = Field(ge=0)

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        if self.by < self.begin:
            raise ValueError(f"'by' ({self.by}) is before 'from' ({self.begin})")
        return self


class LabelledTrajectory(FileRow):
    """Trajectory with labels; a healthy one has no alarms.

    `readers`: alarms by other readers, who did not know the author's.
    """

    id: str
    kind: str = ""
    split: Split = "test"
    events: tuple[TrajectoryEvent, ...]
    alarms: tuple[AlarmLabel, ...] = ()
    readers: tuple[tuple[AlarmLabel, ...], ...] = ()

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        """Refuse events that are not read and alarms after the end: both would count as missed."""
        for place, event in enumerate(self.events):
            if event.type == "other":
                reason = "no call, message or search; read a provider's messages by `events_of`"
                raise ValueError(f"events.{place}: {reason}")
        for label in (label for alarms in (self.alarms, *self.readers) for label in alarms):
            if label.begin >= len(self.events):
                raise ValueError(f"'from' ({label.begin}) is after the last event")
        return self

    def window(self, pattern: str) -> AlarmWindow | None:
        """Range of an alarm, by all who labelled one; None if nobody did."""
        opinions = (self.alarms, *self.readers)
        labels = [[a for a in alarms if a.pattern == pattern] for alarms in opinions]
        seen = [label for alarms in labels for label in alarms]
        if not seen:
            return None
        return AlarmWindow(
            min(label.begin for label in seen),
            max(label.by for label in seen) + MAX_DELAY_EVENTS,
            is_due=2 * sum(map(bool, labels)) > len(labels),
        )


@dataclass(frozen=True, slots=True)
class AlarmWindow:
    """First event of a right alarm, last event in time, and whether most labels include it."""

    begin: int
    end: int
    is_due: bool


@dataclass(frozen=True, slots=True)
class AlarmScores:
    """One kind of trouble over a set: `labelled` stretches, and those `found` by a hint in time.

    `fired`: hints of this kind; `right`: those after the first labelled stretch began.
    """

    labelled: int = 0
    found: int = 0
    fired: int = 0
    right: int = 0

    @computed_field
    @property
    def recall(self) -> Score | None:
        """Share of labelled stretches that were found in time; None without any."""
        return self.found / self.labelled if self.labelled else None

    @computed_field
    @property
    def precision(self) -> Score | None:
        """Share of right hints; None without any."""
        return self.right / self.fired if self.fired else None


@dataclass(frozen=True, slots=True)
class AlarmMistake:
    """Missed trouble, or a false hint; `at` is the position of an event."""

    id: str
    kind: str
    pattern: str
    mistake: Literal["missed", "false"]
    at: int


@dataclass(frozen=True, slots=True)
class GuidanceEvaluation:
    """Hints on labelled trajectories; hours are by the trajectories' own times."""

    split: str
    trajectories: int
    events: int
    healthy: int
    healthy_alarms: int
    healthy_hours: Annotated[float, Field(ge=0)]
    patterns: dict[str, AlarmScores] = field(default_factory=dict[str, AlarmScores])
    mistakes: tuple[AlarmMistake, ...] = ()


def load_trajectories(paths: Iterable[Path], split: str) -> Iterator[LabelledTrajectory]:
    """Read the trajectories of a split (or of `all`) from JSON Lines files and folders.

    Raises:
        SourceError: a file cannot be read, or a line is no trajectory.
    """
    for path in paths:
        for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
            found = read_all(file, LabelledTrajectory)
            yield from (each for each in found if split in {"all", each.split})


def hints_of(events: Iterable[TrajectoryEvent]) -> list[tuple[AlarmName, int]]:
    """Hints of a session on a trajectory, each with the position of its event."""
    session = GuidanceSession()
    found: list[tuple[AlarmName, int]] = []
    for place, event in enumerate(events):
        session.trajectory.on_event(event)
        if (hint := session.hint()) is not None:
            found.append((ALARMS[hint.key], place))
    return found


def evaluate_guidance(trajectories: Sequence[LabelledTrajectory], split: str) -> GuidanceEvaluation:
    """Compare hints with labelled alarms."""
    counts: dict[AlarmName, list[int]] = {name: [0, 0, 0, 0] for name in ALARMS.values()}
    mistakes, healthy = list[AlarmMistake](), list[LabelledTrajectory]()
    healthy_alarms = 0
    for each in trajectories:
        hints = hints_of(each.events)
        windows: dict[AlarmName, AlarmWindow | None]
        windows = {name: each.window(name) for name in ALARMS.values()}
        begin = min((window.begin for window in windows.values() if window), default=None)
        for name, at in hints:
            is_right = begin is not None and begin <= at
            counts[name][2] += 1
            counts[name][3] += is_right
            if not is_right:
                mistakes.append(AlarmMistake(each.id, each.kind, name, "false", at))
        for name, window in windows.items():
            if window is None or not window.is_due:
                continue
            is_found = any(window.begin <= at <= window.end for _, at in hints)
            counts[name][0] += 1
            counts[name][1] += is_found
            if not is_found:
                due = window.end - MAX_DELAY_EVENTS
                mistakes.append(AlarmMistake(each.id, each.kind, name, "missed", due))
        if begin is None:
            healthy.append(each)
            healthy_alarms += len(hints)
    return GuidanceEvaluation(
        split,
        trajectories=len(trajectories),
        events=sum(len(each.events) for each in trajectories),
        healthy=len(healthy),
        healthy_alarms=healthy_alarms,
        healthy_hours=round(sum(map(_seconds, healthy)) / 3600, 3),
        patterns={name: AlarmScores(*numbers) for name, numbers in counts.items()},
        mistakes=tuple(mistakes),
    )


def _seconds(each: LabelledTrajectory) -> float:
    times = [event.at for event in each.events if event.at is not None]
    return max(times) - min(times) if times else 0.0
