"""LLM classifier: a language model asked whether something holds, for what no rule can tell."""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from toolcrib.clock import Clock, SystemClock
from toolcrib.errors import SettingsError
from toolcrib.guidance.classifiers import ClassificationResult, GuidanceContext
from toolcrib.records import Message

if TYPE_CHECKING:
    from toolcrib.language_models import LanguageModel

__all__ = ["LLMClassifier", "summary"]

logger = logging.getLogger(__name__)

RETRY_S = 30.0
"""After a failure the model is not asked for so long: an agent waits for the answer."""

MAX_CACHED = 256
LAST_CALLS = 8
MAX_CHARS = 80


NO_VERDICT = ClassificationResult.no("the language model had no verdict")


class LLMVerdict(BaseModel):
    """Whether what was asked for holds, how sure that is from 0 to 1, and why in a few words."""

    relevant: bool
    confidence: float = Field(default=0.5, ge=0, le=1)
    reason: str = ""


class LLMClassifier:
    """Asks a model, for half a second unless the settings say else, and once for the same calls.

    `prompt_template` says what to look for; `{trajectory}` in it is the summary: names of tools,
    what failed and how often, no parameters and no results. What goes wrong is a no. It blocks
    while it asks: from an event loop, call it in a thread.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt_template: str,
        *,
        name: str = "llm",
        timeout_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if "{trajectory}" not in prompt_template:
            raise SettingsError("prompt_template lacks {trajectory}, where the summary goes")
        self.name = name
        self._model, self._template, self._timeout_s = model, prompt_template, timeout_s
        self._known: OrderedDict[str, ClassificationResult] = OrderedDict()
        self._lock = threading.Lock()
        self._clock, self._away_until = clock or SystemClock(), -math.inf

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        """Ask, unless the same was asked before."""
        told = summary(context)
        # The counts, in the first line, differ with each call.
        key = told.partition("\n")[2]
        with self._lock:
            if (known := self._known.get(key)) is not None:
                return known
            if self._clock() < self._away_until:
                return NO_VERDICT
        try:
            prompt = self._template.replace("{trajectory}", told)
            said = self._model.ask_sync(
                "guidance",
                [Message(role="user", content=prompt)],
                LLMVerdict,
                timeout_s=self._timeout_s,
            )
        except Exception as error:  # noqa: BLE001
            logger.warning("the language model had no verdict: %s", type(error).__name__)
            with self._lock:
                self._away_until = self._clock() + RETRY_S
            return NO_VERDICT
        result = ClassificationResult(said.relevant, said.confidence, said.reason)
        with self._lock:
            self._known[key] = result
            while len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)
        return result


def summary(context: GuidanceContext) -> str:
    """A trajectory in a few lines, without what users wrote or tools gave."""
    trajectory = context.trajectory
    lines = [f"{trajectory.tool_call_count} calls, {trajectory.error_count} failed"]
    lines += [
        f"- {call.name[:MAX_CHARS]}: {'ok' if call.success else 'failed'}"
        for call in trajectory.recent_tool_calls(LAST_CALLS)
    ]
    lines += [f"pattern: {each.type}" for each in trajectory.patterns()]
    lines += [f"about to call: {each.name[:MAX_CHARS]}" for each in context.pending_tool_calls[:3]]
    return "\n".join(lines)
