"""Whether requests can be answered: found out by one, on behalf of all who want to know."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

from toolcrib.errors import EncoderError, ServiceUnavailableError
from toolcrib.http.workers import Workers
from toolcrib.namespaces import Namespaces

__all__ = ["Readiness"]

FRESH_S = 0.5
"""How long an answer stands: whoever asks needs no key, and is not to keep us busy."""


class Readiness:
    """What store, model and index say of themselves; for one event loop.

    They are asked once at a time, and who wants to know meanwhile waits for the same answer: an
    engine that hangs would otherwise take another thread with each question.
    """

    def __init__(self, namespaces: Namespaces, workers: Workers) -> None:
        self._namespaces = namespaces
        self._workers = workers
        self._known: tuple[dict[str, Any], float] | None = None
        self._asking: asyncio.Task[dict[str, Any]] | None = None

    async def facts(self, patience_s: float) -> dict[str, Any]:
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
        return self._known[0]["tools"]

    async def _ask(self) -> dict[str, Any]:
        try:
            found = await self._workers.read(self._look)
            self._known = found, time.monotonic() + FRESH_S
        except Exception:
            self._known = None
            raise
        finally:
            self._asking = None
        return found

    def _look(self) -> dict[str, Any]:
        self._namespaces.check()
        crib = self._namespaces.crib()
        info, identity = crib.info()
        if "dense" in crib.encode_query("ready").degraded:
            raise EncoderError("the dense encoder fails")
        text = json.dumps(identity, sort_keys=True)
        return {
            "status": "ok",
            "engine": info.engine,
            "tools": info.points,
            "encoder": identity["dense"],
            "index": hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
        }
