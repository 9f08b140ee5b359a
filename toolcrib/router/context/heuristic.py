"""What a turn is, by its words alone: deterministic, without any model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolcrib.records.context import Context, Entity
from toolcrib.records.scope import Sensitivity
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.router.context.cues import Cues, load_cues
from toolcrib.router.context.entities import EntityFinder
from toolcrib.router.context.language import language_of
from toolcrib.router.context.leaning import leaning
from toolcrib.router.context.phrases import Match, Words, words_of
from toolcrib.router.context.sensitivity import graded
from toolcrib.router.context.smalltalk import smalltalk_of
from toolcrib.router.context.votes import Verdict, phrase_votes, verdict

__all__ = ["HeuristicDetector"]

_LEAD, _WEAK_LEAD, _LATER = 3.0, 1.5, 0.4
"""Votes of what a clause begins with, and the part of them that a later clause has."""

_INTENT_SHARPNESS, _DOMAIN_SHARPNESS, _NEED_SHARPNESS = 0.6, 1.4, 0.5
"""Chosen so that confidences come near to how often labelled turns bear them out."""

_INTENTS_NEED = 1.0
_LEVELS = {"calm": "low", "alarm": "high"}
_CLAUSE_ENDS = frozenset(".;:?!,\"'()-–—") | {"and", "then", "also", "but", "so", "or"}

_NO_CUE, _ONE_CUE, _NEXT_CUE, _MANY_CUES = 0.7, 0.8, 0.05, 0.9
"""How sure the urgency is."""

_SURE_OF: dict[Sensitivity, float] = {
    "public": 0.55,
    "internal": 0.65,
    "pii": 0.85,
    "safety_critical": 0.85,
}
_SURE_BY_ENTITY = 0.95

_FIRST_CHARS, _LAST_CHARS = 2_000, 500
"""Before or after what is pasted in stands what is wanted of it."""


class HeuristicDetector:
    """Tells intent, domain, urgency, sensitivity, small talk and need of a turn by its cues.

    The same text gives the same context, always. The confidences grow with the lead of the
    winning label's votes; they are rough, and not calibrated.
    """

    def __init__(self, cues: Cues | None = None, finder: EntityFinder | None = None) -> None:
        self._cues = cues or load_cues()
        self._finder = finder or EntityFinder()

    @property
    def aliases(self) -> Mapping[str, str]:
        """None: cues know intents by one name only."""
        return {}

    def detect(
        self, text: str, query: EncodedQuery | None = None, *, entities: bool = True
    ) -> Context:
        """The context of a turn; `query` is not looked at.

        Of a long text the head is searched for entities, its beginning and its end for cues.
        Without `entities` none are looked for, and neither is personal data.
        """
        del query
        words = words_of(_gist(text))
        found = self._finder.find(text) if entities else ()
        sensitivity, sensitive = self._sensitivity(words, found)
        verdicts = {"smalltalk": smalltalk_of(words, self._cues.indexes)}
        if verdicts["smalltalk"].label is None:
            verdicts |= self._request(words, found)
        confidences = {name: one.confidence for name, one in verdicts.items()}
        decisive = ("intent", "domain") if "intent" in verdicts else ("smalltalk",)
        labels = {name: one.label for name, one in verdicts.items()}
        return Context(
            text,
            intent=labels.get("intent"),
            domain=labels.get("domain"),
            urgency=labels.get("urgency") or "low",
            sensitivity=sensitivity,
            entities=found,
            language=language_of(text),
            smalltalk=labels["smalltalk"],
            need=labels.get("need"),
            confidences={**confidences, "sensitivity": sensitive.confidence},
            confidence=min(confidences[name] for name in decisive),
            signals=tuple(
                f"{name}: {signal}"
                for name, one in (verdicts | {"sensitivity": sensitive}).items()
                for signal in one.signals
            ),
        )

    def leans(self, text: str) -> float:
        """How much a text leans on what was said before it: 0 not at all, 1 surely."""
        return leaning(words_of(_gist(text)), self._cues.indexes)

    def _request(self, words: Words, entities: tuple[Entity, ...]) -> dict[str, Verdict]:
        spoken = [
            label
            for kind in sorted({entity.type for entity in entities})
            for label in self._cues.entities.get(kind, ())
        ]
        intent = self._intent(words, spoken)
        return {
            "intent": intent,
            "domain": self._domain(words, spoken),
            "urgency": self._urgency(words),
            "need": self._need(words, intent),
        }

    def _sensitivity(
        self, words: Words, entities: tuple[Entity, ...]
    ) -> tuple[Sensitivity, Verdict]:
        level, signals = graded(entities, self._cues.indexes.sensitivity.find(words))
        by_entity = bool(signals) and signals[0].startswith("holds")
        return level, Verdict(level, _SURE_BY_ENTITY if by_entity else _SURE_OF[level], signals)

    def _intent(self, words: Words, spoken: list[str]) -> Verdict:
        found = self._cues.indexes.intents.find(words)
        votes = phrase_votes(found)
        leads = list(self._leads(words))
        for number, (lead, weight) in enumerate(leads):
            for label in lead.labels:
                votes[label] = votes.get(label, 0) + (weight * _LATER if number else weight)
        for label in spoken:
            votes[label] = votes.get(label, 0) + 1
        heard = [*(lead for lead, _ in leads), *found]
        return verdict(votes, self._cues.intents, heard, sharpness=_INTENT_SHARPNESS)

    def _leads(self, words: Words) -> Iterator[tuple[Match, float]]:
        """What each clause begins with, past what is only polite, and its votes."""
        starts = [0, *(at + 1 for at, word in enumerate(words.bare) if word in _CLAUSE_ENDS)]
        passed = 0
        for start in starts:
            # What was passed over as polite is no clause of its own: `and` after `and`.
            at: int | None = start if start >= passed else None
            while at is not None and at < len(words.bare):
                passed = at + 1
                lead, weight, at = self._lead(words, at)
                if lead is not None:
                    yield lead, weight

    def _lead(self, words: Words, at: int) -> tuple[Match | None, float, int | None]:
        """The lead at this word and its votes; or, past a polite phrase, where to look next."""
        indexes = self._cues.indexes
        options = (
            (indexes.leads.at(words, at), _LEAD),
            (indexes.weak_leads.at(words, at), _WEAK_LEAD),
            (indexes.politeness.at(words, at), 0.0),
        )
        known = [(match, votes) for match, votes in options if match is not None]
        if not known:
            return None, 0.0, None
        match, votes = max(known, key=lambda option: option[0].last)
        return (match, votes, None) if votes else (None, 0.0, match.last)

    def _domain(self, words: Words, spoken: list[str]) -> Verdict:
        found = self._cues.indexes.domains.find(words)
        votes = phrase_votes(found)
        for label in spoken:
            votes[label] = votes.get(label, 0) + 1
        return verdict(votes, self._cues.domains, found, sharpness=_DOMAIN_SHARPNESS)

    def _urgency(self, words: Words) -> Verdict:
        found = self._cues.indexes.urgency.find(words)
        says = {
            level: tuple(dict.fromkeys(repr(m.phrase) for m in found if level in m.labels))
            for level in ("calm", "high", "alarm", "medium", "low")
        }
        if says["low"] and not says["high"]:
            # `what is an outage?` only talks of one.
            says["alarm"] = ()
        level = next((level for level, phrases in says.items() if phrases), None)
        if level is None:
            return Verdict("low", _NO_CUE)
        more = _NEXT_CUE * (len(says[level]) - 1)
        sure = _MANY_CUES if level == "calm" else min(_ONE_CUE + more, _MANY_CUES)
        return Verdict(_LEVELS.get(level, level), sure, says[level][:3])

    def _need(self, words: Words, intent: Verdict) -> Verdict:
        found = self._cues.indexes.need.find(words)
        votes = phrase_votes(found)
        if intent.label is not None:
            usual = self._cues.intents[intent.label].need
            votes[usual] = votes.get(usual, 0) + _INTENTS_NEED
        return verdict(votes, ("act", "know"), found, sharpness=_NEED_SHARPNESS)


def _gist(text: str) -> str:
    if len(text) <= _FIRST_CHARS + _LAST_CHARS:
        return text
    return f"{text[:_FIRST_CHARS]}\n{text[-_LAST_CHARS:]}"
