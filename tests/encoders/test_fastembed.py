"""fastembed keeps the contract, offline, over the shipped model's own files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.encoders.conformance import (
    DOCUMENTS,
    QUERIES,
    TEXTS,
    DenseEncoderContract,
    RerankerContract,
    cosines,
)
from tests.encoders.tiny_bert import SHIPPED
from toolcrib.encoders import fastembed as adapter
from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.encoders.fastembed import FastEmbedEncoder, FastEmbedReranker, open_named
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.encoders.registry import ModelName
from toolcrib.errors import EncoderError, MissingExtraError

fastembed = pytest.importorskip("fastembed", reason="the extra fastembed is not installed")


def lay_out(folder: Path, graph: str = "model.onnx") -> Path:
    """Make a folder that `fastembed:./folder` can name; returns it."""
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    (folder / graph).symlink_to(SHIPPED / "model.onnx")
    (folder / "tokenizer.json").symlink_to(SHIPPED / "tokenizer.json")
    tokenizer = {"model_max_length": 256, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped model as a fastembed folder of its own, to be damaged."""
    return lay_out(tmp_path / "my-model")


class TestFastEmbedEncoder(DenseEncoderContract):
    """fastembed over a local folder."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls, tmp_path_factory: pytest.TempPathFactory) -> DenseEncoder:
        return FastEmbedEncoder(str(lay_out(tmp_path_factory.mktemp("fastembed") / "my-model")))

    def test_it_agrees_with_the_bundled_encoder_on_the_same_files(
        self, encoder: DenseEncoder
    ) -> None:
        ours = BundledEncoder()
        for text in (*QUERIES, *DOCUMENTS):
            assert ours.encode_query(text) @ encoder.encode_query(text) > 0.9999
        both = ours.encode_documents(DOCUMENTS), encoder.encode_documents(DOCUMENTS)
        # Batches move dynamic int8; on the average text they agree to 0.99.
        assert cosines(*both).mean() >= 0.99


def test_the_graph_may_lie_in_a_folder_named_onnx(tmp_path: Path) -> None:
    encoder = FastEmbedEncoder(str(lay_out(tmp_path / "hub-like", "onnx/model.onnx")))
    assert encoder.dimensions == 384


def test_two_encoders_may_share_one_folder(folder: Path) -> None:
    one, two = FastEmbedEncoder(str(folder)), FastEmbedEncoder(str(folder), threads=1)
    assert np.allclose(one.encode_query("x"), two.encode_query("x"), atol=1e-5)
    assert one.name == two.name


def test_a_folder_is_known_by_its_name_and_its_content(folder: Path) -> None:
    before = FastEmbedEncoder(str(folder)).name
    (folder / "README.md").write_text("words move no vector")
    assert FastEmbedEncoder(str(folder)).name == before
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 8, "pad_token": "[PAD]"}')
    after = FastEmbedEncoder(str(folder)).name
    assert before.startswith("fastembed:my-model@")
    assert after.startswith("fastembed:my-model@")
    assert after != before


def test_prompts_noted_in_the_folder_are_set_before_the_texts(folder: Path) -> None:
    plain = FastEmbedEncoder(str(folder))
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prompted = FastEmbedEncoder(str(folder))
    assert np.array_equal(prompted.encode_query("x"), plain.encode_query("query: x"))
    assert np.array_equal(prompted.encode_documents(["x"]), plain.encode_documents(["passage: x"]))
    (folder / "config_sentence_transformers.json").write_text("{")
    with pytest.raises(EncoderError, match=r"config_sentence_transformers\.json"):
        FastEmbedEncoder(str(folder))


def test_a_listed_model_has_its_width_without_a_download() -> None:
    encoder = FastEmbedEncoder("BAAI/bge-small-en-v1.5")
    assert (encoder.dimensions, encoder.name) == (384, "fastembed:BAAI/bge-small-en-v1.5")
    assert FastEmbedEncoder("baai/BGE-base-en-v1.5").dimensions == 768


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("BAAI/bge-smal-en-v1.5", r"did you mean .*'BAAI/bge-small-en-v1.5'"),
        ("qqq", r"no model 'qqq'; for a folder, give its path"),
        ("./no-such-model", "there is no folder no-such-model"),
        (str(SHIPPED), "bundled:"),
    ],
)
def test_a_model_that_is_not_there_is_answered_with_what_to_write(model: str, told: str) -> None:
    with pytest.raises(EncoderError, match=told):
        FastEmbedEncoder(model).encode_query("x")


def test_without_a_network_the_error_comes_at_once_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.model_info", unreachable)
    encoder = FastEmbedEncoder("BAAI/bge-small-en-v1.5")
    with pytest.raises(EncoderError, match=r"no route to host.*fastembed:./FOLDER.*bundled"):
        encoder.encode_query("x")
    assert "ERROR" not in capfd.readouterr().err


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastembed", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[fastembed\]"):
        FastEmbedEncoder("BAAI/bge-small-en-v1.5")


def test_a_package_that_breaks_while_it_is_imported_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = FastEmbedEncoder(str(folder))
    monkeypatch.setitem(__import__("sys").modules, "fastembed", None)
    with pytest.raises(EncoderError, match=r"'fastembed' .*imported"):
        encoder.encode_query("x")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(EncoderError, match=f"has no {name}"):
        FastEmbedEncoder(str(folder)).encode_query("x")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).write_bytes(b"not what it should be")
    with pytest.raises(EncoderError, match=r"my-model.* cannot be loaded"):
        FastEmbedEncoder(str(folder)).encode_query("x")


def test_a_run_that_fails_names_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> Iterator[Any]:
        raise RuntimeError("no memory left")

    broken = SimpleNamespace(query_embed=failing, passage_embed=failing)
    monkeypatch.setattr(FastEmbedEncoder, "_load", lambda _: broken)
    encoder = FastEmbedEncoder(str(folder))
    with pytest.raises(EncoderError, match=r"my-model .*no memory"):
        encoder.encode_query("x")


class TestPooling:
    """How a graph's output becomes one vector a text."""

    @pytest.fixture
    def tokens_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder whose graph seems to give only one vector a token."""
        folder = lay_out(tmp_path / "tokens-first")
        monkeypatch.setattr(adapter, "_outputs", lambda _: [("last_hidden_state", 3)])
        (folder / "1_Pooling").mkdir()
        return folder

    @pytest.mark.parametrize(
        ("config", "pooling"),
        [
            ({"pooling_mode": "mean"}, "MEAN"),
            ({"pooling_mode": "lasttoken"}, "LAST_TOKEN"),
            ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "CLS"),
            ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "MEAN"),
            ({"pooling_mode_lasttoken": True}, "LAST_TOKEN"),
        ],
    )
    def test_it_is_read_from_the_folder(
        self,
        tokens_first: Path,
        monkeypatch: pytest.MonkeyPatch,
        config: dict[str, Any],
        pooling: str,
    ) -> None:
        (tokens_first / "1_Pooling" / "config.json").write_text(json.dumps(config))
        kind = _Kind(cached=True)
        monkeypatch.setattr(FastEmbedEncoder, "_kind", lambda _: kind)
        FastEmbedEncoder(str(tokens_first))._load_once()
        assert [each["pooling"].value for each in kind.added] == [pooling]

    @pytest.mark.parametrize("config", ["{}", '{"pooling_mode": ["cls", "mean"]}', None])
    def test_without_it_nothing_is_guessed(self, tokens_first: Path, config: str | None) -> None:
        if config is not None:
            (tokens_first / "1_Pooling" / "config.json").write_text(config)
        with pytest.raises(EncoderError, match="one vector for each token"):
            FastEmbedEncoder(str(tokens_first)).encode_query("x")

    def test_a_pooled_output_that_is_not_the_first_is_taken_by_its_name(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = FastEmbedEncoder(str(folder)).encode_query("x")
        other = lay_out(folder.parent / "other")
        outputs = [("token_embeddings", 3), ("sentence_embedding", 2)]
        monkeypatch.setattr(adapter, "_outputs", lambda _: outputs)
        assert np.allclose(FastEmbedEncoder(str(other)).encode_query("x"), expected, atol=1e-5)


class TestOpeningByName:
    """What is asked of fastembed for a model of its list."""

    def test_a_model_in_the_cache_is_opened_without_a_network(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("huggingface_hub.model_info", pytest.fail)
        opened = _Kind(cached=True)
        assert open_named(opened, ModelName("fastembed", "a/b"), 2) == "model"
        assert opened.asked == [{"local_files_only": True, "threads": 2}]

    @pytest.mark.parametrize("hub", ["a/b", None])
    def test_a_model_that_is_not_there_is_fetched(
        self, monkeypatch: pytest.MonkeyPatch, hub: str | None
    ) -> None:
        sources: list[str] = []
        monkeypatch.setattr("huggingface_hub.model_info", lambda name, **_: sources.append(name))
        opened = _Kind(cached=False, hub=hub)
        assert open_named(opened, ModelName("fastembed", "A/B"), None) == "model"
        assert opened.asked == [{"local_files_only": True, "threads": None}, {"threads": None}]
        assert sources == ([hub] if hub else [])

    def test_a_download_that_breaks_off_says_what_to_do(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("huggingface_hub.model_info", lambda *_, **__: None)
        opened = _Kind(cached=False, broken=True)
        with pytest.raises(EncoderError, match=r"broke off.*copy the model's folder"):
            open_named(opened, ModelName("fastembed", "a/b"), None)


class _Kind:
    """A stand-in for `TextEmbedding`, which lists one model and may have it or not."""

    def __init__(self, *, cached: bool, hub: str | None = "a/b", broken: bool = False) -> None:
        self.cached, self.hub, self.broken = cached, hub, broken
        self.asked: list[dict[str, Any]] = []
        self.added: list[dict[str, Any]] = []

    def add_custom_model(self, **options: Any) -> None:
        self.added.append(options)

    def list_supported_models(self) -> list[dict[str, Any]]:
        return [{"model": "a/b", "dim": 3, "sources": {"hf": self.hub}}]

    def __call__(self, _: str, **options: Any) -> str:
        self.asked.append(options)
        if self.broken or ("local_files_only" in options and not self.cached):
            raise ValueError("the download broke off")
        return "model"


class TestFastEmbedReranker(RerankerContract):
    """fastembed's cross-encoder over a graph that is there: its first output's first number."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
        return FastEmbedReranker(str(lay_out(tmp_path_factory.mktemp("reranker") / "a-model")))

    def test_a_damaged_graph_is_refused(self, tmp_path: Path) -> None:
        folder = lay_out(tmp_path / "damaged")
        (folder / "model.onnx").unlink()
        (folder / "model.onnx").write_bytes(b"no graph")
        with pytest.raises(EncoderError, match="damaged cannot be loaded"):
            FastEmbedReranker(str(folder)).score("x", TEXTS)

    def test_a_run_that_fails_names_the_model(self, tmp_path: Path) -> None:
        reranker = FastEmbedReranker(str(lay_out(tmp_path / "failing")))
        reranker._load_once = lambda: None  # type: ignore[assignment]
        with pytest.raises(EncoderError, match="failing cannot be run"):
            reranker.score("x", TEXTS)
