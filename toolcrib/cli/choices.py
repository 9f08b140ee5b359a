"""`toolcrib classify`, `eval questions|capabilities`: choices other than tools, and their worth."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from rich.markup import escape

from toolcrib.cli.options import Json, lines_of
from toolcrib.cli.output import out, print_choices, print_json
from toolcrib.cli.progress import counting
from toolcrib.errors import QuestionRenderError, StoreWriteError
from toolcrib.records import Turn
from toolcrib.records.codec import as_json
from toolcrib.settings import load_settings

if TYPE_CHECKING:
    from toolcrib.evaluation.choices import Choice, ChoiceResult, LabelledTurn
    from toolcrib.records.choices import Classification
    from toolcrib.router.questions.classifier import QuestionClassifier

__all__ = ["Html", "LabelledFile", "Split", "capabilities", "classify", "questions", "show_choices"]

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
    config: Annotated[Path, typer.Argument(help="The question with its classes, YAML or JSON.")],
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
    json: Json = False,
) -> None:
    """Say which class of a question fits a text: by a language model, or without one."""
    from toolcrib import build

    if (text is None) == (batch is None):
        raise typer.BadParameter("give a text or --batch", param_hint="TEXT")
    given = _variables(variable or [])
    nodes = _outputs(outputs)
    classifier = build.question_classifier(config, load_settings(context.obj))
    ask = partial(classifier.classify, variables=given, outputs=nodes)
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


# -- eval ------------------------------------------------------------------------------------


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
    with counting("asking", lambda: "nothing is kept; the same command begins anew") as listener:
        for name in dict.fromkeys(str(config or each.config) for each in turns):
            path = config or file.parent / name
            classifier = build.question_classifier(path, settings, dense=dense)
            own = [each for each in turns if config is not None or each.config == name]
            done = partial(listener, name)

            def choose(turn: Turn, by: QuestionClassifier = classifier) -> Choice:
                made.append(_chosen(by, turn))
                return made[-1]

            results.append(measure_choices(name, own, choose, split=split or "", progress=done))
            asked += own
    if len(results) > 1:
        again = iter(made)
        results.append(measure_choices("all", asked, lambda _: next(again), split=split or ""))
    show_choices("questions", results, html=html, json=json)


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
    from toolcrib.evaluation.choices import Choice, measure_choices, read_labelled

    turns = read_labelled(file, "capabilities", split)
    selector = build.capability_selector(config, load_settings(context.obj))

    def choose(turn: Turn) -> Choice:
        found = selector.select(turn)
        labels = frozenset(found.active) - selector.always
        return Choice(labels, found.probabilities, found.degraded)

    turns = [replace(each, right=each.right - selector.always) for each in turns]
    with counting("asking", lambda: "nothing is kept; the same command begins anew") as listener:
        done = partial(listener, file.name)
        found = measure_choices(file.name, turns, choose, split=split or "", progress=done)
    show_choices("capabilities", [found], html=html, json=json)


def _chosen(classifier: QuestionClassifier, turn: Turn) -> Choice:
    from toolcrib.evaluation.choices import Choice

    found = classifier.classify(turn)
    labels = frozenset[str]() if found.branch is None else frozenset({found.branch})
    sure: Mapping[str, float] = {}
    if found.branch is not None and found.confidence is not None:
        sure = {found.branch: found.confidence}
    return Choice(labels, sure, found.degraded)


def show_choices(
    kind: str, results: Sequence[ChoiceResult], *, html: Path | None, json: bool
) -> None:
    """Print what was measured, and write its page.

    Raises:
        StoreWriteError: the page cannot be written.
    """
    if html is not None:
        from toolcrib.evaluation.report.choices import render_choices

        try:
            html.write_text(render_choices(kind, results), encoding="utf-8")
        except OSError as error:
            raise StoreWriteError(f"{html} cannot be written: {error.strerror}") from error
    if json:
        print_json({"kind": kind, "sets": [asdict(one) for one in results]})
    else:
        print_choices(results)
