"""Does a data set give its answers away? The share of queries that spell the right tool's name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolcrib.encoders.lexical import split_identifier
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.records import ToolSpec

__all__ = ["NOTED_ABOVE", "LeakReport", "name_leak"]

NOTED_ABOVE = 0.01
"""Smaller shares cannot move a mean by more than a hundredth; they are not worth a note."""


@dataclass(frozen=True, slots=True)
class LeakReport:
    """Shares, in [0, 1], of the answerable queries that spell the name of a relevant tool.

    `literal`: the name as it stands, whatever its case, not inside a longer word. `as_words`:
    its words in a row, so that `get_stock_price` is found in "get stock price for ACME"; what
    is literal nearly always counts here as well.
    """

    literal: float
    as_words: float

    @property
    def note(self) -> str:
        """One line for a reader of results; empty when both shares are at most `NOTED_ABOVE`."""
        if max(self.literal, self.as_words) <= NOTED_ABOVE:
            return ""
        return (
            f"name leak: {self.literal:.1%} of the answerable queries spell a relevant tool's "
            f"name, {self.as_words:.1%} spell it as words"
        )


def name_leak(queries: Iterable[LabelledQuery], tools: Iterable[ToolSpec]) -> LeakReport:
    """Count the answerable queries that spell the name of a relevant tool.

    Labels that name none of `tools` are passed over; without answerable queries both are 0.
    """
    names = {tool.id: _Name.of(tool.name) for tool in tools}
    answerable = [query for query in queries if query.answerable]
    literal = as_words = 0
    for query in answerable:
        gold = [names[tool_id] for tool_id in query.relevant if tool_id in names]
        text, words = query.text.casefold(), _words(query.text)
        literal += any(name.is_in(text) for name in gold)
        as_words += any(name.words in words for name in gold)
    total = max(len(answerable), 1)
    return LeakReport(literal / total, as_words / total)


@dataclass(frozen=True, slots=True)
class _Name:
    """A tool's name, prepared for looking it up in many queries."""

    folded: str
    pattern: re.Pattern[str]
    words: str

    @classmethod
    def of(cls, name: str) -> _Name:
        folded = name.casefold()
        return cls(folded, re.compile(rf"(?<!\w){re.escape(folded)}(?!\w)"), _words(name))

    def is_in(self, text: str) -> bool:
        # The plain search comes first, as nearly every query ends there, at a tenth of the price.
        return self.folded in text and self.pattern.search(text) is not None


def _words(text: str) -> str:
    """The words with a space on either side of each, so that `in` finds whole words only."""
    return f" {' '.join(split_identifier(text))} ".casefold()
