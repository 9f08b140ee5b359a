"""Training that can be killed, goes on where it was, keeps the best and stops in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.training.tiny import base, judge, lesson
from toolcrib.encoders.base import FloatArray
from toolcrib.training.data import TrainingData
from toolcrib.training.export import read_weights
from toolcrib.training.trainer import (
    CHECKPOINTS,
    EncoderTraining,
    LoopSettings,
    _has_bf16,
    train_encoder,
)

LOOP = LoopSettings(epochs=4, batch=12, rate=5e-3, checks=1)
STEPS = 16
"""Of 48 pairs; a checkpoint is written every four steps."""


class KilledError(Exception):
    """Stands for the machine going down."""


class School:
    """A base, a lesson, and a folder for each training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = base(folder / "base")
        self.data: TrainingData
        self.vectors: FloatArray
        self.data, self.vectors = lesson()

    def train(
        self,
        out: str,
        *,
        killed_at: int = 0,
        marks: Sequence[float] = (),
        told: Any = None,
        loop: LoopSettings = LOOP,
    ) -> dict[str, Any]:
        def progress(done: int, total: int) -> None:
            if told is not None:
                told.append((done, total))
            if done == killed_at:
                raise KilledError

        return train_encoder(
            self.base,
            self.data,
            self.vectors,
            self.folder / out,
            EncoderTraining(loop, mix=0.0),
            evaluator=judge(*marks) if marks else None,
            progress=progress,
        )

    def checkpoints(self, out: str) -> list[str]:
        return sorted(path.name for path in (self.folder / out / CHECKPOINTS).glob("checkpoint-*"))

    def weights(self, *parts: str) -> dict[str, Any]:
        """Of a training or a checkpoint; the pooler is no part of what is trained."""
        tensors = read_weights(self.folder.joinpath(*parts)).tensors
        return {name: value for name, value in tensors.items() if "pooler" not in name}


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> School:
    return School(tmp_path_factory.mktemp("school"))


@pytest.fixture(scope="module")
def whole(school: School) -> dict[str, Any]:
    """A training that nothing disturbs, in the folder `whole`."""
    told: list[tuple[int, int]] = []
    return {**school.train("whole", told=told), "told": told}


def _same(some: dict[str, Any], others: dict[str, Any]) -> bool:
    assert set(some) == set(others)
    return all(np.array_equal(value, others[name]) for name, value in some.items())


class TestUndisturbed:
    """From the first step to the last."""

    @pytest.mark.slow
    def test_every_step_is_told(self, whole: dict[str, Any]) -> None:
        assert whole["told"] == [(step, STEPS) for step in range(1, STEPS + 1)]

    def test_the_account_says_what_was_done(self, whole: dict[str, Any]) -> None:
        assert (whole["steps"], whole["resumed"], whole["best"]) == (STEPS, False, None)
        assert whole["loss"] > 0
        assert whole["seconds"] > 0

    def test_the_last_two_checkpoints_are_kept(self, school: School, whole: dict[str, Any]) -> None:
        assert school.checkpoints("whole") == ["checkpoint-12", "checkpoint-16"]

    def test_a_single_check_is_made_at_the_end_and_standard_output_left_alone(
        self, school: School, capfd: pytest.CaptureFixture[str]
    ) -> None:
        school.train("once", loop=replace(LOOP, epochs=1))
        assert school.checkpoints("once") == ["checkpoint-4"]
        assert capfd.readouterr().out == ""


class TestKilled:
    """Started again, it goes on."""

    @pytest.mark.slow
    def test_it_goes_on_from_the_last_checkpoint_and_comes_to_the_same_end(
        self, school: School, whole: dict[str, Any]
    ) -> None:
        with pytest.raises(KilledError):
            school.train("killed", killed_at=10)
        told: list[tuple[int, int]] = []
        account = school.train("killed", told=told)
        assert (account["steps"], account["resumed"]) == (STEPS, True)
        assert told == [(step, STEPS) for step in range(9, STEPS + 1)]
        assert _same(school.weights("killed"), school.weights("whole"))

    @pytest.mark.slow
    def test_before_the_first_checkpoint_it_starts_anew(
        self, school: School, whole: dict[str, Any]
    ) -> None:
        with pytest.raises(KilledError):
            school.train("early", killed_at=2)
        account = school.train("early")
        assert (account["steps"], account["resumed"]) == (STEPS, False)
        assert _same(school.weights("early"), school.weights("whole"))

    @pytest.mark.slow
    def test_a_checkpoint_that_was_half_written_is_passed_over(
        self, school: School, whole: dict[str, Any]
    ) -> None:
        with pytest.raises(KilledError):
            school.train("half", killed_at=10)
        (school.folder / "half" / CHECKPOINTS / "checkpoint-8" / "trainer_state.json").unlink()
        told: list[tuple[int, int]] = []
        account = school.train("half", told=told)
        assert (account["resumed"], told[0]) == (True, (5, STEPS))
        assert _same(school.weights("half"), school.weights("whole"))


class TestJudged:
    """With development queries."""

    @pytest.mark.slow
    def test_the_best_checkpoint_is_what_is_kept(self, school: School) -> None:
        account = school.train("judged", marks=[0.3, 0.5, 0.4, 0.2])
        assert (account["best"], account["steps"]) == (0.5, STEPS)
        assert school.checkpoints("judged") == ["checkpoint-16", "checkpoint-8"]
        best = school.weights("judged", CHECKPOINTS, "checkpoint-8")
        assert _same(school.weights("judged"), best)
        assert not _same(school.weights("judged", CHECKPOINTS, "checkpoint-16"), best)

    @pytest.mark.slow
    def test_after_some_checks_without_gain_it_stops(self, school: School) -> None:
        patient = replace(LOOP, epochs=6, patience=2)
        account = school.train("stopped", loop=patient, marks=[0.4, 0.5, 0.5, 0.4])
        assert (account["best"], account["steps"]) == (0.5, 16)
        best = school.weights("stopped", CHECKPOINTS, "checkpoint-8")
        assert _same(school.weights("stopped"), best)


@pytest.mark.parametrize(
    ("gpu", "capabilities", "fast"),
    [
        (None, {"avx512_bf16": True}, True),
        (None, {"amx_bf16": True}, True),
        (None, {"avx512_bf16": False, "avx2": True}, False),
        (None, {}, False),
        (True, {}, True),
        (False, {"avx512_bf16": True}, False),
    ],
)
def test_bfloat16_is_used_where_the_processor_has_it(
    gpu: bool | None, capabilities: dict[str, bool], fast: bool
) -> None:
    torch = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: gpu is not None, is_bf16_supported=lambda: gpu),
        cpu=SimpleNamespace(get_capabilities=lambda: capabilities),
    )
    assert _has_bf16(torch) is fast
