"""Train the classifier of turns that ships with the package, on the shipped labels and encoder.

    python scripts/fit_turns.py [--bug-titles FILE]

Run it whenever labels in toolcrib/router/context/presets change; a test fails until then. It takes
the extra `train`. First it is trained on each half of the texts, to learn from the other half how
sure it may be; then on all. `--bug-titles` names titles of public bug reports, one a line, as turns
of intent `debug` (those that ship: 375 of four repositories of the NLBSE 2024 issue reports).
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network import Epoch, Network, pruned
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from toolcrib.encoders.onnx import DEFAULT_MODEL
from toolcrib.router.context.classifier import STRETCH, TURNS
from toolcrib.router.context.labels import CONTEXT_FIELDS, LabelSet, label_sets
from toolcrib.training.export import export

ROOT = Path(__file__).resolve().parents[1]

LAYERS, MAX_TOKENS, BATCH, EPOCHS, RATE = 4, 64, 32, 3, 8e-5
READ_TOKENS = 160
"""Longer texts are read than were trained on: few of those were longer than `MAX_TOKENS`."""

KEPT = ("intent", "sensitivity", "need")
"""The fields that are told; the others are only trained on. Of development turns the domain, which
is what a text is about, was told better by vector and words, and urgency as well, in other
languages better; small talk is left to a classifier that depends more on what else is said."""


def half_of(text: str) -> int:
    """0 or 1: which half a text is in."""
    return zlib.crc32(text.encode()) % 2


def classes(chosen: LabelSet) -> list[str | None]:
    """The classes of a field: its labels, and None where some texts are outside of all."""
    return [*chosen.labels, *([None] if chosen.outside else [])]


def wanted(
    sets: Mapping[str, LabelSet], texts: Sequence[str], bug_titles: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Class of each text in each field; -1 where no label is known."""
    found: dict[str, list[int]] = {}
    for field, chosen in sets.items():
        known = {label: at for at, label in enumerate(classes(chosen))}
        told = {text: known[label] for text, label in chosen.texts()}
        if field == "intent":
            told = dict.fromkeys(bug_titles, known["debug"]) | told
        found[field] = [told.get(text, -1) for text in texts]
    return found


def requests() -> list[str]:
    """What people ask of tools: words that turns have, and utterances may not."""
    files = sorted((ROOT / "data" / "requests").glob("*.jsonl"))
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [json.loads(line)["text"] for line in lines]


def fit(sets: Mapping[str, LabelSet], texts: Sequence[str], bug_titles: Sequence[str]) -> Network:
    """Train on texts and titles."""
    widths = {field: len(classes(chosen)) for field, chosen in sets.items()}
    network = Network(widths, layers=LAYERS, max_tokens=MAX_TOKENS, batch=BATCH, scale=STRETCH)
    shown = [*texts, *bug_titles]
    network.train([Epoch(shown, wanted(sets, shown, bug_titles))] * EPOCHS, rate=RATE)
    return network


def temperature(logits: Any, right: Sequence[int]) -> float:
    """By what logits are divided to be as sure as they are right (Guo et al. 2017)."""
    places = np.flatnonzero(np.array(right) >= 0)
    held, labels = logits[places], np.array(right)[places]

    def loss(scale: float) -> float:
        return -float(np.mean(log_softmax(held / scale, axis=1)[np.arange(len(held)), labels]))

    return float(minimize_scalar(loss, bounds=(0.3, 5.0), method="bounded").x)


def write(
    network: Network,
    sets: Mapping[str, LabelSet],
    temperatures: Mapping[str, float],
    words: Sequence[str],
    out: Path,
) -> None:
    """Write the model folder, which knows the words that two of `words` have."""
    card = {"name": "toolcrib-turns", "max_tokens": READ_TOKENS, "base": DEFAULT_MODEL}
    kept = pruned(network.weights(), words, least=2, positions=READ_TOKENS)
    export(kept, out, card)
    told = {f: {"labels": classes(sets[f]), "digest": sets[f].digest} for f in KEPT}
    arrays: dict[str, Any] = {}
    for field in KEPT:
        weights, bias = network.head(field)
        arrays[f"{field}.weights"] = weights / temperatures[field]
        arrays[f"{field}.bias"] = bias / temperatures[field]
    fields = np.frombuffer(json.dumps(told, sort_keys=True).encode(), dtype=np.uint8)
    np.savez_compressed(out / "head.npz", fields=fields, **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--bug-titles", type=Path)
    parser.add_argument("--out", type=Path, default=TURNS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = label_sets({})
    sets = {field: found[field] for field in CONTEXT_FIELDS}
    texts = list(dict.fromkeys(text for chosen in sets.values() for text, _ in chosen.texts()))
    titles: list[str] = []
    if options.bug_titles:
        titles = options.bug_titles.read_text(encoding="utf-8").splitlines()
    words = [*texts, *requests(), *titles]
    halves = [[text for text in texts if half_of(text) == half] for half in (0, 1)]
    print(f"{len(texts)} texts", flush=True)
    networks = [fit(sets, half, titles) for half in halves]
    parts = [network.told(half) for network, half in zip(networks, halves[::-1], strict=True)]
    told = {field: np.concatenate([part[field] for part in parts]) for field in sets}
    right = wanted(sets, [*halves[1], *halves[0]])
    scales = {field: temperature(told[field], right[field]) for field in KEPT}
    for field in KEPT:
        places = np.flatnonzero(np.array(right[field]) >= 0)
        hits = told[field].argmax(1)[places] == np.array(right[field])[places]
        print(f"{field}: {hits.mean():.3f} of unseen texts, temperature {scales[field]:.2f}")
    write(fit(sets, texts, titles), sets, scales, words, options.out)


if __name__ == "__main__":
    main()
