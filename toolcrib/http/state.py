"""Service state: objects that all requests of a process share."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from toolcrib import build
from toolcrib.access.activity import ActivityReader
from toolcrib.documents.processes import Converters
from toolcrib.errors import EncoderError, ServiceUnavailableError
from toolcrib.http.workers import Shares, Workers
from toolcrib.records.reports import ServiceInfo
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.settings import Settings
from toolcrib.telemetry import Telemetry
from toolcrib.tenants import Tenants

UPLOAD_FACTOR = 32
"""Largest body of JSON Lines, as a multiple of `service.max_body_bytes`."""

BODY_MEMORY_FACTOR = 57
"""Memory of all concurrent bodies, as a multiple of `service.max_body_bytes`. The largest body fits
into a key's share of its namespace's share."""

READINESS_TTL_S = 0.5
"""Lifetime of a readiness answer: its requests need no key, and must not cause load."""


class ServiceState:
    """Tenants, threads, processes, telemetry and readiness of one service.

    `under_way`: number of admitted requests. While `draining` no request is admitted. `ending` is
    set shortly before the end, so that running requests can send a last line. `places` and `bytes`:
    shares of owners. `activity` reads the calls of a gateway.
    """

    def __init__(self, namespaces: Tenants, settings: Settings, telemetry: Telemetry) -> None:
        self.namespaces = namespaces
        self.settings = settings
        self.telemetry = telemetry
        service = settings.service
        self.workers = Workers(service.workers, service.concurrent)
        self.places = Shares(service.concurrent, service.share)
        self.bytes = Shares(BODY_MEMORY_FACTOR * service.max_body_bytes, service.share)
        # A request has a deadline: limit the time and text of one document.
        limits = settings.documents.limits
        self.converters = Converters(
            replace(
                limits,
                timeout_s=min(limits.timeout_s, service.timeout_s / 2),
                text_chars=2 * service.max_body_bytes,
            )
        )
        self.readiness = Readiness(namespaces, self.workers)
        place = service.gateway
        self._gateway_db = None if place is None else build.open_records_db(place, settings)
        self.activity = ActivityReader(self._gateway_db or namespaces.records_db)
        self.under_way = 0
        self.draining = False
        self.ending = asyncio.Event()
        self.logs: WeakSet[DatabaseLog] = WeakSet()
        # Weak values drop a lock after its last use.
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def dropped_decisions(self) -> int:
        """Number of decisions that open logs had to drop."""
        return sum(log.dropped_decisions for log in list(self.logs))

    def lock(self, namespace: str) -> AbstractContextManager[Any]:
        """Lock of a namespace, for a read that is followed by a write."""
        return self._locks.setdefault(namespace, threading.Lock())

    def close(self) -> None:
        """End threads and processes, after their current work."""
        self.workers.close()
        self.converters.close()
        self.telemetry.close()
        if self._gateway_db is not None:
            self._gateway_db.close()

    @property
    def is_busy(self) -> bool:
        """True while any work is under way."""
        return bool(self.under_way or self.workers.abandoned_jobs)


class Readiness:
    """Readiness of store, model and index; for one event loop.

    One check runs at a time, and concurrent callers share its answer: otherwise each call would
    block another thread while an engine hangs.
    """

    def __init__(self, namespaces: Tenants, workers: Workers) -> None:
        self._namespaces = namespaces
        self._workers = workers
        self._known: tuple[ServiceInfo, float] | None = None
        self._check: asyncio.Task[ServiceInfo] | None = None

    async def info(self, timeout_s: float) -> ServiceInfo:
        """Facts of the service, at most `READINESS_TTL_S` old.

        Raises:
            ServiceUnavailableError: no answer within the timeout.
            StoreError: the store does not answer.
            EncoderError: the model fails.
        """
        if self._known is not None and time.monotonic() < self._known[1]:
            return self._known[0]
        if self._check is None:
            self._check = asyncio.create_task(self._run_check())
            # Retrieve the error even if no caller waits for it.
            self._check.add_done_callback(lambda task: task.cancelled() or task.exception())
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                return await asyncio.shield(self._check)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise ServiceUnavailableError(
                f"the store has not answered for {timeout_s:g} s", retry_after_s=1.0
            ) from None

    def tools(self) -> int:
        """Number of tools of the default namespace, at the last check."""
        if self._known is None:
            raise LookupError("the number of tools is not known")
        return self._known[0].tools

    async def _run_check(self) -> ServiceInfo:
        try:
            info = await self._workers.read(self._check_now)
            self._known = info, time.monotonic() + READINESS_TTL_S
        except Exception:
            self._known = None
            raise
        finally:
            self._check = None
        return info

    def _check_now(self) -> ServiceInfo:
        self._namespaces.check()
        crib = self._namespaces.crib()
        store, identity = crib.info()
        if "dense" in crib.tools.retriever.encode("ready").degraded:
            raise EncoderError("the dense encoder fails")
        text = json.dumps(identity, sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return ServiceInfo("ok", store.engine, store.points, identity["dense"], digest)
