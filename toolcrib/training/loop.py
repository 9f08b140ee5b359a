"""What both kinds of training share: the library's trainer, set up, watched and resumed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.extras import import_extra

__all__ = [
    "CHECKPOINTS",
    "METRIC",
    "LoopSettings",
    "Progress",
    "arguments",
    "callbacks",
    "quiet",
    "run",
]

FEATURE = "training a model"
CHECKPOINTS = "checkpoints"
METRIC = "eval_dev_ndcg@10"
"""What the best checkpoint is best in, where there are development queries."""

Progress = Callable[[int, int], None]
"""Is told how many steps are done, and of how many."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How long and how fast.

    `rate` is the highest learning rate, reached after the share `warmup` of all steps and then
    falling to nothing. `checks` is how often in an epoch a checkpoint is written and, where
    there are development queries, they are asked; after `patience` checks without gain training
    ends.
    """

    epochs: int = 1
    batch: int = 64
    rate: float = 5e-5
    warmup: float = 0.06
    checks: int = 5
    patience: int = 3
    seed: int = 0


def arguments(
    kind: Any, out: Path, settings: LoopSettings, examples: int, metric: str | None
) -> Any:
    """The trainer's own arguments, of the class `kind`; `metric` names what is best, if any."""
    torch = import_extra("torch", FEATURE, "train")
    batch = min(settings.batch, examples)
    every = max(1, examples // batch // max(1, settings.checks))
    return kind(
        output_dir=str(out / CHECKPOINTS),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=batch,
        learning_rate=settings.rate,
        warmup_steps=settings.warmup,
        weight_decay=0.01,
        bf16=_has_bf16(torch),
        use_cpu=not torch.cuda.is_available(),
        seed=settings.seed,
        data_seed=settings.seed,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        eval_strategy="no" if metric is None else "steps",
        eval_steps=None if metric is None else every,
        load_best_model_at_end=metric is not None,
        metric_for_best_model=metric,
        logging_steps=50,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=False,
    )


def callbacks(settings: LoopSettings, progress: Progress, metric: str | None) -> list[Any]:
    """Those that report progress and, where there is a figure to go by, stop in time."""
    transformers = import_extra("transformers", FEATURE, "train")

    class Report(transformers.TrainerCallback):
        """Tells how far training is."""

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_rest: Any) -> None:
            progress(state.global_step, state.max_steps)

    stop = [] if metric is None else [transformers.EarlyStoppingCallback(settings.patience)]
    return [Report(), *stop]


def quiet() -> None:
    """Keep the libraries' own bars and reports from the screen: there is one bar, our own."""
    transformers = import_extra("transformers", FEATURE, "train")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    import_extra("datasets", FEATURE, "train").disable_progress_bars()


def run(trainer: Any, out: Path) -> dict[str, Any]:
    """Train, from the last checkpoint in `out` where there is one; the trainer's own account."""
    transformers = import_extra("transformers", FEATURE, "train")
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


def _last_checkpoint(folder: Path) -> str | None:
    """The last checkpoint that was written to its end; one that was not is removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    for path in reversed(found):
        if (path / "trainer_state.json").is_file():
            return str(path)
        shutil.rmtree(path)
    return None


def _has_bf16(torch: Any) -> bool:
    """Whether the processor multiplies in bfloat16; elsewhere it is slower than float32."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, Any] = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
