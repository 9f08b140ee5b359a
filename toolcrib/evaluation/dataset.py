"""Data sets: tools, queries, and which tools answer which query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolcrib.records import ToolSpec

UnanswerableScope = Literal["", "corpus", "candidates", "no_tool_needed"]
"""Why no tool answers: nothing in the corpus fits, nothing among the query's candidates does
(the corpus may well hold one), or the request needs no tool."""


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query, and the grade (> 0) of every tool that answers it.

    `forbidden` tools count against a system that returns them. `candidates` are the tools that
    the query was written against; they bound the search only where nothing among them fits.
    """

    id: str
    text: str
    split: str = "test"
    relevant: Mapping[str, float] = field(default_factory=dict[str, float])
    answerable: bool = True
    unanswerable_scope: UnanswerableScope = ""
    forbidden: frozenset[str] = frozenset()
    candidates: tuple[str, ...] | None = None

    @property
    def among(self) -> tuple[str, ...] | None:
        """The only tools that may be returned; None for all.

        Elsewhere in the corpus there may well be a tool for a query that is unanswerable among
        its candidates. Any other query is asked of the whole corpus, as retrieval is measured.
        """
        return self.candidates if self.unanswerable_scope == "candidates" else None


@dataclass(frozen=True, slots=True)
class DataSet:
    """Tools and labelled queries; `notes` say what the checks found wanting."""

    name: str
    tools: tuple[ToolSpec, ...]
    queries: tuple[LabelledQuery, ...]
    kind: Literal["tools", "intents"] = "tools"
    notes: tuple[str, ...] = ()

    def split(self, *names: str) -> tuple[LabelledQuery, ...]:
        """The queries of these splits, in order; of all splits when none is named."""
        return tuple(query for query in self.queries if not names or query.split in names)
