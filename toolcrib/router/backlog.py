"""Work that nobody waits for: taken at once, done a little later and many at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from toolcrib.errors import StoreError

__all__ = ["Backlog"]

logger = logging.getLogger(__name__)

Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Items that `work` is given in their order, by a thread that lives while there are any.

    What `work` fails at with a `StoreError` stays, and is tried again after `retry_s`. At most
    `capacity` items wait. Safe for several threads.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], None],
        *,
        capacity: int = 4096,
        pause_s: float = 0.02,
        retry_s: float = 1.0,
    ) -> None:
        self._work = work
        self._capacity = capacity
        self._pause_s = pause_s
        self._retry_s = retry_s
        self._waiting: list[Item] = []
        self._worker: threading.Thread | None = None
        self._guard = threading.Lock()
        self._working = threading.Lock()
        self._stopping = threading.Event()

    def add(self, item: Item) -> bool:
        """Take an item; False where too many are waiting already."""
        with self._guard:
            if len(self._waiting) >= self._capacity:
                return False
            self._waiting.append(item)
            if self._worker is None:
                self._worker = threading.Thread(target=self._run, daemon=True)
                self._worker.start()
        return True

    def flush(self) -> None:
        """Do all that was taken until now; what `work` raises is raised here.

        Raises:
            StoreError: it cannot be done now; nothing is lost.
        """
        with self._working:
            with self._guard:
                taken, self._waiting = self._waiting, []
            if not taken:
                return
            try:
                self._work(taken)
            except StoreError:
                with self._guard:
                    self._waiting[:0] = taken
                raise

    def waiting(self) -> list[Item]:
        """What was taken and is not done yet, in its order."""
        with self._working, self._guard:
            return list(self._waiting)

    def close(self) -> int:
        """Do what is left; how many items had to be given up. More may be added afterwards."""
        with self._guard:
            worker = self._worker
        if worker is not None:
            self._stopping.set()
            worker.join()
            self._stopping.clear()
        try:
            self.flush()
        except StoreError:
            logger.warning("what was left could not be done", exc_info=True)
            with self._guard:
                left, self._waiting = self._waiting, []
            return len(left)
        return 0

    def _run(self) -> None:
        pause_s = self._pause_s
        while not self._stopping.wait(pause_s):
            try:
                self.flush()
                pause_s = self._pause_s
            except StoreError:
                if pause_s != self._retry_s:
                    logger.warning("cannot be done now, is tried again", exc_info=True)
                pause_s = self._retry_s
            except Exception:
                # A fault of ours costs these items, and not all that follow.
                logger.exception("items were lost")
            with self._guard:
                if not self._waiting:
                    self._worker = None
                    return
        with self._guard:
            self._worker = None
