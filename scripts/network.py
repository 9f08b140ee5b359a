"""Network of a classifier that ships: the first layers of the bundled encoder, and its heads."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS
from toolcrib.training.export import Weights, restore, write_for_training

WORDS = "embeddings.word_embeddings.weight"

PATIENCE = 200
"""A line every so many steps."""


class Network:
    """A transformer and, for each of `heads`, a softmax over so many classes.

    `scale`: what unit vectors are stretched by before the heads.
    """

    def __init__(
        self, heads: Mapping[str, int], *, layers: int, max_tokens: int, batch: int, scale: float
    ) -> None:
        torch.manual_seed(0)
        self._start = restore(MODELS / DEFAULT_MODEL)
        with tempfile.TemporaryDirectory() as folder:
            write_for_training(self._start, Path(folder))
            self.bert: Any = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False)
        self.bert.encoder.layer = self.bert.encoder.layer[:layers]
        width = self.bert.config.hidden_size
        self.heads = {name: torch.nn.Linear(width, classes) for name, classes in heads.items()}
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
        with torch.autocast("cpu", torch.bfloat16):
            tokens = self.bert(ids, attention_mask=mask).last_hidden_state
        pooled = (tokens.float() * mask[..., None]).sum(1)
        inputs = torch.nn.functional.normalize(pooled, dim=-1) * self._scale
        return {name: head(inputs) for name, head in self.heads.items()}

    def train(
        self,
        texts: Sequence[str],
        wanted: Mapping[str, Sequence[int]],
        *,
        epochs: int,
        rate: float,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Train on texts, with a rate that rises and falls.

        `wanted`: for each head the class of each text, negative where it is not known. `weights`
        say how much a text counts.
        """
        rows = [self.tokenizer.encode(text).ids for text in texts]
        classes = {name: np.array(each) for name, each in wanted.items()}
        counts = np.ones(len(rows)) if weights is None else np.array(weights)
        rng = np.random.default_rng(0)
        heads = [parameter for head in self.heads.values() for parameter in head.parameters()]
        groups = [{"params": self.bert.parameters()}, {"params": heads}]
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=0.01)
        steps, step, began = epochs * -(-len(rows) // self._batch), 0, time.monotonic()
        self.bert.train()
        for _ in range(epochs):
            batches = self._batches(rows, rng)
            for number in rng.permutation(len(batches)):
                batch, step = batches[number], step + 1
                part = min(step / (0.06 * steps), max(0.02, 1 - step / steps))
                for group, times in zip(optimizer.param_groups, (1, 30), strict=True):
                    group["lr"] = times * rate * part
                loss = self._loss([rows[row] for row in batch], classes, batch, counts)
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
        self, texts: Sequence[Sequence[int]], classes: Mapping[str, Any], batch: Any, counts: Any
    ) -> torch.Tensor:
        """The mean over the texts of what all heads lose together."""
        losses = [
            torch.nn.functional.cross_entropy(
                told,
                torch.tensor(classes[name][batch]).clamp(min=-1),
                reduction="none",
                label_smoothing=0.02,
                ignore_index=-1,
            )
            for name, told in self.logits(texts).items()
        ]
        each = torch.stack(losses).sum(0) * torch.tensor(counts[batch], dtype=torch.float32)
        return each.mean()

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
                    found[name][batch] = logits.numpy()
        return found

    def weights(self) -> Weights:
        """The transformer as arrays, to be exported."""
        tensors = {n: t.detach().numpy().copy() for n, t in self.bert.state_dict().items()}
        kept = {n: t for n, t in tensors.items() if n in self._start.tensors}
        return Weights(kept, self._start.heads, self._start.tokenizer)


def pruned(weights: Weights, texts: Sequence[str]) -> Weights:
    """The same without the tokens that none of `texts` has: most of a small model is its words.

    Other words are read in shorter pieces then, to single letters.
    """
    kept: dict[str, Any] = json.loads(weights.tokenizer)
    tokenizer = Tokenizer.from_str(weights.tokenizer.decode())
    tokenizer.no_truncation()
    seen = {token for each in tokenizer.encode_batch(list(texts)) for token in each.ids}
    seen |= {token["id"] for token in kept["added_tokens"]}
    known = sorted(kept["model"]["vocab"].items(), key=lambda item: item[1])
    stay = [(t, at) for t, at in known if at in seen or len(t.removeprefix("##")) == 1]
    moved = {old: new for new, (_, old) in enumerate(stay)}
    kept["model"]["vocab"] = {token: new for new, (token, _) in enumerate(stay)}
    for token in kept["added_tokens"]:
        token["id"] = moved[token["id"]]
    for token in kept["post_processor"]["special_tokens"].values():
        token["ids"] = [moved[old] for old in token["ids"]]
    tensors = {**weights.tensors, WORDS: weights.tensors[WORDS][list(moved)]}
    return Weights(tensors, weights.heads, json.dumps(kept, ensure_ascii=False).encode())
