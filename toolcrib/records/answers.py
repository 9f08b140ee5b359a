"""Answers to a search: ranked tools, their confidence, and the gate's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, computed_field

from toolcrib.records.codec import UNLESS_EMPTY, UNLESS_NONE, Milliseconds, Score
from toolcrib.records.tools import ToolKind, ToolSpec

Verdict: TypeAlias = Literal["accept", "fallback", "abstain"]
"""Verdict of the gate: `accept` if the tools probably fit; if not, `fallback` with the general tool
added, or `abstain` without."""

Team: TypeAlias = Literal["own", "other"]
"""Ranking that a tool came from, if two are interleaved: the settings' own, or the other."""


NO_TOOL_LEFT = "all tools that were found have been left out"
"""Reason to abstain after an accepted answer lost its last tool."""


@dataclass(frozen=True, slots=True)
class ToolHit:
    """One ranked tool.

    `score` is in [0, 1], higher is better, comparable within one answer only. `probability` that
    the tool is right is at most the answer's confidence; None without a calibration. `legs` has
    the contribution of each leg and the reranker, if explained. `needs`: places (from 0) of the
    needs that the tool was found for, None if no needs were given. `needed_for`: ids of tools that
    need this tool's output. `goes_with`: ids of tools that this tool is a companion of.
    `replaced_by`: id of the tool to use instead. `also_on`: other servers with the same tool.
    `team`: the interleaved ranking that the tool came from, None if both have it. JSON has `tool`
    as `spec`, if asked for in full.
    """

    NOT_IN_SUMMARY: ClassVar[Any] = {"tool"}
    RULES: ClassVar = "always_active", "required", "pass_through", "kept", "fallback", "alternate"
    """Rules that add a tool whatever its rank; the rule has the value 1 in `legs`."""

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
        """Rule that added the tool; None if its rank did."""
        return next((rule for rule in self.RULES if rule in self.legs), None)


def with_ranks(hits: Iterable[ToolHit]) -> tuple[ToolHit, ...]:
    """Hits with new ranks: 1, 2, 3, ..."""
    return tuple(
        hit if hit.rank == rank else replace(hit, rank=rank)
        for rank, hit in enumerate(hits, start=1)
    )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Tool without a definition in an answer, by id, and the reason."""

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
    """Ranked tools of a turn, with the confidence in them and the milliseconds of each stage.

    `confidence` is the probability that any tool in scope fits, None without a calibration;
    `verdict`, `reason` and `threshold` are the gate's. The tools are kept whatever the verdict,
    unless the gate's settings withhold them; with `fallback` the general tool is one of them.
    `degraded` names every stage that failed or was skipped for lack of time. `needs` are the
    results of the given needs in their order; the verdict is that of the surest need.
    `interleaved` names the second ranking that some of the tools came from. `called` are the ids
    of tools in scope that the run has called: they are not in `tools`, but still shown to an agent.
    `spelling` maps misspelt words of the query to the words that were searched for.

    An answer without tools is never accepted: it abstains.
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
    spelling: Annotated[dict[str, str], Field(exclude=True)] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.verdict == "accept" and not self.tools:
            told = {"verdict": "abstain", "confidence": None, "reason": NO_TOOL_LEFT}
            for name, value in told.items():
                object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """Effect of the caller's own filter on an answer.

    `matched`: tools that the search finds without the filter, at most 50; `left_out`: those that
    the filter excludes. `lacking`: number of excluded tools by reason; a tool may have several.
    """

    matched: int
    left_out: int
    lacking: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class FindResult(ToolSelection):
    """The answer to one query, which JSON has too.

    Only if explained: `unmatched_terms` are the query's terms that no tool contains, and
    `filtered` is the effect of the caller's filter.
    """

    query: str
    unmatched_terms: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()
    spelling: Annotated[dict[str, str], UNLESS_EMPTY] = field(default_factory=dict[str, str])
    filtered: Annotated[FilterEffect | None, UNLESS_NONE] = None


@dataclass(frozen=True, slots=True)
class Alternates:
    """The next best tools for the purpose of a failed tool."""

    NOT_IN_SUMMARY: ClassVar[Any] = ToolSelection.NOT_IN_SUMMARY

    tools: tuple[ToolHit, ...]


@dataclass(frozen=True, slots=True)
class ToolLink:
    """Link to a tool, and the parameter that it supplies, if any."""

    id: str
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class ToolLinks:
    """Links of a tool: prerequisites, dependents, companions, and its replacement."""

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
