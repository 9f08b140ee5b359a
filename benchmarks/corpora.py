"""Rows of JSON Lines, and the tools that corpora hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from toolcrib import ToolSpec


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file, compressed (`.gz`) or not."""
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def specs(path: Path) -> Iterator[ToolSpec]:
    """Tools of a corpus, as far as a reader accepts them."""
    for row in rows(path):
        known = {key: row[key] for key in ToolSpec.model_fields if row.get(key) is not None}
        with suppress(ValidationError):
            yield ToolSpec.model_validate(known)
