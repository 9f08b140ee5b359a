"""Service of the gateway over standard input and output, or over HTTP with monitoring."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolcrib import build
from toolcrib.access.addresses import bind, is_loopback
from toolcrib.access.connections import KEEP_ALIVE_S, bounded_connection
from toolcrib.access.keys import KeyRing
from toolcrib.access.logins import BrowserLogin, LoginOptions, Logins, may_log_in
from toolcrib.access.quarantine import LockFile, Quarantine
from toolcrib.access.tokens import callers_of
from toolcrib.errors import SettingsError, StoreError
from toolcrib.gateway.activity import OperationMetrics
from toolcrib.gateway.approval import Approval, is_tool
from toolcrib.gateway.auth import KeyVerifier
from toolcrib.gateway.config import McpFile, file_stamp
from toolcrib.gateway.connection import UpstreamConnection
from toolcrib.gateway.downstream import Level, Reporter
from toolcrib.gateway.gateway import Gateway, GatewayOptions
from toolcrib.gateway.index import Storage
from toolcrib.indexers.readers.mcp_config import HttpTarget
from toolcrib.indexers.readers.mcp_session import quiet_sdk
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import Settings
from toolcrib.store.records_db import DbRow, RecordsDb
from toolcrib.telemetry import MetricsRegistry, trace_mcp

MCP_PATH = "/mcp"
GATEWAY_BACKLOG_CONNECTIONS = 128
REQUEST_TIMEOUT_S = 60
"""Time for the head of a request, and again for its body; an answer may take longer."""

DRAIN_TIMEOUT_S = 5
GATEWAY_CLOSE_TIMEOUT_S = 10
EXIT_INTERRUPTED = 130

MAX_OPEN_FILES = 65_536
"""Files that a gateway over HTTP may have open, if the system allows as many: each conversation has
four for every server that it uses. With the usual 1,024, four busy servers would use up all."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Files and addresses of a gateway; `address`: where HTTP listens, None for stdio.

    `lock`: file of approved tools; tools of new servers are added.
    """

    file: McpFile
    store: str
    address: tuple[str, int] | None = None
    lock: Path | None = None
    strict: bool = False

    def login_command(self, name: str) -> str:
        """Command line that logs in at a server of this gateway."""
        store = self.store if build.is_url(self.store) else str(Path(self.store).absolute())
        places = ["--config", str(self.file.path.absolute()), "--store", store]
        return shlex.join(["toolcrib", "gateway", "login", name, *places])

    def logins(self, settings: Settings) -> Logins:
        """Logins at the servers, stored beside the index."""
        return Logins.open(self.store, settings.gateway, self.login_command)

    def login_target(self, name: str) -> HttpTarget:
        """Target of a configured server that takes a login."""
        (config,) = replace(self.file, only=(name,)).read()
        if not may_log_in(config.target):
            raise SettingsError(
                f"{name} takes no login: it is a command, or its entry has a header Authorization"
            )
        return config.target


def serve_gateway(serving: ServeOptions, settings: Settings, options: GatewayOptions) -> None:
    """Serve until the client disconnects, or a signal ends the process.

    Raises:
        SourceError: the configuration cannot be used.
        SettingsError: the address cannot be used, or needs keys.
        StoreError: keys cannot be read.
    """
    file = serving.file
    stamp, configs = file_stamp(file.path), file.read()
    send_spans = trace_mcp()
    report, address = options.report, serving.address
    with closing(open_records(serving.store, settings, report, needed=bool(address))) as records_db:
        auth = address and _make_verifier(KeyRing(records_db), address[0], serving.store, settings)
        lock = LockFile(serving.lock or Path(settings.gateway.lock))
        lock.read()
        approval = Approval(
            lock,
            Quarantine(records_db, DEFAULT_NAMESPACE),
            locks=serving.lock is not None,
            audits=settings.audit,
            strict=serving.strict,
        )
        logins = serving.logins(settings)
        storage = Storage(serving.store, records_db, approval, logins)
        with quiet_sdk(), report_warnings(report):
            options = replace(options, is_shared=address is None, config=(file, stamp))
            gateway = Gateway(configs, settings, storage, options, auth=auth)
            if address is None or auth is None:
                asyncio.run(_serve_stdio(gateway, send_spans))
            else:
                asyncio.run(_serve_http(gateway, auth, address, report))
            send_spans()


def open_records(location: str, settings: Settings, report: Reporter, *, needed: bool) -> RecordsDb:
    """Open the keys and approvals at a location; another process may use them too.

    Memory is the fallback unless records are `needed`, or approvals may exist: in memory all
    servers would be new to the gateway, which would serve their quarantined tools.

    Raises:
        StoreError: records that are needed, or that are there, cannot be read and written.
    """
    opened = build.open_records_db(location, settings)
    try:
        # An approval needs a writable record of the quarantined tool.
        opened.put("gateway", DbRow("opened", time.time(), {}))
    except StoreError as error:
        with closing(opened):
            if needed or opened.tables():
                raise
        report("warning", f"approvals are in memory, for this run only: {error}")
        return build.open_records_db(build.MEMORY, settings)
    return opened


def _make_verifier(ring: KeyRing, host: str, store: str, settings: Settings) -> KeyVerifier:
    """Verifier of keys and tokens; without either only loopback addresses are allowed."""
    if not is_loopback(host) and settings.tokens is None and not ring.list():
        raise SettingsError(
            f"{host} is reachable by other machines, and no key exists: run "
            f"`toolcrib keys create NAME --store {store}`, or listen on 127.0.0.1"
        )
    return KeyVerifier(ring, callers_of(ring, settings.tokens), settings.gateway.profiles)


# -- logins --------------------------------------------------------------------------------------


async def log_in(target: HttpTarget, logins: Logins, how: LoginOptions) -> bool:
    """Log in at a server in a browser, and open a session with it.

    False if the server asks for no login.

    Raises:
        SettingsError: the port is taken.
        ServiceUnavailableError: the server or its login failed; the text says why.
        StoreError: the login cannot be kept.
    """
    with closing(BrowserLogin(target.url, logins, how)) as auth:
        connection = UpstreamConnection(target, has_one_caller=True, auth=auth)
        await connection.open(how.timeout_s)
        await connection.close()
        return auth.login is not None


# -- stdio and HTTP ------------------------------------------------------------------------------


async def _serve_stdio(gateway: Gateway, send_spans: Callable[[], None]) -> None:
    """Serve one client over standard input and output, until the client closes either."""

    async def stop(code: int) -> None:
        # A thread waits for standard input and cannot be interrupted: end the process here, after
        # the upstream servers.
        with suppress(TimeoutError):
            await asyncio.wait_for(gateway.close(), GATEWAY_CLOSE_TIMEOUT_S)
            await asyncio.wait_for(asyncio.to_thread(send_spans), GATEWAY_CLOSE_TIMEOUT_S)
        os._exit(code)

    stopping: set[asyncio.Task[None]] = set()

    def begin(code: int) -> None:
        stopping.add(asyncio.create_task(stop(code)))

    _on_signal(signal.SIGTERM, partial(begin, 0))
    _on_signal(signal.SIGINT, partial(begin, EXIT_INTERRUPTED))
    try:
        await gateway.server.run_stdio_async(show_banner=False, log_level="CRITICAL")
    except* BrokenPipeError:
        pass  # The client reads no more answers.


async def _serve_http(
    gateway: Gateway, auth: KeyVerifier, address: tuple[str, int], report: Reporter
) -> None:
    """Serve clients over streamable HTTP, until a signal ends the process.

    Without keys, which is on loopback only, requests for another host name are refused: otherwise
    a web page could reach the gateway by a name of its own. With keys a page lacks one, and a
    proxy may forward its public name.
    """
    raise_file_limit()
    host, port = address
    listener = bind(host, port)
    listener.listen(GATEWAY_BACKLOG_CONNECTIONS)
    _add_monitoring(gateway)
    app = gateway.server.http_app(
        path=MCP_PATH,
        host_origin_protection=not await auth.requires_keys(),
        allowed_hosts=[host],
        stateless_http=False,
    )
    server = _UvicornServer(
        uvicorn.Config(
            _serve_trailing_slash(app),
            log_level="critical",
            access_log=False,
            http=bounded_connection(REQUEST_TIMEOUT_S, limits_bodies=True),
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_TIMEOUT_S,
        )
    )
    name = f"[{host}]" if ":" in host else host
    _on_signal(signal.SIGTERM, server.end)
    _on_signal(signal.SIGINT, server.end)
    report("info", f"serving at http://{name}:{listener.getsockname()[1]}{MCP_PATH}")
    await server.serve(sockets=[listener])


def raise_file_limit() -> None:
    """Raise the limit of open files towards `MAX_OPEN_FILES`, where the system has one."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # which Windows lacks

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
        if resource.RLIM_INFINITY != soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _serve_trailing_slash(app: ASGIApp) -> ASGIApp:
    """Serve `/mcp/` as `/mcp`: a redirect would lose a path prefix that a proxy has removed."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == f"{MCP_PATH}/":
            scope = {**scope, "path": MCP_PATH, "raw_path": MCP_PATH.encode()}
        await app(scope, receive, send)

    return serve


def _on_signal(number: int, act: Callable[[], None]) -> None:
    # Windows has no such signals; there a closed input ends the process.
    with suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(number, act)


class _UvicornServer(uvicorn.Server):
    """Server without signal handlers, which would end the process before upstream servers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture no signals."""
        yield

    def end(self) -> None:
        """Stop; a second call stops at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


# -- monitoring ----------------------------------------------------------------------------------

NO_STORE = {"Cache-Control": "no-store"}


def _add_monitoring(gateway: Gateway) -> None:
    """Serve `/healthz` and `/metrics` beside a gateway's own address, without a key."""
    metrics = MetricsRegistry("the gateway's metrics", "gateway")
    index, pool = gateway.index, gateway.pool
    for name, says, count in (
        ("tools", "Tools on offer.", lambda: len(index.catalog)),
        (
            "tools_held",
            "Tools held back until they are approved.",
            lambda: sum(is_tool(each.spec) for each in index.list_held()),
        ),
        ("servers", "Servers behind the gateway.", lambda: len(list(pool))),
        ("servers_up", "Servers whose tools can be called.", lambda: sum(e.is_up for e in pool)),
    ):
        metrics.watch(f"toolcrib_gateway_{name}", says, count)
    operations = OperationMetrics(metrics)
    # Outermost, to observe what clients get.
    gateway.server.middleware.insert(0, operations)
    pool.observe_call = operations.observe_call

    @gateway.server.custom_route("/healthz", methods=["GET"])
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NO_STORE)

    @gateway.server.custom_route("/metrics", methods=["GET"])
    async def read_metrics(_request: Request) -> Response:
        text, kind = metrics.text()
        return Response(text, headers={"Content-Type": kind, **NO_STORE})


# -- reports to the operator -----------------------------------------------------------------------


def stderr_reporter(*, as_json: bool) -> Reporter:
    """Reporter of one line per event on standard error; standard output belongs to MCP."""

    def report(level: Level, text: str) -> None:
        line = json.dumps({"level": level, "text": text}, ensure_ascii=False)
        plain = "".join(letter if letter.isprintable() else "�" for letter in text)
        sys.stderr.write((line if as_json else f"toolcrib gateway: {plain}") + "\n")
        sys.stderr.flush()

    return report


@contextmanager
def report_warnings(report: Reporter) -> Generator[None]:
    """Report warnings of toolcrib's log; FastMCP's log is for server authors, and silenced."""
    handler = _ReportHandler(report)
    ours, theirs = logging.getLogger("toolcrib"), logging.getLogger("fastmcp")
    before, level = ours.propagate, theirs.level
    ours.propagate = False
    ours.addHandler(handler)
    theirs.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.propagate = before
        theirs.setLevel(level)


class _ReportHandler(logging.Handler):
    """Log handler that reports every warning in one line."""

    def __init__(self, report: Reporter) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() + (f": {error}" if error is not None else "")
        self._report("error" if record.levelno >= logging.ERROR else "warning", text)
