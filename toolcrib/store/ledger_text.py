"""A record's body as text: checked before it is written, and read back."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from toolcrib.errors import StoreDamagedError, StoreError
from toolcrib.store.ledger import Entry

__all__ = ["body_text", "is_text", "read_entry"]


def is_text(*names: str) -> bool:
    """Whether names have UTF-8; half a character (a lone surrogate) has none."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def body_text(shelf: str, entry: Entry) -> str:
    """The body of a record as JSON in ASCII.

    Raises:
        StoreError: the record is not fit to be kept; the message says why.
    """
    if not is_text(shelf) or not is_text(entry.id):
        raise _unfit(shelf, entry, "its name holds half a character")
    if not math.isfinite(entry.at):
        raise _unfit(shelf, entry, f"its time is {entry.at}")
    try:
        return json.dumps(dict(entry.body), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise _unfit(shelf, entry, str(error)) from error


def read_entry(entry_id: str, at: float, text: str, place: str) -> Entry:
    """A record as `body_text` wrote it; `place` is the ledger as messages name it.

    Raises:
        StoreDamagedError: the text is no JSON object.
    """
    try:
        body: Any = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise StoreDamagedError(
            f"the record {entry_id!r} in {place} is no JSON object; delete it, or restore a backup",
        )
    return Entry(entry_id, at, cast("dict[str, Any]", body))


def _unfit(shelf: str, entry: Entry, why: str) -> StoreError:
    return StoreError(f"the record {entry.id!r} of {shelf!r} cannot be kept: {why}")
