"""Commands for choices other than of tools: `classify`, `capabilities`, `allowlist`."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
import yaml
from rich.markup import escape

from toolcrib.cli.opening import remote_crib
from toolcrib.cli.options import Json, Url, lines_of
from toolcrib.cli.output import notes, print_either, print_json, write_file
from toolcrib.errors import QuestionRenderError
from toolcrib.settings import Settings, load_settings

if TYPE_CHECKING:
    from toolcrib.records.turns import CapabilitySelection, Classification

# -- classify --------------------------------------------------------------------------------


def classify(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            help="File of a question with classes, YAML or JSON; or its name in the settings or a "
            "service."
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
        typer.Option(metavar="JSON", help="Outputs of earlier nodes, by node, for run_if."),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Classify a text by a question, with or without a language model."""
    if (text is None) == (batch is None):
        raise typer.BadParameter("give a text or --batch", param_hint="TEXT")
    given = _variables(variable or [])
    nodes = _outputs(outputs)
    with _open_classifier(config, url, load_settings(context.obj)) as classify:
        for line in lines_of(batch or "") if text is None else [text]:
            try:
                found = classify(line, variables=given, outputs=nodes)
                _print(found, _class_parts(found), "" if text else line, json=json)
            except QuestionRenderError as error:
                if text is not None:
                    raise
                # A bad line is answered with its error, so that answers match lines.
                answer = {"branch": None, "error": str(error)}
                print_either(answer, f"[yellow]{escape(str(error))}[/]", json=json)


@contextmanager
def _open_classifier(
    config: Path, url: str | None, settings: Settings
) -> Generator[Callable[..., Classification]]:
    """Classifier of a question: of a file, of a name in the settings, or of a service."""
    is_file = config.is_file()
    if service := url or (None if is_file else settings.url):
        with remote_crib(service, settings) as crib:
            yield partial(crib.classify, str(config))
        return
    from toolcrib import build

    named = None if is_file else settings.questions.get(str(config))
    yield build.question_classifier(named or config, settings).classify


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
        raise typer.BadParameter("must be an object with names of nodes", param_hint="--outputs")
    return cast("dict[str, Any]", found)


def _class_parts(found: Classification) -> list[str]:
    parts = [f"[bold]{escape(found.branch or '(not asked)')}[/]"]
    if found.confidence is not None:
        parts.append(f"{found.confidence:.2f}")
    if not found.matched and not found.skipped:
        parts.append("[yellow]no class fits[/]")
    return parts


def _print(
    found: Classification | CapabilitySelection, parts: Sequence[str], text: str, *, json: bool
) -> None:
    """Print a choice in one line, with its text unless empty."""
    without = [f"[dim]without: {', '.join(found.degraded)}[/]"] if found.degraded else []
    of = [f"[dim]{escape(text)}[/]"] if text else []
    print_either(found, "  ".join([*parts, *without, *of]), json=json)


# -- capabilities --------------------------------------------------------------------------


def select(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What a user says.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="File of capabilities; default: capabilities.file.")
    ] = None,
    url: Url = None,
    batch: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Select for each line of this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Select the capabilities that a text needs, with or without a language model."""
    if (text is None) == (batch is None):
        raise typer.BadParameter("give a text or --batch", param_hint="TEXT")
    with _open_selector(config, url, load_settings(context.obj)) as select:
        for line in lines_of(batch or "") if text is None else [text]:
            found = select(line)
            named = f"[bold]{escape(', '.join(found.active) or '(none)')}[/]"
            _print(found, [named], "" if text else line, json=json)


@contextmanager
def _open_selector(
    config: Path | None, url: str | None, settings: Settings
) -> Generator[Callable[[str], CapabilitySelection]]:
    """Selector of the capabilities of a file, or of a service."""
    if config is not None and url is not None:
        raise typer.BadParameter("name either a file or a service", param_hint="--url")
    service = url or (None if config else settings.url)
    if service is None:
        from toolcrib import build

        yield build.capability_selector(config, settings).select
        return
    with remote_crib(service, settings) as crib:
        yield crib.select_capabilities


# -- allowlist -----------------------------------------------------------------------------


def allowlist(
    url: Annotated[
        str, typer.Argument(metavar="SQLALCHEMY_URL", help="Such as postgresql://user@host/name.")
    ],
    schema: Annotated[
        str | None, typer.Option(help="Schema; default: the database's default schema.")
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
