"""Hybrid retrieval: encode, legs, fuse, rerank, judge, complete."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolcrib.clock import Clock, SystemClock
from toolcrib.encoders.base import (
    ClauseEncoder,
    DenseEncoder,
    LanguageBound,
    SpellingBound,
    Translating,
    query_rows,
)
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.errors import ToolcribError
from toolcrib.numerics import Floats
from toolcrib.records import FindResult, Message, ToolHit
from toolcrib.records.answers import with_ranks
from toolcrib.retrieval.assembly import fold_copies, merge_needs
from toolcrib.retrieval.calibration import RANKED_COMPETITORS, features, query_features
from toolcrib.retrieval.dialogue import (
    MARKED_OWN_SHARE,
    OWN_SHARE,
    STANDALONE_TERMS,
    read_dialogue,
)
from toolcrib.retrieval.fusion import (
    Candidates,
    FusionWeights,
    LegScores,
    Place,
    clause_gains,
    fuse,
    rank,
)
from toolcrib.retrieval.gate import (
    ENABLED,
    MAX_SET_TOOLS,
    UNSUPPORTED_LANGUAGE,
    Assessor,
    GateSettings,
    keep_likely_hits,
)
from toolcrib.retrieval.learned import (
    MAX_LIFTED_TOOLS,
    NO_LEARNED_DATA,
    LearnedTools,
    UseData,
)
from toolcrib.retrieval.legs import MIN_LEG_CANDIDATES, EncodedQuery, Head, Legs, has_words
from toolcrib.retrieval.options import (
    FULL_PLAN,
    SearchOptions,
    SearchPlan,
    check_query,
    check_search,
    text_to_search,
)
from toolcrib.retrieval.prerequisites import bring_linked_tools
from toolcrib.retrieval.rerank import ModelReranker, Reranking, ToolReranker
from toolcrib.retrieval.steps import (
    EMPTY_RUN_STATE,
    SENTENCE_SHARE,
    RunState,
    ToolUse,
    last_sentences,
    with_gains,
)
from toolcrib.store.base import Record, Store, point_id
from toolcrib.store.filters import Filter, HasId, Not, all_of, from_scope
from toolcrib.store.payload import read_tool
from toolcrib.text import head_and_tail, tokenise, unique

logger = logging.getLogger(__name__)

COPIES_LOOKAHEAD = 8
"""Further places that are searched for copies of the last tools."""

MAX_QUERY_CHARS = 8_000
"""Longer queries lose their middle: encoders read no further, and more terms only cost time. The
end is kept because an agent's last sentence says what it does next."""

MIN_SHOWN_LANGUAGE_WORDS = 3
"""Minimum number of words that show a query's language."""

UNREAD_LEXICAL_WEIGHT = 0.9
"""Lexical weight if the encoder does not read the query's language."""

DEPTH_GROWTH_FACTOR, MAX_DEPTH_FACTOR = 4, 64
"""Growth and limit of the legs' depth if copies of few tools fill the legs."""


class Stopwatch:
    """Stopwatch that sums milliseconds by stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = self._last = clock()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """End a stage: add the time since the last lap to the stage."""
        now = self._clock()
        self._laps[stage] = self._laps.get(stage, 0.0) + (now - self._last) * 1000
        self._last = now

    def result(self) -> dict[str, float]:
        """Milliseconds of every stage, and their `total`."""
        return {**self._laps, "total": (self._last - self._start) * 1000}


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Features of a query's ranking, of each tool and of the query.

    `tools`: ids and servers, best first. `features`: float64 [tools, features]. `query`: float64
    [query features].
    """

    tools: tuple[tuple[str, str], ...]
    features: Floats
    query: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _QueryRun:
    """State of one query in the stages, and the parts that its plan chose."""

    query: EncodedQuery
    legs: Legs
    watch: Stopwatch
    weights: FusionWeights
    reranker: ToolReranker | ModelReranker | None
    learned: LearnedTools | None
    explain: bool = False
    folds: bool = False
    state: RunState = EMPTY_RUN_STATE
    sentences: tuple[Legs, ...] = ()
    use: ToolUse | None = None


class HybridRetriever:
    """Retriever of tools: dense, lexical and example legs, fused, reranked and judged.

    `assessor` gives probabilities and a verdict; without one answers have no confidence and always
    fit. `learned` reorders the ranking after convex fusion.
    """

    def __init__(
        self,
        store: Store,
        dense: DenseEncoder,
        lexical: LexicalEncoder,
        weights: FusionWeights,
        *,
        reranker: ToolReranker | ModelReranker | None = None,
        assessor: Assessor | None = None,
        learned: UseData = NO_LEARNED_DATA,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._dense = dense
        # A check of a protocol takes as long as a leg: check once.
        self._clause_encoder = dense if isinstance(dense, ClauseEncoder) else None
        self._language = dense if isinstance(dense, LanguageBound) else None
        self._translator = dense if isinstance(dense, Translating) else None
        self._spelling_encoder = dense if isinstance(dense, SpellingBound) else None
        self._lexical = lexical
        self._weights = weights
        self._clock = clock or SystemClock()
        self._reranker = reranker
        self._learned_from_use = learned
        self.assessor = assessor or Assessor(store, GateSettings(), None)

    @property
    def rerank_stage(self) -> Literal["rerank", "llm"] | None:
        """Stage of the reranker in `took_ms`; None without a reranker."""
        if self._reranker is None:
            return None
        return "llm" if isinstance(self._reranker, ModelReranker) else "rerank"

    def find(
        self,
        query: str | EncodedQuery | None,
        options: SearchOptions,
        plan: SearchPlan = FULL_PLAN,
        *,
        read: dict[int, Record] | None = None,
    ) -> FindResult:
        """Rank the tools that fit a query, best first; ids break ties.

        A query from `encode` is not encoded again. Answers to needs are merged; the query fills the
        remaining places. `read` collects the records that were read.

        Raises:
            QueryError: `k` < 1, neither a query nor needs, a query of white space only, too many
                needs, a `least` that is no probability, or a filter on an unknown field.
            CalibrationError: `k="auto"` or the gate need a calibration that is not there.
        """
        check_search(query.text if isinstance(query, EncodedQuery) else query, options)
        if not options.needs:
            text = query or text_to_search(None, options) or ""
            return self._find_one(text, options, plan, read)
        one = replace(options, needs=None)
        whole = None if query is None else self._find_one(query, one, plan)
        # A need is independent of history and task.
        by_itself = replace(one, history=None, task=None)
        answers = [self._find_one(need, by_itself, plan) for need in options.needs]
        return merge_needs(answers, whole, options.k)

    def complete(
        self,
        found: FindResult,
        options: SearchOptions,
        read: Mapping[int, Record],
        *,
        authors: bool = True,
    ) -> FindResult:
        """Add the tools that the first hits need or go with, as `bring_linked_tools`.

        `read`: records from `find`. With needs, the needs name the earlier steps: each need keeps
        its best tool within k.
        """
        if found.fallback or options.needs:
            return found
        watch = Stopwatch(self._clock)
        called = Not(HasId(frozenset(map(point_id, found.called)))) if found.called else None
        hits = bring_linked_tools(
            self._store,
            read,
            found,
            all_of(from_scope(options.scope), options.where, called),
            shares=self._weights,
            k=options.k,
            authors=authors,
            learned=self._learned_from_use.goes_with,
        )
        watch.lap("prerequisites")
        took = watch.result()
        took["total"] += found.took_ms.get("total", 0.0)
        before = {stage: ms for stage, ms in found.took_ms.items() if stage != "total"}
        return replace(found, tools=tuple(hits), took_ms=before | took)

    def evidence(
        self,
        query: str,
        *,
        where: Filter | None = None,
        head: Head | None = None,
        by_examples: bool = False,
        words: bool = False,
    ) -> Evidence:
        """Features of a query's ranking with this head, for fitting calibrations.

        `by_examples` adds the head over the tools' examples. `words`: the lexical leg alone, as
        after a failure of the encoder.

        Raises:
            QueryError: a query of white space only, or a filter on an unknown field.
        """
        check_query(query, MAX_SET_TOOLS, where)
        limits = all_of(ENABLED, where)
        encoded = (
            self._by_words(_shorten(query)) if words else self.encode(query, vocabulary=limits)
        )
        legs = Legs(self._store, encoded, limits, None, MAX_SET_TOOLS)
        run = self._run(encoded, legs, Stopwatch(self._clock), FULL_PLAN)
        found = self._fuse(run, head, by_examples=by_examples)
        ranked = self._rerank(run, found, MAX_SET_TOOLS)
        return Evidence(
            tuple((hit.id, hit.server) for hit in ranked.hits),
            self._features(ranked, found),
            query_features(found),
        )

    def rank_by_legs(self, query: EncodedQuery, allowed: Filter | None, k: int) -> list[ToolHit]:
        """First `k` tools by the legs alone: no learned examples, reranker or verdict."""
        depth = max(MIN_LEG_CANDIDATES, k)
        legs = Legs(self._store, query, all_of(ENABLED, allowed), allowed, depth)
        plan = SearchPlan(rerank=False, learned=False)
        run = self._run(query, legs, Stopwatch(self._clock), plan)
        found = self._fuse(run, None, by_examples=self.assessor.by_examples)
        return self._fetch_hits(run, found, k)[:k]

    # -- stages -------------------------------------------------------------------------------

    def encode(
        self,
        query: str,
        plans: Sequence[SearchPlan] = (FULL_PLAN,),
        history: Sequence[Message] = (),
        own_share: float = OWN_SHARE,
        encoded: Sequence[EncodedQuery] = (),
        vocabulary: Filter | None = None,
    ) -> EncodedQuery:
        """Encode a query and its history for the legs of these plans.

        `own_share`: least weight of the query's own text beside a history. A failing dense encoder
        only degrades the query. `encoded`: queries of the same plans whose vectors are reused.
        Misspelt words are read as words of the tools in `vocabulary`, if given, or as common words.
        """
        dialogue = read_dialogue(query, self._readable(query, history))
        if dialogue is None:
            return self._encode(query, plans, vocabulary)
        known = {each.text: each for each in encoded if not (each.degraded or each.naming)}
        whole, own = (
            known.get(text) or self._encode(text, plans, vocabulary)
            for text in (dialogue.whole, dialogue.own)
        )
        if dialogue.is_marked:
            return whole.blend_with(own, MARKED_OWN_SHARE)
        by_length = min(1.0, len(own.lexical.indices) / STANDALONE_TERMS)
        return whole.blend_with(own, max(own_share, by_length))

    def _readable(self, query: str, history: Sequence[Message]) -> Sequence[Message]:
        """Messages beside a query that the encoder reads, without those that it does not read.

        A short query hardly shows its language: it keeps all messages.
        """
        language = self._language
        if (
            language is None
            or len(query.split()) < MIN_SHOWN_LANGUAGE_WORDS
            or not language.reads(query)
        ):
            return history
        return [message for message in history if language.reads(message.content)]

    def _encode(
        self, query: str, plans: Sequence[SearchPlan], vocabulary: Filter | None
    ) -> EncodedQuery:
        original = _shorten(query)
        text, spelling = self._corrected(original, vocabulary)
        encoded = replace(self._by_words(original, text), spelling=spelling)
        degraded: tuple[str, ...] = ("query-cut",) if len(query) > MAX_QUERY_CHARS else ()
        if self._language is not None and not self._language.reads(text):
            degraded += (UNSUPPORTED_LANGUAGE,)
        reads_clauses = any((plan.weights or self._weights).clauses > 0 for plan in plans)
        try:
            vectors = query_rows(self._dense, text, self._clause_encoder if reads_clauses else None)
        except ToolcribError:
            logger.warning("the dense encoder %s failed", self._dense.name, exc_info=True)
            return replace(encoded, degraded=(*degraded, "dense"))
        return replace(encoded, dense=vectors[0], degraded=degraded, clauses=vectors[1:])

    def _corrected(self, text: str, vocabulary: Filter | None) -> tuple[str, dict[str, str]]:
        """A text without misspelt words, and these; the same text if the encoder or store fails."""
        dense = self._spelling_encoder
        try:
            if dense is None or not (unknown := dense.unknown_words(text)):
                return text, {}
            # Most searches meet no unknown word.
            from toolcrib.retrieval.spelling import Speller, correct

            speller = Speller(self._store, self._lexical, dense)
            spelling = speller.corrections(unknown, vocabulary)
        except ToolcribError:
            return text, {}  # The vectors or the search fail of the same cause, and report it.
        return correct(text, spelling), spelling

    def _by_words(self, text: str, meant: str | None = None) -> EncodedQuery:
        """Query without a vector: words of a text and, beside these, of its corrected form."""
        translator = self._translator
        if translator is not None and (english := translator.translate(text)) is not None:
            terms = self._lexical.encode_query(f"{text} {english}")
            return EncodedQuery(text, None, terms, cosine_factor=translator.cosine_factor)
        terms = self._lexical.terms(text)
        if meant is not None and meant != text:
            terms += [term for term in self._lexical.terms(meant) if term not in terms]
        return EncodedQuery(text, None, self._lexical.encode_terms(terms))

    def _prepare_run(
        self,
        query: str | EncodedQuery,
        options: SearchOptions,
        plan: SearchPlan,
        watch: Stopwatch,
        depth_factor: int = 1,
    ) -> _QueryRun:
        """Encode a query, and prepare its legs and those of a step's sentences."""
        allowed = from_scope(options.scope)
        vocabulary = all_of(ENABLED, allowed)
        if isinstance(query, str):
            query = self.encode(query, (plan,), options.messages, vocabulary=vocabulary)
        limits = all_of(ENABLED, allowed, options.where)
        state = EMPTY_RUN_STATE
        if options.called or options.task is not None:
            state = RunState.read(self._store, options, vocabulary)
        weights = plan.weights or self._weights
        follows = state.is_step and weights.method == "convex"
        parts = last_sentences(query.naming or query.text) if follows else []
        encoded = [query, *(self._encode(part, (plan,), vocabulary) for part in parts)]
        watch.lap("encode")
        limit = MAX_SET_TOOLS if options.k == "auto" else options.k
        depth = MAX_SET_TOOLS if options.k == "auto" else max(MIN_LEG_CANDIDATES, 2 * limit)
        if follows or self._learned_tools(plan) is not None:
            depth = max(depth, MAX_LIFTED_TOOLS)
        depth = depth_factor * depth + len(state.called)
        legs, *sentences = (
            Legs(self._store, each, limits, allowed, depth, names=each is query) for each in encoded
        )
        return self._run(
            query,
            legs,
            watch,
            plan,
            explain=options.explain,
            folds=options.gate,
            state=replace(state, is_step=follows),
            sentences=tuple(sentences),
            use=self._learned_from_use.use if follows and plan.learned else None,
        )

    def _run(
        self, query: EncodedQuery, legs: Legs, watch: Stopwatch, plan: SearchPlan, **more: Any
    ) -> _QueryRun:
        reranker = self._reranker if plan.rerank else None
        if isinstance(reranker, ModelReranker) and plan.model_time_s is not None:
            reranker = reranker.within(plan.model_time_s)
        weights = plan.weights or self._weights
        # A leg that the weights switch off, as in a comparison of legs, stays off.
        if UNSUPPORTED_LANGUAGE in query.degraded and weights.dense and weights.lexical:
            weights = replace(
                weights, dense=1 - UNREAD_LEXICAL_WEIGHT, lexical=UNREAD_LEXICAL_WEIGHT
            )
        return _QueryRun(query, legs, watch, weights, reranker, self._learned_tools(plan), **more)

    def _learned_tools(self, plan: SearchPlan) -> LearnedTools | None:
        """Learned examples of a plan; None for rank fusion, whose scores have no lift."""
        weights = plan.weights or self._weights
        return (
            self._learned_from_use.examples if plan.learned and weights.method == "convex" else None
        )

    def _find_one(
        self,
        query: str | EncodedQuery,
        options: SearchOptions,
        plan: SearchPlan,
        read: dict[int, Record] | None = None,
    ) -> FindResult:
        text = query if isinstance(query, str) else query.text
        if not has_words(text):
            return FindResult(
                text,
                (),
                {"total": 0.0},
                verdict="abstain",
                reason="the query holds no words",
                degraded=("no-words",),
            )
        watch = Stopwatch(self._clock)
        run = self._prepare_run(query, options, plan, watch)
        encoded, called = run.query, run.state.called
        limit = MAX_SET_TOOLS if options.k == "auto" else options.k
        assessor = self.assessor if encoded.dense is not None else self.assessor.by_words
        depth_factor = 1
        while True:
            found = self._fuse(run, assessor.head, by_examples=assessor.by_examples)
            ranked = self._rerank(run, found, limit + len(called))
            depth_factor *= DEPTH_GROWTH_FACTOR
            is_short = run.folds and len(ranked.hits) < limit + len(called)
            if not (is_short and run.legs.reached_limit) or depth_factor > MAX_DEPTH_FACTOR:
                break
            run = self._prepare_run(encoded, options, plan, watch, depth_factor)
        if read is not None:
            read |= run.legs.records
        hits, confidence = self._estimate(run, assessor, ranked, found)
        ordered = self._reorder(run, text, hits)
        hits, lacking = ordered.hits, ranked.lacking + ordered.lacking
        if options.k == "auto":
            hits, short = assessor.complete(hits, options.coverage)
            lacking += short
        # The verdict counts called tools too: one of them may be what fits.
        hits = [hit for hit in hits if point_id(hit.id) not in called][:limit]
        if options.k != "auto" and options.least is not None:
            hits = keep_likely_hits(hits, options.least)
        took_ms = dict[str, float]()
        result = FindResult(
            query=text,
            tools=with_ranks(hits),
            took_ms=took_ms,
            confidence=confidence,
            degraded=encoded.degraded + lacking,
            unmatched_terms=self._unmatched_words(run) if options.explain else (),
            called=tuple(called.values()),
            spelling=dict(encoded.spelling),
        )
        judged = assessor.judge(result, from_scope(options.scope), marks=not options.gate)
        watch.lap("gate")
        took_ms |= watch.result()
        return judged

    def _fuse(self, run: _QueryRun, head: Head | None, *, by_examples: bool) -> Candidates:
        """Search the legs, score with the head, fuse and lift."""
        named, use, dense = run.legs.named_points, run.use, run.query.dense
        points = set[int]()
        if run.state.is_step:
            points = run.state.points(self._store, run.legs.where, use)
        candidates = run.legs.candidates(points)
        trust = None
        if head is not None and dense is not None:
            known = head.log_probabilities(dense, candidates)
            candidates = {p: s._replace(head=known.get(p)) for p, s in candidates.items()}
        elif by_examples and any(scores.examples is not None for scores in candidates.values()):
            example_head = self.assessor.examples.head(run.legs.scope)
            if example_head is not None and dense is not None:
                candidates = example_head.score_candidates(dense, candidates)
                trust = example_head.confidence
        run.watch.lap("legs")
        fused = fuse(candidates, run.weights)
        for sentence in run.sentences:
            _merge_sentence(fused, candidates, sentence.candidates(points), run.weights)
        fused, gains = self._lift(run, fused, candidates)
        ranking = rank(fused, named)
        run.watch.lap("fusion")
        terms = int(run.query.lexical.indices.size)
        return Candidates(ranking, candidates, terms, trust, gains)

    def _lift(
        self, run: _QueryRun, fused: dict[int, float], candidates: Mapping[int, LegScores]
    ) -> tuple[dict[int, float], dict[str, dict[int, float]]]:
        """Scores with their gains, and the gains by cause."""
        dense, gains = run.query.dense, dict[str, dict[int, float]]()
        if run.learned is not None and dense is not None:
            gains["learned"] = run.learned.lifts(fused, dense)
            fused |= {point: fused[point] + lift for point, lift in gains["learned"].items()}
        if run.state.is_step:
            step_gains = run.state.gains(self._store, fused, run.use)
            return with_gains(fused, step_gains), gains | step_gains
        weights = run.weights
        if weights.method == "convex" and weights.dense > 0 and weights.clauses > 0:
            gains["clause_gain"] = clause_gains(fused, candidates, run.legs.named_points)
            fused |= {point: fused[point] + gain for point, gain in gains["clause_gain"].items()}
        return fused, gains

    def _fetch_hits(self, run: _QueryRun, found: Candidates, k: int) -> list[ToolHit]:
        """At least `k` hits if there are as many, and all that the reranker reads.

        A judged answer folds copies of a tool on several servers into one hit.
        """
        depth = run.reranker.settings.depth if run.reranker else 0
        wanted = max(k, depth)
        if not run.folds:
            return self._read_hits(run, found, self._records(run, found, wanted))
        count = wanted + COPIES_LOOKAHEAD
        while True:
            records = self._records(run, found, count)
            names = Counter(record.payload["name"] for _, record in records)
            first = records[:wanted]
            if all(names[record.payload["name"]] == 1 for _, record in first):
                return self._read_hits(run, found, first)
            # Specifications behind the last place are read only if they may be copies.
            copies = [pair for pair in records[wanted:] if names[pair[1].payload["name"]] > 1]
            folded = fold_copies(self._read_hits(run, found, first + copies), run.query.text)
            if [hit.id for hit in folded[:wanted]] == [r.payload["id"] for _, r in first]:
                return folded[:wanted]
            folded = fold_copies(self._read_hits(run, found, records), run.query.text)
            if len(folded) >= wanted or len(records) < count:
                return folded[:wanted]
            count *= 2

    def _records(self, run: _QueryRun, found: Candidates, count: int) -> list[tuple[Place, Record]]:
        """First `count` places and all that tie with the last, each with its record."""
        places = {place.point: place for place in found.first(count)}
        fetched = [(places[each.id], each) for each in run.legs.read(list(places))]
        fetched.sort(key=lambda pair: pair[0].order(pair[1].payload["id"]))
        return fetched

    def _read_hits(
        self, run: _QueryRun, found: Candidates, records: Sequence[tuple[Place, Record]]
    ) -> list[ToolHit]:
        hits = [
            ToolHit(
                rank,
                place.score,
                read_tool(record.payload),
                found.explain(place) if run.explain else {},
            )
            for rank, (place, record) in enumerate(records, start=1)
        ]
        run.watch.lap("fetch")
        return hits

    def _rerank(self, run: _QueryRun, found: Candidates, k: int) -> Reranking:
        """Fetch at least `k` hits if there are as many, and rerank them by a cross-encoder."""
        hits = self._fetch_hits(run, found, k)
        if not isinstance(run.reranker, ToolReranker) or not hits:
            return Reranking(hits)
        ranked = run.reranker.rerank(run.query.text, hits)
        run.watch.lap("rerank")
        if run.explain:
            return ranked
        return replace(ranked, hits=[replace(hit, legs={}) for hit in ranked.hits])

    def _reorder(self, run: _QueryRun, text: str, hits: list[ToolHit]) -> Reranking:
        """Reorder the first hits by a language model; probabilities stay with the places."""
        if not isinstance(run.reranker, ModelReranker) or not hits:
            return Reranking(hits)
        ordered = run.reranker.rerank(text, hits)
        run.watch.lap("llm")
        return ordered

    def _estimate(
        self, run: _QueryRun, assessor: Assessor, ranked: Reranking, found: Candidates
    ) -> tuple[list[ToolHit], float | None]:
        """Add probabilities to the hits, and estimate the confidence of the answer."""
        if not assessor.calibrated or not ranked.hits:
            return ranked.hits, None
        if assessor.is_shipped and found.trust is not None:
            likely = found.probabilities([point_id(hit.id) for hit in ranked.hits])
            confidence: float | None = likely[0]
        else:
            known = self._features(ranked, found)
            confidence, likely = assessor.estimate(known, query_features(found))
        if confidence and UNSUPPORTED_LANGUAGE in run.query.degraded:
            # In an unsupported language the cosine only shows the language: scale the confidence
            # by the share of the query's words that the first tool has.
            confidence *= run.legs.word_coverage(point_id(ranked.hits[0].id))
            likely = [min(each, confidence) for each in likely]
        hits = [
            ToolHit(hit.rank, hit.score, hit.tool, hit.legs, p, also_on=hit.also_on)
            for hit, p in zip(ranked.hits, likely, strict=True)
        ]
        return hits, confidence

    def _features(self, ranked: Reranking, found: Candidates) -> Floats:
        """Features of the hits among all candidates: float64 [hits, features]."""
        hits = ranked.hits
        points = [point_id(hit.id) for hit in hits]
        # Lower places change no feature of a hit. Places that tie may be hits: ids break ties.
        copies = sum(len(hit.also_on) for hit in hits)
        ranking = found.first(len(hits) + copies + RANKED_COMPETITORS)
        unjudged = {place.point: found.gain_beside_confidence(place.point) for place in ranking}
        fused = {place.point: -place.deficit - unjudged[place.point] for place in ranking}
        # A call by name decides the place, but not the probability.
        scores = [
            fused[point] if hit.score >= 1 else hit.score - ranked.share * unjudged[point]
            for hit, point in zip(hits, points, strict=True)
        ]
        shown = set(points)
        rest = [point for point in fused if point not in shown]
        scores += [ranked.share * fused[point] for point in rest]
        legs = [found.scores[point] for point in (*points, *rest)]
        return features(scores, legs, found.terms)[: len(hits)]

    def _unmatched_words(self, run: _QueryRun) -> tuple[str, ...]:
        """Words of the query that no tool in reach has, as they are spelled there: no stems."""
        text = run.query.text
        words = dict(zip(self._lexical.terms(text), tokenise(text, "none"), strict=True))
        vectors = [self._lexical.encode_terms([term]) for term in words]
        found = run.legs.matches(vectors, run.legs.where)
        return unique(word for word, hit in zip(words.values(), found, strict=True) if not hit)


def _merge_sentence(
    fused: dict[int, float],
    candidates: dict[int, LegScores],
    found: dict[int, LegScores],
    weights: FusionWeights,
) -> None:
    """Raise scores to those of a sentence, if its share is above the whole text's score."""
    for point, score in fuse(found, weights).items():
        if SENTENCE_SHARE * score > fused.get(point, 0.0):
            fused[point], candidates[point] = SENTENCE_SHARE * score, found[point]


def _shorten(query: str) -> str:
    """Query without its middle if it is too long."""
    half = MAX_QUERY_CHARS // 2
    return head_and_tail(query, MAX_QUERY_CHARS, half - 1, half)
