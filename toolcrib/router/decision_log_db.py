"""Decision log of a service: records of each namespace in the records database."""

from __future__ import annotations

import heapq
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import (
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
    StoreWriteError,
)
from toolcrib.store.records_db import DbRow, RecordsDb

logger = logging.getLogger(__name__)

MAX_WAITING_ROWS = 4096
WRITE_DELAY_S = 0.02
WRITE_RETRY_S = 1.0

PRUNE_EVERY_S = 600.0
WARN_EVERY_S = 1.0
PRUNE_TIMEOUT_S = 5.0
"""Time that `DecisionPruner.close` waits for a running prune."""

PAGE_ROWS = 200
REPORT_CLOCK_SKEW_S = 1.0
"""Tolerance between the times of a decision and its reports: another process may report, at its own
clock's time, before the decision is written."""

USER_TEXT_FIELDS = {"decision": "text", "feedback": "note"}
"""Field of each kind of record that may hold a user's words."""

WORDS_TABLE = "words"
"""Users' words beside what was learned of them: they are pruned as decisions are."""

TABLE_OF_KIND = {"decision": "decisions", "feedback": "feedback", "outcome": "outcomes"}
PASSING_ERRORS = (StoreUnavailableError, StoreLockedError, StoreWriteError)

Record = Mapping[str, Any]


class DecisionReports(NamedTuple):
    """Feedback and outcomes of a decision, oldest first."""

    feedback: list[Record]
    outcomes: list[Record]


@dataclass(eq=False)
class DatabaseLog:
    """`DecisionLog` of a namespace, shared by all processes of a service.

    Decisions are queued and written in batches, so that no turn waits; if the database does not
    keep up, some are dropped and counted. Feedback and outcomes are durable when `write` returns.
    Decisions are read oldest first, each followed by its reports. `text`: also keep users' words.
    Each write calls the `pruner`. `close` leaves the database open. `dropped_decisions`: number of
    decisions that could not be stored.
    """

    # Feedback and outcomes get the time of their decision, and ids that begin with its id: all
    # reports on a decision are neighbours in a table.

    db: RecordsDb
    namespace: str
    text: bool = field(kw_only=True)
    pruner: DecisionPruner = field(kw_only=True)
    clock: Clock = field(default_factory=SystemClock, kw_only=True)
    dropped_decisions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._tables = {kind: f"{table}/{self.namespace}" for kind, table in TABLE_OF_KIND.items()}
        self._queue = WriteBehind(self._put_decisions)
        self._counting = threading.Lock()
        self._last_stamp = 0
        self._next_warning = self.clock()

    # -- writing ---------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        kind = record["kind"]
        if not self.text:
            record = {
                key: value for key, value in record.items() if key != USER_TEXT_FIELDS.get(kind)
            }
        if kind == "decision":
            if not self._queue.add(DbRow(record["id"], _seconds(record["at"]), record)):
                self._drop(1, "the database is too slow")
            return
        decision_id = record["decision"]
        row_id = f"{decision_id}:{self._stamp():019}-{secrets.token_hex(4)}"
        decision = self._find(decision_id)
        at = decision.at if decision else _seconds(record["at"])
        self.db.put(self._tables[kind], DbRow(row_id, at, record))
        # A gateway writes outcomes alone.
        self.pruner.prune_if_due()

    def _stamp(self) -> int:
        """Strictly increasing nanoseconds, even if the clock is set back."""
        with self._counting:
            self._last_stamp = max(time.time_ns(), self._last_stamp + 1)
            return self._last_stamp

    def flush(self) -> None:
        """Write the queued decisions.

        Raises:
            StoreError: the database rejects the write; the decisions stay queued for a retry.
        """
        self._queue.flush()

    def close(self) -> None:
        lost = self._queue.close()
        if lost:
            self._drop(lost, "the log was closed")

    # -- reading; each raises StoreError where the database cannot be read ---------------------

    def read(self) -> Iterator[Record]:
        waiting = self._unwritten_rows()
        each = [
            (row for row in self.db.read(table) if row.id not in waiting)
            for table in self._tables.values()
        ]
        last = sorted(waiting.values(), key=lambda row: row.at)
        return (row.body for row in heapq.merge(last, *each, key=lambda row: row.at))

    def find(self, decision_id: str) -> Record | None:
        found = self._find(decision_id)
        return found.body if found else None

    def recent(self, limit: int = 50, before: str | None = None) -> list[Record]:
        """Last decisions, newest first; with `before`, only those older than that decision."""
        waiting = self._unwritten_rows()
        mark = None
        if before is not None:
            last = self._find(before)
            # Pruning removes the oldest decisions first, so nothing older is left.
            if last is None:
                return []
            mark = last.at, last.id
        written = self.db.newest(self._tables["decision"], limit=limit, before=mark)
        known = {row.id: row for row in written} | waiting
        places = ((row.at, row.id) for row in known.values())
        last = sorted((at for at in places if mark is None or at < mark), reverse=True)
        return [known[row_id].body for _, row_id in last[:limit]]

    def about(self, decision_id: str) -> DecisionReports:
        """Reports on a decision; empty if the decision is unknown."""
        found = self._find(decision_id)
        if found is None:
            return DecisionReports([], [])
        return DecisionReports(self._reports("feedback", found), self._reports("outcome", found))

    def outcomes(self) -> Iterator[tuple[Record, Record]]:
        """Outcomes of calls, each with its decision; the newest decisions first."""
        mark, decision = None, None
        while page := self.db.newest(self._tables["outcome"], limit=PAGE_ROWS, before=mark):
            for row in page:
                of = row.body["decision"]
                if decision is None or decision["id"] != of:
                    decision = self.find(of)
                if decision is not None:
                    yield row.body, decision
            mark = page[-1].at, page[-1].id

    def failed_tools(self, decision_id: str) -> tuple[str, ...]:
        found = self._find(decision_id)
        outcomes = self._reports("outcome", found) if found else []
        last = {outcome["tool"]: outcome["outcome"] for outcome in outcomes}
        return tuple(tool for tool, outcome in last.items() if outcome == "failure")

    def _find(self, decision_id: str) -> DbRow | None:
        waiting = self._unwritten_rows().get(decision_id)
        return waiting or self.db.get(self._tables["decision"], decision_id)

    def _unwritten_rows(self) -> dict[str, DbRow]:
        """Queued decisions by id, while a full disk or another process blocks the write."""
        try:
            self.flush()
        except (StoreWriteError, StoreLockedError):
            return {row.id: row for row in self._queue.waiting()}
        return {}

    def _reports(self, kind: str, decision: DbRow) -> list[Record]:
        """Records of a kind about a decision, searched backwards from the latest possible."""
        mark, end = (decision.at + REPORT_CLOCK_SKEW_S, ""), decision.at - REPORT_CLOCK_SKEW_S
        found: list[DbRow] = []
        while page := self.db.newest(self._tables[kind], limit=PAGE_ROWS, before=mark):
            found += [row for row in page if row.id.startswith(f"{decision.id}:")]
            mark = page[-1].at, page[-1].id
            if mark[0] < end:
                break
        return [row.body for row in sorted(found, key=lambda row: row.id)]

    # -- in the background -----------------------------------------------------------------

    def _put_decisions(self, rows: list[DbRow]) -> None:
        """Write decisions; drop single decisions that the database always rejects."""
        try:
            self.db.put_all(self._tables["decision"], rows)
        except PASSING_ERRORS:
            raise
        except StoreError as error:
            if len(rows) == 1:
                self._drop(1, str(error))
            else:
                for row in rows:
                    self._put_decisions([row])
        self.pruner.prune_if_due()

    def _drop(self, count: int, why: str) -> None:
        with self._counting:
            self.dropped_decisions += count
            quiet = self.clock() < self._next_warning
            if not quiet:
                self._next_warning = self.clock() + WARN_EVERY_S
        if not quiet:
            logger.warning("decisions were not logged, %d so far: %s", self.dropped_decisions, why)


@dataclass(eq=False)
class DecisionPruner:
    """Removes decisions older than `keep_s`, their reports, and learned words, of all namespaces.

    A namespace without new decisions must lose its old ones too. `close` leaves the database open.
    """

    db: RecordsDb
    keep_s: float
    now: Callable[[], float] = field(default=time.time, kw_only=True)
    clock: Clock = field(default_factory=SystemClock, kw_only=True)

    def __post_init__(self) -> None:
        self._next_prune = self.clock()
        self._pruning: threading.Thread | None = None
        self._lock = threading.Lock()

    def prune_if_due(self) -> None:
        """Prune in a thread, at most once in `PRUNE_EVERY_S`."""
        with self._lock:
            if self.clock() < self._next_prune:
                return
            self._next_prune = self.clock() + PRUNE_EVERY_S
            # A long prune in the caller's thread would delay queued decisions.
            self._pruning = threading.Thread(target=self.prune, daemon=True)
            self._pruning.start()

    def prune(self) -> None:
        """Prune now."""
        kinds = {*TABLE_OF_KIND.values(), WORDS_TABLE}
        try:
            for table in self.db.tables():
                if table.partition("/")[0] in kinds:
                    self.db.prune(table, before=self.now() - self.keep_s)
        except StoreError as error:
            logger.warning("old decisions could not be removed: %s", error)

    def close(self) -> None:
        """Wait for a running prune."""
        if self._pruning is not None:
            self._pruning.join(PRUNE_TIMEOUT_S)


class WriteBehind:
    """Queue of rows that `write` gets later, in order and in batches.

    Rows stay queued if `write` raises a `StoreError`. Thread-safe.
    """

    def __init__(self, write: Callable[[list[DbRow]], None]) -> None:
        self._write = write
        self._waiting: list[DbRow] = []
        self._timer: threading.Timer | None = None
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._is_failing = False

    def add(self, row: DbRow) -> bool:
        """Add a row; False if the queue is full."""
        with self._guard:
            if len(self._waiting) >= MAX_WAITING_ROWS:
                return False
            self._waiting.append(row)
            self._start(WRITE_DELAY_S)
        return True

    def flush(self) -> None:
        """Write all rows; errors of `write` are raised."""
        with self._writing:
            with self._guard:
                taken, self._waiting = self._waiting, []
            try:
                if taken:
                    self._write(taken)
            except StoreError:
                with self._guard:
                    self._waiting[:0] = taken
                raise

    def waiting(self) -> list[DbRow]:
        """Queued rows, in order."""
        with self._writing, self._guard:
            return list(self._waiting)

    def close(self) -> int:
        """Write the queued rows, and return the number of lost rows."""
        with self._guard:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        try:
            self.flush()
        except StoreError:
            logger.warning("queued records could not be written", exc_info=True)
            # A writing thread puts failed rows back into the queue.
            with self._writing, self._guard:
                left, self._waiting = self._waiting, []
            return len(left)
        return 0

    def _start(self, pause_s: float) -> None:
        """Start the writing thread; it ends when the queue is empty."""
        if self._timer is None:
            self._timer = threading.Timer(pause_s, self._run)
            self._timer.daemon = True
            self._timer.start()

    def _run(self) -> None:
        with self._guard:
            self._timer = None
        try:
            self.flush()
            self._is_failing = False
        except StoreError:
            if not self._is_failing:
                logger.warning(
                    "records cannot be written; the write will be retried", exc_info=True
                )
            self._is_failing = True
            with self._guard:
                self._start(WRITE_RETRY_S)
        except Exception:
            # A bug loses these rows, but not later ones.
            logger.exception("records were lost")


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
