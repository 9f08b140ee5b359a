"""Fine-tuning an encoder: it learns, as often as one likes the same, and may go half-way back."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.tiny import base, jargon, judge, lesson
from toolcrib.training.export import read_weights
from toolcrib.training.session import retrieval_evaluator
from toolcrib.training.trainer import (
    CHECKPOINTS,
    FIRST_WEIGHT_SHARES,
    EncoderTraining,
    LoopSettings,
    _batch_sampler,
    train_encoder,
)

SHORT = LoopSettings(epochs=2, batch=12, rate=5e-3, checks=1)
LONG = replace(SHORT, epochs=10)
WORDS = "embeddings.word_embeddings.weight"


class School:
    """A base, a lesson, and a folder for each training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = base(folder / "base")
        self.lesson = lesson()

    def train(self, out: str, settings: EncoderTraining, marks: Any = None) -> dict[str, Any]:
        return train_encoder(self.base, *self.lesson, self.folder / out, settings, evaluator=marks)

    def weights(self, *parts: str) -> dict[str, Any]:
        """Of the base, a training or a checkpoint, without the pooler, which nothing trains."""
        tensors = read_weights(self.folder.joinpath(*parts)).tensors
        return {name: value for name, value in tensors.items() if "pooler" not in name}

    def found(self, folder: str) -> float:
        """The nDCG@10 on test queries, which no training has seen."""
        from sentence_transformers import SentenceTransformer

        test = jargon("test")
        asked = [replace(query, split="dev") for query in test.queries]
        evaluator = retrieval_evaluator([replace(test, queries=tuple(asked))])
        return evaluator(SentenceTransformer(str(self.folder / folder), device="cpu"))[
            "dev_ndcg@10"
        ]


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> School:
    return School(tmp_path_factory.mktemp("school"))


@pytest.fixture(scope="module")
def trained(school: School) -> dict[str, Any]:
    """A training of ten epochs, in the folder `trained`."""
    return school.train("trained", EncoderTraining(LONG, mix=0.0))


def _far(some: dict[str, Any], others: dict[str, Any]) -> float:
    assert set(some) == set(others)
    return max(float(np.abs(value - others[name]).max()) for name, value in some.items())


class TestLearning:
    """What training is for."""

    @pytest.mark.slow
    def test_the_loss_falls_far_below_guessing(self, trained: dict[str, Any]) -> None:
        candidates = 2 * LONG.batch  # each row of a batch brings a positive and a negative
        assert trained["loss"] < 0.7 * math.log(candidates)

    def test_code_words_lead_to_their_tools_in_sentences_never_seen(
        self, school: School, trained: dict[str, Any]
    ) -> None:
        assert school.found("base") < 0.45
        assert school.found("trained") > 0.6

    def test_words_stay_where_they_are_and_layers_move(
        self, school: School, trained: dict[str, Any]
    ) -> None:
        before, after = school.weights("base"), school.weights("trained")
        moved = {name for name in before if not np.array_equal(before[name], after[name])}
        assert moved == {name for name in before if name.startswith("encoder")}


class TestMixing:
    """The share of the base's weights in the result; what is trained already is mixed anew."""

    @pytest.fixture
    def mixed(self, school: School, trained: dict[str, Any]) -> Any:
        def train(mix: float | None, *marks: float) -> tuple[float, dict[str, Any]]:
            # The finished run has its last checkpoint to go on from: no step is left to take.
            marks_or_none = judge(*marks) if marks else None
            account = school.train("trained", EncoderTraining(LONG, mix=mix), marks_or_none)
            return account["mix"], school.weights("trained")

        return train

    def test_a_quarter_is_on_the_way_back(self, school: School, mixed: Any) -> None:
        _, found = mixed(0.25)
        start, end = school.weights("base"), school.weights("trained", CHECKPOINTS, "checkpoint-40")
        between = {name: 0.25 * start[name] + 0.75 * end[name] for name in start}
        assert _far(found, between) < 1e-5

    @pytest.mark.slow
    @pytest.mark.parametrize("best", FIRST_WEIGHT_SHARES[:2])
    def test_with_them_it_is_what_serves_best(self, school: School, best: float) -> None:
        figures = [float(mix == best) for mix in FIRST_WEIGHT_SHARES]
        name = f"best-{best}"
        account = school.train(name, EncoderTraining(SHORT), judge(0.0, 0.1, *figures))
        assert account["mix"] == best
        start, end = school.weights("base"), school.weights(name, CHECKPOINTS, "checkpoint-8")
        between = {name: best * start[name] + (1 - best) * end[name] for name in start}
        assert _far(school.weights(name), between) < 1e-5


class TestBatches:
    """Which pairs share a batch."""

    def test_each_epoch_has_an_order_of_its_own(self) -> None:
        import torch

        options = {"drop_last": True, "generator": torch.Generator(), "seed": 0}
        sources = ["a"] * 12 + ["b"] * 12
        sampler = _batch_sampler(sources, 0, list(range(24)), batch_size=4, **options)
        first = list(sampler)
        assert list(sampler) == first
        sampler.set_epoch(1)
        assert list(sampler) != first
        assert len(sampler) == len(first) == 6
