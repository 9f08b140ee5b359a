"""Targets of turns, with the cues, heuristics and rules that choose them, as data."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from toolcrib.context.phrases import PhraseIndex
from toolcrib.records.codec import FrozenModel, read_yaml
from toolcrib.router.choices.allowlist import fold

PRESET_TARGETS = Path(__file__).parent / "presets" / "targets.yaml"

CONFIDENT, UNSURE = "confident", "unsure"

FACTS = frozenset(
    {
        *("tables", "columns", "sql", "money", "amounts", "question"),
        *("attachment", "attachment_document", "attachment_image", "attachment_table"),
        *("hits", "weak_hits", "follow_up"),
        *("greeting", "farewell", "thanks", "meta", "smalltalk", "empty", "short"),
    }
)
"""Facts of a turn that need no cues; `evidence.py` finds them.

Every list of cues is two more facts: its name, for a phrase of the list in the text; and its name
behind `file_`, for one in the name of an attachment.
"""

MAX_DECISION_REASON_CHARS = 200
"""Length of a decision's reason."""

_Share = Annotated[float, Field(ge=0, le=1)]
_Names = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]


class FewShot(FrozenModel):
    """Example for a model's prompt: a text, and the reason for its target."""

    text: str
    reason: str = ""


class AgentTarget(FrozenModel):
    """Target: its purpose and examples; `uses_tables`: decisions name tables and columns."""

    description: str
    examples: tuple[FewShot, ...] = ()
    uses_tables: bool = False


class EvidenceCondition(FrozenModel, populate_by_name=True):
    """Condition on facts: all of `if`, one of `any` unless empty, and none of `unless`."""

    if_: _Names = Field(default=(), alias="if")
    any_: _Names = Field(default=(), alias="any")
    unless: _Names = ()

    def holds(self, facts: frozenset[str]) -> bool:
        """True if the condition holds for these facts."""
        return (
            facts.issuperset(self.if_)
            and (not self.any_ or not facts.isdisjoint(self.any_))
            and facts.isdisjoint(self.unless)
        )

    @property
    def facts(self) -> frozenset[str]:
        """All facts in the condition."""
        return frozenset((*self.if_, *self.any_, *self.unless))


class Heuristic(EvidenceCondition):
    """Weight for a target if the condition holds; the softmax takes the sum of weights."""

    target: str
    weight: float
    says: str = ""


class _ForTargets(EvidenceCondition):
    """Condition for decisions for one of `targets`, or for all decisions if empty."""

    targets: _Names = ()

    def concerns(self, target: str, facts: frozenset[str]) -> bool:
        """True if the condition holds for a decision for this target."""
        return (not self.targets or target in self.targets) and self.holds(facts)


class AgentRule(_ForTargets):
    """Correction of decisions to the target `to`.

    `confidence`: of the correction, and minimum for a decision that is already for `to`. `says`:
    the reason.
    """

    to: str
    confidence: _Share = 0.8
    signals: _Names = ()
    says: str

    @model_validator(mode="after")
    def _confidence_only_shields(self) -> Self:
        # A rule that raises a confidence must not make another rule match.
        if CONFIDENT in (*self.if_, *self.any_) or UNSURE in (*self.any_, *self.unless):
            raise ValueError(f"{CONFIDENT} may only stand in `unless`, {UNSURE} only in `if`")
        return self


class Cap(_ForTargets):
    """Upper bound of the confidence of decisions."""

    most: _Share


class Targets(FrozenModel):
    """Targets, heuristics that choose one without a model, and rules that correct decisions.

    `fallback` takes unclear turns. `overrides` go before a model's decision; `rules` are the
    supervisor's. A confidence below `unsure`, or from `confident` on, is a fact for rules.
    `always`: weights without a condition. `before`: weight of the previous turn's evidence if this
    turn fully depends on that turn; `beside`: if this turn is independent.
    """

    targets: dict[str, AgentTarget]
    fallback: str
    cues: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    always: dict[str, float] = Field(default_factory=dict[str, float])
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
        rules = (*self.overrides, *self.rules)
        used = {self.fallback, *self.always}
        used |= {each.target for each in self.heuristics} | {each.to for each in rules}
        used |= {name for each in (*rules, *self.caps) for name in each.targets}
        if unknown := sorted(used - set(self.targets)):
            raise ValueError(f"there is no target {unknown[0]!r}; there are {list(self.targets)}")
        conditions: tuple[EvidenceCondition, ...] = (*self.heuristics, *rules, *self.caps)
        facts = {*FACTS, *self.cues, *(f"file_{n}" for n in self.cues), CONFIDENT, UNSURE}
        if wrong := sorted({name for each in conditions for name in each.facts} - facts):
            raise ValueError(f"there is no fact {wrong[0]!r}; there are {sorted(facts)}")
        return self

    @cached_property
    def index(self) -> PhraseIndex:
        """Index of cues; the label of a phrase is the name of its list."""
        return PhraseIndex(
            ((phrase, name) for name, phrases in self.cues.items() for phrase in phrases), fold
        )


def load_targets(file: str | Path | None = None) -> Targets:
    """Read targets from YAML; without a file, the package's preset.

    Raises:
        SettingsError: the file cannot be read, or names an unknown target or fact.
    """
    return read_yaml(file, Targets, "the targets") if file else _preset()


@cache
def _preset() -> Targets:
    return read_yaml(PRESET_TARGETS, Targets, "the targets")
