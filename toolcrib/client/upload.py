"""Upload: what sources hold goes to a service in one request, and progress comes back with it.

The service alone judges what is new, what is refused and what is pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.client.errors import Reply, refusal
from toolcrib.client.transport import Transport
from toolcrib.indexers.writing import Listener
from toolcrib.records import IndexProgress, IndexReport, Passage, Refusal, ToolSpec
from toolcrib.records.codec import as_json, dump, load

__all__ = ["upload"]


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of an answer."""

    progress: IndexProgress | None = None
    report: IndexReport | None = None
    problem: dict[str, Any] | None = None


def upload(
    transport: Transport,
    path: str,
    entries: Iterable[tuple[str, ToolSpec | Passage | Refusal]],
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
    return transport.stream(path, given, b"".join(map(_line, entries)), read)


def _line(entry: tuple[str, ToolSpec | Passage | Refusal]) -> bytes:
    source, item = entry
    try:
        written = to_json(source) + b"," + dump(item)
        if isinstance(item, ToolSpec):
            # A parser follows no deeper nesting, here or there.
            from_json(written.partition(b",")[2])
    except (PydanticSerializationError, UnicodeEncodeError):
        return _refused(source, item, "holds half a character (a lone surrogate); mend the text")
    except ValueError as error:
        return _refused(source, item, f"cannot be sent: {error}")
    return b"[" + written + b"]\n"


def _refused(source: str, item: ToolSpec | Passage | Refusal, reason: str) -> bytes:
    place = item.place if isinstance(item, Refusal) else item.id
    refused = as_json(Refusal(*(_legible(each) for each in (source, place, reason))))
    return to_json([_legible(source), refused]) + b"\n"


def _legible(text: str) -> str:
    return text.encode(errors="replace").decode()
