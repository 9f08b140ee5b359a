"""Learner: records the outcomes of requests, and re-orders later answers by them.

Tools learn from successful calls. Other choices (routes, collections, targets of agents,
capabilities, classes of questions) learn from stated outcomes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from toolcrib.caches import BoundedMap
from toolcrib.clock import DAY_S
from toolcrib.context.pii import without_secrets
from toolcrib.encoders.base import FloatArray, from_text, to_text
from toolcrib.errors import StoreError
from toolcrib.learning.lessons import (
    MAX_EXAMPLES_A_SESSION,
    Lesson,
    age_weight,
    contradicting_keys,
    learned_companions,
    make_lessons,
    replay,
)
from toolcrib.learning.observations import Observation, ObservationTable, day_of, name_of
from toolcrib.learning.runs import MIN_RUNS, Run, RunTable, tool_use, used_tools
from toolcrib.records import Scope
from toolcrib.records.codec import adapter, as_json, iso_time
from toolcrib.records.reports import LearnedTool, LearningStatus, LogLearning, ServerReplay
from toolcrib.retrieval.learned import (
    AGENTS,
    COLLECTIONS,
    ROUTE,
    LearnedChoices,
    LearnedTools,
    RankedOptions,
    UseData,
)
from toolcrib.retrieval.steps import ToolUse
from toolcrib.store.base import point_id
from toolcrib.store.filters import from_scope
from toolcrib.store.records_db import DbRow
from toolcrib.tool_index import ToolIndex

logger = logging.getLogger(__name__)

MAX_PENDING_REQUESTS_BYTES = 16 * 2**20
"""Memory of requests that wait for outcomes; the oldest are dropped."""

MAX_SESSION_COUNTS = 100_000
"""Counts of observations by session and tool that are kept."""

MAX_REQUEST_CHARS = 2_000
"""Characters kept of a request; encoders read no further."""

REPLAY_RANKED_TOOLS = 50
"""First tools of a ranking, which are kept for replays."""

RELEARN_GROWTH = 0.1
"""Share of new observations after which examples are chosen again."""

BACKGROUND_FROM_OBSERVATIONS = 200
"""From this number of observations on, examples are chosen in a thread: 7 s at 4,278."""

LABELS = "labels"
"""Placeholder for the choice that a request was about."""

_REASONS = {
    "gone": "the tool is gone",
    "session": "only one session used it",
    "encoder": "another encoder made its vectors",
    "key": "its keys' calls contradict the calls of other keys",
    "shadow": "in shadow: the replay does not show that these examples help",
    "off": "learning is off",
}

ObserveResult: TypeAlias = Literal["added", "known", "tool", "quota"]
"""Result of an observation: kept, kept before, of no option here, or beyond its session's quota."""

Learnable: TypeAlias = Callable[[str, Scope | None], RankedOptions]
"""Ranks the options of a choice for a text in a scope, without learned examples; only ranked
options can be learned."""


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    """Request that waits for its outcome; `choice` is the choice that `LABELS` stands for."""

    text: str
    scope: Scope | None
    session: str | None
    by: str
    choice: str


class UsageLearner:
    """Learner of tools, and of other choices, from their outcomes. Safe for several threads.

    `table` keeps observations apart from the specifications. `text`: keep requests' words too.
    `orders_steps`: order tools for steps by other runs' calls. `choices` has the learned examples
    of choices; makers of choices register in `learnable`. Methods raise `StoreError` if a store
    does not answer.
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
        self._requests: BoundedMap[str, _PendingRequest] = BoundedMap(
            MAX_PENDING_REQUESTS_BYTES,
            lambda _, each: 512 + len(each.text) + (each.scope.bytes if each.scope else 0),
        )
        self.choices = LearnedChoices()
        self.learnable: dict[str, Learnable] = {"": self._rank_tools}
        self._session_counts: BoundedMap[tuple[str, str, str], int] | None = None
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
        choice: str = "",
    ) -> None:
        """Keep a request in memory for its outcome, if outcomes are collected.

        Without a `session` all requests of a key in one day are one session. `choice` is the
        choice that was made; an outcome's labels are its options.
        """
        if not self.collects:
            return
        request = _PendingRequest(text[:MAX_REQUEST_CHARS], scope, session, by or "", choice)
        self._requests[decision_id] = request
        self.runs.remember(decision_id, session, by or "")

    def assign(self, decision_id: str, by: str) -> None:
        """Assign a request that waits for its outcome to a key."""
        request = self._requests.get(decision_id)
        if request is not None:
            self._requests[decision_id] = replace(request, by=by)

    def is_pending(self, decision_id: str, by: str | None = None) -> bool:
        """True for a request that waits for its outcome; of the key `by`, if one is named."""
        request = self._requests.get(decision_id)
        return request is not None and by in {None, request.by}

    def record_success(self, decision_id: str, tool: str) -> None:
        """Record a successful call of a decision and its run."""
        if self.runs.record(decision_id, tool, self._now()):
            self._new_calls += 1
            if self._new_calls >= max(MIN_RUNS, RELEARN_GROWTH * self._known_calls):
                self.apply()
        else:
            logger.warning("decision %r was not made here: its call teaches nothing", decision_id)
        self.record_right(decision_id, {"": (tool,)})

    def record_right(self, decision_id: str, right: Mapping[str, Sequence[str]]) -> None:
        """Record the right options of a decision, by choice.

        The choice `LABELS` stands for the choice that the request was about.
        """
        request = self._requests.get(decision_id)
        if request is None:
            return
        now = self._now()
        new = sum(
            self._observe(decision_id, request.choice if c == LABELS else c, each, request, now)
            == "added"
            for c, options in right.items()
            for each in options
        )
        self._new += new
        if new and self._new >= RELEARN_GROWTH * self._known:
            if self._known < BACKGROUND_FROM_OBSERVATIONS:
                self.learn()
            else:
                self._learn_in_background()

    def _learn_in_background(self) -> None:
        """Learn in a thread, unless a thread is learning: the next observation starts another."""

        def work() -> None:
            try:
                self.learn()
            except StoreError:
                logger.warning("examples could not be chosen anew", exc_info=True)

        with self._lock:
            if self._background is None or not self._background.is_alive():
                self._background = threading.Thread(target=work, name="toolcrib-learning")
                self._background.start()

    def read_log(self, records: Iterable[Mapping[str, Any]]) -> LogLearning:
        """Learn from a decision log that has users' words."""
        decisions: dict[str, Mapping[str, Any]] = {}
        known: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        runs = {run.id: run.at for run in self.runs.read()}
        for record in records:
            decision = str(record.get("decision"))
            if record.get("kind") == "decision":
                decisions[str(record.get("id"))] = record
            elif record.get("kind") == "outcome" and record.get("outcome") == "success":
                known.setdefault((decision, "", str(record.get("tool"))), record)
                self._run_from_log(decisions.get(decision), record, runs)
            elif record.get("kind") == "feedback":
                for named, options in right_options(record).items():
                    choice = AGENTS if named == LABELS else named
                    known |= {(decision, choice, each): record for each in options}
        counts = Counter(
            self._from_log(decisions.get(decision, {}), choice, option, record["at"])
            for (decision, choice, option), record in known.items()
        )
        self.learn()
        return LogLearning(
            counts["added"], counts["known"], counts["text"], counts["tool"], counts["quota"]
        )

    def _run_from_log(
        self,
        decision: Mapping[str, Any] | None,
        call: Mapping[str, Any],
        known: Mapping[str, float],
    ) -> None:
        """Add a call of a log to its run, unless the call was counted before.

        `known`: times of the runs' last calls. A call beyond its session's quota has no
        observation, so its time alone shows that it was counted.
        """
        if decision is None or self._table.has(decision["id"], call["tool"]):
            return
        self.runs.remember(decision["id"], decision.get("session"), decision.get("by", ""))
        at = datetime.fromisoformat(call["at"]).timestamp()
        if at > known.get(self.runs.run_id(decision["id"]) or "", 0.0):
            self.runs.record(decision["id"], call["tool"], at)

    def _from_log(
        self, decision: Mapping[str, Any], choice: str, option: str, at: str
    ) -> ObserveResult | Literal["text"]:
        words = cast("dict[str, str]", decision.get("text") or {})
        if not (text := words.get("search")):
            return "text"
        when, by = datetime.fromisoformat(at).timestamp(), decision.get("by", "")
        text, session = text[:MAX_REQUEST_CHARS], decision.get("session")
        request = _PendingRequest(text, None, session, by, choice)
        return self._observe(decision["id"], choice, option, request, when)

    def _observe(
        self, decision_id: str, choice: str, option: str, request: _PendingRequest, at: float
    ) -> ObserveResult:
        """Keep a new observation within the session's quota, if the option still exists."""
        name, rank = name_of(choice, option), self.learnable.get(choice)
        if self._table.has(decision_id, name):
            return "known"
        if rank is None:
            return "tool"
        vector, scores = rank(request.text, request.scope)
        known = {key: {"digest": ""} for key in scores} if choice else self._payloads([option])
        if vector is None or option not in known:
            return "tool"
        session = self._table.session_hash(f"{request.by}\n{request.session or day_of(at)}")
        if not self._is_within_quota(request.by, session, name):
            return "quota"
        self._table.add(
            Observation(
                decision=decision_id,
                tool=option,
                digest=known[option]["digest"],
                at=at,
                session=session,
                by=request.by,
                encoder=self._tools.dense.name,
                vector=vector,
                ranking=tuple(sorted(scores.items(), key=lambda pair: -pair[1])),
                text=without_secrets(request.text) if self._text else None,
                choice=choice,
            )
        )
        return "added"

    def _is_within_quota(self, by: str, session: str, name: str) -> bool:
        """Count an observation of a session; False if the session has no quota left for it."""
        with self._lock:
            if self._session_counts is None:
                # A process that starts must not give a session its quota again.
                kept = Counter((each.by, each.session, each.name) for each in self._table.read())
                self._session_counts = BoundedMap(MAX_SESSION_COUNTS)
                self._session_counts.update(kept)
            given = self._session_counts.get((by, session, name), 0)
            if given >= MAX_EXAMPLES_A_SESSION:
                return False
            self._session_counts[by, session, name] = given + 1
            return True

    def _rank_tools(self, text: str, scope: Scope | None) -> RankedOptions:
        query = self._tools.retriever.encode(text)
        hits = self._tools.retriever.rank_by_legs(query, from_scope(scope), REPLAY_RANKED_TOOLS)
        return RankedOptions(query.dense, {hit.id: hit.score for hit in hits})

    # -- lessons ------------------------------------------------------------------

    def learn(self) -> LearningStatus:
        """Choose examples, replay past requests, and re-order answers by helpful examples."""
        with self._learning:
            observations = self._table.read()
            self._known, self._new = len(observations), 0
            by_choice: dict[str, list[Observation]] = {}
            for each in observations:
                by_choice.setdefault(each.choice, []).append(each)
            learned = [self._learn_choice(choice, seen) for choice, seen in by_choice.items()]
            self._table.write_lessons([row for rows, _, _ in learned for row in rows])
            state = {
                "on": self._table.state().get("on", True),
                "at": self._now(),
                "encoder": self._tools.dense.name,
                "observations": len(observations),
                "servers": [as_json(each) for _, replayed, _ in learned for each in replayed],
                "left_out": sorted({key for _, _, keys in learned for key in keys}),
            }
            self._table.write_state(state)
        self.apply()
        return self.status()

    def _learn_choice(
        self, choice: str, observations: Sequence[Observation]
    ) -> tuple[list[DbRow], list[ServerReplay], tuple[str, ...]]:
        """Rows of one choice's lessons, their replay, and the keys that contradict other keys."""
        by_tool: dict[str, list[Observation]] = {}
        for each in observations:
            by_tool.setdefault(each.tool, []).append(each)
        # Only tools have a specification; a removed option of another choice has no rank.
        option = {"digest": "", "server": choice}
        tools = dict.fromkeys(by_tool, option) if choice else self._payloads(by_tool)
        digests = {tool: payload["digest"] for tool, payload in tools.items()}
        servers = {tool: payload["server"] for tool, payload in tools.items()}
        encoder, now = self._tools.dense.name, self._now()
        usable = [e for e in observations if e.encoder == encoder and e.tool in tools]
        lessons = make_lessons(usable, digests, encoder, now)
        if left_out := contradicting_keys(usable, lessons):
            usable = [each for each in usable if each.by not in left_out]
            lessons = make_lessons(usable, digests, encoder, now)
        replayed = [replace(each, choice=choice) for each in replay(usable, lessons, servers)]
        companions = {} if choice else learned_companions(usable, now)
        live = {each.server for each in replayed if each.verdict == "live"}
        known = {each.tool: each for each in lessons}

        def reason(tool: str) -> str:
            """Reason why the observations of a tool do not count; empty if they count."""
            if tool not in tools:
                return "gone"
            if tool not in known:
                return "key" if {each.by for each in by_tool[tool]} <= {*left_out} else "encoder"
            if not known[tool].is_live:
                return "session"
            return "" if servers[tool] in live else "shadow"

        rows: list[DbRow] = []
        for tool, own in by_tool.items():
            lesson, is_taught = known.get(tool, Lesson(tool)), tool in known
            goes_with = companions.get(tool, []) if is_taught else []
            examples = _examples(lesson, digests[tool]) if is_taught else {}
            counted = [each for each in own if each.encoder == encoder or not is_taught]
            why, server = _REASONS.get(reason(tool), ""), servers.get(tool, "")
            learned = _learned_tool(server, counted, lesson, why, goes_with)
            rows.append(DbRow(learned.tool, now, {"tool": as_json(learned), **examples}))
        return rows, replayed, left_out

    def apply(self) -> None:
        """Re-order answers by the examples that count now."""
        state, runs = self._table.state(), self.runs.read()
        self._known_calls, self._new_calls = sum(len(run.tools) for run in runs), 0
        self._known = state.get("observations", 0)
        rows = {}
        if state.get("on") and state.get("encoder") == self._tools.dense.name:
            rows = {row.id: row.body for row in self._table.lessons() if "vectors" in row.body}
        tools = self._payloads(rows)
        strengths = {
            (each.choice, each.server): (each.strength, each.copies) for each in _replays(state)
        }
        days = (self._now() - state.get("at", 0.0)) / DAY_S
        learned_tools = {name: body["tool"] for name, body in rows.items()}
        taught: dict[str, dict[int, tuple[tuple[float, float], dict[str, FloatArray]]]] = {}
        for name, body in rows.items():
            learned = learned_tools[name]
            choice = learned.get("choice", "")
            known = {"digest": ""} if choice else tools.get(name)
            if known is None:
                continue
            option = name.removeprefix(f"{choice}:") if choice else name
            trust = learned["support"] * learned["live"]
            trust *= age_weight(days, changed=body["digest"] != known["digest"])
            similar, copies = strengths.get((choice, learned["server"]), (0.0, 0.0))
            vectors = from_text(body["vectors"], self._tools.dense.dimensions)
            examples = (
                (trust * similar, trust * copies),
                dict(zip(body["decisions"], vectors, strict=True)),
            )
            taught.setdefault(choice, {})[point_id(option)] = examples
        lifts = {choice: LearnedTools.of(own) for choice, own in taught.items()}
        self.choices.known = lifts
        use = self._tool_use(runs, state)
        companions = {n: t["goes_with"] for n, t in learned_tools.items() if "goes_with" in t}
        self._tools.use_learned(UseData(lifts.get(""), use, companions))

    def _tool_use(self, runs: Sequence[Run], state: Mapping[str, Any]) -> ToolUse | None:
        """Tool use by which steps are ordered; None if the setting or the switch is off."""
        counts = self._orders_steps and state.get("on", True)
        return tool_use(runs, self._now()) if counts else None

    def status(self) -> LearningStatus:
        """Status of each tool's examples and of each server's replay."""
        state = self._table.state()
        is_on = state.get("on", True)
        read, words = adapter(LearnedTool).validate_python, self._table.words()
        lessons: list[LearnedTool] = [read(row.body["tool"]) for row in self._table.lessons()]
        tools = [replace(each, texts=words.get(each.tool, ())) for each in lessons]
        missing = {each.tool for each in tools if not each.choice}
        missing -= self._payloads(missing).keys()
        why = _REASONS["gone"]
        tools = [
            replace(each, live=False, reason=why) if each.tool in missing else each
            for each in tools
        ]
        encoder = state.get("encoder", self._tools.dense.name)
        if not is_on or encoder != self._tools.dense.name:
            why = _REASONS["encoder" if is_on else "off"]
            tools = [replace(each, live=False, reason=why) for each in tools]
        at, runs = state.get("at"), self.runs.read()
        when = None if at is None else iso_time(at)
        use = self._tool_use(runs, state)
        return LearningStatus(
            on=is_on,
            collects=self.collects,
            encoder=encoder,
            learned_at=when,
            observations=state.get("observations", 0),
            runs=len(runs),
            orders_steps=self._orders_steps,
            used=() if use is None else used_tools(runs, use),
            servers=_replays(state),
            tools=tuple(sorted(tools, key=lambda each: (-each.observations, each.tool))),
            left_out=tuple(state.get("left_out", ())),
        )

    def undo(self, what: str) -> int:
        """Remove observations and runs of a day (`2026-01-31`), a key, a tool, or a choice.

        `CHOICE:OPTION` names one option. Only observations are counted.
        """
        removed = self._table.remove(
            lambda each: what in {each.day, each.name, each.choice or None, each.by or None}
        )
        self.runs.remove(what)
        with self._lock:
            self._session_counts = None
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


def right_options(feedback: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Right options that feedback states or implies, by choice.

    Passages that were used imply their collections.
    """
    route = feedback.get("route")
    cited = [passage.partition("/")[0] for passage in feedback.get("passages") or ()]
    return {
        ROUTE: () if route is None else (route,),
        COLLECTIONS: tuple(dict.fromkeys([*(feedback.get("collections") or ()), *cited])),
        LABELS: tuple(feedback.get("labels") or ()),
    }


def _replays(state: Mapping[str, Any]) -> tuple[ServerReplay, ...]:
    """Replays of a state; one without `copies`, of an earlier version, trusts no copy."""
    read = adapter(ServerReplay).validate_python
    return tuple(read({"copies": 0.0} | each) for each in state.get("servers", ()))


def _examples(lesson: Lesson, digest: str) -> dict[str, Any]:
    """Examples of a lesson in its row; `digest` is the tool's."""
    vectors = to_text(np.stack(list(lesson.vectors.values())))
    return {"digest": digest, "decisions": list(lesson.vectors), "vectors": vectors}


def _learned_tool(
    server: str, observations: Sequence[Observation], lesson: Lesson, why: str, goes_with: list[str]
) -> LearnedTool:
    return LearnedTool(
        tool=observations[0].name,
        choice=observations[0].choice,
        server=server,
        observations=len(observations),
        examples=len(lesson.examples),
        support=lesson.support,
        live=not why,
        reason=why,
        sessions=len({(each.by, each.session) for each in observations}),
        by=dict(sorted(Counter(each.by for each in observations).items())),
        days=dict(sorted(Counter(each.day for each in observations).items())),
        goes_with=tuple(goes_with),
    )
