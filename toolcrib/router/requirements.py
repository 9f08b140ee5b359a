"""What chosen tools need beside them: those that meet their `requires`, and theirs in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.records import ToolSpec
from toolcrib.retrieval.assessment import ENABLED
from toolcrib.store.filters import AnyOf, Filter, Or, all_of
from toolcrib.store.payload import read_tool
from toolcrib.store.base import Record, Store

__all__ = ["Required", "required"]

MAX_UNMET = 5
"""Signals are read by people: the first few say what is wrong with a registry."""

MAX_NAME_CHARS = 80

_FIELDS = ("id", "name", "server", "provides", "spec")


@dataclass(frozen=True, slots=True)
class Required:
    """Tools to add, in the order found, under the id of the chosen tool that brought them.

    `signals`: `requires-capped` where more would have been added, and `requires-unmet:NAME`
    for what no tool in reach meets.
    """

    tools: dict[str, list[ToolSpec]]
    signals: tuple[str, ...]


class _Need(NamedTuple):
    """A requirement, the server of the tool that has it, and the chosen tool behind that."""

    name: str
    server: str
    root: str


def required(
    store: Store, chosen: Sequence[ToolSpec], allowed: Filter | None, limit: int
) -> Required:
    """The enabled tools within `allowed` that the chosen ones need, at most `limit`.

    A requirement is met by a tool of that id or name, or one that provides it; where several
    do, by the one of that id, else one of the same server, else the first by id. One question
    to the store for every step that needs lead to further needs.

    Raises:
        StoreError: the store does not answer.
    """
    closure = _Closure(chosen, limit)
    needs = [need for spec in chosen for need in _needs(spec, spec.id)]
    while needs := closure.still_open(needs):
        if closure.is_full:
            closure.capped = True
            break
        meeting = _meeting(store, {need.name for need in needs}, allowed)
        needs = [further for need in needs for further in closure.meet(need, meeting)]
    return closure.result()


class _Closure:
    """What is met, what was added, and what nothing meets, while needs are followed."""

    def __init__(self, chosen: Sequence[ToolSpec], limit: int) -> None:
        self._met = {name for spec in chosen for name in _names(spec)}
        self._limit = limit
        self._added: list[tuple[str, ToolSpec]] = []
        self._unmet: dict[str, None] = {}
        self.capped = False

    @property
    def is_full(self) -> bool:
        """Whether no further tool may be added."""
        return len(self._added) >= self._limit

    def still_open(self, needs: Iterable[_Need]) -> list[_Need]:
        """Those of the needs that are neither met nor known to be in vain."""
        return [need for need in needs if need.name not in self._met | self._unmet.keys()]

    def meet(self, need: _Need, meeting: dict[str, list[Record]]) -> list[_Need]:
        """Add the tool that meets a need best; what that one needs in turn."""
        if not self.still_open([need]):
            return []
        if need.name not in meeting:
            self._unmet[need.name] = None
            return []
        if self.is_full:
            self.capped = True
            return []
        best = min(meeting[need.name], key=lambda record: _preference(record, need))
        spec = read_tool(best.payload)
        self._met.update(_names(spec))
        self._added.append((need.root, spec))
        return _needs(spec, need.root)

    def result(self) -> Required:
        """What was added, under the chosen tool behind it, and the signals."""
        tools: dict[str, list[ToolSpec]] = {}
        for root, spec in self._added:
            tools.setdefault(root, []).append(spec)
        unmet = [f"requires-unmet:{name[:MAX_NAME_CHARS]}" for name in self._unmet][:MAX_UNMET]
        return Required(tools, (*(["requires-capped"] if self.capped else []), *unmet))


def _needs(spec: ToolSpec, root: str) -> list[_Need]:
    return [_Need(name, spec.server, root) for name in spec.requires]


def _names(spec: ToolSpec) -> tuple[str, ...]:
    return (spec.id, spec.name, *spec.provides)


def _meeting(store: Store, names: set[str], allowed: Filter | None) -> dict[str, list[Record]]:
    """The tools that meet each requirement; one that none meets is missing."""
    keys = {name.casefold() for name in names}
    where = Or(AnyOf("provides", sorted(names)), AnyOf("name_key", sorted(keys)))
    found: dict[str, list[Record]] = {}
    for record in store.scroll(all_of(where, ENABLED, allowed), _FIELDS):
        own = record.payload
        for name in names & {own["id"], own["name"], *own["provides"]}:
            found.setdefault(name, []).append(record)
    return found


def _preference(record: Record, need: _Need) -> tuple[bool, bool, str]:
    tool_id: str = record.payload["id"]
    return tool_id != need.name, record.payload["server"] != need.server, tool_id
