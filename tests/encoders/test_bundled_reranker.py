"""The bundled reranker keeps the contract, over a tiny model in the form that ships."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.encoders.test_cross_encoder import TEXTS, RerankerContract
from tests.encoders.tiny_bert import Shape, make_encoder, make_reranker, random_weights
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import make_reranker as wired
from toolcrib.encoders.onnx import BundledReranker
from toolcrib.encoders.onnx import open_model, read_card
from toolcrib.encoders.base import Reranker
from toolcrib.errors import EncoderError
from toolcrib.settings import EncoderSettings
from toolcrib.training.export import Weights, export

QUERY = "how warm is it"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reranker in int8, as it would ship."""
    folder = tmp_path_factory.mktemp("reranker") / "model"
    return make_reranker(folder, name="a-model", quantised=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reranker in a folder of its own, to be damaged."""
    return make_reranker(tmp_path / "model")


class TestBundledReranker(RerankerContract):
    """A cross-encoder on onnxruntime alone."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, shipped: Path) -> Reranker:
        return BundledReranker(shipped)

    def test_scores_come_in_the_order_given(self, reranker: Reranker) -> None:
        forth, back = reranker.score(QUERY, TEXTS), reranker.score(QUERY, TEXTS[::-1])
        assert np.array_equal(forth, back[::-1])
        assert len(set(forth.tolist())) == len(TEXTS)

    def test_a_score_is_the_same_bit_for_bit_alone_and_among_others(
        self, reranker: Reranker
    ) -> None:
        alone = [reranker.score(QUERY, [text])[0] for text in TEXTS]
        assert reranker.score(QUERY, TEXTS).tolist() == alone

    def test_a_score_is_the_logit_of_the_query_and_then_the_text(
        self, reranker: Reranker, shipped: Path
    ) -> None:
        model = open_model(shipped, read_card(shipped))
        query, text = (model.tokenizer.encode(part).ids for part in (QUERY, TEXTS[1]))
        pair = np.array([query + text[1:]])  # one mark begins both, and each has one at its end
        (logit,) = model.session.run(
            ["logit"], {"input_ids": pair, "attention_mask": np.ones_like(pair)}
        )
        assert reranker.score(QUERY, TEXTS[1:2]).tolist() == logit.tolist()

    def test_the_name_holds_the_digest_of_the_weights(
        self, reranker: Reranker, shipped: Path
    ) -> None:
        digest = hashlib.sha256((shipped / "model.onnx").read_bytes()).hexdigest()
        assert reranker.name == f"a-model@{digest[:12]}"

    def test_one_thread_gives_what_several_give(self, shipped: Path) -> None:
        one, four = (BundledReranker(shipped, threads=threads) for threads in (1, 4))
        assert np.array_equal(one.score(QUERY, TEXTS), four.score(QUERY, TEXTS))


def test_a_pair_beyond_the_token_limit_is_cut(tmp_path: Path) -> None:
    reranker = BundledReranker(make_reranker(tmp_path, Shape(tokens=8)))
    text = "one two three four five six"
    assert np.array_equal(reranker.score("go", [text]), reranker.score("go", [f"{text} seven"]))


def test_making_a_reranker_loads_no_model(folder: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).unlink()
    assert BundledReranker(folder).name.startswith("tiny@")


def test_no_texts_need_no_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    scores = BundledReranker(folder).score(QUERY, [])
    assert (scores.shape, scores.dtype) == ((0,), np.float32)


def test_a_folder_without_a_card_is_refused_at_once(folder: Path) -> None:
    (folder / "card.json").unlink()
    with pytest.raises(EncoderError, match=r"card\.json cannot be read"):
        BundledReranker(folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS])
def test_a_damaged_file_is_named(folder: Path, name: str, texts: list[str]) -> None:
    (folder / name).write_bytes(b"not what it should be")
    with pytest.raises(EncoderError, match=rf"{name} cannot be loaded"):
        BundledReranker(folder, threads=2).score(QUERY, texts)


def test_a_file_put_right_is_read_at_the_next_call(folder: Path) -> None:
    graph = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").unlink()
    reranker = BundledReranker(folder)
    with pytest.raises(EncoderError):
        reranker.score(QUERY, TEXTS)
    (folder / "model.onnx").write_bytes(graph)
    assert reranker.score(QUERY, TEXTS).shape == (len(TEXTS),)


def test_an_encoder_is_no_reranker(tmp_path: Path) -> None:
    reranker = BundledReranker(make_encoder(tmp_path))
    with pytest.raises(EncoderError, match=r"model\.onnx cannot be run: .*logit"):
        reranker.score(QUERY, TEXTS)


def test_a_score_that_is_no_number_is_refused(tmp_path: Path) -> None:
    made = random_weights(cross_encoder=True)
    spoilt = made.tensors | {"classifier.bias": np.array([np.nan], dtype=np.float32)}
    card = {"name": "spoilt", "max_tokens": 16}
    export(Weights(spoilt, made.heads, made.tokenizer), tmp_path, card, quantised=False)
    with pytest.raises(EncoderError, match=r"spoilt@.* gave NaN or infinity"):
        BundledReranker(tmp_path).score(QUERY, TEXTS)


def test_the_settings_may_name_its_folder(shipped: Path) -> None:
    settings = Settings(encoder=EncoderSettings(reranker=f"bundled:{shipped}"))
    reranker = wired(settings)
    assert isinstance(reranker, BundledReranker)
    assert reranker.name.startswith("a-model@")


def test_a_crib_asks_the_reranker_that_its_settings_name(shipped: Path) -> None:
    chosen = EncoderSettings(dense="deterministic", reranker=f"bundled:{shipped}")
    tools = [ToolSpec(name=f"tool_{at}", description=text) for at, text in enumerate(TEXTS)]
    with Crib.open(":memory:", settings=Settings(encoder=chosen)) as crib:
        crib.index_tools(*tools)
        hits = crib.find_tools(QUERY, k=3, explain=True, gate=False).tools
    texts = [f"{hit.name}: {hit.tool.description}" for hit in hits]
    words = [hit.legs["rerank"] for hit in hits]
    assert words == BundledReranker(shipped).score(QUERY, texts).tolist()
    assert len(words) == len(TEXTS)
