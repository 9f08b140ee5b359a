"""Agent router: the target of a turn, by a language model or heuristics, then supervised."""

from __future__ import annotations

import contextvars
import logging
import math
import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

import numpy as np

from toolcrib.caches import BoundedMap
from toolcrib.clock import Clock
from toolcrib.encoders.base import FloatArray
from toolcrib.numerics import exclusive_probabilities
from toolcrib.records import AgentDecision, KnowledgeResult, Turn
from toolcrib.records.codec import dump
from toolcrib.retrieval.learned import AGENTS, LearnedChoices
from toolcrib.router.choices.agent_model import AgentClassifier, ModelDecision
from toolcrib.router.choices.evidence import AgentEvidence, EvidenceReader
from toolcrib.router.choices.targets import (
    CONFIDENT,
    MAX_DECISION_REASON_CHARS,
    UNSURE,
    AgentRule,
    Targets,
)
from toolcrib.router.conversation import MAX_SEARCHED_CHARS
from toolcrib.router.settings import AgentSettings
from toolcrib.text import unique

logger = logging.getLogger(__name__)

CORRECTED_SIGNAL, FALLBACK_SIGNAL = "semantic_validation_corrected", "supervisor_fallback"
OVERRIDE_SIGNAL, RECLASSIFIED_SIGNAL = "critical_override", "reclassified_by_probe"
CACHE_SIGNAL, UNKNOWN_TARGET_SIGNAL = "semantic_cache_hit", "unknown_target"
LEARNED_SIGNAL = "learned"


@dataclass(frozen=True, slots=True, eq=False)
class PendingTarget:
    """Turn whose target is being chosen: its evidence, and the model's future answer.

    `until`: deadline by the monotonic clock. `version` and `vector` are for the cache.
    """

    turn: Turn
    evidence: AgentEvidence
    until: float = 0.0
    answer: Future[ModelDecision] | None = None
    version: Hashable = None
    vector: FloatArray | None = None
    began_ms: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AgentRouter:
    """Router of turns to targets; reads no store and no file.

    With a `classifier` a language model decides, and heuristics are the fallback; `cache` stores
    the model's decisions. `time_s`: default time of the model. `learned_choices` add to the
    heuristics, but do not overrule rules.
    """

    reader: EvidenceReader
    targets: Targets
    settings: AgentSettings
    classifier: AgentClassifier | None = None
    cache: DecisionCache | None = None
    time_s: float = 0.0
    learned_choices: LearnedChoices = field(default_factory=LearnedChoices)

    def route(
        self, turn: Turn, knowledge: KnowledgeResult | None = None
    ) -> tuple[AgentDecision, tuple[str, ...]]:
        """Target of a turn, and marks of failures; `knowledge`: passages found for the turn."""
        return self.finish(self.begin(turn), knowledge)

    def begin(
        self,
        turn: Turn,
        *,
        time_s: float | None = None,
        probes_s: float = math.inf,
        version: Hashable = None,
        vector: FloatArray | None = None,
    ) -> PendingTarget:
        """Read a turn, and start the model without waiting for its answer.

        `time_s`: time of the model; with 0, or for small talk, the model is not called. After
        `probes_s` no further probe starts. For the cache: `version` of all that decisions depend
        on, and the turn's `vector`, float32 [dimensions].
        """
        time_s = self.time_s if time_s is None else time_s
        evidence = self.reader.read(turn, probes_s)
        pending = PendingTarget(turn, evidence, time.monotonic() + time_s, None, version, vector)
        if self.classifier is None or time_s <= 0 or evidence.facts & {"smalltalk", "empty"}:
            return pending
        return replace(pending, answer=self._start_model(pending, evidence))

    def finish(
        self, pending: PendingTarget, knowledge: KnowledgeResult | None = None
    ) -> tuple[AgentDecision, tuple[str, ...]]:
        """Supervised decision, and marks of failures.

        `agents`: the model failed; `agents-ensemble`: some prompts failed; `probes`: probes were
        skipped for lack of time. A model that chose the fallback is called again if documents have
        hits.
        """
        evidence = pending.evidence
        if knowledge is not None:
            hits = len(knowledge.passages[: self.settings.hits])
            evidence = evidence.with_hits(hits, knowledge.fit, self.settings.least_hit)
        made, failed = self._decide(pending, evidence)
        late = ("probes",) if evidence.late else ()
        made = supervise(made, evidence, self.targets)
        return replace(made, thread_id=pending.turn.thread_id), (*late, *failed)

    def _decide(
        self, pending: PendingTarget, evidence: AgentEvidence
    ) -> tuple[AgentDecision, tuple[str, ...]]:
        if pending.answer is None:
            return self._by_heuristics(pending, evidence), ()
        first = _wait_for(pending.answer, pending.until)
        made, signals = first.decision, tuple[str, ...]()
        if made is not None and made.target == self.targets.fallback and "hits" in evidence.facts:
            again = _wait_for(self._start_model(pending, evidence), pending.until)
            if again.decision is not None:
                made, signals = again.decision, (RECLASSIFIED_SIGNAL,)
        signals += (UNKNOWN_TARGET_SIGNAL,) if first.named_unknown else ()
        if made is None:
            guess = self._by_heuristics(pending, evidence)
            return replace(guess, signals=(*signals, *guess.signals)), ("agents",)
        made = replace(
            made,
            tables=made.tables or evidence.tables,
            columns=made.columns or evidence.columns,
            signals=(*signals, *made.signals, *evidence.signals),
        )
        ensemble = ("agents-ensemble",) if first.failed else ()
        return self._override(made, evidence), (*ensemble, *first.lacking)

    def rank(self, text: str) -> dict[str, float]:
        """Probabilities of the targets by the heuristics, without learned examples."""
        evidence = self.reader.read(Turn(text=text), math.inf)
        return exclusive_probabilities(weigh_targets(evidence, self.targets))

    def _by_heuristics(self, pending: PendingTarget, evidence: AgentEvidence) -> AgentDecision:
        made = decide_by_heuristics(evidence, self.targets)
        likely = exclusive_probabilities(weigh_targets(evidence, self.targets))
        mixed = self.learned_choices.mix(AGENTS, likely, pending.vector, self.targets.confident)
        best = max(mixed, key=lambda name: mixed[name])
        if mixed == likely or mixed[best] <= mixed[made.target]:
            return made
        signals = (*made.signals, LEARNED_SIGNAL)
        reason = "outcomes of similar turns"
        return replace(made, target=best, confidence=mixed[best], reason=reason, signals=signals)

    def _start_model(
        self, pending: PendingTarget, evidence: AgentEvidence
    ) -> Future[ModelDecision]:
        """Model's future answer, or the cached answer of a similar turn."""
        answer: Future[ModelDecision] = Future()
        key = cache_key(pending, evidence)
        if self.cache is not None and pending.vector is not None:
            known = self.cache.get(key, pending.vector)
            if known is not None:
                # The cached reason may quote another user.
                signals = (*known.signals, CACHE_SIGNAL)
                made = replace(known, reason="cached decision of a similar turn", signals=signals)
                answer.set_result(ModelDecision(made, 0))
                return answer
        work = partial(contextvars.copy_context().run, self._classify, pending, evidence, answer)
        threading.Thread(target=work, name="toolcrib-agents", daemon=True).start()
        return answer

    def _classify(
        self, pending: PendingTarget, evidence: AgentEvidence, answer: Future[ModelDecision]
    ) -> None:
        left_s = pending.until - time.monotonic()
        assert self.classifier is not None
        try:
            found = self.classifier.classify(pending.turn, evidence, left_s)
        except Exception:  # a decision without the model is better than none
            logger.warning("the model could not be asked for a target", exc_info=True)
            found = ModelDecision(None, 1)
        made, cache, vector = found.decision, self.cache, pending.vector
        is_whole = not found.failed and not found.lacking
        if made is not None and is_whole and cache is not None and vector is not None:
            cache.put(cache_key(pending, evidence), vector, made)
        answer.set_result(found)

    def _override(self, made: AgentDecision, evidence: AgentEvidence) -> AgentDecision:
        """Decision by the first override that holds, or else the model's."""
        for rule in self.targets.overrides:
            if rule.concerns(made.target, evidence.facts):
                return made if made.target == rule.to else _redirect(made, rule, OVERRIDE_SIGNAL)
        return made


def _wait_for(answer: Future[ModelDecision], until: float) -> ModelDecision:
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return ModelDecision(None, 1)


# -- heuristics --------------------------------------------------------------------------------


def weigh_targets(evidence: AgentEvidence, targets: Targets) -> dict[str, float]:
    """Sum of the weights of the matching heuristics, for each target, and of `targets.always`.

    Evidence of the previous turn counts by the probability that this turn refers to it.
    """
    weights = dict.fromkeys(targets.targets, 0.0) | targets.always
    parts = [(evidence.facts, 1.0)]
    if evidence.before is not None and not evidence.facts & {"smalltalk", "meta"}:
        part = targets.beside + (targets.before - targets.beside) * evidence.reference_probability
        parts.append((evidence.before.facts, part))
    for facts, part in parts:
        for each in targets.heuristics:
            if each.holds(facts):
                weights[each.target] += part * each.weight
    return weights


def decide_by_heuristics(evidence: AgentEvidence, targets: Targets) -> AgentDecision:
    """Target of the highest weight; the confidence is a softmax of the weights.

    The first target wins ties, except that a turn without evidence goes to the fallback.
    """
    weights = weigh_targets(evidence, targets)
    likely = exclusive_probabilities(weights)
    best = max(weights, key=lambda name: (round(weights[name], 9), name == targets.fallback))
    reasons = [
        each.says
        for each in targets.heuristics
        if each.target == best and each.says and each.holds(evidence.facts)
    ]
    reason = "; ".join(dict.fromkeys(reasons)) or "no evidence for another target"
    signals = ("heuristic", *evidence.signals)
    if evidence.before is not None and evidence.reference_probability > 0:
        signals = (*signals, "conversation_follow_up")
    confidence = likely[best] if math.isfinite(likely[best]) else 0.0
    return AgentDecision(best, confidence, reason, evidence.tables, evidence.columns, signals)


# -- supervisor --------------------------------------------------------------------------------


def supervise(decision: AgentDecision, evidence: AgentEvidence, targets: Targets) -> AgentDecision:
    """Decision with a capped confidence, and a target corrected at most once, by a rule.

    An unknown target becomes the fallback. The function is idempotent.
    """
    made = replace(decision, confidence=min(1.0, max(0.0, decision.confidence)))
    if made.target not in targets.targets:
        made = replace(
            made,
            target=targets.fallback,
            confidence=min(made.confidence, targets.unsure),
            signals=unique(
                made.signals, (UNKNOWN_TARGET_SIGNAL, CORRECTED_SIGNAL, FALLBACK_SIGNAL)
            ),
        )
    made = _cap(made, evidence, targets)
    if FALLBACK_SIGNAL not in made.signals:
        rule = _first_rule(made, evidence, targets)
        if rule is not None:
            made = _cap(_correct(made, rule), evidence, targets)
    if not targets.targets[made.target].uses_tables:
        made = replace(made, tables=(), columns=())
    return replace(made, reason=made.reason[:MAX_DECISION_REASON_CHARS])


def _first_rule(
    decision: AgentDecision, evidence: AgentEvidence, targets: Targets
) -> AgentRule | None:
    facts = evidence.facts
    if decision.confidence >= targets.confident:
        facts |= {CONFIDENT}
    if decision.confidence < targets.unsure:
        facts |= {UNSURE}
    return next((r for r in targets.rules if r.concerns(decision.target, facts)), None)


def _correct(decision: AgentDecision, rule: AgentRule) -> AgentDecision:
    if decision.target == rule.to:
        confidence = max(decision.confidence, rule.confidence)
        signals = unique(decision.signals, rule.signals)
        return replace(decision, confidence=confidence, signals=signals)
    return _redirect(decision, rule, CORRECTED_SIGNAL, FALLBACK_SIGNAL)


def _redirect(decision: AgentDecision, rule: AgentRule, *signals: str) -> AgentDecision:
    return replace(
        decision,
        target=rule.to,
        confidence=rule.confidence,
        reason=rule.says,
        signals=unique(decision.signals, rule.signals, signals),
    )


def _cap(decision: AgentDecision, evidence: AgentEvidence, targets: Targets) -> AgentDecision:
    caps = (cap.most for cap in targets.caps if cap.concerns(decision.target, evidence.facts))
    return replace(decision, confidence=min(decision.confidence, *caps, 1.0))


# -- cache -------------------------------------------------------------------------------------


def cache_key(pending: PendingTarget, evidence: AgentEvidence) -> Hashable:
    """All but the vector that must be equal for two turns to share a decision."""
    facts = evidence.facts, evidence.tables, evidence.columns, evidence.signals
    turn = pending.turn
    history = [(each.role, each.content) for each in turn.history]
    files = [(each.name, each.mime) for each in turn.attachments]
    # The vector of a longer text covers its ends alone.
    whole = turn.text if len(turn.text) > MAX_SEARCHED_CHARS else ""
    # A digest saves memory: the cache would hold a thousand conversations and scopes.
    rest = repr((history, files, whole, dump(turn.reach)))
    digest = blake2b(rest.encode("utf-8", "replace")).digest()
    return *facts, digest, pending.version


@dataclass(frozen=True, slots=True, eq=False)
class _CacheEntry:
    vector: FloatArray
    decision: AgentDecision
    until: float


class DecisionCache:
    """Cache of `size` decisions for `ttl_s` seconds; thread-safe.

    A turn gets the decision of a turn with the same key, if the cosine of their unit vectors,
    float32 [dimensions], is at least `similarity`.
    """

    def __init__(self, clock: Clock, *, size: int, ttl_s: float, similarity: float) -> None:
        self._clock = clock
        self._size, self._ttl_s, self._similarity = size, ttl_s, similarity
        self._entries: BoundedMap[Hashable, tuple[_CacheEntry, ...]] = BoundedMap(
            size, lambda _, entries: len(entries)
        )
        self._lock = threading.Lock()

    def get(self, key: Hashable, vector: FloatArray) -> AgentDecision | None:
        """Decision of the nearest turn; None if none is near enough, or all are expired."""
        entries = self._fresh(key)
        if not entries:
            return None
        near = np.stack([each.vector for each in entries]) @ vector
        best = int(np.argmax(near))
        return entries[best].decision if near[best] >= self._similarity else None

    def put(self, key: Hashable, vector: FloatArray, decision: AgentDecision) -> None:
        """Store a decision; the least recently used keys are evicted."""
        entry = _CacheEntry(np.array(vector, copy=True), decision, self._clock() + self._ttl_s)
        with self._lock:
            self._entries[key] = (*self._fresh(key), entry)[-self._size :]

    def _fresh(self, key: Hashable) -> tuple[_CacheEntry, ...]:
        now = self._clock()
        return tuple(each for each in self._entries.get(key, ()) if each.until > now)
