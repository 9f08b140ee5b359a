"""Context by a language model: the same fields and labels, from the whole turn.

The context of the other detectors is the fallback, and always gives entities, language and personal
data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, create_model

from toolcrib.context.labels import CONTEXT_FIELDS, LabelSet
from toolcrib.context.pii import grade_sensitivity
from toolcrib.language_models import FieldwiseAnswer, LanguageModel
from toolcrib.language_models.turns import (
    Share,
    is_null,
    metadata_text,
    prompt,
    read_label,
    show_turn,
)
from toolcrib.records import Context, Turn
from toolcrib.records.scope import is_above

MODEL_READ_SIGNAL = "context-by-model"
"""Signal of a context by a language model."""

CONTEXT_RULES = """You label turns of a conversation with an assistant. For each field choose the \
one label that fits what the user wants now, or null where none does. A request with a greeting or \
thanks beside it is no small talk. `confidence` is how sure you are that intent and domain are \
right, from 0 to 1.
"""

MAX_SHOWN_UTTERANCES = 2
"""Utterances of each label in the prompt, chosen from those of suitable length."""

MIN_UTTERANCE_CHARS, MAX_UTTERANCE_CHARS = 20, 120


class ContextReader:
    """Reader of contexts: one call of a language model, with the labels and some utterances."""

    def __init__(self, model: LanguageModel, sets: Mapping[str, LabelSet]) -> None:
        self._model = model
        self._answer_type = _answer_type(sets)
        fields = "\n\n".join(_describe_field(name, sets[name]) for name in CONTEXT_FIELDS)
        self._rules = f"{CONTEXT_RULES}\n{fields}"

    def read(
        self, turn: Turn, known: Context, max_s: float = float("inf")
    ) -> tuple[Context, tuple[str, ...]]:
        """Context of a turn, and marks of failures, within `max_s`.

        `known`, the context without the model, is the fallback if the model fails (`context-llm`)
        or is late (`context-llm-late`), and for single missing or wrong fields
        (`context-llm:FIELD`).
        """
        shown = show_turn(turn, {"Metadata": metadata_text(turn)})
        messages = prompt(self._rules, shown)
        answer, lacking = self._model.try_ask("context", messages, self._answer_type, max_s)
        if answer is None:
            return known, lacking
        fields = answer.model_dump(include=answer.model_fields_set)
        if lacking and all(fields.get(name) is None for name in CONTEXT_FIELDS):
            return known, ("context-llm",)
        return _context(known, fields), lacking


class _TurnLabels(FieldwiseAnswer):
    expected = frozenset((*CONTEXT_FIELDS, "confidence"))


def _answer_type(sets: Mapping[str, LabelSet]) -> type[BaseModel]:
    """Type of an answer: for every field one of its labels, or null."""
    fields: dict[str, Any] = {name: (_label_type(sets[name]), None) for name in CONTEXT_FIELDS}
    fields["confidence"] = (Share, 0.0)
    return create_model(
        "TurnLabels", __base__=_TurnLabels, __doc__="The labels of a turn.", **fields
    )


def _label_type(chosen: LabelSet) -> Any:
    aliases = {alias: name for name, label in chosen.labels.items() for alias in label.aliases}

    def read(answer: object) -> object:
        if not isinstance(answer, str):
            return answer
        label = read_label(answer, chosen.labels, aliases)
        return label or (None if is_null(answer) else answer)

    one_of: Any = Literal
    return Annotated[one_of[tuple(chosen.labels)] | None, BeforeValidator(read)]


def _describe_field(name: str, chosen: LabelSet) -> str:
    lines = [f"{name}:"]
    for label, about in chosen.labels.items():
        fit = [t for t in about.utterances if MIN_UTTERANCE_CHARS <= len(t) <= MAX_UTTERANCE_CHARS]
        shown = "; ".join(json.dumps(t, ensure_ascii=False) for t in fit[:MAX_SHOWN_UTTERANCES])
        lines.append(f"- {label}: {about.description} (as in {shown})" if shown else f"- {label}")
    return "\n".join(lines)


def _context(known: Context, answer: Mapping[str, Any]) -> Context:
    """Context with the model's labels; personal data and missing fields keep known values."""
    labels = {name: answer.get(name, getattr(known, name)) for name in CONTEXT_FIELDS}
    if labels["smalltalk"] is not None:
        labels |= {"intent": None, "domain": None, "need": None, "urgency": "low"}
    held, _, _ = grade_sensitivity(known.entities, ())
    level = labels["sensitivity"] or known.sensitivity
    if held == "pii" and is_above(held, level):
        level = held
    stated: float = answer.get("confidence", known.confidence)
    confidences = {
        name: _confidence(name, labels[name], known, stated) if name in answer else before
        for name, before in known.confidences.items()
    }
    signals = [each for each in known.signals if not each.startswith("out-of-scope:")]
    outside = (n for n in ("intent", "domain") if labels[n] is None and labels["smalltalk"] is None)
    return replace(
        known,
        **labels | {"urgency": labels["urgency"] or "low", "sensitivity": level},
        needs={} if "need" in answer else known.needs,
        confidences=confidences,
        confidence=min(confidences.get("intent", stated), confidences.get("domain", stated)),
        signals=(*signals, *(f"out-of-scope:{name}" for name in outside), MODEL_READ_SIGNAL),
    )


def _confidence(name: str, label: str | None, known: Context, stated: float) -> float:
    """Confidence of a field: at least the classifier's, if the model agrees."""
    before = known.confidences[name]
    return max(before, stated) if getattr(known, name, None) == label else stated
