"""Training session: gather data, mine negatives, train, export, check and judge."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from toolcrib import build
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.errors import TrainingError
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.results import SIGNIFICANCE_LEVEL, Evaluation
from toolcrib.evaluation.runner import Report, evaluate, query_differences
from toolcrib.evaluation.significance import randomisation_tests
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.numerics import Floats
from toolcrib.records import ToolSpec
from toolcrib.settings import Settings
from toolcrib.training import import_train
from toolcrib.training.data import (
    DEV,
    TEST,
    TRAIN,
    HeldOut,
    TrainingData,
    from_labels,
    imitate,
    mine,
    prune_documents,
    sample_data,
    with_dev,
    without_server,
)
from toolcrib.training.export import (
    add_to_card,
    check_base,
    export_agreeing,
    restore,
    write_for_training,
)
from toolcrib.training.trainer import (
    EncoderTraining,
    RerankerTraining,
    train_encoder,
    train_reranker,
)

BUNDLED_BASE = "bundled"
WORK_FOLDER = "work"
"""Subfolder of a run until it is done: checkpoints, float weights."""

RERANKER_NEGATIVES = 7
MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Plan of a training run; its `settings` decide between encoder and reranker.

    `base`: `bundled`, or a folder or hub name of sentence-transformers. `corpora`: tools
    without queries, by name. `unseen`: data sets that must not leak into the training texts.
    `limit` and `corpus_limit` bound the pairs of a data set and of a corpus, so that none
    dominates. `checked`: development queries choose the checkpoint. `judged`: most test queries of
    a data set for the verdict. `keep_work`: checkpoints and float weights stay in `out/work`.
    """

    out: Path
    data_sets: Sequence[DataSet]
    corpora: Mapping[str, Iterable[ToolSpec]] = field(default_factory=dict[str, Any])
    unseen: Sequence[DataSet] = ()
    base: str = BUNDLED_BASE
    settings: EncoderTraining | RerankerTraining = field(default_factory=EncoderTraining)
    imitated: bool = True
    limit: int = 3_000
    corpus_limit: int | None = None
    judged: int | None = None
    checked: bool = True
    seed: int = 0
    keep_work: bool = False

    @property
    def kind(self) -> Literal["encoder", "reranker"]:
        """Kind of the trained model."""
        return "encoder" if isinstance(self.settings, EncoderTraining) else "reranker"


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Result of a run: pairs by source, the trainer's figures, agreement of the export, verdict.

    Its dictionary is a JSON contract, and is kept in the model's card. `verdict` is None without
    test queries.
    """

    pairs: Mapping[str, int]
    left_out_as_near_duplicates: Mapping[str, int]
    data_sha256: str
    training: Mapping[str, Any]
    agreement: Mapping[str, float]
    verdict: TrainingVerdict | None


def train(plan: TrainingPlan, settings: Settings, report: Report) -> TrainingResult:
    """Train a model into `plan.out`: `model.onnx`, `tokenizer.json`, `card.json`.

    `settings` are the current ones: their encoder mines the negatives, and their answers are the
    baseline of the new model. A killed run with the same plan resumes from its last checkpoint.

    Raises:
        TrainingError: there are no pairs, the folder has another run, or the exported model
            differs from the trained model.
        MissingExtraError: the extra `train` is not installed.
    """
    work = plan.out / WORK_FOLDER
    base = _base(plan, work)
    check_base(base, MAX_TOKENS, getattr(plan.settings, "layers", 1))
    sets = [with_dev(data, plan.seed) for data in plan.data_sets]
    report("gathering", 0, 0)
    gathered = gather(replace(plan, data_sets=sets))
    if not gathered.parts:
        raise TrainingError(
            "there is nothing to learn from: no training query, and no tool with a readable "
            "purpose; give labelled queries with a split `train`, or --resplit"
        )
    guide = build.make_dense(settings)
    data, vectors = mine(
        list(gathered.parts.values()),
        guide,
        count=1 if plan.kind == "encoder" else RERANKER_NEGATIVES,
        seed=plan.seed,
        progress=partial(report, "mining negatives"),
    )
    run = _claim(work, plan, data)
    report("loading the training libraries", 0, 0)
    step = partial(report, "training")
    if isinstance(plan.settings, EncoderTraining):
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
    agreed = export_agreeing(plan.kind, work, plan.out, card, data)
    verdict = _verdict(plan, settings, sets, report)
    pairs, left_out = gathered.pairs, gathered.left_out
    outcome = TrainingResult(pairs, left_out, data.digest, account, agreed, verdict)
    add_to_card(plan.out, {**asdict(outcome), "run": run})
    if not plan.keep_work:
        shutil.rmtree(work)
    return outcome


def _claim(work: Path, plan: TrainingPlan, data: TrainingData) -> dict[str, Any]:
    """Claim the folder for this run; the folder of another run is refused unchanged."""
    asked = {
        "kind": plan.kind,
        "base": plan.base,
        "data_sha256": data.digest,
        "settings": asdict(plan.settings),
    }
    path, card = work / "run.json", plan.out / "card.json"
    known = json.loads(path.read_bytes()) if path.exists() else None
    if known is None and card.exists():
        known = json.loads(card.read_bytes()).get("run")
    if known is not None and known != asked:
        if not path.exists():
            shutil.rmtree(work, ignore_errors=True)  # only the base, no checkpoint
        raise TrainingError(
            f"{plan.out} holds a run with other data or settings; finish that run, remove the "
            "folder, or name another --out"
        )
    work.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")
    return asked


def _base(plan: TrainingPlan, work: Path) -> str:
    """Base for the trainer; the weights of our own model folders are read from the graph."""
    folder = MODELS_FOLDER / DEFAULT_MODEL if plan.base == BUNDLED_BASE else Path(plan.base)
    if not (folder / "card.json").is_file():
        return plan.base
    write_for_training(restore(folder), work / "base")
    return str(work / "base")


def _verdict(
    plan: TrainingPlan, settings: Settings, sets: Sequence[DataSet], report: Report
) -> TrainingVerdict | None:
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
        progress=lambda what, done, total: report(f"judging {what}", done, total),
    )


@dataclass(frozen=True, slots=True)
class GatheredData:
    """Training data, and the number of texts left out, by source."""

    parts: Mapping[str, TrainingData]
    left_out: Mapping[str, int]

    @property
    def pairs(self) -> dict[str, int]:
        """Number of pairs by source."""
        return {name: len(part.examples) for name, part in self.parts.items()}


def gather(plan: TrainingPlan) -> GatheredData:
    """Pairs from the training queries of the plan's data sets, and from tools alone.

    Left out are near-duplicates: training queries like a query outside the training splits, and
    tools of the corpora like a tool of a data set. With `imitated`, the tools of the data sets
    give pairs too.
    """
    every = [*plan.data_sets, *plan.unseen]
    queries = HeldOut(q.text for data in every for q in data.queries if q.split != TRAIN)
    tools = HeldOut(without_server(tool) for data in every for tool in data.tools)
    parts: dict[str, TrainingData] = {}
    left_out: dict[str, int] = {}
    for data in plan.data_sets:
        labelled = [query for query in data.split(TRAIN) if query.relevant]
        kept = [query for query in labelled if query.text not in queries]
        left_out[data.name] = len(labelled) - len(kept)
        parts[data.name] = sample_data(from_labels(data, kept), plan.limit, plan.seed)
        if plan.imitated:
            made = _without(imitate(data.tools, f"{data.name}: tools", seed=plan.seed), queries)
            parts[f"{data.name}: tools"] = sample_data(made, plan.limit, plan.seed)
    for name, specs in plan.corpora.items():
        found = list(specs)
        fresh = [spec for spec in found if without_server(spec) not in tools]
        left_out[name] = len(found) - len(fresh)
        made = _without(imitate(fresh, name, seed=plan.seed), queries)
        if plan.corpus_limit is not None:
            # A corpus can be far larger than its limit, and every text must be encoded.
            made = prune_documents(sample_data(made, plan.corpus_limit, plan.seed))
        parts[name] = made
    return GatheredData({name: part for name, part in parts.items() if part.examples}, left_out)


def _without(data: TrainingData, held: HeldOut) -> TrainingData:
    return replace(data, examples=tuple(e for e in data.examples if e.query not in held))


EVALUATOR_NAME = "dev"
MAX_DEV_QUERIES = 300
"""Most development queries of a data set at each check."""

RANKED_CANDIDATES = 19
"""Wrong texts that a reranker orders beside the right text."""


def retrieval_evaluator(data_sets: Sequence[DataSet], seed: int = 0) -> Any:
    """Evaluator by each data set's development queries over its tools; None without queries.

    The mean of nDCG@10 over the data sets decides.
    """
    module = import_train("sentence_transformers.sentence_transformer.evaluation")
    parts = _parts(data_sets, seed)
    if not parts:
        return None
    return _mean_of_sets([_retrieval(module, part) for part in parts])


def ranking_evaluator(data_sets: Sequence[DataSet], guide: DenseEncoder, seed: int = 0) -> Any:
    """Evaluator by the order of twenty candidates of each development query; None without any."""
    module = import_train("sentence_transformers.cross_encoder.evaluation")
    parts = _parts(data_sets, seed)
    if not parts:
        return None
    data, _ = mine(parts, guide, count=RANKED_CANDIDATES, seed=seed)
    samples = [
        {
            "query": example.query,
            "positive": [data.documents[example.positive]],
            "negative": [data.documents[place] for place in example.negatives],
        }
        for example in data.examples
    ]
    return module.CrossEncoderRerankingEvaluator(samples, name=EVALUATOR_NAME, write_csv=False)


def _parts(data_sets: Sequence[DataSet], seed: int) -> list[TrainingData]:
    labelled = (from_labels(data, data.split(DEV)) for data in data_sets)
    found = [sample_data(part, MAX_DEV_QUERIES, seed) for part in labelled]
    return [part for part in found if part.examples]


def _retrieval(module: Any, part: TrainingData) -> Any:
    queries = {str(place): example.query for place, example in enumerate(part.examples)}
    relevant = {str(place): set(map(str, e.relevant)) for place, e in enumerate(part.examples)}
    corpus = {str(place): text for place, text in enumerate(part.documents)}
    return module.InformationRetrievalEvaluator(
        queries, corpus, relevant, name=part.examples[0].source, write_csv=False
    )


def _mean_of_sets(evaluators: Sequence[Any]) -> Any:
    """Mean of several evaluators' nDCG@10 (the library's own would average accuracies)."""
    base = import_train("sentence_transformers.base.evaluation").BaseEvaluator

    class MeanOfSets(base):
        def __call__(self, model: Any, *_where: Any, **_when: Any) -> dict[str, float]:
            found = [each(model)[f"{each.name}_cosine_ndcg@10"] for each in evaluators]
            return {f"{EVALUATOR_NAME}_ndcg@10": sum(found) / len(found)}

    return MeanOfSets()


COMPARED_MEASURES = ("ndcg@10", "hit@1", "completeness@10")
"""Measures that are shown; the first decides."""


@dataclass(frozen=True, slots=True)
class Change:
    """A measure of a data set before and after.

    `p` is the p-value of a paired randomisation test of this measure.
    """

    data_set: str
    measure: str
    before: float
    after: float
    p: float


@dataclass(frozen=True, slots=True)
class TrainingVerdict:
    """Verdict on a training: `better` or `worse` only if the difference is significant.

    The mean nDCG@10 over the data sets decides, by a paired randomisation test with p-value `p`.
    """

    outcome: Literal["better", "no difference", "worse"]
    p: float
    changes: tuple[Change, ...]


def judge(
    data_sets: Sequence[DataSet],
    before: Settings,
    after: Settings,
    *,
    limit: int | None = None,
    seed: int = 0,
    progress: Report = lambda _what, _done, _total: None,
) -> TrainingVerdict:
    """Measure the whole search with both settings on the test queries of the data sets."""
    with closing(OwnSystems(before)) as old, closing(OwnSystems(after)) as new:
        systems = {"before": partial(old.make, "toolcrib"), "after": partial(new.make, "toolcrib")}
        found = evaluate(data_sets, systems, split=TEST, limit=limit, seed=seed, progress=progress)
    return _weigh(found, seed)


def _weigh(found: Evaluation, seed: int) -> TrainingVerdict:
    changes: list[Change] = []
    deciding: list[Floats] = []
    for data in found.sets.values():
        before, after = data.systems["before"], data.systems["after"]
        columns = query_differences(after, before)
        if not columns:
            continue
        differences = np.column_stack([columns[measure] for measure in COMPARED_MEASURES])
        tests = zip(COMPARED_MEASURES, randomisation_tests(differences, seed), strict=True)
        changes += (
            Change(data.name, each, before.measures[each].mean, after.measures[each].mean, float(p))
            for each, p in tests
        )
        # Data sets weigh alike, whatever their number of queries.
        deciding.append(differences[:, :1] / len(differences) / len(found.sets))
    if not deciding:
        return TrainingVerdict("no difference", 1.0, ())
    weighed = np.concatenate(deciding)
    chance = float(randomisation_tests(weighed, seed)[0])
    if chance >= SIGNIFICANCE_LEVEL:
        return TrainingVerdict("no difference", chance, tuple(changes))
    return TrainingVerdict("better" if weighed.sum() > 0 else "worse", chance, tuple(changes))
