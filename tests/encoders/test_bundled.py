"""The shipped model keeps the contract, and a folder that is not whole says what it lacks."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.encoders.conformance import DOCUMENTS, QUERIES, DenseEncoderContract
from toolcrib.encoders import bundled
from toolcrib.encoders.bundled import DEFAULT_MODEL, MODELS, BundledEncoder
from toolcrib.encoders.protocols import DenseEncoder
from toolcrib.errors import EncoderError

SHIPPED = MODELS / DEFAULT_MODEL
CARD = {"name": "m", "dimensions": 384, "max_tokens": 8, "sha256": {"model.onnx": "ab" * 32}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped model in a folder of its own, to be damaged."""
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).symlink_to(SHIPPED / name)
    (tmp_path / "card.json").write_text(json.dumps(CARD))
    return tmp_path


class TestBundledEncoder(DenseEncoderContract):
    """The model inside the package."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> DenseEncoder:
        return BundledEncoder()

    def test_a_vector_is_the_same_bit_for_bit_alone_and_in_any_batch(
        self,
        encoder: DenseEncoder,
    ) -> None:
        alone = np.stack([encoder.encode_query(text) for text in DOCUMENTS])
        assert np.array_equal(encoder.encode_documents(DOCUMENTS), alone)

    def test_one_thread_gives_what_several_give(self, encoder: DenseEncoder) -> None:
        one = BundledEncoder(threads=1)
        four = BundledEncoder(threads=4).encode_documents(DOCUMENTS)
        assert np.array_equal(one.encode_documents(DOCUMENTS), four)

    def test_meaning_is_found_without_a_shared_word(self, encoder: DenseEncoder) -> None:
        rows = encoder.encode_documents(DOCUMENTS)
        best = [DOCUMENTS[int(np.argmax(rows @ encoder.encode_query(text)))] for text in QUERIES]
        assert best == [
            "Show the temperature of every room.",
            "Send an e-mail to one or more people, with a subject, a text and attached files.",
            "List the open issues of a repository, newest first.",
        ]

    def test_the_name_holds_the_digest_of_the_weights_that_ship(
        self,
        encoder: DenseEncoder,
    ) -> None:
        digest = hashlib.sha256((SHIPPED / "model.onnx").read_bytes()).hexdigest()
        assert encoder.name == f"{DEFAULT_MODEL}@{digest[:12]}"


def test_text_beyond_the_token_limit_changes_nothing(folder: Path) -> None:
    encoder = BundledEncoder(folder)
    short = encoder.encode_query("one two three four five six")
    assert np.array_equal(short, encoder.encode_query("one two three four five six seven eight"))


def test_making_an_encoder_loads_no_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    assert BundledEncoder(folder).dimensions == 384


def test_where_cores_cannot_be_asked_for_all_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(bundled.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(bundled.os, "cpu_count", lambda: None)
    assert BundledEncoder().encode_documents(DOCUMENTS[:2]).shape == (2, 384)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(EncoderError, match=name):
        BundledEncoder(folder).encode_query("x")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).write_bytes(b"not what it should be")
    with pytest.raises(EncoderError, match=name):
        BundledEncoder(folder).encode_documents(["x", "y"])


def test_a_file_put_right_is_read_at_the_next_call(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    encoder = BundledEncoder(folder)
    with pytest.raises(EncoderError):
        encoder.encode_query("x")
    (folder / "tokenizer.json").symlink_to(SHIPPED / "tokenizer.json")
    assert encoder.encode_query("x").shape == (384,)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "in another form"),
        (json.dumps(CARD | {"sha256": {}}), "model.onnx"),
        (json.dumps({key: CARD[key] for key in CARD if key != "dimensions"}), "dimensions"),
        (json.dumps(CARD | {"dimensions": "many"}), "cannot be read"),
    ],
)
def test_a_card_that_does_not_tell_enough_is_refused_at_once(
    folder: Path,
    content: str | None,
    fault: str,
) -> None:
    (folder / "card.json").unlink()
    if content is not None:
        (folder / "card.json").write_text(content)
    with pytest.raises(EncoderError, match=fault):
        BundledEncoder(folder)


def test_a_card_of_another_width_than_the_model_is_refused(folder: Path) -> None:
    (folder / "card.json").write_text(json.dumps(CARD | {"dimensions": 5}))
    with pytest.raises(EncoderError, match=r"wanted \(1, 5\)"):
        BundledEncoder(folder).encode_query("x")


def test_a_run_that_fails_names_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def run(self, *_: object) -> object:
            raise RuntimeError("no memory left")

    monkeypatch.setattr(bundled, "_open_session", lambda _: Failing())
    with pytest.raises(EncoderError, match=r"model.onnx cannot be run: no memory left"):
        BundledEncoder(folder).encode_query("x")


def test_encoding_a_query_imports_neither_fastembed_nor_torch() -> None:
    script = (
        "import sys; from toolcrib.encoders.bundled import BundledEncoder;"
        "BundledEncoder().encode_query('x');"
        "print([m for m in ('fastembed', 'torch', 'qdrant_client') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
