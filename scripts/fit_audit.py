"""Train the classifier of statements that ships with the audit, and measure it on unseen families.

    python scripts/fit_audit.py DATA/corpora/*.jsonl.gz DATA/tools/*/tools.jsonl
    python scripts/fit_audit.py ... --start FOLDER  # goes on from a classifier, to learn new texts
    python scripts/fit_audit.py ... --folds 4   # leaves families out in turn, writes no model

Attacks and honest lookalikes are those of data/audit; the files named hold real tools, which are
taken for honest. Those of three quarters of the servers are trained on; on those of the last
quarter the threshold is chosen. It starts from the encoder that ships, and takes the extra
`train`. One training takes two minutes on a GPU, and hours on a CPU; going on from a classifier
takes half an hour on one core.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from network import Epoch, Network, pruned
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from toolcrib import ToolSpec
from toolcrib.audit.classifier import (
    AUDITED_KINDS,
    BUCKETS,
    MODEL_FOLDER,
    VECTOR_SCALE,
    Statement,
    StatementClassifier,
    buckets,
    sentences,
    statements,
)
from toolcrib.audit.findings import texts_of
from toolcrib.audit.normalise import normalise
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.training.export import export, restore

ROOT = Path(__file__).resolve().parents[1]
TEXTS, CASES = ROOT / "data" / "audit", ROOT / "data" / "cases"
RESULTS = ROOT / "benchmarks" / "results" / "audit_families.json"
KIND_OF = {
    "preference": AUDITED_KINDS.index("preference"),
    "parameter-harvest": AUDITED_KINDS.index("harvest"),
}
TIMES = {
    **dict.fromkeys(("published", "honest-ours", "honest-plain"), 3),
    **dict.fromkeys(("honest-orders", "honest-other-languages", "honest-quoting"), 2),
}
"""Seen more often than others: attacks as plain as published ones, honest texts of the style in
which most attacks here are written, and of kinds that real tools hardly show."""

MIXED = {"multilingual", "short"}
"""Families of all kinds; what they have in parameters mostly asks for too much."""

LAYERS, MAX_TOKENS = 4, 128

LEAST = 5
"""A word that fewer texts have is read in pieces."""

PASSED = 0.85
"""Of honest statements so many end at the first step."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How long is trained, and on what share of the honest statements.

    `hard` and `hard_passages` are the shares that the first step finds hardest, with their
    passages; `random` and `random_passages` are how many of the other ones.
    """

    rate: float
    batch: int
    epochs: int
    hard: float
    hard_passages: float
    random: int
    random_passages: int


ANEW = Recipe(1.2e-4, 256, 3, 0.22, 0.14, 25_000, 15_000)
GOING_ON = Recipe(5e-5, 64, 1, 0.04, 0.015, 6_000, 2_000)

KEPT = 0.2
"""Share of the weights that one goes on from which stays."""

WARNED = 0.008
"""Share of real tools that the classifier may warn of."""


@dataclass(frozen=True, slots=True)
class Written:
    """One written text: its family, whether it attacks, its statements.

    `kinds` says what each statement does, `passage_kinds` what it does with its neighbours.
    """

    family: str
    hostile: bool
    said: tuple[Statement, ...]
    kinds: tuple[int, ...]
    passage_kinds: tuple[int, ...]


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
    said = [tuple(statements(texts_of(spec))) for spec in found]
    kinds = [(0,) * len(each) for each in said]
    return [
        Written("honest-ours", hostile=False, said=each, kinds=plain, passage_kinds=plain)
        for each, plain in zip(said, kinds, strict=True)
    ]


def _written(line: dict[str, Any]) -> Written:
    place, _, name = line["place"].partition(":")
    spec: dict[str, Any] = {"name": "tool", "description": line["text"]}
    if place == "parameter":
        told = {"description": line["text"]} if line["text"] else {}
        spec = {"name": "tool", "input_schema": {"type": "object", "properties": {name: told}}}
    parts = [normalise(part) for part in line["hostile"]]
    bad = {sentence for part in parts for sentence in sentences(part)}
    kind = KIND_OF.get(line["family"], AUDITED_KINDS.index("instruction"))
    if line["family"] in MIXED and place == "parameter":
        kind = AUDITED_KINDS.index("harvest")
    said = tuple(statements(texts_of(ToolSpec(**spec))))
    if line["hostile"] and not line["text"]:  # a parameter whose name says all
        kinds = (kind,) * len(said)
        return Written(line["family"], hostile=True, said=said, kinds=kinds, passage_kinds=kinds)
    kinds = tuple(
        kind * any(s in each.text or any(each.text in part for part in parts) for s in bad)
        for each in said
    )
    # Of a long sentence that stands before or after, a passage has no more than a part.
    around = tuple(
        kind * any(s[:60] in each.passage or s[-60:] in each.passage or each.text in s for s in bad)
        for each in said
    )
    return Written(line["family"], bool(bad), said, kinds, tuple(map(max, kinds, around)))


# -- real tools ------------------------------------------------------------------------------------


def real(files: Iterable[Path]) -> tuple[dict[str, list[str]], list[list[Statement]]]:
    """The statements of three quarters of the servers' tools, and the tools of the others.

    With each statement, the passages in which it stands.
    """
    fit: dict[str, dict[str, None]] = defaultdict(dict)
    test: list[list[Statement]] = []
    for spec in {spec.digest: spec for spec in _tools(files)}.values():
        said = list(statements(texts_of(spec)))
        if zlib.crc32(spec.server.encode()) % 4 == 3:
            test.append(said)
        else:
            for statement in said:
                fit[statement.text][statement.passage] = None
    unseen = {statement.text for tool in test for statement in tool}
    return {text: list(fit[text]) for text in fit if text not in unseen}, test


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


def fit(
    texts: Sequence[Written], honest: dict[str, list[str]], out: Path, going_on: Path | None = None
) -> None:
    """Train both steps and write the model folder, without a threshold yet.

    `going_on`: the folder of a classifier whose second step is trained further.
    """
    recipe = GOING_ON if going_on else ANEW
    began: dict[str, Any] = {}
    said = [statement.text for each in texts for statement in each.said]
    kinds = [kind for each in texts for kind in each.kinds]
    plain = list(honest)
    rng = np.random.default_rng(0)
    some = [plain[row] for row in rng.permutation(len(plain))[:60_000]]
    first: Any = LogisticRegression(C=10, solver="liblinear")
    first.fit(features([*said, *some]), np.array([*kinds, *[0] * len(some)]) > 0)
    scores = first.decision_function(features(plain))
    hardest = [plain[row] for row in np.argsort(-scores)]
    start = pruned(
        restore(going_on or MODELS_FOLDER / DEFAULT_MODEL),
        [*said, *plain],
        least=LEAST,
        positions=MAX_TOKENS,
    )
    network = Network(
        {"kind": len(AUDITED_KINDS)},
        layers=LAYERS,
        max_tokens=MAX_TOKENS,
        batch=recipe.batch,
        scale=VECTOR_SCALE,
        start=start,
    )
    if going_on:
        with np.load(going_on / "head.npz") as head:
            began = {name: head[name] for name in ("weights", "bias")}
        network.set_head("kind", began["weights"], began["bias"])
    base = _base(texts, hardest, honest, recipe, rng)
    calm = [text for text in hardest[: int(ANEW.hard * len(hardest))] if 20 < len(text) < 180]
    epochs = [_epoch([*base, *_mixed(texts, calm, rng)]) for _ in range(recipe.epochs)]
    network.train(epochs, rate=recipe.rate, smoothing=0.01)
    trained, (weights, bias) = network.weights(), network.head("kind")
    if going_on:
        tensors = {n: KEPT * start.tensors[n] + (1 - KEPT) * t for n, t in trained.tensors.items()}
        trained = replace(trained, tensors=tensors)
        weights = KEPT * began["weights"] + (1 - KEPT) * weights
        bias = KEPT * began["bias"] + (1 - KEPT) * bias
    card = {"name": "toolcrib-audit", "max_tokens": MAX_TOKENS, "base": DEFAULT_MODEL}
    export(trained, out, card)
    np.savez_compressed(
        out / "head.npz",
        words=first.coef_[0].astype(np.float16),
        offset=first.intercept_[0],
        least=np.quantile(scores, PASSED),
        weights=weights,
        bias=bias,
        warns=0.0,
    )


Labelled: TypeAlias = list[tuple[str, int]]


def _base(
    texts: Sequence[Written],
    hardest: Sequence[str],
    honest: dict[str, list[str]],
    recipe: Recipe,
    rng: np.random.Generator,
) -> Labelled:
    """What every epoch has: written and honest statements, and passages around them."""
    found: Labelled = []
    for each in texts:
        for _ in range(TIMES.get(each.family, 1)):
            found += zip((one.text for one in each.said), each.kinds, strict=True)
            found += [
                (one.passage, kind)
                for one, kind in zip(each.said, each.passage_kinds, strict=True)
                if one.passage != one.text and rng.random() < 0.7
            ]
    many = int(recipe.hard * len(hardest))
    rest = rng.permutation(hardest[many:]).tolist()
    plain = [*hardest[:many], *rest[: recipe.random]]
    # Few real tools speak another language than English.
    plain += filter(_is_foreign, rest[recipe.random :])
    around = [(text, 2) for text in hardest[: int(recipe.hard_passages * len(hardest))]]
    around += [(text, 1) for text in rest[: recipe.random_passages]]
    passages = {p: None for text, most in around for p in honest[text][:most] if p != text}
    return [*found, *((text, 0) for text in [*plain, *passages])]


def _is_foreign(text: str) -> bool:
    """Whether it has letters that English lacks."""
    return sum(letter.isalpha() and not letter.isascii() for letter in text) > 1


def _mixed(texts: Sequence[Written], calm: Sequence[str], rng: np.random.Generator) -> Labelled:
    """Attacks among honest sentences, and honest sentences of the same hand side by side."""
    said = [(s.text, k) for each in texts for s, k in zip(each.said, each.kinds, strict=True)]
    mild = [text for text, kind in said if not kind and 20 < len(text) < 200]

    def one(pool: Sequence[str]) -> str:
        return pool[rng.integers(len(pool))]

    found: Labelled = []
    for text, kind in said:
        if kind:
            before, after = one(calm if rng.random() < 0.6 else mild), one(calm)
            where = rng.integers(3)
            joined = (f"{before} {text}", f"{text} {after}", f"{before} {text} {after}")[where]
            beside = one(mild if rng.random() < 0.5 else calm)
            found += [(joined, kind), (f"{one(mild)} {beside}", 0)]
    return found


def _epoch(rows: Labelled) -> Epoch:
    """Attacks count more than honest texts."""
    wanted = [kind for _, kind in rows]
    weights = [1.5 if kind else 1.0 for kind in wanted]
    return Epoch([text for text, _ in rows], {"kind": wanted}, weights)


def choose_threshold(folder: Path, tools: Sequence[Sequence[Statement]]) -> float:
    """Write the threshold by which the promised share of real tools is warned of."""
    classifier = StatementClassifier(folder)
    found = [_worst(classifier, said) for said in tools]
    # Odds that the first step gives nobody sort below all others.
    warns = float(np.quantile(np.maximum(found, -99.0), 1 - WARNED))
    with np.load(folder / "head.npz") as head:
        fields: dict[str, Any] = {**head, "warns": warns}
    np.savez_compressed(folder / "head.npz", **fields)
    return warns


def recall(folder: Path, texts: Sequence[Written]) -> dict[str, dict[str, float]]:
    """Number of texts of each family, and the share that is warned of."""
    classifier = StatementClassifier(folder)
    found: dict[str, list[bool]] = defaultdict(list)
    for each in texts:
        found[each.family].append(_worst(classifier, each.said) >= classifier.warns)
    return {
        family: {"texts": len(seen), "warned": round(float(np.mean(seen)), 3)}
        for family, seen in sorted(found.items())
    }


def _worst(classifier: StatementClassifier, said: Sequence[Statement]) -> float:
    """The highest odds in one tool that a statement is no description."""
    odds = np.logaddexp.reduce(classifier.judge(said), axis=1)
    return float(odds.max(initial=-np.inf))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("honest", type=Path, nargs="+", help="files of real tools")
    parser.add_argument("--start", type=Path, help="the folder of a classifier to go on from")
    parser.add_argument("--folds", type=int, default=0, help="leave families out, so many at once")
    parser.add_argument("--only", type=int, help="one fold alone")
    parser.add_argument("--out", type=Path, default=MODEL_FOLDER)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    honest, tools = real(options.honest)
    every = [*written(), *lookalikes()]
    print(f"{len(every)} written texts, {len(honest)} statements of real tools", flush=True)
    if not options.folds:
        fit(every, honest, options.out, options.start)
        print(choose_threshold(options.out, tools))
        return
    families = sorted({each.family for each in every})
    found: dict[str, Any] = {}
    for fold in range(options.folds) if options.only is None else [options.only]:
        left = {each for row, each in enumerate(families) if row % options.folds == fold}
        with tempfile.TemporaryDirectory() as folder:
            seen = [each for each in every if each.family not in left]
            fit(seen, honest, Path(folder))
            print(choose_threshold(Path(folder), tools), flush=True)
            found |= recall(Path(folder), [each for each in every if each.family in left])
        print(json.dumps(found, indent=1), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
