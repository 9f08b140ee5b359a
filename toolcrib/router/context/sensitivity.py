"""How sensitive a turn is, by what it contains and what it speaks of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcrib.records.context import Entity
from toolcrib.records.scope import SENSITIVITIES, Sensitivity
from toolcrib.router.context.cues import Cues
from toolcrib.router.context.personal import PERSONAL
from toolcrib.router.context.phrases import Match, words_of

__all__ = ["graded", "sensitivity_of"]

_OF_ENTITIES: dict[str, Sensitivity] = {
    **dict.fromkeys(PERSONAL, "pii"),
    "secret": "pii",
    "ip": "internal",
    "tool": "internal",
}
MAX_SIGNALS = 5


def sensitivity_of(
    text: str, entities: Sequence[Entity], cues: Cues
) -> tuple[Sensitivity, tuple[str, ...]]:
    """The level of a text with these entities, and what gave it away; the highest level counts."""
    return graded(entities, cues.indexes.sensitivity.find(words_of(text)))


def graded(
    entities: Iterable[Entity], matches: Iterable[Match]
) -> tuple[Sensitivity, tuple[str, ...]]:
    """As `sensitivity_of`, for phrases that were found already.

    A signal names the type of an entity, never its text: signals are logged.
    """
    reasons: dict[Sensitivity, dict[str, None]] = {level: {} for level in SENSITIVITIES}
    for entity in entities:
        # A tool that is called `find` is not spoken of whenever somebody finds something.
        plain_word = entity.type == "tool" and entity.text.isalpha()
        if entity.type in _OF_ENTITIES and not plain_word:
            reasons[_OF_ENTITIES[entity.type]][f"holds {entity.type}"] = None
    for match in matches:
        for level in SENSITIVITIES:
            if level in match.labels:
                reasons[level][f"says {match.phrase!r}"] = None
    highest: Sensitivity = "public"
    for level, given in reasons.items():
        highest = level if given else highest
    return highest, tuple(reasons[highest])[:MAX_SIGNALS]
