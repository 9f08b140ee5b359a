"""Agent router: the target of a turn, from what probes found to one supervised decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.records import AgentDecision, KnowledgeResult, Turn
from toolcrib.router.agents.allowlist import EMBEDDED, load_allowlist
from toolcrib.router.agents.evidence import Evidence, EvidenceReader, RetrievalProbe
from toolcrib.router.agents.heuristics import by_heuristics
from toolcrib.router.agents.supervisor import supervise
from toolcrib.router.agents.targets import Targets, load_targets
from toolcrib.router.context.cues import Cues
from toolcrib.router.settings import PRESET, AgentSettings

__all__ = ["AgentRouter", "make_agent_router"]


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

    def supervised(self, made: AgentDecision, evidence: Evidence, turn: Turn) -> AgentDecision:
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
