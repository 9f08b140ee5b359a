"""A training from start to end: gather, mine, train, export, check, judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolcrib import build
from toolcrib.encoders.onnx import DEFAULT_MODEL
from toolcrib.encoders.onnx import MODELS
from toolcrib.errors import TrainingError
from toolcrib.evaluation.dataset import DataSet
from toolcrib.records import ToolSpec
from toolcrib.settings import Settings
from toolcrib.training.agreement import agreement
from toolcrib.training.base import check_base, restore, write_for_training
from toolcrib.training.development import ranking_evaluator, retrieval_evaluator
from toolcrib.training.encoder import EncoderSettings, train_encoder
from toolcrib.training.examples import TrainingData
from toolcrib.training.export import add_to_card, export, read_weights
from toolcrib.training.gathering import Gathered, gather
from toolcrib.training.negatives import mine
from toolcrib.training.reranker import RerankerSettings, train_reranker
from toolcrib.training.splits import TEST, with_dev
from toolcrib.training.verdict import Verdict, judge

__all__ = ["BUNDLED", "Outcome", "Plan", "Stage", "train"]

BUNDLED = "bundled"
WORK = "work"
"""The folder beside the model that holds the run: what it was asked, checkpoints, float weights."""

RERANKER_NEGATIVES = 7
MAX_TOKENS = 256

Stage: TypeAlias = Callable[[str, int, int], None]
"""Is told what is being done, how much of it, and of how much."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to train, on what, and where to; its settings say whether encoder or reranker.

    `base`: `bundled`, or a folder or hub name of sentence-transformers. `corpora`: tools
    without queries, by name. `unseen`: data sets that must not leak into the training texts.
    `checked`: whether development queries choose. `judged`: at most so many test queries of a
    data set judge.
    """

    out: Path
    data_sets: Sequence[DataSet]
    corpora: Mapping[str, Iterable[ToolSpec]] = field(default_factory=dict[str, Any])
    unseen: Sequence[DataSet] = ()
    base: str = BUNDLED
    settings: EncoderSettings | RerankerSettings = field(default_factory=EncoderSettings)
    imitated: bool = True
    limit: int = 3_000
    corpus_limit: int | None = None
    judged: int | None = None
    checked: bool = True
    seed: int = 0

    @property
    def kind(self) -> Literal["encoder", "reranker"]:
        """What is trained."""
        return "encoder" if isinstance(self.settings, EncoderSettings) else "reranker"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: where pairs came from, the trainer's account, the export, the verdict.

    `verdict` is None where no query was held back to judge by.
    """

    pairs: Mapping[str, int]
    left_out: Mapping[str, int]
    data_digest: str
    training: Mapping[str, Any]
    agreement: Mapping[str, float]
    verdict: Verdict | None

    def as_dict(self) -> dict[str, Any]:
        """The outcome as the JSON contract has it, and as the model's card keeps it."""
        return {
            "pairs": dict(self.pairs),
            "left_out_as_near_duplicates": dict(self.left_out),
            "data_sha256": self.data_digest,
            "training": dict(self.training),
            "agreement": dict(self.agreement),
            "verdict": None if self.verdict is None else asdict(self.verdict),
        }


def train(plan: Plan, settings: Settings, report: Stage) -> Outcome:
    """Train a model into `plan.out`: `model.onnx`, `tokenizer.json`, `card.json`.

    `settings` are those in use: their encoder mines the negatives, and what they find is what
    the new model is judged against. Killed and started anew with the same plan, it goes on from
    its last checkpoint.

    Raises:
        TrainingError: nothing to learn from, another run in the folder, or an export that
            does not agree with what was trained.
        MissingExtraError: the extra `train` is not installed.
    """
    work = plan.out / WORK
    base = _base(plan, work)
    check_base(base, MAX_TOKENS, getattr(plan.settings, "layers", 1))
    sets = [with_dev(data, plan.seed) for data in plan.data_sets]
    gathered = _gathered(plan, sets, report)
    guide = build.make_dense(settings)
    data, vectors = mine(
        list(gathered.parts.values()),
        guide,
        count=1 if plan.kind == "encoder" else RERANKER_NEGATIVES,
        seed=plan.seed,
        progress=lambda done, total: report("mining negatives", done, total),
    )
    _claim(work, plan, data)

    def step(done: int, total: int) -> None:
        report("training", done, total)

    if isinstance(plan.settings, EncoderSettings):
        evaluator = retrieval_evaluator(sets, plan.seed) if plan.checked else None
        account = train_encoder(
            base, data, vectors, work, plan.settings, evaluator=evaluator, progress=step
        )
    else:
        evaluator = ranking_evaluator(sets, guide, plan.seed) if plan.checked else None
        account = train_reranker(
            base, data, work, plan.settings, evaluator=evaluator, progress=step
        )
    report("exporting", 0, 0)
    card = {"name": plan.out.resolve().name, "max_tokens": MAX_TOKENS, "base": plan.base}
    export(read_weights(work), plan.out, card)
    agreed = agreement(plan.kind, work, plan.out, data)
    verdict = _verdict(plan, settings, sets, report)
    outcome = Outcome(gathered.pairs, gathered.left_out, data.digest, account, agreed, verdict)
    add_to_card(plan.out, outcome.as_dict())
    return outcome


def _gathered(plan: Plan, sets: Sequence[DataSet], report: Stage) -> Gathered:
    report("gathering", 0, 0)
    gathered = gather(
        sets,
        plan.corpora,
        unseen=plan.unseen,
        imitated=plan.imitated,
        limit=plan.limit,
        corpus_limit=plan.corpus_limit,
        seed=plan.seed,
    )
    if not gathered.parts:
        raise TrainingError(
            "there is nothing to learn from: no training query, and no tool whose purpose can "
            "be told; give labelled queries with a split `train`, or --resplit",
        )
    return gathered


def _claim(work: Path, plan: Plan, data: TrainingData) -> None:
    """Keep the folder for this run; a run that was asked for something else is not continued."""
    asked = {
        "kind": plan.kind,
        "base": plan.base,
        "data_sha256": data.digest,
        "settings": asdict(plan.settings),
    }
    path = work / "run.json"
    if path.exists() and json.loads(path.read_bytes()) != asked:
        raise TrainingError(
            f"{work} holds a run on other data or with other settings; finish that one, remove "
            "the folder, or name another --out",
        )
    work.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")


def _base(plan: Plan, work: Path) -> str:
    """What the trainer opens; of a model folder the weights are read back from its graph."""
    folder = MODELS / DEFAULT_MODEL if plan.base == BUNDLED else Path(plan.base)
    if not (folder / "card.json").is_file():
        return plan.base
    write_for_training(restore(folder), work / "base")
    return str(work / "base")


def _verdict(
    plan: Plan, settings: Settings, sets: Sequence[DataSet], report: Stage
) -> Verdict | None:
    judged = [found for found in sets if found.split(TEST)]
    if not judged:
        return None
    named = {"dense" if plan.kind == "encoder" else "reranker": f"bundled:{plan.out}"}
    encoder = settings.encoder.model_copy(update=named)
    return judge(
        judged,
        settings,
        settings.model_copy(update={"encoder": encoder}),
        limit=plan.judged,
        seed=plan.seed,
        progress=lambda p: report(f"judging {p.data_set}: {p.system}", p.done, p.total),
    )
