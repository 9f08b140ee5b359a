"""Fine-tuning a reranker: it learns what right texts have in common, and keeps a few layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.tiny import SHAPE, base
from toolcrib.encoders.onnx import BundledReranker
from toolcrib.training.data import Example, TrainingData
from toolcrib.training.export import export, read_weights
from toolcrib.training.trainer import LoopSettings, RerankerTraining, train_reranker

THINGS = [
    "river",
    "stone",
    "silver",
    "horse",
    "castle",
    "winter",
    "yellow",
    "engine",
    "garden",
    "uncle",
    "forest",
    "metal",
]
UNSEEN = ["island", "paper", "bridge", "heart", "tower", "snow", "captain", "golden"]
LOOP = LoopSettings(epochs=6, batch=4, rate=5e-3, checks=1)
SETTINGS = RerankerTraining(LOOP, layers=1)
STEPS = 18


def lesson() -> TrainingData:
    """For each thing the new one is right, and the old one is not."""
    texts = tuple(f"the {age} {thing}" for thing in THINGS for age in ("new", "old"))
    examples = tuple(
        Example(thing, 2 * at, frozenset({2 * at}), "toy", (2 * at + 1,))
        for at, thing in enumerate(THINGS)
    )
    return TrainingData(texts, examples)


class KilledError(Exception):
    """Stands for the machine going down."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    return base(tmp_path_factory.mktemp("start"))


@pytest.fixture(scope="module")
def trained(start: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("trained")
    return folder, train_reranker(start, lesson(), folder, SETTINGS)


def _tensors(folder: Path) -> dict[str, Any]:
    return dict(read_weights(folder).tensors)


def _moved(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name in before if not np.array_equal(before[name], after[name])}


@pytest.mark.slow
def test_it_learns_to_tell_right_from_wrong_in_texts_never_seen(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, account = trained
    assert account["loss"] < 0.9 * np.log(2)
    export(read_weights(folder), tmp_path, {"name": "toy", "max_tokens": 64})
    reranker = BundledReranker(tmp_path)
    right = [
        np.argmax(reranker.score(thing, [f"the old {thing}", f"the new {thing}"]))
        for thing in UNSEEN
    ]
    assert np.mean(right) == 1


def test_words_stay_where_they_are_and_layers_move(
    start: str, trained: tuple[Path, dict[str, Any]]
) -> None:
    before, after = _tensors(Path(start)), _tensors(trained[0])
    assert _moved(before, after) == {name for name in before if name.startswith("encoder")}


def test_of_the_base_the_first_layers_are_kept(tmp_path: Path) -> None:
    deep = base(tmp_path / "deep", replace(SHAPE, layers=3))
    still = RerankerTraining(replace(LOOP, epochs=2, rate=0.0), layers=2)
    train_reranker(deep, lesson(), tmp_path / "out", still)
    before, after = _tensors(tmp_path / "deep"), _tensors(tmp_path / "out")
    kept = {name for name in before if "layer.2." not in name}
    assert {name for name in after if name in before} == kept
    assert _moved({name: before[name] for name in kept}, after) == set()


@pytest.mark.slow
def test_killed_it_goes_on_and_comes_to_the_same_end(
    start: str, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    def kill(done: int, total: int) -> None:
        assert total == STEPS
        if done == 8:
            raise KilledError

    with pytest.raises(KilledError):
        train_reranker(start, lesson(), tmp_path, SETTINGS, progress=kill)
    told: list[int] = []
    account = train_reranker(
        start, lesson(), tmp_path, SETTINGS, progress=lambda done, _total: told.append(done)
    )
    assert (account["resumed"], account["steps"], told[0]) == (True, STEPS, 7)
    assert _moved(_tensors(trained[0]), _tensors(tmp_path)) == set()


def test_query_and_text_are_told_apart_by_the_mark_between_them_alone(
    trained: tuple[Path, dict[str, Any]],
) -> None:
    from sentence_transformers.cross_encoder import CrossEncoder

    model = CrossEncoder(str(trained[0]), device="cpu")
    assert "token_type_ids" not in model.preprocess([("river", "stone")])
