"""The commands, gathered; what they share: settings, the opened crib, errors in words."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from toolcrib.cli.screen import print_error
from toolcrib.errors import ToolcribError
from toolcrib.problems import exit_code

__all__ = ["COMMANDS", "app", "load", "report"]

COMMANDS = {
    "index": "index:index",
    "search": "search:search",
    "index-docs": "documents:index_docs",
    "collections": "documents:collections",
    "route": "route:route",
    "report": "report:report",
    "list": "browse:list_tools",
    "show": "browse:show",
    "remove": "browse:remove",
    "doctor": "doctor:doctor",
    "calibrate": "calibrate:calibrate",
    "eval": "evaluate:app",
    "train": "train:train",
    "serve": "serve:serve",
    "keys": "keys:app",
    "gateway": "gateway:gateway",
    "audit": "audit:audit",
    "approve": "approve:approve",
}
"""The module beside this one, and in it the function, or the group of further commands."""


class Commands(TyperGroup):
    """Imports a command when it is asked for: most need what others do not."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 -- they are always the same
        """Their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 -- the same
        """One of them, None where there is none of that name."""
        return load(cmd_name) if cmd_name in COMMANDS else None


def load(name: str) -> Any:
    """Import one of `COMMANDS`."""
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(f"toolcrib.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = found
    else:
        group = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        group.command(name)(found)
    made = get_command(group)
    made.name = name
    return made


app = typer.Typer(
    name="toolcrib",
    cls=Commands,
    help="Hands an AI agent the few tools that its current turn needs, out of thousands.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:  # noqa: FBT001 -- typer calls it with the flag's value
    if value:
        from toolcrib import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _configure(
    context: typer.Context,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings file; default: toolcrib.yaml in this folder, if there is one."),
    ] = None,
    version: Annotated[  # noqa: ARG001 -- its callback does the work
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    context.obj = settings


def report(error: Exception, *, as_json: bool) -> int:
    """Say what went wrong and return the exit code; what is not ours is raised on."""
    if not isinstance(error, ToolcribError):
        raise error
    print_error(error, as_json=as_json)
    return exit_code(error)
