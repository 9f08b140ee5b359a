"""What is kept of every decision: one record each, without a word of the user's unless asked to.

Records are JSON objects of three kinds: `decision`, `feedback` (what would have been right) and
`outcome` (how a call of a tool ended); the last two name their decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolcrib.errors import SettingsError
from toolcrib.records.codec import adapter, as_json
from toolcrib.records.history import DecisionRecord, FeedbackRecord, OutcomeRecord
from toolcrib.records.turns import Decision, Outcome, RouteKind

__all__ = [
    "DecisionLog",
    "FailureLog",
    "Feedback",
    "TelemetrySettings",
    "decision_record",
    "feedback_record",
    "open_log",
    "outcome_record",
]

JSON_LINES = (".jsonl",)
SQLITE = (".db", ".sqlite", ".sqlite3")

QUOTES = re.compile(r"[:=\"'`“”„‘’«»(\[{<]")
PLAIN_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*[,;.]?", re.IGNORECASE | re.ASCII)
BLANK = "…"


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


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Whether decisions are logged, and how much of them.

    `path`: none for no log; a name that ends in `.jsonl` is one of JSON Lines, `.db`, `.sqlite`
    or `.sqlite3` one in SQLite. `text`: also keep what users wrote. A file of JSON Lines is
    put aside at `max_bytes`, and the last `kept` of those are kept.
    """

    path: str | None = None
    text: bool = False
    max_bytes: Annotated[int, Field(ge=4096)] = 16 * 2**20
    kept: Annotated[int, Field(ge=0)] = 5

    def __post_init__(self) -> None:
        suffixes = (*JSON_LINES, *SQLITE)
        if self.path is not None and Path(self.path).suffix not in suffixes:
            raise SettingsError(
                f"telemetry.path: {self.path!r} does not end in one of {', '.join(suffixes)}",
            )


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


def open_log(settings: TelemetrySettings) -> DecisionLog | None:
    """The log that is set, None where none is; nothing is made before the first write."""
    if settings.path is None:
        return None
    path = Path(settings.path)
    if path.suffix in SQLITE:
        from toolcrib.router.sqlite_log import SqliteLog

        return SqliteLog(path)
    from toolcrib.router.json_lines_log import JsonLinesLog

    return JsonLinesLog(path, max_bytes=settings.max_bytes, kept=settings.kept)


def decision_record(decision: Decision, *, text: bool, at: float) -> dict[str, Any]:
    """A decision made at `at` (Unix time) as it is logged.

    All that a user wrote, and all that may quote it, stands under `text`, which is there only
    when asked for: the turn, what was searched with, entities, signals, reasons. What is left
    of signals outside of it are words that the turn does not have.
    """
    made = as_json(decision)
    entities = made["context"]["entities"]
    known = {
        **made,
        "at": _iso(at),
        "context": {**made["context"], "entities": [each["type"] for each in entities]},
        "signals": _own_words(decision),
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
        "reasons": {part: made[part]["reason"] for part in ("route", "tools", "knowledge")},
    }


def _signals(decision: Decision) -> list[str]:
    return list(dict.fromkeys((*decision.context.signals, *decision.signals)))


def _own_words(decision: Decision) -> list[str]:
    """Each signal up to where it quotes; before that, blanks for words that may be the user's."""
    context = decision.context
    texts = (context.text, decision.search_text, *(entity.text for entity in context.entities))
    said = {word for text in texts for word in re.findall(r"[a-z]+", text.casefold())}

    def own(word: str) -> bool:
        parts = re.findall(r"[a-z]+", word.casefold())
        return PLAIN_WORD.fullmatch(word) is not None and said.isdisjoint(parts)

    shortened = [QUOTES.split(signal, maxsplit=1)[0].split() for signal in _signals(decision)]
    blanked = [" ".join(w if own(w) else BLANK for w in words) for words in shortened]
    return list(dict.fromkeys(filter(None, blanked)))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
