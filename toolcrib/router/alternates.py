"""Alternates: what to use in place of a tool that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from toolcrib.encoders.lexical import split_identifier
from toolcrib.indexers.points import dense_text
from toolcrib.records import FindResult, Scope, ToolHit, ToolSpec
from toolcrib.retrieval.fusion import by_score
from toolcrib.retrieval.options import SearchOptions
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, HasId, Not, all_of
from toolcrib.store.payload import squeeze

__all__ = ["Finder", "alternates", "schema_fit"]

DEPTH = 20
"""Candidates a search: they held an equal tool for 97 in 100 failures or more, where there was
one (three sets of public labels)."""

TOOL_SHARE = 0.25
"""What likeness to the failed tool counts beside fitting the turn, each searched for apart: a
query of both texts is mostly that of the longer one. Among real MCP servers it brought an equal
tool into the first three for 83 in 100 failures, two searches for 96, the turn's text for 95;
where the text fits many tools a little, two searches find twice what the text finds."""

CATEGORY = 0.05
PROVIDES = 0.05
"""What the same category, and all of what the failed tool provides, are worth beside a fused
score: as much as stands between neighbours in a ranking, so that they order what is close.
Twice as much gained nothing. (No public labels know `provides`: it goes with the category.)"""

SCHEMA = 0.03
"""The same for arguments that can be kept: less, since equal tools name theirs differently.
Twice as much cost more than it brought."""

KNOWN_NAME = 0.5
"""What a required parameter of the right name and another type counts: it can be converted."""

MAX_TOOL_CHARS = 500

_TOTAL = 1 + CATEGORY + PROVIDES + SCHEMA


class Finder(Protocol):
    """What alternates are looked for with; `ToolIndex.find` is such."""

    def __call__(self, query: str, options: SearchOptions, /) -> FindResult:
        """Rank the tools that fit a query."""
        ...


def alternates(
    find: Finder,
    failed: ToolSpec,
    text: str,
    *,
    excluded: Collection[str] = (),
    scope: Scope | None = None,
    where: Filter | None = None,
    k: int = 3,
) -> list[ToolHit]:
    """The `k` tools most likely to do what the failed one was to do, best first.

    `text` is the turn's; `excluded` are the ids of tools that failed before in it. `scope` and
    `where` hold inside the searches. Scores are in [0, 1], and `legs` says of what they are
    made; `probability` is that of fitting the turn, where that search found the tool.

    Raises:
        QueryError: a filter on an unknown field.
        StoreError: the store does not answer.
    """
    gone = Not(HasId(frozenset(map(point_id, (failed.id, *excluded)))))
    # Words alone: an identifier in a description would call the tool of that name.
    described = " ".join(split_identifier(dense_text(failed)[:MAX_TOOL_CHARS]))
    options = SearchOptions(DEPTH, scope, all_of(gone, where), gate=False)
    fitting, alike = (
        find(query, options).tools if query.strip() else () for query in (text, described)
    )
    found = {hit.id: replace(hit, probability=None) for hit in alike}
    found |= {hit.id: hit for hit in fitting}
    fits, likeness = _scores(fitting, found), _scores(alike, found)
    scored = by_score(_scored(hit, failed, fits[i], likeness[i]) for i, hit in found.items())
    return [replace(hit, rank=rank) for rank, hit in enumerate(scored[:k], start=1)]


def _scores(ranking: Sequence[ToolHit], ids: Iterable[str]) -> dict[str, float]:
    """The scores of these tools; one that the ranking lacks is as good as its last at most."""
    known = {hit.id: hit.score for hit in ranking}
    last = min(known.values(), default=0.0)
    return {tool_id: known.get(tool_id, last) for tool_id in ids}


def _scored(hit: ToolHit, failed: ToolSpec, fits: float, likeness: float) -> ToolHit:
    tool = hit.tool
    legs = {
        "fits": fits,
        "likeness": likeness,
        "category": float(bool(failed.category) and tool.category == failed.category),
        "provides": _overlap(failed.provides, tool.provides),
        "schema": schema_fit(failed.input_schema, tool.input_schema),
    }
    score = (1 - TOOL_SHARE) * fits + TOOL_SHARE * likeness
    score += CATEGORY * legs["category"] + PROVIDES * legs["provides"] + SCHEMA * legs["schema"]
    return replace(hit, score=score / _TOTAL, legs=legs)


def _overlap(wanted: Sequence[str], offered: Sequence[str]) -> float:
    """The share of what is wanted that is offered; 0 where nothing is wanted."""
    return len(set(wanted) & set(offered)) / len(set(wanted)) if wanted else 0.0


def schema_fit(had: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """How much of what a tool requires another one had: in [0, 1], 1 where nothing is required.

    Both are JSON Schemas of an object. Names are compared by their letters and digits; a
    parameter of another type counts half.
    """
    own = {squeeze(name): schema for name, schema in _mapping(wanted.get("properties")).items()}
    there = {squeeze(name): schema for name, schema in _mapping(had.get("properties")).items()}
    keys = {squeeze(name) for name in _items(wanted.get("required")) if isinstance(name, str)}
    if not keys:
        return 1.0
    return sum(_fit(there[key], own.get(key)) for key in keys & there.keys()) / len(keys)


def _fit(had: Any, wanted: Any) -> float:
    given, taken = _types(had), _types(wanted)
    if "integer" in given:
        given |= {"number"}
    return 1.0 if not given or not taken or given & taken else KNOWN_NAME


def _types(schema: Any) -> frozenset[str]:
    """The types that a schema names, itself or in its alternatives; none where any will do."""
    described = _mapping(schema)
    named: list[Any] = []
    for option in (described, *_items(described.get("anyOf")), *_items(described.get("oneOf"))):
        kind = _mapping(option).get("type")
        named += [kind, *_items(kind)]
    return frozenset(kind for kind in named if isinstance(kind, str)) - {"null"}


def _mapping(value: Any) -> dict[str, Any]:
    """The value, where it is an object: a schema comes from outside, and may hold anything."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
