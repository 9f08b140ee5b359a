"""Detector: what tells what kind of turn it is, and the one that reads by a fitted model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolcrib.records import SENSITIVITIES, Context, Entity, Sensitivity
from toolcrib.records.scope import is_above
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.router.context.classifier import Prediction
from toolcrib.router.context.entities import EntityFinder, head_of
from toolcrib.router.context.language import language_of
from toolcrib.router.context.model import ContextModel, ReadText, read
from toolcrib.router.context.pii import graded
from toolcrib.router.context.rules import HeuristicDetector

__all__ = ["Detector", "SemanticDetector"]


class Detector(Protocol):
    """Tells what kind of turn it is: only classifies, never calls a tool or writes a store."""

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other words for intents, with the intents' own names."""
        ...

    def detect(
        self, text: str, query: EncodedQuery | None = None, *, entities: bool = True
    ) -> Context:
        """The context of a turn; `query` is its text, encoded, where somebody has done so.

        Without `entities` none are looked for, and neither is personal data.
        """
        ...

    def leans(self, text: str) -> float:
        """How much a text leans on what was said before it: 0 not at all, 1 surely."""
        ...


EVEN = 0.5
"""Small talk gets nothing at all, so it must be likelier than not."""


class SemanticDetector:
    """Tells a turn's kind by a fitted model; without a vector it falls back to the cues alone."""

    def __init__(
        self, model: ContextModel, finder: EntityFinder, otherwise: HeuristicDetector
    ) -> None:
        self._model = model
        self._finder = finder
        self._otherwise = otherwise

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other words for intents, with the intents' own names."""
        return self._model.aliases

    def detect(
        self, text: str, query: EncodedQuery | None = None, *, entities: bool = True
    ) -> Context:
        """The context of a turn."""
        if query is None or query.dense is None:
            return self._otherwise.detect(text, query, entities=entities)
        found = self._finder.find(head_of(text)) if entities else ()
        told = self._model.predict(query.dense, self._reading(text, query.text, found))
        said = {name: each.label for name, each in told.items()}
        confidences = {name: each.confidence for name, each in told.items()}
        held, holds, _ = graded(found, ())
        if confidences["smalltalk"] < EVEN:
            said["smalltalk"] = None
        if said["smalltalk"] is not None:
            # It asks for nothing: what it contains is all that can matter.
            level, signals = held, holds
            said |= {"intent": None, "domain": None, "need": None, "urgency": "low"}
        else:
            level, signals = _level(told["sensitivity"]), _out_of_scope(told)
            if held == "pii" and is_above(held, level):
                # A card number is one, whatever the words around it sound like.
                level, signals = held, (*signals, *holds)
        return Context(
            text,
            intent=said["intent"],
            domain=said["domain"],
            urgency=said["urgency"] or "low",
            sensitivity=level,
            entities=found,
            language=language_of(head_of(text)),
            smalltalk=said["smalltalk"],
            need=said["need"],
            confidences=confidences,
            confidence=min(confidences["intent"], confidences["domain"]),
            signals=signals,
        )

    def _reading(self, text: str, searched: str, found: tuple[Entity, ...]) -> ReadText:
        """What is read: with what a follow-up leans on, for its words alone may say little."""
        if searched == text:
            return read(head_of(text), found)
        whole = head_of(searched)
        return read(whole, self._finder.find(whole))

    def leans(self, text: str) -> float:
        """How much a text leans on what was said before it."""
        return self._otherwise.leans(text)


def _level(told: Prediction) -> Sensitivity:
    levels: dict[str | None, Sensitivity] = {each: each for each in SENSITIVITIES}
    return levels.get(told.label, SENSITIVITIES[0])


def _out_of_scope(told: dict[str, Prediction]) -> tuple[str, ...]:
    """The fields that no label fits."""
    return tuple(
        f"out-of-scope:{name}" for name in ("intent", "domain") if told[name].label is None
    )
