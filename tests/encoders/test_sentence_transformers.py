"""sentence-transformers keeps the contract where it is installed; its absence is told always."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.encoders.conformance import TEXTS, DenseEncoderContract, RerankerContract
from tests.encoders.tiny_bert import SHIPPED
from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.encoders.sentence_transformers import (
    SentenceTransformersEncoder,
    SentenceTransformersReranker,
)
from toolcrib.errors import EncoderError, MissingExtraError

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="the extra sentence-transformers (with torch) is not installed",
)


def _make_encoder(folder: Path, prompts: dict[str, str]) -> Path:
    """A two-layer BERT with mean pooling, saved as sentence-transformers does; returns it."""
    library: Any = importlib.import_module("sentence_transformers")
    transformers: Any = importlib.import_module("transformers")
    plain = _save(folder / "plain", transformers.BertModel, transformers)
    model = library.SentenceTransformer(str(plain), prompts=prompts, device="cpu")
    model.save(str(folder / "model"))
    return folder / "model"


def _make_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A two-layer BERT that classifies pairs; returns its folder."""
    transformers: Any = importlib.import_module("transformers")
    return _save(folder, transformers.BertForSequenceClassification, transformers, labels)


def _save(folder: Path, kind: Any, transformers: Any, labels: int = 1) -> Path:
    importlib.import_module("torch").manual_seed(7)
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=256,
        initializer_range=0.5,  # random weights must tell texts apart
        num_labels=labels,
    )
    kind(config).eval().save_pretrained(str(folder))
    (folder / "tokenizer.json").write_bytes((SHIPPED / "tokenizer.json").read_bytes())
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 256,
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@needs_package
class TestSentenceTransformersEncoder(DenseEncoderContract):
    """A tiny model with random weights, really run by the library."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls, tmp_path_factory: pytest.TempPathFactory) -> DenseEncoder:
        prompts = {"query": "", "document": ""}
        folder = _make_encoder(tmp_path_factory.mktemp("encoder"), prompts)
        return SentenceTransformersEncoder(str(folder), device="cpu")


@needs_package
def test_the_models_own_prompts_are_set_before_queries_and_documents(tmp_path: Path) -> None:
    folder = _make_encoder(tmp_path, {"query": "query: ", "document": "passage: "})
    encoder = SentenceTransformersEncoder(str(folder), device="cpu")
    unprompted = {"query": "", "document": ""}
    plain = SentenceTransformersEncoder(str(_make_encoder(tmp_path / "plain", unprompted)))
    text = "list issues"
    assert np.allclose(encoder.encode_query(text), plain.encode_query(f"query: {text}"), atol=1e-5)
    assert np.allclose(
        encoder.encode_documents([text]), plain.encode_documents([f"passage: {text}"]), atol=1e-5
    )


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[sentence-transformers\]"):
        SentenceTransformersEncoder("some/model")


class _Model:
    """A stand-in for the library's class, which answers what it is told to."""

    answer: Any = np.array([[3.0, 4.0]])

    def __init__(self, location: str, device: str | None = None) -> None:
        if location == "not/there":
            raise OSError("couldn't connect to the hub")
        self.asked: list[tuple[str, list[str]]] = []
        self.device = device

    def encode_query(self, texts: list[str], **options: Any) -> Any:
        assert options["normalize_embeddings"]
        assert not options["show_progress_bar"]
        self.asked.append(("query", texts))
        return self._answer()

    def encode_document(self, texts: list[str], **_: Any) -> Any:
        self.asked.append(("document", texts))
        return np.repeat(self._answer(), len(texts), axis=0)

    def predict(self, pairs: list[tuple[str, str]], **options: Any) -> Any:
        assert pairs == [("x", text) for text in TEXTS]
        assert options["activation_fn"](3.0) == 3.0
        return self._answer()

    def _answer(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestOverAStandIn:
    """What the adapter itself does, whatever the library is."""

    @pytest.fixture
    def library(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        module = ModuleType("sentence_transformers")
        module.__spec__ = ModuleSpec("sentence_transformers", None)
        module.SentenceTransformer = _Model  # type: ignore[attr-defined]
        module.CrossEncoder = _Model  # type: ignore[attr-defined]
        module.__version__ = "4.1.0"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "sentence_transformers", module)
        return module

    def test_vectors_are_scaled_to_unit_length(self, library: ModuleType) -> None:
        encoder = SentenceTransformersEncoder("a/b")
        assert encoder.encode_documents([]).shape == (0, encoder.dimensions) == (0, 2)
        assert encoder.encode_query("x").tolist() == pytest.approx([0.6, 0.8])
        assert encoder.encode_documents(["x", "y"]).tolist() == [pytest.approx([0.6, 0.8])] * 2

    def test_a_model_that_cannot_be_fetched_says_what_to_do(self, library: ModuleType) -> None:
        encoder = SentenceTransformersEncoder("not/there")
        assert encoder.name == "sentence-transformers:not/there"
        with pytest.raises(EncoderError, match=r"couldn't connect.*FOLDER.*bundled"):
            encoder.encode_query("x")

    @pytest.mark.parametrize(
        ("answer", "fault"),
        [
            (RuntimeError("out of memory"), "cannot be run: out of memory"),
            (np.array([[np.nan, 1.0]]), "NaN"),
            (np.array([[np.inf, 1.0]]), "infinity"),
            (np.array([[0.0, 0.0]]), "zero vector"),
            (np.array([[[1.0, 0.0]]]), "shape"),
        ],
    )
    def test_what_is_no_usable_vector_is_refused(
        self, library: ModuleType, monkeypatch: pytest.MonkeyPatch, answer: Any, fault: str
    ) -> None:
        monkeypatch.setattr(_Model, "answer", answer)
        with pytest.raises(EncoderError, match=fault):
            SentenceTransformersEncoder("a/b").encode_query("x")

    def test_a_library_older_than_five_is_named_with_its_version(self, library: ModuleType) -> None:
        library.SentenceTransformer = type("Old", (), {})  # type: ignore[attr-defined]
        with pytest.raises(EncoderError, match=r"has version 4\.1\.0; 5 or later is needed"):
            SentenceTransformersEncoder("a/b").encode_query("x")

    @pytest.mark.parametrize(
        ("answer", "fault"),
        [
            (RuntimeError("out of memory"), "cannot be run: out of memory"),
            (np.array([0.0, np.nan, 1.0]), "NaN"),
            (np.zeros((3, 2)), "several classes"),
            (np.zeros(2), "shape"),
        ],
    )
    def test_what_is_no_usable_score_is_refused(
        self, library: ModuleType, monkeypatch: pytest.MonkeyPatch, answer: Any, fault: str
    ) -> None:
        monkeypatch.setattr(_Model, "answer", answer)
        with pytest.raises(EncoderError, match=fault):
            SentenceTransformersReranker("a/b").score("x", TEXTS)


@needs_package
class TestSentenceTransformersReranker(RerankerContract):
    """A tiny model with random weights, really run by the library."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
        folder = _make_cross_encoder(tmp_path_factory.mktemp("reranker") / "a-model")
        return SentenceTransformersReranker(str(folder), device="cpu")

    def test_scores_are_logits_not_squeezed_into_zero_to_one(self, reranker: Reranker) -> None:
        library: Any = importlib.import_module("sentence_transformers")
        folder = reranker._model.location  # type: ignore[attr-defined]
        pairs = [("how warm is it", text) for text in TEXTS]
        squeezed = library.CrossEncoder(folder, device="cpu").predict(pairs)
        logits = reranker.score("how warm is it", TEXTS)
        assert np.allclose(1 / (1 + np.exp(-logits)), squeezed, atol=1e-5)

    def test_a_classifier_of_several_classes_is_no_reranker(self, tmp_path: Path) -> None:
        folder = _make_cross_encoder(tmp_path / "classifier", labels=3)
        with pytest.raises(EncoderError, match="several classes"):
            SentenceTransformersReranker(str(folder), device="cpu").score("x", TEXTS)
