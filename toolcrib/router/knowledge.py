"""Two hops to the passages of a turn: which collections, then what in them.

The first hop goes by the explicit map where it has an entry, else by evidence: one cheap probe
of all passages, whose best ones vote for their collections, and what collections say of
themselves. The second hop takes the passages of the chosen collections from the same probe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from toolcrib.records import (
    Collection,
    CollectionHit,
    Context,
    KnowledgeResult,
    PassageHit,
)
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.retrieval.passage_rerank import PassageReranker
from toolcrib.retrieval.passages import PassageRetriever, RankedPassage
from toolcrib.router.catalogue import Catalogue
from toolcrib.router.excerpts import choose
from toolcrib.router.voting import VOTERS, fit_of, shares_of, votes_of
from toolcrib.store.filters import AnyOf, Filter

__all__ = ["ALL", "KnowledgeRouter", "KnowledgeSettings", "MapEntry"]

ALL = "all"
"""What an answer from every collection calls itself."""

FLOOR = 0.02
"""A collection this much less likely than the first is named, and gives no passages."""

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class MapEntry:
    """Turns of this domain and intent go to these collections, whatever else speaks."""

    domain: str
    intent: str
    collections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnowledgeSettings:
    """How knowledge is chosen.

    `collections` at most are asked, `passages` at most taken of each, `token_budget` tokens in
    all. `threshold`: the probability of the first collection below which all are asked.
    `least`: the probability that any fits below which none is. `map` adds to what collections
    say of themselves (`answers`); `map_confidence`: how sure the context must be before either
    is believed.
    """

    collections: Annotated[int, Field(ge=1)] = 2
    passages: Annotated[int, Field(ge=1)] = 8
    token_budget: Annotated[int, Field(ge=1)] = 1600
    threshold: Probability = 0.2
    least: Probability = 0.25
    map: tuple[MapEntry, ...] = ()
    map_confidence: Probability = 0.5
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class _Choice:
    """The collections to ask, best first, and what the answer says of that."""

    hits: tuple[CollectionHit, ...]
    result: KnowledgeResult


class KnowledgeRouter:
    """Chooses collections and passages for an encoded question.

    `aliases` are other words for intents that the map may use, with the intents' own names.
    A `reranker` looks at the passages of the chosen collections again.
    """

    def __init__(
        self,
        retriever: PassageRetriever,
        catalogue: Catalogue,
        settings: KnowledgeSettings,
        aliases: Mapping[str, str] = MappingProxyType({}),
        reranker: PassageReranker | None = None,
    ) -> None:
        self._retriever = retriever
        self.catalogue = catalogue
        self._settings = settings
        self._aliases = aliases
        self._reranker = reranker

    @property
    def reranks(self) -> bool:
        """Whether passages are looked at twice, where there is time."""
        return self._reranker is not None

    def find(
        self,
        query: EncodedQuery,
        context: Context | None = None,
        among: Sequence[Collection] | None = None,
        *,
        reranking: bool = True,
    ) -> KnowledgeResult:
        """The passages that fit a question, out of the collections `among` (all by default).

        Without `reranking` the first look stands.

        Raises:
            StoreError: the store does not answer.
        """
        reach = self.catalogue.collections if among is None else tuple(among)
        if not reach:
            return KnowledgeResult(reason="there is no collection in reach")
        probe = self.probe(query, reach)
        if not probe:
            return KnowledgeResult(reason="the collections in reach hold no passages")
        held = {each.passage.collection for each in probe}
        shares, fits = self.evidence(query, probe, [each for each in reach if each.name in held])
        reranker = self._reranker if reranking else None
        excerpted = partial(self._excerpted, query, probe, reranker)
        mapped, signals = self._mapped(context, reach)
        if mapped:
            answer = excerpted(_by_map(mapped, shares, fits), floor=0.0)
            if answer.passages:
                return replace(answer, signals=signals)
            signals = (*signals, *(f"map-empty:{each.name}" for each in mapped))
        answer = excerpted(self._by_evidence(shares, fits, reach))
        if answer.verdict == "fallback" and not answer.passages:
            answer = excerpted(self._by_evidence(shares, fits, ()))
        return replace(answer, signals=signals)

    def probe(
        self, query: EncodedQuery, reach: Sequence[Collection] | None = None
    ) -> list[RankedPassage]:
        """The best passages of all collections in reach: what hop one goes by."""
        reach = self.catalogue.collections if reach is None else reach
        names = {each.name for each in reach}
        found = self._retriever.find(query, 2 * VOTERS, self._within(reach))
        # Another thread may be filling a collection that this catalogue does not know yet.
        return [each for each in found if each.passage.collection in names]

    def _within(self, reach: Sequence[Collection]) -> Filter | None:
        if len(reach) == len(self.catalogue.collections):
            return None
        return AnyOf("collection", sorted(each.name for each in reach))

    def evidence(
        self, query: EncodedQuery, probe: Sequence[RankedPassage], reach: Sequence[Collection]
    ) -> tuple[dict[str, float], float]:
        """How likely each collection is the right one if any is, and how likely any is."""
        votes = votes_of(probe, [each.name for each in reach])
        kinship = self.catalogue.kinship(query.dense)
        shares = shares_of(votes, kinship, {each.name: each.priority for each in reach})
        first = max(shares, key=lambda name: shares[name])
        scores = [each.score for each in probe]
        return shares, fit_of(scores, votes[first], kinship[first])

    def _mapped(
        self, context: Context | None, reach: Sequence[Collection]
    ) -> tuple[tuple[Collection, ...], tuple[str, ...]]:
        """The collections that the map names for this context, and signals of what it lacks."""
        if context is None or context.domain is None or context.intent is None:
            return (), ()
        if context.confidence < self._settings.map_confidence:
            return (), ()

        def is_this(domain: str, intent: str) -> bool:
            return domain == context.domain and context.intent == self._aliases.get(intent, intent)

        entries = [each for each in self._settings.map if is_this(each.domain, each.intent)]
        named = {name for entry in entries for name in entry.collections}
        chosen = tuple(
            each
            for each in reach
            if each.name in named or any(is_this(*pair) for pair in each.answers)
        )
        missing = sorted(named - {each.name for each in reach})
        return chosen, tuple(f"map-missing:{name}" for name in missing)

    def _by_evidence(
        self, shares: Mapping[str, float], fits: float, reach: Sequence[Collection]
    ) -> _Choice:
        ranked = sorted(shares, key=lambda name: (-shares[name], name))
        sure = fits * shares[ranked[0]]
        settings = self._settings
        chosen = ranked[: settings.collections]
        hits = tuple(CollectionHit(name, fits * shares[name]) for name in chosen)
        base = KnowledgeResult(hits, confidence=sure, fit=fits, threshold=settings.threshold)
        if fits < settings.least:
            reason = f"no passage comes near (probability {fits:.2f}, below {settings.least:.2f})"
            return _Choice((), replace(base, reason=reason))
        if sure >= settings.threshold:
            return _Choice(hits, replace(base, verdict="accept"))
        general = [each.name for each in reach if each.fallback] or ranked
        shown = general if len(general) < len(ranked) else [ALL]
        reason = (
            f"no collection is sure enough ({sure:.2f}, below {settings.threshold:.2f}): "
            f"{', '.join(shown)} asked instead"
        )
        hits = tuple(CollectionHit(name, fits * shares.get(name, 0.0)) for name in general)
        named = hits if shown == general else (CollectionHit(ALL, fits),)
        return _Choice(hits, replace(base, verdict="fallback", reason=reason, collections=named))

    def _excerpted(
        self,
        query: EncodedQuery,
        probe: Sequence[RankedPassage],
        reranker: PassageReranker | None,
        choice: _Choice,
        floor: float = FLOOR,
    ) -> KnowledgeResult:
        """The answer with the passages of the chosen collections."""
        if not choice.hits:
            return choice.result
        first = choice.hits[0]
        # Of a collection that is next to surely wrong no passage is worth its tokens.
        names = [hit.id for hit in choice.hits if hit.confidence >= floor * first.confidence]
        found = [each for each in probe if each.passage.collection in names]
        missing = set(names) - {each.passage.collection for each in found}
        if missing and names[0] in missing:
            # The probe saw nothing of the one that the map names: ask it alone.
            found = self._retriever.find(query, 2 * VOTERS, AnyOf("collection", names))
        degraded: tuple[str, ...] = ()
        if reranker is not None:
            found, degraded = reranker.rerank(query.text, found)
        kept = choose(found, self._settings.passages, self._settings.token_budget)
        passages = tuple(
            PassageHit.of(each.passage, rank, each.score) for rank, each in enumerate(kept, start=1)
        )
        return replace(choice.result, passages=passages, degraded=degraded)


def _by_map(mapped: Sequence[Collection], shares: Mapping[str, float], fits: float) -> _Choice:
    ordered = sorted(
        mapped, key=lambda each: (-each.priority, -shares.get(each.name, 0.0), each.name)
    )
    hits = tuple(CollectionHit(each.name, shares.get(each.name, 0.0)) for each in ordered)
    names = ", ".join(each.name for each in ordered)
    result = KnowledgeResult(
        hits,
        confidence=hits[0].confidence,
        fit=fits,
        verdict="accept",
        reason=f"the map names {names}",
    )
    return _Choice(hits, result)
