"""What is sent, before it is: told apart, written as JSON, and divided into requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.errors import SpecError
from toolcrib.indexers.sync import Entry, PassageEntry
from toolcrib.records import Passage, Refusal, ToolSpec

__all__ = ["PackedPassages", "PackedTools", "Parcel", "packed_passages", "packed_tools", "parts"]

PART = 256
PART_BYTES = 2**20
"""How much goes in one request: a second or two of a service's work, so that none comes near
its deadline, and progress is seen."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A tool or a passage: its id, where it came from, and its JSON with the length of that."""

    id: str
    source: str
    body: dict[str, Any]
    size: int


PackedTools: TypeAlias = tuple[list[Parcel], list[Refusal]]
"""The tools that can be sent, and what is refused before."""

PackedPassages: TypeAlias = tuple[dict[str, dict[str, list[Parcel]]], list[Refusal]]
"""The same of passages, by collection and document."""


def parts(groups: Iterable[Sequence[Parcel]]) -> Iterator[list[Parcel]]:
    """The parcels of one request after the other; a group is never divided."""
    part: list[Parcel] = []
    size = 0
    for group in groups:
        weight = sum(each.size for each in group)
        if part and (len(part) + len(group) > PART or size + weight > PART_BYTES):
            yield part
            part, size = [], 0
        part += group
        size += weight
    if part:
        yield part


def packed_tools(found: Iterable[Entry]) -> PackedTools:
    """What readers yield, ready to be sent; refused in the words of a sync."""
    taken: dict[str, tuple[str, ToolSpec]] = {}
    refused: list[Refusal] = []
    for source, item in found:
        if isinstance(item, Refusal):
            refused.append(item)
            continue
        first, twin = taken.setdefault(item.id, (source, item))
        if twin is not item and twin.digest != item.digest:
            reason = (
                f"the id {item.id!r} already stands for a different tool in {first}; "
                "give one of them another name, server or id"
            )
            refused.append(Refusal(source, item.id, reason))
    parcels: list[Parcel] = []
    for tool_id, (source, spec) in taken.items():
        try:
            parcels.append(_parcel(tool_id, source, partial(_tool_text, spec)))
        except SpecError as error:
            refused.append(Refusal("", tool_id, str(error)))
    return parcels, refused


def packed_passages(found: Iterable[PassageEntry]) -> PackedPassages:
    """What loaders yield, ready to be sent; refused in the words of a sync."""
    origin: dict[tuple[str, str], str] = {}
    taken: dict[str, Passage] = {}
    refused: list[Refusal] = []
    for source, item in found:
        if isinstance(item, Refusal):
            refused.append(item)
            continue
        first = origin.setdefault((item.collection, item.document), source)
        if item.id not in taken and source == first:
            taken[item.id] = item
        elif taken.get(item.id) != item:
            reason = (
                f"{item.document!r} already stands for another document, from {first}; "
                "rename one of them, or give it another collection"
            )
            refused.append(Refusal(source, _part(item), reason))
    parcels: dict[str, dict[str, list[Parcel]]] = {}
    for passage in taken.values():
        try:
            parcel = _parcel(passage.id, passage.document, partial(_passage_text, passage))
        except SpecError as error:
            refused.append(Refusal(passage.document, _part(passage), str(error)))
        else:
            documents = parcels.setdefault(passage.collection, {})
            documents.setdefault(passage.document, []).append(parcel)
    return parcels, refused


def _part(passage: Passage) -> str:
    return f"part {passage.position + 1}"


def _parcel(item_id: str, source: str, write: Callable[[], str]) -> Parcel:
    try:
        text = write()
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise SpecError("holds half a character (a lone surrogate); mend the text") from error
    try:
        # As deep as in a request: what no parser follows would keep all others out.
        body = from_json(f'{{"":[{text}]}}')[""][0]
    except ValueError as error:
        raise SpecError(f"cannot be sent: {error}") from error
    return Parcel(item_id, source, body, len(text))


def _tool_text(spec: ToolSpec) -> str:
    return spec.model_dump_json(exclude_defaults=True)


def _passage_text(passage: Passage) -> str:
    fields = {
        "document": passage.document,
        "text": passage.text,
        "title": passage.title,
        "position": passage.position,
        "start": passage.start,
    }
    return to_json(fields).decode()
