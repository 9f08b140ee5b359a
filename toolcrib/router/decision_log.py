"""Decision log: one record of every decision, without a word of the user's unless asked to.

Records are JSON objects of three kinds: `decision`, `feedback` (what would have been right) and
`outcome` (how a call of a tool ended); the last two name their decision.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypedDict, runtime_checkable

from pydantic import BaseModel, ConfigDict, model_validator

from toolcrib.caches import BoundedMap
from toolcrib.errors import StoreDamagedError, StoreWriteError
from toolcrib.records.codec import adapter, as_json, object_of
from toolcrib.records.history import DecisionRecord, FeedbackRecord, OutcomeRecord, ToolRecord
from toolcrib.records.turns import Decision, Outcome, RouteKind
from toolcrib.router.settings import TelemetrySettings

__all__ = [
    "DecisionLog",
    "FailureLog",
    "Failures",
    "Feedback",
    "FeedbackKeywords",
    "JsonLinesLog",
    "decision_record",
    "feedback_record",
    "open_log",
    "outcome_record",
]

QUOTES = re.compile(r"[:=\"'`“”„‘’«»(\[{<]")
PLAIN_WORD = re.compile(r"[a-z]+(?:[-_][a-z]+)*[,;.]?", re.IGNORECASE | re.ASCII)
BLANK = "…"

PATIENCE_S = 1.0
"""How long somebody else's rotation is waited for."""

OWNER_ONLY = 0o600
HOLES = 2
"""While files are being moved up one number may be free; two in a row are the end."""


class DecisionLog(Protocol):
    """Where records are kept; for several threads."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record; raises StoreWriteError where it cannot be kept."""
        ...

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Every record, oldest first; nothing where nothing was written yet."""
        ...

    def find(self, decision_id: str) -> Mapping[str, Any] | None:
        """The decision of this id, None where there is none."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


@runtime_checkable
class FailureLog(Protocol):
    """A log that also tells which tools failed, whichever process was told."""

    def failed(self, decision_id: str) -> tuple[str, ...]:
        """The tools whose last reported outcome for a decision is a failure."""
        ...


MAX_DECISIONS = 10_000
MAX_TOOLS = 100


class Failures:
    """Remembers which tools failed for a decision; safe for several threads.

    The last `decisions` that something failed for are kept, and the last `MAX_TOOLS` of each.
    """

    def __init__(self, decisions: int = MAX_DECISIONS) -> None:
        self._failed: BoundedMap[str, dict[str, None]] = BoundedMap(decisions)
        self._lock = threading.Lock()

    def report(self, decision_id: str, tool: str, outcome: Outcome) -> None:
        """Take down how a call of a tool (by id) ended; a success makes up for its failures."""
        with self._lock:
            failed = self._failed.pop(decision_id, {})
            failed.pop(tool, None)
            if outcome == "failure":
                failed[tool] = None
            if len(failed) > MAX_TOOLS:
                del failed[next(iter(failed))]
            if failed:
                self._failed[decision_id] = failed

    def of(self, decision_id: str) -> tuple[str, ...]:
        """The ids of the tools that failed for a decision, in the order of failing."""
        with self._lock:
            return tuple(self._failed.get(decision_id, ()))


class Feedback(BaseModel):
    """What would have been right, as far as somebody says so; None is "not said".

    `tools` and `collections` are the ids of all that are right, none where nothing fits;
    `intent` and `domain` are empty where no label fits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    route: RouteKind | None = None
    tools: tuple[str, ...] | None = None
    collections: tuple[str, ...] | None = None
    intent: str | None = None
    domain: str | None = None
    outcome: Outcome | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Feedback:
        if not self.model_dump(exclude_none=True):
            raise ValueError("feedback needs at least one of its fields")
        return self


class FeedbackKeywords(TypedDict, total=False):
    """The fields of `Feedback`, as keywords of `feedback`."""

    route: RouteKind | None
    tools: Sequence[str] | None
    collections: Sequence[str] | None
    intent: str | None
    domain: str | None
    outcome: Outcome | None
    note: str | None


def open_log(settings: TelemetrySettings) -> DecisionLog | None:
    """The log that is set, None where none is; nothing is made before the first write."""
    if settings.path is None:
        return None
    return JsonLinesLog(Path(settings.path), max_bytes=settings.max_bytes, kept=settings.kept)


def decision_record(decision: Decision, *, text: bool, at: float) -> dict[str, Any]:
    """A decision made at `at` (Unix time) as it is logged.

    All that a user wrote, and all that may quote it, stands under `text`, which is there only
    when asked for: the turn, what was searched with, entities, signals, reasons. What is left
    of signals outside of it are words that the turn does not have.
    """
    made = as_json(decision)
    entities = made["context"]["entities"]
    items = [
        ToolRecord(hit.id, hit.score, hit.probability, hit.rule, hit.team)
        for hit in decision.tools.tools
    ]
    known = {
        **made,
        "at": _iso(at),
        "context": {**made["context"], "entities": [each["type"] for each in entities]},
        "tools": {**made["tools"], "items": items},
        "signals": _own_words(decision, _signals(decision)),
        "agent": _agent(decision),
        "guidance": [each.key for each in decision.guidance],
        "text": _texts(decision, made) if text else None,
    }
    return as_json(adapter(DecisionRecord).validate_python(known))


def feedback_record(
    decision_id: str, feedback: Feedback, *, text: bool, at: float
) -> dict[str, Any]:
    """What somebody said of a decision at `at` (Unix time); the note only with `text`."""
    given = feedback.model_dump(exclude=None if text else {"note"})
    return as_json(FeedbackRecord(decision_id, _iso(at), **given))


def outcome_record(
    decision_id: str, tool: str, outcome: Outcome, *, at: float, took_ms: float | None = None
) -> dict[str, Any]:
    """How a call of a tool, named by its id, ended at `at` (Unix time)."""
    return as_json(OutcomeRecord(decision_id, _iso(at), tool, outcome, took_ms))


def _texts(decision: Decision, made: dict[str, Any]) -> dict[str, Any]:
    return {
        "turn": decision.context.text,
        "search": decision.search_text,
        "entities": made["context"]["entities"],
        "signals": _signals(decision),
        "reasons": {
            part: made[part]["reason"]
            for part in ("route", "tools", "knowledge", "agent")
            if made[part] is not None
        },
    }


def _signals(decision: Decision) -> list[str]:
    return list(dict.fromkeys((*decision.context.signals, *decision.signals)))


def _agent(decision: Decision) -> dict[str, Any] | None:
    agent = decision.agent
    if agent is None:
        return None
    signals = _own_words(decision, agent.signals)
    return {"target": agent.target, "confidence": agent.confidence, "signals": signals}


def _own_words(decision: Decision, signals: Iterable[str]) -> list[str]:
    """Each signal up to where it quotes; before that, blanks for words that may be the user's."""
    context = decision.context
    texts = (context.text, decision.search_text, *(entity.text for entity in context.entities))
    said = {word for text in texts for word in re.findall(r"[a-z]+", text.casefold())}

    def own(word: str) -> bool:
        parts = re.findall(r"[a-z]+", word.casefold())
        return PLAIN_WORD.fullmatch(word) is not None and said.isdisjoint(parts)

    shortened = [QUOTES.split(signal, maxsplit=1)[0].split() for signal in signals]
    blanked = [" ".join(w if own(w) else BLANK for w in words) for words in shortened]
    return list(dict.fromkeys(filter(None, blanked)))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


class JsonLinesLog:
    """One record a line in `path`; what is full becomes `path.1`, `path.2`, up to `path.KEPT`.

    A record is one write to a file opened for appending, so that those of several threads and
    processes never mix. What a killed process left of a line costs that line only. The file can
    be read by its owner alone, and is made with its folder at the first write.
    """

    def __init__(self, path: Path, *, max_bytes: int = 16 * 2**20, kept: int = 5) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record of JSON values.

        Raises:
            StoreWriteError: the disk refuses.
        """
        line = json.dumps(dict(record), separators=(",", ":")).encode("ascii") + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(len(line))
            self._append(line)
        except OSError as error:
            raise StoreWriteError(
                f"the log {self._path} cannot be written to ({error.strerror}); make room, or name "
                "another file as telemetry.path",
            ) from error

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Every record, oldest first; lines that are no record are passed over.

        Raises:
            StoreDamagedError: a file cannot be opened.
        """
        with ExitStack() as stack:
            for file in reversed(self._open_all(stack)):
                yield from filter(None, map(_record, file))

    def find(self, decision_id: str) -> Mapping[str, Any] | None:
        """The decision of this id, None where there is none.

        Raises:
            StoreDamagedError: a file cannot be opened.
        """
        wanted = json.dumps(decision_id).encode("ascii")
        with ExitStack() as stack:
            for file in self._open_all(stack):
                found = [_record(line) for line in file if wanted in line]
                for record in filter(None, reversed(found)):
                    if record.get("kind") == "decision" and record.get("id") == decision_id:
                        return record
        return None

    def close(self) -> None:
        """Nothing is held between writes."""

    def _append(self, line: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, OWNER_ONLY)
        try:
            end = os.fstat(descriptor).st_size
            if end and os.pread(descriptor, 1, end - 1) != b"\n":
                line = b"\n" + line
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, "only a part of a record was taken")
        finally:
            os.close(descriptor)

    def _make_room(self, more: int) -> None:
        if not self._is_full(more):
            return
        from filelock import FileLock, Timeout

        try:
            with FileLock(f"{self._path}.lock", timeout=PATIENCE_S):
                # Another process may have done it in the meantime.
                if self._is_full(more):
                    self._rotate()
        except Timeout:
            # A file that is too long is better than a decision that is not logged.
            return

    def _is_full(self, more: int) -> bool:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return False
        return size > 0 and size + more > self._max_bytes

    def _rotate(self) -> None:
        free = next(n for n in itertools.count(1) if not self._numbered(n).exists())
        for number in range(self._kept + 1, free):
            self._numbered(number).unlink()
        for number in range(min(free, self._kept), 0, -1):
            self._numbered(number - 1).replace(self._numbered(number))
        if not self._kept:
            self._path.unlink()

    def _open_all(self, stack: ExitStack) -> list[BinaryIO]:
        """The files, newest first: one that is moved up meanwhile is met again under its number."""
        found: dict[int, BinaryIO] = {}
        number = missing = 0
        while missing < HOLES:
            path = self._numbered(number)
            number += 1
            try:
                file = stack.enter_context(path.open("rb"))
            except FileNotFoundError:
                missing += 1
            except OSError as error:
                raise StoreDamagedError(
                    f"the log {path} cannot be read: {error.strerror}",
                ) from error
            else:
                missing = 0
                found.setdefault(os.fstat(file.fileno()).st_ino, file)
        return list(found.values())

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _record(line: bytes) -> Mapping[str, Any]:
    """The record of a line; empty where it is none."""
    try:
        return object_of(json.loads(line))
    except (ValueError, RecursionError):
        return {}
