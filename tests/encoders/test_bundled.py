"""The shipped model keeps the contract, sees clauses, and says what a broken folder lacks."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.encoders.conformance import DOCUMENTS, QUERIES, DenseEncoderContract
from tests.encoders.fastembed_folders import SHIPPED
from tests.encoders.tiny_bert import make_reranker
from toolcrib.encoders.onnx import DEFAULT_MODEL, BundledEncoder
from toolcrib.encoders.onnx import clauses
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.base import ClauseEncoder, DenseEncoder
from toolcrib.errors import EncoderError

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


def test_a_folder_without_a_card_is_refused_at_once(folder: Path) -> None:
    (folder / "card.json").unlink()
    with pytest.raises(EncoderError, match=r"card\.json cannot be read"):
        BundledEncoder(folder)


def test_a_card_of_another_width_than_the_model_is_refused(folder: Path) -> None:
    (folder / "card.json").write_text(json.dumps(CARD | {"dimensions": 5}))
    with pytest.raises(EncoderError, match=r"wanted \(1, 5\)"):
        BundledEncoder(folder).encode_query("x")


@pytest.mark.parametrize("text", ["x", "book a table, then text Ann"])
def test_a_reranker_is_no_encoder(tmp_path: Path, text: str) -> None:
    encoder = BundledEncoder(make_reranker(tmp_path))
    with pytest.raises(EncoderError, match=r"model\.onnx cannot be run: .*sentence_embedding"):
        encoder.encode_clauses(text)


def test_encoding_a_query_imports_neither_fastembed_nor_torch() -> None:
    script = (
        "import sys; from toolcrib.encoders.onnx import BundledEncoder;"
        "BundledEncoder().encode_query('x');"
        "print([m for m in ('fastembed', 'torch', 'qdrant_client') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


PIECES = [
    "Hi, ",
    "and ",
    "then ",
    "book a table ",
    ". ",
    "😀",
    "\ud83d",
    "\ude00",
    " \n",
    "é",
    "東京 ",
]
ANY_TEXT = st.text(st.characters()) | st.lists(st.sampled_from(PIECES)).map("".join)


class TestClauses:
    """A query that asks for several things has a vector for each of them, from one pass."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> BundledEncoder:
        return BundledEncoder()

    def test_the_shipped_encoder_sees_clauses_and_the_double_does_not(
        self, encoder: BundledEncoder
    ) -> None:
        assert isinstance(encoder, ClauseEncoder)
        assert not isinstance(DeterministicEncoder(), ClauseEncoder)

    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            pytest.param("book a table for two", 1, id="one"),
            pytest.param("book a table for two, then text Ann about it", 3, id="two"),
            pytest.param("Find the file. Mail it to Tom! And then delete it.", 4, id="three"),
            pytest.param("Hi, book a table for two", 1, id="a greeting is no clause"),
            pytest.param("Hi, book a table for two, then text Ann about it", 3, id="nor here"),
            pytest.param("find the file number %d. " * 9, 7, id="at most six"),
            pytest.param("half a \ud83d smile, then another \udc00 one", 3, id="lone surrogates"),
            pytest.param("", 1, id="empty"),
            pytest.param(" \n", 1, id="white space"),
        ],
    )
    def test_the_whole_query_comes_first_and_a_row_for_each_of_several_clauses(
        self, encoder: BundledEncoder, text: str, rows: int
    ) -> None:
        found = encoder.encode_clauses(text)
        assert found.shape == (rows, encoder.dimensions)
        assert found.dtype == np.float32
        assert np.array_equal(found[0], encoder.encode_query(text))

    @given(ANY_TEXT)
    def test_any_text_gives_unit_vectors_and_the_querys_own_first(
        self, encoder: BundledEncoder, text: str
    ) -> None:
        found = encoder.encode_clauses(text)
        assert len(found) == 1 or 3 <= len(found) <= 1 + len(clauses(text))
        assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
        assert np.array_equal(found[0], encoder.encode_query(text))

    @pytest.mark.parametrize("before", ["", "😀👩‍👩‍👧 東京 é: "])
    def test_a_clause_is_nearer_to_what_it_asks_for_than_the_whole_query(
        self, encoder: BundledEncoder, before: str
    ) -> None:
        wanted = encoder.encode_documents([DOCUMENTS[1], DOCUMENTS[14]])
        text = f"{before}list the open issues of a repository, then stop a timer"
        whole, *_, first, second = encoder.encode_clauses(text) @ wanted.T
        assert first[0] > whole[0] > second[0]
        assert second[1] > whole[1] > first[1]

    def test_a_clause_is_read_in_the_light_of_the_others(self, encoder: BundledEncoder) -> None:
        meant = encoder.encode_query("delete the report")
        report, heating = (
            encoder.encode_clauses(f"{first}, then delete it")[2]
            for first in ("mail the report to Anna", "turn on the heating")
        )
        assert report @ meant > heating @ meant + 0.1

    def test_a_clause_beyond_the_token_limit_has_no_row(self, folder: Path) -> None:
        (folder / "card.json").write_text(json.dumps(CARD | {"max_tokens": 13}))
        encoder = BundledEncoder(folder)
        within = "find the open file, then mail it to Tom, "
        found = encoder.encode_clauses(f"{within}then stop the timer")
        assert found.shape == (3, 384)
        assert np.array_equal(found, encoder.encode_clauses(f"{within}before you go home"))

    def test_where_only_one_clause_is_read_it_is_alone(self, folder: Path) -> None:
        found = BundledEncoder(folder).encode_clauses("find the open file, then mail it to Tom")
        assert found.shape == (1, 384)

    def test_a_hundred_thousand_characters_are_cut_not_refused(
        self, encoder: BundledEncoder
    ) -> None:
        found = encoder.encode_clauses("find the invoice of last month, and then pay it. " * 2_100)
        assert 3 <= len(found) <= 7

    @pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["a list"]])
    def test_what_is_no_text_is_refused(self, encoder: BundledEncoder, wrong: object) -> None:
        with pytest.raises(TypeError, match="text"):
            encoder.encode_clauses(wrong)  # type: ignore[arg-type]
