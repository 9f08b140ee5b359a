r"""Teach the multilingual encoder to give the vectors that the English encoder has for a text.

An English text, and the same text in another language, get the English encoder's vector of the
English one, so that one index and whatever reads its vectors serve all languages. A line of a
file of texts is JSON: `en`, and `text` where it is in another language. `data=SHARE` stands for the
training lines of data/multilingual.

    python scripts/distil_multilingual.py --base FOLDER --texts FILE=SHARE ... --minutes 40 \
        --out FILE [--resume FILE] [--model FOLDER] [--final]

`--base` is made by scripts/export_e5.py, or from the int8 model in `--model`, which is then taught
on. scripts/ship_multilingual.py makes the model folder.
The rate rises and stays; with `--final` it falls to nothing by the end. The English encoder's
vectors are kept beside `--out`, so that only new texts are encoded when it is run again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from multilingual_data import rows, training_lines
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, normalize, softmax

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.training import import_train
from toolcrib.training.export import restore, write_for_training

transformers = import_train("transformers")
transformers.utils.logging.set_verbosity_error()

MAX_TOKENS = 56
"""Cut of texts while training."""

BATCH_TOKENS, POOL = 3_000, 6_000
"""Tokens of a batch with its padding; texts that are drawn together, to be sorted by length."""

TEACHER_TOKENS = 16_000
RATE, WARMUP_STEPS = 3e-4, 60
INVERSE_TEMPERATURE = 20.0
RELATION = 0.2
"""Weight of how near the batch's other texts should be, beside the vector itself."""

RIDGE = 1e-3
FIT_TEXTS = 12_000
"""Texts that the first projection is fitted on."""

EVERY = 20


class Student(torch.nn.Module):
    """The transformer, the mean over its tokens, and the projection to the teacher's space."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.transformer = transformer
        self.projection = torch.nn.Linear(*2 * (transformer.config.hidden_size,))

    def pooled(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Mean over the tokens: float32 [texts, width]."""
        # A processor that does not multiply bfloat16 would imitate it, many times slower.
        fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 -- there is no other
        with torch.autocast("cpu", torch.bfloat16, enabled=fast):
            tokens = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        return (tokens.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors: float32 [texts, width]."""
        return normalize(self.projection(self.pooled(ids, mask)), dim=-1)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token rows and which tokens are no padding: each [texts, longest]."""
    longest = max(map(len, rows))
    mask = torch.tensor([[n < len(row) for n in range(longest)] for row in rows])
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows]), mask.long()


def by_tokens(places: Sequence[int], rows: Sequence[Sequence[int]], most: int) -> Iterator[Any]:
    """Batches of texts of like length with at most so many tokens."""
    batch: list[int] = []
    for place in sorted(places, key=lambda at: len(rows[at])):
        if batch and (len(batch) + 1) * len(rows[place]) > most:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def tokens(tokenizer: Any, texts: Sequence[str], most: int) -> list[list[int]]:
    """Token rows of texts."""
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    return [encoded.ids for encoded in tokenizer.encode_batch(list(texts))]


def teacher_vectors(texts: Sequence[str], scratch: Path) -> Tensor:
    """The English encoder's vectors, computed once and kept: float32 [texts, width]."""
    kept = scratch / "teacher.pt"
    found: dict[str, Tensor] = torch.load(kept) if kept.exists() else {}
    missing = [text for text in dict.fromkeys(texts) if text not in found]
    if missing:
        weights = restore(MODELS_FOLDER / DEFAULT_MODEL)
        write_for_training(weights, scratch / "teacher")
        teacher = transformers.AutoModel.from_pretrained(scratch / "teacher").eval()
        rows = tokens(Tokenizer.from_buffer(weights.tokenizer), missing, 128)
        student = Student(teacher)
        for done, batch in enumerate(by_tokens(range(len(rows)), rows, TEACHER_TOKENS)):
            with torch.no_grad():
                vectors = normalize(student.pooled(*padded([rows[n] for n in batch])), dim=-1)
            found |= {missing[n]: v for n, v in zip(batch, vectors.half(), strict=True)}
            if done % 50 == 0:
                print(f"teacher: {len(found)} of {len(missing)}", flush=True)
        torch.save(found, kept)
    return torch.stack([found[text] for text in texts]).float()


def fit_projection(student: Student, rows: Sequence[list[int]], wanted: Tensor) -> None:
    """Begin with the best linear map (ridge regression) from the base's vectors."""
    places = np.random.default_rng(0).choice(len(rows), min(FIT_TEXTS, len(rows)), replace=False)
    inputs, targets = [], []
    for batch in by_tokens(places.tolist(), rows, TEACHER_TOKENS):
        with torch.no_grad():
            inputs.append(student.pooled(*padded([rows[n] for n in batch])))
        targets.append(wanted[batch])
    x, y = torch.cat(inputs), torch.cat(targets)
    middle, aim = x.mean(0), y.mean(0)
    x, y = x - middle, y - aim
    ridge = RIDGE * float(x.pow(2).sum() / x.shape[1])
    solved = torch.linalg.solve(x.T @ x + ridge * torch.eye(x.shape[1]), x.T @ y)
    with torch.no_grad():
        student.projection.weight.copy_(solved.T)
        student.projection.bias.copy_(aim - middle @ solved)


def loss_of(vectors: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How far the vectors are from what is wanted, and from its place among the others."""
    direct = 1 - (vectors * wanted).sum(1).mean()
    should = softmax(INVERSE_TEMPERATURE * wanted @ wanted.T, 1)
    found = log_softmax(INVERSE_TEMPERATURE * vectors @ wanted.T, 1)
    return direct, kl_div(found, should, reduction="batchmean")


def read_texts(spelled: Sequence[str]) -> tuple[list[str], list[str], np.ndarray[Any, Any]]:
    """English texts, what is read in their place, and the chance of each to be drawn."""
    english, read, chances = [], [], []
    for each in spelled:
        path, _, share = each.rpartition("=")
        lines = list(training_lines()) if path == "data" else rows(Path(path))
        english += [line["en"] for line in lines]
        read += [line.get("text", line["en"]) for line in lines]
        chances += [float(share) / len(lines)] * len(lines)
    return english, read, np.array(chances) / sum(chances)


def drawn(rows: Sequence[list[int]], chances: Any, seed: int) -> Iterator[list[int]]:
    """Batches without end, by the chances of the texts."""
    rng = np.random.default_rng(seed)
    while True:
        places = rng.choice(len(rows), POOL, p=chances)
        batches = list(by_tokens(places.tolist(), rows, BATCH_TOKENS))
        for number in rng.permutation(len(batches)):
            yield batches[number]


def train(student: Student, rows: Any, wanted: Tensor, chances: Any, options: Any, old: Any) -> Any:
    """Train by the clock; return the optimizer's state and the steps so far."""
    student.transformer.embeddings.word_embeddings.requires_grad_(requires_grad=options.words)
    parameters = [each for each in student.parameters() if each.requires_grad]
    optimizer: Any = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01)
    if old and "optimizer" in old and not options.words:
        optimizer.load_state_dict(old["optimizer"])
    first = step = old["step"] if old else 0
    # Without dropout its cosine to texts that it has not seen stops rising.
    student.transformer.encoder.train()
    began, sums = time.monotonic(), np.zeros(3)
    for batch in drawn(rows, chances, seed=first):
        done = (time.monotonic() - began) / (60 * options.minutes)
        if done >= 1:
            break
        part = min(1.0, (step + 1) / WARMUP_STEPS) * (1 - done if options.final else 1)
        optimizer.param_groups[0]["lr"] = options.rate * part
        direct, relation = loss_of(student(*padded([rows[n] for n in batch])), wanted[batch])
        optimizer.zero_grad()
        (direct + RELATION * relation).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        sums += direct.item(), relation.item(), len(batch)
        if step % EVERY == 0:
            far, off, texts = sums / EVERY
            print(
                f"step {step}: cosine {1 - far:.4f}, relation {off:.4f}, {texts:.0f} texts, "
                f"{(time.monotonic() - began) / (step - first):.2f} s",
                flush=True,
            )
            sums[:] = 0
        if step % 200 == 0:
            save(student, step, options.out, None)
    return optimizer.state_dict(), step


def as_checkpoint(model: Path, base: Path) -> dict[str, Any]:
    """Write the base of an int8 model and return its weights in the form of a checkpoint."""
    weights = restore(model, projected=True)
    write_for_training(weights, base)
    tensors = {
        name if name.startswith("projection.") else f"transformer.{name}": torch.tensor(value)
        for name, value in weights.tensors.items()
    }
    card = json.loads((model / "card.json").read_bytes())
    return {"model": tensors, "step": card["training"]["steps"]}


def save(student: Student, step: int, path: Path, optimizer: Any) -> None:
    """Write a checkpoint, whole or not at all."""
    kept = {"model": student.state_dict(), "step": step}
    torch.save(kept | ({"optimizer": optimizer} if optimizer else {}), path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def main() -> None:
    """Teach; see the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--resume", type=Path, help="a checkpoint to go on from")
    parser.add_argument("--model", type=Path, help="a model folder to go on from")
    parser.add_argument("--texts", nargs="+", required=True, metavar="FILE=SHARE")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--final", action="store_true", help="let the rate fall to nothing")
    parser.add_argument("--words", action="store_true", help="teach the vectors of words too")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    shipped = as_checkpoint(options.model, options.base) if options.model else None
    student = Student(
        transformers.AutoModel.from_pretrained(
            options.base, add_pooling_layer=False, attn_implementation="eager"
        ).eval()
    )
    english, read, chances = read_texts(options.texts)
    rows = tokens(Tokenizer.from_file(str(options.base / "tokenizer.json")), read, MAX_TOKENS)
    wanted = teacher_vectors(english, options.out.parent)
    old = torch.load(options.resume) if options.resume else shipped
    if old:
        student.load_state_dict(old["model"])
    else:
        fit_projection(student, rows, wanted)
    optimizer, step = train(student, rows, wanted, chances, options, old)
    save(student, step, options.out, optimizer)


if __name__ == "__main__":
    main()
