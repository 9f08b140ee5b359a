"""The console: a page that shows why a turn was decided as it was; built from `console/`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["assets"]


def assets() -> Path:
    """The folder of the built files: `index.html`, and what it names beside it."""
    return Path(__file__).with_name("static")
