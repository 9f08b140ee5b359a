"""Alternates: what to use in place of a tool that failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from toolcrib.indexers.points import dense_text
from toolcrib.records import FindResult, Scope, ToolHit, ToolSpec
from toolcrib.records.codec import list_of, object_of
from toolcrib.retrieval.fusion import by_score
from toolcrib.retrieval.options import SearchOptions
from toolcrib.router.settings import LIKENESS
from toolcrib.store.base import point_id
from toolcrib.store.filters import Filter, HasId, Not, Or, all_of
from toolcrib.text import split_identifier, squeeze

__all__ = ["alternates", "effect", "schema_fit"]

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

SAME_SERVER = 0.4
"""What is asked more of a tool of the same server, which rarely offers two that do the same: its
neighbours share their words (createIssue, listIssues)."""

EFFECTS: Mapping[str, str] = {
    "reads": "check count describe detect explain fetch find get identify inspect list look "
    "lookup preview query read recognize report retrieve search show track view",
    "makes": "accept activate add approve assign attach book buy charge connect create deploy "
    "enable encrypt follow forward give grant increase insert install invite launch lock make "
    "new open order pay pin place post publish put raise register reply reserve resume schedule "
    "send set start submit subscribe transfer unblock unmute update upload write",
    "ends": "archive block cancel clear close deactivate decline decrease decrypt delete destroy "
    "detach disable disconnect drop end erase kill lower mute pause purge reduce refund reject "
    "remove reverse revoke rm stop terminate trash undo unfollow uninstall unlock unpin unpublish "
    "unsubscribe",
}
"""Verbs by what they do to the world: what reads cannot stand in for what acts, nor what begins
something for what ends it, however alike their words are."""

EFFECT_OF = {verb: effect for effect, verbs in EFFECTS.items() for verb in verbs.split()}

MAX_TOOL_CHARS = 500

_TOTAL = 1 + CATEGORY + PROVIDES + SCHEMA


Finder: TypeAlias = Callable[[str, SearchOptions], FindResult]
"""Ranks the tools that fit a query, as `ToolIndex.find` does."""


def alternates(
    find: Finder,
    failed: ToolSpec,
    text: str,
    *,
    excluded: Collection[str] = (),
    scope: Scope | None = None,
    where: Filter | None = None,
    k: int = 3,
    likeness: float = LIKENESS,
) -> list[ToolHit]:
    """At most `k` tools that do what the failed one was to do, best first; none where none does.

    `text` is the turn's; `excluded` are the ids of tools that failed before in it. `scope` and
    `where` hold inside the searches. Scores are in [0, 1], and `legs` says of what they are
    made; `probability` is that of fitting the turn, where that search found the tool.

    Raises:
        QueryError: a filter on an unknown field.
        StoreError: the store does not answer.
    """
    itself = HasId(frozenset({point_id(failed.id)}))
    others = all_of(Not(HasId(frozenset(map(point_id, (failed.id, *excluded))))), where)
    options = SearchOptions(DEPTH, scope, others, gate=False)
    fitting = {hit.id: hit for hit in find(text, options).tools} if text.strip() else {}
    # The failed tool is looked for too: how near it is to its own text is the measure.
    options = replace(options, where=others and Or(others, itself), explain=True)
    alike = {hit.id: hit for hit in find(_described(failed), options).tools}
    own = alike.pop(failed.id, None)
    nearest = (own.legs["dense"] if own else 0.0) or 1.0
    found = [
        fitting.get(hit.id) or replace(hit, probability=None)
        for hit in alike.values()
        if _may_stand_in(failed, hit.tool, hit.legs["dense"] / nearest, likeness)
    ]
    fits, words = _scores(fitting, alike), _scores(alike, alike)
    scored = by_score(_scored(hit, failed, fits[hit.id], words[hit.id]) for hit in found)
    return [replace(hit, rank=rank) for rank, hit in enumerate(scored[:k], start=1)]


def _described(tool: ToolSpec) -> str:
    """A tool in words alone: an identifier in a description would call the tool of that name."""
    return " ".join(split_identifier(dense_text(tool)[:MAX_TOOL_CHARS]))


def _may_stand_in(failed: ToolSpec, tool: ToolSpec, near: float, likeness: float) -> bool:
    """Whether it acts as the failed one, and says that it gives the same or is near enough."""
    if not likeness:
        return True
    if len({effect(failed), effect(tool)} - {""}) > 1:
        # Also of what gives the same: to make an event and to list some both give its id.
        return False
    if failed.server and tool.server == failed.server:
        likeness += SAME_SERVER
    return near >= likeness or _overlap(failed.provides, tool.provides) == 1


def effect(tool: ToolSpec) -> str:
    """Whether a tool reads, makes or ends something; empty where its words do not say."""
    words = [word.casefold() for word in split_identifier(tool.name)]
    named = [EFFECT_OF[word] for word in words if word in EFFECT_OF]
    if len(set(named)) == 1:
        return named[0]
    verb = tool.description.casefold().split(maxsplit=1)[:1]
    said = [EFFECT_OF[form] for word in verb for form in (word, word[:-1]) if form in EFFECT_OF]
    # Of several in a name the first is mostly the verb: refund_charge.
    said += named
    return said[0] if said else "reads" * (tool.annotations.get("readOnlyHint") is True)


def _scores(ranking: Mapping[str, ToolHit], ids: Iterable[str]) -> dict[str, float]:
    """The scores of these tools; one that the ranking lacks is as good as its last at most."""
    known = {tool_id: hit.score for tool_id, hit in ranking.items()}
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
    own = {squeeze(name): schema for name, schema in object_of(wanted.get("properties")).items()}
    there = {squeeze(name): schema for name, schema in object_of(had.get("properties")).items()}
    keys = {squeeze(name) for name in list_of(wanted.get("required")) if isinstance(name, str)}
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
    described = object_of(schema)
    named: list[Any] = []
    for option in (described, *list_of(described.get("anyOf")), *list_of(described.get("oneOf"))):
        kind = object_of(option).get("type")
        named += [kind, *list_of(kind)]
    return frozenset(kind for kind in named if isinstance(kind, str)) - {"null"}
