"""Fine-tunes a dense encoder on queries and tools, on the CPU or on GPUs, and can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.encoders.base import FloatArray
from toolcrib.training.batches import batches
from toolcrib.training.examples import TrainingData
from toolcrib.extras import import_extra
from toolcrib.training.loop import METRIC, LoopSettings, Progress, arguments, callbacks, quiet, run

__all__ = ["EncoderSettings", "train_encoder"]

FEATURE = "training an encoder"
MIXES = (0.0, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How an encoder is fine-tuned, beside the loop's own settings.

    `max_tokens` is where texts are cut while training. `words` lets the table of word vectors
    move as well: it learns the training texts' words best, and forgets others. `homogeneous` is
    the share of batches drawn from one source. `mix` is the share of the base's weights in the
    result: half-way back a model keeps more of what it could (WiSE-FT, Wortsman et al. 2022).
    None: the best of `MIXES` on the development queries, and half where there are none.
    """

    loop: LoopSettings = field(default_factory=LoopSettings)
    max_tokens: int = 96
    words: bool = False
    homogeneous: float = 0.5
    mix: float | None = None


def train_encoder(
    base: str,
    data: TrainingData,
    vectors: FloatArray,
    out: Path,
    settings: EncoderSettings,
    *,
    evaluator: Any = None,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, Any]:
    """Train from `base` (a folder or a hub name) into `out`, a sentence-transformers folder.

    `data` has negatives, and `vectors` are the guide's of its texts (`negatives.mine`). With an
    `evaluator` (`development`) the best checkpoint is kept. A run that was killed goes on from
    its last checkpoint.

    Returns the trainer's own account: steps, seconds, the mean loss, the best figure.

    Raises:
        MissingExtraError: the extra `train` is not installed.
    """
    st = import_extra("sentence_transformers", FEATURE, "train")
    loss_kind = import_extra("toolcrib.training.loss", FEATURE, "train").MaskedContrastiveLoss
    quiet()
    model: Any = st.SentenceTransformer(base, model_kwargs={"attn_implementation": "eager"})
    model.max_seq_length = settings.max_tokens
    model.model_card_data.generate_widget_examples = False
    if not settings.words:
        model[0].auto_model.embeddings.requires_grad_(requires_grad=False)
    start = {name: value.detach().clone() for name, value in model.state_dict().items()}
    loss = loss_kind(model, data.examples, vectors)
    metric = None if evaluator is None else METRIC
    trainer = _trainer([e.source for e in data.examples], settings)(
        model=model,
        args=arguments(
            st.SentenceTransformerTrainingArguments, out, settings.loop, len(data.examples), metric
        ),
        train_dataset=_rows(data),
        loss=loss,
        evaluator=evaluator,
        callbacks=callbacks(settings.loop, progress, metric),
    )
    account = run(trainer, out)
    account["mix"] = _mixed(model, start, settings.mix, evaluator)
    model.save(str(out), create_model_card=False)
    return account


def _mixed(model: Any, start: dict[str, Any], share: float | None, evaluator: Any) -> float:
    """Put the wanted share of the first weights into the model, or the share that serves best."""
    trained = {name: value.detach().clone() for name, value in model.state_dict().items()}

    def load(share: float) -> None:
        weights = {name: value + share * (start[name] - value) for name, value in trained.items()}
        model.load_state_dict(weights)

    if share is None and evaluator is not None:
        found: dict[float, float] = {}
        for candidate in MIXES:
            load(candidate)
            found[candidate] = evaluator(model)[METRIC.removeprefix("eval_")]
        share = max(found, key=lambda candidate: found[candidate])
    share = MIXES[-1] if share is None else share
    load(share)
    return share


def _rows(data: TrainingData) -> Any:
    columns: dict[str, list[Any]] = {
        "query": [e.query for e in data.examples],
        "positive": [data.documents[e.positive] for e in data.examples],
    }
    for column in range(len(data.examples[0].negatives)):
        columns[f"negative_{column}"] = [data.documents[e.negatives[column]] for e in data.examples]
    columns["label"] = list(range(len(data.examples)))
    return import_extra("datasets", FEATURE, "train").Dataset.from_dict(columns)


def _trainer(sources: Sequence[str], settings: EncoderSettings) -> Any:
    """The library's trainer with our own order of batches."""
    base = import_extra("sentence_transformers", FEATURE, "train").SentenceTransformerTrainer
    sampler = import_extra("sentence_transformers.base.sampler", FEATURE, "train").DefaultBatchSampler

    class Batches(sampler):
        """Batches of one source and mixed ones, in an order of the epoch's own."""

        def __iter__(self) -> Iterator[list[int]]:
            return iter(self._drawn())

        def __len__(self) -> int:
            return len(self._drawn())

        def _drawn(self) -> list[list[int]]:
            seed, share = settings.loop.seed + self.epoch, settings.homogeneous
            return batches(sources, self.batch_size, homogeneous=share, seed=seed)

    class Trainer(base):
        """The trainer; sentence-transformers asks for this override where batches are one's own."""

        def get_batch_sampler(self, dataset: Any, batch_size: int, **options: Any) -> Any:
            return Batches(dataset, batch_size=batch_size, **options)

    return Trainer
