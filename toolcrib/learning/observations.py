"""Observations: requests with the tool (or other option) that proved right; and their table."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from toolcrib.encoders.base import FloatArray, from_text, to_text
from toolcrib.router.decision_log_db import WORDS_TABLE
from toolcrib.store.records_db import DbRow, RecordsDb

MAX_OBSERVATIONS = 20_000
"""Observations kept in a namespace; the oldest are removed."""

MAX_SHOWN_WORDS = 20
"""Requests of a tool or option that a status shows."""

_STATE_ROW, _SECRET_ROW = "state", "secret"


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Request with one of its successful calls: of `tool`, at `at` (Unix time).

    `decision` is the request's id, `digest` the tool's digest at that time. `session` is a keyed
    hash, equal for equal sessions. `by` is the id of the caller's key, empty without a key.
    `vector` is the request by `encoder`, float32 [d]. `ranking` has ids and scores of the found
    tools, best first, without learning. `text` is the request, if texts may be kept; it is not
    read again with the rest. With a `choice`, `tool` is one of its options and `ranking` has their
    probabilities.
    """

    decision: str
    tool: str
    digest: str
    at: float
    session: str
    by: str
    encoder: str
    vector: FloatArray
    ranking: tuple[tuple[str, float], ...]
    text: str | None = None
    choice: str = ""

    @property
    def name(self) -> str:
        """Id of the tool, or `CHOICE:OPTION`."""
        return name_of(self.choice, self.tool)

    @property
    def day(self) -> str:
        """Day in UTC, as `2026-01-31`."""
        return day_of(self.at)

    def row(self) -> DbRow:
        """Row of the observation, under its decision and its tool."""
        body = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        body |= {"dimensions": len(self.vector), "vector": to_text(self.vector)}
        body["ranking"] = [[tool, round(score, 5)] for tool, score in self.ranking]
        return DbRow(_row_id(self.decision, self.name), self.at, body)


def name_of(choice: str, option: str) -> str:
    """`CHOICE:OPTION`; the id of a tool without a choice."""
    return f"{choice}:{option}" if choice else option


def day_of(at: float) -> str:
    """Day of a Unix time in UTC, as `2026-01-31`."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _row_id(decision: str, name: str) -> str:
    return f"{decision}/{name}"


_PLAIN_FIELDS = ("decision", "tool", "digest", "session", "by", "encoder", "choice")


def _observation(row: DbRow) -> Observation:
    body = row.body
    return Observation(
        at=row.at,
        vector=from_text(body["vector"], body["dimensions"])[0],
        ranking=tuple((tool, score) for tool, score in body["ranking"]),
        **{name: body[name] for name in _PLAIN_FIELDS if name in body},
    )


def read_newest(db: RecordsDb, table: str, most: int) -> list[DbRow]:
    """Read the newest rows of a table, oldest first, and remove older rows."""
    rows = list(db.read(table))
    if len(rows) > most:
        rows = rows[-most:]
        db.prune(table, before=rows[0].at)
    return rows


class ObservationTable:
    """Observations and lessons of a namespace, in a records database opened on first use.

    Four tables: `observations/NAMESPACE`, `words/NAMESPACE` (the requests, which a service removes
    with their decisions), `lessons/NAMESPACE` (a row a tool) and `learning/NAMESPACE` (state).
    Every method raises `StoreError` if the database fails.
    """

    def __init__(self, open_db: Callable[[], RecordsDb], namespace: str, *, owns: bool) -> None:
        self._open_db, self._owns = open_db, owns
        self._db: RecordsDb | None = None
        self._opening = threading.Lock()
        self._observations = f"observations/{namespace}"
        self._words = f"{WORDS_TABLE}/{namespace}"
        self._lessons = f"lessons/{namespace}"
        self._learning = f"learning/{namespace}"
        self._secret: bytes | None = None

    # -- observations ------------------------------------------------------------------------

    def add(self, observation: Observation) -> None:
        """Keep an observation, in place of another of the same decision and tool."""
        row = observation.row()
        self.database().put(self._observations, row)
        if observation.text is not None:
            words = {"name": observation.name, "text": observation.text}
            self.database().put(self._words, DbRow(row.id, row.at, words))

    def has(self, decision: str, name: str) -> bool:
        """True if a decision has an observation of a tool, or of `CHOICE:OPTION`."""
        return self.database().get(self._observations, _row_id(decision, name)) is not None

    def read(self) -> list[Observation]:
        """Read the newest `MAX_OBSERVATIONS`, oldest first, and remove older observations."""
        rows = read_newest(self.database(), self._observations, MAX_OBSERVATIONS)
        self.database().prune(self._words, before=rows[0].at if rows else 0.0)
        return [_observation(row) for row in rows]

    def words(self) -> dict[str, tuple[str, ...]]:
        """Last kept requests by tool or `CHOICE:OPTION`, oldest first."""
        found: dict[str, tuple[str, ...]] = {}
        for row in self.database().read(self._words):
            name, text = row.body["name"], row.body["text"]
            found[name] = (*found.get(name, ()), text)[-MAX_SHOWN_WORDS:]
        return found

    def remove(self, matches: Callable[[Observation], bool]) -> int:
        """Remove and count matching observations."""
        rows = {_row_id(each.decision, each.name) for each in self.read() if matches(each)}
        for row in [each.id for each in self.database().read(self._words) if each.id in rows]:
            self.database().delete(self._words, row)
        return sum(self.database().delete(self._observations, row) for row in rows)

    def session_hash(self, session: str) -> str:
        """Hash of a session, with a secret that stays in the database."""
        if self._secret is None:
            known = self.database().get(self._learning, _SECRET_ROW)
            if known is None:
                made = {"secret": secrets.token_hex(32)}
                self.database().put(self._learning, DbRow(_SECRET_ROW, time.time(), made))
                # Read back: if two processes made a secret, the last write counts.
                known = self.database().get(self._learning, _SECRET_ROW)
            assert known is not None
            self._secret = bytes.fromhex(known.body["secret"])
        return hashlib.blake2b(session.encode(), key=self._secret, digest_size=8).hexdigest()

    # -- lessons and state ---------------------------------------------------------------

    def lessons(self) -> Iterator[DbRow]:
        """Read the lessons, a row a tool."""
        return self.database().read(self._lessons)

    def write_lessons(self, rows: list[DbRow]) -> None:
        """Replace all lessons."""
        kept = {row.id for row in rows}
        for row in list(self.lessons()):
            if row.id not in kept:
                self.database().delete(self._lessons, row.id)
        self.database().put_all(self._lessons, rows)

    def state(self) -> Mapping[str, Any]:
        """Read the state; empty before the first write."""
        row = self.database().get(self._learning, _STATE_ROW)
        return {} if row is None else row.body

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replace the state."""
        self.database().put(self._learning, DbRow(_STATE_ROW, time.time(), state))

    def close(self) -> None:
        """Close the database, if the table owns it."""
        with self._opening:
            db, self._db = self._db, None
        if db is not None and self._owns:
            db.close()

    def database(self) -> RecordsDb:
        """Database, opened on first use."""
        with self._opening:
            if self._db is None:
                self._db = self._open_db()
            return self._db
