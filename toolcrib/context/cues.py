"""Cues: phrases that show the kind of a turn, as data that can be replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from toolcrib.context.phrases import MAX_PHRASE_WORDS, PhraseIndex
from toolcrib.records.codec import FrozenModel, read_yaml
from toolcrib.records.scope import SENSITIVITIES, Sensitivity
from toolcrib.text import singular, split_words

CUES_FILE = Path(__file__).parent / "presets" / "cues.yaml"
OTHER_LANGUAGES = CUES_FILE.with_suffix("")
"""Folder of the cues of other languages, one file for each."""


def _findable(phrase: str) -> str:
    words = len(split_words(phrase).bare)
    if not 0 < words <= MAX_PHRASE_WORDS:
        raise ValueError(
            f"a phrase has 1 to {MAX_PHRASE_WORDS} words and marks, {phrase!r} has {words}"
        )
    return phrase


Phrases: TypeAlias = tuple[Annotated[str, AfterValidator(_findable)], ...]


class IntentCues(FrozenModel):
    """Phrases of one intent, at the beginning of a clause (`leads`) or anywhere (`phrases`).

    `weak_leads` are less certain: `is` begins reviews as well as questions. A turn that begins with
    one of `openings` has the intent, whatever a classifier predicts. `need`: usual need of such a
    turn, `act` or `know`.
    """

    openings: Phrases = ()
    leads: Phrases = ()
    weak_leads: Phrases = ()
    phrases: Phrases = ()
    need: Literal["act", "know"]


class UrgencyCues(FrozenModel):
    """Phrases of urgency by level; `alarm` is high unless a phrase of `low` occurs too.

    Phrases of `calm` lower the urgency, whatever else the text says.
    """

    high: Phrases = ()
    alarm: Phrases = ()
    medium: Phrases = ()
    low: Phrases = ()
    calm: Phrases = ()


def _every_level(given: dict[Sensitivity, Phrases]) -> dict[Sensitivity, Phrases]:
    lowest, *others = SENSITIVITIES
    if lowest in given:
        raise ValueError(f"{lowest} takes no phrases: texts without any phrase have this level")
    return {level: given.get(level, ()) for level in others}


SensitivityCues: TypeAlias = Annotated[dict[Sensitivity, Phrases], AfterValidator(_every_level)]
"""Phrases by level; a text without any of them is public."""


class SmalltalkCues(FrozenModel):
    """Phrases of small talk by kind, and fillers without a request of their own."""

    labels: dict[str, Phrases]
    fillers: Phrases = ()


class NeedCues(FrozenModel):
    """Phrases of turns that need a tool, and of those that need written knowledge."""

    act: Phrases = ()
    know: Phrases = ()


class ReplyCues(FrozenModel):
    """Phrases that reply to the assistant.

    `denials` refuse only if the question holds a phrase of `consents` or `offers`: after `is it
    urgent?` a `no` is information. Turns that begin with one of `recalls` ask what the assistant
    said or did. A statement with one of `inquiries` asks the user for something.
    """

    confirmations: Phrases = ()
    denials: Phrases = ()
    refusals: Phrases = ()
    consents: Phrases = ()
    offers: Phrases = ()
    inquiries: Phrases = ()
    recalls: Phrases = ()


class FollowUpCues(FrozenModel):
    """Phrases that refer to earlier turns: at the start of a turn, and anywhere in it.

    `commands` refer to earlier turns only if the turn holds nothing else: `retry`.
    """

    openers: Phrases = ()
    references: Phrases = ()
    commands: Phrases = Field(default=(), exclude=True)


class MetaCues(FrozenModel):
    """Phrases of questions about what the assistant can do, and how it is used."""

    capabilities: Phrases = ()
    usage: Phrases = ()


class Cues(FrozenModel):
    """All cues.

    `politeness` is skipped to find the leading verb. `grounds` name written rules. `entities`:
    types of entities, with the intents and domains that they are evidence for. `others`: cues of
    other languages with the same labels, searched as well. No fitted model depends on `others`,
    `replies` and `follow_ups.commands`.
    """

    politeness: Phrases = ()
    intents: dict[str, IntentCues]
    entities: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    domains: dict[str, Phrases] = Field(default_factory=dict[str, Phrases])
    urgency: UrgencyCues = UrgencyCues()
    sensitivity: SensitivityCues = Field(
        default_factory=dict[Sensitivity, Phrases], validate_default=True
    )
    smalltalk: SmalltalkCues = SmalltalkCues(labels={})
    need: NeedCues = NeedCues()
    follow_ups: FollowUpCues = FollowUpCues()
    meta: MetaCues = MetaCues()
    grounds: Phrases = ()
    replies: ReplyCues = Field(default=ReplyCues(), exclude=True)
    others: tuple[Cues, ...] = Field(default=(), exclude=True)

    @cached_property
    def indexes(self) -> CueIndexes:
        """Indexes of the phrases, built once."""
        return CueIndexes(self)


class CueIndexes:
    """Indexes of the phrases of `Cues`, one for each list of labels."""

    def __init__(self, cues: Cues) -> None:
        parts = (cues, *cues.others)

        def by_intent(kind: str) -> Iterator[Mapping[Any, Phrases]]:
            for part in parts:
                yield {label: getattr(intent, kind) for label, intent in part.intents.items()}

        self.politeness = _index({"": part.politeness} for part in parts)
        self.openings = _index(by_intent("openings"))
        self.leads = _index(by_intent("leads"))
        self.weak_leads = _index(by_intent("weak_leads"))
        self.intents = _index(by_intent("phrases"), inside=True)
        self.domains = _index(part.domains for part in parts)
        self.urgency = _index((dict(part.urgency) for part in parts), inside=True)
        self.sensitivity = _index((part.sensitivity for part in parts), inside=True)
        self.smalltalk = _index(part.smalltalk.labels for part in parts)
        self.fillers = _index({"": part.smalltalk.fillers} for part in parts)
        replies = [part.replies for part in parts]
        self.replies = _index(
            {"confirmation": each.confirmations, "denial": each.denials, "refusal": each.refusals}
            for each in replies
        )
        self.consents = _index(({"": each.consents} for each in replies), inside=True)
        self.offers = _index(({"": each.offers} for each in replies), inside=True)
        self.inquiries = _index(({"": each.inquiries} for each in replies), inside=True)
        self.recalls = _index({"": each.recalls} for each in replies)
        self.need = _index((dict(part.need) for part in parts), inside=True)
        self.openers = _index({"": part.follow_ups.openers} for part in parts)
        self.references = _index(({"": part.follow_ups.references} for part in parts), inside=True)
        self.commands = _index({"": part.follow_ups.commands} for part in parts)
        self.meta = _index((dict(part.meta) for part in parts), inside=True)
        self.grounds = _index(({"": part.grounds} for part in parts), inside=True)


def _index(parts: Iterable[Mapping[Any, Iterable[str]]], *, inside: bool = False) -> PhraseIndex:
    pairs = (
        (phrase, label)
        for labelled in parts
        for label, phrases in labelled.items()
        for phrase in phrases
    )
    return PhraseIndex(pairs, fold=singular, inside=inside)


def load_cues(file: str | Path | None = None) -> Cues:
    """Read cues from a YAML file, by default those of the package."""
    return read_yaml(file, Cues, "the cues", texts_only=True) if file else _preset()


@cache
def _preset() -> Cues:
    # Texts only: `no` and `404` are phrases, no values.
    files = (CUES_FILE, *sorted(OTHER_LANGUAGES.glob("*.yaml")))
    own, *others = (read_yaml(file, Cues, "the cues", texts_only=True) for file in files)
    return own.model_copy(update={"others": tuple(others)})
