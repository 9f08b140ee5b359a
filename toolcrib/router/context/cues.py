"""Cues: the phrases that give a turn's kind away, as data that can be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from toolcrib.records.codec import read_yaml
from toolcrib.records.scope import SENSITIVITIES, Sensitivity
from toolcrib.router.context.phrases import MAX_WORDS, PhraseIndex
from toolcrib.text import singular, split_words

__all__ = ["PRESET", "CueIndexes", "Cues", "IntentCues", "load_cues"]

PRESET = Path(__file__).parent / "presets" / "cues.yaml"


def _findable(phrase: str) -> str:
    words = len(split_words(phrase).bare)
    if not 0 < words <= MAX_WORDS:
        raise ValueError(f"a phrase has 1 to {MAX_WORDS} words and marks, {phrase!r} has {words}")
    return phrase


Phrases: TypeAlias = tuple[Annotated[str, AfterValidator(_findable)], ...]


class _CueModel(BaseModel):
    """Base of all parts of the cues."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class IntentCues(_CueModel):
    """One intent: what a clause begins with (`leads`), what stands anywhere (`phrases`).

    `weak_leads` say less: many a review begins with `is` as a question does. `openings` state the
    intent beyond doubt where a turn begins with them, whatever a classifier says. `need` is what
    answers such a turn as a rule: `act` or `know`.
    """

    openings: Phrases = ()
    leads: Phrases = ()
    weak_leads: Phrases = ()
    phrases: Phrases = ()
    need: Literal["act", "know"]


class UrgencyCues(_CueModel):
    """Phrases by level; `alarm` is high where no phrase of `low` stands beside it.

    Those of `calm` take the pressure away, whatever else is said.
    """

    high: Phrases = ()
    alarm: Phrases = ()
    medium: Phrases = ()
    low: Phrases = ()
    calm: Phrases = ()


def _every_level(given: dict[Sensitivity, Phrases]) -> dict[Sensitivity, Phrases]:
    lowest, *others = SENSITIVITIES
    if lowest in given:
        raise ValueError(f"{lowest} has no phrases: it is what none of the other levels names")
    return {level: given.get(level, ()) for level in others}


SensitivityCues: TypeAlias = Annotated[dict[Sensitivity, Phrases], AfterValidator(_every_level)]
"""Phrases by level; what none of them names is public."""


class SmalltalkCues(_CueModel):
    """Phrases by kind, and the words that may stand beside them without asking for anything."""

    labels: dict[str, Phrases]
    fillers: Phrases = ()


class NeedCues(_CueModel):
    """Phrases of turns that need a tool, and of those that need written knowledge."""

    act: Phrases = ()
    know: Phrases = ()


class FollowUpCues(_CueModel):
    """Phrases that lean on what was said before: at the start of a turn, and anywhere in it."""

    openers: Phrases = ()
    references: Phrases = ()


class MetaCues(_CueModel):
    """Phrases that ask what the assistant can do, and how it is used."""

    capabilities: Phrases = ()
    usage: Phrases = ()


class Cues(_CueModel):
    """All cues. `politeness` is passed over to see the verb that leads.

    `grounds` name rules that are written down. `entities` are types of entities and the intents
    and domains that they speak for.
    """

    politeness: Phrases = ()
    intents: dict[str, IntentCues]
    entities: dict[str, tuple[str, ...]] = {}
    domains: dict[str, Phrases]
    urgency: UrgencyCues = UrgencyCues()
    sensitivity: SensitivityCues = Field(
        default_factory=dict[Sensitivity, Phrases], validate_default=True
    )
    smalltalk: SmalltalkCues = SmalltalkCues(labels={})
    need: NeedCues = NeedCues()
    follow_ups: FollowUpCues = FollowUpCues()
    meta: MetaCues = MetaCues()
    grounds: Phrases = ()

    @cached_property
    def indexes(self) -> CueIndexes:
        """The phrases as they are looked up; made once."""
        return CueIndexes(self)


class CueIndexes:
    """The phrases of `Cues`, one index for each list of labels."""

    def __init__(self, cues: Cues) -> None:
        intents = cues.intents.items()
        self.politeness = _index({"": cues.politeness})
        self.openings = _index({label: intent.openings for label, intent in intents})
        self.leads = _index({label: intent.leads for label, intent in intents})
        self.weak_leads = _index({label: intent.weak_leads for label, intent in intents})
        self.intents = _index({label: intent.phrases for label, intent in intents})
        self.domains = _index(cues.domains)
        self.urgency = _index(_by_label(cues.urgency))
        self.sensitivity = _index(cues.sensitivity)
        self.smalltalk = _index(cues.smalltalk.labels)
        self.fillers = _index({"": cues.smalltalk.fillers})
        self.need = _index(_by_label(cues.need))
        self.openers = _index({"": cues.follow_ups.openers})
        self.references = _index({"": cues.follow_ups.references})
        self.meta = _index(_by_label(cues.meta))
        self.grounds = _index({"": cues.grounds})


def _by_label(part: BaseModel) -> dict[str, Phrases]:
    return {label: cast("Phrases", phrases) for label, phrases in part}


def _index(labelled: Mapping[Any, Iterable[str]]) -> PhraseIndex:
    def pairs() -> Iterator[tuple[str, str]]:
        for label, phrases in labelled.items():
            yield from ((phrase, label) for phrase in phrases)

    return PhraseIndex(pairs(), fold=singular)


def load_cues(file: str | Path | None = None) -> Cues:
    """Read cues from a YAML file; without one, those that come with the package.

    Raises:
        SettingsError: the file is missing or no YAML mapping, or a field is wrong: says which.
    """
    return read_yaml(file, Cues, "the cues", texts_only=True) if file else _preset()


@cache
def _preset() -> Cues:
    # `no` and `404` are phrases here.
    return read_yaml(PRESET, Cues, "the cues", texts_only=True)
