"""Decision log: a record of every decision, by default without users' words.

Records are JSON objects of three kinds: `decision`, `feedback` (the right decision) and `outcome`
(the end of a tool call); feedback and outcomes name their decision. Their fields are classes of
`records/log.py`.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypedDict, runtime_checkable

from pydantic import model_validator

from toolcrib.caches import BoundedMap
from toolcrib.errors import StoreDamagedError, StoreWriteError
from toolcrib.records.codec import FrozenModel, adapter, as_json, iso_time, object_of
from toolcrib.records.log import DecisionRecord, FeedbackRecord, OutcomeRecord, ToolRecord
from toolcrib.records.turns import Decision, Outcome, RouteKind
from toolcrib.router.settings import TelemetrySettings

logger = logging.getLogger(__name__)

QUOTE_STARTS = re.compile(r"[:=\"'`“”„‘’«»(\[{<]")
PLAIN_WORD = re.compile(r"[a-z]+(?:[-_][a-z]+)*[,;.]?", re.IGNORECASE | re.ASCII)
OMISSION_MARK = "…"

ROTATION_TIMEOUT_S = 1.0
"""Timeout of waiting for another process that rotates the file."""

OWNER_ONLY_MODE = 0o600
MAX_MISSING_FILES = 2
"""Consecutive missing numbers that end the search for files: a rotation leaves one free for a
moment."""


class DecisionLog(Protocol):
    """Log of records; thread-safe. Reading raises StoreDamagedError or StoreError."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record; raises StoreWriteError if it cannot be stored."""
        ...

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Records, oldest first; none before the first write."""
        ...

    def find(self, decision_id: str) -> Mapping[str, Any] | None:
        """Decision with this id; None if unknown."""
        ...

    def close(self) -> None:
        """Close the log."""
        ...


@runtime_checkable
class FailureLog(Protocol):
    """Log that also lists failed tools, across processes."""

    def failed_tools(self, decision_id: str) -> tuple[str, ...]:
        """Ids of tools whose last reported outcome for a decision is a failure."""
        ...


MAX_FAILURE_DECISIONS = 10_000
MAX_FAILED_TOOLS = 100


class Failures:
    """Failed tools by decision; thread-safe.

    Holds the last `decisions` with a failure, and the last `MAX_FAILED_TOOLS` of each.
    """

    def __init__(self, decisions: int = MAX_FAILURE_DECISIONS) -> None:
        self._failed_tools: BoundedMap[str, tuple[str, ...]] = BoundedMap(decisions)
        self._lock = threading.Lock()

    def report(self, decision_id: str, tool: str, outcome: Outcome) -> None:
        """Record the outcome of a tool call, by tool id; a success clears the tool's failure."""
        with self._lock:
            failed = [each for each in self._failed_tools.pop(decision_id, ()) if each != tool]
            failed += [tool] if outcome == "failure" else []
            if failed:
                self._failed_tools[decision_id] = tuple(failed[-MAX_FAILED_TOOLS:])

    def of(self, decision_id: str) -> tuple[str, ...]:
        """Ids of the failed tools of a decision, in order of failure."""
        with self._lock:
            return self._failed_tools.get(decision_id, ())


class Feedback(FrozenModel):
    """Feedback on a decision: the right values, as far as stated; None is "not stated".

    `tools` and `collections`: ids of all right ones, empty if none fits. `intent` and `domain`:
    empty if no label fits. `passages`: ids of passages that were used or cited. `labels`: the right
    class of a question, capabilities, or target of an agent.
    """

    route: RouteKind | None = None
    tools: tuple[str, ...] | None = None
    collections: tuple[str, ...] | None = None
    passages: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    intent: str | None = None
    domain: str | None = None
    outcome: Outcome | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _has_a_field(self) -> Feedback:
        if not self.model_dump(exclude_none=True):
            raise ValueError("feedback needs at least one of its fields")
        return self


class FeedbackKeywords(TypedDict, total=False):
    """Fields of `Feedback`, as keywords of `feedback`."""

    route: RouteKind | None
    tools: Sequence[str] | None
    collections: Sequence[str] | None
    passages: Sequence[str] | None
    labels: Sequence[str] | None
    intent: str | None
    domain: str | None
    outcome: Outcome | None
    note: str | None


def open_log(settings: TelemetrySettings) -> DecisionLog | None:
    """Log of the settings, None without a path; the first write creates the file."""
    if settings.path is None:
        return None
    # The log stays where it is when the current folder changes.
    path = Path(settings.path).absolute()
    return JsonLinesLog(path, max_bytes=settings.max_bytes, kept=settings.kept)


def decision_record(decision: Decision, *, text: bool, at: float) -> dict[str, Any]:
    """Record of a decision made at `at` (Unix time).

    `text` holds all that a user wrote or that may quote a user, but for secrets: the turn, the
    search text, entities, signals and reasons. Without `text`, signals are reduced to words that
    the turn does not contain.
    """
    made, agent = as_json(decision), decision.agent
    entities = made["context"]["entities"]
    items = [
        ToolRecord(hit.id, hit.score, hit.probability, hit.rule, hit.team)
        for hit in decision.tools.tools
    ]
    known = {
        **made,
        "at": iso_time(at, "milliseconds"),
        "context": {**made["context"], "entities": [each["type"] for each in entities]},
        "tools": {**made["tools"], "items": items},
        "signals": _without_quotes(decision, _signals(decision)),
        "agent": agent and {**made["agent"], "signals": _without_quotes(decision, agent.signals)},
        "guidance": [each.key for each in decision.guidance],
        "text": _text_fields(decision, made) if text else None,
    }
    return as_json(adapter(DecisionRecord).validate_python(known))


def feedback_record(
    decision_id: str, feedback: Feedback, *, text: bool, at: float
) -> dict[str, Any]:
    """Record of feedback on a decision at `at` (Unix time); the note only with `text`.

    Words that people wrote have asterisks in place of secrets.
    """
    from toolcrib.context.pii import without_secrets

    given = feedback.model_dump(exclude=None if text else {"note"})
    words = {name: given[name] for name in ("intent", "domain", "note") if given.get(name)}
    given |= {name: without_secrets(each) for name, each in words.items()}
    if feedback.labels:
        given["labels"] = tuple(map(without_secrets, feedback.labels))
    return as_json(FeedbackRecord(decision_id, iso_time(at, "milliseconds"), **given))


def outcome_record(
    decision_id: str, tool: str, outcome: Outcome, *, at: float, took_ms: float | None = None
) -> dict[str, Any]:
    """Record of the outcome of a call of a tool, by its id, at `at` (Unix time)."""
    return as_json(OutcomeRecord(decision_id, iso_time(at, "milliseconds"), tool, outcome, took_ms))


def _text_fields(decision: Decision, made: dict[str, Any]) -> dict[str, Any]:
    """Fields with the words of the user, with asterisks in place of secrets."""
    from toolcrib.context.pii import hide_secrets, secrets

    turn, search = decision.context.text, decision.search_text
    # Mostly the same text, which is read once.
    found = {each.text for text in {turn, search} for each in secrets(text)}
    hidden = partial(hide_secrets, found=found)
    return {
        "turn": hidden(turn),
        "search": hidden(search),
        "entities": [e | {"text": hidden(e["text"])} for e in made["context"]["entities"]],
        "signals": [hidden(each) for each in _signals(decision)],
        "reasons": {
            part: hidden(made[part]["reason"])
            for part in ("route", "tools", "knowledge", "agent")
            if made[part] is not None
        },
    }


def _signals(decision: Decision) -> list[str]:
    return list(dict.fromkeys((*decision.context.signals, *decision.signals)))


def _without_quotes(decision: Decision, signals: Iterable[str]) -> list[str]:
    """Signals up to a quote, with blanks for words that users may have written."""
    context = decision.context
    texts = (context.text, decision.search_text, *(entity.text for entity in context.entities))
    users = {word for text in texts for word in re.findall(r"[a-z]+", text.casefold())}

    def own(word: str) -> bool:
        parts = re.findall(r"[a-z]+", word.casefold())
        return PLAIN_WORD.fullmatch(word) is not None and users.isdisjoint(parts)

    shortened = [QUOTE_STARTS.split(signal, maxsplit=1)[0].split() for signal in signals]
    blanked = [" ".join(w if own(w) else OMISSION_MARK for w in words) for words in shortened]
    return list(dict.fromkeys(filter(None, blanked)))


@dataclass(frozen=True, slots=True, eq=False)
class JsonLinesLog:
    """Log of one record a line in `path`; a full file becomes `path.1`, up to `path.KEPT`.

    A record is one write to a file opened for appending, so that records of threads and processes
    never mix. A killed process can break its last line only; broken lines are skipped with a
    warning. The first write creates the file, readable by its owner alone, and its folder.
    """

    path: Path
    max_bytes: int = field(default=16 * 2**20, kw_only=True)
    kept: int = field(default=5, kw_only=True)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def write(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(dict(record), separators=(",", ":")).encode("ascii") + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(len(line))
            # A thread that saw half of another's line would put an empty line behind it.
            with self._lock:
                self._append(line)
        except OSError as error:
            raise StoreWriteError(
                f"the log {self.path} cannot be written to ({error.strerror}); make room, or name "
                "another file as telemetry.path",
            ) from error

    def read(self) -> Iterator[Mapping[str, Any]]:
        left_out = 0
        with ExitStack() as stack:
            for line in itertools.chain.from_iterable(reversed(self._open_all(stack))):
                if record := _record(line):
                    yield record
                elif line.strip():
                    left_out += 1
        if left_out:
            logger.warning("%s: lines left out that are no record: %d", self.path, left_out)

    def find(self, decision_id: str) -> Mapping[str, Any] | None:
        wanted = json.dumps(decision_id).encode("ascii")
        with ExitStack() as stack:
            for file in self._open_all(stack):
                found = [_record(line) for line in file if wanted in line]
                for record in filter(None, reversed(found)):
                    if record.get("kind") == "decision" and record.get("id") == decision_id:
                        return record
        return None

    def close(self) -> None:
        """Do nothing: no file stays open between writes."""

    def _append(self, line: bytes) -> None:
        opener = partial(os.open, mode=OWNER_ONLY_MODE)
        with open(self.path, "a+b", buffering=0, opener=opener) as file:
            if end := file.seek(0, os.SEEK_END):
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, "the disk took only a part of a record")

    def _make_room(self, more: int) -> None:
        if not self._is_full(more):
            return
        from filelock import Timeout

        from toolcrib.store.folder import file_lock

        lock = self.path.with_name(f"{self.path.name}.lock")
        # An oversized file is better than a missing decision.
        with suppress(Timeout), file_lock(lock, timeout_s=ROTATION_TIMEOUT_S):
            # Another process may have rotated in the meantime.
            if self._is_full(more):
                self._rotate()

    def _is_full(self, more: int) -> bool:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return False
        return size > 0 and size + more > self.max_bytes

    def _rotate(self) -> None:
        free = next(n for n in itertools.count(1) if not self._path_of(n).exists())
        for number in range(self.kept + 1, free):
            self._path_of(number).unlink()
        for number in range(min(free, self.kept), 0, -1):
            self._path_of(number - 1).replace(self._path_of(number))
        if not self.kept:
            self.path.unlink()

    def _open_all(self, stack: ExitStack) -> list[BinaryIO]:
        """Files, newest first; a file that a rotation moves meanwhile is listed once."""
        found: dict[int, BinaryIO] = {}
        number = missing = 0
        while missing < MAX_MISSING_FILES:
            path = self._path_of(number)
            number += 1
            try:
                file = stack.enter_context(path.open("rb"))
            except FileNotFoundError:
                missing += 1
            except OSError as error:
                reason = f"the log {path} cannot be read: {error.strerror}"
                raise StoreDamagedError(reason) from error
            else:
                missing = 0
                found.setdefault(os.fstat(file.fileno()).st_ino, file)
        return list(found.values())

    def _path_of(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def _record(line: bytes) -> Mapping[str, Any]:
    """Record of a line; empty for a broken line."""
    try:
        return object_of(json.loads(line))
    except (ValueError, RecursionError):
        return {}
