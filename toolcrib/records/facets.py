"""What there is to narrow by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Facets"]


@dataclass(frozen=True, slots=True)
class Facets:
    """How many tools there are, and how many of each server, category, tag and sensitivity.

    A tool of several tags counts in each. What is empty is not listed.
    """

    tools: int = 0
    servers: Mapping[str, int] = field(default_factory=dict[str, int])
    categories: Mapping[str, int] = field(default_factory=dict[str, int])
    tags: Mapping[str, int] = field(default_factory=dict[str, int])
    sensitivities: Mapping[str, int] = field(default_factory=dict[str, int])

    def as_dict(self) -> dict[str, Any]:
        """The counts as the JSON contract has them."""
        return {
            "tools": self.tools,
            "servers": dict(self.servers),
            "categories": dict(self.categories),
            "tags": dict(self.tags),
            "sensitivities": dict(self.sensitivities),
        }
