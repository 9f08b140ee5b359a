"""What a detector is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolcrib.records import Context
from toolcrib.retrieval.legs import EncodedQuery

__all__ = ["Detector"]


class Detector(Protocol):
    """Tells what kind of turn it is: only classifies, never calls a tool or writes a store."""

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other words for intents, with the intents' own names."""
        ...

    def detect(
        self, text: str, query: EncodedQuery | None = None, *, entities: bool = True
    ) -> Context:
        """The context of a turn; `query` is its text, encoded, where somebody has done so.

        Without `entities` none are looked for, and neither is personal data.
        """
        ...

    def leans(self, text: str) -> float:
        """How much a text leans on what was said before it: 0 not at all, 1 surely."""
        ...
