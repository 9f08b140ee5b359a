"""Trainers of an encoder and a reranker, by the library's trainer, with resumed runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.encoders.base import FloatArray
from toolcrib.training import import_train
from toolcrib.training.data import TrainingData, batches

CHECKPOINTS = "checkpoints"
BEST_METRIC = "eval_dev_ndcg@10"
"""Metric of the best checkpoint, where there are development queries."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Length and rate of the training loop.

    `rate` is the highest learning rate: it rises over the share `warmup` of all steps, then falls
    to 0. `checks` is the number of checkpoints in an epoch, each evaluated by development queries
    if there are any; training ends after `patience` checks without gain.
    """

    epochs: int = 1
    batch: int = 64
    rate: float = 5e-5
    warmup: float = 0.06
    checks: int = 5
    patience: int = 3
    seed: int = 0


def _fit(  # noqa: PLR0913 -- by name, what the library's trainer takes
    trainer_kind: Any,
    arguments_kind: Any,
    *,
    model: Any,
    rows: Any,
    loss: Any,
    out: Path,
    loop: LoopSettings,
    evaluator: Any,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Train, from the last checkpoint in `out` if there is one; return the trainer's figures.

    With an `evaluator` the best checkpoint is kept, and training stops early.
    """
    transformers = import_train("transformers")
    checked = evaluator is not None
    # A checkpoint needs no card, which takes half a second.
    model.save_pretrained = partial(model.save_pretrained, create_model_card=False)

    class Report(transformers.TrainerCallback):
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_rest: Any) -> None:
            progress(state.global_step, state.max_steps)

    trainer = trainer_kind(
        model=model,
        args=_arguments(arguments_kind, out, loop, len(rows), checked=checked),
        train_dataset=rows,
        loss=loss,
        evaluator=evaluator,
        callbacks=[Report(), *[transformers.EarlyStoppingCallback(loop.patience)] * checked],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    resumed = _last_checkpoint(out / CHECKPOINTS)
    result = trainer.train(resume_from_checkpoint=resumed)
    return {
        "steps": trainer.state.global_step,
        "seconds": round(result.metrics["train_runtime"], 1),
        "loss": round(result.training_loss, 4),
        "best": trainer.state.best_metric,
        "resumed": resumed is not None,
    }


def _arguments(kind: Any, out: Path, loop: LoopSettings, examples: int, *, checked: bool) -> Any:
    """The library's arguments, of the class `kind`; `checked` by development queries."""
    torch = import_train("torch")
    batch = min(loop.batch, examples)
    every = max(1, examples // batch // max(1, loop.checks))
    return kind(
        output_dir=str(out / CHECKPOINTS),
        num_train_epochs=loop.epochs,
        per_device_train_batch_size=batch,
        learning_rate=loop.rate,
        warmup_steps=loop.warmup,
        weight_decay=0.01,
        bf16=_has_bf16(torch),
        use_cpu=not torch.cuda.is_available(),
        seed=loop.seed,
        data_seed=loop.seed,
        save_steps=every,
        save_total_limit=2,
        eval_strategy="steps" if checked else "no",
        eval_steps=every if checked else None,
        load_best_model_at_end=checked,
        metric_for_best_model=BEST_METRIC if checked else None,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=False,
    )


def _silence_libraries() -> None:
    """Switch off the libraries' progress bars and reports in favour of our own."""
    transformers = import_train("transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    import_train("datasets").disable_progress_bars()


def _last_checkpoint(folder: Path) -> str | None:
    """The last complete checkpoint; incomplete checkpoints are removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    for path in reversed(found):
        if (path / "trainer_state.json").is_file():
            return str(path)
        shutil.rmtree(path)
    return None


def _has_bf16(torch: Any) -> bool:
    """True if the processor multiplies in bfloat16; otherwise bfloat16 is slower than float32."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, Any] = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


ENCODER_TOKENS, RERANKER_TOKENS = 96, 128
"""Cut of texts while training."""

FIRST_WEIGHT_SHARES = (0.0, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class EncoderTraining:
    """Settings to fine-tune an encoder, beside the loop's own.

    `mix` is the share of the base's weights in the result: a mixture keeps more abilities of the
    base (WiSE-FT, Wortsman et al. 2022). None: the best of `FIRST_WEIGHT_SHARES` on the
    development queries, or 0.5 without queries.
    """

    loop: LoopSettings = field(default_factory=LoopSettings)
    mix: float | None = None


def train_encoder(
    base: str,
    data: TrainingData,
    vectors: FloatArray,
    out: Path,
    settings: EncoderTraining,
    *,
    evaluator: Any = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, Any]:
    """Train from `base` (a folder or a hub name) into `out`, a sentence-transformers folder.

    `data` and the guide's `vectors` come from `data.mine`. With an `evaluator` the best checkpoint
    is kept. A killed run resumes from its last checkpoint.

    Returns the trainer's figures: steps, seconds, mean loss, best measure.
    """
    st = import_train("sentence_transformers")
    loss_kind = import_train("toolcrib.training.loss").MaskedContrastiveLoss
    _silence_libraries()
    model: Any = st.SentenceTransformer(
        base,
        model_kwargs={"attn_implementation": "eager"},
        # Dropout takes a third of the time, and few epochs need no regulariser.
        config_kwargs={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    )
    model.max_seq_length = ENCODER_TOKENS
    model.model_card_data.generate_widget_examples = False
    # Trained word embeddings would overfit the training texts' words, and forget others.
    model[0].auto_model.embeddings.requires_grad_(requires_grad=False)
    start = {name: value.detach().clone() for name, value in model.state_dict().items()}
    sampler = partial(_batch_sampler, [e.source for e in data.examples], settings.loop.seed)
    account = _fit(
        st.SentenceTransformerTrainer,
        partial(st.SentenceTransformerTrainingArguments, batch_sampler=sampler),
        model=model,
        rows=_encoder_rows(data),
        loss=loss_kind(model, data.examples, vectors),
        out=out,
        loop=settings.loop,
        evaluator=evaluator,
        progress=progress,
    )
    account["mix"] = _mix_weights(model, start, settings.mix, evaluator)
    model.save(str(out), create_model_card=False)
    return account


def _mix_weights(model: Any, start: dict[str, Any], share: float | None, evaluator: Any) -> float:
    """Mix a share of the first weights into the model; None takes the best share."""
    trained = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def load(share: float) -> None:
        weights = {name: value + share * (start[name] - value) for name, value in trained.items()}
        model.load_state_dict(weights)

    if share is None and evaluator is not None:
        found: dict[float, float] = {}
        for candidate in FIRST_WEIGHT_SHARES:
            load(candidate)
            found[candidate] = evaluator(model)[BEST_METRIC.removeprefix("eval_")]
        share = max(found, key=found.__getitem__)
    share = FIRST_WEIGHT_SHARES[-1] if share is None else share
    load(share)
    return share


def _encoder_rows(data: TrainingData) -> Any:
    columns: dict[str, list[Any]] = {"query": [e.query for e in data.examples]}
    texts = zip(*((e.positive, *e.negatives) for e in data.examples), strict=True)
    for number, places in enumerate(texts):
        columns[f"text_{number}"] = [data.documents[place] for place in places]
    columns["label"] = list(range(len(data.examples)))
    return import_train("datasets").Dataset.from_dict(columns)


def _batch_sampler(sources: Sequence[str], seed: int, /, *given: Any, **options: Any) -> Any:
    """The library's sampler of a data set, with our own batches."""
    sampler = import_train("sentence_transformers.base.sampler").DefaultBatchSampler

    class Batches(sampler):
        """Batches of one source and mixed batches, in another order in each epoch."""

        def __iter__(self) -> Iterator[list[int]]:
            return iter(batches(sources, self.batch_size, seed=seed + self.epoch))

        def __len__(self) -> int:
            return sum(1 for _ in self)

    return Batches(*given, **options)


@dataclass(frozen=True, slots=True)
class RerankerTraining:
    """Settings to fine-tune a reranker; the first `layers` of the encoder are kept."""

    loop: LoopSettings = field(default_factory=lambda: LoopSettings(batch=16))
    layers: int = 3


def train_reranker(
    base: str,
    data: TrainingData,
    out: Path,
    settings: RerankerTraining,
    *,
    evaluator: Any = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, Any]:
    """Train from `base` (a folder or a hub name of a BERT) into `out`, a folder of the same form.

    As `train_encoder`, but the loss is a softmax over each query's positive and its negatives
    (ListNet with one right answer, Cao et al. 2007).
    """
    ce = import_train("sentence_transformers.cross_encoder")
    listwise = import_train("toolcrib.training.loss").ListwiseLoss
    _silence_libraries()
    import_train("transformers").set_seed(settings.loop.seed)  # the head starts at random
    model: Any = ce.CrossEncoder(
        base,
        num_labels=1,
        max_length=RERANKER_TOKENS,
        model_kwargs={"attn_implementation": "eager"},
        config_kwargs={"num_hidden_layers": settings.layers},
    )
    # No token types: a separator stands between query and text, and our graph has one type.
    model.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    model.model_card_data.generate_widget_examples = False
    model[0].model.base_model.embeddings.requires_grad_(requires_grad=False)
    texts = [[data.documents[place] for place in (e.positive, *e.negatives)] for e in data.examples]
    columns = {"query": [e.query for e in data.examples], "texts": texts}
    account = _fit(
        ce.CrossEncoderTrainer,
        ce.CrossEncoderTrainingArguments,
        model=model,
        rows=import_train("datasets").Dataset.from_dict(columns),
        loss=listwise(model),
        out=out,
        loop=settings.loop,
        evaluator=evaluator,
        progress=progress,
    )
    model.save_pretrained(str(out), create_model_card=False)
    return account
