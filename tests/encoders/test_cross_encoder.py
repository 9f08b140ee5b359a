"""Rerankers give one finite logit a text, in order, or say what is wrong."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.encoders.fastembed_folders import lay_out
from tests.encoders.tiny_torch import make_cross_encoder
from toolcrib.encoders.cross_encoder import FastEmbedReranker, SentenceTransformersReranker
from toolcrib.encoders.base import Reranker
from toolcrib.errors import EncoderError, MissingExtraError, SettingsError

TEXTS = ["Send an e-mail.", "Show the temperature of every room of the house.", "Stop a timer."]
needs_package = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="the extra sentence-transformers (with torch) is not installed",
)


class RerankerContract:
    """What every reranker must do; the subclass supplies the fixture `reranker`."""

    def test_every_text_gets_one_finite_float32_score(self, reranker: Reranker) -> None:
        scores = reranker.score("how warm is it", TEXTS)
        assert scores.shape == (3,)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()

    def test_no_texts_get_no_scores(self, reranker: Reranker) -> None:
        assert reranker.score("x", []).shape == (0,)

    def test_scores_keep_the_order_of_the_texts(self, reranker: Reranker) -> None:
        forth = reranker.score("how warm is it", TEXTS)
        back = reranker.score("how warm is it", TEXTS[::-1])
        assert np.allclose(forth, back[::-1], atol=0.05)

    def test_the_query_counts(self, reranker: Reranker) -> None:
        one, other = (reranker.score(query, TEXTS[:1])[0] for query in ("mail", "weather"))
        assert one != other

    @pytest.mark.parametrize("text", ["", "\x00", "\ud800", "東京 👩‍👩‍👧", "word " * 20_000])
    def test_any_text_gets_a_finite_score(self, reranker: Reranker, text: str) -> None:
        assert np.isfinite(reranker.score(text[:2_000], [text])).all()

    def test_what_is_no_text_is_refused(self, reranker: Reranker) -> None:
        with pytest.raises(TypeError, match="text"):
            reranker.score(None, TEXTS)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="list of texts"):
            reranker.score("x", "one text")

    def test_it_has_a_name(self, reranker: Reranker) -> None:
        assert "model@" in reranker.name


class TestFastEmbedReranker(RerankerContract):
    """fastembed's cross-encoder over a graph that is there: its first output's first number."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
        pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
        return FastEmbedReranker(str(lay_out(tmp_path_factory.mktemp("reranker") / "a-model")))

    def test_two_rerankers_may_share_one_folder(self, tmp_path: Path) -> None:
        folder = str(lay_out(tmp_path / "shared"))
        one, two = FastEmbedReranker(folder), FastEmbedReranker(folder, threads=1)
        assert np.allclose(one.score("x", TEXTS), two.score("x", TEXTS), atol=1e-5)

    def test_without_the_package_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "fastembed", None)
        with pytest.raises(MissingExtraError, match=r"toolcrib\[fastembed\]"):
            FastEmbedReranker("Xenova/ms-marco-MiniLM-L-6-v2")

    def test_no_model_at_all_is_a_fault_of_the_settings(self) -> None:
        with pytest.raises(SettingsError, match="fastembed:NAME"):
            FastEmbedReranker("")

    def test_a_misspelled_model_is_answered_with_its_neighbours(self) -> None:
        with pytest.raises(EncoderError, match="'Xenova/ms-marco-MiniLM-L-6-v2'"):
            FastEmbedReranker("Xenova/ms-marco-MiniLM-L6-v2").score("x", TEXTS)

    def test_without_a_network_the_error_says_what_to_do(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def unreachable(*_: object, **__: object) -> None:
            raise OSError("no route to host")

        monkeypatch.setattr("huggingface_hub.model_info", unreachable)
        reranker = FastEmbedReranker("Xenova/ms-marco-MiniLM-L-6-v2", cache=tmp_path)
        with pytest.raises(EncoderError, match="cannot be fetched"):
            reranker.score("x", TEXTS)

    def test_a_damaged_graph_is_refused(self, tmp_path: Path) -> None:
        folder = lay_out(tmp_path / "damaged")
        (folder / "model.onnx").unlink()
        (folder / "model.onnx").write_bytes(b"no graph")
        with pytest.raises(EncoderError, match="damaged cannot be loaded"):
            FastEmbedReranker(str(folder)).score("x", TEXTS)

    def test_a_run_that_fails_names_the_model(self, tmp_path: Path) -> None:
        reranker = FastEmbedReranker(str(lay_out(tmp_path / "failing")))
        reranker._loaded = lambda: None  # type: ignore[assignment]
        with pytest.raises(EncoderError, match="failing cannot score"):
            reranker.score("x", TEXTS)


@needs_package
class TestSentenceTransformersReranker(RerankerContract):
    """A tiny model with random weights, really run by the library."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
        folder = make_cross_encoder(tmp_path_factory.mktemp("reranker") / "a-model")
        return SentenceTransformersReranker(str(folder), device="cpu")

    def test_scores_are_logits_not_squeezed_into_zero_to_one(self, reranker: Reranker) -> None:
        library: Any = importlib.import_module("sentence_transformers")
        folder = reranker._model.location  # type: ignore[attr-defined]
        pairs = [("how warm is it", text) for text in TEXTS]
        squeezed = library.CrossEncoder(folder, device="cpu").predict(pairs)
        logits = reranker.score("how warm is it", TEXTS)
        assert np.allclose(1 / (1 + np.exp(-logits)), squeezed, atol=1e-5)

    def test_a_classifier_of_several_classes_is_no_reranker(self, tmp_path: Path) -> None:
        folder = make_cross_encoder(tmp_path / "classifier", labels=3)
        with pytest.raises(EncoderError, match="classifier of several classes"):
            SentenceTransformersReranker(str(folder), device="cpu").score("x", TEXTS)


class _CrossEncoder:
    """A stand-in for the library's class, which answers what it is told to."""

    answer: Any = np.array([0.5, -2.0, 1.0])

    def __init__(self, location: str, device: str | None = None) -> None:
        self.location, self.device = location, device

    def predict(self, pairs: list[tuple[str, str]], **options: Any) -> Any:
        assert pairs == [("x", text) for text in TEXTS]
        assert options["activation_fn"](3.0) == 3.0
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestOverAStandIn:
    """What the adapter of sentence-transformers itself does, whatever the library is."""

    @pytest.fixture(autouse=True)
    def library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = ModuleType("sentence_transformers")
        module.__spec__ = ModuleSpec("sentence_transformers", None)
        module.CrossEncoder = _CrossEncoder  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "sentence_transformers", module)

    def test_pairs_of_query_and_text_are_scored_as_they_are(self) -> None:
        reranker = SentenceTransformersReranker("a/b")
        assert reranker.score("x", TEXTS).tolist() == [0.5, -2.0, 1.0]
        assert reranker.score("x", []).shape == (0,)
        assert reranker.name == "sentence-transformers:a/b"

    @pytest.mark.parametrize(
        ("answer", "fault"),
        [
            (RuntimeError("out of memory"), "cannot score: out of memory"),
            (np.array([0.0, np.nan, 1.0]), "NaN"),
            (np.zeros((3, 2)), "several classes"),
            (np.zeros(2), "shape"),
        ],
    )
    def test_what_is_no_usable_score_is_refused(
        self,
        monkeypatch: pytest.MonkeyPatch,
        answer: Any,
        fault: str,
    ) -> None:
        monkeypatch.setattr(_CrossEncoder, "answer", answer)
        with pytest.raises(EncoderError, match=fault):
            SentenceTransformersReranker("a/b").score("x", TEXTS)

    def test_without_the_package_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(MissingExtraError, match=r"toolcrib\[sentence-transformers\]"):
            SentenceTransformersReranker("a/b")
