"""Train the classifier of statements that ships with the audit, and measure it on unseen families.

    python scripts/fit_audit.py DATA/corpora/*.jsonl.gz DATA/tools/*/tools.jsonl
    python scripts/fit_audit.py ... --folds 4   # leaves families out in turn, writes no model

Attacks and honest lookalikes are those of data/audit; the files named hold real tools, which are
taken for honest. Those of half of the servers are trained on; on those of the other half the
thresholds are chosen, and false alarms counted. It starts from the encoder that ships, and takes
the extra `train`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network import Network
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from toolcrib import ToolSpec
from toolcrib.encoders.onnx import DEFAULT_MODEL
from toolcrib.indexers.audit.classifier import (
    BUCKETS,
    KINDS,
    MODEL,
    SCALE,
    StatementClassifier,
    buckets,
    sentences,
    statements,
)
from toolcrib.indexers.audit.normalise import normalise
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.training.export import export

ROOT = Path(__file__).resolve().parents[1]
TEXTS, CASES = ROOT / "data" / "audit", ROOT / "data" / "cases"
RESULTS = ROOT / "benchmarks" / "results" / "audit_families.json"
KIND_OF = {"preference": KINDS.index("preference"), "parameter-harvest": KINDS.index("harvest")}
TIMES = {"published": 3, "honest-ours": 3, "honest-plain": 3}
"""Seen more often than others: attacks as plain as published ones, honest texts of the style in
which most attacks here are written."""

MIXED = {"multilingual", "short"}
"""Families of all kinds; what they have in parameters mostly asks for too much."""

LAYERS, MAX_TOKENS, BATCH = 4, 96, 64
RANDOM, HARD, MINED = 22_000, 16_000, 6_000
"""Honest statements that are trained on: any, those that the first step finds hardest, and those
that the second does after one round."""

PASSED = 0.85
"""Of honest statements so many end at the first step."""

WARNED, BLOCKED = 0.0085, 0.0008
"""Of real tools so many may be warned of, and blocked: a little less than is promised."""

MEASURED = 25_000


@dataclass(frozen=True, slots=True)
class Written:
    """One written text: its family, whether it attacks, its statements with what each does."""

    family: str
    hostile: bool
    texts: tuple[str, ...]
    kinds: tuple[int, ...]


def written() -> list[Written]:
    return [
        _written(json.loads(line))
        for file in sorted(TEXTS.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def lookalikes() -> list[Written]:
    """Tools of ours that are honest: those of data/cases that look hostile, and the registry."""
    found = [
        ToolSpec(**json.loads(line)["tool"])
        for line in (CASES / "hostile_lookalikes.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    registry = [ROOT / "data" / "registry", f"{ROOT}/data/registry/home_tools.py:TOOLS"]
    found += [item for _, item in tool_entries(registry, None, None) if isinstance(item, ToolSpec)]
    said = [tuple(statement.text for statement in statements(spec)) for spec in found]
    return [
        Written("honest-ours", hostile=False, texts=texts, kinds=(0,) * len(texts))
        for texts in said
    ]


def _written(line: dict[str, Any]) -> Written:
    place, _, name = line["place"].partition(":")
    spec: dict[str, Any] = {"name": "tool", "description": line["text"]}
    if place == "parameter":
        schema = {"type": "object", "properties": {name: {"description": line["text"]}}}
        spec = {"name": "tool", "input_schema": schema}
    parts = [normalise(part) for part in line["hostile"]]
    bad = {sentence for part in parts for sentence in sentences(part)}
    kind = KIND_OF.get(line["family"], KINDS.index("instruction"))
    if line["family"] in MIXED and place == "parameter":
        kind = KINDS.index("harvest")
    texts = tuple(statement.text for statement in statements(ToolSpec(**spec)))
    attacks = (
        any(s in text or any(text in part for part in parts) for s in bad) if bad else False
        for text in texts
    )
    return Written(line["family"], bool(bad), texts, tuple(kind * attack for attack in attacks))


# -- real tools ------------------------------------------------------------------------------------


def real(files: Iterable[Path]) -> tuple[list[str], list[list[str]]]:
    """The statements of half of the servers' tools, and the tools of the other half."""
    fit: dict[str, None] = {}
    test: list[list[str]] = []
    for spec in _tools(files):
        texts = [statement.text for statement in statements(spec)]
        if zlib.crc32(spec.server.encode()) % 2:
            test.append(texts)
        else:
            fit.update(dict.fromkeys(texts))
    unseen = {text for tool in test for text in tool}
    order = np.random.default_rng(0).permutation(len(test))
    return [text for text in fit if text not in unseen], [test[row] for row in order[:MEASURED]]


def _tools(files: Iterable[Path]) -> Iterator[ToolSpec]:
    fields = ("id", "name", "description", "input_schema", "category", "server")
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open() as f:
            for line in f:
                held = json.loads(line)
                try:
                    yield ToolSpec(**{name: held[name] for name in fields if held.get(name)})
                except ValueError:
                    continue  # a reader would refuse it too


# -- training --------------------------------------------------------------------------------------


def features(texts: Sequence[str]) -> Any:
    rows = [buckets(text) for text in texts]
    ends = np.cumsum([0, *map(len, rows)])
    values = [np.full(len(row), max(len(row), 1) ** -0.5, np.float32) for row in rows]
    shape = (len(texts), BUCKETS)
    return csr_matrix((np.concatenate(values), np.concatenate(rows), ends), shape=shape)


def fit(texts: Sequence[Written], honest: list[str], out: Path, epochs: int) -> None:
    """Train both steps and write the model folder, without thresholds yet."""
    seen = [each for each in texts for _ in range(TIMES.get(each.family, 1))]
    said = [text for each in seen for text in each.texts]
    kinds = [kind for each in seen for kind in each.kinds]
    rng = np.random.default_rng(0)
    order = rng.permutation(len(honest))
    some = [honest[row] for row in order[:60_000]]
    first: Any = LogisticRegression(C=10, solver="liblinear")
    first.fit(features([*said, *some]), np.array([*kinds, *[0] * len(some)]) > 0)
    scores = first.decision_function(features(honest))
    hardest = np.argsort(-scores)
    chosen = dict.fromkeys([*hardest[:HARD].tolist(), *order[:RANDOM].tolist()])
    network = Network(
        {"kind": len(KINDS)}, layers=LAYERS, max_tokens=MAX_TOKENS, batch=BATCH, scale=SCALE
    )
    if epochs > 1:
        _train(network, said, kinds, [honest[row] for row in chosen], epochs=1, rate=6e-5)
        # What the second step takes for an attack although it is honest, it sees once more.
        rest = [row for row in hardest[HARD : HARD + 30_000].tolist() if row not in chosen]
        told = network.told([honest[row] for row in rest])["kind"]
        worst = np.argsort(softmax(told, axis=-1)[:, 0])[:MINED]
        chosen.update(dict.fromkeys(rest[row] for row in worst))
    plain = [honest[row] for row in chosen]
    _train(network, said, kinds, plain, epochs=max(1, epochs - 1), rate=5e-5)
    name = {"name": "toolcrib-audit", "max_tokens": MAX_TOKENS, "base": DEFAULT_MODEL}
    export(network.weights(), out, name)
    np.savez_compressed(
        out / "head.npz",
        words=first.coef_[0].astype(np.float16),
        offset=first.intercept_[0],
        least=np.quantile(scores, PASSED),
        weights=network.heads["kind"].weight.detach().numpy().T.copy(),
        bias=network.heads["kind"].bias.detach().numpy().copy(),
        warns=0.0,
        blocks=0.0,
    )


def _train(
    network: Network,
    said: Sequence[str],
    kinds: Sequence[int],
    plain: Sequence[str],
    *,
    epochs: int,
    rate: float,
) -> None:
    """Train on written statements of these kinds, and on plain ones; attacks count more."""
    wanted = [*kinds, *[0] * len(plain)]
    weights = [1.5 if kind else 1.0 for kind in wanted]
    texts = [*said, *plain]
    network.train(texts, {"kind": wanted}, epochs=epochs, rate=rate, weights=weights)


def choose_thresholds(folder: Path, tools: Sequence[Sequence[str]]) -> dict[str, float]:
    """Write the thresholds by which the promised share of real tools is warned of and blocked."""
    classifier = StatementClassifier(folder)
    any_kind, orders = np.zeros(len(tools)), np.zeros(len(tools))
    for number, texts in enumerate(tools):
        if texts:
            verdicts = classifier.judge(texts)
            any_kind[number] = (1 - verdicts[:, 0]).max()
            orders[number] = verdicts[:, 1].max()
    found = {
        "warns": float(np.quantile(any_kind, 1 - WARNED)),
        "blocks": float(np.quantile(orders, 1 - BLOCKED)),
    }
    with np.load(folder / "head.npz") as head:
        fields: dict[str, Any] = {**head, **found}
    np.savez_compressed(folder / "head.npz", **fields)
    return found


def recall(folder: Path, texts: Sequence[Written]) -> dict[str, dict[str, float]]:
    """Of each family, what share is at least warned of, and what share is blocked."""
    classifier = StatementClassifier(folder)
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for each in texts:
        verdicts = classifier.judge(each.texts) if each.texts else np.eye(1, len(KINDS))
        blocked = bool((verdicts[:, 1] >= classifier.blocks).any())
        warned = blocked or bool((1 - verdicts[:, 0] >= classifier.warns).any())
        found[each.family].append((warned, blocked))
    return {
        family: {"texts": len(seen), "warned": _mean(seen, 0), "blocked": _mean(seen, 1)}
        for family, seen in sorted(found.items())
    }


def _mean(seen: Sequence[tuple[bool, bool]], place: int) -> float:
    return round(float(np.mean([each[place] for each in seen])), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("honest", type=Path, nargs="+", help="files of real tools")
    parser.add_argument("--folds", type=int, default=0, help="leave families out, so many at once")
    parser.add_argument("--only", type=int, help="one fold alone")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=MODEL)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    honest, tools = real(options.honest)
    every = [*written(), *lookalikes()]
    print(f"{len(every)} written texts, {len(honest)} statements of real tools", flush=True)
    if not options.folds:
        fit(every, honest, options.out, options.epochs)
        print(choose_thresholds(options.out, tools))
        return
    families = sorted({each.family for each in every})
    found: dict[str, Any] = {}
    for fold in range(options.folds) if options.only is None else [options.only]:
        left = {each for row, each in enumerate(families) if row % options.folds == fold}
        with tempfile.TemporaryDirectory() as folder:
            seen = [each for each in every if each.family not in left]
            fit(seen, honest, Path(folder), options.epochs)
            print(choose_thresholds(Path(folder), tools), flush=True)
            found |= recall(Path(folder), [each for each in every if each.family in left])
        print(json.dumps(found, indent=1), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
