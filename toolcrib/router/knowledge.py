"""Knowledge of a turn, in two hops: which collections, then what in them.

The first hop goes by the explicit map where it has an entry, else by the best of all passages,
which speak for their collections, and by what collections say of themselves. The second hop
takes the passages of the chosen collections from the same search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from toolcrib.errors import distinct_numbers
from toolcrib.numerics import exclusive_probabilities, sigmoid
from toolcrib.records import Collection, CollectionHit, Context, KnowledgeResult, PassageHit
from toolcrib.records.definitions import estimated_tokens
from toolcrib.retrieval.fusion import names_by_score
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.retrieval.options import BY_SETTINGS, KnowledgeOptions
from toolcrib.retrieval.passages import PassageRetriever, RankedPassage
from toolcrib.retrieval.rerank import PassageReranker
from toolcrib.router.collections import CollectionIndex
from toolcrib.router.route import Reason
from toolcrib.router.settings import KnowledgeSettings
from toolcrib.store.filters import AnyOf

MOST_PASSAGES = 30
WORD_SCALE = 15.0
TEMPERATURE = 0.05
SHARE_FLOOR = 0.01
"""How the best passages speak for their collections: softmax of the mean of cosine and
`1 - exp(-bm25 / 15)`. The words weigh more here than in the ranking of passages: a collection is
told by its vocabulary."""

SHARE = (1.29, 8.9)
"""Log-odds of a collection: of its log-share of the passages, and of its similarity."""

FIT = (8.85, 4.93, 3.9, 11.32, -9.94)
"""Log-odds that any collection fits: of the score of the first passage, of the mean of the first
five, of the first collection's share of the passages, of its similarity; and the offset. Fitted
as if half of all questions fitted nothing."""

FIT_BY_WORDS = (4.0, -2.8, 4.3, -6.3)
"""The same where the encoder fails: of the logarithms of the best BM25 and of the mean of the
first five, and of the first collection's share; and the offset."""

FIRST = 5


def passage_shares(found: Sequence[RankedPassage], names: Sequence[str]) -> dict[str, float]:
    """Each collection's share of the best passages, weighed by how well they fit."""
    strengths = [
        ((each.legs.dense + 1 - math.exp(-each.legs.lexical / WORD_SCALE)) / 2, each)
        for each in found
    ]
    strengths.sort(key=lambda pair: -pair[0])
    top = strengths[0][0]
    shares = dict.fromkeys(names, 0.0)
    for strength, each in strengths[:MOST_PASSAGES]:
        shares[each.passage.collection] += math.exp((strength - top) / TEMPERATURE)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def collection_probabilities(
    shares: Mapping[str, float], similarity: Mapping[str, float], priorities: Mapping[str, float]
) -> dict[str, float]:
    """How likely each collection is the right one, if any is; priorities are log-odds."""
    of_share, of_similarity = SHARE
    return exclusive_probabilities(
        {
            name: of_share * math.log(shares[name] + SHARE_FLOOR)
            + of_similarity * similarity[name]
            + priority
            for name, priority in priorities.items()
        }
    )


def _fit(weights: Sequence[float], *known: float) -> float:
    """How likely any collection fits."""
    return sigmoid(
        sum(weight * value for weight, value in zip(weights, (*known, 1.0), strict=True))
    )


ALIKE = 0.85
"""Share of words in common from which a passage is taken for another version of one above it."""


def select_passages(
    found: Sequence[RankedPassage], per_collection: int, token_budget: int, k: int | None = None
) -> list[RankedPassage]:
    """The passages to show, in their order.

    At most `k` in all, else so many of a collection; none that says again what one above it says;
    and as many as fit into the budget. The first is always kept, however long it is.
    """
    kept: list[RankedPassage] = []
    words: list[frozenset[str]] = []
    taken: Counter[str] = Counter()
    left = token_budget
    for each in found:
        own = frozenset(each.passage.text.casefold().split())
        cost = estimated_tokens(each.passage.text)
        full = taken[each.passage.collection] == per_collection if k is None else len(kept) == k
        if full or (kept and cost > left):
            continue
        if any(_alike(own, other) for other in words):
            continue
        kept.append(each)
        words.append(own)
        taken[each.passage.collection] += 1
        left -= cost
    return kept


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= ALIKE * max(1, len(one | other))


MAPPED = "mapped"
"""The signal that the map has chosen the collections."""

ALL = "all"
"""What an answer from every collection calls itself."""

FLOOR = 0.02
"""A collection this much less likely than the first is named, and gives no passages."""


GROUNDED = 0.4
"""The part of `least` that is asked of a turn that names written rules."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The collections to ask, best first, and what the answer says of that.

    Of a collection that is less likely than the first by `floor`, no passage is taken.
    """

    hits: tuple[CollectionHit, ...]
    result: KnowledgeResult
    floor: float = FLOOR


class KnowledgeRouter:
    """Chooses collections and passages for an encoded question.

    `aliases` are other words for intents that the map may use, with the intents' own names.
    A `reranker` looks at the passages of the chosen collections again.
    """

    def __init__(
        self,
        retriever: PassageRetriever,
        catalogue: CollectionIndex,
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
        options: KnowledgeOptions = BY_SETTINGS,
        reranking: bool = True,
        grounded: bool = False,
    ) -> KnowledgeResult:
        """The passages that fit a question, out of the collections `among` (all by default).

        `options` say how many; whoever names collections hands them in as `among`. Without
        `reranking` the first look stands. What is `grounded` in written rules, as it says itself,
        gets passages that fit less well.

        Raises:
            StoreError: the store does not answer.
        """
        reach = self.catalogue.collections if among is None else tuple(among)
        if not reach:
            return KnowledgeResult(reason=Reason.NO_COLLECTION.said())
        best = self.best_passages(query, reach)
        if not best and query.dense is None:
            fits = _fit(FIT_BY_WORDS, 0.0, 0.0, 0.0)
            reason = Reason.NOTHING_NEAR.said(*distinct_numbers(fits, self._settings.least))
            return KnowledgeResult(fit=fits, reason=reason)
        if not best:
            return KnowledgeResult(reason=Reason.NO_PASSAGES.said())
        held = {each.passage.collection for each in best}
        shares, fits = self.collection_scores(query, best, [c for c in reach if c.name in held])
        reranker = self._reranker if reranking else None
        answered = partial(self._answered, query, best, reranker, options)
        mapped, signals = self._mapped(context, reach)
        if mapped:
            answer = answered(_by_map(mapped, shares, fits))
            if answer.passages:
                return replace(answer, signals=(*signals, MAPPED))
            signals = (*signals, *(f"map-empty:{each.name}" for each in mapped))
        least = self._settings.least * (GROUNDED if grounded else 1)
        answer = answered(self._by_scores(shares, fits, reach, least))
        if answer.verdict == "fallback" and not answer.passages:
            answer = answered(self._by_scores(shares, fits, (), least))
        return replace(answer, signals=signals)

    def best_passages(
        self, query: EncodedQuery, reach: Sequence[Collection] | None = None
    ) -> list[RankedPassage]:
        """The best passages of all collections in reach: what hop one goes by."""
        every = self.catalogue.collections
        names = sorted(each.name for each in (every if reach is None else reach))
        where = None if len(names) == len(every) else AnyOf("collection", names)
        found = self._retriever.find(query, 2 * MOST_PASSAGES, where)
        # Another thread may be filling a collection that this catalogue does not know yet.
        return [each for each in found if each.passage.collection in names]

    def collection_scores(
        self, query: EncodedQuery, best: Sequence[RankedPassage], reach: Sequence[Collection]
    ) -> tuple[dict[str, float], float]:
        """How likely each collection is the right one if any is, and how likely any is."""
        shares = passage_shares(best, [each.name for each in reach])
        similarity = self.catalogue.similarity(query.dense)
        priorities = {each.name: each.priority for each in reach}
        likely = collection_probabilities(shares, similarity, priorities)
        first = max(likely, key=lambda name: likely[name])
        if query.dense is None:
            words = [each.legs.lexical for each in best[:FIRST]]
            mean = sum(words) / len(words)
            known = math.log1p(words[0]), math.log1p(mean), shares[first]
            return likely, _fit(FIT_BY_WORDS, *known)
        scores = [each.score for each in best[:FIRST]]
        mean = sum(scores) / len(scores)
        return likely, _fit(FIT, scores[0], mean, shares[first], similarity[first])

    def _mapped(
        self, context: Context | None, reach: Sequence[Collection]
    ) -> tuple[tuple[Collection, ...], tuple[str, ...]]:
        """The collections that the map names for this context, and signals of what it lacks."""
        if context is None or context.domain is None:
            return (), ()
        # Of an intent that was not seen nothing can be sure but the domain.
        domain_sure = context.confidences.get("domain", context.confidence)
        sure = domain_sure if context.intent is None else context.confidence
        if sure < self._settings.map_confidence:
            return (), ()

        def is_this(domain: str, intent: str | None) -> bool:
            named = self._aliases.get(intent, intent) if intent else None
            return (domain, named) == (context.domain, context.intent)

        entries = [each for each in self._settings.entries if is_this(each.domain, each.intent)]
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
        sure = fits * shares[ranked[0]]
        settings = self._settings

        def hits_of(names: Sequence[str]) -> tuple[CollectionHit, ...]:
            return tuple(CollectionHit(name, fits * shares.get(name, 0.0)) for name in names)

        hits = hits_of(ranked[: settings.collections])
        base = KnowledgeResult(hits, confidence=sure, fit=fits, threshold=settings.threshold)
        if fits < least:
            reason = Reason.NOTHING_NEAR.said(*distinct_numbers(fits, least))
            return _Choice((), replace(base, reason=reason))
        if sure >= settings.threshold:
            return _Choice(hits, replace(base, verdict="accept"))
        general = [each.name for each in reach if each.fallback] or ranked
        is_part = len(general) < len(ranked)
        hits = hits_of(general)
        named = hits if is_part else (CollectionHit(ALL, fits),)
        shown = ", ".join(hit.id for hit in named)
        told = distinct_numbers(sure, settings.threshold)
        reason = Reason.NOT_SURE.said(*told, shown)
        return _Choice(hits, replace(base, verdict="fallback", reason=reason, collections=named))

    def _answered(
        self,
        query: EncodedQuery,
        best: Sequence[RankedPassage],
        reranker: PassageReranker | None,
        options: KnowledgeOptions,
        choice: _Choice,
    ) -> KnowledgeResult:
        """The answer with the passages of the chosen collections."""
        if not choice.hits:
            return choice.result
        # Of a collection that is next to surely wrong no passage is worth its tokens.
        least = choice.floor * choice.hits[0].confidence
        names = [hit.id for hit in choice.hits if hit.confidence >= least]
        found = [each for each in best if each.passage.collection in names]
        if names and names[0] not in {each.passage.collection for each in found}:
            # The best passages have none of the one that the map names: ask it alone.
            found = self._retriever.find(query, 2 * MOST_PASSAGES, AnyOf("collection", names))
        degraded: tuple[str, ...] = ()
        if reranker is not None:
            found, degraded = reranker.rerank(query.text, found)
        budget = options.token_budget or self._settings.token_budget
        kept = select_passages(found, self._settings.passages, budget, options.k)
        passages = tuple(
            PassageHit.of(each.passage, rank, each.score) for rank, each in enumerate(kept, start=1)
        )
        return replace(choice.result, passages=passages, degraded=degraded)


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
        reason=Reason.MAPPED.said(", ".join(names)),
    )
    return _Choice(hits, result, floor=0.0)
