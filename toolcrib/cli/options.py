"""Options that commands share, their completions, and readers of sources, data sets and logs."""

from __future__ import annotations

import json as jsonlib
import logging
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from toolcrib import build
from toolcrib.cli.opening import GATEWAY_STORE, AnyCrib, open_crib, remote_crib, service_of
from toolcrib.errors import SettingsError, SourceError
from toolcrib.settings import Settings, load_settings
from toolcrib.store.filters import AnyOf, Filter, all_of

if TYPE_CHECKING:
    from toolcrib.client import RemoteCrib
    from toolcrib.evaluation.dataset import DataSet
    from toolcrib.indexers.sync import Entry
    from toolcrib.records import Refusal
    from toolcrib.store.records_db import RecordsDb

logger = logging.getLogger(__name__)

# -- groups -----------------------------------------------------------------------------------


class GroupWithRun(TyperGroup):
    """Group with `run` as default command: `eval DATASET` means `eval run DATASET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command if it was left out."""
        known = (*self.commands, *ctx.help_option_names)
        if args and args[0] not in known and not _is_mistyped(args, known):
            args = ["run", *args]
        return super().parse_args(ctx, args)


def _is_mistyped(args: Sequence[str], known: Iterable[str]) -> bool:
    """True for a first word that is no file, and resembles a command or precedes a file."""
    name, *others = args
    if Path(name).exists():
        return False
    is_before_file = name.isalpha() and any(Path(each).is_file() for each in others[:1])
    return is_before_file or bool(get_close_matches(name, known, cutoff=0.75))


# -- completions: a failure offers nothing, as an error would garble the prompt ---------------

MAX_COMPLETED_TOOLS = 20_000
"""Most tools that are read for a completion: a second's work."""

SERVICE_TIMEOUT_S = 2.0
"""Timeout of a service: the user waits for the completion."""

Completion: TypeAlias = Callable[[typer.Context], list[str]]
"""Function that lists completions; typer keeps those with the prefix typed so far."""


def _of_crib(known: Callable[[AnyCrib], Iterable[str]]) -> Completion:
    """Completion with values of the command's crib."""

    def complete(context: typer.Context) -> list[str]:
        with suppress(Exception), _crib(context) as crib:
            return sorted(known(crib))
        return []

    return complete


def _crib(context: typer.Context) -> AnyCrib:
    from toolcrib.crib import Crib

    settings = _settings(context)
    service = _service(context, settings)
    return service or Crib.open(_location(context, settings), settings=settings)


def _service(context: typer.Context, settings: Settings) -> RemoteCrib | None:
    """The service that the command would use; None if it opens a store."""
    named = context.params
    service = service_of(settings, named.get("store"), named.get("url"))
    if service is None:
        return None
    return remote_crib(service, settings, timeout_s=SERVICE_TIMEOUT_S, attempts=1)


def _location(context: typer.Context, settings: Settings, default: str | None = None) -> str:
    """The place of the index that the command would open."""
    location = context.params.get("store") or default or settings.store
    if not build.has_index(location):
        raise LookupError(location)
    return location


def _settings(context: typer.Context) -> Settings:
    return load_settings(context.find_root().params.get("settings"))


complete_tools = _of_crib(
    lambda crib: (tool.id for tool in islice(crib.list_tools(), MAX_COMPLETED_TOOLS))
)
complete_servers = _of_crib(lambda crib: crib.facets().servers)
complete_tags = _of_crib(lambda crib: crib.facets().tags)
complete_collections = _of_crib(lambda crib: [each.name for each, _ in crib.list_collections()])


def complete_keys(context: typer.Context) -> list[str]:
    """Completion with ids of keys."""
    from toolcrib.access.keys import KeyRing

    with suppress(Exception), _records_db(context, _settings(context)) as records_db:
        return [key.id for key in KeyRing(records_db).list()]
    return []


def complete_held(context: typer.Context) -> list[str]:
    """Completion with ids of held tools, of a store or a service."""
    from toolcrib.access.quarantine import Quarantine
    from toolcrib.records.scope import DEFAULT_NAMESPACE

    with suppress(Exception):
        settings = _settings(context)
        if service := _service(context, settings):
            with service:
                return [each.tool_id for each in service.held_tools()]
        default = GATEWAY_STORE if build.has_index(GATEWAY_STORE) else None
        with _records_db(context, settings, default) as records_db:
            return [held.tool_id for held in Quarantine(records_db, DEFAULT_NAMESPACE).list()]
    return []


@contextmanager
def _records_db(
    context: typer.Context, settings: Settings, default: str | None = None
) -> Generator[RecordsDb]:
    """The database beside an index, which a running service does not lock."""
    location = _location(context, settings, default)
    with closing(build.open_records_db(location, settings)) as records_db:
        yield records_db


def complete_formats() -> list[str]:
    """Completion with the values of `--format`."""
    from toolcrib.indexers.readers.registry import formats

    return list(formats())


def complete_systems() -> list[str]:
    """Completion with the names of systems."""
    from toolcrib.evaluation.systems.base import BASELINES, OWN_SYSTEMS

    return ["ours", "baselines", "all", *OWN_SYSTEMS, *BASELINES]


# -- options ---------------------------------------------------------------------------------


def _require_text(value: str | None) -> str | None:
    """Refuse an empty value, which comes from an unset shell variable."""
    if value == "":
        raise typer.BadParameter("is empty: leave the option out, or give a name")
    return value


def _expand_home(location: str | None) -> str | None:
    _require_text(location)
    # No shell expands `--store=~/index`.
    return location and os.path.expanduser(location)  # noqa: PTH111


def store_option(help: str) -> Any:
    """Option with the location of a store, where `~` is the home folder."""
    return typer.Option(callback=_expand_home, help=help)


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SOURCES_HELP = "Files, folders, module:attribute, MCP server URLs, stdio:COMMAND; -: input."
SourceServer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        callback=_require_text, help="Server of every tool, in place of the source's own."
    ),
]
SourceFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format", autocompletion=complete_formats, help="Read the sources as this format."
    ),
]
StoreOption: TypeAlias = Annotated[
    str | None, store_option("Folder or Qdrant URL of the index; default: .toolcrib.")
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(help="URL of a service to use; default: url. Its key is TOOLCRIB_API_KEY."),
]
Tools: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Tools in any indexable format, for --queries; may be repeated."),
]
Queries: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Labelled queries, JSONL; with --tools, or about the tools of the index."),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of all random choices.")]
Servers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        autocompletion=complete_servers,
        help="Only tools of this server; may be repeated.",
    ),
]
Tags: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", autocompletion=complete_tags, help="Only tools with this tag; may be repeated."
    ),
]
NoAudit: TypeAlias = Annotated[
    bool, typer.Option("--no-audit", help="Hold no tool back for its text.")
]
StrictAudit: TypeAlias = Annotated[
    bool, typer.Option("--strict", help="Also hold tools back for warnings of the audit.")
]
Overlays: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--overlay",
        help="Your additions to other people's tools, YAML; may be repeated. "
        "Default: overlay.yaml beside the sources.",
    ),
]
EnrichmentFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        help="Search texts of tools, written by `toolcrib enrich`; may be repeated. "
        "Default: enrichment.jsonl beside the sources."
    ),
]
Strict: TypeAlias = Annotated[bool, typer.Option("--strict", help="Exit with 1 for any refusal.")]
Log: TypeAlias = Annotated[
    Path | None, typer.Argument(help="Decision log, .jsonl; default: telemetry.path.")
]


# -- arguments -------------------------------------------------------------------------------


def read_tools(
    sources: Iterable[str], server: str | None = None, format: str | None = None
) -> list[Entry]:
    """Entries of the sources, each with its source; `-` is standard input.

    Reasons of refusals quote what servers wrote to standard error: without secrets.
    """
    from toolcrib.indexers.readers.registry import tool_entries
    from toolcrib.records import Refusal

    found: list[Entry] = []
    for source in dict.fromkeys(sources):
        if source == "-":
            found += _read_input(server, format)
        else:
            found += tool_entries(source, server, format)
    return [
        (source, _without_secrets(item) if isinstance(item, Refusal) else item)
        for source, item in found
    ]


def _without_secrets(refusal: Refusal) -> Refusal:
    from toolcrib.context.pii import without_secrets

    return replace(refusal, reason=without_secrets(refusal.reason))


def companion_files(sources: Sequence[str], name: str) -> list[Path]:
    """Files with this name in the folders, and beside the files, that `sources` name.

    A file that cannot be parsed is one too: without it tools would lose what it says of them.
    """
    from toolcrib.indexers.enrichment import COMPANION_CHECKS
    from toolcrib.indexers.readers.base import Source

    found = dict.fromkeys(folder_of(each) / name for each in sources)
    fits, read = COMPANION_CHECKS[name], {*map(Path, sources)}
    fitting: list[Path] = []
    for path in filter(Path.is_file, found):
        source = Source(str(path), path)
        if fits(source) or source.sample is None:
            fitting.append(path)
        elif not read & {path, path.parent}:  # else it is read as tools
            logger.warning("%s is not used: it has another form; see `toolcrib docs enrich`", path)
    return fitting


def folder_of(source: str) -> Path:
    """Folder of a source's companion files; the current folder if the source is no path."""
    if os.path.isdir(source):  # noqa: PTH112 -- pathlib raises for names that no file can have
        return Path(source)
    return Path(source).parent if os.path.isfile(source) else Path()  # noqa: PTH113 -- as above


def _read_input(server: str | None, format: str | None) -> Iterator[Entry]:
    """The tools of standard input, copied to a file, as readers read it more than once."""
    from toolcrib.indexers.readers.registry import tool_entries
    from toolcrib.records import Refusal

    name = "standard input"
    with TemporaryDirectory(prefix="toolcrib-") as folder:
        kept = Path(folder, "input")
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        for _, item in tool_entries(kept, server, format):
            yield name, replace(item, source=name) if isinstance(item, Refusal) else item


def tool_filter(servers: list[str] | None, tags: list[str] | None) -> Filter | None:
    """The filter that `--server` and `--tag` stand for."""
    return all_of(
        AnyOf("server", servers) if servers else None, AnyOf("tags", tags) if tags else None
    )


def load_sets(
    context: typer.Context,
    datasets: list[str] | None,
    store: str | None,
    tools: list[str] | None,
    queries: Path | None,
    split: str | None = None,
) -> list[DataSet]:
    """The named data sets, or the set of `--queries` with `--tools` or the index.

    A note tells of an index whose calibration was fitted on the queries of the split.
    """
    from toolcrib.evaluation.dataset import checked_data_set, labels_digest, read_queries
    from toolcrib.evaluation.loaders import load
    from toolcrib.retrieval.calibration import usable_calibration

    if bool(datasets) == bool(queries) or (tools and queries is None):
        raise typer.BadParameter("name data sets, or give --queries", param_hint="DATASET")
    if store is not None and (datasets or tools):
        raise typer.BadParameter("goes with --queries alone", param_hint="--store")
    if datasets:
        return [load(name) for name in datasets]
    if tools:
        return [load(tools=tools, queries=queries)]
    assert queries is not None
    with open_crib(context, store) as crib:
        name = queries.name.split(".")[0]
        data = checked_data_set(name, crib.list_tools(), read_queries(queries))
        fitted = usable_calibration(crib.tools.store, crib.tools.calibration_fingerprint())
        if fitted and split and fitted.data_digest == labels_digest(data.split(split)):
            note = "the index's calibration was fitted on these queries: ECE and AUROC are too good"
            data = replace(data, notes=(*data.notes, note))
        return [data]


def read_json(path: Path) -> Any:
    """The JSON document in a file."""
    try:
        return jsonlib.loads(path.read_bytes())
    except OSError as error:
        raise SourceError(str(path), "", f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SourceError(str(path), "", f"is not JSON: {error}") from error


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file, `-` for standard input, without their ends and byte order marks."""
    try:
        with nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8") as file:
            for line in file:
                # In the locale C standard input keeps wrong bytes, as lone surrogates: refuse them.
                line.encode()
                yield line.rstrip("\r\n").removeprefix("\ufeff")
    except OSError as error:
        raise SourceError(name, "", f"cannot be read: {error.strerror}") from error
    except UnicodeError as error:
        raise SourceError(name, "", "is not UTF-8 text; save or send it as UTF-8") from error


def logged_records(
    context: typer.Context, log: Path | None, url: str | None = None
) -> tuple[str, list[Mapping[str, Any]]]:
    """Name and records of the log, or of the service at `url`, oldest first."""
    from toolcrib.router.decision_log import open_log
    from toolcrib.router.settings import TelemetrySettings

    settings = load_settings(context.obj)
    if url is not None:
        with remote_crib(url, settings) as crib:
            records: list[Mapping[str, Any]] = list(crib.logged_records())
        if not records:
            raise SourceError(url, "", "holds no decision yet that this key may see")
        return url, records
    path = str(log) if log is not None else settings.telemetry.path
    opened = open_log(TelemetrySettings(path=path))
    if path is None or opened is None:
        raise SettingsError(
            "there is no decision log: name a file, or set telemetry.path and decide a turn first"
        )
    with closing(opened):
        records = list(opened.read())
    if not any(record.get("kind") == "decision" for record in records):
        reason = "holds no decision" if Path(path).exists() else "there is no such log"
        writer = "only while telemetry.path names it; a service has its own log (--url)"
        raise SourceError(path, "", f"{reason}; it is written {writer}")
    return path, records
