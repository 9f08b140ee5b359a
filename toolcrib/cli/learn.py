"""`toolcrib learn`: show, replay and undo what was learned from outcomes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from toolcrib.cli.opening import AnyCrib, any_crib
from toolcrib.cli.options import Json, StoreOption, Url, logged_records
from toolcrib.cli.output import notes, out, print_either, print_rows
from toolcrib.records.reports import (
    LearnedTool,
    LearningStatus,
    LogLearning,
    ServerReplay,
    Undone,
    UsedTool,
)
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import load_settings
from toolcrib.text import count_of

MAX_LEARNED_ROWS = 50


def learn(
    context: typer.Context,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="LOG", help="Learn from a log that has users' words."),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Show the examples and their origins; the default.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Replay past requests; activate helpful examples.")
    ] = False,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="DAY|KEY|TOOL|CHOICE", help="Remove the examples of a day, key, tool or choice."
        ),
    ] = None,
    on: Annotated[
        bool | None, typer.Option("--on/--off", help="Re-order answers by examples, or do not.")
    ] = None,
    store: StoreOption = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Learn from requests that ended in a successful call; show or undo the examples."""
    asked = [from_ is not None, status, replay, undo is not None, on is not None]
    if sum(asked) > 1:
        raise typer.BadParameter("give one of --from, --status, --replay, --undo, --on, --off")
    with _open_learning_crib(context, store, url, writes=any(asked) and not status) as crib:
        if from_ is not None:
            told = _read_log(crib, context, from_)
            text = (
                f"{count_of(told.added, 'new observation')}; {told.known} known before, "
                f"{told.without_text} without the user's words, "
                f"{told.without_tool} of no tool here, {told.over_quota} beyond a session's quota"
            )
            print_either(told, text, json=json)
        elif undo is not None:
            removed = crib.undo_learning(undo)
            text = f"{count_of(removed, 'observation')} taken back"
            if not removed:
                text = f"{text}: {_known_origins(crib.learning_status())}"
            print_either(Undone(removed), text, json=json)
        elif on is not None:
            crib.switch_learning(on=on)
            print_either({"on": on}, "on" if on else "off", json=json)
        else:
            found = crib.replay_learning() if replay else crib.learning_status()
            print_either(found, partial(_print, found), json=json)


@contextmanager
def _open_learning_crib(
    context: typer.Context, store: str | None, url: str | None, *, writes: bool
) -> Generator[AnyCrib]:
    """A crib with learning; for a store even if learning is off in the settings."""
    from toolcrib import build
    from toolcrib.crib import Crib

    with any_crib(context, store, url, writes=writes, ranks=False) as crib:
        if not isinstance(crib, Crib) or crib.turns.learner is not None:
            yield crib
            return
        settings = load_settings(context.obj)
        place = store or settings.store
        learner = build.make_learner(
            crib.tools, lambda: build.open_records_db(place, settings), DEFAULT_NAMESPACE
        )
        crib.turns.use_learner(learner)
        yield crib
        notes.print("learning.enabled is off: no answer is re-ordered, and nothing more learned")


def _read_log(crib: AnyCrib, context: typer.Context, log: Path) -> LogLearning:
    from toolcrib.crib import Crib

    learner = crib.turns.learner if isinstance(crib, Crib) else None
    if learner is None:
        reason = "a service learns from its own decisions; name an index with --store"
        raise typer.BadParameter(reason, param_hint="--from")
    return learner.read_log(logged_records(context, log)[1])


def _known_origins(status: LearningStatus) -> str:
    """Days and keys of the observations, as text."""
    days = sorted({day for each in status.tools for day in each.days})
    keys = sorted({key for each in status.tools for key in each.by if key})
    if not days:
        return "there are none"
    return f"there are some of {', '.join(days)}" + (f"; by {', '.join(keys)}" if keys else "")


def _print(status: LearningStatus) -> None:
    live = sum(each.live for each in status.tools)
    state = "on" if status.on and status.collects else "[yellow]off[/]"
    out.print(
        f"learning is {state}: {count_of(status.observations, 'observation')} of "
        f"{_learned_counts(status.tools)}, {live} of them live; "
        f"{count_of(status.runs, 'run')}"
    )
    if status.left_out:
        keys = escape(", ".join(status.left_out))
        out.print(f"left out, as their calls contradict the others': {keys}")
    if status.servers:
        figures = ("requests", "before", "after", "strength", "copies")
        print_rows(list(map(_cells, status.servers)), ("server", "verdict"), figures, headed=True)
    if status.tools:
        _print_tools(status.tools)
    if status.used:
        _print_use(status.used)
    elif not status.orders_steps:
        out.print("learning.runs is off: what agents call orders no steps")


def _learned_counts(learned: Sequence[LearnedTool]) -> str:
    options = sum(bool(each.choice) for each in learned)
    tools = count_of(len(learned) - options, "tool")
    return f"{tools} and {count_of(options, 'option')}" if options else tools


def _print_tools(tools: Sequence[LearnedTool]) -> None:
    rows: list[tuple[str, ...]] = []
    for tool in tools:
        by = ", ".join(f"{key or 'no key'} {count}" for key, count in tool.by.items())
        use = "yes" if tool.live else f"no: {tool.reason}"
        figures = (str(tool.observations), str(tool.sessions), f"{tool.support:.2f}")
        rows.append((escape(tool.tool), escape(by), escape(use), *figures))
    names, figures = ("tool", "learned from", "in use"), ("observations", "sessions", "support")
    print_rows(rows, names, figures, headed=True, limit=MAX_LEARNED_ROWS)


def _print_use(used: Sequence[UsedTool]) -> None:
    rows: list[tuple[str, ...]] = []
    for each in used:
        after = ", ".join(f"{tool} {share:.0%}" for tool, share in each.next.items())
        rows.append((escape(each.tool), escape(after), f"{each.runs:.0%}"))
    print_rows(rows, ("agents call", "and next"), ("runs",), headed=True, limit=MAX_LEARNED_ROWS)


def _cells(each: ServerReplay) -> tuple[str, ...]:
    name = escape(each.server or "(none)")
    ndcg = f"{each.before:.3f}", f"{each.after:.3f}"
    strengths = f"{each.strength:.2f}", f"{each.copies:.2f}"
    return name, each.verdict, str(each.requests), *ndcg, *strengths
