"""Upload: what sources hold goes to a service in one request, and progress comes back with it.

The service alone judges what is new, what is refused and what is pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.client.errors import Reply, refusal
from toolcrib.client.transport import Transport
from toolcrib.indexers.writer import Listener
from toolcrib.records import IndexProgress, IndexReport, Passage, Refusal, ToolSpec
from toolcrib.records.codec import as_json, dump, load

__all__ = ["upload"]

Entry: TypeAlias = tuple[str, ToolSpec | Passage | Refusal]


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of an answer."""

    progress: IndexProgress | None = None
    report: IndexReport | None = None
    problem: dict[str, Any] | None = None


def upload(
    transport: Transport,
    path: str,
    entries: Iterable[Entry],
    query: Mapping[str, str | None],
    progress: Listener | None,
) -> IndexReport:
    """Send every entry with where it came from, and give the service's report."""

    def read(line: bytes) -> IndexReport | None:
        told = load(_Line, line)
        if told.progress is not None and progress is not None:
            progress(told.progress)
        if told.problem is not None:
            status = int(told.problem["status"])
            kind = {"content-type": "application/problem+json"}
            raise refusal(Reply(status, kind, to_json(told.problem)), transport.url, "")
        return told.report

    given = {name: value for name, value in query.items() if value is not None}
    return transport.stream(path, given, _content(entries), read)


def _content(entries: Iterable[Entry]) -> bytes:
    """The lines of a body; what cannot be written comes last, as a refusal."""
    lines: list[bytes] = []
    refused: list[bytes] = []
    for source, item in entries:
        try:
            lines.append(_line(source, item))
        except (PydanticSerializationError, UnicodeEncodeError):
            reason = "holds half a character (a lone surrogate); mend the text"
            refused.append(_refused(source, item, reason))
        except ValueError as error:
            refused.append(_refused(source, item, f"cannot be sent: {error}"))
    return b"".join((*lines, *refused))


def _line(source: str, item: ToolSpec | Passage | Refusal) -> bytes:
    line = b"[" + to_json(source) + b"," + dump(item) + b"]\n"
    if isinstance(item, ToolSpec):
        # As deep as here no parser follows, there either.
        from_json(line)
    return line


def _refused(source: str, item: ToolSpec | Passage | Refusal, reason: str) -> bytes:
    """The line of what cannot be sent, in the words of a sync."""
    match item:
        case ToolSpec():
            told = Refusal("", item.id, reason)
        case Passage():
            told = Refusal(item.document, f"part {item.position + 1}", reason)
        case Refusal():
            told = item
    legible = Refusal(*map(_legible, (told.source, told.place, told.reason)))
    return to_json([_legible(source), as_json(legible)]) + b"\n"


def _legible(text: str) -> str:
    return text.encode(errors="replace").decode()
