"""Settings of the router: limits of a turn, its choices, and its log."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolcrib.errors import SettingsError
from toolcrib.retrieval.gate import DEFAULT_COVERAGE

_Probability = Annotated[float, Field(ge=0, le=1)]
_AtLeast0 = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]

STAGES = ("interleave", "llm", "rerank", "entities", "follow_up", "knowledge", "tools", "context")
"""Stages that may be left out, the cheapest loss first."""

PRESET: Literal["preset"] = "preset"
"""Name of the targets, or the map, of the package."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a turn.

    `total_ms` for the whole decision, `stage_ms` for single stages; None and absent are no limit.
    `max_tool_calls` and `tool_timeout_s` are limits for the agent.
    """

    total_ms: _Above0 | None = None
    stage_ms: dict[str, _Above0] = field(default_factory=dict[str, float])
    max_tool_calls: Annotated[int, Field(ge=0)] = 5
    tool_timeout_s: _Above0 = 30.0

    @property
    def has_times(self) -> bool:
        """True if a turn or a stage has a limit of its time."""
        return self.total_ms is not None or bool(self.stage_ms)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.stage_ms) - set(STAGES)):
            raise SettingsError(
                f"limits.stage_ms: there is no stage {unknown[0]!r}; there are {', '.join(STAGES)}"
            )


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Detector of a turn's context, and its labels and cues.

    `detector`: `semantic` (utterances and cues), `heuristic` (cues alone), or `llm` (a language
    model by the same labels; `semantic` if the model fails). `labels`: by field, a YAML file of
    labels with utterances in place of the shipped file; `cues`: a file in place of the shipped
    cues. `gazetteers`: kinds of entities with their names. `region`: country (`DE`, `US`) of phone
    numbers without a country code; None finds no such numbers.
    """

    detector: Literal["semantic", "heuristic", "llm"] = "semantic"
    labels: dict[str, str] = field(default_factory=dict[str, str])
    cues: str | None = None
    gazetteers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    region: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Settings of the tools that an agent gets.

    `k`: tools a turn, beside those that are always active and those that the chosen tools require
    (at most `max_required`); `auto`: as many as hold all needed tools with the probability
    `coverage`. Of `k` tools those of a probability below `least` are left out, but never the first
    nor one called by its name. If at most `pass_through` tools are in reach, all are given; 0 for
    never. With `append_only` tools keep their places from earlier turns, which keeps a provider's
    prompt cache. `max_cost` and `max_latency_ms` exclude tools with a higher `cost_estimate` or
    `avg_latency_ms`; tools without these pass. `servers` are the only ones allowed; None allows
    all.
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


@dataclass(frozen=True, slots=True)
class MapEntry:
    """Entry of the map: turns of this domain and intent go to these collections.

    An entry without an intent is for turns whose intent is unknown.
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


@dataclass(frozen=True, slots=True)
class KnowledgeSettings:
    """Settings of the choice of knowledge.

    At most `collections` are searched, at most `passages` taken of each, with `token_budget` tokens
    in all. Below the probability `threshold` of the first collection, all are searched; below the
    probability `least` that any fits, none. `map` adds to the `answers` of collections; `preset` is
    the map of the package. `map_confidence`: confidence of the context from which the map counts.
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
        """Entries of the map, also of the preset."""
        return PRESET_MAP if self.map == PRESET else self.map


LIKENESS = 0.48
"""Likeness by the bundled encoder's cosine: 80 in 100 pairs of equal tools in other words are as
near, and 7 in 100 pairs of tools that do something else."""


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """Settings of attempts, waits, and tools that stand in for a failed one.

    The wait before attempt n + 1 is `base_s * factor ** (n - 1)`, at most `cap_s`, give or take the
    share `jitter` of it. No wait is longer than `cap_s`, whatever a server asks. With
    `first_at_once` the first repetition follows at once, and the waits begin after it.
    `reclassifications` and `replans`: how often a turn may select other capabilities or make
    another plan after a failure. `iterations`: limit of a loop's iterations in a turn, and of the
    steps of a plan. `likeness`: cosine of an alternate to the failed tool, as a share
    of that of the failed tool to its own text; 0 takes any.
    """

    max_attempts: Annotated[int, Field(ge=1)] = 3
    base_s: _AtLeast0 = 0.5
    factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    cap_s: _AtLeast0 = 30.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.1
    first_at_once: bool = False
    reclassifications: Annotated[int, Field(ge=0)] = 1
    replans: Annotated[int, Field(ge=0)] = 1
    iterations: Annotated[int, Field(ge=1)] = 100
    likeness: _Probability = LIKENESS

    def __post_init__(self) -> None:
        if self.base_s > self.cap_s:
            raise SettingsError(
                f"recovery.base_s is {self.base_s:g}, above recovery.cap_s ({self.cap_s:g}); "
                "the first wait cannot be longer than the longest"
            )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Settings of the choice of an agent's target.

    `targets`: `preset` (analytics, knowledge, commerce, triage) or a YAML file of the same shape;
    None chooses none. `allowlist`: a YAML file of tables with their columns; None for the example
    of the package with the preset, and for no table with targets of a file. The first `hits`
    passages count as evidence if the probability that any collection fits is at least `least_hit`.

    The rest is for a language model. `ensemble` prompts are asked at once; a tie goes to a
    `scorer`. `secondary`: name the target that comes next. `calibration`: points of a map from the
    model's confidence to a probability. Decisions are cached for turns as near as
    `cache_similarity` (a cosine), `cache_size` of them for `cache_ttl_s`; 0 caches none.
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
"""Mode of an agent's loop: it plans all steps first, or chooses one at a time."""


@dataclass(frozen=True, slots=True)
class CapabilitySettings:
    """Settings of the selection of capabilities.

    `file`: their descriptions. `bypass`: all are active without a selection. `threshold`:
    probability from which a capability is active without a language model. `seed`: of the order of
    examples in prompts.
    """

    file: str | None = None
    bypass: bool = False
    threshold: _Probability = 0.5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Settings of the log of decisions.

    `path`: none for no log, or a file of JSON Lines that ends in `.jsonl`. `text`: also keep what
    users wrote. The file is rotated at `max_bytes`, and the last `kept` rotated files are kept.
    """

    path: str | None = None
    text: bool = False
    max_bytes: Annotated[int, Field(ge=4096)] = 16 * 2**20
    kept: Annotated[int, Field(ge=0)] = 5

    def __post_init__(self) -> None:
        if self.path is not None and Path(self.path).suffix != ".jsonl":
            raise SettingsError(f"telemetry.path: {self.path!r} does not end in .jsonl")
