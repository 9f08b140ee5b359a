"""The lines of a batch: a file's, or those of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from toolcrib.errors import SourceError

__all__ = ["lines_of"]


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file, `-` for standard input, without their ends.

    Raises:
        SourceError: it cannot be read, or is not UTF-8 text.
    """
    if name == "-":
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    try:
        with Path(name).open(encoding="utf-8") as file:
            yield from (line.rstrip("\r\n") for line in file)
    except OSError as error:
        raise SourceError(name, "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SourceError(name, "", f"is not UTF-8 text: {error.reason}") from error
