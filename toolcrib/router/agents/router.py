"""Agent router: the target of a turn, from what probes found to one supervised decision."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
import time
from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from toolcrib.encoders.base import FloatArray
from toolcrib.numerics import exclusive_probabilities
from toolcrib.records import AgentDecision, KnowledgeResult, Turn
from toolcrib.records.codec import dump
from toolcrib.router.agents.cache import DecisionCache
from toolcrib.router.agents.classifier import AgentClassifier, Classified
from toolcrib.router.agents.evidence import AgentEvidence, EvidenceReader
from toolcrib.router.agents.supervisor import supervise
from toolcrib.router.agents.targets import Targets
from toolcrib.router.settings import AgentSettings

__all__ = ["AgentRouter", "Pending", "cache_key", "weigh"]


logger = logging.getLogger(__name__)

LONG = 2_000
"""The vector of a longer text is of its ends alone."""

OVERRIDDEN = "critical_override"
RECLASSIFIED = "reclassified_by_probe"


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A turn whose target is being chosen: what is known of it, and the model's answer to come.

    `until` by the monotonic clock; `version` and `vector` are for the cache.
    """

    turn: Turn
    evidence: AgentEvidence
    until: float = 0.0
    answer: Future[Classified] | None = None
    version: Hashable = None
    vector: FloatArray | None = None
    began_ms: float = 0.0


def cache_key(pending: Pending, evidence: AgentEvidence) -> Hashable:
    """What must be the same for a decision to be another turn's as well."""
    known = evidence.facts, evidence.tables, evidence.columns, evidence.signals
    turn = pending.turn
    said = [(each.role, each.content) for each in turn.history]
    files = [(each.name, each.mime) for each in turn.attachments]
    # A digest: a thousand whole conversations and scopes would be kept otherwise.
    whole = turn.text if len(turn.text) > LONG else ""
    told = repr((said, files, whole, dump(turn.reach)))
    digest = blake2b(told.encode("utf-8", "replace")).digest()
    return *known, digest, pending.version


@dataclass(frozen=True, slots=True, eq=False)
class AgentRouter:
    """Chooses the target of turns; reads no store and no file.

    With a `classifier` its language model decides, and the heuristics only where that fails or is
    late; `cache` keeps what it decided. It has `time_s` seconds where nobody says less.
    """

    reader: EvidenceReader
    targets: Targets
    settings: AgentSettings
    classifier: AgentClassifier | None = None
    cache: DecisionCache | None = None
    time_s: float = 0.0

    def route(
        self,
        turn: Turn,
        knowledge: KnowledgeResult | None = None,
    ) -> tuple[AgentDecision, tuple[str, ...]]:
        """The target of a turn, and what failed; `knowledge` is what the documents gave, if any."""
        return self.finish(self.begin(turn), knowledge)

    def begin(
        self,
        turn: Turn,
        *,
        time_s: float | None = None,
        probes_s: float = math.inf,
        version: Hashable = None,
        vector: FloatArray | None = None,
    ) -> Pending:
        """Read a turn, and ask the model, which may take `time_s` seconds, without waiting for it.

        With no time it is not asked, nor for small talk. After `probes_s` no further probe is
        begun. `version` is that of all that decisions rest on, `vector` float32 [dimensions] the
        turn's, for the cache.
        """
        time_s = self.time_s if time_s is None else time_s
        evidence = self.reader.read(turn, probes_s)
        pending = Pending(turn, evidence, time.monotonic() + time_s, None, version, vector)
        if self.classifier is None or time_s <= 0 or evidence.facts & {"smalltalk", "empty"}:
            return pending
        return replace(pending, answer=self._asked(pending, evidence))

    def finish(
        self, pending: Pending, knowledge: KnowledgeResult | None = None
    ) -> tuple[AgentDecision, tuple[str, ...]]:
        """The supervised decision, and what failed.

        That is `agents`, the model; `agents-ensemble`, some of its prompts; `probes`, for lack of
        time.
        Where the model was sure of nothing and the documents have something, it is asked once more.
        """
        evidence = pending.evidence
        if knowledge is not None:
            hits = len(knowledge.passages[: self.settings.hits])
            evidence = evidence.with_hits(hits, knowledge.fit, self.settings.least_hit)
        made, failed = self._chosen(pending, evidence)
        late = ("probes",) if evidence.late else ()
        made = supervise(made, evidence, self.targets)
        return replace(made, thread_id=pending.turn.thread_id), (*late, *failed)

    def _chosen(
        self, pending: Pending, evidence: AgentEvidence
    ) -> tuple[AgentDecision, tuple[str, ...]]:
        if pending.answer is None:
            return by_heuristics(evidence, self.targets), ()
        got = _waited(pending.answer, pending.until)
        made, signals = got.decision, ()
        if made is not None and made.target == self.targets.fallback and "hits" in evidence.facts:
            again = _waited(self._asked(pending, evidence), pending.until)
            if again.decision is not None:
                made, signals = again.decision, (RECLASSIFIED,)
        if made is None:
            return by_heuristics(evidence, self.targets), ("agents",)
        made = replace(
            made,
            tables=made.tables or evidence.tables,
            columns=made.columns or evidence.columns,
            signals=(*signals, *made.signals, *evidence.signals),
        )
        ensemble = ("agents-ensemble",) if got.failed else ()
        return self._overridden(made, evidence), (*ensemble, *got.lacking)

    def _asked(self, pending: Pending, evidence: AgentEvidence) -> Future[Classified]:
        """The model's answer, or the cache's for a turn like it with the same evidence."""
        answer: Future[Classified] = Future()
        key = cache_key(pending, evidence)
        if self.cache is not None and pending.vector is not None:
            known = self.cache.get(key, pending.vector)
            if known is not None:
                # The reason may quote what somebody else said.
                signals = (*known.signals, "semantic_cache_hit")
                made = replace(known, reason="as a turn like it", signals=signals)
                answer.set_result(Classified(made, 0, 0))
                return answer
        work = partial(contextvars.copy_context().run, self._classify, pending, evidence, answer)
        threading.Thread(target=work, name="toolcrib-agents", daemon=True).start()
        return answer

    def _classify(
        self, pending: Pending, evidence: AgentEvidence, answer: Future[Classified]
    ) -> None:
        left = pending.until - time.monotonic()
        assert self.classifier is not None
        try:
            got = asyncio.run(self.classifier.classify(pending.turn, evidence, left))
        except Exception:  # a decision without the model is better than none
            logger.warning("the target could not be asked for", exc_info=True)
            got = Classified(None, 1, 1)
        made, cache, vector = got.decision, self.cache, pending.vector
        whole = not got.failed and not got.lacking
        if made is not None and whole and cache is not None and vector is not None:
            cache.put(cache_key(pending, evidence), vector, made)
        answer.set_result(got)

    def _overridden(self, made: AgentDecision, evidence: AgentEvidence) -> AgentDecision:
        """What the model decided, unless one of the targets' overrides knows better."""
        for rule in self.targets.overrides:
            if rule.holds(evidence.facts) and made.target in (rule.targets or (made.target,)):
                if made.target == rule.to:
                    return made
                signals = (*made.signals, *rule.signals, OVERRIDDEN)
                sure = rule.confidence
                return replace(
                    made, target=rule.to, confidence=sure, reason=rule.says, signals=signals
                )
        return made


def _waited(answer: Future[Classified], until: float) -> Classified:
    """The answer, where it comes in time."""
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        return Classified(None, 1, 1)


def weigh(evidence: AgentEvidence, targets: Targets) -> dict[str, float]:
    """What speaks for each target: weights of the heuristics whose facts are there, added.

    What the user said before speaks as well, the more the turn leans on it.
    """
    weights = dict.fromkeys(targets.targets, 0.0)
    for target, weight in targets.always.items():
        weights[target] += weight
    for each in targets.heuristics:
        if each.holds(evidence.facts):
            weights[each.target] += each.weight
    if evidence.before is not None and not evidence.facts & {"smalltalk", "meta"}:
        part = targets.beside + (targets.before - targets.beside) * evidence.leans
        for target, weight in weigh(evidence.before, targets).items():
            weights[target] += part * weight
    return weights


def by_heuristics(evidence: AgentEvidence, targets: Targets) -> AgentDecision:
    """The target that most speaks for; how sure that is, by softmax of the weights.

    Of equals the first, except that a turn of which nothing is known goes to the fallback.
    """
    weights = weigh(evidence, targets)
    likely: Mapping[str, float] = exclusive_probabilities(weights)
    best = max(weights, key=lambda name: (round(weights[name], 9), name == targets.fallback))
    spoke = [
        each.says
        for each in targets.heuristics
        if each.target == best and each.says and each.holds(evidence.facts)
    ]
    reason = "; ".join(dict.fromkeys(spoke)) or "nothing speaks for another target"
    signals = ("heuristic", *evidence.signals)
    if evidence.before is not None and evidence.leans > 0:
        signals = (*signals, "conversation_follow_up")
    sure = likely[best] if math.isfinite(likely[best]) else 0.0
    return AgentDecision(best, sure, reason, evidence.tables, evidence.columns, signals)
