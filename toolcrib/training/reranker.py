"""Fine-tunes a cross-encoder of few layers, started from an encoder's weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.training.examples import TrainingData
from toolcrib.extras import import_extra
from toolcrib.training.loop import METRIC, LoopSettings, Progress, arguments, callbacks, quiet, run

__all__ = ["RerankerSettings", "train_reranker"]

FEATURE = "training a reranker"


@dataclass(frozen=True, slots=True)
class RerankerSettings:
    """How a reranker is fine-tuned; `layers` of the encoder are kept, the first ones."""

    loop: LoopSettings = field(default_factory=lambda: LoopSettings(batch=16))
    layers: int = 3
    max_tokens: int = 128
    words: bool = False


def train_reranker(
    base: str,
    data: TrainingData,
    out: Path,
    settings: RerankerSettings,
    *,
    evaluator: Any = None,
    progress: Progress = lambda _done, _total: None,
) -> dict[str, Any]:
    """Train from `base` (a folder or a hub name of a BERT) into `out`, a folder of the same form.

    The loss is a softmax over each query's positive and its negatives (ListNet with one right
    answer, Cao et al. 2007). With an `evaluator` (`development`) the best checkpoint is kept. A run
    that was killed goes on from its last checkpoint.

    Returns the trainer's own account: steps, seconds, the mean loss, the best figure.

    Raises:
        MissingExtraError: the extra `train` is not installed.
    """
    ce = import_extra("sentence_transformers.cross_encoder", FEATURE, "train")
    listwise = import_extra("toolcrib.training.loss", FEATURE, "train").ListwiseLoss
    quiet()
    import_extra("transformers", FEATURE, "train").set_seed(settings.loop.seed)  # the head starts at random
    model: Any = ce.CrossEncoder(
        base,
        num_labels=1,
        max_length=settings.max_tokens,
        model_kwargs={"attn_implementation": "eager"},
        config_kwargs={"num_hidden_layers": settings.layers},
    )
    # Query and text are told apart by the mark between them: the graph that ships has one type.
    model.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    model.model_card_data.generate_widget_examples = False
    if not settings.words:
        model[0].model.base_model.embeddings.requires_grad_(requires_grad=False)
    metric = None if evaluator is None else METRIC
    trainer = ce.CrossEncoderTrainer(
        model=model,
        args=arguments(
            ce.CrossEncoderTrainingArguments, out, settings.loop, len(data.examples), metric
        ),
        train_dataset=_rows(data),
        loss=listwise(model),
        evaluator=evaluator,
        callbacks=callbacks(settings.loop, progress, metric),
    )
    account = run(trainer, out)
    model.save_pretrained(str(out), create_model_card=False)
    return account


def _rows(data: TrainingData) -> Any:
    texts = [[data.documents[place] for place in (e.positive, *e.negatives)] for e in data.examples]
    columns = {"query": [e.query for e in data.examples], "texts": texts}
    return import_extra("datasets", FEATURE, "train").Dataset.from_dict(columns)
