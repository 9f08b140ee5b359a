"""Progress of long work: a bar on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from toolcrib.cli.output import count_of, err, notes
from toolcrib.records import IndexProgress

LINE_INTERVAL_S = 10.0
"""Between two lines, where nobody looks at a bar."""

NOTHING_KEPT_NOTE = "nothing is kept, as results are written at the end"
"""Note for an interrupted evaluation."""

MIN_ESTIMATE_SHARE = 0.02
"""With less done than this nobody can tell how long the rest takes."""


@dataclass(frozen=True, slots=True)
class WorkStep:
    """Step at work, and how much of it is done: `share` of the work, None if unknown."""

    what: str
    done: int = 0
    total: int = 0
    share: float | None = None
    began: float = field(default_factory=time.monotonic)

    def after(self, before: WorkStep) -> WorkStep:
        """A step that goes on with the one before began when that did."""
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
def working(
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
    """A bar by the share of the work, which runs to and fro where that is not known."""
    columns = ("{task.description}", BarColumn(), "{task.fields[counted]}")
    parts = [TextColumn(each) if isinstance(each, str) else each for each in columns]
    rest = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*parts, *rest, console=notes, transient=True, disable=notes.quiet) as bar:
        shown: WorkStep | None = None

        def show(step: WorkStep) -> None:
            nonlocal shown
            if shown is None or shown.began != step.began:
                # A task never forgets its total: what comes next is another one.
                for old in bar.task_ids:
                    bar.remove_task(old)
                bar.add_task(step.what, total=None if step.share is None else 1.0, counted="")
            shown = step
            bar.update(bar.task_ids[-1], completed=step.share or 0.0, counted=step.count_text)

        yield show


@contextmanager
def _lines(last: Callable[[], WorkStep]) -> Generator[Callable[[WorkStep], None]]:
    """A line now and then, also while the work tells of nothing."""
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
    """The progress of an index run."""

    def kept_note(step: WorkStep) -> str:
        if is_rebuilt:
            return "the index that was there still answers; the same command begins anew"
        if not step.done:
            return f"no {thing} was written; the same command begins anew"
        return f"{count_of(step.done, thing)} kept; the same command does the rest"

    with working(first, kept_note) as tell:

        def show(progress: IndexProgress) -> None:
            done, total = progress.done, progress.total
            is_writing = progress.stage == "write"
            what = "indexing" if is_writing else "building the graph"
            tell(WorkStep(what, done, total, progress.share if is_writing else None))

        yield show


@contextmanager
def counting(
    first: str, kept_note: Callable[[], str] = lambda: "nothing was changed"
) -> Generator[Callable[[str, int, int], None]]:
    """The progress of work whose parts take alike: what is done, how much, and of how much."""
    with working(first, lambda _: kept_note()) as tell:
        yield lambda what, done, total: tell(
            WorkStep(what, done, total, done / total if total else None)
        )
