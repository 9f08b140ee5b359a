"""Tools in and out on somebody's behalf: within a key's scope, and past the audit."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.access.quarantine import Held, Quarantine
from toolcrib.crib import Crib
from toolcrib.errors import SpecError
from toolcrib.indexers.sync import prune_refusal
from toolcrib.records import IndexReport, Refusal, Scope, ToolSpec
from toolcrib.store.base import point_id
from toolcrib.store.filters import Equals, Filter, HasId, Not, all_of, from_scope, matches
from toolcrib.store.payload import tool_payload

__all__ = ["Pruning", "Written", "allows", "remove_tool", "write_tools"]

NOT_ALLOWED = "this key's scope does not allow to write this tool"

Entry = tuple[str, ToolSpec | Refusal]


@dataclass(frozen=True, slots=True)
class Pruning:
    """That what is not named goes: of all servers, or of one."""

    server: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of tools that were sent."""

    report: IndexReport
    held: tuple[Held, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As the JSON contract has it."""
        held = [each.as_dict() for each in self.held]
        return {**self.report.as_dict(), "ids": self.report.ids(), "quarantined": held}


def write_tools(
    crib: Crib,
    entries: Iterable[Entry],
    scope: Scope,
    quarantine: Quarantine | None,
    pruning: Pruning | None,
) -> Written:
    """Put in the tools that the scope allows and the audit lets pass.

    Nothing out of scope is replaced or pruned. As embedded, nothing is pruned while anything is
    refused; what is held back counts as named.

    Raises:
        StoreError: the store refused; part of it may be written all the same.
    """
    specs, refused = _sorted_out(crib, entries, scope)
    held: list[Held] = []
    if quarantine is not None:
        specs, held = quarantine.screen(specs)
    if pruning and scope == Scope() and not refused and not held:
        return Written(crib.index_tools(specs, prune=True, server=pruning.server))
    report = crib.index_tools(specs)
    report = replace(report, refused=(*refused, *report.refused))
    if pruning:
        named = {spec.id for spec in specs} | {each.tool_id for each in held}
        report = _pruned(crib, report, scope, pruning, named)
    return Written(report, tuple(held))


def remove_tool(crib: Crib, tool_id: str, scope: Scope) -> None:
    """Remove a tool; one out of scope is as unknown as any other.

    Raises:
        UnknownToolError: there is none in reach.
    """
    crib.get_tool(tool_id, scope=scope)
    crib.remove_tools(tool_id)


def allows(scope: Scope, spec: ToolSpec) -> bool:
    """Whether a tool is within a scope."""
    return _is_within(from_scope(scope), spec)


def _is_within(allowed: Filter | None, spec: ToolSpec) -> bool:
    if allowed is None:
        return True
    try:
        return matches(allowed, point_id(spec.id), tool_payload(spec, 0.0))
    except SpecError:
        # No store keeps it, which whoever puts it in is told.
        return True


def _sorted_out(
    crib: Crib, entries: Iterable[Entry], scope: Scope
) -> tuple[list[ToolSpec], list[Refusal]]:
    """What may be put in, and what is refused; the same words whatever the reason in the scope."""
    found = list(entries)
    refused = [item for _, item in found if isinstance(item, Refusal)]
    specs = [(source, item) for source, item in found if isinstance(item, ToolSpec)]
    allowed = from_scope(scope)
    if allowed is None:
        return [spec for _, spec in specs], refused
    ids = HasId(frozenset(point_id(spec.id) for _, spec in specs))
    foreign = {tool.id for tool in crib.list_tools(where=all_of(ids, Not(allowed)))}
    kept: list[ToolSpec] = []
    for source, spec in specs:
        if spec.id not in foreign and _is_within(allowed, spec):
            kept.append(spec)
        else:
            refused.append(Refusal(source, spec.id, NOT_ALLOWED))
    return kept, refused


def _pruned(
    crib: Crib, report: IndexReport, scope: Scope, pruning: Pruning, named: AbstractSet[str]
) -> IndexReport:
    where = None if pruning.server is None else Equals("server", pruning.server)
    reach = crib.list_tools(scope=scope, where=where)
    gone = sorted(tool.id for tool in reach if tool.id not in named)
    if not gone:
        return report
    if report.refused:
        kept = replace(prune_refusal("tools", len(report.refused), len(gone)), source="prune")
        return replace(report, refused=(*report.refused, kept))
    crib.remove_tools(*gone)
    return replace(report, removed=(*report.removed, *gone))
