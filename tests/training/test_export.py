"""A model folder from plain weights: the same bytes each time, and a card that vouches for them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from tests.encoders.tiny_bert import SMALL, random_weights
from tests.training import tiny
from tests.training.tiny import SHAPE, base, jargon
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER, BundledEncoder, read_card
from toolcrib.errors import EncoderError, TrainingError
from toolcrib.training.data import Example, TrainingData, from_labels, mine
from toolcrib.training.export import (
    Weights,
    add_to_card,
    agreement,
    check_base,
    export,
    export_agreeing,
    read_weights,
    restore,
    write_for_training,
)

CARD = {"name": "office", "max_tokens": 64, "base": "somewhere"}
WORDS = "embeddings.word_embeddings.weight"
FILES = ("card.json", "model.onnx", "tokenizer.json")
TEXTS = ["Write a letter to a person.", "how is the weather", "book a room in a hotel by the river"]


@pytest.fixture(scope="module")
def weights() -> Weights:
    return random_weights()


@pytest.fixture(scope="module")
def exported(weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "new" / "model"
    export(weights, folder, CARD)
    return folder


def _card(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "card.json").read_bytes())


class TestExport:
    """What is written."""

    def test_the_same_weights_give_the_same_bytes(
        self, weights: Weights, exported: Path, tmp_path: Path
    ) -> None:
        export(weights, tmp_path, CARD)
        assert sorted(file.name for file in tmp_path.iterdir()) == sorted(FILES)
        for file in FILES:
            assert (tmp_path / file).read_bytes() == (exported / file).read_bytes()

    def test_the_card_keeps_what_it_was_given_and_tells_how_to_run_the_model(
        self, exported: Path
    ) -> None:
        card = _card(exported)
        assert card.items() >= CARD.items()
        assert (card["dimensions"], card["pad_token_id"]) == (SMALL.width, 0)
        assert card["inputs"] == ["input_ids", "attention_mask"]
        assert card["outputs"] == ["sentence_embedding", "token_embeddings"]

    def test_the_card_has_the_digest_of_each_file(self, exported: Path) -> None:
        digests = {
            name: hashlib.sha256((exported / name).read_bytes()).hexdigest() for name in FILES[1:]
        }
        assert _card(exported)["sha256"] == digests
        assert read_card(exported).identity == f"office@{digests['model.onnx'][:12]}"

    def test_int8_is_small_and_says_what_float_says(
        self, weights: Weights, exported: Path, tmp_path: Path
    ) -> None:
        export(weights, tmp_path, CARD, quantised=False)
        sizes = [(folder / "model.onnx").stat().st_size for folder in (exported, tmp_path)]
        assert sizes[0] < 0.4 * sizes[1]
        small, plain = (BundledEncoder(folder) for folder in (exported, tmp_path))
        cosines = (small.encode_documents(TEXTS) * plain.encode_documents(TEXTS)).sum(axis=1)
        assert cosines.min() > 0.98

    def test_a_cross_encoder_gives_its_logit_alone(self, tmp_path: Path) -> None:
        export(random_weights(cross_encoder=True), tmp_path, CARD)
        assert _card(tmp_path)["outputs"] == ["logit"]

    def test_a_word_whose_vector_is_nothing_stays_so(
        self, weights: Weights, tmp_path: Path
    ) -> None:
        words = weights.tensors[WORDS].copy()
        words[0] = 0  # as transformers makes the row of [PAD]
        export(
            Weights({**weights.tensors, WORDS: words}, weights.heads, weights.tokenizer),
            tmp_path,
            CARD,
        )
        assert not restore(tmp_path).tensors[WORDS][0].any()

    def test_the_tokenizer_loses_the_padding_and_truncation_that_it_was_saved_with(
        self, weights: Weights, exported: Path, tmp_path: Path
    ) -> None:
        tokenizer = Tokenizer.from_str(weights.tokenizer.decode())
        tokenizer.enable_padding(length=32)
        tokenizer.enable_truncation(5)
        export(Weights(weights.tensors, weights.heads, tokenizer.to_str().encode()), tmp_path, CARD)
        written = (tmp_path / "tokenizer.json").read_bytes()
        assert written == (exported / "tokenizer.json").read_bytes()
        assert json.loads(written)["padding"] is json.loads(written)["truncation"] is None


def test_a_card_takes_more_facts_and_keeps_the_others(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "office", "pairs": 1}', encoding="utf-8")
    add_to_card(tmp_path, {"pairs": 2, "über": ["ja"]})
    assert _card(tmp_path) == {"name": "office", "pairs": 2, "über": ["ja"]}
    assert "über" in (tmp_path / "card.json").read_text(encoding="utf-8")


class TestReadingWeights:
    """Folders in the form of the hub."""

    def test_what_was_written_for_training_is_read_back(self, tmp_path: Path) -> None:
        weights = tiny.weights()
        write_for_training(weights, tmp_path)
        found = read_weights(tmp_path)
        assert found.heads == weights.heads
        assert set(found.tensors) == set(weights.tensors)
        for name, value in weights.tensors.items():
            assert np.array_equal(found.tensors[name], value)

    def test_a_cross_encoders_weights_have_the_names_of_an_encoders_and_a_head(
        self, tmp_path: Path
    ) -> None:
        from transformers import BertConfig, BertForSequenceClassification

        size = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16}
        config = BertConfig(vocab_size=99, num_attention_heads=4, num_labels=1, **size)
        BertForSequenceClassification(config).half().save_pretrained(str(tmp_path))
        (tmp_path / "tokenizer.json").write_bytes(b"{}")
        found = read_weights(tmp_path)
        assert (found.heads, found.tokenizer) == (4, b"{}")
        assert set(found.tensors) == set(tiny.weights(cross_encoder=True).tensors)
        assert {value.dtype for value in found.tensors.values()} == {np.dtype(np.float32)}


POSITIONS, TYPES = (f"embeddings.{what}_embeddings.weight" for what in ("position", "token_type"))


def _as_graph_has_them(weights: Weights) -> dict[str, Any]:
    """The weights with the one token type added to the positions: a graph knows no types."""
    added = weights.tensors[POSITIONS] + weights.tensors[TYPES][0]
    return {
        **weights.tensors,
        POSITIONS: added,
        TYPES: np.zeros_like(weights.tensors[TYPES]),
    }


class TestRestore:
    """What a graph gives back."""

    def test_a_float_export_gives_back_what_went_in(self, weights: Weights, tmp_path: Path) -> None:
        export(weights, tmp_path, CARD, quantised=False)
        found, expected = restore(tmp_path), _as_graph_has_them(weights)
        assert found.heads == weights.heads
        assert set(found.tensors) == set(expected)
        for name, value in expected.items():
            assert np.array_equal(found.tensors[name], value), name

    def test_an_int8_export_loses_rounding_alone(self, weights: Weights, tmp_path: Path) -> None:
        export(weights, tmp_path, CARD)
        found, expected = restore(tmp_path), _as_graph_has_them(weights)
        assert set(found.tensors) == set(expected)
        for name, value in expected.items():
            lost = np.abs(found.tensors[name] - value).max()
            assert lost < 0.01 * np.abs(value).max() or lost == 0, name
            assert found.tensors[name].dtype == np.float32

    def test_what_was_restored_is_exported_to_the_same_model(
        self, weights: Weights, tmp_path: Path
    ) -> None:
        export(weights, tmp_path / "one", CARD, quantised=False)
        export(restore(tmp_path / "one"), tmp_path / "two", CARD, quantised=False)
        first, second = ((tmp_path / name / "model.onnx").read_bytes() for name in ("one", "two"))
        assert first == second

    def test_a_graph_of_other_makers_is_refused_and_the_way_out_named(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_bytes(b"{}")
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
        onnx.save(helper.make_model(graph), str(tmp_path / "model.onnx"))
        with pytest.raises(EncoderError, match="--base"):
            restore(tmp_path)

    def test_a_folder_without_a_model_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EncoderError, match="cannot be read as a model"):
            restore(tmp_path)


class TestWritingForTraining:
    """The folder that sentence-transformers opens."""

    def test_the_library_gives_the_vectors_of_the_graph(
        self, weights: Weights, tmp_path: Path
    ) -> None:
        export(weights, tmp_path / "graph", CARD, quantised=False)
        found = self._in_the_library(weights, tmp_path / "written")
        expected = BundledEncoder(tmp_path / "graph").encode_documents(TEXTS)
        assert np.allclose(found, expected, atol=1e-4)

    def test_the_shipped_model_is_restored_as_it_runs(self, tmp_path: Path) -> None:
        found = self._in_the_library(restore(MODELS_FOLDER / DEFAULT_MODEL), tmp_path / "written")
        expected = BundledEncoder().encode_documents(TEXTS)
        assert (found * expected).sum(axis=1).min() > 0.99

    @staticmethod
    def _in_the_library(weights: Weights, folder: Path) -> Any:
        from sentence_transformers import SentenceTransformer

        write_for_training(weights, folder)
        model = SentenceTransformer(str(folder), device="cpu")
        return model.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)


class TestCheckBase:
    """What can be trained from is known before it is trained."""

    def test_a_bert_with_room_enough_will_do(self, weights: Weights, tmp_path: Path) -> None:
        write_for_training(weights, tmp_path)
        check_base(str(tmp_path), tokens=8)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"model_type": "roberta"}, "roberta with gelu; only BERT with gelu"),
            ({"hidden_act": "relu"}, "bert with relu"),
            ({"max_position_embeddings": 8}, "reads 8 tokens"),
            ({"num_hidden_layers": 1}, "in 1 layers; 64 and 2 are needed"),
        ],
    )
    def test_another_kind_or_a_smaller_one_is_refused(
        self, weights: Weights, tmp_path: Path, changed: dict[str, Any], said: str
    ) -> None:
        write_for_training(weights, tmp_path)
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changed}))
        with pytest.raises(TrainingError, match=said):
            check_base(str(tmp_path), tokens=64, layers=2)

    def test_what_is_not_there_is_said_to_be_unreadable(self, tmp_path: Path) -> None:
        with pytest.raises(TrainingError, match="nowhere cannot be read"):
            check_base(str(tmp_path / "nowhere"), tokens=8)


CARD_AGREEMENT = {"name": "office", "max_tokens": SHAPE.tokens}
TEXTS_AGREEMENT = (
    "river " * 20 + "silver " * 99,
    "castle " * 20 + "horse " * 99,
    "metal " * 20 + "uncle " * 99,
)
LONG = TrainingData(
    TEXTS_AGREEMENT,
    tuple(
        Example(TEXTS_AGREEMENT[at], at, frozenset({at}), "toy", ((at + 1) % 3,)) for at in range(3)
    ),
)
"""Texts that begin otherwise than they go on."""


@pytest.fixture(scope="module")
def data() -> TrainingData:
    toy = jargon("train")
    return mine([from_labels(toy, toy.queries)], DeterministicEncoder(), count=3)[0]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sentence_transformers import SentenceTransformer

    folder = tmp_path_factory.mktemp("encoder")
    SentenceTransformer(base(folder / "base"), device="cpu").save(str(folder / "trained"))
    return folder / "trained"


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from sentence_transformers.cross_encoder import CrossEncoder

    torch.manual_seed(1)  # the head starts at random
    folder = tmp_path_factory.mktemp("reranker")
    model = CrossEncoder(base(folder / "base"), num_labels=1, device="cpu")
    model.save_pretrained(str(folder / "trained"))
    return folder / "trained"


def test_an_encoders_export_gives_nearly_its_vectors(
    encoder: Path, data: TrainingData, tmp_path: Path
) -> None:
    export(read_weights(encoder), tmp_path, CARD_AGREEMENT)
    found = agreement("encoder", encoder, tmp_path, data)
    assert set(found) == {"cosine_mean", "cosine_min"}
    assert 0.98 < found["cosine_min"] <= found["cosine_mean"] <= 1.001


def test_a_rerankers_export_orders_texts_as_it_does(
    reranker: Path, data: TrainingData, tmp_path: Path
) -> None:
    export(read_weights(reranker), tmp_path, CARD_AGREEMENT)
    found = agreement("reranker", reranker, tmp_path, data)
    assert set(found) == {"correlation"}
    assert 0.98 < found["correlation"] <= 1.001


def test_where_int8_costs_too_much_the_export_is_kept_in_full_precision(
    reranker: Path, data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.training.export.MIN_AGREEMENT", 0.99999)
    found = export_agreeing("reranker", reranker, tmp_path, CARD_AGREEMENT, data)
    assert found["correlation"] > 0.99999


def test_an_encoders_export_of_other_weights_is_refused(
    encoder: Path, data: TrainingData, tmp_path: Path
) -> None:
    export(tiny.weights(seed=8), tmp_path, CARD_AGREEMENT)
    with pytest.raises(TrainingError, match="does not agree") as refused:
        agreement("encoder", encoder, tmp_path, data)
    assert f"sentence-transformers:{encoder}" in str(refused.value)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_reranker_that_finds_all_texts_alike_is_refused(
    reranker: Path, data: TrainingData, tmp_path: Path
) -> None:
    weights = read_weights(reranker)
    weights.tensors["classifier.weight"][:] = 0
    export(weights, tmp_path, CARD_AGREEMENT)
    with pytest.raises(TrainingError, match="nan"):
        agreement("reranker", reranker, tmp_path, data)


class TestLongTexts:
    """Training cuts texts shorter than the export does; that is no fault of the export."""

    def test_an_encoder_that_was_trained_on_their_beginnings(
        self, encoder: Path, tmp_path: Path
    ) -> None:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(encoder), device="cpu")
        model.max_seq_length = 16
        model.save(str(tmp_path / "trained"))
        export(read_weights(tmp_path / "trained"), tmp_path / "exported", CARD_AGREEMENT)
        found = agreement("encoder", tmp_path / "trained", tmp_path / "exported", LONG)
        assert found["cosine_min"] > 0.98

    def test_a_reranker_that_was_trained_on_their_beginnings(
        self, reranker: Path, tmp_path: Path
    ) -> None:
        from sentence_transformers.cross_encoder import CrossEncoder

        model = CrossEncoder(str(reranker), max_length=16, device="cpu")
        model.save_pretrained(str(tmp_path / "trained"))
        export(read_weights(tmp_path / "trained"), tmp_path / "exported", CARD_AGREEMENT)
        found = agreement("reranker", tmp_path / "trained", tmp_path / "exported", LONG)
        assert found["correlation"] > 0.98
