"""Counting what tools can be narrowed by, out of their payloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.records import Facets

__all__ = ["FACETS", "count_facets"]

FACETS = ("server", "category", "tags", "sensitivity")
"""The payload fields that are counted."""


def count_facets(payloads: Iterable[Mapping[str, Any]]) -> Facets:
    """The facets of tools, the most frequent value first."""
    tools = 0
    counts = {name: Counter[str]() for name in FACETS}
    for payload in payloads:
        tools += 1
        for name, counter in counts.items():
            value = payload.get(name) or ()
            counter.update({value} if isinstance(value, str) else set(value))
    servers, categories, tags, sensitivities = (_ordered(counts[name]) for name in FACETS)
    return Facets(tools, servers, categories, tags, sensitivities)


def _ordered(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])))
