"""Opening of a command's crib, embedded or behind a service."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import typer

from toolcrib.cli import Process
from toolcrib.errors import SettingsError, StoreError, ToolcribError
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import Settings, load_settings, secret_text
from toolcrib.store.folder import LOGINS_FOLDER

if TYPE_CHECKING:
    from toolcrib.client import RemoteCrib
    from toolcrib.crib import Crib
    from toolcrib.encoders.base import DenseEncoder
    from toolcrib.indexers.writer import Listener

logger = logging.getLogger(__name__)

AnyCrib: TypeAlias = "Crib | RemoteCrib"
"""Crib of a store, or behind a service."""

GATEWAY_STORE = ".toolcrib-gateway"
"""Default folder of a gateway's index and approvals."""


def service_of(settings: Settings, store: str | None, url: str | None) -> str | None:
    """The URL of the service that a command uses; None if it opens a store itself."""
    if store is not None and url is not None:
        raise typer.BadParameter("name either a store or a service", param_hint="--url")
    return url if store is not None else url or settings.url


def gateway_store(store: str | None, settings: Settings) -> str:
    """The named store, else the gateway's in this folder, else that of the settings."""
    if store is None:
        return GATEWAY_STORE if Path(GATEWAY_STORE).is_dir() else settings.store
    require_store(store)
    return store


def use_logins(settings: Settings) -> None:
    """Let readers of MCP servers use the logins of `toolcrib gateway login`."""
    from toolcrib.indexers.readers.mcp_config import HttpTarget, Target
    from toolcrib.indexers.readers.mcp_session import Authorisation

    location = gateway_store(None, settings)

    def authorise(target: Target) -> Any:
        has_any = settings.gateway.logins == "keyring" or (Path(location) / LOGINS_FOLDER).is_dir()
        if not has_any or not isinstance(target, HttpTarget):
            return None
        from toolcrib.access.logins import Logins

        return Logins.open(location, settings.gateway, "toolcrib gateway login {}".format).auth(
            target
        )

    Authorisation.of = authorise


def require_store(location: str) -> None:
    """Require that a folder has a store; a server passes unchecked."""
    from toolcrib import build

    if not (build.is_url(location) or Path(location).is_dir()):
        raise StoreError(f"there is no store in {location}: check the name given as --store")


class Opening(TypedDict, total=False):
    """Options to open a store.

    `writes`: services over the same server are notified at the end. Without `ranks` no reranker is
    loaded; default: not for a command that writes. `tools_only`: the knowledge base is left empty.
    `reads_only`: the command opens no further store. `may_lack_index`: without an index, a crib in
    memory is used if the settings have targets.
    """

    writes: bool
    create: bool
    rebuild: bool
    ranks: bool
    tools_only: bool
    reads_only: bool
    may_lack_index: bool
    progress: Listener | None


@contextmanager
def any_crib(
    context: typer.Context, store: str | None, url: str | None, **how: Unpack[Opening]
) -> Generator[AnyCrib]:
    """The crib that a command works on, embedded or behind a service."""
    settings = load_settings(context.obj)
    service = service_of(settings, store, url)
    if service is None:
        how["reads_only"] = not how.get("writes")
        with open_crib(context, store or settings.store, **how) as crib:
            yield crib
        return
    if how.get("rebuild"):
        raise typer.BadParameter(
            f"this needs the index itself, not the service at {service}: name the index with "
            "--store; if it is a folder, stop the service first (`toolcrib docs operate`)",
            param_hint="--rebuild",
        )
    with remote_crib(service, settings) as crib:
        yield crib


def remote_crib(
    url: str, settings: Settings, *, timeout_s: float = 10.0, attempts: int = 4
) -> RemoteCrib:
    """The crib behind a service, with key and namespace of the settings."""
    from toolcrib.client import RemoteCrib

    logger.info("using the service at %s", url)
    return RemoteCrib(
        url,
        api_key=secret_text(settings.api_key),
        namespace=settings.namespace,
        timeout_s=timeout_s,
        attempts=attempts,
    )


@contextmanager
def open_crib(context: typer.Context, store: str | None, **how: Unpack[Opening]) -> Generator[Crib]:
    """The crib of a store, for commands that need the index itself."""
    settings = load_settings(context.obj)
    if store is None and settings.url is not None:
        raise SettingsError(
            f"this needs the index itself, not the service at {settings.url}: name it with --store"
        )
    writes = how.get("writes", False)
    if not how.setdefault("ranks", not writes):
        rerank = replace(settings.rerank, load="use")
        settings = settings.model_copy(update={"rerank": rerank})
    location = store or settings.store
    if settings.namespace not in {None, DEFAULT_NAMESPACE}:
        logger.warning(
            "the setting namespace (%s) is for a service: in the store %s this works on the "
            "default namespace",
            settings.namespace,
            location,
        )
    with _open(location, settings, how) as crib:
        try:
            yield crib
        finally:
            if writes:
                from toolcrib.tenants import announce

                announce(location, settings, [DEFAULT_NAMESPACE])


def _open(location: str, settings: Settings, how: Opening) -> Crib:
    from toolcrib import build
    from toolcrib.crib import Crib

    if not how.get("create") and not build.has_index(location):
        if how.get("may_lack_index") and settings.agents.targets is not None:
            return Crib.open(":memory:", settings=settings)
        raise StoreError(
            f"there is no index in {location}; make one with "
            f"`toolcrib index SOURCE... --store {location}`"
        )
    logger.info("using the store %s", location)
    if how.get("rebuild"):
        from toolcrib.tenants import rebuild

        rebuild(location, settings, how.get("progress"))
    dense = build.make_dense(settings)
    if how.get("ranks") and settings.encoder.dense == "bundled":
        # The package's model loads while the index is checked and opened. The process waits for
        # the thread: onnxruntime must not load while it ends.
        Thread(target=_load, args=(dense,)).start()
    parts = build.open_parts(
        location,
        settings,
        dense=dense,
        ends_with_process=how.get("reads_only", False) and Process.runs_one_command,
        tools_only=how.get("tools_only", False),
    )
    return Crib(*parts, decides=settings.learning.enabled)


def _load(dense: DenseEncoder) -> None:
    with suppress(ToolcribError):  # the first query raises it again
        dense.encode_query("load")
