"""What a classifier is told of a text beside its vector: cues, entities, shape, and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.records import Entity
from toolcrib.router.context.cues import Cues
from toolcrib.router.context.personal import PERSONAL
from toolcrib.router.context.phrases import PhraseIndex, Words, words_of

__all__ = ["Reading", "TextFeatures", "fit_features", "read"]

LEAST_TEXTS = 3
"""A word or pair of words that fewer texts have is no feature."""

MOST_WORDS = 1_000
"""The most frequent words and pairs are features; with all that three texts have, fitting took
twenty times as long and was no better on development turns."""

WORD_SCALE = 4.0
"""What the words count in all, beside a vector stretched by 4 and cues of about 1 each."""

MOST_VOTES = 2.0

ENTITIES = (
    "secret",
    "ip",
    "tool",
    "money",
    "path",
    "identifier",
    "error",
    "url",
    "date",
    "version",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it was read for features: its words, and the entities in it."""

    words: Words
    entities: tuple[Entity, ...]
    letters: str


def read(text: str, entities: Iterable[Entity]) -> Reading:
    """Read a text."""
    return Reading(words_of(text), tuple(entities), text)


@dataclass(frozen=True, slots=True, eq=False)
class TextFeatures:
    """Turns readings into numbers: float32 [width].

    First votes of every cue, entities and shape, then words and pairs of words, weighed by how
    rare they are (TF-IDF) and together of length `WORD_SCALE`.
    """

    cues: Cues
    places: Mapping[str, int]
    rarity: FloatArray

    @property
    def width(self) -> int:
        """Length of what `of` gives."""
        return len(_cue_names(self.cues)) + len(ENTITIES) + 1 + len(SHAPES) + len(self.rarity)

    def of(self, reading: Reading) -> FloatArray:
        """The features of one text."""
        words = np.zeros(len(self.rarity), dtype=np.float32)
        known = [self.places[gram] for gram in _grams(reading.words) if gram in self.places]
        words[known] = self.rarity[known]
        length = float(np.linalg.norm(words))
        if length > 0:
            words *= WORD_SCALE / length
        return np.concatenate([_given(reading, self.cues), words])


def fit_features(readings: Sequence[Reading], cues: Cues) -> TextFeatures:
    """Choose the words that are features, from those of the texts."""
    counts = Counter(gram for reading in readings for gram in _grams(reading.words))
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS]
    kept = [gram for gram, count in frequent if count >= LEAST_TEXTS]
    rarity = [np.log(len(readings) / counts[gram]) + 1 for gram in kept]
    places = {gram: place for place, gram in enumerate(kept)}
    return TextFeatures(cues, places, np.array(rarity, dtype=np.float32))


def _grams(words: Words) -> set[str]:
    bare = words.bare
    return {*bare, *(f"{one} {two}" for one, two in pairwise(bare))}


def _indexes(cues: Cues) -> tuple[tuple[str, PhraseIndex, tuple[str, ...]], ...]:
    """Each list of cues with its labels, in the order of the features."""
    made = cues.indexes
    intents = tuple(cues.intents)
    return (
        ("leads", made.leads, intents),
        ("weak_leads", made.weak_leads, intents),
        ("intents", made.intents, intents),
        ("domains", made.domains, tuple(cues.domains)),
        ("urgency", made.urgency, ("alarm", "high", "medium", "low", "calm")),
        ("sensitivity", made.sensitivity, ("internal", "pii", "safety_critical")),
        ("need", made.need, ("act", "know")),
        ("smalltalk", made.smalltalk, tuple(cues.smalltalk.labels)),
    )


def _cue_names(cues: Cues) -> list[str]:
    return [f"{name}:{label}" for name, _, labels in _indexes(cues) for label in labels]


SHAPES = ("question", "exclamation", "shouting", "lines", "short", "long")


def _given(reading: Reading, cues: Cues) -> FloatArray:
    votes: list[float] = []
    for _, index, labels in _indexes(cues):
        found = Counter(label for match in index.find(reading.words) for label in match.labels)
        votes += [min(MOST_VOTES, float(found[label])) for label in labels]
    kinds = {entity.type for entity in reading.entities}
    flags = [float(kind in kinds) for kind in ENTITIES]
    flags.append(float(not kinds.isdisjoint(PERSONAL)))
    return np.array([*votes, *flags, *_shape(reading)], dtype=np.float32)


def _shape(reading: Reading) -> list[float]:
    text, count = reading.letters, len(reading.words.bare)
    capitals = [word for word in text.split() if len(word) > 2 and word.isupper()]  # noqa: PLR2004
    return [
        float("?" in text),
        float("!" in text),
        float(len(capitals) > 1),
        float("\n" in text.strip()),
        float(count <= 5),  # noqa: PLR2004
        float(count > 60),  # noqa: PLR2004
    ]
