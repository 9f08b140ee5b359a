"""A log of decisions in a ledger, which every process of a service reads and writes."""

from __future__ import annotations

import heapq
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import (
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
    StoreWriteError,
)
from toolcrib.router.backlog import Backlog
from toolcrib.store.ledger import Entry, Ledger

__all__ = ["DatabaseLog", "Said"]

logger = logging.getLogger(__name__)

PRUNE_EVERY_S = 600.0
WARN_EVERY_S = 1.0
PATIENCE_S = 5.0
"""How long closing waits for records that are being removed."""

PAGE = 200
AROUND_S = 1.0
"""What is said of a decision that another process has made but not written yet stands at its own
time: within this of the decision's."""

OWN_WORDS = {"decision": "text", "feedback": "note"}
"""What of a record may be a user's words."""

MAY_PASS = (StoreUnavailableError, StoreLockedError, StoreWriteError)

Record = Mapping[str, Any]


class Said(NamedTuple):
    """What was said of a decision, oldest first."""

    feedback: list[Record]
    outcomes: list[Record]


class DatabaseLog:
    """The `DecisionLog` of a namespace; for several threads and processes.

    Decisions are written a moment later and many at a time: no turn waits for it, and where the
    ledger does not keep up, some are dropped and counted. What callers hand in, feedback and
    outcomes, is durable when `write` returns. `text`: also keep users' words. Records older than
    `keep_s` are removed now and then. The ledger is not closed with the log.
    """

    # Feedback and outcomes stand at the time of their decision, under ids that begin with its
    # id: all that is about one decision then lies in one stretch of a shelf.

    def __init__(
        self,
        ledger: Ledger,
        namespace: str,
        *,
        text: bool,
        keep_s: float,
        now: Callable[[], float] = time.time,
        clock: Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._shelves = {
            kind: f"{shelf}/{namespace}"
            for kind, shelf in (
                ("decision", "decisions"),
                ("feedback", "feedback"),
                ("outcome", "outcomes"),
            )
        }
        self._text = text
        self._keep_s = keep_s
        self._now = now
        self._clock = clock or SystemClock()
        self._next_prune = self._clock()
        self._backlog = Backlog[Entry](self._put_decisions)
        self._pruning: threading.Thread | None = None
        self._counting = threading.Lock()
        self._dropped = 0
        self._last_stamp = 0
        self._next_warning = self._clock()

    @property
    def dropped(self) -> int:
        """How many decisions could not be kept since this was made."""
        return self._dropped

    # -- writing ---------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        """Take a record of JSON values that has `kind`, `at`, and `id` or `decision`.

        Raises:
            StoreError: feedback or an outcome cannot be kept. (A decision is taken at once.)
        """
        kind = record["kind"]
        if not self._text:
            record = {key: value for key, value in record.items() if key != OWN_WORDS.get(kind)}
        if kind == "decision":
            if not self._backlog.add(Entry(record["id"], _seconds(record["at"]), record)):
                self._drop(1, "the ledger does not keep up")
            return
        decision_id = record["decision"]
        entry_id = f"{decision_id}:{self._stamp():019}-{secrets.token_hex(4)}"
        decision = self._find(decision_id)
        at = decision.at if decision else _seconds(record["at"])
        self._ledger.put(self._shelves[kind], Entry(entry_id, at, record))

    def _stamp(self) -> int:
        """Nanoseconds that only grow, also where the clock is set back."""
        with self._counting:
            self._last_stamp = max(time.time_ns(), self._last_stamp + 1)
            return self._last_stamp

    def flush(self) -> None:
        """Write what is still waiting.

        Raises:
            StoreError: the ledger does not take it; it stays, and is tried again.
        """
        self._backlog.flush()

    def close(self) -> None:
        """Write what is still waiting, and let go of the thread that does it."""
        lost = self._backlog.close()
        if lost:
            self._drop(lost, "the log was closed")
        if self._pruning is not None:
            self._pruning.join(PATIENCE_S)

    # -- reading ---------------------------------------------------------------------------

    def read(self) -> Iterator[Record]:
        """Every record: decisions oldest first, each followed by what was said of it.

        Raises:
            StoreError: the ledger cannot be read.
        """
        waiting = self._unwritten()
        each = [
            (entry for entry in self._ledger.read(shelf) if entry.id not in waiting)
            for shelf in self._shelves.values()
        ]
        last = sorted(waiting.values(), key=lambda entry: entry.at)
        return (entry.body for entry in heapq.merge(last, *each, key=lambda entry: entry.at))

    def find(self, decision_id: str) -> Record | None:
        """The decision of this id, None where there is none.

        Raises:
            StoreError: the ledger cannot be read.
        """
        found = self._find(decision_id)
        return found.body if found else None

    def recent(self, limit: int = 50, before: str | None = None) -> list[Record]:
        """The last decisions, newest first; with `before`, only those before that decision.

        Raises:
            StoreError: the ledger cannot be read.
        """
        waiting = self._unwritten()
        mark = None
        if before is not None:
            last = self._find(before)
            # What is no longer there was older than all that is.
            if last is None:
                return []
            mark = last.at, last.id
        written = self._ledger.newest(self._shelves["decision"], limit=limit, before=mark)
        known = {entry.id: entry for entry in written} | waiting
        places = ((entry.at, entry.id) for entry in known.values())
        last = sorted((at for at in places if mark is None or at < mark), reverse=True)
        return [known[entry_id].body for _, entry_id in last[:limit]]

    def about(self, decision_id: str) -> Said:
        """What was said of a decision; nothing of one that is not known.

        Raises:
            StoreError: the ledger cannot be read.
        """
        found = self._find(decision_id)
        if found is None:
            return Said([], [])
        return Said(self._said("feedback", found), self._said("outcome", found))

    def failed(self, decision_id: str) -> tuple[str, ...]:
        """The tools whose last reported outcome for a decision is a failure.

        Raises:
            StoreError: the ledger cannot be read.
        """
        found = self._find(decision_id)
        outcomes = self._said("outcome", found) if found else []
        last = {outcome["tool"]: outcome["outcome"] for outcome in outcomes}
        return tuple(tool for tool, outcome in last.items() if outcome == "failure")

    # -- the rest --------------------------------------------------------------------------

    def _find(self, decision_id: str) -> Entry | None:
        waiting = self._unwritten().get(decision_id)
        return waiting or self._ledger.get(self._shelves["decision"], decision_id)

    def _unwritten(self) -> dict[str, Entry]:
        """Decisions that wait, since the ledger has no room or another process has it; by id."""
        try:
            self.flush()
        except (StoreWriteError, StoreLockedError):
            return {entry.id: entry for entry in self._backlog.waiting()}
        return {}

    def _said(self, kind: str, decision: Entry) -> list[Record]:
        """The records of a kind about a decision, from the last that may be one backwards."""
        mark, end = (decision.at + AROUND_S, ""), decision.at - AROUND_S
        found: list[Entry] = []
        while page := self._ledger.newest(self._shelves[kind], limit=PAGE, before=mark):
            found += [entry for entry in page if entry.id.startswith(f"{decision.id}:")]
            mark = page[-1].at, page[-1].id
            if mark[0] < end:
                break
        return [entry.body for entry in sorted(found, key=lambda entry: entry.id)]

    def _put_decisions(self, entries: list[Entry]) -> None:
        """Write them; what the ledger will never take is dropped, the rest tried again."""
        shelf = self._shelves["decision"]
        try:
            self._ledger.put_all(shelf, entries)
        except MAY_PASS:
            raise
        except StoreError as error:
            if len(entries) == 1:
                self._drop(1, str(error))
            else:
                for entry in entries:
                    self._put_decisions([entry])
        self._prune_now_and_then()

    def _prune_now_and_then(self) -> None:
        if self._clock() < self._next_prune:
            return
        self._next_prune = self._clock() + PRUNE_EVERY_S
        # On its own, since much may have to go, and decisions are waiting.
        self._pruning = threading.Thread(target=self._prune, daemon=True)
        self._pruning.start()

    def _prune(self) -> None:
        try:
            for shelf in self._shelves.values():
                self._ledger.prune(shelf, before=self._now() - self._keep_s)
        except StoreError as error:
            logger.warning("old decisions could not be removed: %s", error)

    def _drop(self, count: int, why: str) -> None:
        with self._counting:
            self._dropped += count
            quiet = self._clock() < self._next_warning
            if not quiet:
                self._next_warning = self._clock() + WARN_EVERY_S
        if not quiet:
            logger.warning("decisions were not logged, %d until now: %s", self._dropped, why)


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
