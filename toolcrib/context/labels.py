"""Labels: values of the context's fields, with example utterances."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from toolcrib.context.cues import load_cues
from toolcrib.errors import SettingsError, did_you_mean, nearest
from toolcrib.records.codec import FrozenModel, read_yaml
from toolcrib.records.scope import SENSITIVITIES
from toolcrib.records.tools import Text, Texts

CONTEXT_FIELDS = ("intent", "domain", "urgency", "sensitivity", "smalltalk", "need")
"""Fields of a context that are classified by labelled utterances."""

_PRESETS = Path(__file__).with_name("presets")


class Label(FrozenModel):
    """Value of a field; `aliases`: other words for the label in maps."""

    description: Text = ""
    aliases: Texts = ()
    utterances: Texts = ()


class LabelSet(FrozenModel):
    """All labels of a field, in their order; `outside` are utterances that fit no label."""

    labels: dict[str, Label] = Field(min_length=2)
    outside: Texts = ()

    @model_validator(mode="after")
    def _every_label_has_utterances(self) -> LabelSet:
        silent = [name for name, label in self.labels.items() if not label.utterances]
        if silent:
            raise ValueError(f"{', '.join(silent)}: give at least one utterance")
        return self

    @property
    def digest(self) -> str:
        """Hex digest of the label set."""
        return hashlib.blake2b(self.model_dump_json().encode(), digest_size=16).hexdigest()

    def texts(self) -> list[tuple[str, str | None]]:
        """Every utterance with its label, None for utterances outside."""
        labelled = [(t, name) for name, label in self.labels.items() for t in label.utterances]
        return [*labelled, *((text, None) for text in self.outside)]


def read_label_set(file: str | Path, field: str) -> LabelSet:
    """Label set of a YAML file.

    Raises:
        SettingsError: the file is missing, no YAML, or no label set; the message names the place.
    """
    chosen = read_yaml(file, LabelSet, f"the labels of {field}")
    if field == "sensitivity" and tuple(chosen.labels) != SENSITIVITIES:
        raise SettingsError(
            f"the labels of {field} {str(file)!r}: the labels must be "
            f"{', '.join(SENSITIVITIES)}, in this order, because ceilings "
            "are compared with them; change only their utterances"
        )
    return chosen


def label_sets(files: Mapping[str, str | Path]) -> dict[str, LabelSet]:
    """Label set of every field: of its file if one is named, or else the shipped one.

    Raises:
        SettingsError: an unknown field, or a file that cannot be used.
    """
    if unknown := sorted(files.keys() - set(CONTEXT_FIELDS)):
        raise SettingsError(
            f"context.labels: there is no field {unknown[0]!r}; there are "
            f"{', '.join(CONTEXT_FIELDS)}"
        )
    return {
        field: read_label_set(files[field], field) if field in files else _preset(field)
        for field in CONTEXT_FIELDS
    }


def map_labels(
    files: Mapping[str, str | Path], cues: str | Path | None = None
) -> dict[str, list[str]]:
    """Domains and intents that a turn can have, with their aliases, for checks of maps."""
    own = load_cues(cues) if cues else None
    by_cues = {"domain": own.domains, "intent": own.intents} if own else {}
    found: dict[str, list[str]] = {}
    for field in ("domain", "intent"):
        labels = read_label_set(files.get(field, _PRESETS / f"{field}.yaml"), field).labels.items()
        names = [each for name, label in labels for each in (name, *label.aliases)]
        found[field] = [*by_cues.get(field, ()), *names]
    return found


def unknown_labels(
    pairs: Iterable[tuple[str, tuple[str, str | None]]], known: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Find unknown domains and intents in places of the settings: error and field of each."""
    for where, pair in dict.fromkeys(pairs):
        for field, label in zip(("domain", "intent"), pair, strict=True):
            if label is not None and label not in known[field]:
                meant = did_you_mean(nearest(label, known[field]))
                error = f"{where} names the {field} {label!r}, which no turn can have"
                yield f"{error}{meant or '; known are ' + ', '.join(known[field])}", field


@cache
def _preset(field: str) -> LabelSet:
    """Shipped labels of a field, with the texts of `said.jsonl`, labelled in all fields."""
    own = read_label_set(_PRESETS / f"{field}.yaml", field)
    labelled = [(str(turn["text"]), turn[field]) for turn in _labelled_turns() if field in turn]
    labels = {
        name: label.model_copy(
            update={
                "utterances": (*label.utterances, *(t for t, given in labelled if given == name))
            }
        )
        for name, label in own.labels.items()
    }
    outside = (*own.outside, *(text for text, given in labelled if given is None))
    return LabelSet(labels=labels, outside=outside)


@cache
def _labelled_turns() -> list[dict[str, str | None]]:
    lines = (_PRESETS / "said.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
