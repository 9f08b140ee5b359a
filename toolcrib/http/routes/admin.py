"""Administration over HTTP: health, keys, quarantine, a gateway's activity, learning."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator
from starlette.exceptions import HTTPException
from starlette.responses import Response

from toolcrib.access.keys import MAX_KEY_DAYS, MIN_KEY_DAYS, Access, Grant, KeyRing, ListedKey
from toolcrib.access.server_file import ServerFile, ServerImport, listed_servers
from toolcrib.clock import DAY_S
from toolcrib.crib import Crib
from toolcrib.errors import (
    ForbiddenError,
    LearningOffError,
    QueryError,
    ServiceUnavailableError,
    SourceError,
    StoreError,
    StoreUnavailableError,
    ToolChangedError,
    UnknownToolError,
    nearest,
)
from toolcrib.http.context import RequestContext
from toolcrib.http.routes.tools import ToolId, is_allowed, write_tools
from toolcrib.http.routing import Body, Endpoint, Identifier, strict_config
from toolcrib.http.state import ServiceState
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_config import find_servers, variables_of
from toolcrib.records import Scope
from toolcrib.records.log import ConfiguredServer, GatewayActivity
from toolcrib.records.reports import Held, HeldTools, LearningStatus, ServiceInfo, Undone
from toolcrib.store.filters import from_scope

READINESS_TIMEOUT_S = 1.0
"""Time that metrics wait for the number of tools."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The process answers."""

    status: Literal["ok"] = "ok"


async def is_alive(context: RequestContext) -> Alive:  # noqa: ARG001 -- needs no context
    """Answer that the process is alive."""
    return Alive()


async def is_ready(context: RequestContext) -> ServiceInfo:
    """Check that requests can be answered: store, model and index."""
    if context.state.draining:
        raise ServiceUnavailableError("the service is stopping", retry_after_s=1.0)
    return await context.state.readiness.info(context.state.settings.service.timeout_s)


def watch(state: ServiceState) -> None:
    """Register gauges of the service's state."""
    metrics = state.telemetry.metrics
    metrics.watch("toolcrib_requests_under_way", "Requests under way.", lambda: state.under_way)
    metrics.watch(
        "toolcrib_abandoned_work",
        "Jobs whose result no request waits for.",
        lambda: state.workers.abandoned_jobs,
    )
    metrics.watch(
        "toolcrib_decisions_dropped", "Decisions that were not logged.", state.dropped_decisions
    )
    metrics.watch("toolcrib_tools", "Tools of the default namespace.", state.readiness.tools)


async def read_metrics(context: RequestContext) -> Response:
    """Give all metrics in Prometheus' text format."""
    # Metrics matter most during a failure, so they wait neither for the store nor for a worker.
    with suppress(Exception):
        await context.state.readiness.info(READINESS_TIMEOUT_S)
    text, kind = await asyncio.to_thread(context.state.telemetry.metrics.text)
    return Response(text, headers={"Content-Type": kind})


HEALTH_ERRORS = (StoreError,)
UNAVAILABLE = (ServiceUnavailableError, StoreUnavailableError)


# -- the caller ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Me:
    """The caller's key and its grant; `namespace` is that of this request."""

    name: str
    access: Access
    namespaces: tuple[str, ...]
    namespace: str
    scope: Scope


async def describe_me(context: RequestContext) -> Me:
    """Describe the caller's key and its grant."""
    grant, name = context.caller.grant, context.caller.name
    return Me(name, grant.access, grant.namespaces, context.namespace, context.scope())


# -- keys ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyList:
    """Keys, oldest first, expired and revoked keys too."""

    keys: tuple[ListedKey, ...]


class KeyBody(Body):
    """A key to make: its name, for people, and what it allows."""

    model_config = strict_config(examples=[{"name": "reader", "grant": {"servers": ["mail"]}}])

    name: Annotated[str, Field(min_length=1, max_length=100)]
    grant: Grant = Grant()
    expires_days: Annotated[float, Field(ge=MIN_KEY_DAYS, le=MAX_KEY_DAYS)] | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """New key, and the `text` that callers send: it is stored nowhere, and shown only once."""

    key: ListedKey
    text: str


async def list_keys(context: RequestContext) -> KeyList:
    """List the service's keys, never their texts."""
    keys = await context.run(_ring(context).list)
    return KeyList(tuple(key.listing(time.time()) for key in keys))


async def create_key(context: RequestContext, body: KeyBody) -> NewKey:
    """Make a key that reads or writes."""
    if body.grant.access == "admin":
        # Otherwise a stolen key could make keys that outlive it.
        raise ForbiddenError(
            "a key with the access admin is made by `toolcrib keys create NAME --admin` alone"
        )
    days = body.expires_days
    expires_at = None if days is None else time.time() + days * DAY_S
    make = partial(_ring(context).create, body.name, body.grant, expires_at)
    key, text = await context.run(make)
    return NewKey(key.listing(time.time()), text)


async def revoke_key(
    context: RequestContext, key_id: Annotated[str, Field(max_length=100)]
) -> None:
    """Revoke a key for good; it stops within two seconds."""
    if not await context.run(partial(_ring(context).revoke, key_id)):
        raise HTTPException(404, "there is no such key")


def _ring(context: RequestContext) -> KeyRing:
    return KeyRing(context.state.namespaces.records_db)


# -- quarantine ------------------------------------------------------------------------------


APPROVAL_SCHEMA: dict[str, Any] = {
    "if": {"properties": {"verdict": {"const": "approve"}}},
    "then": {"required": ["digest"], "properties": {"digest": {"type": "string"}}},
}


class VerdictBody(Body):
    """Verdict on a quarantined tool: approve serves it from now on, reject deletes it.

    An approval needs the `digest` that was shown; a rejection may have one.
    """

    model_config = strict_config(**APPROVAL_SCHEMA)

    verdict: Literal["approve", "reject"]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = Field(
        default=None, validate_default=True
    )

    @field_validator("digest")
    @classmethod
    def _require_digest(cls, digest: str | None, info: ValidationInfo) -> str | None:
        if digest is None and info.data.get("verdict") == "approve":
            raise ValueError("an approval must give the digest that was shown")
        return digest


async def list_quarantine(context: RequestContext) -> HeldTools:
    """List the quarantined tools, with findings of the audit."""
    return await context.run(lambda: HeldTools(_held_in_scope(context)))


def _held_in_scope(context: RequestContext) -> tuple[Held, ...]:
    allowed = from_scope(context.scope())
    return tuple(held for held in context.quarantine().list() if is_allowed(allowed, held.spec))


async def judge_tool(context: RequestContext, tool_id: ToolId, body: VerdictBody) -> None:
    """Approve a quarantined tool, so that it is served from now on, or reject it.

    An approval needs the digest that was shown: a version with another digest is not approved. The
    key that sent the tool may not approve it, unless `service.approve_own` is on.
    """
    await context.write(partial(_judge, context, tool_id, body))


def _judge(context: RequestContext, tool_id: str, body: VerdictBody, crib: Crib) -> None:
    quarantine = context.quarantine()
    with context.state.lock(context.namespace):
        held = quarantine.get(tool_id)
        if held is None or not is_allowed(from_scope(context.scope()), held.spec):
            reach = [each.tool_id for each in _held_in_scope(context)]
            raise UnknownToolError(tool_id, nearest(tool_id, reach))
        if body.digest is not None:
            held = quarantine.get_reviewed(tool_id, body.digest)
        if body.verdict == "reject":
            quarantine.reject(tool_id)
            return
        _require_other(context, held)
        # Write first: after a crash in between, the tool is still quarantined.
        written, _ = write_tools(crib, [("the quarantine", held.spec)], context.scope(), None)
        if written.refused:
            raise ForbiddenError(written.refused[0].reason)
        quarantine.release(held)


def _require_other(context: RequestContext, held: Held) -> None:
    is_own = held.written_by and held.written_by == context.caller.key_id
    if is_own and not context.state.settings.service.approve_own:
        raise ForbiddenError(
            f"this key sent {held.tool_id!r} itself: another key must approve it, or an operator "
            "by `toolcrib approve --store`; if one person has all keys, set service.approve_own"
        )


# -- the gateway -----------------------------------------------------------------------------


class SwitchBody(Body):
    """Switch: on or off."""

    on: bool


ServerId = Annotated[Identifier, Field(description="Name of a server, slashes and all.")]

SERVERS_LOCK = "/servers"
"""Lock of the file of servers; no namespace has this name."""

MAX_LISTED_CALLS = 1_000


@dataclass(frozen=True, slots=True)
class ActivityQuery:
    """Number of calls in the answer."""

    limit: Annotated[int, Field(ge=1, le=MAX_LISTED_CALLS)] = 50


async def get_activity(context: RequestContext, query: ActivityQuery) -> GatewayActivity:
    """Show servers and calls of a gateway; empty for keys that may not write or see all."""
    if not context.sees_activity:
        return GatewayActivity()
    return await context.run(lambda: context.state.activity.read(query.limit))


@dataclass(frozen=True, slots=True)
class ServerList:
    """Servers of a gateway's `mcp.json`; empty if they are not `editable` here."""

    editable: bool
    servers: tuple[ConfiguredServer, ...] = ()


class ServersBody(Body):
    """Servers to add: an `mcp.json`, a host's file, or a `server.json` of the MCP registry."""

    model_config = strict_config(
        examples=[{"document": {"mcpServers": {"docs": {"url": "https://docs.example.com/mcp"}}}}]
    )

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AddedServers:
    """Names of added servers, and of servers that were the `same` before.

    Secrets became `variables`, each with its places: the gateway needs them in its environment.
    """

    added: tuple[str, ...]
    same: tuple[str, ...]
    variables: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]


async def list_servers(context: RequestContext) -> ServerList:
    """List the servers of the gateway's `mcp.json`, without possible secrets."""
    if context.state.settings.service.gateway_config is None:
        return ServerList(editable=False)

    def read() -> ServerList:
        servers = _server_file(context).servers
        # The variables are in the gateway's environment, not in this one.
        env = dict.fromkeys(variables_of(servers), "")
        return ServerList(editable=True, servers=tuple(listed_servers(servers, env)))

    return await context.run(read)


async def add_servers(context: RequestContext, body: ServersBody) -> AddedServers:
    """Add servers to the gateway's `mcp.json`; a running gateway starts them a moment later."""
    source = Source.of_document("the request", body.document)

    def add() -> AddedServers:
        servers = find_servers(source)
        if not servers:
            raise QueryError("the document names no MCP servers; put them under 'mcpServers'")
        with context.state.lock(SERVERS_LOCK):
            file = _server_file(context)
            found = ServerImport(file.servers)
            for name, raw in servers.items():
                found.add("the request", name, raw)
            file.write(file.with_servers(found.added))
        variables = {name: tuple(places) for name, places in found.variables.items()}
        return AddedServers(tuple(found.added), tuple(found.same), variables, tuple(found.notes))

    return await context.run(add)


async def switch_server(context: RequestContext, name: ServerId, body: SwitchBody) -> None:
    """Switch a server of the gateway's `mcp.json` on or off."""
    await _edit(context, name, lambda file: file.with_switch(name, on=body.on))


async def remove_server(context: RequestContext, name: ServerId) -> None:
    """Remove a server from the gateway's `mcp.json`."""
    await _edit(context, name, lambda file: file.with_servers({name: None}))


async def _edit(context: RequestContext, name: str, edit: Callable[[ServerFile], str]) -> None:
    def work() -> None:
        with context.state.lock(SERVERS_LOCK):
            file = _server_file(context)
            if name not in file.servers:
                raise HTTPException(404, "there is no such server")
            file.write(edit(file))

    await context.run(work)


def _server_file(context: RequestContext) -> ServerFile:
    path = context.state.settings.service.gateway_config
    if path is None:
        raise ForbiddenError("the servers of a gateway are changed here by service.gateway_config")
    return ServerFile.read(Path(path))


# -- evaluation reports: untrusted pages -----------------------------------------------------

REPORT_NAME = r"^[A-Za-z0-9_-][A-Za-z0-9_. -]{0,199}\.html\Z"

REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Policy that allows reading only: no script, no form, no request."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """An evaluation report; `modified` is Unix time in seconds."""

    name: str
    modified: float
    bytes: int


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The evaluation reports."""

    reports: tuple[ReportFile, ...]


async def list_reports(context: RequestContext) -> ReportFiles:
    """List the evaluation reports, newest first; only for keys that see all tools."""
    return await context.run(lambda: ReportFiles(_reports(context)))


def _reports(context: RequestContext) -> tuple[ReportFile, ...]:
    folder = _folder(context)
    if folder is None or not folder.is_dir():
        return ()
    with os.scandir(folder) as entries:
        files = [
            (entry.name, entry.stat())
            for entry in entries
            if re.match(REPORT_NAME, entry.name) and entry.is_file(follow_symlinks=False)
        ]
    files.sort(key=lambda file: (-file[1].st_mtime, file[0]))
    return tuple(ReportFile(name, round(at.st_mtime, 3), at.st_size) for name, at in files)


async def get_report(
    context: RequestContext, name: Annotated[str, Field(max_length=205)]
) -> Response:
    """Get a report: an HTML page that cannot run anything."""
    page = await context.run(lambda: _page(context, name))
    return Response(
        page, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
    )


def _page(context: RequestContext, name: str) -> bytes:
    folder = _folder(context)
    path = folder / name if folder is not None and re.match(REPORT_NAME, name) else None
    if path is None or path.is_symlink() or not path.is_file():
        raise HTTPException(404, "there is no such report")
    return path.read_bytes()


def _folder(context: RequestContext) -> Path | None:
    """Folder of reports, for keys that see all tools of the default namespace; else None."""
    folder = context.state.settings.service.reports
    return Path(folder) if folder is not None and context.sees_everything else None


# -- learning --------------------------------------------------------------------------------


class UndoBody(Body):
    """Lessons to undo: of a day (`2026-01-31`), of a key or of a tool, by id."""

    model_config = strict_config(examples=[{"what": "mail/send_mail"}])

    what: Identifier


async def get_learning(context: RequestContext) -> LearningStatus:
    """Show the lessons, their keys and their value; for keys that may write everything."""
    _require_all(context)
    return await context.read(lambda crib: crib.learning_status())


async def switch_learning(context: RequestContext, body: SwitchBody) -> None:
    """Switch the use of lessons on or off; the lessons stay."""
    _require_all(context)
    await context.write(lambda crib: crib.switch_learning(on=body.on))


async def replay_learning(context: RequestContext) -> LearningStatus:
    """Replay past requests; lessons of a server that help go live, the others into shadow."""
    _require_all(context)
    return await context.write(lambda crib: crib.replay_learning())


async def undo_learning(context: RequestContext, body: UndoBody) -> Undone:
    """Undo the lessons of a day, a key or a tool."""
    _require_all(context)
    return Undone(await context.write(lambda crib: crib.undo_learning(body.what)))


def _require_all(context: RequestContext) -> None:
    """Require a key that may write and see all tools: lessons name keys and tools."""
    context.require_write()
    if context.scope() != Scope():
        raise ForbiddenError("lessons concern all tools, and this key sees only some")


LEARNING, QUARANTINE, KEYS = "/v1/learning", "/v1/quarantine", "/v1/keys"
SERVERS, SERVER = "/v1/servers", "/v1/servers/{name:path}"
OFF, BROKEN = (LearningOffError,), (SourceError,)
JUDGE_ERRORS = (UnknownToolError, ToolChangedError)

ENDPOINTS = (
    Endpoint("GET", LEARNING, get_learning, "learning", OFF),
    Endpoint("POST", LEARNING, switch_learning, "learning", OFF, writes=True),
    Endpoint("POST", LEARNING + "/replay", replay_learning, "learning", OFF, writes=True),
    Endpoint("POST", LEARNING + "/undo", undo_learning, "learning", OFF, writes=True),
    Endpoint("GET", QUARANTINE, list_quarantine, "quarantine"),
    Endpoint(
        "POST", QUARANTINE + "/{id:path}", judge_tool, "quarantine", JUDGE_ERRORS, writes=True
    ),
    Endpoint("GET", SERVERS, list_servers, "gateway", BROKEN, administers=True),
    Endpoint("POST", SERVERS, add_servers, "gateway", BROKEN, administers=True),
    Endpoint("POST", SERVER, switch_server, "gateway", BROKEN, administers=True),
    Endpoint("DELETE", SERVER, remove_server, "gateway", BROKEN, administers=True),
    Endpoint("GET", "/v1/activity", get_activity, "gateway"),
    Endpoint("GET", "/v1/me", describe_me, "keys"),
    Endpoint("GET", KEYS, list_keys, "keys", administers=True),
    Endpoint("POST", KEYS, create_key, "keys", administers=True),
    Endpoint("DELETE", KEYS + "/{id}", revoke_key, "keys", administers=True),
    Endpoint("GET", "/v1/reports", list_reports, "reports"),
    Endpoint("GET", "/v1/reports/{name}", get_report, "reports", media_type="text/html"),
    Endpoint("GET", "/healthz", is_alive, "health", HEALTH_ERRORS),
    Endpoint("GET", "/readyz", is_ready, "health", (*HEALTH_ERRORS, *UNAVAILABLE)),
    Endpoint("GET", "/metrics", read_metrics, "health", HEALTH_ERRORS, media_type="text/plain"),
)
