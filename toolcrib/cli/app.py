"""The commands, and what they share: settings, verbosity, and error output."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup
from typer.main import get_command

from toolcrib import __version__
from toolcrib.cli.output import notes, print_error
from toolcrib.errors import ToolcribError

logger = logging.getLogger(__name__)

COMMANDS = {
    "index": ".index:index",
    "search": ".search:search",
    "index-docs": ".index:index_docs",
    "collections": ".index:collections",
    "route": ".search:route",
    "classify": ".choices:classify",
    "capabilities": ".choices:select",
    "allowlist": ".choices:allowlist",
    "report": ".evaluate:report",
    "learn": ".learn:learn",
    "enrich": ".enrich:enrich",
    "list": ".index:list_tools",
    "show": ".index:show",
    "check-tools": ".index:check_tools",
    "remove": ".index:remove",
    "doctor": ".doctor:doctor",
    "calibrate": ".evaluate:calibrate",
    "eval": ".evaluate:app",
    "judge": ".judge:judge",
    "train": ".train:train",
    "top": ".top:top",
    "serve": "toolcrib.serve:serve",
    "keys": ".admin:app",
    "store": ".admin:store_app",
    "gateway": "toolcrib.serve:gateway_app",
    "install": ".hosts:install",
    "import": ".hosts:import_servers",
    "lint": ".lint:lint",
    "audit": ".admin:audit",
    "approve": ".admin:approve",
    "docs": ".docs:docs",
    "schema": ".docs:schema",
}
"""Module of each command, and its function or group of subcommands there.

Commands that start another application are in `toolcrib.serve`.
"""


class Commands(TyperGroup):
    """Imports a command only when it runs, as commands need different packages."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # Click reads these names to suggest one for a mistyped command.
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 -- they are always these
        """The command of this name, or None."""
        return load(cmd_name) if cmd_name in COMMANDS else None


def load(name: str) -> Any:
    """Import one of `COMMANDS`."""
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(import_module(module, __package__), attribute)
    made = get_command(found if isinstance(found, typer.Typer) else _single_command(name, found))
    made.name, made.epilog = name, MORE_HELP
    for each in command_leaves(made):
        each.params += [param for param in _shared_options().params if param.name in SHARED_OPTIONS]
        each.epilog = MORE_HELP
    return made


def _single_command(name: str, command: Callable[..., Any]) -> typer.Typer:
    made = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    made.command(name)(command)
    return made


def command_leaves(command: Any) -> Iterator[Any]:
    """The command itself, or all subcommands of a group."""
    if not isinstance(command, TyperGroup):
        yield command
        return
    for each in command.commands.values():
        yield from command_leaves(each)


MORE_HELP = "More: toolcrib docs commands"
"""Last line of the help of a command."""


# -- verbosity -------------------------------------------------------------------------------

SHARED_OPTIONS = ("quiet", "verbose")
"""Options that may stand before or after the command."""


ADDRESS = re.compile(r'(?<=://)(?:[^\s/?#@"]*@)?([^\s/?#"]*)[^\s"]*')
"""Address behind its scheme, with the host as a group."""


class _LogFormatter(logging.Formatter):
    """Formatter that leaves only the hosts of addresses that other packages log.

    The rest of a server's URL may hold a secret.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        return line if record.name.startswith("toolcrib") else ADDRESS.sub(r"\1", line)


def _decrease_verbosity(value: bool) -> bool:  # noqa: FBT001 -- typer calls it with the flag's value
    if value:
        notes.quiet = True
    return value


def _increase_verbosity(value: int) -> int:
    if value:
        handler = logging.StreamHandler()
        handler.setFormatter(_LogFormatter("%(name)s: %(message)s"))
        logging.basicConfig(handlers=[handler])
        logging.getLogger().setLevel(logging.DEBUG if value > 1 else logging.INFO)
    return value


Quiet: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        callback=_decrease_verbosity,
        help="Print only answers, warnings and errors.",
    ),
]
Verbose: TypeAlias = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        callback=_increase_verbosity,
        help="Print the steps and the origin of errors; twice: print all log records.",
    ),
]


@cache
def _shared_options() -> Any:
    """Parameters of the shared options; their callbacks do the work."""

    def accept_shared_options(quiet: Quiet = False, verbose: Verbose = 0) -> None: ...

    made = get_command(_single_command("shared", accept_shared_options))
    for param in made.params:
        param.expose_value = False
    return made


# -- the application -------------------------------------------------------------------------

app = typer.Typer(
    name="toolcrib",
    cls=Commands,
    help="Hands an AI agent the few tools that its current turn needs, out of thousands.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:  # noqa: FBT001 -- typer calls it with the flag's value
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _configure(
    context: typer.Context,
    settings: Annotated[
        Path | None,
        typer.Option(help="Settings file; default: toolcrib.yaml in this folder, if it exists."),
    ] = None,
    version: Annotated[  # noqa: ARG001 -- its callback does the work
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,  # noqa: ARG001 -- the same
) -> None:
    context.obj = settings
    notes.quiet = quiet


def report(error: Exception, *, as_json: bool) -> int:
    """Print our own errors and the system's, and return the exit code; re-raise all others."""
    if not isinstance(error, ToolcribError | OSError):
        raise error
    from toolcrib.problems import exit_code

    try:
        print_error(error, as_json=as_json)
    except OSError as refused:  # of standard output
        print_error(refused, as_json=False)
    logger.info("origin of the error", exc_info=error)
    return exit_code(error)
