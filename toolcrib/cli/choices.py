"""Commands for choices other than of tools: `classify`, `capabilities`, `allowlist`, `eval`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
import yaml
from rich.markup import escape

from toolcrib.cli.opening import open_crib, remote_crib
from toolcrib.cli.options import Json, StoreOption, Url, lines_of
from toolcrib.cli.output import notes, out, print_choices, print_json, write_file
from toolcrib.cli.progress import NOTHING_KEPT_NOTE, counting
from toolcrib.errors import QuestionRenderError
from toolcrib.records import Turn
from toolcrib.records.codec import as_json
from toolcrib.settings import Settings, load_settings

if TYPE_CHECKING:
    from toolcrib.evaluation.choices import Choice, ChoiceResult, LabelledTurn
    from toolcrib.records.turns import CapabilitySelection, Classification
    from toolcrib.router.choices.questions import QuestionClassifier

LabelledFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="Labelled turns, JSON Lines.")
]
Split: TypeAlias = Annotated[
    str | None, typer.Option("--split", help="Only turns of this split; default: all.")
]
Html: TypeAlias = Annotated[Path | None, typer.Option(help="Write a page to look at.")]

# -- classify --------------------------------------------------------------------------------


def classify(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            help="The question with its classes, YAML or JSON; of a service: its name there."
        ),
    ],
    text: Annotated[str | None, typer.Argument(help="What a user says.")] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Classify each line of this file.")
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(
            "--var", metavar="NAME=VALUE", help="A variable of the template; may be repeated."
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="What earlier nodes gave, by their names, for run_if."),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Say which class of a question fits a text: by a language model, or without one."""
    if (text is None) == (batch is None):
        raise typer.BadParameter("give a text or --batch", param_hint="TEXT")
    given = _variables(variable or [])
    nodes = _outputs(outputs)
    with _classifying(config, url, load_settings(context.obj)) as classify:
        ask = partial(classify, variables=given, outputs=nodes)
        if text is not None:
            _print(ask(text), json=json)
            return
        for line in lines_of(batch or ""):
            try:
                _print(ask(line), json=json, of=line)
            except QuestionRenderError as error:
                # Lines stay in step: a bad one is answered with its error.
                if json:
                    print_json({"branch": None, "error": str(error)})
                else:
                    out.print(f"[yellow]{escape(str(error))}[/]")


@contextmanager
def _classifying(
    config: Path, url: str | None, settings: Settings
) -> Generator[Callable[..., Classification]]:
    """Classifier of a question: of a file here, or of the service named on the line."""
    service = url or (None if config.is_file() else settings.url)
    if service is None:
        from toolcrib import build

        yield build.question_classifier(config, settings).classify
        return
    with remote_crib(service, settings) as crib:
        yield partial(crib.classify, str(config))


def _variables(given: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    if any(not name or not sign for name, sign, _ in pairs):
        raise typer.BadParameter("write NAME=VALUE", param_hint="--var")
    return {name: value for name, _, value in pairs}


def _outputs(given: str | None) -> dict[str, Any]:
    try:
        found = jsonlib.loads(given or "{}")
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--outputs") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("must be an object by names of nodes", param_hint="--outputs")
    return cast("dict[str, Any]", found)


def _print(found: Classification, *, json: bool, of: str = "") -> None:
    if json:
        print_json(as_json(found))
        return
    parts = [f"[bold]{escape(found.branch or '(not asked)')}[/]"]
    if found.confidence is not None:
        parts.append(f"{found.confidence:.2f}")
    if not found.matched and not found.skipped:
        parts.append("[yellow]no class fits[/]")
    if found.degraded:
        parts.append(f"[dim]without: {', '.join(found.degraded)}[/]")
    if of:
        parts.append(f"[dim]{escape(of)}[/]")
    out.print("  ".join(parts))


# -- capabilities --------------------------------------------------------------------------


def select(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What a user says.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="The capabilities; default: capabilities.file.")
    ] = None,
    url: Url = None,
    batch: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Select for each line of this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Say which capabilities a text needs: by a language model, or without one."""
    if (text is None) == (batch is None):
        raise typer.BadParameter("give a text or --batch", param_hint="TEXT")
    with _selecting(config, url, load_settings(context.obj)) as select:
        for line in lines_of(batch or "") if text is None else [text]:
            _print_selected(select(line), json=json, of="" if text else line)


@contextmanager
def _selecting(
    config: Path | None, url: str | None, settings: Settings
) -> Generator[Callable[[str], CapabilitySelection]]:
    """Selector of the capabilities of a file here, or of a service."""
    if config is not None and url is not None:
        raise typer.BadParameter("name either a file or a service", param_hint="--url")
    service = url or (None if config else settings.url)
    if service is None:
        from toolcrib import build

        yield build.capability_selector(config, settings).select
        return
    with remote_crib(service, settings) as crib:
        yield crib.select_capabilities


def _print_selected(found: CapabilitySelection, *, json: bool, of: str) -> None:
    if json:
        print_json(as_json(found))
        return
    parts = [f"[bold]{escape(', '.join(found.active) or '(none)')}[/]"]
    if found.degraded:
        parts.append(f"[dim]without: {', '.join(found.degraded)}[/]")
    if of:
        parts.append(f"[dim]{escape(of)}[/]")
    out.print("  ".join(parts))


# -- allowlist -----------------------------------------------------------------------------


def allowlist(
    url: Annotated[
        str, typer.Argument(metavar="SQLALCHEMY_URL", help="As in postgresql://user@host/name.")
    ],
    schema: Annotated[
        str | None, typer.Option(help="Which schema; default: the database's own.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Write the file here.")] = None,
    json: Json = False,
) -> None:
    """Write the tables and columns of a database as the allowlist of decisions."""
    from toolcrib.router.choices.allowlist import reflect

    found = reflect(url, schema)
    made = found.as_file()
    text = yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=100)
    if file is not None:
        write_file(file, text)
        notes.print(f"{len(found.tables)} tables in {file}; name it as agents.allowlist")
    elif json:
        print_json(made)
    else:
        typer.echo(text, nl=False)


# -- eval ------------------------------------------------------------------------------------


def agents(
    context: typer.Context,
    file: LabelledFile,
    split: Split = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure which target turns are sent to, by the `labels: {agent: TARGET}` of FILE."""
    from toolcrib.build import make_agents
    from toolcrib.evaluation.choices import Choice, read_labelled

    router = make_agents(load_settings(context.obj))

    def choose(turn: Turn) -> Choice:
        told, failed = router.route(turn)
        return Choice(frozenset((told.target,)), {told.target: told.confidence}, failed)

    found = _measure_with_progress(file.stem, read_labelled(file, "agent", split), choose, split)
    _show("agents", [found], html=html, json=json)


def routing(
    context: typer.Context,
    file: LabelledFile,
    split: Split = None,
    store: StoreOption = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure where turns go over an index, by the `labels: {route: KIND}` of FILE."""
    from toolcrib.evaluation.choices import Choice, read_labelled

    with open_crib(context, store) as crib:

        def choose(turn: Turn) -> Choice:
            made = crib.route(turn)
            route = made.route
            sure = {} if route.confidence is None else {route.kind: route.confidence}
            return Choice(frozenset((route.kind,)), sure, made.degraded)

        found = _measure_with_progress(
            file.stem, read_labelled(file, "route", split), choose, split
        )
    _show("routing", [found], html=html, json=json)


def questions(
    context: typer.Context,
    file: LabelledFile,
    config: Annotated[
        Path | None,
        typer.Option(help="The question; default: the `config` of each row, beside FILE."),
    ] = None,
    split: Split = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure how turns are classified: rows with `text` and `labels: {branch: id}`."""
    from toolcrib import build
    from toolcrib.evaluation.choices import measure_choices, read_labelled

    turns = read_labelled(file, "branch", split)
    if config is None and not all(each.config for each in turns):
        raise typer.BadParameter("not every row names its `config`", param_hint="--config")
    settings = load_settings(context.obj)
    dense = build.make_dense(settings)
    results: list[ChoiceResult] = []
    asked: list[LabelledTurn] = []
    made: list[Choice] = []
    for name in dict.fromkeys(str(config or each.config) for each in turns):
        path = config or file.parent / name
        classifier = build.question_classifier(path, settings, dense=dense)
        own = [each for each in turns if config is not None or each.config == name]

        def choose(turn: Turn, by: QuestionClassifier = classifier) -> Choice:
            made.append(_question_choice(by, turn))
            return made[-1]

        results.append(_measure_with_progress(name, own, choose, split))
        asked += own
    if len(results) > 1:
        again = iter(made)
        results.append(measure_choices("all", asked, lambda _: next(again), split=split or "all"))
    _show("questions", results, html=html, json=json)


def capabilities(
    context: typer.Context,
    file: LabelledFile,
    config: Annotated[
        Path | None, typer.Option(help="The capabilities; default: capabilities.file.")
    ] = None,
    split: Split = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure how capabilities are selected: rows with `labels: {capabilities: [name, ...]}`.

    Those that are always active are left out, of what is right as of what was selected.
    """
    from toolcrib import build
    from toolcrib.evaluation.choices import Choice, read_labelled

    turns = read_labelled(file, "capabilities", split)
    selector = build.capability_selector(config, load_settings(context.obj))

    def choose(turn: Turn) -> Choice:
        found = selector.select(turn)
        labels = frozenset(found.active) - selector.always
        return Choice(labels, found.probabilities, found.degraded)

    turns = [replace(each, right=each.right - selector.always) for each in turns]
    found = _measure_with_progress(file.stem, turns, choose, split)
    _show("capabilities", [found], html=html, json=json)


def _question_choice(classifier: QuestionClassifier, turn: Turn) -> Choice:
    from toolcrib.evaluation.choices import Choice

    found = classifier.classify(turn)
    labels = frozenset[str]() if found.branch is None else frozenset({found.branch})
    sure: Mapping[str, float] = {}
    if found.branch is not None and found.confidence is not None:
        sure = {found.branch: found.confidence}
    return Choice(labels, sure, found.degraded)


def _measure_with_progress(
    name: str, turns: Sequence[LabelledTurn], choose: Callable[[Turn], Choice], split: str | None
) -> ChoiceResult:
    from toolcrib.evaluation.choices import measure_choices

    with counting("asking", lambda: f"{NOTHING_KEPT_NOTE}; --split makes it shorter") as listener:
        done = partial(listener, name)
        return measure_choices(name, turns, choose, split=split or "all", progress=done)


def _show(kind: str, results: Sequence[ChoiceResult], *, html: Path | None, json: bool) -> None:
    if html is not None:
        from toolcrib.evaluation.report.choices import render_choices

        write_file(html, render_choices(kind, results))
    if json:
        print_json({"kind": kind, "sets": [asdict(one) for one in results]})
    else:
        print_choices(results)
