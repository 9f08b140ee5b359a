"""A toy problem that words alone do not solve, and a base small enough to learn it in a second.

Each tool is asked for by code words that its text does not hold, as in a company's own jargon.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from tests.encoders.tiny_bert import Shape, random_weights
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.records import ToolSpec
from toolcrib.training.data import TrainingData, from_labels, mine
from toolcrib.training.export import Weights, write_for_training

__all__ = ["SHAPE", "base", "jargon", "judge", "lesson", "weights"]

SHAPE = Shape(layers=1, tokens=256)
"""As many positions as an exported model is measured with."""

CALM = 0.1
"""Narrower linear layers than `random_weights` has: a model of these learns."""

JARGON = {
    "write a letter to a person": ("river", "stone"),
    "play a song of an album": ("silver", "horse"),
    "show the weather of a city": ("castle", "winter"),
    "book a room in a hotel": ("yellow", "engine"),
    "translate a text into French": ("garden", "uncle"),
    "count the money in a bank": ("forest", "metal"),
    "call a doctor for a child": ("island", "paper"),
    "buy a ticket for the train": ("bridge", "heart"),
    "draw a map of the country": ("tower", "snow"),
    "read the news of the day": ("captain", "golden"),
    "close the door of the house": ("valley", "iron"),
    "find a book in a library": ("desert", "crown"),
}
FRAMES = {
    "train": ("{0} please", "we want the {1}", "now for {0} {1}", "get me my {1} thing"),
    "dev": ("it is {1} then {0}",),
    "test": ("one more {0} and {1}", "can it {1} today"),
}


def weights(shape: Shape = SHAPE, *, cross_encoder: bool = False, seed: int = 7) -> Weights:
    """An encoder, or a cross-encoder, that is no chaos: like texts have like vectors."""
    made = random_weights(shape, cross_encoder=cross_encoder, seed=seed)
    wild = ("embeddings", "classifier")
    tensors = {
        name: value if name.startswith(wild) or "LayerNorm" in name else CALM * value
        for name, value in made.tensors.items()
    }
    return Weights(tensors, made.heads, made.tokenizer)


def base(folder: Path, shape: Shape = SHAPE) -> str:
    """Write an encoder as sentence-transformers opens it; returns the folder's name."""
    import torch

    torch.set_num_threads(1)  # on a busy machine, threads that wait for each other cost minutes
    write_for_training(weights(shape), folder)
    gc.freeze()  # three times a training, its library looks through all that was imported
    return str(folder)


def jargon(*splits: str) -> DataSet:
    """The toy problem, with the queries of these splits only, or of all."""
    tools = tuple(
        ToolSpec(name="_".join(about.split()[:3:2]), description=f"{about.capitalize()}.")
        for about in JARGON
    )
    queries = tuple(
        LabelledQuery(f"{tool.name}-{split}-{at}", frame.format(*words), split, {tool.id: 1})
        for tool, words in zip(tools, JARGON.values(), strict=True)
        for split in splits or FRAMES
        for at, frame in enumerate(FRAMES[split])
    )
    return DataSet("jargon", tools, queries)


def lesson() -> tuple[TrainingData, FloatArray]:
    """The toy problem's training queries, each with a negative, and the guide's vectors."""
    toy = jargon("train")
    return mine([from_labels(toy, toy.queries)], DeterministicEncoder())


def judge(*figures: float) -> Any:
    """An evaluator that gives these figures, one a check, whatever the model is."""
    from sentence_transformers.base.evaluation import BaseEvaluator

    left = iter(figures)

    class Judge(BaseEvaluator):
        def __call__(self, model: Any, *_where: Any, **_when: Any) -> dict[str, float]:
            return {"dev_ndcg@10": next(left)}

    return Judge()
