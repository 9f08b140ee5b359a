"""Alternates: tools that can replace a failed tool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolcrib.indexers.points import dense_text
from toolcrib.records import FindResult, Scope, ToolHit, ToolSpec
from toolcrib.records.answers import with_ranks
from toolcrib.records.codec import list_of, object_of
from toolcrib.retrieval.fusion import by_score
from toolcrib.retrieval.options import SearchOptions
from toolcrib.router.settings import DEFAULT_LIKENESS
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, HasId, Not, Or, all_of
from toolcrib.text import EFFECT_OF, name_key, split_identifier

MAX_CANDIDATE_TOOLS = 20
"""Candidates of each search: they include an equivalent tool, if there is one, in 97 % of
failures."""

LEG_WEIGHTS = {"fits": 0.75, "likeness": 0.25, "category": 0.05, "provides": 0.05, "schema": 0.03}
"""Weights in a score. The fit to the turn and the likeness to the failed tool have searches of
their own: the longer text would dominate a joint query. An equal category, or providing all that
the failed tool provides, gains the usual score difference of neighbours in a ranking; reusable
arguments gain less, as equivalent tools name arguments differently."""

OTHER_TYPE_SHARE = 0.5
"""Fit of a required parameter of equal name and other type: its value can be converted."""

SAME_SERVER_LIKENESS = 0.4
"""Increase of the minimum likeness for tools of the same server: their texts are alike
(createIssue, listIssues), but a server rarely has two equivalent tools."""

MAX_FAILED_TOOL_CHARS = 500


def alternates(
    find: Callable[[str, SearchOptions], FindResult],
    failed: ToolSpec,
    text: str,
    *,
    excluded: Collection[str] = (),
    scope: Scope | None = None,
    where: Filter | None = None,
    k: int = 3,
    likeness: float = DEFAULT_LIKENESS,
) -> list[ToolHit]:
    """Find at most `k` tools with the purpose of the failed tool, best first; possibly none.

    `find` ranks the tools for a query, as `ToolIndex.find` does. `text` is the turn's text;
    `excluded` are ids of tools that failed before in the turn. `scope` and `where` filter the
    searches. Scores are in [0, 1]; `legs` has their parts. `probability` is that of fitting the
    turn, None for a tool that only the search for the failed tool found.
    """
    itself = HasId(frozenset({point_id(failed.id)}))
    others = all_of(Not(HasId(frozenset(map(point_id, (failed.id, *excluded))))), where)
    options = SearchOptions(MAX_CANDIDATE_TOOLS, scope, others, gate=False)
    fitting = {hit.id: hit for hit in find(text, options).tools} if text.strip() else {}
    # The failed tool's score for its own text is the unit of likeness.
    options = replace(options, where=others and Or(others, itself), explain=True)
    # Identifiers are split: a whole identifier would match its tool by name.
    words_of_failed = " ".join(split_identifier(dense_text(failed)[:MAX_FAILED_TOOL_CHARS]))
    alike = {hit.id: hit for hit in find(words_of_failed, options).tools}
    own = alike.pop(failed.id, None)
    # A tool that only another tool's requirement added has no legs.
    nearest = (own.legs.get("dense") if own else None) or 1.0
    found = [
        fitting.get(hit.id) or replace(hit, probability=None)
        for hit in alike.values()
        if _can_replace(failed, hit.tool, hit.legs.get("dense", 0.0) / nearest, likeness)
    ]
    fits, words = _scores(fitting, alike), _scores(alike, alike)
    scored = by_score(_score(hit, failed, fits[hit.id], words[hit.id]) for hit in found)
    return list(with_ranks(scored[:k]))


def _can_replace(failed: ToolSpec, tool: ToolSpec, near: float, likeness: float) -> bool:
    """True if a tool has the same effect, and provides the same or is similar enough."""
    if not likeness:
        return True
    if len({effect(failed), effect(tool)} - {""}) > 1:
        # Tools that provide the same value may differ: create_event and list_events give an id.
        return False
    if failed.server and tool.server == failed.server:
        likeness += SAME_SERVER_LIKENESS
    return near >= likeness or _overlap(failed.provides, tool.provides) == 1


def effect(tool: ToolSpec) -> str:
    """Effect of a tool: `reads`, `makes` or `ends`; empty if unknown."""
    words = [word.casefold() for word in split_identifier(tool.name)]
    named = [EFFECT_OF[word] for word in words if word in EFFECT_OF]
    if len(set(named)) == 1:
        return named[0]
    verb = tool.description.casefold().split(maxsplit=1)[:1]
    effects = [EFFECT_OF[form] for word in verb for form in (word, word[:-1]) if form in EFFECT_OF]
    # The first verb of a name is mostly its verb: refund_charge.
    effects += named
    return effects[0] if effects else "reads" * (tool.annotations.get("readOnlyHint") is True)


def _scores(ranking: Mapping[str, ToolHit], ids: Iterable[str]) -> dict[str, float]:
    """Scores by tool id; a tool outside of the ranking gets the ranking's lowest score."""
    known = {tool_id: hit.score for tool_id, hit in ranking.items()}
    last = min(known.values(), default=0.0)
    return {tool_id: known.get(tool_id, last) for tool_id in ids}


def _score(hit: ToolHit, failed: ToolSpec, fits: float, likeness: float) -> ToolHit:
    tool = hit.tool
    legs = {
        "fits": fits,
        "likeness": likeness,
        "category": float(bool(failed.category) and tool.category == failed.category),
        "provides": _overlap(failed.provides, tool.provides),
        "schema": schema_fit(failed.input_schema, tool.input_schema),
    }
    score = sum(weight * legs[name] for name, weight in LEG_WEIGHTS.items())
    return replace(hit, score=score / sum(LEG_WEIGHTS.values()), legs=legs)


def _overlap(wanted: Sequence[str], offered: Sequence[str]) -> float:
    """Share of the wanted names that are offered; 0 without wanted names."""
    return len(set(wanted) & set(offered)) / len(set(wanted)) if wanted else 0.0


def schema_fit(had: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """Share of a tool's required arguments that another tool had, in [0, 1]; 1 without any.

    Both are JSON Schemas of an object. Names are compared by their letters and digits; a parameter
    of another type counts half.
    """
    own = {name_key(name): schema for name, schema in object_of(wanted.get("properties")).items()}
    there = {name_key(name): schema for name, schema in object_of(had.get("properties")).items()}
    keys = {name_key(name) for name in list_of(wanted.get("required")) if isinstance(name, str)}
    if not keys:
        return 1.0
    return sum(_fit(there[key], own.get(key)) for key in keys & there.keys()) / len(keys)


def _fit(had: Any, wanted: Any) -> float:
    given, taken = _types(had), _types(wanted)
    if "integer" in given:
        given |= {"number"}
    return 1.0 if not given or not taken or given & taken else OTHER_TYPE_SHARE


def _types(schema: Any) -> frozenset[str]:
    """Types that a schema allows, itself or in alternatives; empty for any type."""
    described = object_of(schema)
    named: list[Any] = []
    for option in (described, *list_of(described.get("anyOf")), *list_of(described.get("oneOf"))):
        kind = object_of(option).get("type")
        named += [kind, *list_of(kind)]
    return frozenset(kind for kind in named if isinstance(kind, str)) - {"null"}
