"""Service state: what every request shares, for the life of a process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from toolcrib.errors import EncoderError, ServiceUnavailableError
from toolcrib.http.workers import Shares, Workers
from toolcrib.indexers.documents.converter import Converters
from toolcrib.records import ServiceInfo
from toolcrib.router.decision_log_db import DatabaseLog
from toolcrib.settings import Settings
from toolcrib.telemetry import Telemetry
from toolcrib.tenants import Tenants

__all__ = ["UPLOAD_FACTOR", "ServiceState"]

UPLOAD_FACTOR = 32
"""Times `service.max_body_bytes`: the most in a body of JSON Lines."""

HELD_FACTOR = 57
"""Times `service.max_body_bytes`: what all bodies under way may hold of memory. The largest of JSON
Lines fits into a key's share of its namespace's share."""

FRESH_S = 0.5
"""How long readiness stands: whoever asks needs no key, and is not to keep us busy."""

SHORT_S = 0.0005
"""The switch interval under load: a tenth of Python's."""


class ServiceState:
    """Tenants, threads, processes, telemetry and readiness of one service.

    `under_way` counts requests that are worked on or wait; while `draining` no new one is taken,
    and where `hurried` none is waited for.
    `places` and `bytes` are who holds them.
    """

    def __init__(self, namespaces: Tenants, settings: Settings, telemetry: Telemetry) -> None:
        self.namespaces = namespaces
        self.settings = settings
        self.telemetry = telemetry
        service = settings.service
        self.workers = Workers(service.workers, service.concurrent)
        self.places = Shares(service.concurrent, service.share)
        self.bytes = Shares(HELD_FACTOR * service.max_body_bytes, service.share)
        # An answer is due: a document may take half of that, and text that fits beside others.
        limits = settings.documents.limits
        self.converters = Converters(
            replace(
                limits,
                timeout_s=min(limits.timeout_s, service.timeout_s / 2),
                text_chars=2 * service.max_body_bytes,
            )
        )
        self.readiness = Readiness(namespaces, self.workers)
        self.switch_interval = SwitchInterval()
        self.under_way = 0
        self.draining = False
        self.hurried = False
        self.logs: WeakSet[DatabaseLog] = WeakSet()
        # A lock ends with its last user.
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def dropped(self) -> int:
        """How many decisions the logs that are open could not keep."""
        return sum(log.dropped for log in list(self.logs))

    def lock(self, namespace: str) -> AbstractContextManager[Any]:
        """What is held while a namespace is looked at and then written to, by no other one."""
        return self._locks.setdefault(namespace, threading.Lock())

    def close(self) -> None:
        """Let go of threads and processes when what was begun is done."""
        self.switch_interval.restore()
        self.workers.close()
        self.converters.close()
        self.telemetry.close()

    @property
    def is_busy(self) -> bool:
        """Whether anything is still worked on."""
        return bool(self.under_way or self.workers.abandoned)


USUAL_S = sys.getswitchinterval()
"""As Python has it. Asked once: of two services in a process one may have shortened it."""


class SwitchInterval:
    """How soon a searching thread hands the interpreter over when the event loop wants it.

    As Python has it, five milliseconds, since every switch costs: searches come to a tenth more.
    Shorter while requests are turned away: they need not wait for those that are not.
    """

    def __init__(self) -> None:
        self._is_short = False

    def shorten(self) -> None:
        """Hand it over sooner, until `restore`."""
        if not self._is_short:
            sys.setswitchinterval(SHORT_S)
            self._is_short = True

    def restore(self) -> None:
        """Do as before."""
        if self._is_short:
            sys.setswitchinterval(USUAL_S)
            self._is_short = False


class Readiness:
    """What store, model and index say of themselves; for one event loop.

    They are asked once at a time, and who wants to know meanwhile waits for the same answer: an
    engine that hangs would otherwise take another thread with each question.
    """

    def __init__(self, namespaces: Tenants, workers: Workers) -> None:
        self._namespaces = namespaces
        self._workers = workers
        self._known: tuple[ServiceInfo, float] | None = None
        self._asking: asyncio.Task[ServiceInfo] | None = None

    async def info(self, patience_s: float) -> ServiceInfo:
        """What they say, as it was half a second ago at the earliest.

        Raises:
            ServiceUnavailableError: they say nothing for so long.
            StoreError: the store does not answer.
            EncoderError: the model fails.
        """
        if self._known is not None and time.monotonic() < self._known[1]:
            return self._known[0]
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
            # All who asked may have gone by then.
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        deadline = asyncio.timeout(patience_s)
        try:
            async with deadline:
                return await asyncio.shield(self._asking)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise ServiceUnavailableError(
                f"the store has not answered for {patience_s:g} s", retry_after_s=1.0
            ) from None

    def tools(self) -> int:
        """How many tools the default namespace had when they last said so.

        Raises:
            LookupError: they did not, the last time that they were asked.
        """
        if self._known is None:
            raise LookupError("nobody has said how many")
        return self._known[0].tools

    async def _ask(self) -> ServiceInfo:
        try:
            found = await self._workers.read(self._look)
            self._known = found, time.monotonic() + FRESH_S
        except Exception:
            self._known = None
            raise
        finally:
            self._asking = None
        return found

    def _look(self) -> ServiceInfo:
        self._namespaces.check()
        crib = self._namespaces.crib()
        store, identity = crib.info()
        if "dense" in crib.tools.encode_query("ready").degraded:
            raise EncoderError("the dense encoder fails")
        text = json.dumps(identity, sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return ServiceInfo("ok", store.engine, store.points, identity["dense"], digest)
