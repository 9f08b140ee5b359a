"""From a model's int8 graph back to weights that can be trained."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.encoders.tiny_bert import random_weights
from toolcrib.encoders.onnx import DEFAULT_MODEL, BundledEncoder
from toolcrib.encoders.onnx import MODELS
from toolcrib.errors import EncoderError, MissingExtraError, TrainingError
from toolcrib.training.base import check_base, restore, write_for_training
from toolcrib.training.export import Weights, export

CARD = {"name": "office", "max_tokens": 64}
TEXTS = ["Write a letter to a person.", "how is the weather", "book a room in a hotel by the river"]
POSITIONS, TYPES = (f"embeddings.{what}_embeddings.weight" for what in ("position", "token_type"))


@pytest.fixture(scope="module")
def made() -> Weights:
    return random_weights()


def _as_graph_has_them(made: Weights) -> dict[str, Any]:
    """The weights with the one token type added to the positions: a graph knows no types."""
    added = made.tensors[POSITIONS] + made.tensors[TYPES][0]
    return {**made.tensors, POSITIONS: added, TYPES: np.zeros_like(made.tensors[TYPES])}


class TestRestore:
    """What a graph gives back."""

    def test_a_float_export_gives_back_what_went_in(self, made: Weights, tmp_path: Path) -> None:
        export(made, tmp_path, CARD, quantised=False)
        found, expected = restore(tmp_path), _as_graph_has_them(made)
        assert found.heads == made.heads
        assert set(found.tensors) == set(expected)
        for name, value in expected.items():
            assert np.array_equal(found.tensors[name], value), name

    def test_an_int8_export_loses_rounding_alone(self, made: Weights, tmp_path: Path) -> None:
        export(made, tmp_path, CARD)
        found, expected = restore(tmp_path), _as_graph_has_them(made)
        assert set(found.tensors) == set(expected)
        for name, value in expected.items():
            lost = np.abs(found.tensors[name] - value).max()
            assert lost < 0.01 * np.abs(value).max() or lost == 0, name
            assert found.tensors[name].dtype == np.float32

    def test_what_was_restored_is_exported_to_the_same_model(
        self, made: Weights, tmp_path: Path
    ) -> None:
        export(made, tmp_path / "one", CARD, quantised=False)
        export(restore(tmp_path / "one"), tmp_path / "two", CARD, quantised=False)
        first, second = ((tmp_path / name / "model.onnx").read_bytes() for name in ("one", "two"))
        assert first == second

    def test_a_graph_of_other_makers_is_refused_and_the_way_out_named(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_bytes(b"{}")
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
        onnx.save(helper.make_model(graph), str(tmp_path / "model.onnx"))
        with pytest.raises(EncoderError, match=r"was not written by toolcrib .*--base"):
            restore(tmp_path)

    def test_a_folder_without_a_model_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EncoderError, match="cannot be read as a model"):
            restore(tmp_path)

    def test_a_damaged_graph_is_refused(self, made: Weights, tmp_path: Path) -> None:
        export(made, tmp_path, CARD, quantised=False)
        (tmp_path / "model.onnx").write_bytes(b"not what it should be")
        with pytest.raises(EncoderError, match="cannot be read as a model"):
            restore(tmp_path)

    def test_without_the_extra_it_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(MissingExtraError, match=r"bundled model .*toolcrib\[train\]"):
            restore(tmp_path)


class TestWritingForTraining:
    """The folder that sentence-transformers opens."""

    def test_the_library_gives_the_vectors_of_the_graph(
        self, made: Weights, tmp_path: Path
    ) -> None:
        export(made, tmp_path / "graph", CARD, quantised=False)
        found = self._in_the_library(made, tmp_path / "written")
        expected = BundledEncoder(tmp_path / "graph").encode_documents(TEXTS)
        assert np.allclose(found, expected, atol=1e-4)

    def test_the_shipped_model_is_restored_as_it_runs(self, tmp_path: Path) -> None:
        found = self._in_the_library(restore(MODELS / DEFAULT_MODEL), tmp_path / "written")
        expected = BundledEncoder().encode_documents(TEXTS)
        assert (found * expected).sum(axis=1).min() > 0.99

    @staticmethod
    def _in_the_library(made: Weights, folder: Path) -> Any:
        from sentence_transformers import SentenceTransformer

        write_for_training(made, folder)
        model = SentenceTransformer(str(folder), device="cpu")
        return model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)


class TestCheckBase:
    """What can be trained from is known before it is trained."""

    def test_a_bert_with_room_enough_will_do(self, made: Weights, tmp_path: Path) -> None:
        write_for_training(made, tmp_path)
        check_base(str(tmp_path), tokens=8)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"model_type": "roberta"}, "roberta with gelu; what is exported is BERT"),
            ({"hidden_act": "relu"}, "bert with relu"),
            ({"max_position_embeddings": 8}, "reads 8 tokens"),
            ({"num_hidden_layers": 1}, "in 1 layers; 64 and 2 are needed"),
        ],
    )
    def test_another_kind_or_a_smaller_one_is_refused(
        self, made: Weights, tmp_path: Path, changed: dict[str, Any], said: str
    ) -> None:
        write_for_training(made, tmp_path)
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changed}))
        with pytest.raises(TrainingError, match=said):
            check_base(str(tmp_path), tokens=64, layers=2)

    def test_what_is_not_there_is_said_to_be_unreadable(self, tmp_path: Path) -> None:
        with pytest.raises(TrainingError, match="nowhere cannot be read"):
            check_base(str(tmp_path / "nowhere"), tokens=8)
