"""All that was fitted to read turns: features and a classifier a field, kept in one file."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.encoders.base import DenseEncoder, FloatArray
from toolcrib.router.context.classifier import OUTSIDE, Classifier, Prediction, fit_classifier
from toolcrib.router.context.cues import Cues
from toolcrib.router.context.entities import EntityFinder
from toolcrib.router.context.features import Reading, TextFeatures, fit_features, read
from toolcrib.router.context.label_sets import LabelSet

__all__ = [
    "SHIPPED",
    "ContextModel",
    "fit_context",
    "identity_of",
    "read_context",
    "shipped_context",
    "write_context",
]

FORMAT = 1
SHIPPED = Path(__file__).with_name("presets") / "model.npz"

ARRAYS = ("weights", "offsets", "neighbours", "owners", "trust", "thresholds")
HALVED = ("weights", "neighbours")
"""Kept in float16: half the file, and no prediction of the development turns changed."""

OPEN = {
    "smalltalk": ("intent", "domain", "need"),
    "intent": ("smalltalk",),
    "domain": ("smalltalk",),
}
"""Fields whose texts are none of another's: small talk has no intent, no request is small talk."""

BORROWED_EVERY = 3

SHARED = ("format", "encoder", "cues")
"""What all classifiers of a model have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextModel:
    """A classifier for every field, and the features that they share.

    `identity` names the encoder, the label sets and the cues that it was fitted with. `aliases`
    are other words for intents.
    """

    identity: Mapping[str, str]
    features: TextFeatures
    classifiers: Mapping[str, Classifier]
    aliases: Mapping[str, str]

    def predict(self, vector: FloatArray, reading: Reading) -> dict[str, Prediction]:
        """What a text is, field by field; `vector`: float32 [dimensions]."""
        extra = self.features.of(reading)
        return {name: each.predict(vector, extra) for name, each in self.classifiers.items()}


def identity_of(sets: Mapping[str, LabelSet], cues: Cues, dense: DenseEncoder) -> dict[str, str]:
    """What a model fitted now would be fitted with."""
    heard = cues.model_dump_json()
    return {
        "format": str(FORMAT),
        "encoder": dense.name,
        "cues": hashlib.blake2b(heard.encode(), digest_size=16).hexdigest(),
        **{field: chosen.digest for field, chosen in sets.items()},
    }


def fit_context(
    sets: Mapping[str, LabelSet],
    cues: Cues,
    finder: EntityFinder,
    dense: DenseEncoder,
    known: ContextModel | None = None,
) -> ContextModel:
    """Fit a classifier for every field on its utterances: a minute or two of work in all.

    What `known` was fitted with alike is taken from it; its features are, where encoder and
    cues are the same.
    """
    identity = identity_of(sets, cues, dense)
    base = known if known and all(known.identity[n] == identity[n] for n in SHARED) else None
    stale = [f for f in sets if base is None or base.identity.get(f) != identity[f]]
    said = {field: _with_others(field, sets) for field in stale}
    texts = list(dict.fromkeys(text for pairs in said.values() for text, _ in pairs))
    rows = {text: row for row, text in enumerate(texts)}
    readings = [read(text, finder.find(text)) for text in texts]
    features = base.features if base else fit_features(readings, cues)
    vectors = dense.encode_documents(texts)
    extra = [features.of(reading) for reading in readings]
    classifiers = dict(base.classifiers) if base else {}
    for field, pairs in said.items():
        labels = tuple(sets[field].labels)
        places = [rows[text] for text, _ in pairs]
        owners = [OUTSIDE if label is None else labels.index(label) for _, label in pairs]
        classifiers[field] = fit_classifier(
            labels,
            vectors[places],
            np.array(owners, dtype=np.int64),
            np.stack([extra[place] for place in places]),
        )
    intents = sets["intent"].labels.items()
    aliases = {alias: name for name, label in intents for alias in label.aliases}
    return ContextModel(identity, features, classifiers, aliases)


def _with_others(field: str, sets: Mapping[str, LabelSet]) -> list[tuple[str, str | None]]:
    """A field's texts, and as outside of it every third of those that cannot be of it."""
    own = sets[field].texts()
    known = {text for text, _ in own}
    others = [
        text
        for other in OPEN.get(field, ())
        for text, label in sets[other].texts()
        if label is not None and text not in known
    ]
    return [*own, *((text, None) for text in dict.fromkeys(others[::BORROWED_EVERY]))]


def write_context(model: ContextModel) -> bytes:
    """The model as the bytes of a NumPy archive."""
    head = {
        "identity": dict(model.identity),
        "labels": {field: each.labels for field, each in model.classifiers.items()},
        "words": list(model.features.places),
        "aliases": dict(model.aliases),
    }
    arrays: dict[str, Any] = {"rarity": model.features.rarity}
    for field, each in model.classifiers.items():
        for name in ARRAYS:
            kept = getattr(each, name)
            arrays[f"{field}.{name}"] = kept.astype(np.float16) if name in HALVED else kept
    text = json.dumps(head, ensure_ascii=False, sort_keys=True).encode()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, head=np.frombuffer(text, dtype=np.uint8), **arrays)
    return buffer.getvalue()


def read_context(content: bytes, cues: Cues) -> ContextModel:
    """The model that `write_context` wrote; `cues` are those that it was fitted with."""
    with np.load(io.BytesIO(content), allow_pickle=False) as kept:
        head = json.loads(bytes(kept["head"]))
        places = {word: place for place, word in enumerate(head["words"])}
        classifiers = {
            field: Classifier(tuple(labels), *(_full(kept[f"{field}.{n}"]) for n in ARRAYS))
            for field, labels in head["labels"].items()
        }
        features = TextFeatures(cues, places, kept["rarity"])
    return ContextModel(head["identity"], features, classifiers, head["aliases"])


def _full(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype == np.float16 else array


@cache
def shipped_bytes() -> bytes:
    """The model that comes with the package."""
    return SHIPPED.read_bytes()


def shipped_context(cues: Cues) -> ContextModel:
    """The model that comes with the package, for the shipped labels, cues and encoder."""
    return read_context(shipped_bytes(), cues)
