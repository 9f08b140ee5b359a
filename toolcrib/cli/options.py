"""Options that commands share, and what they open: cribs, data sets, logs, batches."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict, Unpack

import typer

from toolcrib.cli.completion import complete_formats, complete_servers, complete_tags
from toolcrib.errors import SettingsError, SourceError, StoreError
from toolcrib.records import Refusal
from toolcrib.settings import Settings, load_settings
from toolcrib.store.filters import AnyOf, Filter, all_of
from toolcrib.store.namespaced import DEFAULT

if TYPE_CHECKING:
    from toolcrib.client import RemoteCrib
    from toolcrib.crib import Crib
    from toolcrib.encoders.base import DenseEncoder
    from toolcrib.evaluation.dataset import DataSet
    from toolcrib.indexers.ray_data import RayActors
    from toolcrib.indexers.sync import Entry
    from toolcrib.indexers.writer import Listener

logger = logging.getLogger(__name__)

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SourceServer: TypeAlias = Annotated[
    str | None, typer.Option(help="The server of every tool, whatever the source says.")
]
SourceFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format", autocompletion=complete_formats, help="Read the sources as this format."
    ),
]
StoreOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Folder or Qdrant URL of the index; default: .toolcrib.")
]
Url: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Work through the service here; default: url. Its key is TOOLCRIB_API_KEY."),
]
Tools: TypeAlias = Annotated[
    str | None, typer.Option(help="Tools in any format that can be indexed; with --queries.")
]
Queries: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Labelled queries, JSONL; with --tools, or about the tools of the index."),
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Of everything that is random.")]
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
    bool, typer.Option("--no-audit", help="Hold nothing back, whatever its text says.")
]
Overlays: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--overlay",
        help="What you state of tools that are not yours, YAML; may be repeated. "
        "Default: overlay.yaml beside the sources.",
    ),
]
EnrichmentFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        help="Texts to find tools by, as `toolcrib enrich` writes them; may be repeated. "
        "Default: enrichment.jsonl beside the sources."
    ),
]
Strict: TypeAlias = Annotated[
    bool, typer.Option("--strict", help="Exit with 1 when anything was refused.")
]


class IndexEngine(StrEnum):
    """Where what is read is encoded: in this process, or by actors of Ray."""

    LOCAL = "local"
    RAY = "ray"


EngineOption: TypeAlias = Annotated[
    IndexEngine, typer.Option("--engine", help="Encode in this process, or by actors of Ray.")
]
RayAddress: TypeAlias = Annotated[
    str | None,
    typer.Option(help="A running Ray cluster, HOST:PORT; default: one on this machine alone."),
]
ActorCount: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Actors of Ray; default: one for each core.")
]
Log: TypeAlias = Annotated[
    Path | None, typer.Argument(help="Log of decisions, .jsonl; default: telemetry.path.")
]

GATEWAY_STORE = ".toolcrib-gateway"
"""Where a gateway keeps its index and its approvals, unless told otherwise."""


def service_of(settings: Settings, store: str | None, url: str | None) -> str | None:
    """The URL of the service that a command goes to; None where it opens a store itself.

    Raises:
        BadParameter: both a store and a service are named.
    """
    if store is not None and url is not None:
        raise typer.BadParameter("name either a store or a service", param_hint="--url")
    return url if store is not None else url or settings.url


class Opening(TypedDict, total=False):
    """How a command opens a store, in the words of `open_crib`."""

    create: bool
    rebuild: bool
    ranks: bool
    dense: DenseEncoder | None
    progress: Listener | None


@contextmanager
def any_crib(
    context: typer.Context,
    store: str | None,
    url: str | None,
    *,
    writes: bool = False,
    **how: Unpack[Opening],
) -> Generator[Crib | RemoteCrib]:
    """The crib that a command works on, embedded or behind a service.

    Raises:
        ToolcribError: as `open_crib`, or as `RemoteCrib`.
    """
    settings = load_settings(context.obj)
    service = service_of(settings, store, url)
    if service is not None:
        if how.get("rebuild"):
            raise typer.BadParameter("a service does that itself", param_hint="--rebuild")
        if how.get("dense") is not None:
            raise typer.BadParameter("a service encodes by itself", param_hint="--engine")
        with remote_crib(service, settings) as crib:
            yield crib
        return
    opened = writing_crib if writes else open_crib
    with opened(context, store or settings.store, **how) as crib:
        yield crib


def remote_crib(
    url: str, settings: Settings, *, timeout_s: float = 10.0, attempts: int = 4
) -> RemoteCrib:
    """The crib behind a service, by the key and in the namespace of the settings."""
    from toolcrib.client import RemoteCrib

    logger.info("through the service at %s", url)
    return RemoteCrib(
        url,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        namespace=settings.namespace,
        timeout_s=timeout_s,
        attempts=attempts,
    )


def open_crib(
    context: typer.Context,
    store: str | None,
    *,
    create: bool = False,
    rebuild: bool = False,
    ranks: bool = True,
    dense: DenseEncoder | None = None,
    progress: Listener | None = None,
) -> Crib:
    """The crib of a store, for commands that need the index itself; without `ranks`, no reranker.

    Raises:
        SettingsError: the settings name a service, and no store is named instead.
        StoreError: there is no index and `create` is not set.
        ToolcribError: as `Crib.open`.
    """
    from toolcrib import build
    from toolcrib.crib import Crib

    settings = load_settings(context.obj)
    if store is None and settings.url is not None:
        raise SettingsError(
            f"this needs the index itself, not the service at {settings.url}: name it with --store"
        )
    if not ranks:
        rerank = replace(settings.rerank, load="use")
        settings = settings.model_copy(update={"rerank": rerank})
    location = store or settings.store
    if not create and not build.has_index(location):
        raise StoreError(
            f"there is no index in {location}; make one with "
            f"`toolcrib index SOURCE... --store {location}`"
        )
    logger.info("in the store %s", location)
    return Crib.open(location, settings=settings, dense=dense, rebuild=rebuild, progress=progress)


@contextmanager
def writing_crib(
    context: typer.Context, store: str | None, **how: Unpack[Opening]
) -> Generator[Crib]:
    """The same for a command that writes: services over the same server hear of it at its end.

    Raises:
        ToolcribError: as `open_crib`.
    """
    from toolcrib.tenants import announce

    how.setdefault("ranks", False)
    with open_crib(context, store, **how) as crib:
        try:
            yield crib
        finally:
            settings = load_settings(context.obj)
            announce(store or settings.store, settings, [DEFAULT])


def ray_actors(engine: IndexEngine, address: str | None, workers: int | None) -> RayActors | None:
    """The actors that encode; None where this process does.

    Raises:
        BadParameter: something is said of actors that are not wanted.
        MissingExtraError: the extra `ray` is not installed.
    """
    if engine is IndexEngine.RAY:
        from toolcrib.indexers.ray_data import RayActors

        return RayActors(address, workers)
    if address is not None or workers is not None:
        raise typer.BadParameter("this is for --engine ray", param_hint="--ray-address, --workers")
    return None


def read_tools(
    sources: Iterable[str], server: str | None = None, format: str | None = None
) -> list[Entry]:
    """What the sources hold, each with where it came from; `-` is standard input."""
    from toolcrib.indexers.readers.registry import tool_entries

    found: list[Entry] = []
    for source in dict.fromkeys(sources):
        if source == "-":
            found += _read_input(server, format)
        else:
            found += tool_entries(source, server, format)
    return found


def _read_input(server: str | None, format: str | None) -> Iterator[Entry]:
    """The tools of standard input, which is a file meanwhile: readers go over it more than once."""
    from toolcrib.indexers.readers.registry import tool_entries

    name = "standard input"
    with TemporaryDirectory(prefix="toolcrib-") as folder:
        kept = Path(folder, "input")
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        for _, item in tool_entries(kept, server, format):
            yield name, replace(item, source=name) if isinstance(item, Refusal) else item


def narrowing(servers: list[str] | None, tags: list[str] | None) -> Filter | None:
    """The filter that `--server` and `--tag` stand for."""
    return all_of(
        AnyOf("server", servers) if servers else None, AnyOf("tags", tags) if tags else None
    )


def load_sets(
    context: typer.Context,
    datasets: list[str] | None,
    store: str | None,
    tools: str | None,
    queries: Path | None,
) -> list[DataSet]:
    """The data sets that are named, or the one of `--tools` or the index with `--queries`.

    Raises:
        BadParameter: both are named, or neither.
        ToolcribError: one cannot be read.
    """
    from toolcrib.evaluation.loaders import load, with_tools

    if bool(datasets) == bool(queries) or (tools is not None and queries is None):
        raise typer.BadParameter("name data sets, or give --queries", param_hint="DATASET")
    if datasets:
        return [load(name) for name in datasets]
    if tools is not None:
        return [load(tools=tools, queries=queries)]
    assert queries is not None
    with open_crib(context, store) as crib:
        return [with_tools(queries.name.split(".")[0], list(crib.list_tools()), queries)]


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file, `-` for standard input, without their ends.

    Raises:
        SourceError: it cannot be read, or is not UTF-8 text.
    """
    if name == "-":
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    try:
        with Path(name).open(encoding="utf-8") as file:
            yield from (line.rstrip("\r\n") for line in file)
    except OSError as error:
        raise SourceError(name, "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(name, "", f"is not UTF-8 text: {error.reason}") from error


def logged_records(context: typer.Context, log: Path | None) -> tuple[str, list[Mapping[str, Any]]]:
    """What the log is called, and its records, oldest first.

    Raises:
        SettingsError: no log is named and none is set, or its suffix is not known.
        SourceError: there is no such log, or nothing in it.
        StoreDamagedError: it cannot be read.
    """
    from toolcrib.router.decision_log import open_log
    from toolcrib.router.settings import TelemetrySettings

    path = str(log) if log is not None else load_settings(context.obj).telemetry.path
    opened = open_log(TelemetrySettings(path=path))
    if path is None or opened is None:
        raise SettingsError(
            "no log of decisions is kept: name one, or set telemetry.path and decide something"
        )
    with closing(opened):
        records = list(opened.read())
    if not records:
        reason = "holds no decision yet" if Path(path).exists() else "there is no such log"
        raise SourceError(path, "", f"{reason}; it is written while telemetry.path names it")
    return path, records
