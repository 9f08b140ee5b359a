"""Knowledge of a turn in two hops: collections first, then their passages.

The first hop follows the map if it has an entry for the context. Otherwise it scores collections by
the best passages of one search over all, and by the collections' own texts. The second hop takes
the passages of the chosen collections from the same search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from toolcrib.errors import distinct_numbers
from toolcrib.numerics import exclusive_probabilities, sigmoid
from toolcrib.records import Collection, CollectionHit, Context, KnowledgeResult, PassageHit
from toolcrib.records.definitions import estimated_tokens
from toolcrib.retrieval.fusion import names_by_score
from toolcrib.retrieval.learned import COLLECTIONS, LearnedChoices
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.retrieval.options import DEFAULT_KNOWLEDGE_OPTIONS, KnowledgeOptions
from toolcrib.retrieval.passages import PassageRetriever, RankedPassage
from toolcrib.retrieval.rerank import PassageReranker
from toolcrib.router.collections import CollectionIndex
from toolcrib.router.route import Reason
from toolcrib.router.settings import KnowledgeSettings
from toolcrib.store.filters import AnyOf
from toolcrib.text import jaccard

MAX_SHARE_PASSAGES = 30
SHARE_BM25_SCALE = 15.0
SHARE_TEMPERATURE = 0.05
SHARE_FLOOR = 0.01
"""Parameters of the collections' shares: softmax of the mean of cosine and `1 - exp(-bm25 / 15)`.
Words weigh more than in the ranking of passages: vocabulary distinguishes collections."""

COLLECTION_WEIGHTS = (1.29, 8.9)
"""Log-odds of a collection: weights of its log-share of the passages and of its similarity; its
priority is added."""

FIT_WEIGHTS = (8.85, 4.93, 3.9, 11.32, -9.94)
"""Log-odds that any collection fits: weights of the first passage's score, the mean score of the
first five, the first collection's share and similarity; the offset comes last. Fitted with a prior
that half of all questions fit none."""

FIT_WEIGHTS_BY_WORDS = (4.0, -2.8, 4.3, -6.3)
"""Log-odds without an encoder: weights of the logarithms of the best BM25 and of the mean of the
first five, and of the first collection's share; the offset comes last."""

FIT_PASSAGES = 5


def passage_shares(found: Sequence[RankedPassage], names: Sequence[str]) -> dict[str, float]:
    """Share of each collection in the best passages, weighted by their scores."""
    strengths = [
        ((each.legs.dense + 1 - math.exp(-each.legs.lexical / SHARE_BM25_SCALE)) / 2, each)
        for each in found
    ]
    strengths.sort(key=lambda pair: -pair[0])
    top = strengths[0][0]
    shares = dict.fromkeys(names, 0.0)
    for strength, each in strengths[:MAX_SHARE_PASSAGES]:
        shares[each.passage.collection] += math.exp((strength - top) / SHARE_TEMPERATURE)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _fit(weights: Sequence[float], *known: float) -> float:
    """Probability that any collection fits."""
    odds = sum(weight * value for weight, value in zip(weights, (*known, 1.0), strict=True))
    return sigmoid(odds)


LIKE_WORD_SHARE = 0.6
"""Share of common words from which passages of two collections count as alike."""

TIE_SCORE_DIFFERENCE = 0.02
"""Score difference within which the collections' probabilities order two like passages."""


def likelier_first(
    found: Sequence[RankedPassage], likely: Mapping[str, float]
) -> list[RankedPassage]:
    """Order like passages of nearly equal score by the probability of their collections.

    Passages with the same text about two subjects differ in their collections alone.
    """
    ordered: list[RankedPassage] = []
    for each in found:
        own = likely[each.passage.collection]
        place = len(ordered)
        for index, other in enumerate(ordered):
            if (
                own > likely[other.passage.collection]
                and other.score - each.score <= TIE_SCORE_DIFFERENCE
                and jaccard(_words_of(each), _words_of(other)) >= LIKE_WORD_SHARE
            ):
                place = index
                break
        ordered.insert(place, each)
    return ordered


def _words_of(found: RankedPassage) -> frozenset[str]:
    return frozenset(found.passage.text.casefold().split())


VERSION_WORD_SHARE = 0.85
"""Share of common words from which a passage is a version of a higher one."""


def select_passages(
    found: Sequence[RankedPassage], per_collection: int, token_budget: int, k: int | None = None
) -> tuple[list[RankedPassage], list[RankedPassage]]:
    """Select the passages to show, in their order; also return the versions that were left out.

    At most `k` in all, else `per_collection` of each collection, within the token budget. Versions
    of a higher passage are omitted. The first passage always stays, however long.
    """
    kept: list[RankedPassage] = []
    versions: list[RankedPassage] = []
    words: list[frozenset[str]] = []
    taken: Counter[str] = Counter()
    left = token_budget
    for each in found:
        full = taken[each.passage.collection] == per_collection if k is None else len(kept) == k
        if full:
            continue
        cost = estimated_tokens(each.passage.text)
        if kept and cost > left:
            continue
        own = _words_of(each)
        if any(jaccard(own, other) >= VERSION_WORD_SHARE for other in words):
            versions.append(each)
            continue
        kept.append(each)
        words.append(own)
        taken[each.passage.collection] += 1
        left -= cost
    return kept, versions


VERSION_SIGNAL = "version-left-out"
"""Signal of a version of a passage of the answer; collection and document follow."""

MAPPED_SIGNAL = "mapped"
"""Signal of collections chosen by the map."""

ALL_COLLECTIONS = "all"
"""Id of the hit that stands for all collections in an answer."""

MIN_SHARE_OF_FIRST = 0.02
"""Minimum probability of a collection with passages, as a share of the first collection's."""

QUESTION_LEAST_FACTOR = 0.1
"""Factor of `least` for turns that surely ask a question, or mention written rules."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Collections to search, best first, and the answer without passages.

    `floor`: minimum probability of a collection with passages, as a share of the first one's.
    """

    hits: tuple[CollectionHit, ...]
    result: KnowledgeResult
    floor: float = MIN_SHARE_OF_FIRST


@dataclass(frozen=True, slots=True, eq=False)
class KnowledgeRouter:
    """Router of an encoded question to collections and passages.

    `aliases`: other words for intents in the map. `reranker` reorders the passages of the chosen
    collections. `learned_choices` reorder collections, but omit none above the settings' threshold.
    """

    retriever: PassageRetriever
    catalogue: CollectionIndex
    settings: KnowledgeSettings
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    reranker: PassageReranker | None = None
    learned_choices: LearnedChoices = field(default_factory=LearnedChoices)

    def find(
        self,
        query: EncodedQuery,
        context: Context | None = None,
        among: Sequence[Collection] | None = None,
        *,
        options: KnowledgeOptions = DEFAULT_KNOWLEDGE_OPTIONS,
        reranking: bool = True,
        is_question: bool = False,
    ) -> KnowledgeResult:
        """Find the passages that fit a question, in the collections `among` (all by default).

        `options` limit the answer; collections that they name must be passed as `among`.
        `is_question`: the turn surely asks, or mentions written rules, so a lower threshold holds.
        """
        reach = self.catalogue.collections if among is None else tuple(among)
        if not reach:
            return KnowledgeResult(reason=Reason.NO_COLLECTION.format())
        best = self.best_passages(query, reach)
        if not best and query.dense is None:
            fits = _fit(FIT_WEIGHTS_BY_WORDS, 0.0, 0.0, 0.0)
            reason = Reason.NO_PASSAGE_FITS.format(*distinct_numbers(fits, self.settings.least))
            return KnowledgeResult(fit=fits, reason=reason)
        if not best:
            return KnowledgeResult(reason=Reason.NO_PASSAGES.format())
        held = {each.passage.collection for each in best}
        shares, fits = self.collection_scores(query, best, [c for c in reach if c.name in held])
        reranker = self.reranker if reranking else None
        with_passages = partial(self._with_passages, query, best, reranker, options)
        mapped, signals = self._by_map_entries(context, reach)
        if mapped:
            answer = with_passages(_by_map(mapped, shares, fits))
            if answer.passages:
                return replace(answer, signals=(*signals, MAPPED_SIGNAL, *answer.signals))
            signals = (*signals, *(f"map-empty:{each.name}" for each in mapped))
        min_kept = self.settings.threshold / fits
        shares = self.learned_choices.mix(COLLECTIONS, shares, query.dense, min_kept)
        least = self.settings.least * (QUESTION_LEAST_FACTOR if is_question else 1)
        answer = with_passages(self._by_scores(shares, fits, reach, least))
        if answer.verdict == "fallback" and not answer.passages:
            answer = with_passages(self._by_scores(shares, fits, (), least))
        return replace(answer, signals=(*signals, *answer.signals))

    def best_passages(
        self, query: EncodedQuery, reach: Sequence[Collection] | None = None
    ) -> list[RankedPassage]:
        """Best passages of all collections in scope; they decide the collections."""
        every = self.catalogue.collections
        names = sorted(each.name for each in (every if reach is None else reach))
        where = None if len(names) == len(every) else AnyOf("collection", names)
        found = self.retriever.find(query, 2 * MAX_SHARE_PASSAGES, where)
        # Another thread may fill a collection that is not in this catalogue yet.
        return [each for each in found if each.passage.collection in names]

    def collection_scores(
        self, query: EncodedQuery, best: Sequence[RankedPassage], reach: Sequence[Collection]
    ) -> tuple[dict[str, float], float]:
        """Probability of each collection if any fits, and the probability that any fits."""
        shares = passage_shares(best, [each.name for each in reach])
        similarity = self.catalogue.similarity(query.dense)
        of_share, of_similarity = COLLECTION_WEIGHTS
        likely = exclusive_probabilities(
            {
                each.name: of_share * math.log(shares[each.name] + SHARE_FLOOR)
                + of_similarity * similarity[each.name]
                + each.priority
                for each in reach
            }
        )
        first = max(likely, key=lambda name: likely[name])
        if query.dense is None:
            words = [each.legs.lexical for each in best[:FIT_PASSAGES]]
            mean = sum(words) / len(words)
            known = math.log1p(words[0]), math.log1p(mean), shares[first]
            return likely, _fit(FIT_WEIGHTS_BY_WORDS, *known)
        scores = [each.score for each in best[:FIT_PASSAGES]]
        mean = sum(scores) / len(scores)
        known = scores[0], mean, shares[first], similarity[first]
        return likely, _fit(FIT_WEIGHTS, *known)

    def _by_map_entries(
        self, context: Context | None, reach: Sequence[Collection]
    ) -> tuple[tuple[Collection, ...], tuple[str, ...]]:
        """Collections of the map for this context, and signals of missing ones."""
        if context is None or context.domain is None:
            return (), ()
        # The context's confidence is that of intent and domain together.
        domain_sure = context.confidences.get("domain", context.confidence)
        sure = domain_sure if context.intent is None else context.confidence
        if sure < self.settings.map_confidence:
            return (), ()

        def is_this(domain: str, intent: str | None) -> bool:
            named = self.aliases.get(intent, intent) if intent else None
            return (domain, named) == (context.domain, context.intent)

        entries = [each for each in self.settings.entries if is_this(each.domain, each.intent)]
        named = {name for entry in entries for name in entry.collections}
        chosen = tuple(
            each
            for each in reach
            if each.name in named or any(is_this(*pair) for pair in each.answers)
        )
        missing = sorted(named - {each.name for each in reach})
        return chosen, tuple(f"map-missing:{name}" for name in missing)

    def _by_scores(
        self, shares: Mapping[str, float], fits: float, reach: Sequence[Collection], least: float
    ) -> _Choice:
        ranked = names_by_score(shares)
        confidence = fits * shares[ranked[0]]
        settings = self.settings

        def hits_of(names: Sequence[str]) -> tuple[CollectionHit, ...]:
            return tuple(CollectionHit(name, fits * shares.get(name, 0.0)) for name in names)

        hits = hits_of(ranked[: settings.collections])
        base = KnowledgeResult(hits, confidence=confidence, fit=fits, threshold=settings.threshold)
        if fits < least:
            reason = Reason.NO_PASSAGE_FITS.format(*distinct_numbers(fits, least))
            return _Choice((), replace(base, reason=reason))
        if confidence >= settings.threshold:
            return _Choice(hits, replace(base, verdict="accept"))
        general = [each.name for each in reach if each.fallback] or ranked
        is_part = len(general) < len(ranked)
        hits = hits_of(general)
        named = hits if is_part else (CollectionHit(ALL_COLLECTIONS, fits),)
        shown = ", ".join(hit.id for hit in named)
        reason = Reason.NO_LIKELY_COLLECTION.format(
            *distinct_numbers(confidence, settings.threshold), shown
        )
        return _Choice(hits, replace(base, verdict="fallback", reason=reason, collections=named))

    def _with_passages(
        self,
        query: EncodedQuery,
        best: Sequence[RankedPassage],
        reranker: PassageReranker | None,
        options: KnowledgeOptions,
        choice: _Choice,
    ) -> KnowledgeResult:
        if not choice.hits:
            return choice.result
        # Passages of a very unlikely collection are not worth their tokens.
        least = choice.floor * choice.hits[0].confidence
        names = [hit.id for hit in choice.hits if hit.confidence >= least]
        found = [each for each in best if each.passage.collection in names]
        if names and names[0] not in {each.passage.collection for each in found}:
            # No best passage is of the first collection: search the chosen collections alone.
            found = self.retriever.find(query, 2 * MAX_SHARE_PASSAGES, AnyOf("collection", names))
        found = likelier_first(found, {hit.id: hit.confidence for hit in choice.hits})
        degraded: tuple[str, ...] = ()
        if reranker is not None:
            found, degraded = reranker.rerank(query.text, found)
        budget = options.token_budget or self.settings.token_budget
        kept, versions = select_passages(found, self.settings.passages, budget, options.k)
        others = {f"{p.passage.collection}/{p.passage.document}": None for p in versions}
        signals = tuple(f"{VERSION_SIGNAL}:{each}" for each in others)
        return replace(choice.result, passages=_hits(kept), degraded=degraded, signals=signals)


def _hits(kept: Sequence[RankedPassage]) -> tuple[PassageHit, ...]:
    """Ranked passages of an answer; document names that two collections share are marked."""
    documents = {(each.passage.collection, each.passage.document) for each in kept}
    homes = Counter(document for _, document in documents)
    return tuple(
        PassageHit.of(p.passage, rank, p.score, is_shared_name=homes[p.passage.document] > 1)
        for rank, p in enumerate(kept, start=1)
    )


def _by_map(mapped: Sequence[Collection], shares: Mapping[str, float], fits: float) -> _Choice:
    own = {each.name: shares.get(each.name, 0.0) for each in mapped}
    priorities = {each.name: each.priority for each in mapped}
    names = sorted(names_by_score(own), key=lambda name: -priorities[name])
    hits = tuple(CollectionHit(name, own[name]) for name in names)
    result = KnowledgeResult(
        hits,
        confidence=hits[0].confidence,
        fit=fits,
        verdict="accept",
        reason=Reason.MAPPED.format(", ".join(names)),
    )
    return _Choice(hits, result, floor=0.0)
