"""Train the bundled encoder on from a larger one that learns the same task first.

    python scripts/distil_encoder.py --data DATA --teacher FOLDER --out toolcrib-encoder
    python scripts/ship_model.py toolcrib-encoder

DATA has the folders tools/, written/ and phrases/ (data sets), corpora/ (`*.jsonl.gz`, a tool a
line) and knowledge/ (`documents.jsonl` and `queries.jsonl` of each of `PASSAGES`); the requests are
this project's own. The teacher is a folder of all-mpnet-base-v2, or of another transformer whose
vectors are means of tokens. It takes the extra `train`, and a GPU to be done in minutes: a step of
the student reads thousands of texts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, normalize, softmax

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER, BundledEncoder
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.loaders import load
from toolcrib.indexers.points import clean
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import ToolSpec
from toolcrib.training import import_train
from toolcrib.training.data import (
    MAX_POSITIVES,
    TEST,
    TRAIN,
    Example,
    HeldOut,
    TrainingData,
    batches,
    from_labels,
    imitate,
    mine,
    sample_data,
    without_server,
)
from toolcrib.training.export import Weights, add_to_card, agreement, export, restore
from toolcrib.training.export import write_for_training as write_folder
from toolcrib.training.loss import INVERSE_TEMPERATURE, MaskedContrastiveLoss

ROOT = Path(__file__).resolve().parents[1]

checkpoint = import_train("torch.utils.checkpoint").checkpoint
transformers = import_train("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

Vectors: TypeAlias = tuple[Tensor, Tensor]
"""Of the query of each example, and of all texts."""

REQUESTS, WRITTEN, PASSAGES = "requests", "llm-mcp", ("lfrqa", "swdocs")
LIMIT, LIMITS = 5_000, {REQUESTS: 20_000, "tldr": 14_000, "lfrqa": 4_000}
"""Pairs of a data set: with more of them a large set would set the tone for all."""

CORPUS_TOOLS, CORPUS_PAIRS, PASSAGE_CHARS = 24_000, 14_000, 1_500

MAX_TOKENS = 96
"""Cut of texts while training."""

CANDIDATES, FRONT = 20, 0.4
"""Negatives of a query to draw from, siblings first; half of those drawn are of this front part."""

CHUNK, READ = 256, 10_000
"""Texts of like length that run together, and texts that are made tokens together."""

WARMUP, EVERY = 0.1, 20
"""Share of the steps in which the rate rises; a line every so many steps."""


@dataclass(frozen=True, slots=True)
class Loop:
    """How much is trained and how fast; a batch is queries, each with so many negatives."""

    batch: int
    negatives: int
    rate: float
    steps: int


TEACHER = Loop(batch=128, negatives=3, rate=2e-5, steps=186)
STUDENT = Loop(batch=512, negatives=5, rate=1.5e-4, steps=367)


def gathered(data: Path) -> list[TrainingData]:
    """Pairs of every source, without the queries that nearly repeat one held out."""
    tools, phrases = (
        [load(str(folder)) for folder in sorted((data / name).glob("*/"))]
        for name in ("tools", "phrases")
    )
    asked, written = requests(data / "corpora"), load(str(data / "written" / WRITTEN))
    judged = [*tools, asked, written]
    queries = HeldOut(q.text for each in judged for q in each.queries if q.split != TRAIN)
    held = servers(asked, *{q.split for q in asked.queries} - {TRAIN})
    asked = replace(asked, tools=tuple(tool for tool in asked.tools if tool.server not in held))
    parts = [
        sample_data(from_labels(each, each.split(TRAIN)), LIMITS.get(each.name, LIMIT), 0)
        for each in (*tools, asked, written, *phrases)
    ]
    parts += [passages(data / "knowledge" / name) for name in PASSAGES]
    known = HeldOut(without_server(tool) for each in tools for tool in each.tools)
    held |= servers(written, TEST)
    parts += [made(path, known, held) for path in sorted((data / "corpora").glob("*.jsonl.gz"))]
    kept = [
        replace(part, examples=tuple(e for e in part.examples if e.query not in queries))
        for part in parts
    ]
    return [part for part in kept if part.examples]


def requests(corpora: Path) -> DataSet:
    """The project's requests, with the tools that they need and others of the same servers."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / REQUESTS
        script = ROOT / "benchmarks" / "join_requests.py"
        subprocess.run([sys.executable, str(script), str(corpora), str(out)], check=True)
        return load(str(out))


def servers(data: DataSet, *splits: str) -> set[str]:
    """Whose tools the queries of these splits need."""
    of = {tool.id: tool.server for tool in data.tools}
    return {of[tool] for query in data.split(*splits) for tool in query.relevant if tool in of}


def passages(folder: Path) -> TrainingData:
    """Questions of a folder of documents, each with its best answers."""
    places: dict[str, int] = {}
    by_id: dict[str, int] = {}
    for row in rows(folder / "documents.jsonl"):
        text = clean(f"{row.get('title') or ''} {row['text']}")[:PASSAGE_CHARS]
        by_id[row["id"]] = places.setdefault(text, len(places))
    examples: list[Example] = []
    for row in rows(folder / "queries.jsonl"):
        grades = {by_id[i]: g for i, g in row["relevant"].items() if i in by_id}
        if row["split"] == TRAIN:
            best = sorted(grades, key=lambda place: -grades[place])[:MAX_POSITIVES]
            query, relevant = clean(row["text"]), frozenset(grades)
            examples += (Example(query, place, relevant, folder.name) for place in best)
    found = TrainingData(tuple(places), tuple(examples))
    return sample_data(found, LIMITS.get(folder.name, LIMIT), 0)


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def made(corpus: Path, known: HeldOut, held: set[str]) -> TrainingData:
    """Pairs made of tools alone: of none that is known, and of no server held out."""
    found = (spec for _, spec in tool_entries(str(corpus), None, None))
    specs = [spec for spec in found if isinstance(spec, ToolSpec) and spec.server not in held]
    drawn = random.Random(0).sample(range(len(specs)), min(len(specs), CORPUS_TOOLS))
    # In the file's order: neighbours are of one server, and make requests of two steps.
    fresh = [specs[at] for at in sorted(drawn) if without_server(specs[at]) not in known]
    return sample_data(imitate(fresh, corpus.name), CORPUS_PAIRS, 0)


class Encoder:
    """A transformer in training and what it reads: the query of each example, and all texts."""

    def __init__(self, folder: Path, data: TrainingData, device: str) -> None:
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        # In evaluation's mode nothing is dropped: few passes need no regulariser.
        self.transformer = transformers.AutoModel.from_pretrained(folder).to(device).eval()
        self._device = device
        self.queries = self._tokens([e.query for e in data.examples])
        self.documents = self._tokens(data.documents)

    def _tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Tokens on the device and which of them are no padding: each [texts, tokens]."""
        form = {"padding": "max_length", "truncation": True, "max_length": MAX_TOKENS}
        chunks = [list(texts[at : at + READ]) for at in range(0, len(texts), READ)]
        parts = [self._tokenizer(chunk, return_tensors="pt", **form) for chunk in chunks]
        ids, mask = (torch.cat([p[n] for p in parts]) for n in ("input_ids", "attention_mask"))
        return ids.to(self._device), mask.to(self._device)

    def vectors(self, texts: tuple[Tensor, Tensor], places: Any = None) -> Tensor:
        """Unit vectors of all texts or those of `places`: float32 [texts, d], differentiable."""
        ids, mask = texts if places is None else (each[places] for each in texts)
        lengths = mask.sum(1)
        order: Any = torch.argsort(lengths)
        chunks: list[Any] = []
        for part in order.split(CHUNK):
            cut = slice(int(lengths[part[-1]]))
            # Run again for its gradient: all chunks of a batch at once are tens of gigabytes.
            once = (self._pooled, ids[part, cut], mask[part, cut])
            chunks.append(checkpoint(*once, use_reentrant=False))
        return normalize(torch.cat(chunks)[torch.argsort(order)], dim=-1)

    def _pooled(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The sum over the tokens of each text, which is its mean but for the length."""
        with torch.autocast(self._device, torch.bfloat16, self._device == "cuda"):
            tokens = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        return (tokens.float() * mask[..., None]).sum(1)

    def all_vectors(self) -> Vectors:
        """Vectors of the queries and of the texts."""
        with torch.no_grad():
            return self.vectors(self.queries), self.vectors(self.documents)


class Distillation(MaskedContrastiveLoss):
    """Its loss over a batch and, with a teacher, how far off each query's own list is."""

    def __init__(self, data: TrainingData, vectors: Any) -> None:
        super().__init__(None, data.examples, vectors)
        self.sources = [e.source for e in data.examples]
        self._positives = np.array([e.positive for e in data.examples])
        self._mined = np.array([e.negatives for e in data.examples])

    def lists(self, batch: Any, count: int, rng: np.random.Generator) -> Any:
        """Places of each query's right text and of `count` negatives: [queries, 1 + count]."""
        drawn = rng.random((len(batch), count))
        drawn[:, : count // 2] *= FRONT
        columns = (drawn * self._mined.shape[1]).astype(int)
        return np.column_stack([self._positives[batch], self._mined[batch[:, None], columns]])

    def of(self, encoder: Encoder, batch: Any, lists: Any, taught: Vectors | None) -> Any:
        """The loss of some examples with their lists."""
        places, own = lists.T.reshape(-1), torch.arange(len(batch))
        queries = encoder.vectors(encoder.queries, batch)
        scores = INVERSE_TEMPERATURE * queries @ encoder.vectors(encoder.documents, places).T
        masked = self._false_negative_mask(batch.tolist(), places.tolist()).to(scores.device)
        loss = cross_entropy(scores.masked_fill(masked, -torch.inf), own.to(scores.device))
        if taught is None:
            return loss
        columns = own[:, None] + len(own) * torch.arange(lists.shape[1])
        listed = log_softmax(scores.gather(1, columns.to(scores.device)), 1)
        wanted = INVERSE_TEMPERATURE * torch.einsum(
            "qd,qkd->qk", taught[0][batch], taught[1][lists]
        )
        return loss + kl_div(listed, softmax(wanted, 1), reduction="batchmean")


def train(
    encoder: Encoder, loss: Distillation, loop: Loop, minutes: float, taught: Vectors | None = None
) -> dict[str, Any]:
    """Train with a rate that rises and falls, by the clock where the minutes end before."""
    parameters = [each for each in encoder.transformer.parameters() if each.requires_grad]
    optimizer: Any = torch.optim.AdamW(parameters, lr=loop.rate, weight_decay=0.01)
    rng, began, step, lost = np.random.default_rng(0), time.monotonic(), 0, torch.zeros(())
    size = min(loop.batch, len(loss.sources))
    passes = (batches(loss.sources, size, seed=seed) for seed in itertools.count())
    drawn = map(np.array, itertools.chain.from_iterable(passes))
    for batch in itertools.islice(drawn, loop.steps):
        seconds = time.monotonic() - began
        done = max(step / loop.steps, seconds / (60 * minutes))
        if done >= 1:
            break
        if step and step % EVERY == 0:
            rest = seconds / done * (1 - done)
            print(f"step {step} of {loop.steps}, loss {lost:.3f}, {rest:.0f} s", flush=True)
        part = min((done + 1 / loop.steps) / WARMUP, max(0.02, (1 - done) / (1 - WARMUP)))
        optimizer.param_groups[0]["lr"] = loop.rate * part
        lost = loss.of(encoder, batch, loss.lists(batch, loop.negatives, rng), taught)
        optimizer.zero_grad()
        lost.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
    seconds = round(time.monotonic() - began, 1)
    return {**asdict(loop), "steps": step, "seconds": seconds, "loss": round(lost.item(), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True, help="a folder in the hub's form")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.5, help="of the old weights in the new")
    parser.add_argument("--minutes", type=float, default=1e9, help="for each of the two, at most")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parts = gathered(options.data)
    pairs = {part.examples[0].source: len(part.examples) for part in parts}
    print(json.dumps(pairs), flush=True)
    data, vectors = mine(
        parts,
        BundledEncoder(MODELS_FOLDER / DEFAULT_MODEL),
        count=CANDIDATES,
        progress=lambda done, total: print(f"query {done} of {total}", end="\r", flush=True),
    )
    loss = Distillation(data, vectors)
    teacher = Encoder(options.teacher, data, device)
    learned = train(teacher, loss, TEACHER, options.minutes)
    taught = teacher.all_vectors()
    del teacher
    start = restore(MODELS_FOLDER / DEFAULT_MODEL)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(start, Path(folder))
        student = Encoder(Path(folder), data, device)
        student.transformer.embeddings.requires_grad_(requires_grad=False)
        distilled = train(student, loss, STUDENT, options.minutes, taught)
        trained = {n: t.cpu().numpy() for n, t in student.transformer.state_dict().items()}
        mixed = {n: trained[n] + options.share * (t - trained[n]) for n, t in start.tensors.items()}
        weights = Weights(mixed, start.heads, start.tokenizer)
        write_folder(weights, Path(folder))
        old = json.loads((MODELS_FOLDER / DEFAULT_MODEL / "card.json").read_bytes())
        export(weights, options.out, {key: old[key] for key in ("name", "max_tokens", "base")})
        agreed = agreement("encoder", Path(folder), options.out, data)
    training = {"teacher": learned, "student": distilled, "mix": options.share}
    last = {"pairs": pairs, "data_sha256": data.digest, "training": training}
    add_to_card(options.out, {"rounds": [*old.get("rounds", []), last], "agreement": agreed})
    print(json.dumps(training), json.dumps(agreed))


if __name__ == "__main__":
    main()
