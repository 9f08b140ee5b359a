"""Cheap looks at a turn that need no encoder: what came with it, and what shape its text has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from toolcrib.records import Turn

__all__ = ["probe"]

LOOKED_AT = 8_000
MAX_ATTACHMENTS = 20

_SQL = re.compile(
    r"\b(?:select\b[^;]{1,400}?\bfrom|insert\s+into|update\s+\w+\s+set|delete\s+from)\s+\w",
    re.IGNORECASE,
)
_TRACE = re.compile(
    r"^Traceback \(most recent call last\)|^\s+at [\w.$<>]+\(|^panic: |\bCaused by: ",
    re.MULTILINE,
)
_FENCE = re.compile(r"^```", re.MULTILINE)


def probe(turn: Turn) -> tuple[str, ...]:
    """What was found, as short signals: `attachment:csv`, `sql`, `stack-trace`, `code-block`."""
    return tuple(dict.fromkeys(_found(turn)))


def _found(turn: Turn) -> Iterator[str]:
    text = turn.text[:LOOKED_AT]
    for attachment in turn.attachments[:MAX_ATTACHMENTS]:
        suffix = PurePosixPath(attachment.name.replace("\\", "/")).suffix.lstrip(".").casefold()
        kind = suffix or attachment.mime.rpartition("/")[2].casefold()
        yield f"attachment:{kind[:20] or 'unknown'}"
    if turn.unreadable:
        yield f"attachments-unreadable:{turn.unreadable}"
    for signal, shape in (("sql", _SQL), ("stack-trace", _TRACE), ("code-block", _FENCE)):
        if shape.search(text):
            yield signal
