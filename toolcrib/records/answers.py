"""Answers to a search: ranked tools, how sure the ranking is, and what the gate made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, computed_field

from toolcrib.records.codec import UNLESS_EMPTY, UNLESS_NONE, Milliseconds, Score
from toolcrib.records.tools import ToolKind, ToolSpec

Verdict: TypeAlias = Literal["accept", "fallback", "abstain"]
"""Verdict of the gate: the answer fits; or perhaps nothing fits, with the general tool added
(`fallback`) or without (`abstain`)."""

Team: TypeAlias = Literal["own", "other"]
"""Ranking that gave a tool when two are interleaved: the settings' own, or the other."""


NO_TOOL_LEFT = "of the tools that were found none is left"
"""Why an answer abstains that was accepted before it lost its last tool."""


@dataclass(frozen=True, slots=True)
class ToolHit:
    """One ranked tool.

    `score` is in [0, 1], higher is better, comparable within one answer only. `probability` that
    the tool is right, at most the answer's confidence, None where nothing is calibrated. `legs`
    holds what each leg and the reranker contributed, filled when explained. `needs`: the places
    (from 0) of the needs that the tool was found for, None where none were asked. `needed_for` are
    the ids of the tools that need what this one gives, `goes_with` those that brought it as a
    companion, and `replaced_by` is that of the one to use in its place. `also_on` are the other
    servers that have the very same tool. `team`: which of two interleaved rankings gave it, None
    where both did. JSON has `tool` as `spec`, when it is asked for in full.
    """

    NOT_IN_SUMMARY: ClassVar[Any] = {"tool"}
    RULES: ClassVar = "always_active", "required", "pass_through", "kept", "fallback", "alternate"
    """Rules that add a tool whatever its rank; the leg of such a rule is 1."""

    rank: int
    score: Score
    tool: Annotated[ToolSpec, Field(alias="spec", exclude_if=lambda _: False)]
    legs: Annotated[dict[str, Score], UNLESS_EMPTY] = field(default_factory=dict[str, float])
    probability: Score | None = None
    needs: Annotated[tuple[int, ...] | None, UNLESS_NONE] = None
    needed_for: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    goes_with: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    replaced_by: Annotated[str | None, UNLESS_NONE] = None
    also_on: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    team: Annotated[Team | None, UNLESS_NONE] = None

    @computed_field
    @property
    def id(self) -> str:
        """The tool's id."""
        return self.tool.id

    @computed_field
    @property
    def kind(self) -> ToolKind:
        """Kind: a tool to call, or a skill to read."""
        return self.tool.kind

    @computed_field
    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @computed_field
    @property
    def server(self) -> str:
        """The tool's server; empty when it has none."""
        return self.tool.server

    @computed_field
    @property
    def description(self) -> str:
        """The tool's description."""
        return self.tool.description

    @property
    def rule(self) -> str | None:
        """Rule that added the tool; None for a tool that is there by its rank."""
        return next((rule for rule in self.RULES if rule in self.legs), None)


def with_ranks(hits: Iterable[ToolHit]) -> tuple[ToolHit, ...]:
    """Hits with their places, from 1 on, as ranks."""
    return tuple(
        hit if hit.rank == rank else replace(hit, rank=rank)
        for rank, hit in enumerate(hits, start=1)
    )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Tool that is not among the definitions of an answer, by id, and the reason."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class NeedResult:
    """Result of one need: the gate's verdict, and the probability of its first tool."""

    text: str
    verdict: Verdict
    confidence: Score | None


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """The tools of a turn: ranked, how sure, milliseconds a stage, what was left out.

    `confidence` is the probability that any tool in reach answers, None where nothing is
    calibrated; `verdict`, `reason` and `threshold` are the gate's. The ranking stands whatever
    the verdict, unless the gate's settings withhold what does not fit; with `fallback` the
    general tool is among the tools, by that rule. `degraded` names every stage that failed or
    was skipped for lack of time. `needs` are those that were asked, in their order; the verdict
    is then that of the surest. `interleaved` names the second ranking that gave some of the
    tools. `called` are the ids of tools in reach that the run has called: they are none of the
    tools, and whoever shows tools keeps them.

    An answer without tools is never accepted: one that loses its last tool abstains.
    """

    NOT_IN_SUMMARY: ClassVar[Any] = {"tools": {"__all__": ToolHit.NOT_IN_SUMMARY}}

    query: Annotated[str, Field(default="", exclude=True)]
    tools: tuple[ToolHit, ...]
    took_ms: dict[str, Milliseconds]
    confidence: Score | None = None
    verdict: Verdict = "accept"
    reason: str = ""
    threshold: Score | None = None
    fallback: bool = False
    degraded: tuple[str, ...] = ()
    unmatched_terms: Annotated[tuple[str, ...], Field(exclude=True)] = ()
    needs: Annotated[tuple[NeedResult, ...], UNLESS_EMPTY] = ()
    interleaved: Annotated[str | None, UNLESS_NONE] = None
    called: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()

    def __post_init__(self) -> None:
        if self.verdict == "accept" and not self.tools:
            told = {"verdict": "abstain", "confidence": None, "reason": NO_TOOL_LEFT}
            for name, value in told.items():
                object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """Effect of the caller's own filter on an answer.

    Of the `matched` tools that the search gives without it, at most 50, so many are `left_out`.
    `lacking`: how many of those lack what, in words; one may lack several things.
    """

    matched: int
    left_out: int
    lacking: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class FindResult(ToolSelection):
    """The answer to one query, which JSON has too.

    Only when explained: `unmatched_terms` are the query's terms that no tool contains, and
    `filtered` is what a filter left out.
    """

    query: str
    unmatched_terms: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    filtered: Annotated[FilterEffect | None, UNLESS_NONE] = None


@dataclass(frozen=True, slots=True)
class Alternates:
    """The next best tools for what a failed one was to do."""

    NOT_IN_SUMMARY: ClassVar[Any] = ToolSelection.NOT_IN_SUMMARY

    tools: tuple[ToolHit, ...]


@dataclass(frozen=True, slots=True)
class ToolLink:
    """Link to a tool, and the parameter it supplies; empty for a tool that just runs first."""

    id: str
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class ToolLinks:
    """Links of a tool: what it needs, what needs it, its companions, and its replacement."""

    needs: tuple[ToolLink, ...] = ()
    needed_by: tuple[ToolLink, ...] = ()
    goes_with: tuple[ToolLink, ...] = ()
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPage:
    """Page of a list of tools; `next` is the cursor of the next page, None at the end.

    In the order `use`, `calls` counts the newest calls of each tool, by its id.
    """

    tools: tuple[ToolSpec, ...]
    next: str | None
    calls: Annotated[dict[str, int], UNLESS_EMPTY] = field(default_factory=dict[str, int])
