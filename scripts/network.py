"""Network of a classifier that ships: the first layers of the bundled encoder, and its heads.

It is trained on a GPU where there is one.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.training.export import (
    POSITION_EMBEDDINGS,
    WORD_EMBEDDINGS,
    Weights,
    restore,
    write_for_training,
)

PATIENCE = 200
"""A line every so many steps."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What is trained on once: texts, for each head the class of each, and how much each counts.

    A class is negative where it is not known. Without `weights` all count alike.
    """

    texts: Sequence[str]
    wanted: Mapping[str, Sequence[int]]
    weights: Sequence[float] | None = None


class Network:
    """A transformer and, for each of `heads`, a softmax over so many classes.

    `scale`: what unit vectors are stretched by before the heads. `start`: other weights to begin
    with than the bundled encoder's.
    """

    def __init__(
        self,
        heads: Mapping[str, int],
        *,
        layers: int,
        max_tokens: int,
        batch: int,
        scale: float,
        start: Weights | None = None,
    ) -> None:
        torch.manual_seed(0)
        self._start = start or restore(MODELS_FOLDER / DEFAULT_MODEL)
        with tempfile.TemporaryDirectory() as folder:
            write_for_training(self._start, Path(folder))
            self.bert: Any = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False)
        self.bert.encoder.layer = self.bert.encoder.layer[:layers]
        width = self.bert.config.hidden_size
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.bert.to(self.device)
        self.heads = {
            name: torch.nn.Linear(width, classes).to(self.device) for name, classes in heads.items()
        }
        self.tokenizer: Any = Tokenizer.from_str(self._start.tokenizer.decode())
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)
        self._batch, self._scale = batch, scale

    def logits(self, texts: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
        """What each head says of texts, as tokens: float32 [texts, classes]."""
        ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
        mask = torch.zeros(ids.shape)
        for number, row in enumerate(texts):
            ids[number, : len(row)], mask[number, : len(row)] = torch.tensor(row), 1.0
        ids, mask = ids.to(self.device), mask.to(self.device)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            tokens = self.bert(ids, attention_mask=mask).last_hidden_state
        pooled = (tokens.float() * mask[..., None]).sum(1)
        inputs = torch.nn.functional.normalize(pooled, dim=-1) * self._scale
        return {name: head(inputs) for name, head in self.heads.items()}

    def train(self, epochs: Sequence[Epoch], *, rate: float, smoothing: float = 0.02) -> None:
        """Train on one epoch after the other, with a rate that rises and falls."""
        known: dict[str, list[int]] = {}
        rng = np.random.default_rng(0)
        heads = [parameter for head in self.heads.values() for parameter in head.parameters()]
        groups = [{"params": self.bert.parameters()}, {"params": heads}]
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=0.01)
        steps = sum(-(-len(epoch.texts) // self._batch) for epoch in epochs)
        step, began = 0, time.monotonic()
        self.bert.train()
        for epoch in epochs:
            for text in epoch.texts:
                if text not in known:
                    known[text] = self.tokenizer.encode(text).ids
            rows = [known[text] for text in epoch.texts]
            classes = {name: np.array(each) for name, each in epoch.wanted.items()}
            counts = np.ones(len(rows)) if epoch.weights is None else np.array(epoch.weights)
            batches = self._batches(rows, rng)
            for number in rng.permutation(len(batches)):
                batch, step = batches[number], step + 1
                part = min(step / (0.06 * steps), max(0.02, 1 - step / steps))
                for group, times in zip(optimizer.param_groups, (1, 30), strict=True):
                    group["lr"] = times * rate * part
                texts = [rows[row] for row in batch]
                loss = self._loss(texts, classes, batch, counts, smoothing)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.bert.parameters(), 1.0)
                optimizer.step()
                if step % PATIENCE == 0:
                    rest = (time.monotonic() - began) / step * (steps - step)
                    print(f"step {step} of {steps}, loss {loss:.3f}, {rest:.0f} s", flush=True)
        self.bert.eval()

    def _batches(self, rows: Sequence[Sequence[int]], rng: np.random.Generator) -> list[Any]:
        """Numbers of texts; those of like length go together: less padding."""
        order = rng.permutation(len(rows))
        pools = np.array_split(order, max(1, len(rows) // (self._batch * 50)))
        pools = [np.array(sorted(pool, key=lambda row: len(rows[row]))) for pool in pools]
        return [
            pool[at : at + self._batch] for pool in pools for at in range(0, len(pool), self._batch)
        ]

    def _loss(
        self,
        texts: Sequence[Sequence[int]],
        classes: Mapping[str, Any],
        batch: Any,
        counts: Any,
        smoothing: float,
    ) -> torch.Tensor:
        """The mean over the texts of what all heads lose together."""
        losses = [
            torch.nn.functional.cross_entropy(
                told,
                torch.tensor(classes[name][batch]).clamp(min=-1).to(self.device),
                reduction="none",
                label_smoothing=smoothing,
                ignore_index=-1,
            )
            for name, told in self.logits(texts).items()
        ]
        counted = torch.tensor(counts[batch], dtype=torch.float32, device=self.device)
        return (torch.stack(losses).sum(0) * counted).mean()

    def told(self, texts: Sequence[str]) -> dict[str, Any]:
        """Logits of each head: float32 [texts, classes]."""
        rows = [self.tokenizer.encode(text).ids for text in texts]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        widths = {name: head.out_features for name, head in self.heads.items()}
        found = {name: np.zeros((len(rows), n), np.float32) for name, n in widths.items()}
        with torch.inference_mode():
            for at in range(0, len(order), 256):
                batch = order[at : at + 256]
                for name, logits in self.logits([rows[row] for row in batch]).items():
                    found[name][batch] = logits.cpu().numpy()
        return found

    def head(self, name: str) -> tuple[Any, Any]:
        """Weights [dimensions, classes] and biases [classes] of a head."""
        head = self.heads[name]
        return head.weight.detach().cpu().numpy().T.copy(), head.bias.detach().cpu().numpy().copy()

    def set_head(self, name: str, weights: Any, bias: Any) -> None:
        """Begin with these weights [dimensions, classes] and biases of a head, as `head` gives."""
        head = self.heads[name]
        with torch.no_grad():
            head.weight.copy_(torch.tensor(weights.T))
            head.bias.copy_(torch.tensor(bias))

    def weights(self) -> Weights:
        """The transformer as arrays, to be exported."""
        tensors = {n: t.detach().cpu().numpy().copy() for n, t in self.bert.state_dict().items()}
        kept = {n: t for n, t in tensors.items() if n in self._start.tensors}
        return Weights(kept, self._start.heads, self._start.tokenizer)


def pruned(weights: Weights, texts: Iterable[str], *, least: int, positions: int) -> Weights:
    """The same without the tokens that fewer than `least` of `texts` have: most of a small model.

    Other words are read in shorter pieces then, to single letters. Of the positions so many stay.
    """
    kept: dict[str, Any] = json.loads(weights.tokenizer)
    tokenizer = Tokenizer.from_str(weights.tokenizer.decode())
    tokenizer.no_truncation()
    counts = Counter(t for each in tokenizer.encode_batch(list(texts)) for t in set(each.ids))
    seen = {token for token, texts_with_it in counts.items() if texts_with_it >= least}
    seen |= {token["id"] for token in kept["added_tokens"]}
    known = sorted(kept["model"]["vocab"].items(), key=lambda item: item[1])
    stay = [(t, at) for t, at in known if at in seen or len(t.removeprefix("##")) == 1]
    moved = {old: new for new, (_, old) in enumerate(stay)}
    kept["model"]["vocab"] = {token: new for new, (token, _) in enumerate(stay)}
    for token in kept["added_tokens"]:
        token["id"] = moved[token["id"]]
    for token in kept["post_processor"]["special_tokens"].values():
        token["ids"] = [moved[old] for old in token["ids"]]
    tensors = {
        **weights.tensors,
        WORD_EMBEDDINGS: weights.tensors[WORD_EMBEDDINGS][list(moved)],
        POSITION_EMBEDDINGS: weights.tensors[POSITION_EMBEDDINGS][:positions],
    }
    return Weights(tensors, weights.heads, json.dumps(kept, ensure_ascii=False).encode())
