"""Settings of the router: limits of a turn, its choices, and its log."""

from __future__ import annotations

import itertools
import os
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from toolcrib.errors import SettingsError
from toolcrib.records.codec import settings_section
from toolcrib.retrieval.gate import DEFAULT_COVERAGE

_Probability = Annotated[float, Field(ge=0, le=1)]
_AtLeast0 = Annotated[float, Field(ge=0)]
_Above0 = Annotated[float, Field(gt=0)]

STAGES = ("interleave", "llm", "rerank", "entities", "follow_up", "knowledge", "tools", "context")
"""Stages that a budget may skip, the least important first."""

PRESET: Literal["preset"] = "preset"
"""Value that selects the package's own targets or map."""


@settings_section
class Limits:
    """Limits of a turn.

    `total_ms`: of the whole decision; `stage_ms`: of single stages. None or an absent stage has no
    limit. `max_tool_calls` and `tool_timeout_s` are limits for the agent.
    """

    total_ms: _Above0 | None = None
    stage_ms: dict[str, _Above0] = field(default_factory=dict[str, float])
    max_tool_calls: Annotated[int, Field(ge=0)] = 5
    tool_timeout_s: _Above0 = 30.0

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.stage_ms) - set(STAGES)):
            raise SettingsError(
                f"limits.stage_ms: there is no stage {unknown[0]!r}; there are {', '.join(STAGES)}"
            )


@settings_section
class ToolSettings:
    """Settings of the tools that an agent gets.

    `k`: tools of a turn, beside always-active tools and at most `max_required` prerequisites. With
    `auto`, as many as hold all needed tools with the probability `coverage`. `least`: minimum
    probability of a tool; the first tool and tools called by name are exempt. `pass_through`:
    registries of at most this size are returned whole; 0 for never. `append_only`: tools keep their
    places from earlier turns, which preserves a provider's prompt cache. `max_cost` and
    `max_latency_ms` exclude tools with a higher `cost_estimate` or `avg_latency_ms`, but not tools
    without these. `servers`: the only allowed servers; None allows all.
    """

    k: Annotated[int, Field(ge=1)] | Literal["auto"] = 5
    coverage: _Probability = DEFAULT_COVERAGE
    least: _Probability = 0.0
    pass_through: Annotated[int, Field(ge=0)] = 30
    max_required: Annotated[int, Field(ge=0)] = 10
    append_only: bool = False
    max_cost: _AtLeast0 | None = None
    max_latency_ms: _AtLeast0 | None = None
    without_safety_tags: frozenset[str] = frozenset()
    servers: frozenset[str] | None = None


@settings_section
class MapEntry:
    """Entry of the map from contexts to collections.

    An entry without an intent is for turns of its domain whose intent is unknown.
    """

    domain: str
    intent: str | None
    collections: tuple[str, ...]


_OFFICIAL = ("framework_docs",)
PRESET_MAP = (
    MapEntry("code", "generate", ("coding_guidelines", "framework_docs")),
    MapEntry("code", "review", ("coding_guidelines", "security")),
    MapEntry("architecture", "design", ("architecture", "coding_guidelines")),
    MapEntry("architecture", "plan", ("architecture", "coding_guidelines")),
    MapEntry("architecture", "generate", ("architecture", "coding_guidelines")),
    MapEntry("api", "integrate", _OFFICIAL),
    MapEntry("api", "ask", _OFFICIAL),
    MapEntry("api", None, _OFFICIAL),
    MapEntry("agile", "ask", ("agile",)),
)
"""Map for the turns of a software team, to collections of the package."""


@settings_section
class KnowledgeSettings:
    """Settings of the choice of collections and passages.

    `collections`: most collections searched; `passages`: most passages of each; `token_budget`:
    tokens of all passages. `threshold`: probability of the first collection below which all are
    searched. `least`: probability that any fits below which none is. `map`: entries beside the
    `answers` of collections; `preset` is the map of the package. `map_confidence`: minimum
    confidence of the context for the map.
    """

    collections: Annotated[int, Field(ge=1)] = 2
    passages: Annotated[int, Field(ge=1)] = 8
    token_budget: Annotated[int, Field(ge=1)] = 1600
    threshold: _Probability = 0.12
    least: _Probability = 0.25
    map: tuple[MapEntry, ...] | Literal["preset"] = ()
    map_confidence: _Probability = 0.5
    enabled: bool = True

    @property
    def entries(self) -> tuple[MapEntry, ...]:
        """Entries of the map, with the preset resolved."""
        return PRESET_MAP if self.map == PRESET else self.map


DEFAULT_LIKENESS = 0.48
"""Default of `likeness`: with the bundled encoder 80 % of pairs of equivalent tools reach it, and 7
% of pairs of other tools."""


@settings_section
class RecoverySettings:
    """Settings of retries, and of alternates of failed tools.

    The wait before attempt n + 1 is `base_s * factor ** (n - 1)`, at most `cap_s`, plus or minus
    the share `jitter`. `cap_s` also limits waits that servers request. With `first_at_once` the
    first retry has no wait. `reclassifications` and `replans`: how often a turn may select other
    capabilities or make another plan after a failure. `iterations`: limit of a loop's iterations in
    a turn, and of the steps of a plan. `likeness`: minimum cosine of an alternate to the failed
    tool's text, as a share of the failed tool's own cosine to it; 0 allows any tool.
    """

    max_attempts: Annotated[int, Field(ge=1)] = 3
    base_s: _AtLeast0 = 0.5
    factor: Annotated[float, Field(ge=1)] = 2.0
    cap_s: _AtLeast0 = 30.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.1
    first_at_once: bool = False
    reclassifications: Annotated[int, Field(ge=0)] = 1
    replans: Annotated[int, Field(ge=0)] = 1
    iterations: Annotated[int, Field(ge=1)] = 100
    likeness: _Probability = DEFAULT_LIKENESS

    def __post_init__(self) -> None:
        if self.base_s > self.cap_s:
            raise SettingsError(
                f"recovery.base_s is {self.base_s:g}, above recovery.cap_s ({self.cap_s:g}); "
                "the first wait cannot be longer than the longest"
            )


@settings_section
class AgentSettings:
    """Settings of the choice of an agent's target.

    `targets`: `preset` (analytics, knowledge, commerce, triage) or a YAML file of the same shape;
    None chooses none. `allowlist`: a YAML file of tables with their columns; None: the package's
    example with the preset, and no table with targets of a file. `hits`: number of passages that
    count as evidence if the probability that any collection fits is at least `least_hit`.

    The rest is for a language model. `ensemble`: number of parallel prompts; a `scorer` breaks
    ties. `secondary`: also name the next target. `calibration`: points of a map from the model's
    confidence to a probability. `cache_similarity`: minimum cosine of turns that share a cached
    decision; the cache holds `cache_size` decisions for `cache_ttl_s`, 0 for no cache.
    """

    targets: str | None = None
    allowlist: str | None = None
    hits: Annotated[int, Field(ge=1)] = 5
    least_hit: _Probability = 0.65
    ensemble: Annotated[int, Field(ge=1, le=9)] = 3
    scorer: bool = True
    secondary: bool = True
    calibration: tuple[tuple[_Probability, _Probability], ...] = ()
    cache_size: Annotated[int, Field(ge=0)] = 1_000
    cache_ttl_s: _Above0 = 3_600.0
    cache_similarity: _Probability = 0.9

    def __post_init__(self) -> None:
        points = self.calibration
        if any(b[0] <= a[0] or b[1] < a[1] for a, b in itertools.pairwise(points)):
            raise SettingsError(
                "agents.calibration: the points must rise, as in [[0.5, 0.3], [0.9, 0.8]]"
            )


OrchestrationMode: TypeAlias = Literal["plan_first", "reactive"]
"""Mode of an agent's loop: plan all steps first, or choose one step at a time."""


@settings_section
class CapabilitySettings:
    """Settings of the selection of capabilities.

    `file`: their descriptions. `bypass`: all are active without a selection. `threshold`: minimum
    probability of an active capability without a language model. `seed`: random seed for the order
    of examples in prompts.
    """

    file: str | None = None
    bypass: bool = False
    threshold: _Probability = 0.5
    seed: int = 0


@settings_section
class TelemetrySettings:
    """Settings of the decision log.

    `path`: a JSON Lines file that ends in `.jsonl`; None for no log. `text`: also keep what users
    wrote. The file is rotated at `max_bytes`, and the last `kept` rotated files are kept.
    """

    path: Annotated[str, AfterValidator(os.path.expanduser)] | None = None
    text: bool = False
    max_bytes: Annotated[int, Field(ge=4096)] = 16 * 2**20
    kept: Annotated[int, Field(ge=0)] = 5

    def __post_init__(self) -> None:
        if self.path is not None and Path(self.path).suffix != ".jsonl":
            raise SettingsError(f"telemetry.path: {self.path!r} does not end in .jsonl")
