"""A model folder from plain weights: the same bytes each time, and a card that vouches for them."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.encoders.tiny_bert import SMALL, random_weights
from tests.training.tiny import weights
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.encoders.onnx import read_card
from toolcrib.errors import MissingExtraError
from toolcrib.training.base import restore, write_for_training
from toolcrib.training.export import Weights, add_to_card, export, read_weights

CARD = {"name": "office", "max_tokens": 64, "base": "somewhere"}
WORDS = "embeddings.word_embeddings.weight"
FILES = ("card.json", "model.onnx", "tokenizer.json")
TEXTS = ["Write a letter to a person.", "how is the weather", "book a room in a hotel by the river"]


@pytest.fixture(scope="module")
def made() -> Weights:
    return random_weights()


@pytest.fixture(scope="module")
def exported(made: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "new" / "model"
    export(made, folder, CARD)
    return folder


def _card(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "card.json").read_bytes())


class TestExport:
    """What is written."""

    def test_the_same_weights_give_the_same_bytes(
        self, made: Weights, exported: Path, tmp_path: Path
    ) -> None:
        export(made, tmp_path, CARD)
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

    def test_other_weights_have_another_digest(self, exported: Path, tmp_path: Path) -> None:
        export(random_weights(seed=8), tmp_path, CARD)
        assert _card(tmp_path)["sha256"]["model.onnx"] != _card(exported)["sha256"]["model.onnx"]

    def test_int8_is_small_and_says_what_float_says(
        self, made: Weights, exported: Path, tmp_path: Path
    ) -> None:
        export(made, tmp_path, CARD, quantised=False)
        sizes = [(folder / "model.onnx").stat().st_size for folder in (exported, tmp_path)]
        assert sizes[0] < 0.4 * sizes[1]
        small, plain = (BundledEncoder(folder) for folder in (exported, tmp_path))
        cosines = (small.encode_documents(TEXTS) * plain.encode_documents(TEXTS)).sum(axis=1)
        assert cosines.min() > 0.98

    def test_a_cross_encoder_gives_its_logit_alone(self, tmp_path: Path) -> None:
        export(random_weights(cross_encoder=True), tmp_path, CARD)
        assert _card(tmp_path)["outputs"] == ["logit"]

    def test_a_word_whose_vector_is_nothing_stays_so(self, made: Weights, tmp_path: Path) -> None:
        words = made.tensors[WORDS].copy()
        words[0] = 0  # as transformers makes the row of [PAD]
        export(Weights({**made.tensors, WORDS: words}, made.heads, made.tokenizer), tmp_path, CARD)
        assert not restore(tmp_path).tensors[WORDS][0].any()

    def test_the_tokenizer_loses_the_padding_and_truncation_that_it_was_saved_with(
        self, made: Weights, exported: Path, tmp_path: Path
    ) -> None:
        tokenizer = Tokenizer.from_str(made.tokenizer.decode())
        tokenizer.enable_padding(length=32)
        tokenizer.enable_truncation(5)
        export(Weights(made.tensors, made.heads, tokenizer.to_str().encode()), tmp_path, CARD)
        written = (tmp_path / "tokenizer.json").read_bytes()
        assert written == (exported / "tokenizer.json").read_bytes()
        assert json.loads(written)["padding"] is json.loads(written)["truncation"] is None

    def test_without_the_extra_it_is_named(
        self, made: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "toolcrib.training.graph", None)
        with pytest.raises(MissingExtraError, match=r"export of a model .*toolcrib\[train\]"):
            export(made, tmp_path / "model", CARD)
        assert not (tmp_path / "model").exists()


def test_a_card_takes_more_facts_and_keeps_the_others(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "office", "pairs": 1}', encoding="utf-8")
    add_to_card(tmp_path, {"pairs": 2, "über": ["ja"]})
    assert _card(tmp_path) == {"name": "office", "pairs": 2, "über": ["ja"]}
    assert "über" in (tmp_path / "card.json").read_text(encoding="utf-8")


class TestReadingWeights:
    """Folders in the form of the hub."""

    def test_what_was_written_for_training_is_read_back(self, tmp_path: Path) -> None:
        made = weights()
        write_for_training(made, tmp_path)
        found = read_weights(tmp_path)
        assert found.heads == made.heads
        assert set(found.tensors) == set(made.tensors)
        for name, value in made.tensors.items():
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
        assert set(found.tensors) == set(weights(cross_encoder=True).tensors)
        assert {value.dtype for value in found.tensors.values()} == {np.dtype(np.float32)}
