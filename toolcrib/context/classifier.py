"""Classifiers of a turn: linear heads for single fields, and a small transformer for many.

The classifier of one field has a linear head, a multinomial logistic regression on sentence
vectors, and nearest neighbours. A second regression, over five numbers of head and neighbours,
estimates the probability that the label is right, low for texts outside of all labels. It is fitted
on held-out texts (cross-validation). Both are fitted here, because scikit-learn is no core
dependency: with custom labels, cues or encoders, on the first turn.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from dataclasses import fields as parts_of
from functools import cache, lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from toolcrib.encoders.base import DenseEncoder, FloatArray
from toolcrib.encoders.onnx import BundledEncoder, MultilingualEncoder, usable_cores
from toolcrib.errors import EncoderError
from toolcrib.numerics import fit_logistic, sigmoid, softmax

Labels = NDArray[np.int64]

OUTSIDE = -1

_VECTOR_SCALE_BESIDE_INPUTS = 4.0
"""Scale of unit vectors before the regression, which sets their weight beside the other inputs."""

_VECTOR_SCALE_ALONE = 16.0
"""Scale of unit vectors without other inputs."""

_L2_PENALTY = 5.0
_DESCENT_STEPS = 150
_CROSS_VALIDATION_FOLDS = 5
_MIN_SHARE = 1e-6
_POWER_ITERATIONS = 30
_EIGENVALUE_MARGIN = 1.1
MIN_HELD_OUT_LABELS = 8
"""Minimum number of labels for holding out whole labels, as examples of out-of-scope texts."""

_EVIDENCE_FEATURES = 4
_NEAREST_TEXTS = 3
MAX_KEPT_TEXTS = 100
"""Utterances of a label that are neighbours; more rarely add a nearer one."""

_REFUSAL_COST = 2.0
"""Cost of refusing a right label, relative to accepting a wrong one."""

_MIN_LABEL_TEXTS = 8
"""Minimum number of utterances with a predicted label for a threshold of its own."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Label (None: out of scope), the probability that it is right, and all labels' shares."""

    label: str | None
    confidence: float
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """Fitted classifier over `labels`.

    `weights`: float32 [inputs, classes], `offsets`: float32 [classes]; a last class beyond the
    labels stands for texts outside of all. `neighbours`: float32 [n, dimensions], vectors of
    utterances, `owners`: int64 [n], their labels. `trust`: float64 [5], the weights of the second
    regression with its offset last. `thresholds`: float64 [labels], minimum probability of each
    label.
    """

    labels: tuple[str, ...]
    weights: FloatArray
    offsets: FloatArray
    neighbours: FloatArray
    owners: Labels
    trust: NDArray[np.float64]
    thresholds: NDArray[np.float64]

    def predict(self, vector: FloatArray, extra: FloatArray | None = None) -> Prediction:
        """Predict a text's label; `vector`: float32 [dimensions], `extra`: inputs as fitted."""
        inputs = _inputs(vector[None, :], None if extra is None else extra[None, :])[0]
        logits = inputs @ self.weights + self.offsets
        known = len(self.labels)
        shares = softmax(logits[None, :])[0]
        chosen = int(shares[:known].argmax())
        near = self.neighbours @ vector
        evidence = _evidence(logits[None, :], near[None, :], self.owners, known)
        sure = sigmoid(float((evidence @ self.trust[:-1])[0] + self.trust[-1]))
        believed = sure >= self.thresholds[chosen]
        label = self.labels[chosen] if believed else None
        return Prediction(label, sure, tuple(shares[:known].tolist()))


def fit_classifier(
    labels: Sequence[str],
    vectors: FloatArray,
    owners: Labels,
    extra: FloatArray | None = None,
) -> Classifier:
    """Fit on utterances: `vectors` float32 [n, d], `owners` int64 [n], -1 for no label.

    `extra`: float32 [n, m], further inputs of the head. Without texts outside of the labels, and
    with fewer than eight labels, every text belongs to some label.
    """
    known = len(labels)
    inputs = _inputs(vectors, extra)
    is_open = bool((owners == OUTSIDE).any()) or known >= MIN_HELD_OUT_LABELS
    weights, offsets = _fit_head(inputs, owners, known)
    evidence, chosen, right = _cross_validate(inputs, vectors, owners, known, is_open)
    with_offset: NDArray[np.float64] = np.column_stack([evidence, np.ones(len(evidence))])
    trust = fit_logistic(with_offset, right, ridge=1.0)
    sure = sigmoid(with_offset @ trust)
    thresholds = _thresholds(sure, chosen, right, known) if is_open else np.zeros(known)
    kept = _spaced_positions(owners, known) if is_open else np.empty(0, dtype=np.int64)
    return Classifier(
        tuple(labels), weights, offsets, vectors[kept], owners[kept], trust, thresholds
    )


def _inputs(vectors: FloatArray, extra: FloatArray | None) -> FloatArray:
    """Inputs of the head: vectors, scaled less if there are other inputs."""
    return (
        vectors * _VECTOR_SCALE_ALONE
        if extra is None
        else np.hstack([vectors * _VECTOR_SCALE_BESIDE_INPUTS, extra])
    )


def _fit_head(inputs: FloatArray, owners: Labels, known: int) -> tuple[FloatArray, FloatArray]:
    """Multinomial logistic regression with an L2 penalty, by accelerated gradient descent.

    Nesterov 1983, with the fixed step that the loss's curvature allows; deterministic.
    """
    classes = known + int((owners == OUTSIDE).any())
    count = len(inputs)
    rows = np.hstack([inputs, np.ones((count, 1), dtype=np.float32)]).astype(np.float32)
    wanted = np.eye(classes, dtype=np.float32)[np.where(owners == OUTSIDE, known, owners)]
    curvature = 0.5 * _largest_eigenvalue(rows) / count + _L2_PENALTY / count
    weights = np.zeros((rows.shape[1], classes), dtype=np.float32)
    ahead, momentum = weights, 1.0
    for _ in range(_DESCENT_STEPS):
        slope = rows.T @ (softmax(rows @ ahead) - wanted) / count + _L2_PENALTY / count * ahead
        moved = (ahead - slope / curvature).astype(np.float32)
        grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = (moved + (momentum - 1) / grown * (moved - weights)).astype(np.float32)
        weights, momentum = moved, grown
    return weights[:-1], weights[-1]


def _largest_eigenvalue(rows: FloatArray) -> float:
    """Estimate the largest eigenvalue of `rows.T @ rows` from above, by power iteration."""
    vector = np.ones(rows.shape[1], dtype=np.float32)
    length = 0.0
    for _ in range(_POWER_ITERATIONS):
        vector = rows.T @ (rows @ vector)
        length = float(np.linalg.norm(vector))
        vector /= max(length, _MIN_SHARE)
    return _EIGENVALUE_MARGIN * length


def _cross_validate(
    inputs: FloatArray,
    vectors: FloatArray,
    owners: Labels,
    known: int,
    is_open: bool,  # noqa: FBT001 -- private, and named where it is called
) -> tuple[NDArray[np.float64], Labels, NDArray[np.bool_]]:
    """Cross-validate heads: evidence, choice and correctness of held-out texts.

    With many labels, every fold also holds out whole labels, whose texts are out of scope.
    """
    order = np.random.default_rng(0).permutation(len(owners))
    fold_of = np.empty(len(owners), dtype=np.int64)
    fold_of[order] = np.arange(len(owners)) % _CROSS_VALIDATION_FOLDS
    hidden_in = np.arange(known) % _CROSS_VALIDATION_FOLDS
    evidence: list[NDArray[np.float64]] = [np.empty((0, _EVIDENCE_FEATURES))]
    chosen: list[Labels] = [np.empty(0, np.int64)]
    right: list[NDArray[np.bool_]] = [np.empty(0, np.bool_)]
    for fold in range(_CROSS_VALIDATION_FOLDS):
        hidden = np.zeros(len(owners), dtype=np.bool_)
        if known >= MIN_HELD_OUT_LABELS:
            hidden = (owners != OUTSIDE) & (hidden_in[owners] == fold)
        unseen = (fold_of == fold) | (hidden & (fold_of == (fold + 1) % _CROSS_VALIDATION_FOLDS))
        seen = ~unseen & ~hidden
        inside = seen & (owners != OUTSIDE)
        if not inside.any() or not unseen.any():
            continue
        kept, places = np.unique(owners[inside], return_inverse=True)
        renumber = np.full(known + 1, OUTSIDE, dtype=np.int64)  # the last is OUTSIDE's own place
        renumber[kept] = np.arange(len(kept))
        weights, offsets = _fit_head(inputs[seen], renumber[owners[seen]], len(kept))
        logits = inputs[unseen] @ weights + offsets
        pool = np.flatnonzero(inside)[_spaced_positions(places, len(kept))][
            : None if is_open else 0
        ]
        near = vectors[unseen] @ vectors[pool].T
        evidence.append(_evidence(logits, near, renumber[owners[pool]], len(kept)))
        picked = kept[logits[:, : len(kept)].argmax(axis=1)]
        chosen.append(picked)
        right.append((picked == owners[unseen]) & ~hidden[unseen])
    return np.concatenate(evidence), np.concatenate(chosen), np.concatenate(right)


def _evidence(
    logits: FloatArray, near: FloatArray, owners: Labels, known: int
) -> NDArray[np.float64]:
    """Evidence of each text: best logit, its log-share, cosines to nearest texts and own label."""
    shares = softmax(logits)
    chosen = logits[:, :known].argmax(axis=1)
    rows = np.arange(len(logits))
    columns = [logits[rows, chosen], np.log(np.maximum(shares[rows, chosen], _MIN_SHARE))]
    if near.shape[1]:
        of_chosen = np.where(owners[None, :] == chosen[:, None], near, -1.0)
        count = min(_NEAREST_TEXTS, near.shape[1])
        own = -np.partition(-of_chosen, count - 1, axis=1)[:, :count]
        columns += [
            near.max(axis=1) * _VECTOR_SCALE_BESIDE_INPUTS,
            np.clip(own, 0, None).mean(axis=1) * _VECTOR_SCALE_BESIDE_INPUTS,
        ]
    else:
        columns += [np.zeros(len(logits))] * 2
    return np.column_stack(columns).astype(np.float64)


def _spaced_positions(owners: Labels, known: int) -> Labels:
    """Positions of at most `MAX_KEPT_TEXTS` texts of each label, evenly spaced."""
    found: list[Labels] = []
    for label in range(known):
        own = np.flatnonzero(owners == label)
        step = np.linspace(0, len(own) - 1, min(len(own), MAX_KEPT_TEXTS))
        found.append(own[step.astype(np.int64)])
    return np.concatenate(found)


def _thresholds(
    sure: NDArray[np.float64], chosen: Labels, right: NDArray[np.bool_], known: int
) -> NDArray[np.float64]:
    """Threshold of each label with the least cost on held-out texts."""
    overall = _best_threshold(sure, right)
    thresholds = np.full(known, overall)
    for label in range(known):
        given = chosen == label
        if given.sum() >= _MIN_LABEL_TEXTS:
            # The mean with the common threshold, because few texts estimate a threshold badly.
            thresholds[label] = (overall + _best_threshold(sure[given], right[given])) / 2
    return thresholds


def _best_threshold(sure: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    order = np.argsort(sure)
    values, good = sure[order], right[order]
    # Rejecting the first i texts gains 1 for each wrong label, and costs for each right one.
    gained = np.concatenate([[0], np.cumsum(np.where(good, -_REFUSAL_COST, 1))])
    cut = int(gained.argmax())
    # Between the last rejected text and the first accepted one, if there is one.
    return float(values[cut - 1 : cut + 1].mean()) if cut else 0.0


# -- many fields at once ---------------------------------------------------------------------------

TURNS = Path(__file__).with_name("presets") / "turns"

STRETCH = 12.0
"""Factor of unit vectors before the softmax."""

MAX_READ_CHARS = 320

HEAD_FILE = "head.npz"


@dataclass(frozen=True, slots=True, eq=False)
class TokenPooling:
    """Pooling of a text's tokens by learned queries (structured self-attention, Lin et al. 2017).

    `queries`: float32 [dimensions, queries]; `values`, of each token, and `whole`, of the text:
    float32 [dimensions + 1, width], the offsets last.
    """

    queries: FloatArray
    values: FloatArray
    whole: FloatArray

    def __call__(self, vector: FloatArray, tokens: FloatArray) -> FloatArray:
        """Pool: `vector` float32 [dimensions], `tokens` [n, dimensions]; [(queries + 1) width]."""
        values = np.maximum(tokens @ self.values[:-1] + self.values[-1], 0)
        pooled = softmax((tokens @ self.queries).T) @ values
        whole = np.maximum(vector @ self.whole[:-1] + self.whole[-1], 0)
        return np.concatenate([pooled.ravel(), whole])


class TurnClassifier:
    """Classifier of several fields by a small transformer; thread-safe.

    The shipped one was trained from the shipped encoder: the mean of its token vectors, then a
    softmax for each field. A frozen encoder needs pooling of its tokens (`TokenPooling`).
    scripts/fit_turns.py trains both. The encoder's folder holds `head.npz`: `fields`, JSON of each
    field's labels (null: outside of all) and the digest of its label set; by field `weights`
    float32 [inputs, classes] and `bias` float32 [classes]; and the pooling, if any.

    Raises:
        EncoderError: the head cannot be read.
    """

    def __init__(self, encoder: BundledEncoder) -> None:
        self._encoder = encoder
        path = encoder.folder / HEAD_FILE
        try:
            with np.load(path, allow_pickle=False) as head:
                fields = json.loads(bytes(head["fields"]))
                kept = {name: head[name].astype(np.float32) for name in head if name != "fields"}
            self._weights = np.hstack([kept[f"{name}.weights"] for name in fields])
            self._bias = np.concatenate([kept[f"{name}.bias"] for name in fields])
            pooling = [kept[each.name] for each in parts_of(TokenPooling) if each.name in kept]
            self._pooling = TokenPooling(*pooling) if pooling else None
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise EncoderError(f"{path} cannot be read: {error}") from error
        self._classes = {name: tuple(field["labels"]) for name, field in fields.items()}
        self._ends = np.cumsum([len(each) for each in self._classes.values()])[:-1]
        self.digests: Mapping[str, str] = {name: field["digest"] for name, field in fields.items()}
        self.labels = {
            name: tuple(each for each in classes if each is not None)
            for name, classes in self._classes.items()
        }
        self._ahead: tuple[tuple[int, str], Future[dict[str, Prediction]]] | None = None

    def begin(self, text: str) -> None:
        """Start to predict in another thread; `predict` of the same text then waits for it.

        Only one text at a time: on busy cores more threads gain nothing.
        """
        begun, process = self._ahead, os.getpid()
        # In a fork a prediction that its parent began never ends.
        is_busy = begun is not None and begun[0][0] == process and not begun[1].done()
        if usable_cores() > 1 and not is_busy:
            self._ahead = (process, text), _thread_of(process).submit(self._predict, text)

    def predict(self, text: str) -> dict[str, Prediction]:
        """Likeliest label of each field of a text, and the probability of each label."""
        begun = self._ahead
        if begun is None or begun[0] != (os.getpid(), text):
            return self._predict(text)
        # Taken once: a failure must not outlive the turn, nor the turn's text.
        self._ahead = None
        return begun[1].result()

    def _predict(self, text: str) -> dict[str, Prediction]:
        logits = self.vector(text) * STRETCH @ self._weights + self._bias
        return {
            name: _likeliest(labels, softmax(part[None, :])[0])
            for (name, labels), part in zip(
                self._classes.items(), np.split(logits, self._ends), strict=True
            )
        }

    def vector(self, text: str) -> FloatArray:
        """Encode a text, float32 [inputs]; of a long text the head and tail."""
        if len(text) <= 2 * MAX_READ_CHARS:
            return self._encode(text)
        ends = text[:MAX_READ_CHARS], text[-MAX_READ_CHARS:]
        return np.mean([self._encode(each) for each in ends], axis=0)

    def _encode(self, text: str) -> FloatArray:
        if self._pooling is None:
            return self._encoder.encode_query(text)
        return self._pooling(*self._encoder.encode_tokens(text))


def _likeliest(labels: Sequence[str | None], shares: FloatArray) -> Prediction:
    known = tuple(float(s) for s, label in zip(shares, labels, strict=True) if label is not None)
    return Prediction(labels[int(shares.argmax())], max(known), known)


@lru_cache(maxsize=1)
def _thread_of(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 -- a fork needs its own
    """Thread of a process that predicts ahead; starting one for each turn takes 0.2 ms."""
    return ThreadPoolExecutor(1, "toolcrib-turn")


@cache
def shipped_turn_classifier() -> TurnClassifier:
    """Classifier of turns that ships with the package."""
    return TurnClassifier(BundledEncoder(TURNS))


@lru_cache(maxsize=2)
def other_turn_classifier(dense: DenseEncoder) -> TurnClassifier | None:
    """Classifier of turns in languages that the shipped one does not read; None without."""
    return TurnClassifier(dense.other) if isinstance(dense, MultilingualEncoder) else None
