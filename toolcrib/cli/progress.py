"""Progress of long work: a bar on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from rich.markup import escape
from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from toolcrib.cli.output import err, notes
from toolcrib.records import IndexProgress
from toolcrib.text import count_of

LINE_INTERVAL_S = 10.0
"""Time between two lines, if standard error is no terminal."""

NOTHING_KEPT_NOTE = "nothing is kept, as results are written at the end"
"""Note for an interrupted evaluation."""

MIN_ESTIMATE_SHARE = 0.02
"""Least share of finished work for an estimate of the remaining time."""


@dataclass(frozen=True, slots=True)
class WorkStep:
    """Running step with its progress; `share` of the work is None if unknown."""

    what: str
    done: int = 0
    total: int = 0
    share: float | None = None
    began: float = field(default_factory=time.monotonic)

    def after(self, before: WorkStep) -> WorkStep:
        """Copy with the start time of `before` if that step is the same work."""
        is_same = (self.what, self.share is None) == (before.what, before.share is None)
        return replace(self, began=before.began) if is_same else self

    @property
    def count_text(self) -> str:
        """Count as "done of total"; empty if nothing is counted."""
        return "" if self.share is None else f"{self.done:,} of {self.total:,}"

    def __str__(self) -> str:
        took = time.monotonic() - self.began
        if self.share is None:
            return f"{self.what}: {_time(took)} so far"
        is_known = MIN_ESTIMATE_SHARE <= self.share < 1
        rest = f", about {_time(took / self.share - took)} left" if is_known else ""
        return f"{self.what}: {self.count_text}, {self.share:.0%} of the work{rest}"


@contextmanager
def show_steps(
    first: str, kept_note: Callable[[WorkStep], str] = lambda _: "nothing was changed"
) -> Generator[Callable[[WorkStep], None]]:
    """Show the steps that the block reports; if Ctrl-C ends it, print its `kept_note`."""
    last = WorkStep(first)

    def tell(step: WorkStep) -> None:
        nonlocal last
        last = step.after(last)
        show(last)

    try:
        with _bar() if notes.is_terminal else _lines(lambda: last) as show:
            show(last)
            yield tell
    except KeyboardInterrupt:
        err.print(f"[yellow]stopped:[/] {escape(kept_note(last))}")
        raise


@contextmanager
def _bar() -> Generator[Callable[[WorkStep], None]]:
    """Show a bar by the share of the work; the bar pulses if the share is unknown."""
    named = ("{task.description}", BarColumn(), "{task.fields[counted]}")
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*named, *times, console=notes, transient=True, disable=notes.quiet) as bar:
        shown: WorkStep | None = None

        def show(step: WorkStep) -> None:
            nonlocal shown
            if shown is None or shown.began != step.began:
                # A task's total cannot be unset, so a new step is a new task.
                for old in bar.task_ids:
                    bar.remove_task(old)
                bar.add_task(step.what, total=None if step.share is None else 1.0, counted="")
            shown = step
            bar.update(bar.task_ids[-1], completed=step.share or 0.0, counted=step.count_text)

        yield show


@contextmanager
def _lines(last: Callable[[], WorkStep]) -> Generator[Callable[[WorkStep], None]]:
    """Print a line at intervals, even without news of the work."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(LINE_INTERVAL_S):
            notes.print(escape(str(last())))

    writer = threading.Thread(target=write, name="toolcrib-progress", daemon=True)
    writer.start()
    try:
        yield lambda _: None
    finally:
        ended.set()
        writer.join()


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


@contextmanager
def index_progress(
    first: str = "reading the sources", *, thing: str = "tool", is_rebuilt: bool = False
) -> Generator[Callable[[IndexProgress], None]]:
    """Show the progress of an index run."""

    def kept_note(step: WorkStep) -> str:
        if is_rebuilt:
            return "the old index is still in use; the same command starts again"
        if not step.done:
            return f"no {thing} was written; the same command starts again"
        return f"{count_of(step.done, thing)} kept; the same command does the rest"

    with show_steps(first, kept_note) as tell:

        def show(progress: IndexProgress) -> None:
            done, total = progress.done, progress.total
            is_writing = progress.stage == "write"
            what = "indexing" if is_writing else "building the graph"
            tell(WorkStep(what, done, total, progress.share if is_writing else None))

        yield show


@contextmanager
def show_counts(
    first: str, kept_note: str | Callable[[], str] = "nothing was changed"
) -> Generator[Callable[[str, int, int], None]]:
    """Show the progress of work by the number of its parts."""
    note = (lambda: kept_note) if isinstance(kept_note, str) else kept_note
    with show_steps(first, lambda _: note()) as tell:
        yield lambda what, done, total: tell(
            WorkStep(what, done, total, done / total if total else None)
        )
