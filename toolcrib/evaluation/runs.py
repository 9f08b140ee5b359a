"""TREC run files and qrels, so that anyone can check our figures with a tool of their own."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import integer_grades
from toolcrib.evaluation.results import Evaluation, Outcome, SetResult

__all__ = ["write_runs"]

READABLE = string.punctuation.replace("%", "")
"""What stays as it is in an id, with ASCII letters and digits."""


def write_runs(evaluation: Evaluation, directory: Path) -> tuple[Path, ...]:
    """Write `SET.qrels` and `SET.SYSTEM.run` for all sets and systems; give their paths.

    Columns are parted by spaces, so ids are percent-encoded where they hold white space, `%` or
    letters beyond ASCII; `urllib.parse.unquote` gives them back. Scores only count down with
    the rank: evaluators re-sort by score and break ties by id, where here a system's own order
    stands. Queries that nothing answers are in the runs, but not in the qrels. For our means
    use `trec_eval -c`, which counts an omitted query as zero.

    Raises:
        OSError: the folder cannot be made or written to.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for one in evaluation.sets.values():
        files = {f"{_file(one.name)}.qrels": _qrels(one)}
        for name, system in one.systems.items():
            files[f"{_file(one.name)}.{_file(name)}.run"] = _run(name, system.outcomes)
        for name, lines in files.items():
            path = directory / name
            path.write_text("".join(lines), encoding="ascii")
            written.append(path)
    return tuple(written)


def _qrels(one: SetResult) -> Iterator[str]:
    # A system may have left queries out: together they have answered what anyone has.
    queries: dict[str, LabelledQuery] = {
        outcome.query.id: outcome.query
        for system in one.systems.values()
        for outcome in system.outcomes
        if outcome.query.answerable
    }
    for query, grades in zip(queries, integer_grades(list(queries.values())), strict=True):
        for tool, grade in grades.items():
            yield f"{_id(query)} 0 {_id(tool)} {grade}\n"


def _run(name: str, outcomes: Iterable[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        ranked = list(dict.fromkeys(tool.id for tool in outcome.answer.ranked))
        for rank, tool in enumerate(ranked, start=1):
            score = len(ranked) - rank + 1
            yield f"{_id(outcome.query.id)} Q0 {_id(tool)} {rank} {score} {_id(name)}\n"


def _id(text: str) -> str:
    return quote(text, safe=READABLE, errors="surrogatepass")


def _file(name: str) -> str:
    return quote(name, safe="+", errors="surrogatepass")
