"""Train the classifier of turns that ships with the package, on the shipped labels and encoder.

    python scripts/fit_turns.py [--bug-titles FILE]
    python scripts/fit_turns.py --folder FOLDER

Run it whenever labels in toolcrib/context/presets change; a test fails until then. It takes
the extra `train`. First it is trained on each half of the texts, to learn from the other half how
sure it may be; then on all. `--bug-titles` names titles of public bug reports, one a line, as turns
of intent `debug` (those that ship: 375 of four repositories of the NLBSE 2024 issue reports).
With `--folder` the encoder in there stays as it is: its tokens are pooled, by queries that are
learned together with the heads, also from the training lines of data/multilingual. A line has the
labels of its English line, if that has any, and the shares that the classifier that ships gives it
(knowledge distillation, Hinton et al. 2015).
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from multilingual_data import english_rows, training_lines
from network import Epoch, Network, pruned
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from toolcrib.context.classifier import HEAD_FILE, STRETCH, TURNS, shipped_turn_classifier
from toolcrib.context.labels import CONTEXT_FIELDS, LabelSet, label_sets
from toolcrib.context.model import with_others
from toolcrib.encoders.onnx import DEFAULT_MODEL, BundledEncoder, usable_cores
from toolcrib.training.export import export

ROOT = Path(__file__).resolve().parents[1]

LAYERS, MAX_TOKENS, BATCH, EPOCHS, RATE = 4, 64, 32, 3, 8e-5
READ_TOKENS = 160
"""Longer texts are read than were trained on: few of those were longer than `MAX_TOKENS`."""

KEPT = ("intent", "sensitivity", "need")
"""The fields that are told; the others are only trained on. Of development turns the domain, which
is what a text is about, was told better by vector and words, and urgency as well, in other
languages better; small talk is left to a classifier that depends more on what else is said."""


QUERIES, WIDTH, DROPOUT = 8, 128, 0.2
POOLED_BATCH, POOLED_EPOCHS, POOLED_RATE = 64, 7, 2e-3
UNLABELLED_EVERY = 3
"""Of training lines without labels, one in so many is taught."""

TOKENS_SCALE = 8.0
"""What the encoder's vectors are stretched by, so that the first weights are of use."""

NEED_SCALE = 0.5
"""Share of its temperature that the need has beside an encoder: the route's constants were fitted
to needs that are surer. Of 0.3, 0.5, 0.7 and 1, development turns in other languages are routed
best with 0.3 and 0.5."""

LABELLED = ("said", "turn", "everyday")
"""Kinds of the lines in other languages whose English line has labels of a turn."""

ROUTE_NEEDS = {"tools": "act", "knowledge": "know", "both": "both", "general": "neither"}
"""Need of a turn that has a route as its label."""


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


def _texts_of(sets: Mapping[str, LabelSet]) -> list[str]:
    return list(dict.fromkeys(text for chosen in sets.values() for text, _ in chosen.texts()))


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


class PooledNetwork:
    """Pools the tokens of an encoder that stays as it is; a softmax for each field.

    `encoded`: the vectors of each text and of its tokens.
    """

    def __init__(self, encoded: Mapping[str, tuple[Any, Any]], widths: Mapping[str, int]) -> None:
        torch.manual_seed(0)
        self._encoded, size = encoded, len(next(iter(encoded.values()))[0])
        self._queries = torch.nn.Linear(size, QUERIES, bias=False)
        self._values = torch.nn.Linear(size, WIDTH)
        self._whole = torch.nn.Linear(size, WIDTH)
        self._drop = torch.nn.Dropout(DROPOUT)
        inputs = (QUERIES + 1) * WIDTH
        self._heads = {name: torch.nn.Linear(inputs, count) for name, count in widths.items()}
        self._layers = (self._queries, self._values, self._whole, *self._heads.values())

    def logits(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Logits of each field: float32 [texts, classes]."""
        read = [self._tokens(text) for text in texts]
        tokens = torch.nn.utils.rnn.pad_sequence([each for _, each in read], batch_first=True)
        absent = torch.tensor([[n >= len(t) for n in range(tokens.shape[1])] for _, t in read])
        shares = self._queries(tokens).masked_fill(absent[..., None], -1e9).softmax(1)
        values = torch.relu(self._values(self._drop(tokens)))
        pooled = torch.einsum("btq,btw->bqw", shares, values).flatten(1)
        whole = torch.relu(self._whole(self._drop(torch.stack([each for each, _ in read]))))
        inputs = self._drop(torch.cat([pooled, whole], 1))
        return {name: head(inputs) for name, head in self._heads.items()}

    def _tokens(self, text: str) -> tuple[Any, Any]:
        vector, tokens = self._encoded[text]
        return vector.float() * TOKENS_SCALE, tokens.float() * TOKENS_SCALE

    def train(
        self,
        texts: Sequence[str],
        right: Mapping[str, Sequence[int]],
        shares: Mapping[str, Any],
    ) -> None:
        """Train on texts with the class of each in each field, -1 where it is not known.

        `shares`: shares of the classes that another classifier gives: float32 [texts, classes].
        """
        weights = [weight for layer in self._layers for weight in layer.parameters()]
        optimizer = torch.optim.AdamW(weights, lr=POOLED_RATE, weight_decay=0.05)
        rng, step = np.random.default_rng(0), 0
        steps = POOLED_EPOCHS * -(-len(texts) // POOLED_BATCH)
        self._drop.train()
        for _ in range(POOLED_EPOCHS):
            sizes = [len(text) + 30 * rng.random() for text in texts]
            order = np.argsort(sizes)
            batches = [order[at : at + POOLED_BATCH] for at in range(0, len(order), POOLED_BATCH)]
            for number in rng.permutation(len(batches)):
                batch, step = batches[number], step + 1
                rate = POOLED_RATE * min(step / 50, max(0.02, 1 - step / steps))
                optimizer.param_groups[0]["lr"] = rate
                found = self.logits([texts[row] for row in batch])
                losses = []
                for name, logits in found.items():
                    classes = torch.tensor([right[name][row] for row in batch])
                    losses.append(
                        torch.nn.functional.cross_entropy(
                            logits, classes, ignore_index=-1, label_smoothing=0.05, reduction="sum"
                        )
                    )
                    if name in shares:
                        losses.append(-(shares[name][batch] * logits.log_softmax(1)).sum())
                loss = torch.stack(losses).sum() / len(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self._drop.eval()

    def told(self, texts: Sequence[str]) -> dict[str, Any]:
        """Logits of each field: float32 [texts, classes]."""
        with torch.no_grad():
            parts = [self.logits([text]) for text in texts]
        return {name: np.concatenate([part[name].numpy() for part in parts]) for name in parts[0]}

    def arrays(self, temperatures: Mapping[str, float]) -> dict[str, Any]:
        """Weights as `TurnClassifier` reads them."""
        found: dict[str, Any] = {
            "queries": _of(self._queries.weight).T * TOKENS_SCALE,
            "values": np.vstack(
                [_of(self._values.weight).T * TOKENS_SCALE, _of(self._values.bias)]
            ),
            "whole": np.vstack([_of(self._whole.weight).T * TOKENS_SCALE, _of(self._whole.bias)]),
        }
        for name, head in self._heads.items():
            # Rounded to float16: half the file.
            found[f"{name}.weights"] = _of(head.weight).T / (STRETCH * temperatures[name])
            found[f"{name}.bias"] = _of(head.bias) / temperatures[name]
        return found


def _of(weights: Any) -> Any:
    return weights.detach().numpy()


def translations(
    lines: Sequence[Mapping[str, str]], sets: Mapping[str, LabelSet]
) -> dict[str, dict[str, str | None]]:
    """Training turns in other languages, with the labels that they have in English."""
    known: dict[str, dict[str, str | None]] = {}
    for name, row in english_rows().items():
        kind, labels = name.partition(":")[0], row
        if kind == "turn":
            need = ROUTE_NEEDS.get(row["labels"]["route"], "")
            labels = {"need": need, "smalltalk": None, **row["labels"]}
        if kind in LABELLED:
            known[name] = {field: told for field, told in labels.items() if field in sets}
    return {line["text"]: known[line["id"]] for line in lines if known.get(line["id"])}


def some_others(texts: Collection[str], labelled: Collection[str]) -> list[str]:
    """One in `UNLABELLED_EVERY` of the texts without labels."""
    others = (text for text in texts if text not in labelled)
    return [text for text in others if not zlib.crc32(text.encode()) % UNLABELLED_EVERY]


def taught_shares(sets: Mapping[str, LabelSet], english: Sequence[str]) -> dict[str, Any]:
    """Shares of the classes by the classifier that ships: float32 [texts, classes] by field."""
    told = {text: shipped_turn_classifier().predict(text) for text in dict.fromkeys(english)}
    found: dict[str, Any] = {}
    for field in KEPT:
        shares = np.array([told[text][field].shares for text in english], dtype=np.float32)
        if sets[field].outside:
            shares = np.column_stack([shares, np.maximum(0, 1 - shares.sum(1))])
        found[field] = torch.from_numpy(shares)
    return found


def encode(encoder: BundledEncoder, texts: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Vectors of texts and of their tokens; float16, since all lie in memory."""

    def halves(text: str) -> tuple[Any, Any]:
        whole, tokens = encoder.encode_tokens(text)
        return torch.from_numpy(whole).half(), torch.from_numpy(tokens).half()

    with ThreadPoolExecutor(usable_cores()) as pool:
        return dict(zip(texts, pool.map(halves, texts), strict=True))


def fit_beside(folder: Path, sets: Mapping[str, LabelSet]) -> None:
    """Fit heads over the tokens of the encoder in a folder, and write them beside it."""
    lines = list(training_lines())
    english = {line["text"]: line["en"] for line in lines}
    others = translations(lines, sets)
    # What is no small talk: requests, also with small talk beside them.
    smalltalk = dict(with_others("smalltalk", sets))
    texts = list(dict.fromkeys([*_texts_of(sets), *smalltalk, *others]))
    all_texts = [*texts, *some_others(english, {*texts})]
    right = wanted(sets, all_texts)
    for field, chosen in sets.items():
        known = {label: at for at, label in enumerate(classes(chosen))}
        own = {text: labels[field] for text, labels in others.items() if field in labels}
        own = (smalltalk if field == "smalltalk" else {}) | own
        for row, text in enumerate(all_texts):
            right[field][row] = known.get(own[text], -1) if text in own else right[field][row]
    # A text is in one half in all languages.
    half = [half_of(english.get(text, text)) for text in texts]
    halves = [np.flatnonzero(np.array(half) == each).tolist() for each in (0, 1)]
    widths = {field: len(classes(chosen)) for field, chosen in sets.items()}
    encoded = encode(BundledEncoder(folder, threads=1), all_texts)
    print(f"{len(encoded)} texts", flush=True)
    told: list[dict[str, Any]] = []
    for rows, other in zip(halves, halves[::-1], strict=True):
        network = PooledNetwork(encoded, widths)
        chosen = {field: [each[row] for row in rows] for field, each in right.items()}
        network.train([texts[row] for row in rows], chosen, {})
        told.append(network.told([texts[row] for row in other]))
    # What is taught by shares is as sure as its teacher.
    scales = dict.fromkeys(sets, 1.0) | {"need": NEED_SCALE}
    for field in sets.keys() - {*KEPT}:
        logits = np.concatenate([part[field] for part in told])
        classes_of = [right[field][row] for row in (*halves[1], *halves[0])]
        scales[field] = temperature(logits, classes_of)
        report(field, logits, classes_of, scales[field])
    # Beside what is taught by shares, the other fields were told worse with the same pooling.
    by_labels = PooledNetwork(encoded, {f: n for f, n in widths.items() if f not in KEPT})
    by_labels.train(texts, {field: each[: len(texts)] for field, each in right.items()}, {})
    by_shares = PooledNetwork(encoded, {field: widths[field] for field in KEPT})
    shares = taught_shares(sets, [english.get(text, text) for text in all_texts])
    by_shares.train(all_texts, right, shares)
    arrays = join_arrays(by_labels.arrays(scales), by_shares.arrays(scales))
    write_head(folder, sets, {name: np.float16(each) for name, each in arrays.items()})


def join_arrays(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of two networks as those of one, whose heads leave the other's pooling aside."""
    found: dict[str, Any] = {
        part: np.hstack([first[part], second[part]]) for part in ("queries", "values", "whole")
    }
    for number, arrays in enumerate((first, second)):
        for name, weights in arrays.items():
            if name.endswith(".bias"):
                found[name] = weights
            elif name.endswith(".weights"):
                wide = np.zeros((2 * QUERIES + 1, 2 * WIDTH, weights.shape[1]), weights.dtype)
                own = weights.reshape(QUERIES + 1, WIDTH, -1)
                columns = slice(number * WIDTH, (number + 1) * WIDTH)
                wide[number * QUERIES : (number + 1) * QUERIES, columns] = own[:-1]
                wide[-1, columns] = own[-1]
                found[name] = wide.reshape(-1, weights.shape[1])
    return found


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
    arrays: dict[str, Any] = {}
    for field in KEPT:
        weights, bias = network.head(field)
        arrays[f"{field}.weights"] = weights / temperatures[field]
        arrays[f"{field}.bias"] = bias / temperatures[field]
    write_head(out, {field: sets[field] for field in KEPT}, arrays)


def write_head(folder: Path, sets: Mapping[str, LabelSet], arrays: Mapping[str, Any]) -> None:
    """Write the heads of fields into the folder of their encoder."""
    told = {f: {"labels": classes(chosen), "digest": chosen.digest} for f, chosen in sets.items()}
    fields = np.frombuffer(json.dumps(told, sort_keys=True).encode(), dtype=np.uint8)
    np.savez_compressed(folder / HEAD_FILE, fields=fields, **arrays)


def report(field: str, logits: Any, right: Sequence[int], scale: float) -> None:
    """Print how often the texts that were not trained on are told right."""
    places = np.flatnonzero(np.array(right) >= 0)
    hits = logits.argmax(1)[places] == np.array(right)[places]
    print(f"{field}: {hits.mean():.3f} of unseen texts, temperature {scale:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--bug-titles", type=Path)
    parser.add_argument("--out", type=Path, default=TURNS)
    parser.add_argument("--folder", type=Path, help="fit heads over the encoder in there instead")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = label_sets({})
    sets = {field: found[field] for field in CONTEXT_FIELDS}
    if options.folder:
        fit_beside(options.folder, sets)
        return
    texts = _texts_of(sets)
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
        report(field, told[field], right[field], scales[field])
    write(fit(sets, texts, titles), sets, scales, words, options.out)


if __name__ == "__main__":
    main()
