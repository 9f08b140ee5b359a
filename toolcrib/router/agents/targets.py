"""Targets: what turns are sent to, the cues and rules by which, as data that can be replaced."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from toolcrib.records.codec import read_yaml
from toolcrib.router.agents.allowlist import fold
from toolcrib.router.context.phrases import PhraseIndex

__all__ = ["CONFIDENT", "FACTS", "UNSURE", "AgentRule", "Targets", "load_targets"]

PRESET = Path(__file__).parent / "presets" / "targets.yaml"

CONFIDENT, UNSURE = "confident", "unsure"

FACTS = frozenset(
    {
        *("tables", "columns", "sql", "money", "amounts", "question"),
        *("attachment", "attachment_document", "attachment_image", "attachment_table"),
        *("hits", "weak_hits", "follow_up"),
        *("greeting", "farewell", "thanks", "meta", "smalltalk", "empty", "short"),
    }
)
"""What is known of a turn without cues.

Every list of cues is two facts more: by its name, that the text has one of its phrases; with
`file_` before it, that the name of an attachment has.
"""

_Share = Annotated[float, Field(ge=0, le=1)]
_Names = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class _TargetModel(BaseModel):
    """What all parts have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class FewShot(_TargetModel):
    """An example for a model's prompt: what is said, and why it goes where it goes."""

    text: str
    reason: str = ""


class AgentTarget(_TargetModel):
    """One target: what it is for, examples, and whether tables and columns mean anything to it."""

    description: str
    examples: tuple[FewShot, ...] = ()
    uses_tables: bool = False


class EvidenceCondition(_TargetModel):
    """Facts of a turn: all of `if`, one of `any` where there are any, and none of `unless`."""

    if_: _Names = Field(default=(), alias="if")
    any_: _Names = Field(default=(), alias="any")
    unless: _Names = ()

    def holds(self, facts: frozenset[str]) -> bool:
        """Whether it does."""
        return (
            facts.issuperset(self.if_)
            and (not self.any_ or not facts.isdisjoint(self.any_))
            and facts.isdisjoint(self.unless)
        )

    @property
    def named(self) -> frozenset[str]:
        """The facts it speaks of."""
        return frozenset((*self.if_, *self.any_, *self.unless))


class Heuristic(EvidenceCondition):
    """What speaks for a target, and how much: weights are added, and compared by softmax."""

    target: str
    weight: float
    says: str = ""


class AgentRule(EvidenceCondition):
    """What a decision for one of `targets` (any, where there are none) is corrected to, and why.

    `confidence` is that of the correction; a decision for `to` itself gets it at least.
    """

    targets: _Names = ()
    to: str
    confidence: _Share = 0.8
    signals: _Names = ()
    says: str

    @model_validator(mode="after")
    def _confidence_only_shields(self) -> Self:
        # So that a decision that was raised by a rule meets no rule that it had not met before.
        if CONFIDENT in (*self.if_, *self.any_) or UNSURE in (*self.any_, *self.unless):
            raise ValueError(f"{CONFIDENT} may only stand in `unless`, {UNSURE} only in `if`")
        return self


class Cap(EvidenceCondition):
    """The most that a decision for one of `targets` may be sure of."""

    targets: _Names = ()
    most: _Share


class Targets(_TargetModel):
    """All targets, and how they are chosen without a model and corrected in any case.

    `fallback` takes what is unclear. `overrides` hold whatever a model says; `rules` are the
    supervisor's. Below `unsure` and from `confident` on a confidence is a
    fact for rules. `always` are weights that need no fact. `before`: the most that what the
    user said before weighs, in a turn that wholly leans on it; `beside`: in one that does not.
    """

    targets: dict[str, AgentTarget]
    fallback: str
    cues: dict[str, tuple[str, ...]] = {}
    always: dict[str, float] = {}
    before: float = 1.0
    beside: float = 0.0
    heuristics: tuple[Heuristic, ...] = ()
    overrides: tuple[AgentRule, ...] = ()
    rules: tuple[AgentRule, ...] = ()
    caps: tuple[Cap, ...] = ()
    confident: _Share = 0.85
    unsure: _Share = 0.5

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        heard = {self.fallback, *self.always}
        heard |= {each.target for each in self.heuristics}
        heard |= {
            name for each in (*self.overrides, *self.rules) for name in (*each.targets, each.to)
        }
        heard |= {name for each in self.caps for name in each.targets}
        if unknown := sorted(heard - set(self.targets)):
            raise ValueError(f"there is no target {unknown[0]!r}; there are {list(self.targets)}")
        conditions: tuple[EvidenceCondition, ...] = (
            *self.heuristics,
            *self.overrides,
            *self.rules,
            *self.caps,
        )
        facts = {*FACTS, *self.cues, *(f"file_{n}" for n in self.cues), CONFIDENT, UNSURE}
        if wrong := sorted({name for each in conditions for name in each.named} - facts):
            raise ValueError(f"there is no fact {wrong[0]!r}; there are {sorted(facts)}")
        return self

    @cached_property
    def index(self) -> PhraseIndex:
        """The cues as they are looked up: the label of a phrase is the name of its list."""
        return PhraseIndex(
            ((phrase, name) for name, phrases in self.cues.items() for phrase in phrases), fold
        )


def load_targets(file: str | Path | None = None) -> Targets:
    """Read targets from YAML; without a file those that come with the package.

    Raises:
        SettingsError: the file cannot be read, or names what there is not.
    """
    return read_yaml(file, Targets, "the targets") if file else _preset()


@cache
def _preset() -> Targets:
    return read_yaml(PRESET, Targets, "the targets")
