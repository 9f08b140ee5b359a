"""Steps of recorded runs: share of tools that are shown when an agent first calls them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import FileRow, read_all
from toolcrib.evaluation.systems.base import StepFinder, System
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import Score
from toolcrib.retrieval.legs import has_words

TASK_FOLDS = 5
"""Folds of the tasks; each fold learns from the runs of the others."""


class StepRow(FileRow):
    """Step of a run: what the agent wrote, and the id of the tool that it then called."""

    said: str = ""
    tool: str | None = None


class RunRow(FileRow):
    """Run of an agent: the user's task, and its steps."""

    run: str
    task: Annotated[str, Field(min_length=1)]
    steps: tuple[StepRow, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """Ids of the tools that the run called, in order."""
        return tuple(step.tool for step in self.steps if step.tool is not None)


@dataclass(frozen=True, slots=True)
class FirstUse:
    """First call of a tool in a run: what the agent wrote last, and the earlier calls."""

    task: str
    text: str
    called: tuple[str, ...]
    tool: str


@dataclass(frozen=True, slots=True)
class StepScores:
    """Share of first uses whose tool is among the first `k` without earlier calls, by `k`.

    `by_task`: mean of the tasks' own shares.
    """

    shown: dict[int, Score]
    by_task: dict[int, Score]


@dataclass(frozen=True, slots=True)
class StepEvaluation:
    """First uses of recorded runs, and the share shown by each kind of search.

    `unknown_calls`: calls of tools that are not among the tools; they are no first uses.
    """

    name: str
    tools: int
    runs: int
    tasks: int
    first_uses: int
    unknown_calls: int
    scores: dict[str, StepScores]


def load_runs(
    folder: Path, on_refusal: Callable[[Refusal], None] = lambda _: None
) -> tuple[list[ToolSpec], list[RunRow]]:
    """Read tools (`tools.jsonl`) and runs (`steps.jsonl`) of a folder.

    `on_refusal` gets each wrong tool, which is left out.

    Raises:
        SourceError: a file cannot be read, a row is wrong, or no run calls one of the tools.
    """
    tools: list[ToolSpec] = []
    for _, item in tool_entries(str(folder / "tools.jsonl"), None, None):
        if isinstance(item, Refusal):
            on_refusal(item)
        else:
            tools.append(item)
    runs = read_all(folder / "steps.jsonl", RunRow)
    if not runs:
        raise SourceError(str(folder / "steps.jsonl"), "", "holds no run")
    if not tools:
        raise SourceError(str(folder / "tools.jsonl"), "", "holds no tool")
    called = {tool for run in runs for tool in run.tools}
    if called.isdisjoint(tool.id for tool in tools):
        ids = f"ids such as {tools[0].id!r}" + (f", not {min(called)!r}" if called else "")
        reason = f"calls no tool of tools.jsonl: give {ids}"
        raise SourceError(str(folder / "steps.jsonl"), "", reason)
    return tools, runs


def first_uses(run: RunRow, known: set[str]) -> Iterator[FirstUse]:
    """First calls of a run's known tools; before its first words an agent only has its task."""
    text, called = run.task, list[str]()
    for step in run.steps:
        text = step.said if has_words(step.said) else text
        if step.tool in known and step.tool not in called:
            yield FirstUse(run.task, text, tuple(called), step.tool)
        if step.tool is not None:
            called.append(step.tool)


Ask = Callable[[FirstUse, int], Sequence[str]]


def evaluate_steps(
    name: str,
    tools: Sequence[ToolSpec],
    runs: Sequence[RunRow],
    systems: Mapping[str, Callable[[], System]],
    ks: Sequence[int],
    progress: Callable[[str, int, int], None] = lambda _name, _done, _total: None,
) -> StepEvaluation:
    """Search every system by the agent's words; step finders also get the run's calls.

    Where the runs of other tasks are too few to learn from, there is no learned score.
    """
    known, tasks = {tool.id for tool in tools}, sorted({run.task for run in runs})
    uses = [use for run in runs for use in first_uses(run, known)]
    scores: dict[str, StepScores] = {}

    def measure(way: str, ask: Ask, asked: Sequence[FirstUse]) -> list[tuple[FirstUse, int]]:
        places: list[tuple[FirstUse, int]] = []
        for done, use in enumerate(asked, start=1):
            found = list(ask(use, max(ks)))
            places.append((use, found.index(use.tool) if use.tool in found else max(ks)))
            progress(way, done, len(asked))
        return places

    for system_name, make in systems.items():
        with closing(make()) as system:
            system.index(tools)
            ways: dict[str, Ask] = {f"{system_name}, words": partial(_by_words, system)}
            if isinstance(system, StepFinder):
                ways = {f"{system_name}, task once": partial(_by_task, system), **ways}
                ways[f"{system_name}, steps"] = partial(_by_step, system)
            for way, ask in ways.items():
                scores[way] = _scores(measure(way, ask, uses), ks)
            if isinstance(system, StepFinder):
                way = f"{system_name}, steps, learned"
                places: list[tuple[FirstUse, int]] = []
                for part in _learned_parts(system, runs, tasks):
                    kept = [use for use in uses if use.task in part]
                    places += measure(way, partial(_by_step, system), kept)
                scores |= {way: _scores(places, ks)} if len(places) == len(uses) else {}
    unknown = sum(tool not in known for run in runs for tool in run.tools)
    return StepEvaluation(name, len(tools), len(runs), len(tasks), len(uses), unknown, scores)


def _by_words(system: System, use: FirstUse, k: int) -> list[str]:
    found = [each.id for each in system.search(use.text, k + len(set(use.called))).ranked]
    return [tool for tool in found if tool not in use.called][:k]


def _by_task(system: System, use: FirstUse, k: int) -> list[str]:
    return [each.id for each in system.search(use.task, k).ranked]


def _by_step(system: StepFinder, use: FirstUse, k: int) -> Sequence[str]:
    return system.find_step(use.text, k, use.called, use.task)


def _learned_parts(
    system: StepFinder, runs: Sequence[RunRow], tasks: Sequence[str]
) -> Iterator[set[str]]:
    """Parts of the tasks for which the system can learn from the runs of all others."""
    shuffled = list(tasks)
    random.Random(0).shuffle(shuffled)  # noqa: S311 -- a split, no secret
    for place in range(TASK_FOLDS):
        part = set(shuffled[place::TASK_FOLDS])
        if part and system.learn_runs([run.tools for run in runs if run.task not in part]):
            yield part


def _scores(places: Sequence[tuple[FirstUse, int]], ks: Sequence[int]) -> StepScores:
    by_task: dict[str, list[int]] = {}
    for use, place in places:
        by_task.setdefault(use.task, []).append(place)

    def mean(shares: Sequence[float]) -> float:
        return sum(shares) / max(len(shares), 1)

    return StepScores(
        {k: mean([place < k for _, place in places]) for k in ks},
        {k: mean([mean([p < k for p in its]) for its in by_task.values()]) for k in ks},
    )
