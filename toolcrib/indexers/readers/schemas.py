"""JSON Schema as a tree: where schemas stand in it, and where only data does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

__all__ = ["DATA_KEYWORDS", "SCHEMA_MAPS", "rewritten"]

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose keys are names, not keywords."""

DATA_KEYWORDS = frozenset({"example", "examples", "default", "enum", "const"})
"""Keywords whose content is data, whatever it looks like."""


def rewritten(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Copy a schema, each schema in it passed through `change`, the inner ones first."""
    if isinstance(value, list):
        return [rewritten(item, change) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    schema = cast("dict[str, Any]", value)
    return change({key: _keyword(key, item, change) for key, item in schema.items()})


def _keyword(key: str, value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if key in DATA_KEYWORDS:
        return value
    if key in SCHEMA_MAPS and isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: rewritten(schema, change) for name, schema in named.items()}
    return rewritten(value, change)
