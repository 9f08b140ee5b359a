"""Observations: requests with the tool whose call answered them, as they are kept."""

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
from toolcrib.store.records_db.base import DbRow, RecordsDb

DAY_S = 86_400.0

MAX_KEPT = 20_000
"""Observations a namespace; older ones go."""

STATE, SECRET = "state", "secret"


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """A request whose first successful call was one of `tool`, at `at` (Unix time).

    `digest` is that of the tool as it was then. `session` is a keyed hash: equal where the session
    was the same, and of no other use. `by` is the id of the key that asked, empty without
    one. `vector` is the request's, float32 [d], as `encoder` made it. `ranking` are the ids and
    scores of the tools that were found, best first, without anything learned. `text` is the
    request where it may be kept.
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

    @property
    def day(self) -> str:
        """The day in UTC, as `2026-01-31`."""
        return datetime.fromtimestamp(self.at, UTC).date().isoformat()

    def row(self) -> DbRow:
        """The observation as it is kept, under the id of its decision."""
        body: dict[str, Any] = {name: getattr(self, name) for name in AS_THEY_ARE}
        body |= {"dimensions": len(self.vector), "vector": to_text(self.vector)}
        body["ranking"] = [[tool, round(score, 5)] for tool, score in self.ranking]
        if self.text is not None:
            body["text"] = self.text
        return DbRow(self.decision, self.at, body)


AS_THEY_ARE = ("tool", "digest", "session", "by", "encoder")


def _observation(row: DbRow) -> Observation:
    body = row.body
    return Observation(
        decision=row.id,
        at=row.at,
        vector=from_text(body["vector"], body["dimensions"])[0],
        ranking=tuple((tool, score) for tool, score in body["ranking"]),
        text=body.get("text"),
        **{name: body[name] for name in AS_THEY_ARE},
    )


class ObservationTable:
    """What a namespace learned from use, in a records database that is opened when it is needed.

    Three tables: `observations/NAMESPACE`, `lessons/NAMESPACE` (what was made of them, a record
    a tool) and `learning/NAMESPACE` (its state). Every method raises `StoreError` where the
    database cannot do its work.
    """

    def __init__(self, open_db: Callable[[], RecordsDb], namespace: str, *, owns: bool) -> None:
        self._open_db, self._owns = open_db, owns
        self._db: RecordsDb | None = None
        self._opening = threading.Lock()
        self._observations = f"observations/{namespace}"
        self._lessons = f"lessons/{namespace}"
        self._learning = f"learning/{namespace}"
        self._secret: bytes | None = None

    # -- observations ------------------------------------------------------------------------

    def add(self, observation: Observation) -> None:
        """Keep one; another one of the same decision is replaced."""
        self._opened().put(self._observations, observation.row())

    def has(self, decision: str) -> bool:
        """Whether something was learned of a decision."""
        return self._opened().get(self._observations, decision) is not None

    def read(self) -> list[Observation]:
        """The last `MAX_KEPT`, oldest first; older ones are removed."""
        rows = list(self._opened().read(self._observations))
        if len(rows) > MAX_KEPT:
            rows = rows[-MAX_KEPT:]
            self._opened().prune(self._observations, before=rows[0].at)
        return [_observation(row) for row in rows]

    def remove(self, is_meant: Callable[[Observation], bool]) -> int:
        """Take observations back; counts them."""
        meant = [each.decision for each in self.read() if is_meant(each)]
        return sum(self._opened().delete(self._observations, decision) for decision in meant)

    def session_hash(self, session: str) -> str:
        """What stands for a session: equal for equal ones, with a key that stays here."""
        if self._secret is None:
            known = self._opened().get(self._learning, SECRET)
            if known is None:
                made = {"secret": secrets.token_hex(32)}
                self._opened().put(self._learning, DbRow(SECRET, time.time(), made))
                # Where another process made one meanwhile, the last one written holds.
                known = self._opened().get(self._learning, SECRET)
            assert known is not None
            self._secret = bytes.fromhex(known.body["secret"])
        return hashlib.blake2b(session.encode(), key=self._secret, digest_size=8).hexdigest()

    # -- what was made of them ---------------------------------------------------------------

    def lessons(self) -> Iterator[DbRow]:
        """What was made of them, a record a tool."""
        return self._opened().read(self._lessons)

    def write_lessons(self, rows: list[DbRow]) -> None:
        """Keep these, and no others."""
        kept = {row.id for row in rows}
        for row in list(self.lessons()):
            if row.id not in kept:
                self._opened().delete(self._lessons, row.id)
        self._opened().put_all(self._lessons, rows)

    def state(self) -> Mapping[str, Any]:
        """The last state that was kept; empty before the first."""
        row = self._opened().get(self._learning, STATE)
        return {} if row is None else row.body

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Keep another state."""
        self._opened().put(self._learning, DbRow(STATE, time.time(), state))

    def close(self) -> None:
        """Let go of the database, if it is its own."""
        with self._opening:
            db, self._db = self._db, None
        if db is not None and self._owns:
            db.close()

    def _opened(self) -> RecordsDb:
        with self._opening:
            if self._db is None:
                self._db = self._open_db()
            return self._db
