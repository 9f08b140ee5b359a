"""Learner: takes down which requests ended in a successful call, and lets them re-order answers."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from toolcrib.caches import BoundedMap
from toolcrib.encoders.base import from_text, to_text
from toolcrib.learning.lessons import OF_A_SESSION, Lesson, faded, make_lessons
from toolcrib.learning.observations import DAY_S, Observation, ObservationTable
from toolcrib.learning.replay import replay
from toolcrib.records import Scope
from toolcrib.records.codec import adapter, as_json
from toolcrib.records.learning import LearnedTool, LearningStatus, LogLearning, ServerReplay
from toolcrib.retrieval.learned import LearnedTools
from toolcrib.store.base import point_id
from toolcrib.store.filters import from_scope
from toolcrib.store.records_db.base import DbRow
from toolcrib.tool_index import ToolIndex

__all__ = ["UsageLearner"]

logger = logging.getLogger(__name__)

MAX_REQUESTS_BYTES = 16 * 2**20
"""What requests take that wait for the outcome of their calls; older ones are forgotten."""

MAX_GIVEN = 100_000
"""Counts of a session's tools that are kept."""

MAX_CHARS = 2_000
"""What is remembered of a request; encoders read no further."""

RANKED = 50
"""Tools of a ranking that are kept for replays."""

GROWTH = 0.1
"""Examples are chosen anew when so much more was observed."""

WHY = {
    "gone": "the tool is gone",
    "session": "only one session saw it",
    "encoder": "another encoder made its vectors",
    "shadow": "in shadow: the replay does not show that its server's help",
    "off": "learning is off",
}


@dataclass(frozen=True, slots=True)
class _Request:
    text: str
    scope: Scope | None
    session: str | None
    by: str


def _bytes_of(_decision_id: str, request: _Request) -> int:
    scope = request.scope.bytes if request.scope else 0
    return 512 + len(request.text) + scope


class UsageLearner:
    """What use teaches of the tools of an index. Safe for several threads.

    `table` keeps it, apart from the specifications. `text`: also keep the requests' words.
    """

    def __init__(
        self,
        tools: ToolIndex,
        table: ObservationTable,
        *,
        collects: bool,
        text: bool,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tools, self._table = tools, table
        self.collects = collects
        self._text, self._now = text, now
        self._requests: BoundedMap[str, _Request] = BoundedMap(MAX_REQUESTS_BYTES, _bytes_of)
        self._given: BoundedMap[tuple[str, str, str], int] = BoundedMap(MAX_GIVEN)
        self._lock = threading.Lock()
        self._learning = threading.Lock()
        self._new = self._known = 0

    # -- in ----------------------------------------------------------------------------------

    def remember(
        self,
        decision_id: str,
        text: str,
        *,
        scope: Scope | None = None,
        session: str | None = None,
        by: str | None = None,
    ) -> None:
        """Keep a request in memory until a call for it succeeds, or many others came.

        Without a `session` all of a key's requests of one day are one.
        """
        with self._lock:
            self._requests[decision_id] = _Request(text[:MAX_CHARS], scope, session, by or "")

    def succeeded(self, decision_id: str, tool: str) -> bool:
        """Take down the first successful call of a decision; whether something was learned.

        Raises:
            StoreError: a store does not answer.
        """
        with self._lock:
            request = self._requests.pop(decision_id, None)
        if request is None or not self._observe(decision_id, tool, request, self._now()):
            return False
        self._new += 1
        if self._new >= GROWTH * self._known:
            self.learn()
        return True

    def read_log(self, records: Iterable[Mapping[str, Any]]) -> LogLearning:
        """Learn from a log of decisions that holds users' words.

        Raises:
            StoreError: a store does not answer.
        """
        decisions: dict[str, Mapping[str, Any]] = {}
        calls: dict[str, Mapping[str, Any]] = {}
        for record in records:
            if record.get("kind") == "decision":
                decisions[str(record.get("id"))] = record
            elif record.get("kind") == "outcome" and record.get("outcome") == "success":
                calls.setdefault(str(record.get("decision")), record)
        told = Counter(self._from_log(decisions.get(each), call) for each, call in calls.items())
        self.learn()
        return LogLearning(told["added"], told["known"], told["text"], told["tool"])

    def _from_log(self, decision: Mapping[str, Any] | None, call: Mapping[str, Any]) -> str:
        words = None if decision is None else cast("dict[str, str] | None", decision.get("text"))
        if decision is None or not words or not (text := words.get("search")):
            return "text"
        if self._table.has(decision["id"]):
            return "known"
        at = datetime.fromisoformat(call["at"]).timestamp()
        request = _Request(text[:MAX_CHARS], None, decision.get("session"), decision.get("by", ""))
        return "added" if self._observe(decision["id"], call["tool"], request, at) else "tool"

    def _observe(self, decision_id: str, tool: str, request: _Request, at: float) -> bool:
        """Keep an observation, unless its session gave enough of the tool, or there is none."""
        found = self._tools.store.retrieve([point_id(tool)])
        digest = next((r.payload["digest"] for r in found if r.payload["id"] == tool), None)
        query = self._tools.encode_query(request.text)
        if digest is None or query.dense is None:
            return False
        day = datetime.fromtimestamp(at, UTC).date().isoformat()
        session = self._table.session_hash(f"{request.by}\n{request.session or day}")
        with self._lock:
            given = self._given.get((request.by, session, tool), 0) + 1
            self._given[request.by, session, tool] = given
            if given > OF_A_SESSION:
                return False
        retriever, allowed = self._tools.retriever, from_scope(request.scope)
        ranking = retriever.unlearned(query, allowed, RANKED)
        self._table.add(
            Observation(
                decision=decision_id,
                tool=tool,
                digest=digest,
                at=at,
                session=session,
                by=request.by,
                encoder=self._tools.dense.name,
                vector=query.dense,
                ranking=tuple((hit.id, hit.score) for hit in ranking),
                text=request.text if self._text else None,
            )
        )
        return True

    # -- what is made of it ------------------------------------------------------------------

    def learn(self) -> LearningStatus:
        """Choose examples, replay the past, keep what came of it, and re-order by what helps.

        Raises:
            StoreError: a store does not answer.
        """
        with self._learning:
            observations = self._table.read()
            self._known, self._new = len(observations), 0
            named = {each.tool for each in observations}
            tools = self._there(named)
            digests = {tool: payload["digest"] for tool, payload in tools.items()}
            servers = {tool: payload["server"] for tool, payload in tools.items()}
            encoder, now = self._tools.dense.name, self._now()
            lessons = make_lessons(observations, digests, encoder, now)
            usable = [each for each in observations if each.encoder == encoder]
            replayed = replay(usable, lessons, servers)
            verdicts = {each.server: each.verdict for each in replayed}
            self._table.write_lessons(
                [self._row(each, servers[each.tool], verdicts, digests) for each in lessons]
                + self._unused(observations, {each.tool for each in lessons}, servers)
            )
            self._table.write_state(
                {
                    "on": self._table.state().get("on", True),
                    "at": now,
                    "encoder": encoder,
                    "observations": len(observations),
                    "servers": [as_json(each) for each in replayed],
                }
            )
        self.apply()
        return self.status()

    def apply(self) -> None:
        """Re-order by what was learned, as far as it may count now.

        Raises:
            StoreError: a store does not answer.
        """
        state = self._table.state()
        self._known = state.get("observations", 0)
        rows = {}
        if state.get("on") and state.get("encoder") == self._tools.dense.name:
            rows = {row.id: row.body for row in self._table.lessons() if "vectors" in row.body}
        tools = self._there(rows)
        age = faded((self._now() - state.get("at", 0.0)) / DAY_S)
        taught = {
            point_id(tool): (
                (body["tool"]["support"] if body["tool"]["live"] else 0.0)
                * age
                * (1.0 if body["digest"] == tools[tool]["digest"] else 0.5),
                from_text(body["vectors"], self._tools.dense.dimensions),
            )
            for tool, body in rows.items()
            if tool in tools
        }
        self._tools.use_learned(LearnedTools.of(taught) if taught else None)

    def status(self) -> LearningStatus:
        """What was learned of each tool, from whom, and whether it counts.

        Raises:
            StoreError: the database cannot be read.
        """
        state = self._table.state()
        is_on = state.get("on", True)
        told = adapter(LearnedTool)
        tools: list[LearnedTool] = []
        for row in self._table.lessons():
            tools.append(told.validate_python(row.body["tool"]))  # noqa: PERF401 -- typed this way
        is_ours = state.get("encoder", self._tools.dense.name) == self._tools.dense.name
        if not is_on or not is_ours:
            why = WHY["encoder" if is_on else "off"]
            tools = [replace(each, live=False, reason=why) for each in tools]
        at = state.get("at")
        return LearningStatus(
            on=is_on,
            collects=self.collects,
            encoder=state.get("encoder", self._tools.dense.name),
            learned_at=None
            if at is None
            else datetime.fromtimestamp(at, UTC).isoformat("T", "seconds"),
            observations=state.get("observations", 0),
            servers=tuple(
                adapter(ServerReplay).validate_python(each) for each in state.get("servers", ())
            ),
            tools=tuple(sorted(tools, key=lambda each: (-each.observations, each.tool))),
        )

    def undo(self, what: str) -> int:
        """Take back what was learned on a day (`2026-01-31`), from a key, or of a tool; counts it.

        Raises:
            StoreError: a store does not answer.
        """
        removed = self._table.remove(lambda each: what in {each.day, each.tool, each.by or None})
        with self._lock:
            self._given.clear()
        self.learn()
        return removed

    def switch(self, *, on: bool) -> None:
        """Let what was learned re-order answers, or leave it aside; nothing is lost."""
        self._table.write_state({**self._table.state(), "on": on})
        self.apply()

    def close(self) -> None:
        """Let go of the database."""
        self._table.close()

    def _there(self, tools: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """The payloads of those of the tools that there are, by id."""
        named = set(tools)
        found = self._tools.store.retrieve([point_id(tool) for tool in named]) if named else []
        return {r.payload["id"]: r.payload for r in found if r.payload["id"] in named}

    def _row(
        self,
        lesson: Lesson,
        server: str,
        verdicts: Mapping[str, str],
        digests: Mapping[str, str],
    ) -> DbRow:
        why = "" if lesson.is_live else WHY["session"]
        if not why and verdicts.get(server) != "live":
            why = WHY["shadow"]
        told = _told(lesson.tool, server, lesson.of, why, len(lesson.examples), lesson.support)
        body = {
            "tool": as_json(told),
            "digest": digests[lesson.tool],
            "vectors": to_text(lesson.vectors),
        }
        return DbRow(lesson.tool, self._now(), body)

    def _unused(
        self, observations: Sequence[Observation], used: set[str], servers: Mapping[str, str]
    ) -> list[DbRow]:
        """Records of tools of which nothing that is known counts any more."""
        by_tool: dict[str, list[Observation]] = {}
        for each in observations:
            if each.tool not in used:
                by_tool.setdefault(each.tool, []).append(each)
        rows: list[DbRow] = []
        for tool, seen in by_tool.items():
            why = WHY["encoder" if tool in servers else "gone"]
            told = _told(tool, servers.get(tool, ""), seen, why)
            rows.append(DbRow(tool, self._now(), {"tool": as_json(told)}))
        return rows


def _told(
    tool: str,
    server: str,
    seen: Sequence[Observation],
    why: str,
    examples: int = 0,
    support: float = 0.0,
) -> LearnedTool:
    return LearnedTool(
        tool=tool,
        server=server,
        observations=len(seen),
        examples=examples,
        support=support,
        live=not why,
        reason=why,
        sessions=len({(each.by, each.session) for each in seen}),
        by=dict(sorted(Counter(each.by for each in seen).items())),
        days=dict(sorted(Counter(each.day for each in seen).items())),
        texts=tuple(each.text for each in seen if each.text is not None)[-20:],
    )
