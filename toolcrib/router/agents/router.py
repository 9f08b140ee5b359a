"""Agent router: the target of a turn, from what probes found to one supervised decision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.records import AgentDecision, KnowledgeResult, Turn
from toolcrib.retrieval.calibration import softmax
from toolcrib.router.agents.allowlist import EMBEDDED, load_allowlist
from toolcrib.router.agents.evidence import AgentEvidence, EvidenceReader, RetrievalProbe
from toolcrib.router.agents.supervisor import supervise
from toolcrib.router.agents.targets import Targets, load_targets
from toolcrib.router.context.cues import Cues
from toolcrib.router.settings import PRESET, AgentSettings

__all__ = ["AgentRouter", "by_heuristics", "make_agent_router", "weigh"]


@dataclass(frozen=True, slots=True, eq=False)
class AgentRouter:
    """Chooses the target of turns; reads no store and no file."""

    reader: EvidenceReader
    targets: Targets
    settings: AgentSettings

    def route(self, turn: Turn, knowledge: KnowledgeResult | None = None) -> AgentDecision:
        """The target of a turn; `knowledge` is what a look at the documents found, if any was."""
        evidence = self.reader.read(turn)
        if knowledge is not None:
            evidence = evidence.with_hits(self._probe(knowledge), self.settings.least_hit)
        return self.supervised(by_heuristics(evidence, self.targets), evidence, turn)

    def supervised(self, made: AgentDecision, evidence: AgentEvidence, turn: Turn) -> AgentDecision:
        """A decision corrected by the rules, and handed back with the turn's thread."""
        return replace(supervise(made, evidence, self.targets), thread_id=turn.thread_id)

    def _probe(self, knowledge: KnowledgeResult) -> RetrievalProbe:
        return RetrievalProbe(len(knowledge.passages[: self.settings.hits]), knowledge.fit)


def make_agent_router(settings: AgentSettings, cues: Cues) -> AgentRouter:
    """What chooses targets by the settings, those of the package where they name none.

    Raises:
        SettingsError: the targets or the allowlist cannot be read.
    """
    file = settings.targets or PRESET
    targets = load_targets(None if file == PRESET else Path(file))
    allowlist = load_allowlist(Path(settings.allowlist) if settings.allowlist else EMBEDDED)
    return AgentRouter(EvidenceReader(targets, allowlist, cues), targets, settings)


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
    likely: Mapping[str, float] = softmax(weights)
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
