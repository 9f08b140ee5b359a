"""What an error means to the outside: one table from error class to exit code."""

from __future__ import annotations

from toolcrib import errors

__all__ = ["EXIT_NOT_CLEAN", "exit_code"]

EXIT_NOT_CLEAN = 1
"""The command did its work, and something was refused (`--strict`) or is wrong (`doctor`)."""

EXIT_CODES: tuple[tuple[type[errors.ToolcribError], int], ...] = (
    (errors.IndexMismatchError, 4),
    (errors.StoreError, 3),
    (errors.MissingExtraError, 5),
    (errors.EncoderError, 5),
    (errors.ToolcribError, 2),
)
"""In this order: 2 is a mistake in what was asked, 3 a store that cannot be used, 4 an index
that other models made, 5 a model or package that cannot be used."""


def exit_code(error: errors.ToolcribError) -> int:
    """The exit code of a command that ended with this error."""
    return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
