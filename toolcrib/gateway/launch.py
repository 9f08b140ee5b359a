"""From what was typed to a gateway that serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolcrib.access.keys import KeyRing
from toolcrib.access.lock_file import LockFile
from toolcrib.access.quarantine import Quarantine
from toolcrib.cli.screen import index_progress
from toolcrib.errors import SettingsError
from toolcrib.gateway.auth import KeyVerifier
from toolcrib.gateway.config import read_config
from toolcrib.gateway.gateway import Gateway
from toolcrib.gateway.judging import Judge
from toolcrib.gateway.news import Say
from toolcrib.gateway.opening import open_ledger
from toolcrib.gateway.serving import LOOPBACK, listen_at, serve_http, serve_stdio
from toolcrib.gateway.terms import Backing, Manner, Purpose
from toolcrib.indexers.readers.mcp_session import quiet_sdk
from toolcrib.namespaces import DEFAULT
from toolcrib.records import Sensitivity
from toolcrib.settings import Settings

__all__ = ["Order", "heard", "run"]


@dataclass(frozen=True, slots=True)
class Order:
    """What a gateway is asked to be; `address` is where HTTP listens, None for stdio.

    `lock` names a file of approved tools that servers are put into when they are first met.
    """

    config: Path
    env: Mapping[str, str]
    store: str
    address: tuple[str, int] | None = None
    lock: Path | None = None
    servers: tuple[str, ...] = ()
    tags: frozenset[str] | None = None
    max_sensitivity: Sensitivity | None = None
    pinned: tuple[str, ...] = ()


def run(order: Order, settings: Settings, say: Say) -> None:
    """Serve until the client leaves, or somebody interrupts.

    Raises:
        SourceError: the configuration cannot be used.
        SettingsError: it cannot listen there, or not without keys.
        StoreError: keys cannot be read.
    """
    configs = read_config(order.config, order.env, order.servers)
    needed = order.address is not None
    with closing(open_ledger(order.store, settings, say, needed=needed)) as ledger:
        auth = _auth(order, KeyRing(ledger)) if order.address else None
        lock = LockFile(order.lock or Path(settings.gateway.lock))
        lock.read()
        judge = Judge(lock, Quarantine(ledger, DEFAULT), locks=order.lock is not None)
        backing = Backing(order.store, ledger, judge)
        with index_progress() as progress, quiet_sdk(), heard(say):
            manner = Manner(say, progress, is_shared=order.address is None)
            purpose = Purpose(order.tags, order.max_sensitivity, order.pinned)
            gateway = Gateway(configs, settings, backing, purpose=purpose, manner=manner, auth=auth)
            asyncio.run(_serve(gateway, order.address, say))


async def _serve(gateway: Gateway, address: tuple[str, int] | None, say: Say) -> None:
    if address is None:
        await serve_stdio(gateway)
    else:
        await serve_http(gateway, address[0], listen_at(*address), say)


def _auth(order: Order, ring: KeyRing) -> KeyVerifier | None:
    """Keys are asked for wherever one was ever made; without, nobody else may reach us."""
    assert order.address is not None
    if list(ring.list()):
        return KeyVerifier(ring)
    if order.address[0] not in LOOPBACK:
        raise SettingsError(
            f"{order.address[0]} can be reached by others, and no key was made: run "
            f"`toolcrib keys create NAME --store {order.store}`, or listen on 127.0.0.1",
        )
    return None


@contextmanager
def heard(say: Say) -> Generator[None]:
    """Say what our own parts warn of; FastMCP's log is for those who write servers with it."""
    handler = _Saying(say)
    ours, theirs = logging.getLogger("toolcrib"), logging.getLogger("fastmcp")
    before, ours.propagate = ours.propagate, False
    level = theirs.level
    ours.addHandler(handler)
    theirs.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.propagate = before
        theirs.setLevel(level)


class _Saying(logging.Handler):
    """Says every warning in one line."""

    def __init__(self, say: Say) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, with the error that is at the bottom of it."""
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() + (f": {error}" if error is not None else "")
        self._say("error" if record.levelno >= logging.ERROR else "warning", text)
