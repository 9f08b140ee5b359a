"""Learner: records the successful calls of requests, to re-order later answers."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from toolcrib.caches import BoundedMap
from toolcrib.encoders.base import from_text, to_text
from toolcrib.errors import StoreError
from toolcrib.learning.lessons import (
    MAX_EXAMPLES_A_SESSION,
    Lesson,
    age_weight,
    learned_companions,
    make_lessons,
)
from toolcrib.learning.observations import DAY_S, Observation, ObservationTable
from toolcrib.learning.replay import contradicting_keys, replay
from toolcrib.learning.runs import MIN_RUNS, Run, RunTable, tool_use, used_tools
from toolcrib.records import Scope
from toolcrib.records.codec import adapter, as_json
from toolcrib.records.reports import LearnedTool, LearningStatus, LogLearning, ServerReplay
from toolcrib.retrieval.learned import LearnedFromUse, LearnedTools
from toolcrib.retrieval.steps import ToolUse
from toolcrib.store.base import point_id
from toolcrib.store.filters import from_scope
from toolcrib.store.records_db import DbRow
from toolcrib.tool_index import ToolIndex

logger = logging.getLogger(__name__)

MAX_PENDING_REQUESTS_BYTES = 16 * 2**20
"""Memory of requests that wait for the outcome of their calls; the oldest are dropped."""

MAX_SESSION_COUNTS = 100_000
"""Counts of a session's tools that are kept."""

MAX_REQUEST_CHARS = 2_000
"""Characters kept of a request; encoders read no further."""

REPLAY_RANKED_TOOLS = 50
"""Tools of a ranking that are kept for replays."""

RELEARN_GROWTH = 0.1
"""Share of new observations after which examples are chosen again."""

BACKGROUND_FROM_OBSERVATIONS = 200
"""Observations from which on a call does not wait until examples are chosen: 7 s at 4,278."""

_REASONS = {
    "gone": "the tool is gone",
    "session": "only one session saw it",
    "encoder": "another encoder made its vectors",
    "key": "the calls of its keys contradict those of the others",
    "shadow": "in shadow: the replay does not show that its server's examples help",
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
    """Learner of an index's tools from their use. Safe for several threads.

    `table` keeps observations apart from the specifications. `text`: keep requests' words too.
    `orders_steps`: order steps by what other runs called.
    """

    def __init__(
        self,
        tools: ToolIndex,
        table: ObservationTable,
        runs: RunTable,
        *,
        collects: bool,
        text: bool,
        orders_steps: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._orders_steps = orders_steps
        self._tools, self._table, self.runs = tools, table, runs
        self.collects = collects
        self._text, self._now = text, now
        self._requests: BoundedMap[str, _Request] = BoundedMap(
            MAX_PENDING_REQUESTS_BYTES, _bytes_of
        )
        self._given: BoundedMap[tuple[str, str, str], int] = BoundedMap(MAX_SESSION_COUNTS)
        self._lock = threading.Lock()
        self._learning = threading.Lock()
        self._background: threading.Thread | None = None
        self._new = self._known = 0
        self._new_calls = self._known_calls = 0

    # -- observing ---------------------------------------------------------------------------

    def remember(
        self,
        decision_id: str,
        text: str,
        *,
        scope: Scope | None = None,
        session: str | None = None,
        by: str | None = None,
    ) -> None:
        """Keep a request in memory for its calls, until many other requests came.

        Without a `session` all requests of a key in one day are one session.
        """
        with self._lock:
            request = _Request(text[:MAX_REQUEST_CHARS], scope, session, by or "")
            self._requests[decision_id] = request
        self.runs.remember(decision_id, session, by or "")

    def record_success(self, decision_id: str, tool: str) -> bool:
        """Record a successful call of a decision, and of its run; True if it was learned from.

        Raises:
            StoreError: a store does not answer.
        """
        self._count_call(decision_id, tool)
        with self._lock:
            request = self._requests.get(decision_id)
        if request is None or not self._observe(decision_id, tool, request, self._now()):
            return False
        self._new += 1
        if self._new >= RELEARN_GROWTH * self._known:
            if self._known < BACKGROUND_FROM_OBSERVATIONS:
                self.learn()
            else:
                self._learn_in_background()
        return True

    def _learn_in_background(self) -> None:
        """Learn in a thread, unless one is at it; the next new observation begins it anew."""

        def work() -> None:
            try:
                self.learn()
            except StoreError:
                logger.warning("examples could not be chosen anew", exc_info=True)

        with self._lock:
            if self._background is None or not self._background.is_alive():
                self._background = threading.Thread(target=work, name="toolcrib-learning")
                self._background.start()

    def _count_call(self, decision_id: str, tool: str) -> None:
        if not self.runs.record(decision_id, tool, self._now()):
            return
        self._new_calls += 1
        if self._new_calls >= max(MIN_RUNS, RELEARN_GROWTH * self._known_calls):
            self.apply()

    def read_log(self, records: Iterable[Mapping[str, Any]]) -> LogLearning:
        """Learn from a log of decisions with users' words.

        Raises:
            StoreError: a store does not answer.
        """
        decisions: dict[str, Mapping[str, Any]] = {}
        calls: dict[tuple[str, str], Mapping[str, Any]] = {}
        for record in records:
            if record.get("kind") == "decision":
                decisions[str(record.get("id"))] = record
            elif record.get("kind") == "outcome" and record.get("outcome") == "success":
                calls.setdefault((str(record.get("decision")), str(record.get("tool"))), record)
                self._run_from_log(decisions.get(str(record.get("decision"))), record)
        counts = Counter(
            self._from_log(decisions.get(decision), call) for (decision, _), call in calls.items()
        )
        self.learn()
        return LogLearning(counts["added"], counts["known"], counts["text"], counts["tool"])

    def _run_from_log(self, decision: Mapping[str, Any] | None, call: Mapping[str, Any]) -> None:
        """Count a call of a log, unless it was counted when it was made."""
        if decision is not None and not self._table.has(decision["id"], call["tool"]):
            self.runs.remember(decision["id"], decision.get("session"), decision.get("by", ""))
            at = datetime.fromisoformat(call["at"]).timestamp()
            self.runs.record(decision["id"], call["tool"], at)

    def _from_log(self, decision: Mapping[str, Any] | None, call: Mapping[str, Any]) -> str:
        words = None if decision is None else cast("dict[str, str] | None", decision.get("text"))
        if decision is None or not words or not (text := words.get("search")):
            return "text"
        if self._table.has(decision["id"], call["tool"]):
            return "known"
        at = datetime.fromisoformat(call["at"]).timestamp()
        by = decision.get("by", "")
        request = _Request(text[:MAX_REQUEST_CHARS], None, decision.get("session"), by)
        return "added" if self._observe(decision["id"], call["tool"], request, at) else "tool"

    def _observe(self, decision_id: str, tool: str, request: _Request, at: float) -> bool:
        """Keep a new observation, unless the tool is gone or its session has given enough."""
        if self._table.has(decision_id, tool):
            return False
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
            if given > MAX_EXAMPLES_A_SESSION:
                return False
        retriever, allowed = self._tools.retriever, from_scope(request.scope)
        ranking = retriever.rank_by_legs(query, allowed, REPLAY_RANKED_TOOLS)
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

    # -- lessons ------------------------------------------------------------------

    def learn(self) -> LearningStatus:
        """Choose examples, replay past requests, and re-order answers by examples that help.

        Raises:
            StoreError: a store does not answer.
        """
        with self._learning:
            observations = self._table.read()
            self._known, self._new = len(observations), 0
            named = {each.tool for each in observations}
            tools = self._payloads(named)
            digests = {tool: payload["digest"] for tool, payload in tools.items()}
            servers = {tool: payload["server"] for tool, payload in tools.items()}
            encoder, now = self._tools.dense.name, self._now()
            usable = [e for e in observations if e.encoder == encoder and e.tool in tools]
            lessons = make_lessons(observations, digests, encoder, now)
            if left_out := contradicting_keys(usable, lessons):
                lessons = make_lessons(observations, digests, encoder, now, left_out)
                usable = [each for each in usable if each.by not in left_out]
            replayed = replay(usable, lessons, servers)
            companions = learned_companions(usable, now)
            verdicts = {each.server: each.verdict for each in replayed}
            unused = self._unused_rows(
                observations, {each.tool for each in lessons}, servers, left_out
            )
            rows = [
                self._row(
                    each, servers[each.tool], verdicts, digests, companions.get(each.tool, [])
                )
                for each in lessons
            ]
            self._table.write_lessons(rows + unused)
            self._table.write_state(
                {
                    "on": self._table.state().get("on", True),
                    "at": now,
                    "encoder": encoder,
                    "observations": len(observations),
                    "servers": [as_json(each) for each in replayed],
                    "left_out": left_out,
                }
            )
        self.apply()
        return self.status()

    def apply(self) -> None:
        """Re-order answers by the examples that may count now.

        Raises:
            StoreError: a store does not answer.
        """
        state, runs = self._table.state(), self.runs.read()
        self._known_calls, self._new_calls = sum(len(run.tools) for run in runs), 0
        self._known = state.get("observations", 0)
        rows = {}
        if state.get("on") and state.get("encoder") == self._tools.dense.name:
            rows = {row.id: row.body for row in self._table.lessons() if "vectors" in row.body}
        tools = self._payloads(rows)
        strengths = {each["server"]: each["strength"] for each in state.get("servers", ())}
        days = (self._now() - state.get("at", 0.0)) / DAY_S
        taught = {
            point_id(tool): (
                (body["tool"]["support"] if body["tool"]["live"] else 0.0)
                * strengths.get(body["tool"]["server"], 0.0)
                * age_weight(days, changed=body["digest"] != tools[tool]["digest"]),
                dict(
                    zip(
                        body["decisions"],
                        from_text(body["vectors"], self._tools.dense.dimensions),
                        strict=True,
                    )
                ),
            )
            for tool, body in rows.items()
            if tool in tools
        }
        use = self._use(runs, state)
        examples = LearnedTools.of(taught) if taught else None
        companions = {
            tool: body["tool"]["goes_with"]
            for tool, body in rows.items()
            if "goes_with" in body["tool"]
        }
        self._tools.use_learned(LearnedFromUse(examples, use, companions))

    def _use(self, runs: Sequence[Run], state: Mapping[str, Any]) -> ToolUse | None:
        """Use of tools that orders steps; None where the setting or the switch is off."""
        counts = self._orders_steps and state.get("on", True)
        return tool_use(runs, self._now()) if counts else None

    def status(self) -> LearningStatus:
        """Status of each tool's examples and of each server's replay.

        Raises:
            StoreError: the database cannot be read.
        """
        state = self._table.state()
        is_on = state.get("on", True)
        read = adapter(LearnedTool).validate_python
        tools: list[LearnedTool] = [read(row.body["tool"]) for row in self._table.lessons()]
        encoder = state.get("encoder", self._tools.dense.name)
        if not is_on or encoder != self._tools.dense.name:
            why = _REASONS["encoder" if is_on else "off"]
            tools = [replace(each, live=False, reason=why) for each in tools]
        at, runs = state.get("at"), self.runs.read()
        use = self._use(runs, state)
        return LearningStatus(
            on=is_on,
            collects=self.collects,
            encoder=encoder,
            learned_at=None
            if at is None
            else datetime.fromtimestamp(at, UTC).isoformat("T", "seconds"),
            observations=state.get("observations", 0),
            runs=len(runs),
            orders_steps=self._orders_steps,
            used=() if use is None else used_tools(runs, use),
            servers=tuple(
                adapter(ServerReplay).validate_python(each) for each in state.get("servers", ())
            ),
            tools=tuple(sorted(tools, key=lambda each: (-each.observations, each.tool))),
            left_out=tuple(state.get("left_out", ())),
        )

    def undo(self, what: str) -> int:
        """Remove the observations and runs of a day (`2026-01-31`), a key, or a tool.

        Only observations are counted.

        Raises:
            StoreError: a store does not answer.
        """
        removed = self._table.remove(lambda each: what in {each.day, each.tool, each.by or None})
        self.runs.remove(what)
        with self._lock:
            self._given.clear()
        self.learn()
        return removed

    def switch(self, *, on: bool) -> None:
        """Turn re-ordering on or off; all observations stay."""
        self._table.write_state({**self._table.state(), "on": on})
        self.apply()

    def close(self) -> None:
        """Close the database, after the work in the background."""
        if self._background is not None:
            self._background.join()
        self._table.close()

    def _payloads(self, tools: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Payloads of the tools that exist, by id."""
        named = set(tools)
        found = self._tools.store.retrieve([point_id(tool) for tool in named]) if named else []
        return {r.payload["id"]: r.payload for r in found if r.payload["id"] in named}

    def _row(
        self,
        lesson: Lesson,
        server: str,
        verdicts: Mapping[str, str],
        digests: Mapping[str, str],
        companions: Sequence[str],
    ) -> DbRow:
        why = "" if lesson.is_live else _REASONS["session"]
        if not why and verdicts.get(server) != "live":
            why = _REASONS["shadow"]
        examples = len(lesson.examples)
        learned = _learned_tool(lesson.tool, server, lesson.of, why, examples, lesson.support)
        learned = replace(learned, goes_with=tuple(companions))
        body = {
            "tool": as_json(learned),
            "digest": digests[lesson.tool],
            "decisions": list(lesson.vectors),
            "vectors": to_text(np.stack(list(lesson.vectors.values()))),
        }
        return DbRow(lesson.tool, self._now(), body)

    def _unused_rows(
        self,
        observations: Sequence[Observation],
        used: set[str],
        servers: Mapping[str, str],
        left_out: Sequence[str],
    ) -> list[DbRow]:
        """Rows of tools whose observations no longer count."""
        by_tool: dict[str, list[Observation]] = {}
        for each in observations:
            if each.tool not in used:
                by_tool.setdefault(each.tool, []).append(each)
        rows: list[DbRow] = []
        for tool, seen in by_tool.items():
            why = "gone" if tool not in servers else "encoder"
            if tool in servers and {each.by for each in seen} <= set(left_out):
                why = "key"
            learned = _learned_tool(tool, servers.get(tool, ""), seen, _REASONS[why])
            rows.append(DbRow(tool, self._now(), {"tool": as_json(learned)}))
        return rows


def _learned_tool(
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
