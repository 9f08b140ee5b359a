"""Tool selection: the tools, of all that an agent has, that its model gets for a turn.

An agent knows its tools by name, an index by id. A name matches a tool's id, its name, or the
server's and the tool's names together (`mail__send`, `mail_send`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolcrib.client.crib import RemoteCrib
from toolcrib.crib import Crib
from toolcrib.errors import SettingsError, did_you_mean, nearest
from toolcrib.records import Decision, PassageHit, Scope, ToolHit, ToolSpec, Turn
from toolcrib.records.codec import as_json, is_object
from toolcrib.retrieval.legs import has_words
from toolcrib.retrieval.options import MAX_NEEDS
from toolcrib.store.filters import MAX_LIST_VALUES, AnyOf, Filter, Or
from toolcrib.text import squeeze

AnyCrib: TypeAlias = Crib | RemoteCrib


@dataclass(frozen=True, slots=True)
class TurnTools:
    """Tools of a model for a turn.

    `names` are the agent's: first the always included, then those of earlier turns, then new
    tools, so that a prompt cache holds as long as possible. `ids` has the chosen tools.
    """

    names: tuple[str, ...]
    ids: Mapping[str, str]
    decision: Decision


def tools_for_turn(
    crib: AnyCrib,
    turn: Turn,
    names: Iterable[str],
    *,
    k: int | None = None,
    always: Sequence[str] = (),
    shown: Sequence[str] = (),
) -> TurnTools:
    """Decide a turn, and choose among an agent's tools, as `choose_tools`.

    `k` replaces the settings' `tools.k`. `shown` are the ids of earlier turns.

    Raises:
        SettingsError: the agent has no tool of a name in `always`.
        QueryError: an impossible `k`.
        StoreError: a store does not answer.
    """
    names = list(dict.fromkeys(names))
    check_names(always, names)
    decision = crib.route(turn, k=k, shown=shown)
    return choose_tools(crib, turn, decision, names, always=always, shown=shown)


def choose_tools(
    crib: AnyCrib,
    turn: Turn,
    decision: Decision,
    names: Sequence[str],
    *,
    always: Sequence[str] = (),
    shown: Sequence[str] = (),
    without: Collection[str] = (),
) -> TurnTools:
    """Choose the tools among an agent's `names` by a turn's decision.

    Names unknown to the index stay, as do names in `always`. Ids in `without` are left out.

    Raises:
        StoreError: the store does not answer.
    """
    known = known_tools(crib, names)
    named = {
        spec.id: name
        for name, specs in reversed(known.items())
        for spec in specs
        if spec.id not in without
    }
    hits = [hit for hit in decision.tools.tools if hit.id in named]
    if len(hits) < (room := len(decision.tools.tools)):
        # Tools that the agent lacks took places, so its own tools are ranked by themselves.
        found = _rank_own_tools(crib, turn, decision, named, room)
        hits = list({hit.id: hit for hit in (*hits, *found)}.values())[:room]
    chosen: dict[str, str] = {}
    for hit in sorted(hits, key=lambda hit: _place(hit.id, shown)):
        chosen.setdefault(named[hit.id], hit.id)
    first = [name for name in names if name in always or name not in known]
    return TurnTools(tuple(dict.fromkeys((*first, *chosen))), chosen, decision)


def check_names(wanted: Iterable[str], names: Sequence[str]) -> None:
    """Check that every wanted name is a tool's.

    Raises:
        SettingsError: no tool has the name; the nearest names are suggested.
    """
    for name in wanted:
        if name not in names:
            hint = did_you_mean(nearest(name, names))
            raise SettingsError(f"the agent has no tool {name!r}{hint}")


def known_tools(crib: AnyCrib, names: Iterable[str]) -> dict[str, tuple[ToolSpec, ...]]:
    """Specifications by name, for the names that the index knows.

    A name may match tools of several servers; only the nearest matches count.
    """
    keys = {name: squeeze(name) for name in names}
    found: dict[str, list[ToolSpec]] = {}
    if where := any_of(set(keys.values()) - {""}):
        for spec in crib.list_tools(where=where):
            for key in {squeeze(spec.id), squeeze(spec.name)}:
                found.setdefault(key, []).append(spec)
    return {name: _nearest(name, found[key]) for name, key in keys.items() if key in found}


def _nearest(name: str, specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    for same in ([s for s in specs if s.id == name], [s for s in specs if s.name == name]):
        if same:
            return tuple(same)
    return tuple(specs)


def _rank_own_tools(
    crib: AnyCrib, turn: Turn, decision: Decision, ids: Iterable[str], k: int
) -> Sequence[ToolHit]:
    where = any_of({tool_id.casefold() for tool_id in ids})
    asks = decision.route.kind in {"tools", "both", "general"}
    if not asks or where is None or not has_words(decision.search_text):
        return ()
    needs = turn.needs or None
    found = crib.find_tools(decision.search_text, k, scope=turn.reach, where=where, needs=needs)
    return [hit for hit in found.tools if hit.id in ids]


def any_of(keys: set[str]) -> Filter | None:
    """Filter by names or ids as in `name_key`; None without keys."""
    listed = sorted(keys)
    parts = [
        AnyOf("name_key", listed[at : at + MAX_LIST_VALUES])
        for at in range(0, len(listed), MAX_LIST_VALUES)
    ]
    return Or(*parts) if len(parts) > 1 else next(iter(parts), None)


def _place(tool_id: str, shown: Sequence[str]) -> int:
    return shown.index(tool_id) if tool_id in shown else len(shown)


# -- searches by a model ----------------------------------------------------------------

SEARCH_DESCRIPTION = (
    "Load tools by what they can do. Write needs: one line for each tool that the task takes, "
    "saying what such a tool can do, as its own description would, without names, dates and other "
    "values. Search before you say that something cannot be done."
)
SEARCH_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "needs": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_NEEDS,
            "description": "One line for each tool that is needed: what it can do",
        }
    },
    "required": ["needs"],
    "additionalProperties": False,
}
"""Parameters of a search by a model."""


def tools_wanted(
    crib: AnyCrib, arguments: object, *, k: int = 5, scope: Scope | None = None
) -> tuple[ToolSpec, ...]:
    """Find tools for a model's arguments of a search; none without a need to search.

    Raises:
        StoreError: the store does not answer.
    """
    listed: Any = arguments.get("needs") if is_object(arguments) else None
    wanted: Any = [listed] if isinstance(listed, str) else listed or ()
    needs = [each for each in wanted if isinstance(each, str) and has_words(each)][:MAX_NEEDS]
    if not needs:
        return ()
    found = crib.find_tools(needs=needs, k=max(k, len(needs)), scope=scope)
    return tuple(hit.tool for hit in found.tools)


def passage_metadata(hit: PassageHit) -> dict[str, Any]:
    """Metadata of a framework's document for a passage."""
    fields = as_json(hit)
    names = ("collection", "source", "title", "position", "citation")
    return {name: fields[name] for name in names}
