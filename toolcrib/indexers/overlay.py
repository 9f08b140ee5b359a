"""Overlay: fields that an operator sets for other people's tools, by id or pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import AliasChoices, Field, FiniteFloat, ValidationError

from toolcrib.errors import SourceError
from toolcrib.indexers.readers.base import Source, is_object
from toolcrib.indexers.sync import Entry
from toolcrib.records import Refusal, Sensitivity, ToolSpec
from toolcrib.records.codec import FrozenModel, in_words, object_of
from toolcrib.records.tools import Texts
from toolcrib.text import unique

OVERLAY_NAME = "overlay.yaml"
"""File name beside the sources."""

_Number: TypeAlias = Annotated[FiniteFloat, Field(ge=0)] | None


def _aliases(*names: str) -> Any:
    return Field(validation_alias=AliasChoices(*names))


class OverlayEntry(FrozenModel):
    """Fields for the tools of one pattern; lists are appended to the source's lists."""

    sensitivity: Sensitivity | None = None
    tags: Texts = ()
    safety_tags: Texts = ()
    cost_estimate: Annotated[_Number, _aliases("cost", "cost_estimate")] = None
    avg_latency_ms: Annotated[_Number, _aliases("latency_ms", "avg_latency_ms")] = None
    success_examples: Annotated[Texts, _aliases("examples", "success_examples")] = ()
    anti_patterns: Annotated[Texts, _aliases("not_for", "anti_patterns")] = ()
    goes_with: Texts = ()

    def over(self, spec: ToolSpec) -> ToolSpec:
        """Return the tool with these fields."""
        fields: dict[str, Any] = {}
        for name in type(self).model_fields:
            value: Any = getattr(self, name)
            if isinstance(value, tuple):
                value = unique(getattr(spec, name), cast("tuple[str, ...]", value)) or None
            if value is not None:
                fields[name] = value
        return spec.model_copy(update=fields)


@dataclass(frozen=True, slots=True)
class ToolOverlay:
    """Entries of a file, by id or glob (`*`, `?`, `[...]`); of several matches the last wins.

    A star also matches slashes: `github/*` are all tools of a server.
    """

    source: str
    entries: Mapping[str, OverlayEntry]

    @classmethod
    def read(cls, path: str | Path) -> ToolOverlay:
        """Read a YAML or JSON file: a mapping `tools` from patterns to fields, or comments alone.

        Raises:
            SourceError: the file cannot be read, or has an unknown field.
        """
        source = Source.by_name(str(path))
        if source.data and not cls.is_overlay(source):
            raise source.error("needs a mapping `tools`, from ids or patterns to fields")
        entries: dict[str, OverlayEntry] = {}
        tools: dict[str, Any] = source.data["tools"] if source.data else {}
        for pattern, fields in tools.items():
            try:
                entries[pattern] = OverlayEntry.model_validate(fields or {})
            except ValidationError as error:
                wrong = in_words(error, "the entry", most=None)
                raise SourceError(source.name, f"tools: {pattern}", wrong) from error
        return cls(source.name, entries)

    @staticmethod
    def is_overlay(source: Source) -> bool:
        """True if a file is an overlay; a file with a list of `tools` is a source."""
        return is_object(object_of(source.sample).get("tools"))

    def over(self, entries: Iterable[Entry]) -> tuple[list[Entry], list[Refusal]]:
        """Entries with the fields of the overlay, and the patterns that match no tool."""
        unmatched = dict.fromkeys(self.entries)
        made: list[Entry] = []
        for source, item in entries:
            stated = item
            # A pattern may match a refused or held entry, so it is no mistake.
            tool_id = item.id if isinstance(item, ToolSpec) else item.place
            for pattern, entry in self.entries.items():
                if pattern == tool_id or fnmatchcase(tool_id, pattern):
                    unmatched.pop(pattern, None)
                    if isinstance(stated, ToolSpec):
                        stated = entry.over(stated)
            made.append((source, stated))
        return made, [Refusal(self.source, each, "matches no tool's id") for each in unmatched]
