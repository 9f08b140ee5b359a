"""JSON of the service as the records that an embedded crib would have returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import TypeAdapter

from toolcrib.records import (
    Collection,
    Context,
    Decision,
    Facets,
    FindResult,
    IndexReport,
    KnowledgeResult,
    Refusal,
    ToolHit,
    ToolSpec,
)

__all__ = [
    "Page",
    "Readiness",
    "Written",
    "context_of",
    "decision_of",
    "read_collections",
    "read_facets",
    "read_found",
    "read_hits",
    "read_knowledge",
    "read_nothing",
    "read_page",
    "read_readiness",
    "read_removed",
    "read_tool",
    "read_written",
]

_CONTEXT = TypeAdapter(Context)
_DECISION = TypeAdapter(Decision)
_FACETS = TypeAdapter(Facets)
_FOUND = TypeAdapter(FindResult)
_HITS = TypeAdapter(tuple[ToolHit, ...])
_KNOWLEDGE = TypeAdapter(KnowledgeResult)
_REFUSED = TypeAdapter(tuple[Refusal, ...])


@dataclass(frozen=True, slots=True)
class Page:
    """Some tools of a list; `next` is the cursor of those behind them, None at the end."""

    tools: tuple[ToolSpec, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of what was put in; `held` are the tools that wait for approval, and why."""

    report: IndexReport
    held: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a service says of itself: its engine, its encoder, a digest of what made its index."""

    engine: str
    encoder: str
    index: str


_PAGE = TypeAdapter(Page)
_READINESS = TypeAdapter(Readiness)


def read_nothing(_answer: None) -> None:
    """An answer that says no more than that it is done."""


def read_tool(answer: Any) -> ToolSpec:
    """One specification."""
    return ToolSpec.model_validate(answer)


def read_page(answer: Any) -> Page:
    """One page of a list of tools."""
    return _PAGE.validate_python(answer)


def read_found(answer: Any) -> FindResult:
    """Found tools, in the shape `full`."""
    return _FOUND.validate_python(_with_tools(answer))


def read_hits(answer: Any) -> tuple[ToolHit, ...]:
    """Ranked tools, in the shape `full`."""
    return _HITS.validate_python(_with_tools(answer)["tools"])


def read_facets(answer: Any) -> Facets:
    """What there is to narrow by."""
    return _FACETS.validate_python(answer)


def read_readiness(answer: Any) -> Readiness:
    """What a service says of itself."""
    return _READINESS.validate_python(answer)


def read_collections(answer: Any) -> list[tuple[Collection, int]]:
    """The collections, each with its number of passages."""
    return [
        (Collection.model_validate(_without(each, "passages")), int(each["passages"]))
        for each in answer["collections"]
    ]


def read_removed(answer: Any) -> int:
    """How many passages are gone."""
    return int(answer["removed"])


def read_knowledge(answer: Any) -> KnowledgeResult:
    """Passages that answer a question."""
    return _KNOWLEDGE.validate_python(_with_passages(answer))


def context_of(text: str, answer: Any) -> Context:
    """What was detected of a turn that said `text`."""
    return _CONTEXT.validate_python({**answer, "text": text})


def decision_of(text: str, answer: Any) -> Decision:
    """What was decided for a turn that said `text`, in the shape `full`."""
    tools = answer["tools"]
    searched = answer.get("search_text", text)
    found: dict[str, Any] = {"query": searched, "took_ms": {}, **tools, "tools": tools["items"]}
    return _DECISION.validate_python(
        {
            **answer,
            "context": {**answer["context"], "text": text},
            "tools": _with_tools(found),
            "knowledge": _with_passages(answer["knowledge"]),
            "search_text": searched,
        },
    )


def read_written(answer: Any) -> Written:
    """What became of what was put in."""
    report = IndexReport(
        *(_ids(answer, outcome) for outcome in ("added", "changed", "removed", "unchanged")),
        refused=_REFUSED.validate_python(answer["refused"]),
    )
    held = tuple(
        Refusal("", each["tool_id"], f"held back until somebody approves it: {each['reason']}")
        for each in answer.get("quarantined", ())
    )
    return Written(report, held)


def _ids(answer: Any, outcome: str) -> tuple[str, ...]:
    """The ids of what came to this; nameless ones where only their number is told."""
    ids = answer.get("ids")
    return ("",) * int(answer[outcome]) if ids is None else tuple(map(str, ids[outcome]))


def _with_tools(answer: Any) -> dict[str, Any]:
    """An answer whose hits hold their specification as records do."""
    hits = cast("Sequence[Mapping[str, Any]]", answer["tools"])
    return {**answer, "tools": [{**hit, "tool": hit["spec"]} for hit in hits]}


def _with_passages(answer: Any) -> dict[str, Any]:
    """An answer whose passages are ranked and nested as records are."""
    hits = cast("Sequence[Mapping[str, Any]]", answer["passages"])
    passages = [
        {**hit, "rank": rank, "passage": {**hit, "document": hit["source"]}}
        for rank, hit in enumerate(hits, start=1)
    ]
    return {**answer, "passages": passages}


def _without(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}
