"""Add an intent to the shipped classifier of turns, without training its transformer again.

    python scripts/add_intent.py design

The texts of the intent are in toolcrib/context/presets/intent.yaml. Only the new class of
the head is fitted: the weights of the other classes stay. Run scripts/fit_context.py afterwards.
A complete training (scripts/fit_turns.py) has the intent as it has all others.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from scipy.optimize import minimize

from toolcrib.context.classifier import STRETCH, TURNS, TurnClassifier
from toolcrib.context.labels import label_sets
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.numerics import softmax

L2_PENALTY = 1.0


def fitted_class(
    vectors: Any, belongs: Any, weights: Any, bias: Any
) -> tuple[np.ndarray[Any, Any], float]:
    """Weights and bias of one more class, beside the given classes of a softmax.

    `vectors`: float [texts, dimensions], `belongs`: bool [texts].
    """
    others = vectors @ weights + bias

    def loss(values: Any) -> tuple[float, Any]:
        own = vectors @ values[:-1] + values[-1]
        share = softmax(np.column_stack([own, others]))[:, 0]
        likely = np.clip(np.where(belongs, share, 1 - share), 1e-9, None)
        slope = share - belongs
        total = -np.log(likely).sum() + L2_PENALTY / 2 * (values[:-1] ** 2).sum()
        grown = vectors.T @ slope + L2_PENALTY * values[:-1]
        return float(total), np.append(grown, slope.sum())

    found = minimize(loss, np.zeros(vectors.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1].astype(np.float32), float(found[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("intent")
    intent = parser.parse_args().intent
    path, chosen = TURNS / "head.npz", label_sets({})["intent"]
    with np.load(path, allow_pickle=False) as stored:
        head: dict[str, Any] = dict(stored)
    fields = json.loads(bytes(head["fields"]))
    classes: list[str | None] = fields["intent"]["labels"]
    if intent in classes:
        at = classes.index(intent)
        del classes[at]
        for name, axis in (("intent.weights", 1), ("intent.bias", 0)):
            head[name] = np.delete(head[name], at, axis)
    texts = chosen.texts()
    turns = TurnClassifier(BundledEncoder(TURNS))
    vectors = np.stack([turns.vector(text) for text, _ in texts]) * STRETCH
    belongs = np.array([label == intent for _, label in texts])
    weights, bias = fitted_class(vectors, belongs, head["intent.weights"], head["intent.bias"])
    at = list(chosen.labels).index(intent)
    classes.insert(at, intent)
    head["intent.weights"] = np.insert(head["intent.weights"], at, weights, axis=1)
    head["intent.bias"] = np.insert(head["intent.bias"], at, bias)
    fields["intent"]["digest"] = chosen.digest
    head["fields"] = np.frombuffer(json.dumps(fields, sort_keys=True).encode(), dtype=np.uint8)
    np.savez_compressed(path, **head)


if __name__ == "__main__":
    main()
