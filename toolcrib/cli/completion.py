"""Completions of the shell: ids, servers, tags, collections and keys that there are.

Nobody reads an error while a key is pressed: what cannot be had is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from toolcrib import build
from toolcrib.cli.opening import GATEWAY_STORE, remote_crib, service_of
from toolcrib.settings import Settings, load_settings

if TYPE_CHECKING:
    from toolcrib.client import RemoteCrib
    from toolcrib.crib import Crib

MAX_COMPLETED_TOOLS = 20_000
"""As many are looked through: a second's work."""

SERVICE_TIMEOUT_S = 2.0
"""Timeout of a service: somebody waits for a key that was pressed."""

Completion: TypeAlias = Callable[[typer.Context], list[str]]
"""Function that offers completions; typer keeps those that begin as the word so far."""


def _of_crib(known: Callable[[Crib | RemoteCrib], Iterable[str]]) -> Completion:
    """Offers what the crib knows that the command would work on."""

    def complete(context: typer.Context) -> list[str]:
        with suppress(Exception), closing(_crib(context)) as crib:
            return sorted(known(crib))
        return []

    return complete


def _crib(context: typer.Context) -> Crib | RemoteCrib:
    from toolcrib.crib import Crib

    service = _service(context)
    if service is not None:
        return service

    settings, store = _settings_and_store(context)
    location = store or settings.store
    if not build.has_index(location):
        raise LookupError(location)
    return Crib.open(location, settings=settings)


def _service(context: typer.Context) -> RemoteCrib | None:
    """The service that the command would go to; None where it opens a store."""
    settings, store = _settings_and_store(context)
    service = service_of(settings, store, context.params.get("url"))
    if service is None:
        return None
    return remote_crib(service, settings, timeout_s=SERVICE_TIMEOUT_S, attempts=1)


def _of_records(
    known: Callable[[Any], Iterable[str]],
    place: Callable[[Settings], str] = lambda settings: settings.store,
) -> Completion:
    """Offers what is kept beside the index, which a running service does not hold."""

    def complete(context: typer.Context) -> list[str]:
        with suppress(Exception):
            settings, store = _settings_and_store(context)
            location = store or place(settings)
            if build.has_index(location):
                with closing(build.open_records_db(location, settings)) as records_db:
                    return list(known(records_db))
        return []

    return complete


def _settings_and_store(context: typer.Context) -> tuple[Settings, str | None]:
    """The settings and the store that stand on the line so far."""
    settings = load_settings(context.find_root().params.get("settings"))
    return settings, context.params.get("store")


def _keys(records_db: Any) -> Iterable[str]:
    from toolcrib.access.keys import KeyRing

    return [key.id for key in KeyRing(records_db).list()]


def _place_of_held(settings: Settings) -> str:
    return GATEWAY_STORE if build.has_index(GATEWAY_STORE) else settings.store


def _held_ids(records_db: Any) -> Iterable[str]:
    from toolcrib.access.quarantine import Quarantine
    from toolcrib.records.scope import DEFAULT_NAMESPACE

    return [held.tool_id for held in Quarantine(records_db, DEFAULT_NAMESPACE).list()]


complete_tools = _of_crib(
    lambda crib: (tool.id for tool in islice(crib.list_tools(), MAX_COMPLETED_TOOLS))
)
complete_servers = _of_crib(lambda crib: crib.facets().servers)
complete_tags = _of_crib(lambda crib: crib.facets().tags)
complete_collections = _of_crib(lambda crib: [each.name for each, _ in crib.list_collections()])
complete_keys = _of_records(_keys)
_complete_held_in_store = _of_records(_held_ids, _place_of_held)


def complete_held(context: typer.Context) -> list[str]:
    """Offers what is held back, in a store or by a service."""
    with suppress(Exception):
        service = _service(context)
        if service is None:
            return _complete_held_in_store(context)
        with closing(service) as crib:
            return [each.tool_id for each in crib.held_tools()]
    return []


def complete_formats() -> list[str]:
    """Offers what `--format` takes."""
    from toolcrib.indexers.readers.registry import formats

    return list(formats())


def complete_systems() -> list[str]:
    """Offers what can be measured."""
    from toolcrib.evaluation.systems.base import BASELINES, OURS

    return ["ours", "baselines", "all", *OURS, *BASELINES]
