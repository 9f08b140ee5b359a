"""Classifier of targets: parallel prompts of one language model, with a vote."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, Field

from toolcrib.language_models import FieldwiseAnswer, LanguageModel
from toolcrib.language_models.model import missing_field_marks
from toolcrib.language_models.turns import Share, YesOrNo, prompt, read_label, show_turn
from toolcrib.records import AgentDecision, Turn
from toolcrib.router.choices.allowlist import Allowlist
from toolcrib.router.choices.evidence import AgentEvidence
from toolcrib.router.choices.targets import MAX_DECISION_REASON_CHARS, Targets
from toolcrib.router.settings import AgentSettings

EXAMPLE_ORDER_SEED = 7

MIN_SCORER_SCORE = 0.5
"""Minimum score by which a scorer decides for a target."""

UNSTATED_CONFIDENCE = 0.5
"""Confidence of an answer that states none: by default neither unsure nor confident."""

UNDECIDED_CONFIDENCE = 0.4
"""Upper bound of the confidence if votes and scorer do not decide."""

ENSEMBLE_SHARE = 0.7
"""Share of the time limit for the prompts; the rest is for the scorer and the supervisor."""


class AgentAnswer(FieldwiseAnswer):
    """The target that the user's turn is for."""

    expected = frozenset({"reasoning", "confidence"})

    reasoning: str = Field(default="", description="What in the turn decides, in a sentence.")
    target: str = Field(description="The name of one target.")
    confidence: Share = Field(
        default=UNSTATED_CONFIDENCE, description="How likely that is right, from 0 to 1."
    )
    tables: list[str] = Field(default=[], description="Tables of the list that answer it.")
    columns: list[str] = Field(default=[], description="Columns of the list that answer it.")
    second: str | None = Field(default=None, description="The target that comes next, if any.")
    consistent: YesOrNo = Field(default=True, description="Whether the reasoning bears it out.")


class AgentScores(BaseModel):
    """Scores of the targets for the user's turn."""

    scores: dict[str, Share] = Field(description="By name of a target, from 0 to 1.")


TARGET_RULES = """You decide which target a user's turn is for, and do nothing else.

Targets:
{targets}

Tables that exist; name no others:
{tables}

Rules that decide before all others:
- What something means, how it is done or what is allowed is asked of documents, also where it \
speaks of tables or SQL.
- An attached or pasted document with amounts that is to be read, checked or booked is not a \
question about figures.
- Figures and rows that only a database has are asked of the tables.
- Greetings, thanks, farewells, questions about you, and what is unclear or is for no target: \
{fallback}.
{leaning}
Examples:
{examples}"""

LEANING_RULE = "- Where it may be {target} or another, look twice whether it is {target}.\n"

SCORER_RULE = """
Several readers of this turn disagree between {tied}. Score every target."""


@dataclass(frozen=True, slots=True)
class ModelDecision:
    """Decision of the model, or None, and the number of failed prompts.

    `lacking`: marks of fields that answers omit, so that defaults were taken. `named_unknown`: an
    answer named an unknown target.
    """

    decision: AgentDecision | None
    failed: int
    lacking: tuple[str, ...] = ()
    named_unknown: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AgentClassifier:
    """Classifier that runs `ensemble` prompts in parallel; a scorer breaks ties of their votes."""

    model: LanguageModel
    targets: Targets
    allowlist: Allowlist
    settings: AgentSettings

    def classify(self, turn: Turn, evidence: AgentEvidence, timeout_s: float) -> ModelDecision:
        """Target by the model; a failing model raises no error."""
        until = time.monotonic() + timeout_s
        shown = show_turn(turn, {"Findings": "\n".join(evidence.signals)})
        leanings = self._leanings()
        prompts = [prompt(self._rules(leaning), shown) for leaning in leanings]
        # Slow answers must not block the others; the scorer needs the rest of the time.
        each_s = timeout_s * ENSEMBLE_SHARE
        replies = self.model.ask_each("agents", prompts, AgentAnswer, timeout_s=each_s)
        answers = [
            reply.model_copy(update={"target": target})
            for reply in replies
            if isinstance(reply, AgentAnswer)
            and (target := read_label(reply.target, self.targets.targets)) is not None
        ]
        failed = len(leanings) - len(answers)
        is_unknown = len(answers) < sum(isinstance(reply, AgentAnswer) for reply in replies)
        made = self._vote(answers, shown, until - time.monotonic()) if answers else None
        lacking = (mark for each in answers for mark in missing_field_marks("agents", each))
        return ModelDecision(made, failed, tuple(dict.fromkeys(lacking)), is_unknown)

    def _leanings(self) -> Sequence[str | None]:
        """Target that each prompt favours, None for none."""
        targets = self.targets
        others = [name for name in targets.targets if name != targets.fallback]
        ensemble = self.settings.ensemble
        order = (*others, None) if ensemble >= len(others) else (None, *others)
        return (*order, targets.fallback)[:ensemble]

    def _vote(self, answers: Sequence[AgentAnswer], shown: str, left_s: float) -> AgentDecision:
        votes = Counter(each.target for each in answers).most_common()
        tied = [name for name, count in votes if count == votes[0][1]]
        if len(tied) == 1:
            signals = ("ensemble_majority",) if len(answers) > 1 else ()
            return self._decide(tied[0], answers, signals)
        scores = self._scores(tied, shown, left_s)
        best = max(tied, key=lambda name: scores.get(name, 0.0))
        if scores.get(best, 0.0) < MIN_SCORER_SCORE:
            signals = ("ensemble_tie_low_confidence",)
            reason = "the prompts disagree"
            return AgentDecision(
                self.targets.fallback, UNDECIDED_CONFIDENCE, reason, signals=signals
            )
        made = self._decide(best, answers, ("ensemble_scorer",))
        return replace(made, confidence=min(made.confidence, scores[best]))

    def _decide(
        self, target: str, answers: Sequence[AgentAnswer], signals: tuple[str, ...]
    ) -> AgentDecision:
        votes = [each for each in answers if each.target == target]
        # Only voters for the chosen target state its confidence.
        confidence = sum(each.confidence for each in votes) / len(votes)
        if not all(each.consistent for each in votes):
            confidence = min(confidence, UNDECIDED_CONFIDENCE)
            signals = (*signals, "self_inconsistent")
        tables, columns = self.allowlist.keep(
            (name for each in votes for name in each.tables),
            (name for each in votes for name in each.columns),
        )
        others = Counter(
            second
            for each in answers
            for name in (each.target, each.second or "")
            if (second := read_label(name, self.targets.targets)) not in (None, target)
        )
        if self.settings.secondary and others:
            signals = (*signals, f"secondary:{others.most_common(1)[0][0]}")
        reason = " ".join(votes[0].reasoning.split())[:MAX_DECISION_REASON_CHARS]
        if points := self.settings.calibration:
            # Linear between the points, constant outside.
            stated, true = [x for x, _ in points], [y for _, y in points]
            confidence = float(np.interp(confidence, stated, true))
        return AgentDecision(target, confidence, reason, tables, columns, signals)

    def _scores(self, tied: Sequence[str], shown: str, left_s: float) -> dict[str, float]:
        """Scores of known targets; empty if the scorer is off, late or failing."""
        if not self.settings.scorer or left_s <= 0:
            return {}
        rules = self._rules(None) + SCORER_RULE.format(tied=" and ".join(tied))
        found, _ = self.model.try_ask("agents", prompt(rules, shown), AgentScores, left_s)
        scores = {} if found is None else found.scores
        named = ((read_label(name, self.targets.targets), score) for name, score in scores.items())
        return {name: score for name, score in named if name is not None}

    def _rules(self, leaning: str | None) -> str:
        """System prompt; examples of the `leaning` come first, against position bias."""
        targets = self.targets.targets
        shots = [
            f"{json.dumps(shot.text, ensure_ascii=False)} -> {name} ({shot.reason})"
            for name, target in targets.items()
            for shot in target.examples
        ]
        random.Random(f"{EXAMPLE_ORDER_SEED}:{leaning}").shuffle(shots)  # noqa: S311 -- no secret
        if leaning is not None:
            shots.sort(key=lambda shot: f" -> {leaning} " not in shot)
        return TARGET_RULES.format(
            targets="\n".join(f"- {name}: {each.description}" for name, each in targets.items()),
            tables=self.allowlist.describe() or "(none)",
            fallback=self.targets.fallback,
            leaning=LEANING_RULE.format(target=leaning) if leaning else "",
            examples="\n".join(shots),
        )
