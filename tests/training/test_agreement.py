"""An export is trusted when it says what was trained, and refused when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.tiny import SHAPE, base, jargon, weights
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import TrainingError
from toolcrib.training.agreement import agreement
from toolcrib.training.examples import Example, TrainingData, from_labels
from toolcrib.training.export import export, read_weights
from toolcrib.training.negatives import mine

CARD = {"name": "office", "max_tokens": SHAPE.tokens}
TEXTS = (
    "river " * 20 + "silver " * 99,
    "castle " * 20 + "horse " * 99,
    "metal " * 20 + "uncle " * 99,
)
LONG = TrainingData(
    TEXTS,
    tuple(Example(TEXTS[at], at, frozenset({at}), "toy", ((at + 1) % 3,)) for at in range(3)),
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
    export(read_weights(encoder), tmp_path, CARD)
    found = agreement("encoder", encoder, tmp_path, data)
    assert set(found) == {"cosine_mean", "cosine_min"}
    assert 0.98 < found["cosine_min"] <= found["cosine_mean"] <= 1.001


def test_a_rerankers_export_orders_texts_as_it_does(
    reranker: Path, data: TrainingData, tmp_path: Path
) -> None:
    export(read_weights(reranker), tmp_path, CARD)
    found = agreement("reranker", reranker, tmp_path, data)
    assert set(found) == {"correlation"}
    assert 0.98 < found["correlation"] <= 1.001


def test_an_encoders_export_of_other_weights_is_refused(
    encoder: Path, data: TrainingData, tmp_path: Path
) -> None:
    export(weights(seed=8), tmp_path, CARD)
    with pytest.raises(TrainingError, match="does not agree") as refused:
        agreement("encoder", encoder, tmp_path, data)
    assert f"sentence-transformers:{encoder}" in str(refused.value)


def test_a_rerankers_export_of_other_weights_is_refused(
    reranker: Path, data: TrainingData, tmp_path: Path
) -> None:
    export(weights(cross_encoder=True, seed=8), tmp_path, CARD)
    with pytest.raises(TrainingError, match="correlation"):
        agreement("reranker", reranker, tmp_path, data)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_reranker_that_finds_all_texts_alike_is_refused(
    reranker: Path, data: TrainingData, tmp_path: Path
) -> None:
    made = read_weights(reranker)
    made.tensors["classifier.weight"][:] = 0
    export(made, tmp_path, CARD)
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
        export(read_weights(tmp_path / "trained"), tmp_path / "exported", CARD)
        found = agreement("encoder", tmp_path / "trained", tmp_path / "exported", LONG)
        assert found["cosine_min"] > 0.98

    def test_a_reranker_that_was_trained_on_their_beginnings(
        self, reranker: Path, tmp_path: Path
    ) -> None:
        from sentence_transformers.cross_encoder import CrossEncoder

        model = CrossEncoder(str(reranker), max_length=16, device="cpu")
        model.save_pretrained(str(tmp_path / "trained"))
        export(read_weights(tmp_path / "trained"), tmp_path / "exported", CARD)
        found = agreement("reranker", tmp_path / "trained", tmp_path / "exported", LONG)
        assert found["correlation"] > 0.98
